"""Compile the phrases of packs: words, choices, gaps and placeholders.

| in a phrase | stands for |
|---|---|
| `last|top` | one of these words |
| `[the|our]` | one of these words, or none |
| `...` | up to three words of the same sentence |
| `{number}` | digits, or a word from two to a hundred |
| `{date}` | a date or date range |
| `{name}` | a word or a quoted text; captured as the value |
| `{identifier}` | a quoted text, or a word with an underscore or a digit: not an ordinary word |
| `{types}` | an entry of the pack's list `types`; captured as the value |
| `$` | the end of a clause |

Phrases match folded texts. Matching takes time linear in the text: packs cannot contain free
regular expressions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from toolgate.intents.dates.vocabulary import NUMBERS
from toolgate.intents.patterns import HAN, late_pattern
from toolgate.intents.text import fold

# Possessive quantifiers (`++`, `*+`) in all pieces: without backtracking, time stays linear.
# No space follows a Chinese word, and it need not begin or end where a run of letters does.
_SPACE = rf"(?:[,:]?\s++|-|(?<=[{HAN}]))"
_BEGIN = rf"(?:(?<!\w)|(?=[{HAN}]))"
_STOP = rf"(?:(?!\w)|(?<=[{HAN}]))"
_PIECE = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}|\S+")
_GAP = r"(?:[^\s.!?;]++\s++){0,3}?"
_END = (
    r"(?=\s*+(?:$|[.,;:!?)\]\"'\u2026\u201d\u00bb]"
    r"|(?:and|or|please|und|bitte|et|ou|svp|y|o|por|en)(?!\w)))"
)
_OPEN = "[\"'`\u201c\u201e\u00ab]"
_CLOSE = "[\"'`\u201c\u201d\u00bb]"
_NAME = (
    f"(?:{_OPEN}(?P<quoted>[^\"'`\u201c\u201d\u201e\u00ab\u00bb\\n]{{1,80}}){_CLOSE}"
    r"|(?P<name>\w+(?:[.-]\w+)*+))"
)
_IDENTIFIER = (
    f"(?:{_OPEN}(?P<quoted>[^\"'`\u201c\u201d\u201e\u00ab\u00bb\\n]{{1,80}}){_CLOSE}"
    rf"|(?P<name>(?=\w*[_\d])[^\W{HAN}]+(?:[.-][^\W{HAN}]+)*+))"
)
_ONE_WORD = rf"{_OPEN}?(?P<listed>\w+(?:[.-]\w+)*+){_CLOSE}?"
_NUMBER = (
    r"\d{1,9}(?![\w.,]*\d)|(?:"
    + "|".join(
        sorted((word for word, value in NUMBERS.items() if value > 1), key=len, reverse=True)
    )
    + r")(?!\w)"
)

# Chosen.
_MOST_WRITTEN: Final = 100
"""Largest number of list entries written into a pattern. Compiling a pattern of thousands takes
seconds: for longer lists the pattern matches any word, which is then looked up."""


@dataclass(frozen=True)
class Phrase:
    """A compiled phrase."""

    source: str
    """The text in the pack."""

    pattern: re.Pattern[str]
    """Matches the phrase in a folded text."""

    needs: frozenset[str]
    """Words of which a text must contain one; if empty, any text may match."""

    dated: bool
    """Whether a date has to begin where the group `date` is."""

    listed: frozenset[str] = frozenset()
    """Entries of which the group `listed` must be one, if they are too many for the pattern."""

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Return the matches in a folded text."""
        matches = self.pattern.finditer(text)
        if not self.listed:
            return matches
        return (match for match in matches if not match["listed"] or match["listed"] in self.listed)


def compile_phrase(source: str, lists: Mapping[str, Iterable[str]]) -> Phrase:
    """Compile a phrase.

    Raises:
        ValueError: It is empty, or refers to a list that does not exist; with the reason.
    """
    pieces = _PIECE.findall(source)
    if not pieces:
        raise ValueError("it has no words")
    parts: list[str] = []
    needs: frozenset[str] | None = None
    gap_before = True  # nothing before the first piece
    dated = listed = named = False
    checked: frozenset[str] = frozenset()
    for piece in pieces:
        optional = piece.startswith("[")
        if piece == "...":
            if not parts or gap_before:
                raise ValueError("'...' stands between two pieces")
            parts.append(_SPACE + _GAP)
            gap_before = True
            continue
        if piece == "$":
            parts.append(_END)
            continue
        entries = () if listed else tuple(lists.get(piece.strip("[]")[1:-1], ()))
        listed = listed or bool(entries)
        if len(entries) > _MOST_WRITTEN:
            checked = frozenset(fold(entry).text for entry in entries)
            body, words, is_date = _ONE_WORD, frozenset[str](), False
        else:
            body, words, is_date = _piece(piece, lists)
            if entries:
                body = body.replace("(?:", "(?P<listed>", 1)
        is_name = body in {_NAME, _IDENTIFIER}
        if (dated and is_date) or (named and is_name):
            raise ValueError(f"'{piece}' is a second {'date' if is_date else 'name'}")
        dated, named = dated or is_date, named or is_name
        # The piece with the fewest first words selects the phrase for the fewest messages.
        if not optional and words and (needs is None or len(words) < len(needs)):
            needs = words
        if optional:
            parts.append(f"(?:{body}{_SPACE})?+" if gap_before else f"(?:{_SPACE}{body})?+")
        else:
            parts.append(body if gap_before else _SPACE + body)
            gap_before = False
    pattern = late_pattern(f"{_BEGIN}{''.join(parts)}" + ("" if pieces[-1] == "$" else _STOP))
    return Phrase(source, pattern, needs or frozenset(), dated, checked)


def _piece(piece: str, lists: Mapping[str, Iterable[str]]) -> tuple[str, frozenset[str], bool]:
    """Return the expression of a piece, the words it begins with, and whether it is a date."""
    if piece.startswith("["):
        piece = piece[1:-1]
    if piece == "{number}":
        return f"(?:{_NUMBER})", frozenset(), False
    if piece == "{date}":
        return r"(?P<date>\S)\S*+", frozenset(), True
    if piece == "{name}":
        return _NAME, frozenset(), False
    if piece == "{identifier}":
        return _IDENTIFIER, frozenset(), False
    if piece.startswith("{"):
        name = piece[1:-1]
        if name not in lists:
            placeholders = ", ".join(sorted([*lists, "date", "identifier", "name", "number"]))
            raise ValueError(f"'{piece}' is none of: {placeholders}")
        choices = [fold(entry).text for entry in lists[name]]
    else:
        choices = [fold(choice).text for choice in piece.split("|")]
    # Longer choices first, since the first alternative that matches is taken.
    choices = sorted(
        {choice for choice in choices if choice}, key=lambda choice: (-len(choice), choice)
    )
    if not choices:
        return r"(?!)", frozenset(), False
    body = "|".join(r"\s++".join(map(re.escape, choice.split())) for choice in choices)
    firsts = frozenset(first[0] for choice in choices if (first := re.findall(r"\w+", choice)))
    body = f"(?:{body}){_STOP}"
    if piece.startswith("{"):
        body = f"{_OPEN}?{body}{_CLOSE}?"
    return body, firsts, False
