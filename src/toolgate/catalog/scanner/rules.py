"""The rules of the scanner, read from `rules.toml`."""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, cast

from toolgate.errors import SettingError

_KEYS: Final = frozenset({"id", "says", "weight", "any", "unless", "needs", "in_names"})


@dataclass(frozen=True, kw_only=True)
class ScanRule:
    """A pattern that honest descriptions of tools do not have."""

    id: str
    """A stable id; findings and settings use it."""

    says: str
    """What the text does, as the end of a sentence that begins with "It"."""

    weight: float
    """Its weight; findings that sum to 1 quarantine a tool."""

    patterns: tuple[re.Pattern[str], ...]
    """At least one of them matches."""

    unless: tuple[re.Pattern[str], ...] = ()
    """None of these matches within the same sentence."""

    needs: tuple[str, ...] = ()
    """Every matching text contains one of these in lower case; empty: unknown."""

    in_names: bool = False
    """Whether names of parameters are searched, too."""

    def search(self, text: str, lowered: str) -> re.Match[str] | None:
        """Return the first match in a plain text; `lowered` is the text in lower case."""
        if not has_needed_word(lowered, self.needs):
            return None
        for pattern in self.patterns:
            for match in pattern.finditer(text):
                if not any(exception.search(_sentence(text, match)) for exception in self.unless):
                    return match
        return None


def has_needed_word(lowered: str, needs: tuple[str, ...]) -> bool:
    """Whether a lower-case text has one of the needed words, if there are any; fast."""
    # A loop, since this is called very often: `any` with a generator takes twice as long.
    for word in needs:
        if word in lowered:
            return True
    return not needs


def _sentence(text: str, match: re.Match[str]) -> str:
    begin = max(text.rfind(mark, 0, match.start()) for mark in (".", "\n", "!", "?")) + 1
    ends = [at for mark in (". ", "\n", "!", "?") if (at := text.find(mark, match.end())) >= 0]
    return text[begin : min(ends, default=len(text))]


@lru_cache(maxsize=1)
def load_rules() -> tuple[ScanRule, ...]:
    """Return the rules that ship with Toolgate.

    Raises:
        SettingError: The file of rules is damaged.
    """
    text = files("toolgate.catalog.scanner").joinpath("rules.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    phrases = cast("dict[str, str]", table["phrases"])
    return tuple(_rule(row, phrases) for row in cast("list[dict[str, Any]]", table["rule"]))


def _rule(row: dict[str, Any], phrases: dict[str, str]) -> ScanRule:
    unknown = row.keys() - _KEYS
    if unknown:
        raise SettingError(
            f"Rule {row.get('id')!r} of the scanner has an unknown key: {min(unknown)!r}.",
            allowed=f"Allowed: {', '.join(sorted(_KEYS))}.",
            hint="Install Toolgate again; its file of rules is damaged.",
        )
    return ScanRule(
        id=row["id"],
        says=row["says"],
        weight=float(row.get("weight", 1)),
        patterns=tuple(expression(pattern, phrases) for pattern in row["any"]),
        unless=tuple(expression(pattern, phrases) for pattern in row.get("unless", ())),
        needs=tuple(row.get("needs", ())),
        in_names=bool(row.get("in_names", False)),
    )


def expression(source: str, phrases: dict[str, str]) -> re.Pattern[str]:
    """Compile a rule's expression; `{name}` is replaced by a phrase, a space matches any."""
    full = source
    while match := re.search(r"\{([a-z_]+)\}", full):
        full = full[: match.start()] + f"(?:{phrases[match[1]]})" + full[match.end() :]
    return re.compile(full.replace(" ", r"\s+"), re.IGNORECASE)
