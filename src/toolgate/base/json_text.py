"""JSON to bytes and back: fast where that is lossless, exact elsewhere.

orjson is ten times faster than the standard library, but turns integers beyond 64 bits into
floats and refuses lone surrogates; both occur in what servers and clients send.
"""

import json
import re
from typing import Any

import orjson

_TO_ZEROS = bytes(ord("0") if chr(code) in "0123456789" else ord(" ") for code in range(256))
_LONG_NUMBER = b"0" * 19
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def dumps(value: Any) -> bytes:
    """Encode a JSON value as compact UTF-8; lone surrogates become U+FFFD.

    Raises:
        TypeError: The value is not JSON.
        ValueError: It contains NaN or an infinity, which JSON does not have.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return _dumps_exactly(value, sort_keys=False)


def dumps_sorted(value: Any) -> bytes:
    """Like `dumps`, with the members of objects sorted: the same bytes for equal values.

    Raises:
        TypeError: The value is not JSON.
        ValueError: It contains NaN or an infinity, which JSON does not have.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return _dumps_exactly(value, sort_keys=True)


def _dumps_exactly(value: Any, *, sort_keys: bool) -> bytes:
    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            separators=(",", ":"),
            allow_nan=False,
            sort_keys=sort_keys,
        )
    except RecursionError:
        raise ValueError("the value is nested too deeply for JSON") from None
    return _LONE_SURROGATE.sub("\ufffd", text).encode()


def dumps_to_keep(value: Any) -> bytes:
    """Like `dumps`, for a text that stays in memory: it uses no more memory than its length.

    orjson leaves 4 to 8 KB of its buffer allocated with each result (seen with 3.13.0).

    Raises:
        TypeError: The value is not JSON.
        ValueError: It contains NaN or an infinity, which JSON does not have.
    """
    return bytes(memoryview(dumps(value)))


def loads(data: bytes | str) -> Any:
    """Parse a JSON text; integers keep all digits, lone surrogates become U+FFFD.

    Raises:
        ValueError: The text is not valid JSON or not UTF-8, or contains NaN, an infinity or a
            number beyond the range of a double.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if not has_long_number(raw):
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            if not _ESCAPED_SURROGATE.search(raw):
                raise
    try:
        return _without_surrogates(json.loads(raw, parse_constant=_refuse))
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def has_long_number(text: bytes | bytearray) -> bool:
    """Whether a run of digits is so long that the number may not fit into 64 bits.

    Two passes in C: a regular expression takes six times as long for 10 MB.
    """
    return len(text) >= len(_LONG_NUMBER) and _LONG_NUMBER in text.translate(_TO_ZEROS)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large for JSON readers")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {
            _without_surrogates(key): _without_surrogates(item)
            for key, item in value.items()  # pyright: ignore[reportUnknownVariableType]
        }
    return value
