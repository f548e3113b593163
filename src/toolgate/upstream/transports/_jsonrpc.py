"""Writes and reads JSON-RPC messages for the transports, and recognizes damaged ones."""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from anyio import to_thread

from toolgate.errors import CannotAskError, InvalidAnswerError, RpcError, ToolgateError
from toolgate.types import Json, json_object
from toolgate.upstream.json_text import InvalidJsonError, read_json, write_json

log = logging.getLogger(__name__)

AskHandler: TypeAlias = Callable[[str, Json], Awaitable[Json]]
"""Answers a server's request, given its method and params."""

NEVER_CANCELLED: Final = frozenset({"initialize", "server/discover"})
"""Requests that are abandoned without a notification: the first by the specification, the second
because a handshake-era server may not accept a notification before its handshake."""

BIG_BYTES = 2**18
"""Bytes from which a message is parsed in a thread (chosen: some ms of parsing)."""

# https://www.jsonrpc.org/specification#error_object
METHOD_NOT_FOUND = -32601
# https://www.jsonrpc.org/specification#error_object
INTERNAL_ERROR = -32603

_KEY = rb'\s*"id"\s*:\s*(\d{1,18})\s*'
_VERSION = rb'\s*"jsonrpc"\s*:\s*"2\.0"\s*'
_ID_FIRST = re.compile(rb"\s*\[?\s*\{(?:" + _VERSION + rb",)?" + _KEY + rb",")
_ID_LAST = re.compile(rb",(?:" + _VERSION + rb",)?" + _KEY + rb"(?:," + _VERSION + rb")?\}\s*$")
_LOOKS_LIKE_RPC = re.compile(rb'"jsonrpc"\s*:\s*"2\.0"')


@dataclass(frozen=True, kw_only=True)
class DamagedMessage:
    """An unusable message, with what could be recovered of it."""

    reason: str
    """The end of a sentence whose subject is the message: `is not UTF-8`."""

    call_id: int | None = None
    """The id of the request that it answers; None if unknown."""

    is_rpc: bool = False
    """Whether it seems to be a message at all, and not a line printed by mistake."""


def request_bytes(call_id: int, method: str, params: Json) -> bytes:
    """Write a request.

    Raises:
        ArgumentError: The params cannot be written as JSON.
    """
    return write_json({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})


def notification_bytes(method: str, params: Json) -> bytes:
    """Write a notification, without params if they are empty.

    Raises:
        ArgumentError: The params cannot be written as JSON.
    """
    message: Json = {"jsonrpc": "2.0", "method": method}
    return write_json({**message, "params": params} if params else message)


def cancellation(call_id: int) -> bytes:
    """Write the notification that cancels a request."""
    params = {"requestId": call_id, "reason": "the caller gave up"}
    return notification_bytes("notifications/cancelled", params)


def with_token(params: Json, token: int) -> Json:
    """Return a copy of the params with a progress token."""
    meta = json_object(params.get("_meta"))
    return {**params, "_meta": {**meta, "progressToken": token}}


def read_message(text: bytes) -> object:
    """Parse a message: any JSON value, or `DamagedMessage`; never raises."""
    try:
        return read_json(text)
    except InvalidJsonError as fault:
        call_id = sniff_call_id(text, text)
        saved = json_object(fault.value)
        if call_id is None and "method" not in saved and type(saved.get("id")) is int:
            call_id = cast("int", saved["id"])
        is_rpc = bool(saved) or _LOOKS_LIKE_RPC.search(text, 0, 4096) is not None
        return DamagedMessage(reason=fault.reason, call_id=call_id, is_rpc=is_rpc)


async def read_big_message(text: bytes) -> object:
    """Parse like `read_message`, but a large message in a thread, so that the loop can run."""
    if len(text) < BIG_BYTES:
        return read_message(text)
    return await to_thread.run_sync(read_message, text)


def sniff_call_id(head: bytes, tail: bytes) -> int | None:
    """Find a message's id in its first and last bytes, where servers write it; None if not found.

    Only an id next to the outer braces counts, never one from inside a result.
    """
    match = _ID_FIRST.match(head) or _ID_LAST.search(tail[-512:])
    return int(match[1]) if match else None


def may_be_answer(head: bytes) -> bool:
    """Whether a message with this beginning may answer a request."""
    start = head[:200].lstrip()
    return start[:1] in {b"{", b"["} and b'"method"' not in start


def result_of(answer: Json) -> Json:
    """Return the result of an answer as it was sent.

    Raises:
        RpcError: The answer is an error.
        InvalidAnswerError: It is neither a result object nor an error.
    """
    result: object = answer.get("result")
    if isinstance(result, dict):
        return cast("Json", result)
    error: object = answer.get("error")
    if isinstance(error, dict):
        fields = cast("Json", error)
        code, message = fields.get("code"), fields.get("message")
        if isinstance(code, int) and not isinstance(code, bool):
            raise RpcError(code, message if isinstance(message, str) else "", fields.get("data"))
        raise InvalidAnswerError(
            f"The server answered with an error without a code: {excerpt(error)}."
        )
    if "result" in answer:
        raise InvalidAnswerError(
            f"The server answered with a result that is not an object: {excerpt(result)}.",
            allowed="A result is a JSON object.",
            hint="Report it to the author of the server.",
        )
    raise InvalidAnswerError(
        "The server answered with neither a result nor an error.",
        hint="Report it to the author of the server.",
    )


async def answer_question(handler: AskHandler, question: Json) -> bytes:
    """Write the answer to a server's request; `ping` is answered here."""
    reply: Json = {"jsonrpc": "2.0", "id": question["id"]}
    method = question["method"]
    params = json_object(question.get("params"))
    try:
        return write_json(
            {**reply, "result": {} if method == "ping" else await handler(method, params)}
        )
    except RpcError as error:
        failure: Json = {"code": error.rpc_code, "message": error.message}
        if error.data is not None:
            failure["data"] = error.data
    except CannotAskError as error:
        failure = {"code": METHOD_NOT_FOUND, "message": str(error)}
    except ToolgateError as error:
        failure = {"code": INTERNAL_ERROR, "message": str(error)}
    except Exception:  # the top of this way in: the server must get an answer
        log.exception("question of a server failed", extra={"method": method})
        failure = {"code": INTERNAL_ERROR, "message": "Internal error"}
    try:
        return write_json({**reply, "error": failure})
    except ToolgateError:  # its data cannot be written
        return write_json({**reply, "error": {**failure, "data": None}})


def excerpt(value: Any, *, longest: int = 200) -> str:
    """The beginning of a value for a message, on one line."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text[: 4 * longest].split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
