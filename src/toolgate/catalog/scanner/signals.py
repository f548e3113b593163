"""The signals of sentences that steer a model, read from `signals.toml`."""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, Literal, cast

from toolgate.catalog.scanner.rules import expression, has_needed_word

Group = Literal["thing", "directive", "cover", "mark"]


@dataclass(frozen=True, kw_only=True)
class Signal:
    """A weak sign: a sentence is suspicious if several occur together."""

    id: str
    """A stable id."""

    group: Group
    """Its group; signals of the same group do not confirm each other."""

    weight: float
    """Its weight."""

    says: str
    """Description of what the sentence mentions."""

    patterns: tuple[re.Pattern[str], ...] = ()
    """At least one of them matches the sentence."""

    unless: re.Pattern[str] | None = None
    """Excludes sentences that match."""

    needs: tuple[str, ...] = ()
    """Every matching text contains one of these in lower case; empty: unknown."""

    later: bool = False
    """Whether to skip the first sentence of a text, in which a tool says what it does."""

    def is_in(self, sentence: str, lowered: str) -> bool:
        """Whether a plain sentence has it; `lowered` is the sentence in lower case."""
        return (
            self.may_be_in(lowered)
            and any(pattern.search(sentence) for pattern in self.patterns)
            and not (self.unless and self.unless.search(sentence))
        )

    def may_be_in(self, lowered: str) -> bool:
        """Whether a lower-case text can have it; fast."""
        return has_needed_word(lowered, self.needs)


OTHER_TOOL: Final = Signal(
    id="other-tool", group="thing", weight=0.95, says="a tool of another server"
)
"""A signal that no expression can find, since it depends on the configured servers."""

OTHER_SERVER: Final = Signal(id="other-server", group="thing", weight=0.6, says="another server")

ASIDE: Final = Signal(id="aside", group="mark", weight=0.25, says="a field for values or labels")
"""The sentence is among values, labels or comments of a schema."""


@lru_cache(maxsize=1)
def load_signals() -> tuple[Signal, ...]:
    """Return the signals that ship with Toolgate."""
    text = files("toolgate.catalog.scanner").joinpath("signals.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    phrases = cast("dict[str, str]", table["phrases"])
    return tuple(
        Signal(
            id=row["id"],
            group=row["group"],
            weight=float(row["weight"]),
            says=row["says"],
            patterns=(
                expression("|".join(f"(?:{alternative})" for alternative in row["any"]), phrases),
            ),
            unless=expression(row["unless"], phrases) if "unless" in row else None,
            needs=tuple(row.get("needs", ())),
            later=bool(row.get("later", False)),
        )
        for row in cast("list[dict[str, Any]]", table["signal"])
    )
