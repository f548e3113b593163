"""Times of day: after a day, or alone next to a time word."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from toolgate.intents.dates import vocabulary as words
from toolgate.intents.dates.tokens import DateText
from toolgate.intents.dates.values import Connector, Name, as_day, digits

_HOUR: Final = re.compile(r"(\d{1,2})(?:([ap])m|h(\d\d)?)")

# Words that may come between a day and a time of day.
_AT: Final = frozenset({"at", "um", "a", "as", "om", "las", "@", ","})

_BEFORE_HOURS: Final = frozenset({"at", "um", "om", "las", "@"})
"""Those after which a bare number is an hour: `yesterday at 9`."""

_HOURS: Final = frozenset({"uhr", "uur", "h", "hours", "heures", "horas"})
"""Words after the number of an hour."""

_O_CLOCK: Final = ("o", "'", "clock")

_LATE: Final = frozenset({"afternoon", "evening"})
"""Parts of the day whose hours count from noon: `at 3 this afternoon`."""


class DateClock(DateText):
    """Reads times of day."""

    def _timed(self, name: Name) -> Name:
        """Return a day with the time of day that follows it."""
        at = name.next
        while self._word(at) in _AT:
            at += 1
        clock = self._clock(at)
        hour = self._number(at, 0, 23)
        # `yesterday 5 changes` has no hour: a bare number needs a word before or after it.
        is_hour = self._word(at - 1) in _BEFORE_HOURS or self._word(at + 1) in _HOURS
        if clock is None and hour >= 0 and is_hour:
            clock = time(hour), False, at + 1
        if clock is None or isinstance(name.since, datetime):
            return name
        moment, zulu, beyond = clock
        beyond += self._word(beyond) in _HOURS
        if self._word(beyond) in {"utc", "gmt"}:
            zulu, beyond = True, beyond + 1
        zone = UTC if zulu else self.zone
        since = datetime.combine(name.since, moment, zone).astimezone(UTC)
        return Name(since, since + timedelta(seconds=1), beyond)

    def _clock(self, at: int) -> tuple[time, bool, int] | None:
        """Return a time of day, whether it is UTC, and the index of the next token."""
        word = digits(self._word(at))
        if word in words.CLOCK_WORDS:
            return time(words.CLOCK_WORDS[word]), False, at + 1
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
        elif (hour := self._spoken_hour(at)) is not None:
            return hour
        else:
            return None
        if not half and self._word(at + 1) in {"am", "pm"}:
            half, at = self._word(at + 1)[0], at + 1
        hour = parts[0]
        # 12 am is midnight, 12 pm is noon.
        if half:
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if half == "p" else 0)
        if hour > 23 or any(part > 59 for part in parts[1:]):
            return None
        return time(hour, parts[1], parts[2] if len(parts) > 2 else 0), zulu, at + 1

    def _spoken_hour(self, at: int) -> tuple[time, bool, int] | None:
        """Read `nine o'clock`, `9 this morning` and `3 in the afternoon`."""
        hour = self._number(at, 1, 12)
        # Only hours up to twelve are said like this; 14 this morning is a count.
        if hour < 0:
            hour = words.NUMBERS.get(self._word(at), -1)
        if not 1 <= hour <= 12:
            return None
        beyond = at + 1
        if self._phrase(beyond, _O_CLOCK):
            beyond += len(_O_CLOCK)
        part = self._word(beyond + 1) if self._word(beyond) == "this" else ""
        if self._phrase(beyond, ("in", "the")):
            part, beyond = self._word(beyond + 2), beyond + 3
        if part not in _LATE | {"morning"} and self._word(beyond - 1) != "clock":
            return None
        return time(hour % 12 + 12 * (part in _LATE)), False, beyond

    def _clock_alone(self, at: int, connector: Connector) -> Name | None:
        """Return a time of today, after a time word: `since 9 am`, `between 9:00 and 17:00`.

        A bare number does not count: without minutes, `am`, `pm`, `Uhr` or `h` it may count
        anything.
        """
        if connector not in {"since", "after", "newer", "before", "until", "pair"}:
            return None
        clock = self._clock(at)
        if clock is None:
            return None
        moment, zulu, beyond = clock
        beyond += self._word(beyond) in _HOURS
        name = self._on_day(self.today, moment, beyond, zulu=zulu)
        # Midnight can be the start or the end of a day.
        if self._word(at) in words.CLOCK_WORDS and moment == time() and connector == "until":
            return self._on_day(self.today + timedelta(days=1), moment, beyond)
        name.clock = moment
        return name

    def _on_day(self, day: date, moment: time, beyond: int, *, zulu: bool = False) -> Name:
        since = datetime.combine(day, moment, UTC if zulu else self.zone).astimezone(UTC)
        return Name(since, since + timedelta(seconds=1), beyond)

    def _same_day(self, first: Name, last: Name) -> tuple[Name, Name]:
        """Complete a pair of which only one end names the day: `9am to 5pm yesterday`."""
        if first.clock is not None and last.clock is None and isinstance(last.since, datetime):
            day = as_day(last.since.astimezone(self.zone))
            first = self._on_day(day, first.clock, first.next)
        elif last.clock is not None and first.clock is None:
            since = first.since
            day = as_day(since.astimezone(self.zone) if isinstance(since, datetime) else since)
            last = self._on_day(day, last.clock, last.next)
        return first, last
