"""Dates and date ranges in a message: our own small grammar over words, not a library.

Ranges are half-open: `since <= t < until`. A name means the whole of what it names: a day, a
week, a month. The clock is always passed in. Text that does not clearly name a date is not read
as one: a bare number, an ordinal, a version, an identifier, "may", "march" and "sat" as ordinary
words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from toolgate.intents.dates import calendar
from toolgate.intents.dates import vocabulary as words
from toolgate.intents.dates.days import PAIR_SIGNS
from toolgate.intents.dates.expressions import (
    CONNECTORS,
    HOLIDAY_NAMES,
    STARTERS,
    DateNames,
)
from toolgate.intents.dates.values import Connector, Moment, Name, as_day, day_of
from toolgate.intents.text import Folded, fold


@dataclass(frozen=True, kw_only=True)
class DateMatch:
    """A date or date range named in a message."""

    since: Moment | None
    """First moment; None: open on this side."""

    until: Moment | None
    """First moment after it; None: open on this side. Same type as `since`."""

    start: int
    """Offset of the first character in the message."""

    end: int
    """Offset after the last character."""

    text: str
    """The words that were read, unchanged."""

    @property
    def last_day(self) -> Moment | None:
        """The last day inside, for tools whose end is inclusive; a time of day is unchanged."""
        if self.until is None or isinstance(self.until, datetime):
            return self.until
        return self.until - timedelta(days=1)


def find_dates(text: str, *, today: date, zone: str = "UTC") -> list[DateMatch]:
    """Return the dates in `text` in order; they do not overlap.

    Args:
        text: A message in English, German, French, Spanish, Dutch, Portuguese, Italian or
            Chinese, of any length.
        today: The day that "yesterday" is relative to, in `zone`. An aware datetime also sets
            the hour that "2 hours ago" is relative to.
        zone: IANA name of the time zone of days, and of times of day without a zone.

    Raises:
        ZoneInfoNotFoundError: There is no such zone.
    """
    return list(dates_in(fold(text), today=today, zone=zone))


def dates_in(folded: Folded, *, today: date, zone: str = "UTC") -> Iterator[DateMatch]:
    """Return the dates of a folded text, as `find_dates` does."""
    yield from _DateParser(folded, today, zone).read()


_WRITTEN: Final = frozenset(
    {"moment", "isoday", "isoweek", "isoquarter", "isomonth", "slashed", "dotted"}
)

_NO_BOUNDS: Final = (("antes", "de", "ayer"), ("depois", "de", "amanha"))
"""Names of days that begin like a bound."""

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
        *words.CLOCK_WORDS,
        *HOLIDAY_NAMES,
        *("kw", "kalenderwoche", "morning", "afternoon", "evening", "night", "am", "pm", "uhr"),
        *("matin", "apres-midi", "soir", "tarde", "noche", "clock"),
    ]
)
"""Every date contains one of these, or digits."""

# Chosen: openings longer than `between the beginning of the` are rare.
_REACH: Final = 8
"""Largest number of words from the start of an expression to its first core."""


class _DateParser(DateNames):
    """Reads all dates of a message: names, and what the surrounding words make of them."""

    def read(self) -> Iterator[DateMatch]:
        """Yield all dates in order."""
        at, near = 0, self._next_core()
        while at < len(self.words):
            # Skips stretches without a core word, which are most of a long message.
            if near[at] - at > _REACH:
                if near[at] == len(self.words):
                    return
                at = near[at] - _REACH
                continue
            # The grammar runs only at words that can start a date.
            if self.kinds[at] not in _ALWAYS and not self._may_begin(self.words[at]):
                at += 1
                continue
            expression = self._expression(at)
            if expression is None:
                at += 1
                continue
            since, until, after = expression
            match = self._match(since, until, at, after)
            if match is None:
                at += 1
                continue
            yield match
            at = after

    def _next_core(self) -> list[int]:
        """Return, for each word, the index of the next core word."""
        near, last = [0] * len(self.words), len(self.words)
        for at in range(last - 1, -1, -1):
            if self._is_core(at):
                last = at
            near[at] = last
        return near

    def _is_core(self, at: int) -> bool:
        kind, word = self.kinds[at], self.words[at]
        if kind == "word":
            # `jan-mar` and `mid-march` are one token each, so their parts are checked.
            is_month = "-" in word and not words.MONTHS.keys().isdisjoint(word.split("-"))
            return word in _CORES or is_month
        if kind == "number":
            return len(word) == 4 or self._is_dotted(at)
        return kind in _WRITTEN or kind in {"mixed", "clock"}

    def _is_dotted(self, at: int) -> bool:
        """Whether the token is the day in `3.10.`."""
        return self._word(at + 1) == "." and self._kind(at + 2) == "number"

    @staticmethod
    def _may_begin(word: str) -> bool:
        return word in STARTERS or "-" in word

    def _match(
        self, since: Moment | None, until: Moment | None, first: int, after: int
    ) -> DateMatch | None:
        start, end = self.starts[first], self.ends[after - 1]
        # A date inside a path, an identifier or a call is part of that.
        if self._is_joined(start, end):
            return None
        try:
            # Both ends of a match have one type: if one is a time of day, a day becomes its
            # midnight.
            if isinstance(since, datetime) or isinstance(until, datetime):
                since = None if since is None else self._instant(since)
                until = None if until is None else self._instant(until)
            # An empty range is a misreading.
            if since is not None and until is not None and since >= until:
                return None
        except (OverflowError, ValueError):
            return None
        start, end = self.folded.start(start), self.folded.end(end)
        return DateMatch(
            since=since, until=until, start=start, end=end, text=self.folded.source[start:end]
        )

    def _expression(self, at: int) -> tuple[Moment | None, Moment | None, int] | None:
        try:
            return self._pieces(at)
        except (OverflowError, ValueError):  # outside the calendar, or no such day
            return None

    def _pieces(self, at: int) -> tuple[Moment | None, Moment | None, int] | None:
        word = self._word(at)
        # Openings of ranges come first: the same words may also come before a plain name.
        if word in words.BETWEEN:
            return self._between(at)
        if word in words.FROM:
            shared = self._days_of_one_month(self._past_articles(at + 1), words.TO)
            if shared is not None:
                return shared
        if word in CONNECTORS and self._may_bound(at):
            bounds = self._bounded(at)
            if bounds is not None:
                return bounds
        if word in words.FROM:
            bounds = self._from(at)
            if bounds is not None:
                return bounds
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
        if name is None and word in words.WEEKDAYS and self._word(at + 1) in words.TO:
            name = self._name(at, "pair")
            last = None if name is None else self._end_of_pair(name)
            return None if name is None or last is None else self._pair(name, last)
        if name is None:
            return self._month_to_month(at)
        return self._to_something(name)

    def _may_bound(self, at: int) -> bool:
        """Whether a word that may mean "since", "after" or the like can mean it here."""
        word, following = self._word(at), self._word(at + 1)
        if word == "da":  # German for "there", Portuguese for "of the"
            return following in words.ITALIAN
        if word == "na":  # Dutch for "after", Portuguese for "on the"
            return following not in words.PORTUGUESE
        return not any(self._phrase(at, phrase) for phrase in _NO_BOUNDS)

    def _to_something(self, name: Name) -> tuple[Moment, Moment, int]:
        """Return the period of a name, or of the pair that it starts."""
        at = name.next
        if name.day and self._word(at) in words.BETWEEN | words.FROM:
            times = self._times_of_day(name, at)
            if times is not None:
                return times
        if self._word(at) == "/" and self._kind(at + 1) in {"isoday", "moment", "isomonth"}:
            last = self._name(at + 1, "pair")
            if last is not None:
                return self._pair(name, last)
        last = self._end_of_pair(name)
        return self._pair(name, last) if last is not None else (name.since, name.until, at)

    def _times_of_day(self, day: Name, at: int) -> tuple[Moment, Moment, int] | None:
        """Read times of a day: `yesterday between 9:00 and 17:00`."""
        first = self._name(at + 1, "pair")
        joins = words.AND if self._word(at) in words.BETWEEN else words.TO
        if first is None or first.clock is None or self._word(first.next) not in joins:
            return None
        last = self._name(first.next + 1, "pair")
        if last is None or last.clock is None:
            return None
        since = self._on_day(as_day(day.since), first.clock, first.next)
        return self._pair(since, self._on_day(as_day(day.since), last.clock, last.next))

    def _end_of_pair(self, first: Name) -> Name | None:
        at = first.next
        if self._word(at) not in words.TO and not any(
            self._phrase(at, phrase) for phrase in (("up", "to"), ("jusqu", "a"), ("jusqu", "au"))
        ):
            return None
        return self._second(self._past_joints(at + 1), first)

    def _past_joints(self, at: int) -> int:
        """Return the index after the remaining words of `bis zum`, `up to and including`."""
        while self._word(at) in {"to", "and", "including", "zum", "zur", "en", "met", "au", "a"}:
            at += 1
        return self._past_articles(at)

    def _second(self, at: int, first: Name) -> Name | None:
        """Read the second name of a pair."""
        name = self._name(at, "pair", after=first.since)
        if name is not None:
            return name
        day, beyond = self._day_number(at)
        if first.day and first.month and day > 0:  # October 5 to 10
            year, beyond = self._year_after(beyond)
            the_day = day_of(first.month, day)
            since, until = the_day(year if year > 0 else first.since.year)
            same_day = None if year > 0 else first.in_year and the_day
            return Name(since, until, beyond, in_year=same_day, month=first.month, day=True)
        return None

    def _pair(self, first: Name, last: Name) -> tuple[Moment, Moment, int]:
        """Return the range from the start of the first name to the end of the last."""
        first, last = self._same_day(first, last)
        if first.weekday is not None and last.weekday is not None:
            # `Monday to Wednesday of last week`: the Monday of the same week.
            gap = timedelta(days=(last.weekday - first.weekday) % 7)
            if self._before(last.since, first.since):
                first.since = as_day(last.since) - gap
        since, until = first.since, last.until
        # If only the last name has a year, the first one gets it too, or the year before if the
        # range would otherwise be empty.
        if first.in_year is not None and last.in_year is None and last.month:
            since = first.in_year(last.since.year)[0]
            if since >= as_day(until):
                since = first.in_year(last.since.year - 1)[0]
        elif last.in_year is not None and self._before(last.since, first.since):
            until = last.in_year(first.since.year + 1)[1]
        elif self._before(last.since, first.since):
            # A pair in the wrong order still means the time between both.
            since, until = last.since, first.until
        return since, until, last.next

    def _before(self, first: Moment, second: Moment) -> bool:
        if isinstance(first, datetime) or isinstance(second, datetime):
            return self._instant(first) < self._instant(second)
        return first < second

    def _between(self, at: int) -> tuple[Moment, Moment, int] | None:
        shared = self._days_of_one_month(self._past_articles(at + 1), words.AND)
        if shared is not None:
            return shared
        first = self._name(self._past_articles(at + 1), "pair")
        if first is None or self._word(first.next) not in words.AND | PAIR_SIGNS:
            return None
        last = self._second(self._past_articles(first.next + 1), first)
        return None if last is None else self._pair(first, last)

    def _days_of_one_month(
        self, at: int, joins: frozenset[str]
    ) -> tuple[Moment, Moment, int] | None:
        """Read two days before their month: `3 and 7 October`, `dem 3. und dem 7. Oktober`."""
        day, beyond = self._day_number(at)
        beyond += self._word(beyond) == "."
        if day < 0 or self._word(beyond) not in joins:
            return None
        last_at = self._past_joints(beyond + 1)
        last = self._day_first(last_at, "pair") or self._short_german(last_at, "pair")
        if last is None or not last.month:
            return None
        month = as_day(last.since).replace(day=1)
        # `between 28 and 3 October` starts in the month before.
        if day > as_day(last.since).day:
            month = calendar.add_months(month, -1)
        return month.replace(day=day), last.until, last.next

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
        # `emails from last week` means that week; a weekday alone is not read as a period.
        if self._word(at) in {"from", "von", "vom"} and first.weekday is None:
            plain = self._name(self._past_articles(at + 1), "")
            if plain is not None:
                return plain.since, plain.until, plain.next
        return None

    def _bounded(self, at: int) -> tuple[Moment | None, Moment | None, int] | None:
        """Read since, after, before or until, with the other bound if it follows."""
        bound = self._bound(at)
        if bound is None:
            return None
        since, until, beyond, first = bound
        if since is not None and first is not None:
            last = self._end_of_pair(first)
            if last is not None:
                paired = self._pair(first, last)
                return (since if self._before(since, paired[1]) else paired[0], *paired[1:])
        # `after March and before June`: a second bound counts if it closes the open side.
        more = beyond + (self._word(beyond) in words.AND | {"but", ",", "aber", "mais", "pero"})
        if self._word(more) in CONNECTORS:
            other = self._bound(more)
            if other is not None and (other[0] is None) != (since is None):
                low, high = (since, other[1]) if since is not None else (other[0], until)
                if low is not None and high is not None and self._before(low, high):
                    return low, high, other[2]
        return since, until, beyond

    def _bound(self, at: int) -> tuple[Moment | None, Moment | None, int, Name | None] | None:
        for phrase, connector in CONNECTORS[self._word(at)]:
            if not self._phrase(at, phrase):
                continue
            after = self._past_articles(at + len(phrase))
            amount = self._ago_amount(after, connector, phrase[0])
            if amount is not None:
                return amount
            inner: Connector = (
                "" if phrase == ("by",) else connector
            )  # "by June" is a person's work
            name = self._name(after, inner)
            if name is None and after != at + len(phrase):
                name = self._name(at + len(phrase), inner)
            if name is None:
                continue
            if connector == "since":
                return self._since(name), None, name.next, name
            if connector in {"after", "newer"}:
                return name.until, None, name.next, None
            if connector in {"before", "older"}:
                return None, name.since, name.next, None
            return None, name.until, name.next, None
        return None

    def _since(self, name: Name) -> Moment:
        """Return where `since` starts: seven days back for last week, else the first moment."""
        return self.today - timedelta(days=7) if name.last_week else name.since

    def _ago_amount(
        self, at: int, connector: Connector, word: str
    ) -> tuple[Moment | None, Moment | None, int, Name | None] | None:
        """Read a length tied to now by the word before it: `seit 3 Tagen`, `older than 30 days`."""
        if connector not in {"since", "older", "newer"} or word in words.NEVER_AGO:
            return None
        count, unit, seconds, after = self._amount(at)
        if count < 0 or self._word(after) in words.AGO_AFTER:
            return None
        if unit is not None:
            moment: Moment = calendar.back(self.today, count, unit)
        elif self.instant is not None:
            moment = self.instant.replace(microsecond=0) - timedelta(seconds=count * seconds)
        else:
            return None
        return (None, moment, after, None) if connector == "older" else (moment, None, after, None)

    def _month_to_month(self, at: int) -> tuple[Moment, Moment, int] | None:
        """Read a range of months: `January to March 2024`, `Jan-Mar 2024`."""
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
        # `Nov-Feb 2024` starts in the year before.
        since = calendar.month(year if first <= last else year - 1, first)[0]
        return since, calendar.month(year, last)[1], beyond
