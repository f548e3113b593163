"""Identifiers and the time of day: the one place that asks the machine for either."""

import secrets
import threading
import time
from datetime import UTC, datetime, timedelta

__all__ = ["new_id", "utc_now", "utc_text"]

_RANDOM_BITS = 80
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A fresh opaque id, 32 characters of `[0-9a-f]`.

    Ids sort by the time they were made, within a process strictly, whatever its clock does. The
    layout (48 bits of milliseconds, then random ones) follows UUID version 7, without its marker
    bits: https://www.rfc-editor.org/rfc/rfc9562#section-5.7
    """
    global _last  # noqa: PLW0603 - order within the process needs the id before
    fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
    with _lock:
        # Within one millisecond, or after the clock went back, count on in steps that cannot be
        # guessed: other processes make ids at the same time.
        _last = fresh if fresh > _last else _last + 1 + secrets.randbits(32)
        return f"{_last:032x}"


def utc_now(*, plus_s: float = 0.0) -> str:
    """The present moment, or one `plus_s` seconds from it, as everything here writes times."""
    return utc_text(datetime.now(UTC) + timedelta(seconds=plus_s))


def utc_text(moment: datetime) -> str:
    """An aware moment as text: `2026-07-28T09:30:00.123Z`; sorts by time."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
