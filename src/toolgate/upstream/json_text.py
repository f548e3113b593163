"""JSON text from and for servers: fast where possible, exact where orjson is not.

orjson turns whole numbers over 64 bits into floats without a word, refuses to read or write text
with half of a surrogate pair (JavaScript makes it when it cuts an emoji), and writes NaN as null.
Messages with any of that are parsed by `json`. Unlike in `toolgate.base.json_text`, a text
that is damaged is read as far as it goes, so that the request it answers can be told.
"""

import gc
import json
import math
import re
from typing import Any, cast

import orjson

from toolgate.base.json_text import has_long_number
from toolgate.errors import ArgumentError

__all__ = ["InvalidJsonError", "read_json", "write_json"]

# Bytes from which a text is read without the collector, and searched for lost digits value by
# value. Chosen.
_MANY_BYTES = 2**20
# Values of a text that are looked at for lost digits. Chosen.
_MANY_VALUES = 10_000
# Whole numbers below are exact in orjson; larger ones become floats there.
_BEYOND_64_BITS = 2.0**63

_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)


class InvalidJsonError(Exception):
    """A text is no JSON, or JSON that cannot be used; `value` is what could be saved of it."""

    def __init__(self, reason: str, value: object = None) -> None:
        super().__init__(reason)
        self.reason = reason
        """Why, as the end of a sentence that starts with the thing: `is not UTF-8`."""
        self.value = value
        """The value with the faulty parts replaced; None when nothing could be read."""


def read_json(text: bytes) -> object:
    """The value of a JSON text; whole numbers of any size stay whole.

    Half surrogates become U+FFFD, since no UTF-8 text can carry them further.

    Raises:
        InvalidJsonError: It is no JSON, not UTF-8, nested too deeply, or has a number that JSON
            lacks (NaN, Infinity) or that no float can hold (1e999).
    """
    if len(text) < _MANY_BYTES or not gc.isenabled():
        return _read(text)
    gc.disable()  # collecting in the middle of many new objects doubles the time
    try:
        return _read(text)
    finally:
        gc.enable()


def write_json(value: object) -> bytes:
    """The value as JSON text in UTF-8, on one line.

    Half surrogates are written as escapes, as they came.

    Raises:
        ArgumentError: It holds a number that JSON lacks, something that is no JSON value, or is
            nested too deeply.
    """
    try:
        text = orjson.dumps(value)
    except TypeError:
        return _write_slowly(value)
    if b"null" in text and not _is_finite(value):
        raise ArgumentError(
            "A value is NaN or infinite, or a number too large for a float.",
            allowed="JSON has finite numbers only.",
            hint="Send such a value as text or as null.",
        )
    return text


def _read(text: bytes) -> object:
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _read_slowly(text)
    if has_long_number(text) if len(text) < _MANY_BYTES else _has_lost_digits(value, text):
        return _read_slowly(text)
    return value


def _has_lost_digits(value: object, text: bytes) -> bool:
    """Whether a whole number may have become a float: only one beyond 64 bits does.

    Most large messages are few large texts, and looking at the values is much quicker then than
    looking at every byte, which would keep all other threads waiting.
    """
    rest: list[Any] = [value]
    for _ in range(_MANY_VALUES):
        if not rest:
            return False
        part = rest.pop()
        if isinstance(part, dict):
            rest.extend(cast("dict[str, Any]", part).values())
        elif isinstance(part, list):
            rest.extend(cast("list[Any]", part))
        elif isinstance(part, float) and abs(part) >= _BEYOND_64_BITS:
            return True
    return has_long_number(text)


def _read_slowly(text: bytes) -> object:
    faults: list[str] = []

    def refuse_constant(name: str) -> None:
        faults.append(f"holds {name}, which is no JSON")

    def read_float(digits: str) -> float:
        number = float(digits)
        if math.isinf(number):
            faults.append("holds a number that is too large")
        return number

    whole = _ESCAPE.sub(_replace_half, text)
    try:
        decoded = whole.decode()
    except UnicodeDecodeError:
        faults.append("is not UTF-8")
        decoded = whole.decode(errors="replace")
    try:
        value: object = json.loads(
            decoded, strict=False, parse_constant=refuse_constant, parse_float=read_float
        )
    except RecursionError:
        raise InvalidJsonError("is nested too deeply") from None
    except ValueError:
        raise InvalidJsonError(faults[0] if faults else "is no JSON") from None
    if faults:
        raise InvalidJsonError(faults[0], value)
    return value


def _replace_half(match: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if match["half"] else match[0]


def _write_slowly(value: object) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except RecursionError:
        reason = "A value is nested too deeply."
    except (TypeError, ValueError) as error:
        reason = f"A value cannot be written as JSON: {error}."
    raise ArgumentError(reason, hint="Send JSON values: objects, lists, texts, finite numbers.")


def _is_finite(value: object) -> bool:
    rest: list[Any] = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            rest.extend(cast("dict[str, Any]", part).values())
        elif isinstance(part, list | tuple):
            rest.extend(cast("list[Any]", part))
        elif isinstance(part, float) and not math.isfinite(part):
            return False
    return True
