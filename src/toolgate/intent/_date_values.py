"""What dates are made of while they are read: moments, and names of periods."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, TypeAlias

from toolgate.intent import _calendar as calendar
from toolgate.intent._calendar import Period

__all__ = ["Moment", "Name", "Place", "as_day", "day_of", "digits", "part_of_year"]

Moment: TypeAlias = date | datetime
"""A day, or an aware UTC datetime where a time of day was named."""

Place: TypeAlias = Literal["", "in", "since", "after", "newer", "before", "older", "until", "pair"]
"""What stands before: some names are dates only beside a word of time."""


@dataclass(slots=True)
class Name:
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


def as_day(moment: Moment) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def day_of(month: int, day: int) -> Callable[[int], Period]:
    return lambda year: calendar.day(date(year, month, day))


def digits(word: str) -> str:
    """Digits of any script as ASCII ones."""
    if word.isascii():
        return word
    return "".join(str(int(each)) if each.isdecimal() else each for each in word)


def part_of_year(letter: str, number: int, year: int, beyond: int) -> Name | None:
    if letter in {"q", "t"}:
        return Name(*calendar.quarter(year, number), beyond) if 1 <= number <= 4 else None
    return Name(*calendar.half(year, number), beyond) if 1 <= number <= 2 else None
