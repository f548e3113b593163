"""The words of a message, as date parsing needs them: tokens, numbers, counts, units."""

import re
from datetime import UTC, date, datetime, time, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from toolgate.intents.dates import vocabulary as words
from toolgate.intents.dates.calendar import Unit
from toolgate.intents.dates.chinese import CHINESE_SIGN, ChineseToken, with_chinese
from toolgate.intents.dates.values import Moment
from toolgate.intents.text import Folded

_TOKEN: Final = re.compile(
    rf"""
      (?P<elided>(?<!\w)(?:l|d|jusqu|qu|quest|dell|dall|nell|all)(?='))'
    | (?P<chinese>(?:(?<!\w)\d{{1,4}}[ ]?)?[{CHINESE_SIGN}]+(?:[ ]?\d{{0,4}}[ ]?[{CHINESE_SIGN}]+)*)
    | (?P<word>aujourd'hui(?!\w)|[^\W\d_]+(?:-[^\W\d_]+){{0,3}}(?!\w))
    | (?P<sign>[^\w\s])
    | (?P<moment>(?<![\w-])\d{{4}}-\d\d-\d\dt\d\d:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?
        (?:z|[+-]\d\d:?\d\d)?(?![\w:-]))
    | (?P<isoday>(?<![\w-])\d{{4}}-\d\d-\d\d(?![^\W{CHINESE_SIGN}]|-))
    | (?P<isoweek>(?<![\w-])\d{{4}}-w\d\d(?![\w-]))
    | (?P<isoquarter>(?<![\w-])\d{{4}}-[qh]\d(?![\w-]))
    | (?P<isomonth>(?<![\w-])\d{{4}}-\d\d(?![\w-]))
    | (?P<slashed>(?<![\w/-])(?:\d\d?/\d\d?/\d{{4}}|\d{{4}}/\d\d?/\d\d?)(?![\w/-]))
    | (?P<dotted>(?<![\w.-])\d\d?\.\d\d?\.\d{{4}}(?![\w-]|\.\w))
    | (?P<clock>(?<![\w:.-])\d\d?:\d\d(?::\d\d)?(?:[ap]m|z)?(?![\w:-]))
    | (?P<number>\d+(?!\w))
    | (?P<mixed>\w+)
    """,
    re.VERBOSE,
)

_ORDINAL: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th|er|re|ro|ra|e|ste|de|º|ª|o|a)")

_SHORT: Final = re.compile(r"(\d{1,4})([a-z]{1,4})")

_JOINED_BEFORE: Final = frozenset("-_/\\@#$~")

_JOINED_AFTER: Final = frozenset("_/\\@(=$")

_ENDINGS: Final = frozenset(
    [
        *("and", "or", "but", "und", "oder", "et", "ou", "y", "o", "en", "of", "please", "bitte"),
        *("until", "to", "till", "through", "bis", "hasta", "tot", "since", "before", "after"),
        *("with", "for", "in", "on", "by", "at", "then", "only", "was", "were", "is", "are", "i"),
        *("by", "from", "did", "do", "we", "did", "what", "show", "list", "aan", "por", "s"),
    ]
)
"""Words that start something new, so that the expression before them is complete."""


def tokens_of(text: str) -> tuple[str, ...]:
    """Return the tokens of a folded text."""
    return tuple(match[str(match.lastgroup)] for match in _TOKEN.finditer(text))


