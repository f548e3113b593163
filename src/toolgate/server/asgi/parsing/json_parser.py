"""Parsing untrusted JSON: complete, finite, not too deep, and valid Unicode.

Everything a client sends passes `parse_json` before other code sees it, so no other code has to
expect `NaN`, half a surrogate pair or an object nested a million times.
"""

import gc
import json
import re
from typing import Any, NamedTuple, NoReturn, cast

import anyio.to_thread
import orjson

from toolgate.base.json_text import dumps, has_long_number
from toolgate.server.asgi.parsing.json_limits import (
    MAX_CONTAINERS,
    MAX_DIGITS,
    MAX_VALUES,
    JsonCounts,
    count_json,
)
from toolgate.types import Json, json_object

PARSE_ERROR = -32700
"""From JSON-RPC 2.0, section 5.1."""
INVALID_REQUEST = -32600
"""From JSON-RPC 2.0, section 5.1."""
METHOD_NOT_FOUND = -32601
"""From JSON-RPC 2.0, section 5.1."""
INVALID_PARAMS = -32602
"""From JSON-RPC 2.0, section 5.1."""
INTERNAL_ERROR = -32603
"""From JSON-RPC 2.0, section 5.1."""

LARGE_BYTES = 256 * 2**10
"""Bytes from which a message is parsed in a thread."""

