"""Intermediate values of date parsing: moments, and names of periods."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Literal, TypeAlias

from toolgate.intents.dates import calendar
from toolgate.intents.dates.calendar import Period

Moment: TypeAlias = date | datetime
"""A day, or an aware UTC datetime if a time of day was named."""

Connector: TypeAlias = Literal[
    "", "in", "since", "after", "newer", "before", "older", "until", "pair"
]
"""The word before a name: some names are dates only next to a time word."""


@dataclass(slots=True)
class Name:
    """A named date, before the surrounding words are taken into account."""

    since: Moment
    """First moment."""
    until: Moment
    """First moment after it."""
    next: int
    """Index of the token after the name."""
    last_week: bool = False
    """Whether it names the week before this one."""
    edge: bool = False
    """Whether it is the start or the end of a unit, as a point in time."""
    in_year: Callable[[int], Period] | None = None
    """The period by year, for a name without a year."""
    month: int = 0
    """1 to 12; 0: no month was named."""
    day: bool = False
    """Whether it names a single day."""
    weekday: int | None = None
    """0 (Monday) to 6; None: no weekday was named."""
    clock: time | None = None
    """A time of day without a day, which may belong to the other end of a pair."""


def as_day(moment: Moment) -> date:
    """Return the day of a moment."""
    return moment.date() if isinstance(moment, datetime) else moment


def day_of(month: int, day: int) -> Callable[[int], Period]:
    """Return the period of a day without a year, by year."""
    return lambda year: calendar.day(date(year, month, day))


def digits(word: str) -> str:
    """Convert digits of any script to ASCII digits."""
    if word.isascii():
        return word
    return "".join(
        str(int(character)) if character.isdecimal() else character for character in word
    )


def part_of_year(letter: str, number: int, year: int, beyond: int) -> Name | None:
    """Return a quarter (`q`, `t`) or half of a year; None if the number is out of range."""
    if letter in {"q", "t"}:
        return Name(*calendar.quarter(year, number), beyond) if 1 <= number <= 4 else None
    return Name(*calendar.half(year, number), beyond) if 1 <= number <= 2 else None
