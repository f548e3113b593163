"""Periods relative to now, and parts of a year: `3 days ago`, `last quarter`."""

from datetime import timedelta

from toolgate.intents.dates import calendar
from toolgate.intents.dates import vocabulary as words
from toolgate.intents.dates.calendar import Unit
from toolgate.intents.dates.days import DateDays
from toolgate.intents.dates.values import Connector, Name, as_day, part_of_year


class DateUnits(DateDays):
    """Reads lengths of time and whole units."""

    def _ago(self, at: int) -> Name | None:
        """Read a length before or after now: `3 days ago`, `il y a 3 jours`."""
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

    def _back(self, at: int, sign: int) -> Name | None:
        count, unit, seconds, after = self._amount(at)
        if count < 0:
            return None
        if unit is not None:
            day = calendar.back(self.today, sign * count, unit)
            return Name(*calendar.day(day), after, day=True)
        if self.instant is None:
            return None
        moment = self.instant.replace(microsecond=0) - timedelta(seconds=sign * count * seconds)
        return Name(moment, moment + timedelta(seconds=1), after)

    def _rolling(self, at: int) -> Name | None:
        """Read `last 7 days`: up to and including today."""
        sign = words.ROLLING.get(self._word(at))
        if sign is None:
            return None
        count, unit, seconds, after = self._amount(at + 1)
        # `past month` means one month back from today, unlike `last month`.
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

    def _counted(self, at: int) -> Name | None:
        """Read a length with the number first: `les 7 derniers jours`."""
        count, beyond = self._count(at)
        if count < 0 or self._word(beyond) not in words.COUNTED_FIRST:
            return None
        sign = words.ROLLING[self._word(beyond)]
        count, unit, seconds, after = self._amount(at)
        return None if count < 0 else self._rolled(sign, count, unit, seconds, after)

    def _rolled(
        self, sign: int, count: int, unit: Unit | None, seconds: float, after: int
    ) -> Name | None:
        if unit is None:
            if self.instant is not None:
                instant = self.instant.replace(microsecond=0)
                width = timedelta(seconds=count * seconds)
                second = timedelta(seconds=1)
                if sign < 0:
                    return Name(instant - width, instant + second, after)
                return Name(instant, instant + width + second, after)
            if seconds < 60:
                return None
            # Without a time of day, hours become whole days, rounded up so that nothing is lost.
            count, unit = -int(-count * seconds // 86400), "day"
        other = calendar.back(self.today, -sign * count, unit)
        since, until = min(self.today, other), max(self.today, other)
        return Name(since, until + timedelta(days=1), after)

    def _this_unit(self, at: int, connector: Connector) -> Name | None:
        """Read `last month`, `next Friday`, `this quarter`, `last March`, `last summer`."""
        shift = words.ADJECTIVES.get(self._word(at))
        if shift is None:
            return None
        word = self._word(at + 1)
        number = words.WEEKDAYS.get(word)
        if number is not None:
            # Ordinary words in these positions: `this sat well`, `this sun`.
            if shift == 0 and word in {"sat", "sun", "wed", "mon"}:
                return None
            return self._weekday_at(number, shift, at + 2)
        number = words.MONTHS.get(word)
        if number is not None:
            if shift == 0 and (word in words.RISKY_MONTHS or self._word(at) == "current"):
                return None
            year, after = self._year_after(at + 2)
            if year > 0:
                return Name(*calendar.month(year, number), after, month=number)
            return self._month_at(number, shift, at + 2)
        number = words.SEASONS.get(word)
        # `fall` is too common as another word.
        if number is not None and word != "fall":
            return self._season_at(number, shift, at + 2)
        unit, times, after = self._unit(at + 1)
        if unit is None or unit == "day" or word in words.PLURALS:
            return None
        if times > 1:
            if shift == 0:
                return None
            return self._rolled(-1 if shift < 0 else 1, times, unit, 0, after)
        return self._shifted(unit, shift, after, connector)

    def _weekday_of_week(self, at: int, connector: Connector) -> Name | None:
        """Read a weekday of a week: `Wednesday of last week`."""
        number = words.WEEKDAYS.get(self._word(at))
        if number is None or self._word(at + 1) not in words.OF or connector == "in":
            return None
        week = self._this_unit(self._past_articles(at + 2), "pair")
        if week is None or as_day(week.until) - as_day(week.since) != timedelta(weeks=1):
            return None
        day = as_day(week.since) + timedelta(days=number)
        return Name(*calendar.day(day), week.next, day=True, weekday=number)

    def _shifted(self, unit: Unit, shift: int, after: int, connector: Connector) -> Name | None:
        if shift < 0 and self._word(after) in words.OF:
            year, beyond = self._year_after(after)
            if year > 0:
                if unit in {"quarter", "half"}:
                    return part_of_year(unit[0], 4 if unit == "quarter" else 2, year, beyond)
                if unit == "month":
                    return Name(*calendar.month(year, 12), beyond)
                return None
        if self._word(after) == "ci":
            after += 1
        since, until = calendar.unit_around(self.today, unit, shift)
        # After `since`, last week means seven days back, so the name records that it was last week.
        last_week = unit == "week" and shift == -1 and connector != "pair"
        return Name(since, until, after, last_week=last_week or (unit == "week" and shift == -1))

    def _week_of_year(self, at: int) -> Name | None:
        number = self._number(at, 1, 53)
        year, after = self._year_after(at + 1)
        if number < 0 or year < 0:
            return None
        return Name(*calendar.iso_week(year, number), after)

    def _to_date(self, unit: Unit, after: int) -> Name | None:
        if unit in {"day", "weekend"}:
            return None
        since = calendar.unit_around(self.today, unit)[0]
        return Name(since, self.today + timedelta(days=1), after)

    def _ordinal_part(self, number: int, beyond: int) -> Name | None:
        """Read `first quarter of 2025`, `1. Quartal 2025`, `second half of 2024`."""
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
        return part_of_year(unit[0], number, year, after)

    def _season(self, at: int) -> Name | None:
        number = words.SEASONS.get(self._word(at))
        if number is None:
            return None
        year, after = self._year_after(at + 1)
        return None if year < 0 else Name(*calendar.season(year, number), after)

    def _season_at(self, number: int, shift: int, beyond: int) -> Name:
        """Return this year's season, or the nearest one that is over or has not started."""
        # Two years on either side always contain a season that is over and one that has not
        # started.
        years = range(self.today.year - 2, self.today.year + 3)
        periods = [calendar.season(year, number) for year in years]
        if shift < 0:
            period = [season for season in periods if season[1] <= self.today][-1]
        elif shift > 0:
            period = next(season for season in periods if season[0] > self.today)
        else:
            holds = [season for season in periods if season[0] <= self.today < season[1]]
            period = holds[0] if holds else calendar.season(self.today.year, number)
        return Name(*period, beyond)
