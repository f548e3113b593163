"""Parsing JSON from outside: complete, finite, not too deep, and valid Unicode.

Everything a client sends passes `parse_json` before any other code sees it, so no other code has to
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

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "LARGE_BYTES",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "BadMessageError",
    "Envelope",
    "body_too_large",
    "check_envelope",
    "error_bytes",
    "parse_json",
    "parse_json_async",
]

PARSE_ERROR = -32700
"""Of JSON-RPC 2.0, section 5.1."""
INVALID_REQUEST = -32600
"""Of JSON-RPC 2.0, section 5.1."""
METHOD_NOT_FOUND = -32601
"""Of JSON-RPC 2.0, section 5.1."""
INVALID_PARAMS = -32602
"""Of JSON-RPC 2.0, section 5.1."""
INTERNAL_ERROR = -32603
"""Of JSON-RPC 2.0, section 5.1."""

LARGE_BYTES = 256 * 2**10
"""Size from which a message is worth a thread."""

_MOST_WITH_WIDE_INTEGERS = 8 * 2**20
"""Python's own parser, which keeps them exact, takes three times as long as the other."""

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


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


def parse_json(body: bytes | bytearray, *, max_depth: int) -> Any:
    """The JSON value of `body`; integers of any size stay exact.

    Raises:
        BadMessageError: It is no JSON, is nested deeper than `max_depth`, or holds a number or a
            text that cannot be passed on.
    """
    return _parse(body, max_depth)


async def parse_json_async(body: bytes | bytearray, *, max_depth: int) -> Any:
    """The same; a large body is read in a thread, so that everybody else is served meanwhile."""
    if len(body) <= LARGE_BYTES:
        return _parse(body, max_depth)
    return await anyio.to_thread.run_sync(_parse, body, max_depth)


class Envelope(NamedTuple):
    """One JSON-RPC message whose outer members are of the right kinds."""

    message: Json
    """All of it, as it came."""

    method: str
    """What is asked for; empty: it is a response."""

    request_id: str | int | None
    """The id that is to be answered; None: nothing is."""

    params: Json
    """Parameters; empty without any."""

    meta: Json
    """`_meta` of the parameters; empty where it is no object."""


def check_envelope(value: object) -> Envelope:
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
    # Wider ones are read by few clients, and an answer must be readable by all.
    if isinstance(request_id, int) and not isinstance(request_id, bool):
        return request_id if -(2**63) <= request_id < 2**64 else None
    return None


def body_too_large(max_bytes: int) -> BadMessageError:
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
    """The value, without the search for garbage that half a million new objects would start."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return orjson.loads(body)
    finally:
        if was_enabled:
            gc.enable()


def _over(counts: JsonCounts, max_depth: int, request_id: str | int | None) -> BadMessageError:
    """What to raise for a message that holds too much of something."""
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
    """The id of a request that is refused, where it can be read without effort."""
    try:
        return _id_in(json_object(orjson.loads(body)))
    except orjson.JSONDecodeError:
        return None


def _parse_slowly(body: bytes | bytearray) -> Any:
    """Python's own parser: exact integers, and a reason where something cannot be accepted."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise BadMessageError(
            PARSE_ERROR, f"The message is not UTF-8: byte {error.start}."
        ) from error
    try:
        # Each hook is a chance for other threads; without them this would stop everybody else.
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
    """Whether a text in it cannot be encoded; never recurses."""
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
