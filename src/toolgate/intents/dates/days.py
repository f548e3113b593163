"""Days and months named in a message: by digits, by a weekday, by a month."""

from datetime import UTC, date, datetime, timedelta
from typing import Final

from toolgate.intents.dates import calendar
from toolgate.intents.dates import vocabulary as words
from toolgate.intents.dates.calendar import Period
from toolgate.intents.dates.clock import DateClock
from toolgate.intents.dates.values import (
    Connector,
    Moment,
    Name,
    as_day,
    day_of,
    digits,
    part_of_year,
)

PAIR_SIGNS: Final = frozenset({"-", "\u2013"})
"""Signs between two days of a month."""

# Before digits with dots, these announce a version or an IP address, never a day.
_VERSION: Final = frozenset({"version", "v", "build", "release", "port", "id", "ip", "rev"})

_DAY_PARTS: Final = frozenset(
    [
        *("morning", "afternoon", "evening"),
        *("morgen", "fruh", "vormittag", "nachmittag", "abend"),
        *("matin", "apres-midi", "soir", "manana", "tarde", "noche", "ochtend", "middag", "avond"),
    ]
)

_THIS: Final = frozenset({"this", "ce", "cet", "esta"})
"""Before a part of the day, which then is today's."""

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


class DateDays(DateClock):
    """Reads days and months of the calendar."""

    def _written(self, at: int, kind: str, connector: Connector) -> Name | None:
        """Read forms made of digits and signs."""
        word = self._word(at)
        if kind == "moment":
            since = self._moment(word)
            return Name(since, since + timedelta(seconds=1), at + 1)
        if kind == "isoday":
            return Name(*calendar.day(date.fromisoformat(digits(word))), at + 1, day=True)
        if kind == "isoweek":
            return Name(*calendar.iso_week(int(word[:4]), int(word[6:])), at + 1)
        if kind == "isoquarter":
            return part_of_year(word[5], int(word[6]), int(word[:4]), at + 1)
        if kind == "isomonth":
            # `2025-10` alone may be an identifier; a time word before it makes it a month.
            if not connector or connector == "older":
                return None
            year = int(word[:4])
            if not 1900 <= year <= 2199:
                return None
            return Name(*calendar.month(year, int(word[5:])), at + 1)
        if kind == "slashed":
            return self._slashed(word, at)
        if kind == "dotted":
            if self._word(at - 1) in _VERSION:
                return None
            day, month, year = (int(part) for part in word.split("."))
            return Name(*calendar.day(date(year, month, day)), at + 1, day=True)
        return None

    def _slashed(self, word: str, at: int) -> Name:
        """Read a date with slashes: year or month first; a first number above 12 is the day."""
        parts = [int(part) for part in word.split("/")]
        # Only a year has more than three digits.
        if parts[0] > 999:
            year, month, day = parts
        else:
            month, day, year = parts
            # American order, unless the first number cannot be a month.
            if month > 12:
                month, day = day, month
        return Name(*calendar.day(date(year, month, day)), at + 1, day=True)

    def _moment(self, word: str) -> datetime:
        moment = datetime.fromisoformat(digits(word).replace(",", ".").upper())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.zone)
        return moment.astimezone(UTC).replace(microsecond=0)

    def _day_word(self, at: int) -> Name | None:
        """Read words for days: today, the day before yesterday, this morning."""
        word = self._word(at)
        shift, beyond = words.DAYS.get(word), at + 1
        if word == "day" and self._word(at + 1) in {"before", "after"}:
            outer = {"before": ("yesterday", -2), "after": ("tomorrow", 2)}[self._word(at + 1)]
            shift, beyond = (outer[1], at + 3) if self._word(at + 2) == outer[0] else (None, at)
        elif word == "pasado" and self._word(at + 1) == "manana":
            shift, beyond = 2, at + 2
        elif self._phrase(at, ("antes", "de", "ayer")):
            shift, beyond = -2, at + 3
        elif self._phrase(at, ("depois", "de", "amanha")):
            shift, beyond = 2, at + 3
        elif self._phrase(at, ("l", "altro", "ieri")):
            shift, beyond = -2, at + 3
        elif self._phrase(at, ("avant", "hier")) and self._speaks_french():
            shift, beyond = -2, at + 2
        elif word in _THIS and self._word(at + 1) in _DAY_PARTS:
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
        # The part of the day is ignored: `yesterday morning` means the whole of yesterday.
        # Spanish puts two words before it: `ayer por la tarde`.
        if word in words.DAYS:
            beyond += 2 * self._phrase(beyond, ("por", "la"))
            beyond += self._word(beyond) in _DAY_PARTS
        since, until = calendar.day(self.today + timedelta(days=shift))
        return Name(since, until, beyond, day=True)

    def _weekday(self, at: int, connector: Connector, after: Moment | None) -> Name | None:
        number = words.WEEKDAYS.get(self._word(at))
        if number is None:
            return None
        beyond = at + 1
        if self._word(beyond) in {",", "."}:
            beyond += 1
        beyond = self._past_articles(beyond)
        dated: Name | None = None
        # A weekday before a date only repeats it: the date decides.
        if self._kind(beyond) in {"number", "mixed"}:
            dated = self._day_first(beyond, "in")
        elif self._word(beyond) in words.MONTHS:
            dated = self._month(beyond, "")
        elif self._kind(beyond) in {"isoday", "slashed", "dotted"}:
            dated = self._written(beyond, self._kind(beyond), connector)
        if dated is not None and dated.day:
            return dated
        side = words.LATER_ADJECTIVES.get(self._word(at + 1))
        if side is not None:
            return self._weekday_at(number, side, at + 2)
        if connector in {"since", "after", "newer", "before"}:
            return self._weekday_at(number, -1, at + 1)
        if connector == "until":
            return self._weekday_at(number, 1, at + 1)
        if connector == "pair":
            if after is None:
                return self._weekday_at(number, -1, at + 1)
            # The next such weekday after the first day of the pair, one to seven days later.
            day = as_day(after) + timedelta(days=(number - as_day(after).weekday() - 1) % 7 + 1)
            return Name(*calendar.day(day), at + 1, day=True, weekday=number)
        return None

    def _weekday_at(self, number: int, side: int, beyond: int) -> Name:
        today = self.today
        # `% 7 + 1` gives 1 to 7 days: today's own weekday is a week away, never today.
        if side < 0:
            day = today - timedelta(days=(today.weekday() - number - 1) % 7 + 1)
        elif side > 0:
            day = today + timedelta(days=(number - today.weekday() - 1) % 7 + 1)
        else:
            day = today + timedelta(days=number - today.weekday())
        return Name(*calendar.day(day), beyond, day=True, weekday=number)

    def _month(self, at: int, connector: Connector) -> Name | None:
        """Read a month with a year or a day, or alone next to a time word."""
        number = words.MONTHS.get(self._word(at))
        if number is None:
            return None
        beyond = at + 1
        if self._word(beyond) == "." and self.ends[at] == self.starts[beyond]:
            beyond += 1
        year, after = self._year_after(beyond)
        if year > 0:
            return Name(*calendar.month(year, number), after, month=number)
        day, after = self._day_number(self._past_articles(beyond))
        if day > 0 and self._kind(after - 1) != "word":
            return self._day_of_month(at, number, day, after, connector)
        side = words.LATER_ADJECTIVES.get(self._word(at + 1))
        if side is not None:
            return self._month_at(number, side, at + 2)
        if connector == "in":
            # In lower case, `may` and `march` are more likely verbs; `en mars` is a month in
            # French.
            risky = self._word(at) in words.RISKY_MONTHS and not self._is_capital(at)
            risky = risky and self._word(at - 1) != "en"
            # `im` is followed by nothing but the month in German; other words also by a name.
            if risky or not (self._word(at - 1) == "im" or self._ends_here(at + 1)):
                return None
        elif connector not in {"since", "after", "newer", "before", "until", "pair"}:
            return None
        period = calendar.month(self.today.year, number)
        # A month still to come cannot start a period in the past: last year's is meant.
        if connector in {"since", "after"} and period[0] > self.today:
            period = calendar.month(self.today.year - 1, number)
        return Name(
            *period, at + 1, in_year=lambda year: calendar.month(year, number), month=number
        )

    def _month_at(self, number: int, shift: int, beyond: int) -> Name:
        year = self.today.year
        if shift < 0 and number >= self.today.month:
            year -= 1
        elif shift > 0 and number <= self.today.month:
            year += 1
        return Name(*calendar.month(year, number), beyond, month=number)

    def _day_of_month(
        self, at: int, month: int, day: int, beyond: int, connector: Connector
    ) -> Name | None:
        """`October 15, 2025`, `October 5-10`."""
        last = day
        # If the second day has its own month, it starts another name: `October 5 to 10 November`.
        if self._word(beyond) in PAIR_SIGNS | {"to", "through"}:
            more, after = self._day_number(beyond + 1)
            if more > day and (self._word(after) not in words.MONTHS):
                last, beyond = more, after
        year, after = self._year_after(beyond)
        if year < 0 and not self._is_month_here(at, at, beyond, connector):
            return None
        return self._dated(month, day, last, year, after if year > 0 else beyond)

    def _day_first(self, at: int, connector: Connector) -> Name | None:
        """`15 October 2025`, `the 15th of October`, `5-10 October`, `15-Oct-2025`."""
        day, beyond = self._day_number(at)
        if day < 0:
            return None
        last = day
        if self._word(beyond) in PAIR_SIGNS and self._word(beyond + 1) in words.MONTHS:
            year = self._year(beyond + 3) if self._word(beyond + 2) == "-" else -1
            # Twelve characters hold `15-Sept-2025`, the compact form; more means that there are
            # blanks inside.
            if year < 0 or self.ends[beyond + 3] - self.starts[at] > 12:
                return None
            month = words.MONTHS[self._word(beyond + 1)]
            return self._dated(month, day, day, year, beyond + 4)
        dotted = beyond + (self._word(beyond) == ".")
        if self._word(dotted) in PAIR_SIGNS | {"to", "bis", "au", "al", "tot", "through"}:
            more, after = self._day_number(self._past_articles(dotted + 1))
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
        if year < 0 and not self._is_month_here(month_at, at, beyond, connector):
            return None
        return self._dated(month, day, last, year, after if year > 0 else beyond)

    def _is_month_here(self, month_at: int, first: int, beyond: int, connector: Connector) -> bool:
        """Whether a month's name next to a bare number is the month: in "may 5 users" it is not."""
        if self._word(month_at) not in words.RISKY_MONTHS or connector:
            return True
        if self._ends_here(beyond):
            return True
        # A capital letter says nothing at the start of a sentence.
        return first > 0 and self._is_capital(month_at) and self.words[first - 1] not in ".!?"

    def _dated(self, month: int, day: int, last: int, year: int, beyond: int) -> Name:
        start, end = day_of(month, day), day_of(month, last)

        def in_year(year: int) -> Period:
            return start(year)[0], end(year)[1]

        since, until = in_year(year if year > 0 else self.today.year)
        return Name(
            since,
            until,
            beyond,
            in_year=None if year > 0 else in_year,
            month=month,
            day=day == last,
        )
