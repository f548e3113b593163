"""Argument specs with compiled expressions, compiled once per reader."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from toolgate.intents.arguments.expressions import (
    COUNTED,
    COUNTS,
    FILLER,
    NAMED,
    NO_WORDS,
    NUMBERED,
    WITH,
    WITHOUT,
    YES_WORDS,
)
from toolgate.intents.base import ArgumentSpec
from toolgate.intents.phrases import Phrase, compile_phrase
from toolgate.intents.text import fold

_VERBS: Final = frozenset(
    [
        "include",
        "includes",
        "show",
        "with",
        "is",
        "has",
        "enable",
        "enabled",
        "use",
        "only",
        "allow",
    ]
)
"""Words in the name of a switch that say nothing about what it switches."""


@dataclass(frozen=True)
class PreparedSpec:
    """A spec with its compiled expressions."""

    spec: ArgumentSpec
    """The spec."""
    phrases: tuple[Phrase, ...]
    """Its patterns, for names."""
    value_of: Mapping[str, str]
    """The value for each folded word."""
    values: re.Pattern[str] | None
    """Matches any value of a choice, or of a name without patterns; None for others."""
    words: str
    """The words that announce the value, as alternatives of a regular expression."""
    patterns: tuple[re.Pattern[str], ...]
    """The patterns that its reader looks for, best first."""


def prepare_spec(spec: ArgumentSpec, lists: Mapping[str, Iterable[str]]) -> PreparedSpec:
    """Compile the expressions of a spec.

    Args:
        spec: How the parameter is filled.
        lists: Lists that its phrases may refer to.

    Raises:
        ValueError: A phrase is invalid.
    """
    value_of: dict[str, str] = {}
    for value, synonyms in spec.values.items():
        split = (value.replace(sign, blank) for sign in "_-" for blank in (" ", ""))
        for word in (value, *split, *synonyms):
            folded = fold(word).text.strip()
            if folded:
                # The first value that claims a word gets it, so the order in the file decides.
                value_of.setdefault(folded, value)
    words = spec.words or (
        () if spec.kind == "count" else (spec.name, " ".join(name_words(spec.name)))
    )
    # A switch such as `include_drafts` is also announced by `drafts`. Single words of one or two
    # letters are too common to announce anything (chosen).
    if spec.kind == "boolean":
        bare = " ".join(word for word in name_words(spec.name) if word not in _VERBS)
        words = (*words, *([bare] if len(bare) > 2 else []))
    announced = alternatives(fold(word).text for word in words)
    return PreparedSpec(
        spec=spec,
        phrases=tuple(compile_phrase(source, lists) for source in spec.patterns),
        value_of=value_of,
        values=re.compile(rf"(?<![\w-])(?:{alternatives(value_of)})(?![\w-])")
        if value_of and (spec.kind == "choice" or _is_only_known(spec))
        else None,
        words=announced,
        patterns=_patterns(spec, announced),
    )


def _is_only_known(spec: ArgumentSpec) -> bool:
    """Whether a name can only be one of the values that the pack lists."""
    return spec.kind == "name" and not spec.patterns and not spec.live


def _patterns(spec: ArgumentSpec, words: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns that the reader of a kind looks for."""
    patterns: list[str] = []
    if spec.kind == "count":
        named = alternatives((fold(spec.name).text, " ".join(name_words(spec.name))))
        patterns = [*(pattern.pattern for pattern in COUNTS)]
        # A count announced by its own name is more certain than the general words for a limit.
        patterns.insert(2, rf"(?<!\w)(?:{named})(?:\s+(?:of|to|is))?\s*[:=]?\s*{COUNTED}")
        if words:
            patterns.append(rf"(?<![\w.,:/#-]){COUNTED}\s+(?:[a-z]+\s+){{0,2}}?(?:{words})(?!\w)")
    elif spec.kind in {"integer", "number"} and words:
        number = r"(?P<value>-?\d{1,15}(?:[.]\d{1,15})?)(?![\w]|[.,:/-]\d)"
        patterns = [
            rf"(?<!\w)(?:{words}){NUMBERED}{NAMED}{number}",
            rf"(?<![\w.,:/-]){number}\s+(?:{words})(?!\w)",
        ]
    elif spec.kind == "boolean" and words:
        answers = "|".join(sorted(YES_WORDS | NO_WORDS, key=lambda word: -len(word)))
        verb = r"\s*(?:is|ist|est|es|=|:)?\s*"
        patterns = [
            rf"(?<!\w)(?:{words}){verb}(?P<said>{answers})(?!\w)",
            rf"(?<!\w)(?:{WITHOUT})\s+{FILLER}(?:{words})(?!\w)",
            rf"(?<!\w)(?:{WITH})\s+{FILLER}(?:{words})(?!\w)",
        ]
        # A bare word switches on only if the pack declares it; words from a name are too common.
        if spec.words:
            patterns.append(rf"(?<!\w)(?:{words})(?!\w)")
    return tuple(re.compile(pattern) for pattern in patterns)


def name_words(name: str) -> list[str]:
    """Return the words in the name of a parameter, in camelCase or snake_case."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return fold(re.sub(r"[_\W]+", " ", split)).text.split()


def alternatives(words: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first."""
    plain = sorted({word for word in words if word}, key=lambda word: (-len(word), word))
    return "|".join(r"\s+".join(map(re.escape, word.split())) for word in plain)
