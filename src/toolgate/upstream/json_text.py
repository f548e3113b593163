"""JSON text from and for servers: fast if possible, exact where orjson is not.

orjson silently turns integers over 64 bits into floats, refuses to read or write text with half
of a surrogate pair (JavaScript creates it when it cuts an emoji), and writes NaN as null.
Messages with any of these are parsed by `json`. Unlike `toolgate.base.json_text`, damaged text
is read as far as possible, to find the request that it answers.
"""

import gc
import json
import math
import re
from typing import Any, cast

import orjson

from toolgate.base.json_text import has_long_number
from toolgate.errors import ArgumentError

# Bytes from which a text is read without garbage collection, and checked for lost digits value by
# value (chosen).
_MANY_BYTES = 2**20
# Values of a text that are checked for lost digits (chosen).
_MANY_VALUES = 10_000
# orjson reads smaller integers exactly, and larger ones as floats.
_BEYOND_64_BITS = 2.0**63

_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)


class InvalidJsonError(Exception):
    """A text is not JSON, or is unusable JSON; `value` is the part that could be recovered."""

    def __init__(self, reason: str, value: object = None) -> None:
        super().__init__(reason)
        self.reason = reason
        """The reason, as the end of a sentence whose subject is the text: `is not UTF-8`."""
        self.value = value
        """The value with the faulty parts replaced; None if nothing could be read."""


def read_json(text: bytes) -> object:
    """Parse a JSON text; integers of any size stay exact.

    Half surrogates become U+FFFD, since UTF-8 cannot encode them.

    Raises:
        InvalidJsonError: It is not JSON, not UTF-8, nested too deeply, or has a number that JSON
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
    """Write a value as JSON text in UTF-8, on one line.

    Half surrogates are written as escapes, as they arrived.

    Raises:
        ArgumentError: It contains a number that JSON lacks or something that is not a JSON
            value, or is nested too deeply.
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
    """Whether an integer may have become a float: this happens only beyond 64 bits.

    Most large messages are a few large texts. Checking their values is then much faster than
    checking every byte, which would block all other threads.
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
