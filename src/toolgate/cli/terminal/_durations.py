"""Parse and format durations: `30d`, `12h`, `15m`, `90s`."""

import re

from toolgate.errors import ArgumentError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}


def parse_duration(flag: str, text: str) -> float:
    """Parse a duration; return seconds.

    Raises:
        ArgumentError: It is not a duration.
    """
    match = re.fullmatch(r"(\d{1,6})\s*([smhdwy])", text.strip().lower())
    if match is None:
        raise ArgumentError(
            f"{flag} got {text[:40]!r}.", allowed="Allowed: 90s, 15m, 12h, 30d, 6w, 1y."
        )
    return float(int(match[1]) * _UNITS[match[2]])


def in_words(seconds: float) -> str:
    """Format a duration in its two largest units: `3 d 4 h`, `2 min 5 s`, `12 s`."""
    rest = max(0, round(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
