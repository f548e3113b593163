"""Dates and ranges of dates in a message: a small grammar of our own over words, not a library.

Half-open: `since <= t < until`. A name gives the whole of what it names: a day, a week, a month.
The clock is always passed in. What does not clearly name a date is none: a bare number, an
ordinal, a version, an identifier, "may", "march" and "sat" as ordinary words.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

from toolgate.intent import _calendar as calendar
from toolgate.intent import _date_words as words
from toolgate.intent._calendar import Period, Unit
from toolgate.intent._text import Folded, fold

__all__ = ["FoundDate", "Moment", "dates_in", "find_dates"]

Moment: TypeAlias = date | datetime
"""A day, or an aware UTC datetime where a time of day was named."""

Place: TypeAlias = Literal["", "in", "since", "after", "newer", "before", "older", "until", "pair"]
"""What stands before: some names are dates only beside a word of time."""


@dataclass(frozen=True, kw_only=True)
class FoundDate:
    """A date or a range of dates that a message names."""

    since: Moment | None
    """First moment; None: open on this side."""

    until: Moment | None
    """First moment after it; None: open on this side. Of the same type as `since`."""

    start: int
    """Offset of its first character in the message."""

    end: int
    """Offset after its last character."""

    text: str
    """The words that were read, as they came."""

    @property
    def last_day(self) -> Moment | None:
        """The last day inside, for tools whose end is inclusive; a time of day stays as it is."""
        if self.until is None or isinstance(self.until, datetime):
            return self.until
        return self.until - timedelta(days=1)


def find_dates(text: str, *, today: date, zone: str = "UTC") -> list[FoundDate]:
    """The dates in `text`, in their order; they do not overlap.

    Args:
        text: A message in English, German, French, Spanish or Dutch, of any length.
        today: The day that "yesterday" counts from, in `zone`. An aware datetime also fixes the
            hour that "2 hours ago" counts from.
        zone: IANA name of the time zone of days and times of day that name none.

    Raises:
        ZoneInfoNotFoundError: There is no such zone.
    """
    return list(dates_in(fold(text), today=today, zone=zone))


def dates_in(folded: Folded, *, today: date, zone: str = "UTC") -> Iterator[FoundDate]:
    """As `find_dates`, of a text that is folded already."""
    yield from _Reader(folded, today, zone).read()


_TOKEN: Final = re.compile(
    r"""
      (?P<elided>(?<!\w)(?:l|d|jusqu|qu)(?='))'
    | (?P<word>aujourd'hui(?!\w)|[^\W\d_]+(?:-[^\W\d_]+){0,3}(?!\w))
    | (?P<sign>[^\w\s])
    | (?P<moment>(?<![\w-])\d{4}-\d\d-\d\dt\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?
        (?:z|[+-]\d\d:?\d\d)?(?![\w:-]))
    | (?P<isoday>(?<![\w-])\d{4}-\d\d-\d\d(?![\w-]))
    | (?P<isoweek>(?<![\w-])\d{4}-w\d\d(?![\w-]))
    | (?P<isoquarter>(?<![\w-])\d{4}-[qh]\d(?![\w-]))
    | (?P<isomonth>(?<![\w-])\d{4}-\d\d(?![\w-]))
    | (?P<slashed>(?<![\w/-])(?:\d\d?/\d\d?/\d{4}|\d{4}/\d\d?/\d\d?)(?![\w/-]))
    | (?P<dotted>(?<![\w.-])\d\d?\.\d\d?\.\d{4}(?![\w-]|\.\w))
    | (?P<clock>(?<![\w:.-])\d\d?:\d\d(?::\d\d)?(?:[ap]m|z)?(?![\w:-]))
    | (?P<number>\d+(?!\w))
    | (?P<mixed>\w+)
    """,
    re.VERBOSE,
)

_ORDINAL: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th|er|re|ro|ra|e|ste|de|º|ª|o|a)")
_QUARTER: Final = re.compile(r"([qths])([1-4])|([1-4])([qt])")
_SHORT: Final = re.compile(r"(\d{1,4})([a-z]{1,4})")
_HOUR: Final = re.compile(r"(\d{1,2})(?:([ap])m|h(\d\d)?)")

_PAIR_SIGNS: Final = frozenset({"-", "\u2013"})
_JOINED_BEFORE: Final = frozenset("-_/\\@#$~")
_JOINED_AFTER: Final = frozenset("_/\\@(=$")
_AT: Final = frozenset({"at", "um", "a", "as", "om", "las", "@", ","})
_VERSION: Final = frozenset({"version", "v", "build", "release", "port", "id", "ip", "rev"})
_ENDINGS: Final = frozenset(
    [
        *("and", "or", "but", "und", "oder", "et", "ou", "y", "o", "en", "of", "please", "bitte"),
        *("until", "to", "till", "through", "bis", "hasta", "tot", "since", "before", "after"),
        *("with", "for", "in", "on", "by", "at", "then", "only", "was", "were", "is", "are", "i"),
        *("by", "from", "did", "do", "we", "did", "what", "show", "list", "aan", "por", "s"),
    ]
)
"""Words that begin something new, so that what stands before them is whole."""

_DAY_PARTS: Final = frozenset(
    {"morning", "afternoon", "evening", "morgen", "nachmittag", "abend", "matin", "soir"}
)
_NOT_TOMORROW: Final = frozenset(
    [
        *(
            "guten",
            "goede",
            "goeden",
            "am",
            "jeden",
            "heute",
            "gestern",
            "diesen",
            "dieser",
            "elke",
        ),
        *("deze", "den", "la", "esta", "cada", "una", "buena", "de", "der", "manana"),
    ]
)
"""Before `morgen` and `manana`, which then mean the morning."""

_CONNECTORS: Final[dict[str, list[tuple[tuple[str, ...], Place]]]] = {}
for _place, _phrases in (
    ("since", words.SINCE),
    ("after", words.AFTER),
    ("before", words.BEFORE),
    ("until", words.UNTIL),
):
    for _phrase in _phrases:
        _real: Place = _place  # pyright: ignore[reportAssignmentType]
        if len(_phrase) == 2 and _phrase[1] in {"than", "als", "dan"}:
            _real = "newer" if _place == "after" else "older"
        _CONNECTORS.setdefault(_phrase[0], []).append((_phrase, _real))
for _found in _CONNECTORS.values():
    _found.sort(key=lambda each: -len(each[0]))

_STARTERS: Final = frozenset(
    [
        *_CONNECTORS,
        *words.DAYS,
        *words.UNITS,
        *words.NUMBERS,
        *words.ORDINALS,
        *words.MONTHS,
        *words.WEEKDAYS,
        *words.SEASONS,
        *words.ADJECTIVES,
        *words.ROLLING,
        *words.BETWEEN,
        *words.FROM,
        *words.IN,
        *words.ARTICLES,
        *words.EDGES,
        *words.TO_DATE,
        *(phrase[0] for phrase in words.AGO_BEFORE),
        *("kw", "calendar", "an", "pasado", "antes", "kalenderwoche", "a", "il", "half"),
    ]
)
_WRITTEN: Final = frozenset(
    {"moment", "isoday", "isoweek", "isoquarter", "isomonth", "slashed", "dotted"}
)
_ALWAYS: Final = _WRITTEN | {"number", "mixed"}
_CORES: Final = frozenset(
    [
        *words.DAYS,
        *words.UNITS,
        *words.SHORT_UNITS,
        *words.TIME_UNITS,
        *words.MONTHS,
        *words.WEEKDAYS,
        *words.SEASONS,
        *words.TO_DATE,
        *("kw", "kalenderwoche", "morning", "afternoon", "evening", "night"),
    ]
)
"""Every date has one of these, or digits."""

_REACH: Final = 8
"""Words from the beginning of an expression to its first core."""


@dataclass(slots=True)
class _Name:
    """A date that was named, before it is known what the words around make of it."""

    since: Moment
    until: Moment
    next: int
    last_week: bool = False
    edge: bool = False
    in_year: Callable[[int], Period] | None = None
    month: int = 0
    day: bool = False
    weekday: int | None = None


class _Reader:
    """Reads one message."""

    def __init__(self, folded: Folded, today: date, zone: str) -> None:
        self.zone: tzinfo = UTC if zone == "UTC" else ZoneInfo(zone)
        self.now: datetime | None = None
        if isinstance(today, datetime):
            if today.tzinfo is not None:
                self.now = today.astimezone(UTC)
                today = today.astimezone(self.zone)
            today = today.date()
        self.today = today
        self.folded = folded
        self.words: list[str] = []
        self.kinds: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._french: bool | None = None

    def read(self) -> Iterator[FoundDate]:
        """All dates, in order."""
        text = self.folded.text
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup
            assert kind is not None
            self.kinds.append(kind)
            self.words.append(match[kind])
            self.starts.append(match.start())
            self.ends.append(match.end())
        at, near = 0, self._next_core()
        while at < len(self.words):
            if near[at] - at > _REACH:
                if near[at] == len(self.words):
                    return
                at = near[at] - _REACH
                continue
            if self.kinds[at] not in _ALWAYS and not self._may_begin(self.words[at]):
                at += 1
                continue
            found = self._expression(at)
            if found is None:
                at += 1
                continue
            since, until, after = found
            made = self._made(since, until, at, after)
            if made is None:
                at += 1
                continue
            yield made
            at = after

    def _next_core(self) -> list[int]:
        """For each word, where the next one is that a date cannot do without."""
        near, last = [0] * len(self.words), len(self.words)
        for at in range(last - 1, -1, -1):
            kind, word = self.kinds[at], self.words[at]
            if kind == "word":
                if word in _CORES or ("-" in word and word.partition("-")[0] in words.MONTHS):
                    last = at
            elif kind in _WRITTEN or kind == "mixed" or (kind == "number" and len(word) == 4):
                last = at
            near[at] = last
        return near

    @staticmethod
    def _may_begin(word: str) -> bool:
        return word in _STARTERS or "-" in word

    def _made(
        self, since: Moment | None, until: Moment | None, first: int, after: int
    ) -> FoundDate | None:
        start, end = self.starts[first], self.ends[after - 1]
        if self._is_joined(start, end):
            return None
        try:
            if isinstance(since, datetime) or isinstance(until, datetime):
                since = None if since is None else self._instant(since)
                until = None if until is None else self._instant(until)
            if since is not None and until is not None and since >= until:
                return None
        except (OverflowError, ValueError):
            return None
        start, end = self.folded.start(start), self.folded.end(end)
        return FoundDate(
            since=since, until=until, start=start, end=end, text=self.folded.source[start:end]
        )

    def _is_joined(self, start: int, end: int) -> bool:
        """Whether it is a piece of something longer: a name, a path, a call."""
        text = self.folded.text
        if start:
            before = text[start - 1]
            if before in _JOINED_BEFORE or before == "_" or before.isalnum():
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
        """A day as the moment of its midnight."""
        if isinstance(moment, datetime):
            return moment
        return datetime.combine(moment, time(), self.zone).astimezone(UTC)

    # Words

    def _word(self, at: int) -> str:
        return self.words[at] if at < len(self.words) else ""

    def _kind(self, at: int) -> str:
        return self.kinds[at] if at < len(self.kinds) else ""

    def _phrase(self, at: int, phrase: tuple[str, ...]) -> bool:
        return tuple(self.words[at : at + len(phrase)]) == phrase

    def _past_articles(self, at: int) -> int:
        for _ in range(2):
            if self._word(at) in words.ARTICLES and self._kind(at) != "number":
                at += 1
        return at

    def _number(self, at: int, least: int, most: int) -> int:
        """The number at `at`, or -1."""
        word = self._word(at)
        if self._kind(at) != "number" or len(word) > 4:
            return -1
        value = int(word)
        return value if least <= value <= most else -1

    def _year(self, at: int) -> int:
        return self._number(at, 1900, 2199) if len(self._word(at)) == 4 else -1

    def _year_after(self, at: int, *, loose: bool = True) -> tuple[int, int]:
        """The year at `at`, behind a comma or an `of`, and what follows it; or (-1, at)."""
        beyond = at
        if loose and self._word(at) in {",", ".", "of", "de", "del", "/", "van"}:
            beyond += 1
        year = self._year(beyond)
        return (year, beyond + 1) if year > 0 else (-1, at)

    def _day_number(self, at: int) -> tuple[int, int]:
        """A day of a month, 1 to 31, and what follows it; or (-1, at)."""
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
        """How many, and what follows it; or (-1, at)."""
        if self._word(at) in {"a", "an"}:
            if self._word(at + 1) == "couple":
                at += 1
            elif self._word(at) == "a" or self._word(at + 1) in words.TIME_UNITS:
                return 1, at + 1
        value = self._number(at, 1, 9999)
        if value > 0:
            return value, at + 1
        value = words.NUMBERS.get(self._word(at), -1)
        if value > 0:
            at += 1
            if self._word(at - 1) == "couple" and self._word(at) == "of":
                at += 1
            return value, at
        return -1, at

    def _unit(self, at: int) -> tuple[Unit | None, int, int]:
        """A unit, how many of it a word means, and what follows; or (None, 0, at)."""
        word = self._word(at)
        if word in {"half", "demi"} and self._word(at + 1) in {"year", "years"}:
            return "half", 1, at + 2
        if word in {"fin", "fines"} and self._phrase(at + 1, ("de", "semana")):
            return "weekend", 1, at + 3
        if word == "calendar":
            at += 1
            word = self._word(at)
        unit = words.UNITS.get(word)
        if unit is None:
            return None, 0, at
        return unit, words.HALF_UNITS.get(word, 1), at + 1

    def _amount(self, at: int) -> tuple[int, Unit | None, float, int]:
        """A count with its unit: count, unit of days or None, seconds, and what follows.

        Count -1 means none.
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
        """Whether nothing that belongs to the words before follows."""
        if at >= len(self.words):
            return True
        if self.kinds[at] == "sign":
            return self.words[at] in ".,;:!?)]}\"'\u2026\u201d\u00bb"
        return self.words[at] in _ENDINGS

    def _speaks_french(self) -> bool:
        """Whether `hier` is yesterday here: in German and Dutch it is a place."""
        if self._french is None:
            seen = set(self.words[:400])
            french, other = len(seen & words.FRENCH), len(seen & words.NOT_FRENCH)
            self._french = french > other or (french == other and len(self.words) < 4)
        return self._french

    # Expressions

    def _expression(self, at: int) -> tuple[Moment | None, Moment | None, int] | None:
        try:
            return self._pieces(at)
        except (OverflowError, ValueError):  # outside the calendar, or no such day
            return None

    def _pieces(self, at: int) -> tuple[Moment | None, Moment | None, int] | None:
        word = self._word(at)
        if word in words.BETWEEN:
            return self._between(at)
        if word in _CONNECTORS and not self._phrase(at, ("antes", "de", "ayer")):
            found = self._bounded(at)
            if found is not None:
                return found
        if word in words.FROM:
            found = self._from(at)
            if found is not None:
                return found
        beyond = at
        if word == "am" and self.kinds[at - 1] in {"number", "clock"} and at:
            return None  # 9 am tomorrow
        if word in words.IN or (word in words.ARTICLES and self._kind(at) == "word"):
            beyond = self._past_articles(at + 1 if word in words.IN else at)
            name = self._name(beyond, "in" if word in words.INSIDE else "")
            if name is None:
                name = self._name(at, "")  # the word begins the name itself
        else:
            name = self._name(at, "")
        if name is None:
            return self._month_to_month(at)
        return self._to_something(name)

    def _to_something(self, name: _Name) -> tuple[Moment, Moment, int]:
        """A name, or the pair that it begins."""
        at = name.next
        if self._word(at) == "/" and self._kind(at + 1) in {"isoday", "moment", "isomonth"}:
            last = self._name(at + 1, "pair")
            if last is not None:
                return self._pair(name, last)
        last = self._end_of_pair(name)
        return self._pair(name, last) if last is not None else (name.since, name.until, at)

    def _end_of_pair(self, first: _Name) -> _Name | None:
        at = first.next
        if self._word(at) not in words.TO and not any(
            self._phrase(at, phrase) for phrase in (("up", "to"), ("jusqu", "a"), ("jusqu", "au"))
        ):
            return None
        at += 1
        while self._word(at) in {"to", "and", "including", "zum", "zur", "en", "met", "au", "a"}:
            at += 1
        return self._second(self._past_articles(at), first)

    def _second(self, at: int, first: _Name) -> _Name | None:
        """The second name of a pair."""
        name = self._name(at, "pair", after=first.since)
        if name is not None:
            return name
        day, beyond = self._day_number(at)
        if first.day and first.month and day > 0:  # October 5 to 10
            year, beyond = self._year_after(beyond)
            day_of = _day_of(first.month, day)
            since, until = day_of(year if year > 0 else first.since.year)
            known = None if year > 0 else first.in_year and day_of
            return _Name(since, until, beyond, in_year=known, month=first.month, day=True)
        return None

    def _pair(self, first: _Name, last: _Name) -> tuple[Moment, Moment, int]:
        """From the first moment of one to the end of the other."""
        since, until = first.since, last.until
        if first.in_year is not None and last.in_year is None and last.month:
            since = first.in_year(last.since.year)[0]
            if since >= _day(until):
                since = first.in_year(last.since.year - 1)[0]
        elif last.in_year is not None and self._before(last.since, first.since):
            until = last.in_year(first.since.year + 1)[1]
        elif self._before(last.since, first.since):
            since, until = last.since, first.until
        return since, until, last.next

    def _before(self, one: Moment, other: Moment) -> bool:
        if isinstance(one, datetime) or isinstance(other, datetime):
            return self._instant(one) < self._instant(other)
        return one < other

    def _between(self, at: int) -> tuple[Moment, Moment, int] | None:
        first = self._name(self._past_articles(at + 1), "pair")
        if first is None or self._word(first.next) not in words.AND | _PAIR_SIGNS:
            return None
        last = self._second(self._past_articles(first.next + 1), first)
        return None if last is None else self._pair(first, last)

    def _from(self, at: int) -> tuple[Moment, Moment | None, int] | None:
        first = self._name(self._past_articles(at + 1), "pair")
        if first is None:
            return None
        last = self._end_of_pair(first)
        if last is not None:
            return self._pair(first, last)
        if self._word(first.next) in words.ON:
            return self._since(first), None, first.next + 1
        if self._word(self._past_articles(at + 1)) in words.EDGES:  # from the start of the year
            return first.since, None, first.next
        if self._word(at) in {"from", "von", "vom"} and first.weekday is None:
            plain = self._name(self._past_articles(at + 1), "")
            if plain is not None:
                return plain.since, plain.until, plain.next
        return None

    def _bounded(self, at: int) -> tuple[Moment | None, Moment | None, int] | None:
        """Since, after, before, until: with the other bound, if it follows."""
        bound = self._bound(at)
        if bound is None:
            return None
        since, until, beyond, first = bound
        if since is not None and first is not None:
            last = self._end_of_pair(first)
            if last is not None:
                paired = self._pair(first, last)
                return (since if self._before(since, paired[1]) else paired[0], *paired[1:])
        more = beyond + (self._word(beyond) in words.AND | {"but", ",", "aber", "mais", "pero"})
        if self._word(more) in _CONNECTORS:
            other = self._bound(more)
            if other is not None and (other[0] is None) != (since is None):
                low, high = (since, other[1]) if since is not None else (other[0], until)
                if low is not None and high is not None and self._before(low, high):
                    return low, high, other[2]
        return since, until, beyond

    def _bound(self, at: int) -> tuple[Moment | None, Moment | None, int, _Name | None] | None:
        for phrase, place in _CONNECTORS[self._word(at)]:
            if not self._phrase(at, phrase):
                continue
            after = self._past_articles(at + len(phrase))
            amount = self._ago_amount(after, place, phrase[0])
            if amount is not None:
                return amount
            inner: Place = "" if phrase == ("by",) else place  # "by June" is a person's work
            name = self._name(after, inner)
            if name is None and after != at + len(phrase):
                name = self._name(at + len(phrase), inner)
            if name is None:
                continue
            if place == "since":
                return self._since(name), None, name.next, name
            if place in {"after", "newer"}:
                return name.until, None, name.next, None
            if place in {"before", "older"}:
                return None, name.since, name.next, None
            return None, name.until, name.next, None
        return None

    def _since(self, name: _Name) -> Moment:
        """Where `since` begins: a week back is seven days, everything else its first moment."""
        return self.today - timedelta(days=7) if name.last_week else name.since

    def _ago_amount(
        self, at: int, place: Place, word: str
    ) -> tuple[Moment | None, Moment | None, int, _Name | None] | None:
        """`seit 3 Tagen`, `older than 30 days`: a length that the word before ties to now."""
        if place not in {"since", "older", "newer"} or word in words.NEVER_AGO:
            return None
        count, unit, seconds, after = self._amount(at)
        if count < 0 or self._word(after) in words.AGO_AFTER:
            return None
        if unit is not None:
            moment: Moment = calendar.back(self.today, count, unit)
        elif self.now is not None:
            moment = self.now.replace(microsecond=0) - timedelta(seconds=count * seconds)
        else:
            return None
        return (None, moment, after, None) if place == "older" else (moment, None, after, None)

    def _month_to_month(self, at: int) -> tuple[Moment, Moment, int] | None:
        """`January to March 2024`, `Jan-Mar 2024`."""
        left, _, right = self._word(at).partition("-")
        beyond = at + 1
        if not right:
            if self._word(beyond) not in words.TO or self._word(beyond + 1) not in words.MONTHS:
                return None
            right = self._word(beyond + 1)
            beyond += 2
        if left not in words.MONTHS or right not in words.MONTHS:
            return None
        year, beyond = self._year_after(beyond)
        if year < 0:
            return None
        first, last = words.MONTHS[left], words.MONTHS[right]
        since = calendar.month(year if first <= last else year - 1, first)[0]
        return since, calendar.month(year, last)[1], beyond

    # Names

    def _name(self, at: int, place: Place, after: Moment | None = None) -> _Name | None:
        """What is named at `at`, with a time of day if one follows."""
        kind = self._kind(at)
        if kind in {"word", "elided"}:
            name = self._worded(at, place, after)
        elif kind == "number":
            name = self._numbered(at, place)
        elif kind == "mixed":
            name = self._mixed(at, place)
        elif kind:
            name = self._written(at, kind, place)
        else:
            name = None
        return self._timed(name) if name is not None and name.day else name

    def _written(self, at: int, kind: str, place: Place) -> _Name | None:
        """Forms with digits and signs."""
        word = self._word(at)
        if kind == "moment":
            since = self._moment(word)
            return _Name(since, since + timedelta(seconds=1), at + 1)
        if kind == "isoday":
            return _Name(*calendar.day(date.fromisoformat(_digits(word))), at + 1, day=True)
        if kind == "isoweek":
            return _Name(*calendar.iso_week(int(word[:4]), int(word[6:])), at + 1)
        if kind == "isoquarter":
            return _part_of_year(word[5], int(word[6]), int(word[:4]), at + 1)
        if kind == "isomonth":
            if not place or place == "older":
                return None
            year = int(word[:4])
            if not 1900 <= year <= 2199:
                return None
            return _Name(*calendar.month(year, int(word[5:])), at + 1)
        if kind == "slashed":
            return self._slashed(word, at)
        if kind == "dotted":
            if self._word(at - 1) in _VERSION:
                return None
            day, month, year = (int(part) for part in word.split("."))
            return _Name(*calendar.day(date(year, month, day)), at + 1, day=True)
        return None

    def _slashed(self, word: str, at: int) -> _Name:
        """A year first, else the month; a first number above 12 is the day."""
        parts = [int(part) for part in word.split("/")]
        if parts[0] > 999:
            year, month, day = parts
        else:
            month, day, year = parts
            if month > 12:
                month, day = day, month
        return _Name(*calendar.day(date(year, month, day)), at + 1, day=True)

    def _moment(self, word: str) -> datetime:
        moment = datetime.fromisoformat(_digits(word).replace(",", ".").upper())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.zone)
        return moment.astimezone(UTC).replace(microsecond=0)

    def _numbered(self, at: int, place: Place) -> _Name | None:
        year = self._year(at)
        if year > 0:
            return self._from_year(at, year, place)
        ago = self._ago(at)
        if ago is not None:
            return ago
        if self._word(at + 1) == "." and self._word(at + 2) in words.UNITS:
            return self._ordinal_part(self._number(at, 1, 4), at + 2)
        return self._day_first(at, place) or self._counted(at)

    def _from_year(self, at: int, year: int, place: Place) -> _Name | None:
        """A year, alone only where nothing but a year fits; or with its quarter."""
        if self._kind(at + 1) == "mixed":
            match = _QUARTER.fullmatch(self._word(at + 1))
            if match and match[1]:
                return _part_of_year(match[1], int(match[2]), year, at + 2)
        if place not in {"since", "in"} or not 1990 <= year <= self.today.year + 1:
            return None
        if not self._ends_here(at + 1):
            return None
        return _Name(date(year, 1, 1), date(year + 1, 1, 1), at + 1)

    def _mixed(self, at: int, place: Place) -> _Name | None:
        word = self._word(at)
        match = _QUARTER.fullmatch(word)
        if match:
            letter, number = (match[1], match[2]) if match[1] else (match[4], match[3])
            year, beyond = self._year_after(at + 1)
            if year > 0:
                return _part_of_year(letter, int(number), year, beyond)
            alone = place in {"since", "after", "before", "until", "pair", "in"}
            if letter == "q" and alone and self._ends_here(at + 1):
                return _part_of_year("q", int(number), self.today.year, at + 1)
            if letter == "q":
                return None
        return (
            self._ago(at)
            or self._ordinal_part(words.ORDINALS.get(word, -1), at + 1)
            or self._day_first(at, place)
        )

    def _worded(self, at: int, place: Place, after: Moment | None) -> _Name | None:
        word = self._word(at)
        if word not in _STARTERS:
            return None
        return (
            self._day_word(at)
            or self._edge(at, place)
            or self._weekday(at, place, after)
            or self._month(at, place)
            or self._ago(at)
            or self._rolling(at)
            or self._this_unit(at, place)
            or self._unit_first(at, place)
            or self._ordinal_part(words.ORDINALS.get(word, -1), at + 1)
            or self._day_first(at, place)
            or self._season(at)
            or self._counted(at)
        )

    def _day_word(self, at: int) -> _Name | None:
        """Today, the day before yesterday, this morning."""
        word = self._word(at)
        shift, beyond = words.DAYS.get(word), at + 1
        if word == "day" and self._word(at + 1) in {"before", "after"}:
            outer = {"before": ("yesterday", -2), "after": ("tomorrow", 2)}[self._word(at + 1)]
            shift, beyond = (outer[1], at + 3) if self._word(at + 2) == outer[0] else (None, at)
        elif word == "pasado" and self._word(at + 1) == "manana":
            shift, beyond = 2, at + 2
        elif self._phrase(at, ("antes", "de", "ayer")):
            shift, beyond = -2, at + 3
        elif self._phrase(at, ("avant", "hier")) and self._speaks_french():
            shift, beyond = -2, at + 2
        elif word == "this" and self._word(at + 1) in _DAY_PARTS:
            shift, beyond = 0, at + 2
        elif self._phrase(at, ("last", "night")):
            shift, beyond = -1, at + 2
        elif word in {"morgen", "manana"}:
            if at and self._word(at - 1) in _NOT_TOMORROW:
                return None
        elif word == "hier" and not self._speaks_french():
            return None
        if shift is None:
            return None
        if word in words.DAYS and self._word(beyond) in _DAY_PARTS:
            beyond += 1
        since, until = calendar.day(self.today + timedelta(days=shift))
        return _Name(since, until, beyond, day=True)

    def _edge(self, at: int, place: Place) -> _Name | None:
        """The beginning or the end of a unit."""
        word = self._word(at)
        if word not in words.EDGES:
            return None
        beyond = at + 1
        if self._word(beyond) in words.OF:
            beyond += 1
        elif word not in words.LOOSE_EDGES and self._word(beyond) not in words.ARTICLES:
            return None
        inner_at = self._past_articles(beyond)
        inner = self._name(inner_at, "in")
        if inner is None:
            if inner_at == beyond and not place and self._word(beyond - 1) != "des":
                return None
            unit, times, after = self._unit(inner_at)
            if unit is None or unit == "day" or times != 1:
                return None
            inner = _Name(*calendar.unit_around(self.today, unit), after)
        if isinstance(inner.since, datetime):
            return None
        last = words.EDGES[word]
        point = inner.until if last else inner.since
        if place in {"since", "after", "newer", "before", "older", "until"}:
            return _Name(point, point, inner.next, edge=True)
        since, until = calendar.day(_day(point) - timedelta(days=last))
        return _Name(since, until, inner.next)

    def _weekday(self, at: int, place: Place, after: Moment | None) -> _Name | None:
        number = words.WEEKDAYS.get(self._word(at))
        if number is None:
            return None
        beyond = at + 1
        if self._word(beyond) in {",", "."}:
            beyond += 1
        beyond = self._past_articles(beyond)
        dated: _Name | None = None
        if self._kind(beyond) in {"number", "mixed"}:
            dated = self._day_first(beyond, "in")
        elif self._word(beyond) in words.MONTHS:
            dated = self._month(beyond, "")
        elif self._kind(beyond) in {"isoday", "slashed", "dotted"}:
            dated = self._written(beyond, self._kind(beyond), place)
        if dated is not None and dated.day:
            return dated
        side = words.LATER_ADJECTIVES.get(self._word(at + 1))
        if side is not None:
            return self._weekday_at(number, side, at + 2)
        if place in {"since", "after", "newer", "before"}:
            return self._weekday_at(number, -1, at + 1)
        if place == "until":
            return self._weekday_at(number, 1, at + 1)
        if place == "pair":
            if after is None:
                return self._weekday_at(number, -1, at + 1)
            day = _day(after) + timedelta(days=(number - _day(after).weekday() - 1) % 7 + 1)
            return _Name(*calendar.day(day), at + 1, day=True, weekday=number)
        return None

    def _weekday_at(self, number: int, side: int, beyond: int) -> _Name:
        today = self.today
        if side < 0:
            day = today - timedelta(days=(today.weekday() - number - 1) % 7 + 1)
        elif side > 0:
            day = today + timedelta(days=(number - today.weekday() - 1) % 7 + 1)
        else:
            day = today + timedelta(days=number - today.weekday())
        return _Name(*calendar.day(day), beyond, day=True, weekday=number)

    def _month(self, at: int, place: Place) -> _Name | None:
        """A month with a year or a day, or alone beside a word of time."""
        number = words.MONTHS.get(self._word(at))
        if number is None:
            return None
        beyond = at + 1
        if self._word(beyond) == "." and self.ends[at] == self.starts[beyond]:
            beyond += 1
        year, after = self._year_after(beyond)
        if year > 0:
            return _Name(*calendar.month(year, number), after, month=number)
        day, after = self._day_number(self._past_articles(beyond))
        if day > 0 and self._kind(after - 1) != "word":
            return self._day_of_month(at, number, day, after, place)
        side = words.LATER_ADJECTIVES.get(self._word(at + 1))
        if side is not None:
            return self._month_at(number, side, at + 2)
        if place == "in":
            risky = self._word(at) in words.RISKY_MONTHS and not self._is_capital(at)
            risky = risky and self._word(at - 1) != "en"
            if risky or not self._ends_here(at + 1):
                return None
        elif place not in {"since", "after", "newer", "before", "until", "pair"}:
            return None
        period = calendar.month(self.today.year, number)
        if place in {"since", "after"} and period[0] > self.today:
            period = calendar.month(self.today.year - 1, number)
        return _Name(
            *period, at + 1, in_year=lambda year: calendar.month(year, number), month=number
        )

    def _day_of_month(
        self, at: int, month: int, day: int, beyond: int, place: Place
    ) -> _Name | None:
        """`October 15, 2025`, `October 5-10`."""
        last = day
        if self._word(beyond) in _PAIR_SIGNS | {"to", "through"}:
            more, after = self._day_number(beyond + 1)
            if more > day and (self._word(after) not in words.MONTHS):
                last, beyond = more, after
        year, after = self._year_after(beyond)
        if year < 0 and not self._is_month_here(at, at, beyond, place):
            return None
        return self._dated(month, day, last, year, after if year > 0 else beyond)

    def _day_first(self, at: int, place: Place) -> _Name | None:
        """`15 October 2025`, `the 15th of October`, `5-10 October`, `15-Oct-2025`."""
        day, beyond = self._day_number(at)
        if day < 0:
            return None
        last = day
        if self._word(beyond) in _PAIR_SIGNS and self._word(beyond + 1) in words.MONTHS:
            year = self._year(beyond + 3) if self._word(beyond + 2) == "-" else -1
            if year < 0 or self.ends[beyond + 3] - self.starts[at] > 12:
                return None
            month = words.MONTHS[self._word(beyond + 1)]
            return self._dated(month, day, day, year, beyond + 4)
        dotted = beyond + (self._word(beyond) == ".")
        if self._word(dotted) in _PAIR_SIGNS | {"to", "bis", "au", "al", "tot", "through"}:
            more, after = self._day_number(dotted + 1)
            if more > day:
                last, beyond = more, after
        if self._word(beyond) == ".":
            beyond += 1
        if self._word(beyond) in {"of", "de", "d", "day"}:
            beyond += 1
        month_at = beyond
        month = words.MONTHS.get(self._word(beyond))
        if month is None or self._kind(beyond) != "word":
            return None
        beyond += 1
        if self._word(beyond) == "." and self._year(beyond + 1) > 0:
            beyond += 1
        year, after = self._year_after(beyond)
        if year < 0 and not self._is_month_here(month_at, at, beyond, place):
            return None
        return self._dated(month, day, last, year, after if year > 0 else beyond)

    def _is_month_here(self, month_at: int, first: int, beyond: int, place: Place) -> bool:
        """Whether a month's name beside a mere number is the month: "may 5 users" is not."""
        if self._word(month_at) not in words.RISKY_MONTHS or place:
            return True
        if self._ends_here(beyond):
            return True
        return first > 0 and self._is_capital(month_at) and self.words[first - 1] not in ".!?"

    def _is_capital(self, at: int) -> bool:
        start = self.folded.start(self.starts[at])
        end = self.folded.end(self.ends[at])
        return self.folded.source[start:end].istitle()

    def _dated(self, month: int, day: int, last: int, year: int, beyond: int) -> _Name:
        one, end = _day_of(month, day), _day_of(month, last)

        def in_year(year: int) -> Period:
            return one(year)[0], end(year)[1]

        since, until = in_year(year if year > 0 else self.today.year)
        return _Name(
            since,
            until,
            beyond,
            in_year=None if year > 0 else in_year,
            month=month,
            day=day == last,
        )

    def _ago(self, at: int) -> _Name | None:
        """A length before or after now: `3 days ago`, `il y a 3 jours`."""
        for phrase in words.AGO_BEFORE:
            if self._word(at) == phrase[0] and self._phrase(at, phrase):
                return self._back(at + len(phrase), 1)
        count, _, _, after = self._amount(at)
        if count < 0:
            return None
        if self._word(after) in words.AGO_AFTER:
            if self._word(after) == "back" and not self._ends_here(after + 1):
                return None
            name = self._back(at, 1)
            if name is not None:
                name.next = after + 1 + (self._word(after + 1) == "today")
            return name
        if self._phrase(after, ("from", "now")) or self._phrase(after, ("from", "today")):
            name = self._back(at, -1)
            if name is not None:
                name.next = after + 2
            return name
        return None

    def _back(self, at: int, sign: int) -> _Name | None:
        count, unit, seconds, after = self._amount(at)
        if count < 0:
            return None
        if unit is not None:
            day = calendar.back(self.today, sign * count, unit)
            return _Name(*calendar.day(day), after, day=True)
        if self.now is None:
            return None
        moment = self.now.replace(microsecond=0) - timedelta(seconds=sign * count * seconds)
        return _Name(moment, moment + timedelta(seconds=1), after)

    def _rolling(self, at: int) -> _Name | None:
        """`last 7 days`: up to and with today."""
        sign = words.ROLLING.get(self._word(at))
        if sign is None:
            return None
        count, unit, seconds, after = self._amount(at + 1)
        if self._word(at) == "past" and count < 0:
            unit, times, after = self._unit(at + 1)
            count = times if unit and self._word(at + 1) not in words.PLURALS else -1
            if unit == "weekend":
                return None
        if count < 0 and self._word(at + 1) in {"hour", "stunde", "heure", "hora", "uur"}:
            count, unit, seconds, after = 1, None, 3600, at + 2
        if count < 0 or after <= at + 1:
            return None
        return self._rolled(sign, count, unit, seconds, after)

    def _counted(self, at: int) -> _Name | None:
        """`les 7 derniers jours`: the number first."""
        count, beyond = self._count(at)
        if count < 0 or self._word(beyond) not in words.COUNTED_FIRST:
            return None
        sign = words.ROLLING[self._word(beyond)]
        count, unit, seconds, after = self._amount(at)
        return None if count < 0 else self._rolled(sign, count, unit, seconds, after)

    def _rolled(
        self, sign: int, count: int, unit: Unit | None, seconds: float, after: int
    ) -> _Name | None:
        if unit is None:
            if self.now is not None:
                now = self.now.replace(microsecond=0)
                width = timedelta(seconds=count * seconds)
                one = timedelta(seconds=1)
                if sign < 0:
                    return _Name(now - width, now + one, after)
                return _Name(now, now + width + one, after)
            if seconds < 60:
                return None
            count, unit = -int(-count * seconds // 86400), "day"
        other = calendar.back(self.today, -sign * count, unit)
        since, until = min(self.today, other), max(self.today, other)
        return _Name(since, until + timedelta(days=1), after)

    def _this_unit(self, at: int, place: Place) -> _Name | None:
        """`last month`, `next Friday`, `this quarter`, `last March`, `last summer`."""
        shift = words.ADJECTIVES.get(self._word(at))
        if shift is None:
            return None
        word = self._word(at + 1)
        number = words.WEEKDAYS.get(word)
        if number is not None:
            if shift == 0 and word in {"sat", "sun", "wed", "mon"}:
                return None
            return self._weekday_at(number, shift, at + 2)
        number = words.MONTHS.get(word)
        if number is not None:
            if shift == 0 and (word in words.RISKY_MONTHS or self._word(at) == "current"):
                return None
            year, after = self._year_after(at + 2)
            if year > 0:
                return _Name(*calendar.month(year, number), after, month=number)
            return self._month_at(number, shift, at + 2)
        number = words.SEASONS.get(word)
        if number is not None and word != "fall":
            return self._season_at(number, shift, at + 2)
        unit, times, after = self._unit(at + 1)
        if unit is None or unit == "day" or word in words.PLURALS:
            return None
        if times > 1:
            if shift == 0:
                return None
            return self._rolled(-1 if shift < 0 else 1, times, unit, 0, after)
        return self._shifted(unit, shift, after, place)

    def _shifted(self, unit: Unit, shift: int, after: int, place: Place) -> _Name | None:
        if shift < 0 and self._word(after) in words.OF:
            year, beyond = self._year_after(after)
            if year > 0:
                if unit in {"quarter", "half"}:
                    return _part_of_year(unit[0], 4 if unit == "quarter" else 2, year, beyond)
                if unit == "month":
                    return _Name(*calendar.month(year, 12), beyond)
                return None
        if self._word(after) == "ci":
            after += 1
        since, until = calendar.unit_around(self.today, unit, shift)
        last_week = unit == "week" and shift == -1 and place != "pair"
        return _Name(since, until, after, last_week=last_week or (unit == "week" and shift == -1))

    def _unit_first(self, at: int, place: Place) -> _Name | None:
        """`la semaine derniere`, `week before last`, `year to date`, `week 42 of 2025`."""
        word = self._word(at)
        if word in words.TO_DATE:
            return self._to_date(words.TO_DATE[word], at + 1)
        if word in {"kw", "kalenderwoche"}:
            return self._week_of_year(at + 1)
        unit, times, after = self._unit(at)
        if unit is None or times != 1:
            return None
        if unit != "day" and self._phrase(after, ("to", "date")):
            return self._to_date(unit, after + 2)
        if unit != "day" and self._phrase(after, ("before", "last")):
            return _Name(*calendar.unit_around(self.today, unit, -2), after + 2)
        if unit != "day" and self._phrase(after, ("after", "next")):
            return _Name(*calendar.unit_around(self.today, unit, 2), after + 2)
        side = words.LATER_ADJECTIVES.get(self._word(after))
        if word == "an" and self._word(after) not in {"dernier", "passe", "prochain"}:
            side = None  # an English article
        if side is None and self._phrase(after, ("que", "viene")):
            side, after = 1, after + 1
        if side is not None and unit != "day" and word not in words.PLURALS:
            return self._shifted(unit, side, after + 1, place)
        if unit == "week":
            named = (
                self._name(self._past_articles(after + 1), "")
                if self._word(after) in words.OF
                else None
            )
            if named is not None and named.day:
                return _Name(*calendar.unit_around(_day(named.since), "week"), named.next)
            return self._week_of_year(after)
        if unit == "year":
            year = self._year(after)
            if year > 0 and (place or self._ends_here(after + 1)):
                return _Name(date(year, 1, 1), date(year + 1, 1, 1), after + 1)
        if unit == "month" and self._word(after) in words.OF | words.MONTHS.keys():
            return self._month(after + (self._word(after) in words.OF), "since")
        return None

    def _week_of_year(self, at: int) -> _Name | None:
        number = self._number(at, 1, 53)
        year, after = self._year_after(at + 1)
        if number < 0 or year < 0:
            return None
        return _Name(*calendar.iso_week(year, number), after)

    def _to_date(self, unit: Unit, after: int) -> _Name | None:
        if unit in {"day", "weekend"}:
            return None
        since = calendar.unit_around(self.today, unit)[0]
        return _Name(since, self.today + timedelta(days=1), after)

    def _ordinal_part(self, number: int, beyond: int) -> _Name | None:
        """`first quarter of 2025`, `1. Quartal 2025`, `second half of 2024`."""
        if number < 1:
            return None
        word = self._word(beyond)
        unit = "half" if word == "half" else words.UNITS.get(word)
        if unit not in {"quarter", "half"}:
            return None
        beyond += 1
        if word == "half" and self._word(beyond) == "year":
            beyond += 1
        year, after = self._year_after(beyond)
        if year < 0:
            return None
        return _part_of_year(unit[0], number, year, after)

    def _season(self, at: int) -> _Name | None:
        number = words.SEASONS.get(self._word(at))
        if number is None:
            return None
        year, after = self._year_after(at + 1)
        return None if year < 0 else _Name(*calendar.season(year, number), after)

    def _season_at(self, number: int, shift: int, beyond: int) -> _Name:
        """The season of this year, or the nearest one that is over or has not begun."""
        years = range(self.today.year - 2, self.today.year + 3)
        periods = [calendar.season(year, number) for year in years]
        if shift < 0:
            period = [each for each in periods if each[1] <= self.today][-1]
        elif shift > 0:
            period = next(each for each in periods if each[0] > self.today)
        else:
            holds = [each for each in periods if each[0] <= self.today < each[1]]
            period = holds[0] if holds else calendar.season(self.today.year, number)
        return _Name(*period, beyond)

    def _month_at(self, number: int, shift: int, beyond: int) -> _Name:
        year = self.today.year
        if shift < 0 and number >= self.today.month:
            year -= 1
        elif shift > 0 and number <= self.today.month:
            year += 1
        return _Name(*calendar.month(year, number), beyond, month=number)

    def _timed(self, name: _Name) -> _Name:
        """A day with the time of day that follows it."""
        at = name.next
        while self._word(at) in _AT:
            at += 1
        clock = self._clock(at)
        if clock is None or isinstance(name.since, datetime):
            return name
        moment, zulu, beyond = clock
        if self._word(beyond) in {"uhr", "h", "hours"}:
            beyond += 1
        if self._word(beyond) in {"utc", "gmt"}:
            zulu, beyond = True, beyond + 1
        zone = UTC if zulu else self.zone
        since = datetime.combine(name.since, moment, zone).astimezone(UTC)
        return _Name(since, since + timedelta(seconds=1), beyond)

    def _clock(self, at: int) -> tuple[time, bool, int] | None:
        """A time of day, whether it is UTC, and what follows."""
        word = _digits(self._word(at))
        half, zulu = "", False
        parts: list[int]
        if self._kind(at) == "clock":
            zulu = word.endswith("z")
            half = word[-2] if word.endswith("m") else ""
            parts = [int(part) for part in word.rstrip("apmz").split(":")]
        elif self._kind(at) == "mixed" and (match := _HOUR.fullmatch(word)):
            half = match[2] or ""
            parts = [int(match[1]), int(match[3] or 0)]
        elif self._number(at, 0, 24) >= 0 and self._word(at + 1) in {"am", "pm", "uhr"}:
            half = {"am": "a", "pm": "p"}.get(self._word(at + 1), "")
            parts = [int(word), 0]
            at += bool(half)
        else:
            return None
        if not half and self._word(at + 1) in {"am", "pm"}:
            half, at = self._word(at + 1)[0], at + 1
        hour = parts[0]
        if half:
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if half == "p" else 0)
        if hour > 23 or any(part > 59 for part in parts[1:]):
            return None
        return time(hour, parts[1], parts[2] if len(parts) > 2 else 0), zulu, at + 1


def _day(moment: Moment) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _day_of(month: int, day: int) -> Callable[[int], Period]:
    return lambda year: calendar.day(date(year, month, day))


def _digits(word: str) -> str:
    """Digits of any script as ASCII ones."""
    if word.isascii():
        return word
    return "".join(str(int(each)) if each.isdecimal() else each for each in word)


def _part_of_year(letter: str, number: int, year: int, beyond: int) -> _Name | None:
    if letter in {"q", "t"}:
        return _Name(*calendar.quarter(year, number), beyond) if 1 <= number <= 4 else None
    return _Name(*calendar.half(year, number), beyond) if 1 <= number <= 2 else None
