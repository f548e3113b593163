"""Ids and the current time: the only module that asks the operating system for them."""

import os
import sys
import threading
import time
from datetime import UTC, datetime
from functools import lru_cache

_RANDOM_BYTES = 10
"""Random bytes in an id: 80 bits, as in the ULID specification."""
_AT_ONCE = 400
"""Ids whose random bytes are read in one system call, which costs as much as ten ids."""

_lock = threading.Lock()
_last = 0
_randoms: list[int] = []
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_randoms.clear)


def new_id() -> str:
    """A new opaque id of 32 characters from `[0-9a-f]`.

    Ids sort by creation time; within a process strictly, even if its clock goes back. The layout
    (48 bits of milliseconds, then random bits) follows UUID version 7 without its marker bits:
    https://www.rfc-editor.org/rfc/rfc9562#section-5.7
    """
    global _last  # noqa: PLW0603 - order within the process needs the id before
    with _lock:
        if not _randoms:
            fetched = os.urandom(_RANDOM_BYTES * _AT_ONCE)
            starts = range(0, len(fetched), _RANDOM_BYTES)
            _randoms.extend(int.from_bytes(fetched[at : at + _RANDOM_BYTES]) for at in starts)
        random = _randoms.pop()
        fresh = (time.time_ns() // 1_000_000 << 8 * _RANDOM_BYTES) | random
        # Within a millisecond, or after the clock went back, count up in random steps: ids stay
        # unguessable, and processes that create ids at the same time do not collide.
        _last = fresh if fresh > _last else _last + 1 + (random & 0xFFFF_FFFF)
        return f"{_last:032x}"


def utc_now(*, plus_s: float = 0.0) -> str:
    """The current time, or a time `plus_s` seconds later, in the format of `utc_text`."""
    return _text(time.time_ns() // 1_000_000 + round(plus_s * 1000))


def unix_now() -> int:
    """The current time in seconds since 1970, as OpenAI's API writes it."""
    return int(time.time())


def utc_text(moment: datetime) -> str:
    """Format an aware datetime as `2026-07-28T09:30:00.123Z`, which sorts by time."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def utc_text_of(seconds: float) -> str:
    """Format a time in seconds since 1970 like `utc_now`."""
    return _text(round(seconds * 1000))


def _text(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """Cached: every record has a time, and hundreds of them share a second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