class DateText:
    """The words of one message, and the moment at which they are read."""

    def __init__(self, folded: Folded, today: date, zone: str) -> None:
        self.zone: tzinfo = UTC if zone == "UTC" else ZoneInfo(zone)
        self.instant: datetime | None = None
        if isinstance(today, datetime):
            # Converted to the zone first: the day there may differ.
            if today.tzinfo is not None:
                self.instant = today.astimezone(UTC)
                today = today.astimezone(self.zone)
            today = today.date()
        self.today = today
        self.folded = folded
        self.words: list[str] = []
        self.kinds: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        for match in _TOKEN.finditer(folded.text):
            kind = match.lastgroup
            assert kind is not None
            if kind == "chinese":
                self._add_chinese(match)
                continue
            self.kinds.append(kind)
            # Without its accent, the Portuguese word for "until" is an English verb.
            is_until = match[kind] == "ate" and not self._source(match).isascii()
            self.words.append("at\u00e9" if is_until else match[kind])
            self.starts.append(match.start())
            self.ends.append(match.end())
        self._french: bool | None = None

    def _add_chinese(self, match: re.Match[str]) -> None:
        """Add the words of a stretch of Chinese, which may belong to the date before it."""
        before: list[ChineseToken] = []
        if self.kinds and self.kinds[-1] == "isoday" and self.ends[-1] == match.start():
            start, end = self.starts.pop(), self.ends.pop()
            before = [ChineseToken(self.kinds.pop(), self.words.pop(), start, end)]
        for token in with_chinese(before, match[0], match.start()):
            self.kinds.append(token.kind)
            self.words.append(token.word)
            self.starts.append(token.start)
            self.ends.append(token.end)

    def _is_joined(self, start: int, end: int) -> bool:
        """Whether a piece of text is part of something longer: a name, a path, a call."""
        text = self.folded.text
        if start:
            before = text[start - 1]
            is_chinese = re.match(f"[{CHINESE_SIGN}]", before) is not None
            if before in _JOINED_BEFORE or (before.isalnum() and not is_chinese):
                return True
            if before == "." and start > 1 and text[start - 2].isalnum():
                return True
        if end < len(text):
            after = text[end]
            beyond = text[end + 1 : end + 2]
            if after in _JOINED_AFTER:
                return True
            if after in "-.:" and (beyond.isalnum() or beyond == "_"):
                return True
        return False

    def _instant(self, moment: Moment) -> datetime:
        """Return a day as its midnight in UTC; a datetime unchanged."""
        if isinstance(moment, datetime):
            return moment
        return datetime.combine(moment, time(), self.zone).astimezone(UTC)

    def _word(self, at: int) -> str:
        return self.words[at] if at < len(self.words) else ""

    def _kind(self, at: int) -> str:
        return self.kinds[at] if at < len(self.kinds) else ""

    def _phrase(self, at: int, phrase: tuple[str, ...]) -> bool:
        return tuple(self.words[at : at + len(phrase)]) == phrase

    def _past_articles(self, at: int) -> int:
        # At most two articles follow each other, as in `de la`.
        for _ in range(2):
            if self._word(at) in words.ARTICLES and self._kind(at) != "number":
                at += 1
        return at

    def _number(self, at: int, lower: int, upper: int) -> int:
        """Return the number at `at`, or -1."""
        word = self._word(at)
        # Numbers of more than four digits are identifiers.
        if self._kind(at) != "number" or len(word) > 4:
            return -1
        value = int(word)
        return value if lower <= value <= upper else -1

    def _year(self, at: int) -> int:
        return self._number(at, 1900, 2199) if len(self._word(at)) == 4 else -1

    def _year_after(self, at: int, *, loose: bool = True) -> tuple[int, int]:
        """Return the year at `at` (after a comma or `of`) and the index after it; or (-1, at)."""
        beyond = at
        if loose and self._word(at) in {",", ".", "of", "de", "del", "/", "van"}:
            beyond += 1
        year = self._year(beyond)
        return (year, beyond + 1) if year > 0 else (-1, at)

    def _day_number(self, at: int) -> tuple[int, int]:
        """Return a day of a month, 1 to 31, and the index after it; or (-1, at)."""
        value = self._number(at, 1, 31)
        if value > 0 and len(self._word(at)) <= 2:
            return value, at + 1
        if self._kind(at) == "mixed":
            match = _ORDINAL.fullmatch(self._word(at))
            if match and 1 <= int(match[1]) <= 31:
                return int(match[1]), at + 1
        ordinal = words.ORDINAL_DAYS.get(self._word(at), -1)
        if ordinal > 0 and self._word(at + 1) in words.OF | {"janvier"}:
            return ordinal, at + 1
        return -1, at

    def _count(self, at: int) -> tuple[int, int]:
        """Return a count and the index after it; or (-1, at)."""
        if self._word(at) in {"a", "an"}:
            if self._word(at + 1) in {"couple", "hundred", "dozen"}:
                at += 1
            elif self._word(at) == "a" or self._word(at + 1) in words.TIME_UNITS:
                return 1, at + 1
        value = self._number(at, 1, 9999)
        if value > 0:
            return value, at + 1
        # Compounds have up to three words: `treinta y cinco`, `twenty five`.
        for length in (3, 2, 1):
            value = words.NUMBERS.get(" ".join(self.words[at : at + length]), -1)
            if value > 0:
                at += length
                if self._word(at - 1) == "couple" and self._word(at) == "of":
                    at += 1
                return value, at
        return -1, at

    def _unit(self, at: int) -> tuple[Unit | None, int, int]:
        """Return a unit, how many the word means, and the index after it; or (None, 0, at)."""
        word = self._word(at)
        if word in {"half", "demi"} and self._word(at + 1) in {"year", "years"}:
            return "half", 1, at + 2
        if word in {"fin", "fines", "fim"} and self._phrase(at + 1, ("de", "semana")):
            return "weekend", 1, at + 3
        if word == "fine" and self._word(at + 1) == "settimana":
            return "weekend", 1, at + 2
        if word == "calendar":
            at += 1
            word = self._word(at)
        unit = words.UNITS.get(word)
        if unit is None:
            return None, 0, at
        return unit, words.HALF_UNITS.get(word, 1), at + 1

    def _amount(self, at: int) -> tuple[int, Unit | None, float, int]:
        """Return a count with its unit: count, unit of days or None, seconds, next index.

        A count of -1 means none.
        """
        if self._kind(at) == "mixed":
            match = _SHORT.fullmatch(self._word(at))
            if match and int(match[1]):
                unit = words.SHORT_UNITS.get(match[2])
                seconds = words.TIME_UNITS.get(match[2], 0.0)
                if unit or seconds:
                    return int(match[1]), unit, seconds, at + 1
        if self._phrase(at, ("half", "a", "year")):
            return 1, "half", 0, at + 3
        count, beyond = self._count(at)
        if count < 0:
            return -1, None, 0, at
        if self._word(beyond) in words.COUNTED_FIRST:  # les 7 derniers jours
            beyond += 1
        unit, times, after = self._unit(beyond)
        if unit is not None and unit != "weekend":
            return count * times, unit, 0, after
        word = self._word(beyond)
        if word in words.SHORT_UNITS:
            return count, words.SHORT_UNITS[word], 0, beyond + 1
        if word in words.TIME_UNITS:
            return count, None, words.TIME_UNITS[word], beyond + 1
        return -1, None, 0, at

    def _ends_here(self, at: int) -> bool:
        """Whether nothing follows that belongs to the previous words."""
        if at >= len(self.words):
            return True
        if self.kinds[at] == "sign":
            return self.words[at] in ".,;:!?)]}\"'\u2026\u201d\u00bb"
        return self.words[at] in _ENDINGS

    def _is_capital(self, at: int) -> bool:
        start = self.folded.start(self.starts[at])
        end = self.folded.end(self.ends[at])
        return self.folded.source[start:end].istitle()

    def _source(self, match: re.Match[str]) -> str:
        """Return a token as it was written."""
        return self.folded.source[self.folded.start(match.start()) : self.folded.end(match.end())]

    def _speaks_french(self) -> bool:
        """Whether `hier` means yesterday in this message: in German and Dutch it means "here"."""
        if self._french is None:
            # 400 words are enough to tell the language (chosen).
            seen = set(self.words[:400])
            french, other = len(seen & words.FRENCH), len(seen & words.NOT_FRENCH)
            self._french = french > other or (french == other and len(self.words) < 4)
        return self._french