_MOST_WITH_WIDE_INTEGERS = 8 * 2**20
"""Largest message in bytes with integers over 64 bits. Only Python's own parser keeps them
exact, and it takes three times as long as the fast one."""

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class BadMessageError(Exception):
    """A message that cannot be accepted; has the code and text of the JSON-RPC error."""

    def __init__(self, rpc_code: int, message: str, *, request_id: str | int | None = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        """The member `code` of the error."""
        self.message = message
        """The member `message` of the error."""
        self.request_id = request_id
        """Id of the request, if it could be read."""


def parse_json(body: bytes | bytearray, *, max_depth: int) -> Any:
    """Return the JSON value of `body`; integers of any size stay exact.

    Raises:
        BadMessageError: The text is not JSON, is nested deeper than `max_depth`, or has a number
            or string that cannot be passed on.
    """
    return _parse(body, max_depth)


async def parse_json_async(body: bytes | bytearray, *, max_depth: int) -> Any:
    """Do the same; parse a large body in a thread, so that other requests go on."""
    if len(body) <= LARGE_BYTES:
        return _parse(body, max_depth)
    return await anyio.to_thread.run_sync(_parse, body, max_depth)


class Envelope(NamedTuple):
    """One JSON-RPC message whose outer members have the right types."""

    message: Json
    """The whole message, unchanged."""

    method: str
    """The requested method; empty: the message is a response."""

    request_id: str | int | None
    """Id of the request to respond to; None: no response is expected."""

    params: Json
    """Parameters; empty if there are none."""

    meta: Json
    """`_meta` of the parameters; empty if it is not an object."""


def check_envelope(value: object) -> Envelope:
    """Return the message if it is one JSON-RPC request, notification or response.

    Raises:
        BadMessageError: The value is something else, such as a batch.
    """
    if not isinstance(value, dict):
        raise BadMessageError(
            INVALID_REQUEST, "The message must be one JSON-RPC object; batches are not supported."
        )
    message = cast("Json", value)
    fault = _fault_of(message)
    if fault:
        raise BadMessageError(INVALID_REQUEST, fault, request_id=_id_in(message))
    method: str = message.get("method", "")
    is_response = "method" not in message
    params: Json = {} if is_response else message.get("params", {})
    meta = params.get("_meta")
    return Envelope(
        message=message,
        method=method,
        request_id=None if is_response else message.get("id"),
        params=params,
        meta=cast("Json", meta) if isinstance(meta, dict) else {},
    )


def _fault_of(message: Json) -> str:
    if message.get("jsonrpc") != "2.0":
        return "Member 'jsonrpc' must be \"2.0\"."
    has_id = "id" in message
    if has_id and _id_in(message) is None and not ("error" in message and message["id"] is None):
        return "Member 'id' must be a string or an integer of at most 64 bits."
    if "method" not in message:
        answers = "result" in message or "error" in message
        return _fault_of_response(message) if answers and has_id else "Member 'method' is missing."
    if not isinstance(message["method"], str):
        return "Member 'method' must be a string."
    if not isinstance(message.get("params", {}), dict):
        return "Member 'params' must be an object."
    return ""


def _fault_of_response(message: Json) -> str:
    if "error" not in message:
        is_object = isinstance(message["result"], dict)
        return "" if is_object else "Member 'result' must be an object."
    if "result" in message:
        return "A response has a member 'result' or 'error', not both."
    error = json_object(message["error"])
    code = error.get("code")
    is_integer = isinstance(code, int) and not isinstance(code, bool)
    if is_integer and isinstance(error.get("message"), str):
        return ""
    return "Member 'error' must be an object with an integer 'code' and a string 'message'."


def _id_in(message: Json) -> str | int | None:
    request_id = message.get("id")
    if isinstance(request_id, str):
        return request_id
    # Few clients can read wider integers, and every client must be able to read the response.
    if isinstance(request_id, int) and not isinstance(request_id, bool):
        return request_id if -(2**63) <= request_id < 2**64 else None
    return None


def body_too_large(max_bytes: int) -> BadMessageError:
    """Return the error for a message over the size limit."""
    return BadMessageError(
        INVALID_REQUEST,
        f"The message is larger than {max_bytes} bytes (setting serve.max_body_bytes).",
    )


def error_bytes(request_id: object, code: int, message: str, data: object = None) -> bytes:
    """Return a JSON-RPC error as bytes."""
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return dumps({"jsonrpc": "2.0", "id": request_id, "error": error})


def _parse(body: bytes | bytearray, max_depth: int) -> Any:
    is_large = len(body) > LARGE_BYTES
    has_wide_integer = False
    # As many brackets as levels would be needed; nearly every message is below that.
    if is_large or has_long_number(body) or body.count(b"{") + body.count(b"[") > max_depth:
        counts = count_json(body, max_depth=max_depth)
        if counts.exceeds_limits(max_depth):
            raise _over(counts, max_depth, None if is_large else _id_of(body))
        has_wide_integer = counts.has_wide_integer
    if has_wide_integer:
        if len(body) > _MOST_WITH_WIDE_INTEGERS:
            raise BadMessageError(
                INVALID_REQUEST,
                "The message holds an integer of more than 64 bits, which a message of more than"
                f" {_MOST_WITH_WIDE_INTEGERS} bytes may not. Send it as a string.",
            )
        return _parse_slowly(body)
    try:
        return _parse_fast(body) if is_large else orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if not is_large:
            return _parse_slowly(body)
        reason = str(error)
    raise BadMessageError(PARSE_ERROR, f"The message is no JSON: {reason}.")


def _parse_fast(body: bytes | bytearray) -> Any:
    """Return the value; pause the garbage collector, which 500,000 new objects would start."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return orjson.loads(body)
    finally:
        if was_enabled:
            gc.enable()


def _over(counts: JsonCounts, max_depth: int, request_id: str | int | None) -> BadMessageError:
    """Return the error for a message that exceeds a limit."""
    if counts.depth > max_depth:
        text = f"The message is nested deeper than {max_depth} levels (setting serve.max_depth)."
    elif counts.containers > MAX_CONTAINERS:
        text = (
            f"The message holds more than {MAX_CONTAINERS} objects and arrays. Send less at once."
        )
    elif counts.values > MAX_VALUES:
        text = f"The message holds more than {MAX_VALUES} values. Send less at once."
    else:
        text = f"The message holds a number of more than {MAX_DIGITS} digits. Send it as a string."
    return BadMessageError(INVALID_REQUEST, text, request_id=request_id)


def _id_of(body: bytes | bytearray) -> str | int | None:
    """Return the id of a refused request, if it can be read cheaply."""
    try:
        return _id_in(json_object(orjson.loads(body)))
    except orjson.JSONDecodeError:
        return None


def _parse_slowly(body: bytes | bytearray) -> Any:
    """Parse with Python's own parser: exact integers, and a reason for each refusal."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise BadMessageError(
            PARSE_ERROR, f"The message is not UTF-8: byte {error.start}."
        ) from error
    try:
        # Each hook lets other threads run; without the hooks, parsing would block all other
        # requests.
        value = json.loads(
            text,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadMessageError(
            PARSE_ERROR, f"The message is no JSON: {error.msg} at {where}."
        ) from error
    except RecursionError as error:
        raise BadMessageError(
            PARSE_ERROR, "The message is nested too deeply to be read."
        ) from error
    if _ESCAPED_SURROGATE.search(text) and _has_half_pair(value):
        raise BadMessageError(
            PARSE_ERROR, "The message contains half of a surrogate pair, which is not text."
        )
    return value


def _has_half_pair(value: object) -> bool:
    """Whether a string in the value cannot be encoded; never recurses."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if not item.isascii() and _SURROGATE.search(item):
                return True
        elif isinstance(item, dict):
            members = cast("dict[str, object]", item)
            waiting += members.keys()
            waiting += members.values()
        elif isinstance(item, list):
            waiting += cast("list[object]", item)
    return False


def _integer(digits: str) -> int:
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> Json:
    return dict(pairs)


def _no_number(word: str) -> NoReturn:
    raise BadMessageError(PARSE_ERROR, f"The message is not JSON: {word} is not a number in JSON.")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        raise BadMessageError(PARSE_ERROR, f"The number {digits[:40]} is too large.")
    return number
