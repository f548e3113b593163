"""The signals of sentences that steer a model, read from `signals.toml`."""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, Literal, cast

from toolgate.catalog.scanner.rules import expression, has_needed_word

__all__ = ["ASIDE", "OTHER_SERVER", "OTHER_TOOL", "Group", "Signal", "load_signals"]

Group = Literal["thing", "directive", "cover", "mark"]


@dataclass(frozen=True, kw_only=True)
class Signal:
    """Something that alone says little: a sentence is suspicious when several come together."""

    id: str
    """Stable."""

    group: Group
    """What it is a sign of; signals of one group are no evidence for each other."""

    weight: float
    """How much it counts."""

    says: str
    """What the sentence names, for people."""

    patterns: tuple[re.Pattern[str], ...] = ()
    """One of them is in the sentence."""

    unless: re.Pattern[str] | None = None
    """A sentence in which this is does not have it."""

    needs: tuple[str, ...] = ()
    """One of these is in every text, in small letters, in which it can be; empty: unknown."""

    later: bool = False
    """Whether the first sentence of a text, in which a tool says what it does, is left out."""

    def is_in(self, sentence: str, lowered: str) -> bool:
        """Whether a plain sentence has it; `lowered` is that in small letters."""
        return (
            self.may_be_in(lowered)
            and any(pattern.search(sentence) for pattern in self.patterns)
            and not (self.unless and self.unless.search(sentence))
        )

    def may_be_in(self, lowered: str) -> bool:
        """Whether a text in small letters can have it; quick."""
        return has_needed_word(lowered, self.needs)


OTHER_TOOL: Final = Signal(
    id="other-tool", group="thing", weight=0.95, says="a tool of another server"
)
"""What no expression can tell: it depends on the servers there are."""

OTHER_SERVER: Final = Signal(id="other-server", group="thing", weight=0.6, says="another server")

ASIDE: Final = Signal(id="aside", group="mark", weight=0.25, says="a field for values or labels")
"""It stands among values, labels or comments of a schema."""


@lru_cache(maxsize=1)
def load_signals() -> tuple[Signal, ...]:
    """The signals that come with Toolgate."""
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
