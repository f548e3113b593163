"""All expressions that name a date, whatever word they start with."""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Final

from toolgate.intents.dates import calendar
from toolgate.intents.dates import vocabulary as words
from toolgate.intents.dates.holidays import HOLIDAYS
from toolgate.intents.dates.periods import DateUnits
from toolgate.intents.dates.tokens import tokens_of
from toolgate.intents.dates.values import (
    Connector,
    Moment,
    Name,
    as_day,
    day_of,
    part_of_year,
)

_GERMAN: Final = frozenset(
    [
        *("dem", "den", "der", "vom", "zum", "seit", "ab", "bis", "nach", "vor", "zwischen"),
        *("und", "im", "am"),
    ]
)
"""Words before a day in German notation, with a dot after day and month."""

_QUARTER: Final = re.compile(r"([qths])([1-4])|([1-4])([qt])")

CONNECTORS: Final[dict[str, list[tuple[tuple[str, ...], Connector]]]] = {}
for _connector, _phrases in (
    ("since", words.SINCE),
    ("after", words.AFTER),
    ("before", words.BEFORE),
    ("until", words.UNTIL),
):
    for _phrase in _phrases:
        _real: Connector = _connector  # pyright: ignore[reportAssignmentType]
        # Comparisons may be followed by a length (`older than 30 days`), but `after` and `before`
        # may not.
        if len(_phrase) == 2 and _phrase[1] in {"than", "als", "dan"}:
            _real = "newer" if _connector == "after" else "older"
        CONNECTORS.setdefault(_phrase[0], []).append((_phrase, _real))
# Longer phrases first: `bis zum` would never be reached after `bis`.
for _entries in CONNECTORS.values():
    _entries.sort(key=lambda entry: -len(entry[0]))

HOLIDAY_NAMES: Final[dict[str, list[tuple[tuple[str, ...], Callable[[int], date]]]]] = {}
"""Holidays by the first token of their names: all tokens, and the day by year; longest first."""
for _name, _day_in in HOLIDAYS.items():
    _tokens = tokens_of(_name)
    HOLIDAY_NAMES.setdefault(_tokens[0], []).append((_tokens, _day_in))
for _names in HOLIDAY_NAMES.values():
    _names.sort(key=lambda named: -len(named[0]))

STARTERS: Final = frozenset(
    [
        *CONNECTORS,
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
        *words.CLOCK_WORDS,
        *words.MIDDLES,
        *(word for name in words.NUMBERS for word in name.split()[:1]),
        *(phrase[0] for phrase in words.AGO_BEFORE),
        *HOLIDAY_NAMES,
        *(
            "kw",
            "calendar",
            "an",
            "pasado",
            "antes",
            "kalenderwoche",
            "a",
            "il",
            "half",
            "fim",
            "depois",
        ),
    ]
)
"""Words that a date may start with."""


