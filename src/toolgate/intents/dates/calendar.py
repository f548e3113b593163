"""Calendar arithmetic: units of days, weeks, months, quarters, halves and years.

A period is a half-open pair of days. Weeks start on Monday. Going past the ends of the calendar
raises OverflowError or ValueError; callers treat that as "no such date".
"""

from calendar import monthrange
from datetime import date, timedelta
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["day", "week", "weekend", "month", "quarter", "half", "year"]
Period: TypeAlias = tuple[date, date]

_MONTHS_OF = {"month": 1, "quarter": 3, "half": 6, "year": 12}


def day(first: date) -> Period:
    """Return one day as a period."""
    return first, first + timedelta(days=1)


def add_months(moment: date, count: int) -> date:
    """Return the same day `count` months later, or the last day of that month."""
    year, month_index = divmod(moment.year * 12 + moment.month - 1 + count, 12)
    if not 1 <= year <= 9999:
        raise OverflowError(year)
    last = monthrange(year, month_index + 1)[1]
    return date(year, month_index + 1, min(moment.day, last))


def back(today: date, count: int, unit: Unit) -> date:
    """Return the day `count` units before `today`; after it for a negative count."""
    if unit == "day":
        return today - timedelta(days=count)
    if unit in {"week", "weekend"}:
        return today - timedelta(weeks=count)
    return add_months(today, -count * _MONTHS_OF[unit])


def unit_around(today: date, unit: Unit, shift: int = 0) -> Period:
    """Return the whole unit that contains `today`, or the one `shift` units later."""
    if unit == "day":
        return day(today + timedelta(days=shift))
    if unit == "week":
        monday = today - timedelta(days=today.weekday()) + timedelta(weeks=shift)
        return monday, monday + timedelta(weeks=1)
    if unit == "weekend":
        monday = unit_around(today, "week", shift)[0]
        return monday + timedelta(days=5), monday + timedelta(days=7)
    months = _MONTHS_OF[unit]
    # The first month of the unit that contains today: quarters start in months 1, 4, 7 and 10.
    first = date(today.year, (today.month - 1) // months * months + 1, 1)
    since = add_months(first, months * shift)
    return since, add_months(since, months)


def month(year: int, number: int) -> Period:
    """Return a month, 1 to 12."""
    since = date(year, number, 1)
    return since, add_months(since, 1)


def quarter(year: int, number: int) -> Period:
    """Return a quarter, 1 to 4."""
    since = date(year, number * 3 - 2, 1)
    return since, add_months(since, 3)


def half(year: int, number: int) -> Period:
    """Return a half year, 1 or 2."""
    since = date(year, number * 6 - 5, 1)
    return since, add_months(since, 6)


def season(year: int, number: int) -> Period:
    """Return a meteorological season: 0 is spring, 3 the winter from December of `year`."""
    # Meteorological seasons start in March, June, September and December.
    since = date(year, number * 3 + 3, 1)
    return since, add_months(since, 3)


def iso_week(year: int, number: int) -> Period:
    """Return a week of the ISO calendar, 1 to 53."""
    since = date.fromisocalendar(year, number, 1)
    return since, since + timedelta(weeks=1)
