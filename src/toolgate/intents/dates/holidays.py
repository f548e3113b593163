"""Public holidays that people name in messages, in five languages.

Only those that fall on the same day wherever the name is used; other public holidays differ from
state to state.
"""

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Final


def _fixed(month: int, day: int) -> Callable[[int], date]:
    return lambda year: date(year, month, day)


def _easter(year: int) -> date:
    """Return Easter Sunday of the western churches (Gauss; valid for the Gregorian calendar)."""
    golden, century = year % 19, year // 100
    skipped = century - century // 4 - (8 * century + 13) // 25
    moon = (skipped + 19 * golden + 15) % 30
    moon -= (moon // 28) * (1 - (moon // 28) * (29 // (moon + 1)) * ((21 - golden) // 11))
    sunday = (year + year // 4 + moon + 2 - century + century // 4) % 7
    offset = moon - sunday
    month = 3 + (offset + 40) // 44
    return date(year, month, offset + 28 - 31 * (month // 4))


def _around_easter(days: int) -> Callable[[int], date]:
    return lambda year: _easter(year) + timedelta(days=days)


def _nth_weekday(month: int, weekday: int, number: int) -> Callable[[int], date]:
    """Return the day of a month's n-th such weekday (0 is Monday), by year."""

    def day(year: int) -> date:
        first = date(year, month, 1)
        return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (number - 1))

    return day


def _kings_day(year: int) -> date:
    """Return 27 April, or the day before if that is a Sunday."""
    day = date(year, 4, 27)
    return day - timedelta(days=day.weekday() == 6)


_DAYS: Final[tuple[tuple[Callable[[int], date], str], ...]] = (
    (
        _fixed(1, 1),
        "new year|new years|new year's|new year's day|new years day|neujahr|nouvel an|jour de l'an"
        "|ano nuevo|nieuwjaar|nieuwjaarsdag",
    ),
    (
        _fixed(1, 6),
        "epiphany|dreikonigstag|heilige drei konige|epiphanie|dia de reyes|driekoningen",
    ),
    (_fixed(2, 14), "valentine's day|valentines day|valentinstag|saint-valentin|valentijnsdag"),
    (_around_easter(-2), "good friday|karfreitag|vendredi saint|viernes santo|goede vrijdag"),
    (_around_easter(0), "easter|easter sunday|ostern|ostersonntag|paques|pascua|pasen|paaszondag"),
    (_around_easter(1), "easter monday|ostermontag|lundi de paques|lunes de pascua|paasmaandag"),
    (_kings_day, "koningsdag"),
    (
        _fixed(5, 1),
        "may day|tag der arbeit|fete du travail|dia del trabajo|dia del trabajador"
        "|dag van de arbeid",
    ),
    (
        _around_easter(39),
        "ascension day|christi himmelfahrt|himmelfahrt|ascension|hemelvaart|hemelvaartsdag",
    ),
    (
        _around_easter(49),
        "pentecost|whit sunday|pfingsten|pfingstsonntag|pentecote|pentecostes|pinksteren",
    ),
    (_around_easter(50), "whit monday|pfingstmontag|lundi de pentecote|pinkstermaandag"),
    (_nth_weekday(9, 0, 1), "labor day"),
    (_fixed(7, 4), "independence day"),
    (_fixed(7, 14), "bastille day|fete nationale"),
    (_fixed(10, 3), "tag der deutschen einheit"),
    (_fixed(10, 31), "halloween"),
    (_fixed(11, 1), "all saints' day|all saints day|allerheiligen|toussaint"),
    (_nth_weekday(11, 3, 4), "thanksgiving|thanksgiving day"),
    (lambda year: _nth_weekday(11, 3, 4)(year) + timedelta(days=1), "black friday"),
    (
        _fixed(12, 24),
        "christmas eve|heiligabend|heilig abend|veille de noel|nochebuena|kerstavond",
    ),
    (
        _fixed(12, 25),
        "christmas|christmas day|xmas|weihnachten|noel|navidad|kerst|kerstmis|eerste kerstdag",
    ),
    (_fixed(12, 26), "boxing day|tweede kerstdag"),
    (
        _fixed(12, 31),
        "new year's eve|new years eve|silvester|saint-sylvestre|nochevieja|oudejaarsavond",
    ),
)

HOLIDAYS: Final[Mapping[str, Callable[[int], date]]] = {
    name: day_in for day_in, names in _DAYS for name in names.split("|")
}
"""The day of a holiday by year, for each folded name."""
