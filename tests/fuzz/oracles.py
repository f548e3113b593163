"""What must hold of every answer, whatever was asked."""

import json
import logging
import re
from collections.abc import Collection
from typing import Any, Final, cast

import orjson

from tests.fuzz.gateway import Answer
from tests.fuzz.inputs import FuzzInput

_LEAKS: Final = re.compile(
    rb"Traceback \(most recent call last\)|/[\w-]{1,60}\.py\b| object at 0x|<class '"
    rb"|sqlalchemy|pydantic"
)
"""Tracebacks, files of the program, objects and libraries of Python."""

_STALL_STACK: Final = re.compile(rb'"stack":"(?:[^"\\]|\\.)*"')
"""What held up the event loop, in the diagnostics for administrators: modules, on purpose."""

_LEAKS_IN_STACKS: Final = re.compile(rb"/[\w-]{1,60}\.py\b| object at 0x")

_INTERNAL_ERROR: Final = -32603
_REFUSALS_BY_SERVERS: Final = frozenset({502, 503, 504})
"""Deliberate: another program could not be reached, failed, or took too long."""

_DELIBERATE: Final = frozenset(
    {"upstream", "unreachable", "timed_out", "embedder", "shutting_down"}
)
"""Codes that such an answer may have; their subclasses have codes of their own."""

_JSON_TYPES: Final = frozenset({b"application/json", b"application/problem+json"})
_HEADER: Final = re.compile(rb"[\x20-\x7e\x80-\xff\t]*")


class FailureLog(logging.Handler):
    """Collects tracebacks and complaints of the event loop."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.entries: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or (record.name == "asyncio" and record.levelno >= logging.ERROR):
            self.entries.append(logging.Formatter().format(record))

    def take(self) -> str:
        """The last entry, after which none is left; empty: there was none."""
        text = self.entries[-1] if self.entries else ""
        self.entries.clear()
        return text


def fault_of(entry: FuzzInput, answer: Answer, secrets: tuple[str, ...] = ()) -> str:
    """What is wrong with an answer; empty: nothing."""
    if answer.status == 0:
        return "" if entry.leave else "no answer"
    for name, value in answer.headers:
        if not _HEADER.fullmatch(value) or not _HEADER.fullmatch(name):
            return f"header {name!r} with {value!r:.100}"
    if fault := _fault_of_status(answer) or _leak_in(answer.body, entry, secrets):
        return fault
    if answer.is_cut:
        return ""
    length = answer.header(b"content-length")
    if length and entry.method != "HEAD" and int(length) != len(answer.body):
        return f"content-length {length!r} with {len(answer.body)} bytes"
    if entry.method == "POST" and re.fullmatch(r"/mcp(/p/[^/?]+)?(\?.*)?", entry.target):
        return _fault_of_rpc(entry, answer)
    if answer.header(b"content-type") in _JSON_TYPES and entry.method != "HEAD":
        return _fault_of_json(answer)
    return ""


def _fault_of_status(answer: Answer) -> str:
    if answer.status < 500:
        return ""
    if answer.status in _REFUSALS_BY_SERVERS:
        body = _json_in(answer.body)
        error = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
        if isinstance(error, dict) and cast("dict[str, Any]", error).get("code") != "internal":
            return ""
        if isinstance(body, dict) and "ready" in body:
            return ""
    return f"status {answer.status}: {answer.body[:300]!r}"


def _leak_in(body: bytes, entry: FuzzInput, secrets: tuple[str, ...]) -> str:
    shown = body
    if entry.target.startswith("/api/v1/diagnostics"):
        shown = _STALL_STACK.sub(b"", body)
    leaks = [match[0] for match in _LEAKS.finditer(shown)]
    leaks += [match[0] for match in _LEAKS_IN_STACKS.finditer(body)]
    leaks += [secret.encode() for secret in secrets if secret.encode() in body]
    for leak in leaks:
        if leak not in entry.body and leak.decode("latin-1") not in entry.target:
            start = body.index(leak)
            return f"the answer shows {body[max(0, start - 80) : start + 120]!r}"
    return ""


def _fault_of_json(answer: Answer) -> str:
    if answer.body and _json_in(answer.body) is _NO_JSON:
        return f"no JSON: {answer.body[:200]!r}"
    return ""


_NO_JSON: Final = object()


def _json_in(text: bytes) -> Any:
    """The value, integers exact; `_NO_JSON` where there is none."""
    try:
        orjson.loads(text)  # stricter than the other, which keeps wide integers
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NO_JSON


def _fault_of_rpc(entry: FuzzInput, answer: Answer) -> str:
    if not answer.body:
        return "" if answer.status in {202, 204} else f"status {answer.status} without a body"
    kind = answer.header(b"content-type")
    if kind.startswith(b"text/event-stream"):
        messages = [
            line[5:].strip()
            for line in re.split(rb"\r\n|\n|\r", answer.body)
            if line.startswith(b"data:") and line[5:].strip()
        ]
    elif kind.startswith(b"application/json"):
        messages = [answer.body]
    else:
        return f"content-type {kind!r}"
    for message in messages:
        if fault := fault_of_line(message, [_id_in_request(entry.body)]):
            return fault
    return ""


def _id_in_request(body: bytes) -> Any:
    """The id in a request, which may have numbers that no answer of the gateway may have."""
    try:
        message = json.loads(body, parse_int=_any_integer)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", message).get("id") if isinstance(message, dict) else None


def _any_integer(digits: str) -> int | float:
    # Python converts no longer ones: https://docs.python.org/3/library/stdtypes.html#int-max-str-digits
    return int(digits) if len(digits) < 4300 else float(digits)


def fault_of_line(text: bytes, ids: Collection[Any]) -> str:
    """What is wrong with a message of the gateway to a client that used these ids."""
    value = _json_in(text)
    if not isinstance(value, dict):
        return f"no JSON-RPC message: {text[:200]!r}"
    message = cast("dict[str, Any]", value)
    if message.get("jsonrpc") != "2.0":
        return f"no JSON-RPC message: {text[:200]!r}"
    if "method" in message:
        return "" if "result" not in message and "error" not in message else f"both: {text[:200]!r}"
    if ("result" in message) == ("error" in message):
        return f"neither result nor error, or both: {text[:200]!r}"
    if "error" in message:
        error = message["error"]
        if not isinstance(error.get("code"), int) or not isinstance(error.get("message"), str):
            return f"a broken error: {text[:200]!r}"
        if error["code"] == _INTERNAL_ERROR:
            return f"an internal error: {text[:300]!r}"
        if message.get("id") is None:
            return ""
    if not _is_among(message.get("id"), ids):
        return f"an answer to {message.get('id')!r:.100}, but {sorted(map(repr, ids))!r:.200} asked"
    return ""


def _is_among(message_id: Any, ids: Collection[Any]) -> bool:
    """Whether an id was used, of the same type: 1, "1" and true are different."""
    return any(type(message_id) is type(known) and message_id == known for known in ids)