class DateNames(DateUnits):
    """Reads one name of a date: a day, a unit, or the start or end of a unit."""

    def _name(self, at: int, connector: Connector, after: Moment | None = None) -> Name | None:
        """Return the date named at `at`, with a time of day if one follows."""
        kind = self._kind(at)
        if (clock := self._clock_alone(at, connector)) is not None:
            return self._clock_on_day(clock)
        if kind in {"word", "elided"}:
            name = self._worded(at, connector, after)
        elif kind == "number":
            name = self._numbered(at, connector)
        elif kind == "mixed":
            name = self._mixed(at, connector)
        elif kind:
            name = self._written(at, kind, connector)
        else:
            name = None
        return self._timed(name) if name is not None and name.day else name

    def _clock_on_day(self, clock: Name) -> Name:
        """Return a time with the day that follows it: `3pm yesterday`, `14:30 on Monday`."""
        at = clock.next
        at += self._word(at) in {"on", "of", "am", "le", "el", "op", ","}
        day = self._name(self._past_articles(at), "since")
        if day is None or not day.day or clock.clock is None or isinstance(day.since, datetime):
            return clock
        return self._on_day(day.since, clock.clock, day.next)

    def _holiday(self, at: int, connector: Connector) -> Name | None:
        """Read a holiday: `since Christmas`, `Easter 2025`; without a year, the latest one."""
        # An adjective makes a name a date even without a time word: `last Christmas`.
        side = words.ADJECTIVES.get(self._word(at), 0)
        at += bool(side)
        for tokens, day_in in HOLIDAY_NAMES.get(self._word(at), ()):
            if not self._phrase(at, tokens):
                continue
            year, beyond = self._year_after(at + len(tokens))
            if year > 0:
                return Name(*calendar.day(day_in(year)), beyond, day=True)
            if not side and self._word(beyond) in words.LATER_ADJECTIVES:
                side, beyond = words.LATER_ADJECTIVES[self._word(beyond)], beyond + 1
            # Alone it is not a date: `christmas cards` name none, and `easter` may be a person.
            is_bound = connector in {"since", "after", "newer", "before", "until", "pair"}
            if not side and not is_bound:
                return None
            this_year = day_in(self.today.year)
            ahead = side > 0 or (not side and connector in {"until", "before"})
            past = not ahead and this_year > self.today
            later = ahead and this_year < self.today
            day = day_in(self.today.year + later - past)
            return Name(*calendar.day(day), beyond, day=True)
        return None

    def _middle(self, at: int, connector: Connector) -> Name | None:
        """Read the middle of a month: `since mid-September`, `seit Mitte September`: the 15th."""
        first, _, rest = self._word(at).partition("-")
        if first not in words.MIDDLES or connector in {"", "in"}:
            return None
        if rest:
            number, beyond = words.MONTHS.get(rest), at + 1
        else:
            month_at = at + 1 + (self._word(at + 1) in words.OF)
            number, beyond = words.MONTHS.get(self._word(month_at)), month_at + 1
        if number is None:
            return None
        year, beyond = self._year_after(beyond)
        month = date(year if year > 0 else self.today.year, number, 15)
        if year < 0 and month > self.today and connector in {"since", "after"}:
            month = month.replace(year=month.year - 1)
        return Name(*calendar.day(month), beyond, day=True)

    def _bare_day(self, at: int, connector: Connector) -> Name | None:
        """Read `after the 15th`: of this month, or of last month if that is still to come."""
        if self._kind(at) != "mixed" or connector in {"", "in"}:
            return None
        if self._word(at - 1) not in words.ARTICLES:
            return None
        number, beyond = self._day_number(at)
        if number < 0 or not self._ends_here(beyond):
            return None
        month = self.today.replace(day=1)
        if connector in {"since", "after", "newer"} and number > self.today.day:
            month = calendar.add_months(month, -1)
        return Name(*calendar.day(month.replace(day=number)), beyond, month=month.month, day=True)

    def _week_of_month(self, at: int) -> Name | None:
        """Read `the first week of September` (days 1 to 7) or `the last week` (its last seven)."""
        number = words.ORDINALS.get(self._word(at), 0)
        is_last = words.ADJECTIVES.get(self._word(at)) == -1
        if words.UNITS.get(self._word(at + 1)) != "week" or not (number or is_last):
            return None
        month_at = self._past_articles(at + 2 + (self._word(at + 2) in {"of", "in", "im"}))
        month = self._month(month_at, "pair") if month_at > at + 2 else None
        if month is None or month.day or not month.month:
            return None
        if is_last:
            return Name(as_day(month.until) - timedelta(days=7), month.until, month.next)
        since = as_day(month.since) + timedelta(days=7 * (number - 1))
        return Name(since, since + timedelta(days=7), month.next)

    def _numbered(self, at: int, connector: Connector) -> Name | None:
        year = self._year(at)
        if year > 0:
            return self._from_year(at, year, connector)
        ago = self._ago(at)
        if ago is not None:
            return ago
        if self._word(at + 1) == "." and self._word(at + 2) in words.UNITS:
            return self._ordinal_part(self._number(at, 1, 4), at + 2)
        return (
            self._day_first(at, connector) or self._short_german(at, connector) or self._counted(at)
        )

    def _short_german(self, at: int, connector: Connector) -> Name | None:
        """Read `seit dem 3.10.`: this year's day, or last year's if it is still to come."""
        if connector in {"", "in"} or not {self._word(at - 1), self._word(at - 2)} & _GERMAN:
            return None
        day, month = self._number(at, 1, 31), self._number(at + 2, 1, 12)
        tokens = self._word(at + 1), self._word(at + 3)
        if min(day, month) < 1 or tokens != (".", ".") or self.starts[at + 3] > self.starts[at] + 5:
            return None
        period = calendar.day(date(self.today.year, month, day))
        if connector in {"since", "after", "newer"} and period[0] > self.today:
            period = calendar.day(date(self.today.year - 1, month, day))
        return Name(*period, at + 4, in_year=day_of(month, day), month=month, day=True)

    def _from_year(self, at: int, year: int, connector: Connector) -> Name | None:
        """Read a year, alone only where nothing but a year fits, or with its quarter."""
        if self._kind(at + 1) == "mixed":
            match = _QUARTER.fullmatch(self._word(at + 1))
            if match and match[1]:
                return part_of_year(match[1], int(match[2]), year, at + 2)
        # 1990 (chosen): a bare number below that is rarely meant as a year.
        if connector not in {"since", "in"} or not 1990 <= year <= self.today.year + 1:
            return None
        if not self._ends_here(at + 1):
            return None
        return Name(date(year, 1, 1), date(year + 1, 1, 1), at + 1)

    def _mixed(self, at: int, connector: Connector) -> Name | None:
        word = self._word(at)
        match = _QUARTER.fullmatch(word)
        if match:
            letter, number = (match[1], match[2]) if match[1] else (match[4], match[3])
            year, beyond = self._year_after(at + 1)
            if year > 0:
                return part_of_year(letter, int(number), year, beyond)
            alone = connector in {"since", "after", "before", "until", "pair", "in"}
            if letter == "q" and alone and self._ends_here(at + 1):
                return part_of_year("q", int(number), self.today.year, at + 1)
            if letter == "q":
                return None
        return (
            self._ago(at)
            or self._week_of_month(at)
            or self._ordinal_part(words.ORDINALS.get(word, -1), at + 1)
            or self._day_first(at, connector)
            or self._bare_day(at, connector)
        )

    def _worded(self, at: int, connector: Connector, after: Moment | None) -> Name | None:
        word = self._word(at)
        if connector == "pair" and word in words.NOW:
            return Name(*calendar.day(self.today), at + 1, day=True)
        if "-" in word and (middle := self._middle(at, connector)) is not None:
            return middle
        if word not in STARTERS:
            return None
        # From the most specific reading to the loosest: the first that matches is used.
        return (
            self._holiday(at, connector)
            or self._day_word(at)
            or self._week_of_month(at)
            or self._middle(at, connector)
            or self._edge(at, connector)
            or self._weekday_of_week(at, connector)
            or self._weekday(at, connector, after)
            or self._month(at, connector)
            or self._ago(at)
            or self._rolling(at)
            or self._this_unit(at, connector)
            or self._unit_first(at, connector)
            or self._ordinal_part(words.ORDINALS.get(word, -1), at + 1)
            or self._day_first(at, connector)
            or self._season(at)
            or self._counted(at)
        )

    def _edge(self, at: int, connector: Connector) -> Name | None:
        """Read the start or the end of a unit."""
        word = self._word(at)
        if word not in words.EDGES or self._unit(at)[0] == "weekend":
            return None
        beyond = at + 1
        if self._word(beyond) in words.OF:
            beyond += 1
        elif word not in words.LOOSE_EDGES and self._word(beyond) not in words.ARTICLES:
            return None
        inner_at = self._past_articles(beyond)
        inner = self._name(inner_at, "in")
        if inner is None:
            if inner_at == beyond and not connector and self._word(beyond - 1) != "des":
                return None
            unit, times, after = self._unit(inner_at)
            if unit is None or unit == "day" or times != 1:
                return None
            inner = Name(*calendar.unit_around(self.today, unit), after)
        if isinstance(inner.since, datetime):
            return None
        last = words.EDGES[word]
        point = inner.until if last else inner.since
        # As a bound, the start or end of a unit is a point in time; otherwise it is that day.
        if connector in {"since", "after", "newer", "before", "older", "until"}:
            return Name(point, point, inner.next, edge=True)
        since, until = calendar.day(as_day(point) - timedelta(days=last))
        return Name(since, until, inner.next)

    def _unit_first(self, at: int, connector: Connector) -> Name | None:
        """Read `la semaine derniere`, `week before last`, `year to date`, `week 42 of 2025`."""
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
            return Name(*calendar.unit_around(self.today, unit, -2), after + 2)
        if unit != "day" and self._phrase(after, ("after", "next")):
            return Name(*calendar.unit_around(self.today, unit, 2), after + 2)
        side = words.LATER_ADJECTIVES.get(self._word(after))
        if word == "an" and self._word(after) not in {"dernier", "passe", "prochain"}:
            side = None  # an English article
        if (
            side is None
            and self._word(after) == "que"
            and self._word(after + 1) in {"viene", "vem"}
        ):
            side, after = 1, after + 1
        if side is not None and unit != "day" and word not in words.PLURALS:
            return self._shifted(unit, side, after + 1, connector)
        if unit == "week":
            named = (
                self._name(self._past_articles(after + 1), "")
                if self._word(after) in words.OF
                else None
            )
            if named is not None and named.day:
                return Name(*calendar.unit_around(as_day(named.since), "week"), named.next)
            return self._week_of_year(after)
        if unit == "year":
            year = self._year(after)
            if year > 0 and (connector or self._ends_here(after + 1)):
                return Name(date(year, 1, 1), date(year + 1, 1, 1), after + 1)
        if unit == "month" and self._word(after) in words.OF | words.MONTHS.keys():
            return self._month(after + (self._word(after) in words.OF), "since")
        return None
