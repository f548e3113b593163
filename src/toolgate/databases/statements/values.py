"""Database values as lossless JSON of bounded size."""

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, cast
from uuid import UUID

_EXACT: Final = 2**53 - 1
"""Largest integer that is exact as a JSON number in JavaScript and many other programs."""

_DEEP: Final = 40
"""Nesting levels (chosen: far above real JSON, far below the recursion limit)."""


def plain(value: object, *, max_chars: int, depth: int = 0) -> Any:
    """Convert a value to JSON.

    Decimals, large integers, times, intervals and other types with a text form become strings;
    bytes become base64; NaN and infinities become strings.

    Args:
        value: The driver's value.
        max_chars: Characters (or bytes) of a text; the rest is cut and counted.
        depth: Nesting level inside another value.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return shortened(value, max_chars)
    if isinstance(value, int):
        return int(value) if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _no_number(value)
    if isinstance(value, Decimal):
        return f"{value:f}" if value.is_finite() else _no_number(float(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _interval(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _base64(bytes(cast("bytes", value)), max_chars)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Enum):
        return plain(value.value, max_chars=max_chars, depth=depth)
    if depth < _DEEP and isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {
            shortened(str(key), max_chars): plain(pair, max_chars=max_chars, depth=depth + 1)
            for key, pair in pairs
        }
    if depth < _DEEP and isinstance(value, list | tuple | set | frozenset):
        parts = cast("list[object]", value)
        return [plain(part, max_chars=max_chars, depth=depth + 1) for part in parts]
    return shortened(_text_of(value), max_chars)


def shortened(text: str, max_chars: int) -> str:
    """Cut a text that is longer than `max_chars`, and state its length."""
    # A lone surrogate is possible in a text of SQLite but not in JSON.
    start = text[:max_chars].encode("utf-8", "replace").decode()
    return start if len(text) <= max_chars else f"{start}… ({len(text):,} characters)"


def _base64(value: bytes, max_bytes: int) -> str:
    start = base64.b64encode(value[:max_bytes]).decode()
    return start if len(value) <= max_bytes else f"{start}… ({len(value):,} bytes)"


def _no_number(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _interval(value: timedelta) -> str:
    """An interval in ISO 8601."""
    sign = "-" if value < timedelta(0) else ""
    value = abs(value)
    hours, rest = divmod(value.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    fraction = f".{value.microseconds:06d}".rstrip("0") if value.microseconds else ""
    days = f"{value.days}D" if value.days else ""
    clock = "".join(
        (
            f"{hours}H" if hours else "",
            f"{minutes}M" if minutes else "",
            f"{seconds}{fraction}S" if seconds or fraction else "",
        )
    )
    if not days and not clock:
        return "PT0S"
    return f"{sign}P{days}{'T' if clock else ''}{clock}"


def _text_of(value: object) -> str:
    read: object = getattr(value, "read", None)  # a large object of Oracle
    if callable(read):
        return str(read())
    # Below the deepest level, JSON stays JSON, as text.
    return json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
