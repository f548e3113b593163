"""Reading JSON that came from outside: whole, finite, not too deep, and text that can be written.

Everything a client sends passes `read` before any other code sees it, so that nothing behind has to
expect `NaN`, half a surrogate pair or an object nested a million times.
"""

import json
import re
from typing import Any, NoReturn, cast

import orjson

from toolgate.jsontext import dumps, has_long_number
from toolgate.types import Json, json_object

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "BadMessageError",
    "check_envelope",
    "error_bytes",
    "is_deeper",
    "read",
    "too_long",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_BRACKET_OR_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class BadMessageError(Exception):
    """The text is no message that can be accepted; carries what a JSON-RPC error says."""

    def __init__(self, rpc_code: int, message: str, *, request_id: str | int | None = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        """The `code` member of the answer."""
        self.message = message
        """The `message` member."""
        self.request_id = request_id
        """Id of the request, where one could be read."""


def read(body: bytes | bytearray, *, max_depth: int) -> Any:
    """The JSON value of `body`; integers of any size stay exact.

    Raises:
        BadMessageError: It is no JSON, is nested deeper than `max_depth`, or holds a number or a
            text that cannot be passed on.
    """
    value = _parse(body, max_depth)
    # As many brackets as levels would be needed; nearly every message is below that.
    if body.count(b"{") + body.count(b"[") > max_depth and is_deeper(value, max_depth):
        raise _too_deep(max_depth, _id_in(value))
    return value


def check_envelope(value: object) -> Json:
    """The value if it is one JSON-RPC request, notification or response.

    Raises:
        BadMessageError: It is something else, such as a batch.
    """
    if not isinstance(value, dict):
        raise BadMessageError(
            INVALID_REQUEST, "The message must be one JSON-RPC object; batches are not supported."
        )
    message = cast("Json", value)
    fault = _fault_of(message)
    if fault:
        raise BadMessageError(INVALID_REQUEST, fault, request_id=_id_in(message))
    return message


def _fault_of(message: Json) -> str:
    if message.get("jsonrpc") != "2.0":
        return "Member 'jsonrpc' must be \"2.0\"."
    has_id = "id" in message
    if has_id and _id_in(message) is None and not ("error" in message and message["id"] is None):
        return "Member 'id' must be a string or an integer."
    if "method" not in message:
        answers = "result" in message or "error" in message
        return "" if answers and has_id else "Member 'method' is missing."
    if not isinstance(message["method"], str):
        return "Member 'method' must be a string."
    if not isinstance(message.get("params", {}), dict):
        return "Member 'params' must be an object."
    return ""


def _id_in(value: object) -> str | int | None:
    found = json_object(value).get("id")
    return found if isinstance(found, (str, int)) and not isinstance(found, bool) else None


def too_long(max_bytes: int) -> BadMessageError:
    """What to raise for a message over the limit."""
    return BadMessageError(
        INVALID_REQUEST,
        f"The message is larger than {max_bytes} bytes (setting serve.max_body_bytes).",
    )


def error_bytes(request_id: object, code: int, message: str, data: object = None) -> bytes:
    """A JSON-RPC error as it goes out."""
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return dumps({"jsonrpc": "2.0", "id": request_id, "error": error})


def is_deeper(value: object, levels: int) -> bool:
    """Whether objects and arrays in `value` are nested deeper than `levels`; never recurses."""
    layer: list[object] = [value]
    for _ in range(levels + 1):
        below: list[object] = []
        for item in layer:
            if isinstance(item, dict):
                below.extend(cast("dict[str, object]", item).values())
            elif isinstance(item, list):
                below.extend(cast("list[object]", item))
        layer = [item for item in below if isinstance(item, (dict, list))]
        if not layer:
            return False
    return True


def _parse(body: bytes | bytearray, max_depth: int) -> Any:
    if not has_long_number(body):
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
    # Python's parser recurses; what is far too deep must not reach it.
    if body.count(b"{") + body.count(b"[") > max_depth and _nesting(body) > max_depth:
        raise _too_deep(max_depth)
    return _parse_slowly(body)


def _nesting(body: bytes | bytearray) -> int:
    """Levels of brackets in a JSON text, those within strings left out."""
    level = deepest = 0
    for token in _BRACKET_OR_STRING.finditer(body):
        if token[0] in {b"[", b"{"}:
            level += 1
            deepest = max(deepest, level)
        elif token[0] in {b"]", b"}"}:
            level -= 1
    return deepest


def _too_deep(max_depth: int, request_id: str | int | None = None) -> BadMessageError:
    return BadMessageError(
        INVALID_REQUEST,
        f"The message is nested deeper than {max_depth} levels (setting serve.max_depth).",
        request_id=request_id,
    )


def _parse_slowly(body: bytes | bytearray) -> Any:
    """Python's own parser: exact integers, and a reason where something cannot be accepted."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise BadMessageError(
            PARSE_ERROR, f"The message is not UTF-8: byte {error.start}."
        ) from error
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadMessageError(
            PARSE_ERROR, f"The message is no JSON: {error.msg} at {where}."
        ) from error
    except RecursionError as error:
        raise BadMessageError(
            PARSE_ERROR, "The message is nested too deeply to be read."
        ) from error
    except ValueError as error:
        # CPython refuses to convert integers of more than 4,300 digits.
        raise BadMessageError(
            PARSE_ERROR, "The message holds an integer with too many digits."
        ) from error
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadMessageError(
            PARSE_ERROR, "The message holds half of a surrogate pair, which is no text."
        ) from error
    return value


def _no_number(word: str) -> NoReturn:
    raise BadMessageError(PARSE_ERROR, f"The message is no JSON: {word} is no number in JSON.")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        raise BadMessageError(PARSE_ERROR, f"The number {digits[:40]} is too large.")
    return number
