"""What dates are made of while they are read: moments, and names of periods."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Literal, TypeAlias

from toolgate.intents.dates import calendar
from toolgate.intents.dates.calendar import Period

__all__ = ["Connector", "Moment", "Name", "as_day", "day_of", "digits", "part_of_year"]

Moment: TypeAlias = date | datetime
"""A day, or an aware UTC datetime where a time of day was named."""

Connector: TypeAlias = Literal[
    "", "in", "since", "after", "newer", "before", "older", "until", "pair"
]
"""What stands before: some names are dates only beside a word of time."""


@dataclass(slots=True)
class Name:
    """A date that was named, before it is known what the words around make of it."""

    since: Moment
    """First moment."""
    until: Moment
    """Last moment."""
    next: int
    """Index of the token after the name."""
    last_week: bool = False
    """Whether it names the week before this one."""
    edge: bool = False
    """Whether it can be the start or the end of a range."""
    in_year: Callable[[int], Period] | None = None
    """The period by year, for a name without a year."""
    month: int = 0
    """1 to 12; 0: no month was named."""
    day: bool = False
    """Whether it names a single day."""
    weekday: int | None = None
    """0 (Monday) to 6; None: no weekday was named."""
    clock: time | None = None
    """A time of day whose day was not named, so that it may belong to the other end of a pair."""


def as_day(moment: Moment) -> date:
    """The day of a moment."""
    return moment.date() if isinstance(moment, datetime) else moment


def day_of(month: int, day: int) -> Callable[[int], Period]:
    """The period of a day without a year, by year."""
    return lambda year: calendar.day(date(year, month, day))


def digits(word: str) -> str:
    """Digits of any script as ASCII ones."""
    if word.isascii():
        return word
    return "".join(
        str(int(character)) if character.isdecimal() else character for character in word
    )


def part_of_year(letter: str, number: int, year: int, beyond: int) -> Name | None:
    """A quarter (`q`, `t`) or half of a year; None where the number is out of range."""
    if letter in {"q", "t"}:
        return Name(*calendar.quarter(year, number), beyond) if 1 <= number <= 4 else None
    return Name(*calendar.half(year, number), beyond) if 1 <= number <= 2 else None
