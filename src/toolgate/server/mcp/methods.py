"""Maps protocol methods to gateway operations, and checks their parameters.

Independent of transports: both the SDK-based server and the fast paths use it.
"""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

import orjson

from toolgate.gateway.gateway import Gateway
from toolgate.server.asgi.parsing.json_parser import INVALID_PARAMS, BadMessageError
from toolgate.server.mcp.result_shape import LOG_LEVEL, PROTOCOL_VERSION
from toolgate.types import Caller, Json, Peer

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Levels of log messages, from least to most severe."""

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""Result member with the entries, by method."""

_MAX_CLIENT_NAME = 100
"""Largest number of characters of a client's name and version; chosen: fits a column."""

_Verb = Callable[[Caller, Json, Peer | None], Awaitable[Json]]


class McpMethods:
    """Handles the requests that both eras share."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._listings: dict[str, Callable[[Caller], Awaitable[bytes]]] = {
            "tools/list": gateway.listing.list_tools,
            "resources/list": gateway.listing.list_resources,
            "resources/templates/list": gateway.listing.list_templates,
            "prompts/list": gateway.listing.list_prompts,
        }
        self._verbs: dict[str, tuple[Callable[[Json], None], _Verb]] = {
            "tools/call": (check_call, gateway.call),
            "resources/read": (_check_read, gateway.resources.read),
            "prompts/get": (_check_prompt, gateway.prompts.get),
            "completion/complete": (_check_completion, gateway.resources.complete),
        }

    def supports(self, method: str) -> bool:
        """Whether `answer` handles this method."""
        return method in self._listings or method in self._verbs

    async def listing(self, method: str, caller: Caller) -> bytes:
        """Return the entries of a list as a JSON array."""
        return await self._listings[method](caller)

    async def checked_listing(self, method: str, params: Json, caller: Caller) -> bytes:
        """Return the same as `listing`, after checking the parameters.

        Raises:
            BadMessageError: The parameters do not fit the method.
        """
        check_meta(params)
        check_list(params)
        return await self.listing(method, caller)

    async def answer(self, method: str, params: Json, caller: Caller, peer: Peer | None) -> Json:
        """Return the result object of a request, not yet in the shape of an era.

        Raises:
            BadMessageError: The parameters do not fit the method.
            ToolgateError: The gateway refused or failed.
        """
        if method in self._listings:
            listing = await self.checked_listing(method, params, caller)
            return {LISTS[method]: _entries(listing)}
        check_meta(params)
        check, verb = self._verbs[method]
        check(params)
        return await verb(caller, params, peer)


class ClientProgram(NamedTuple):
    """The program that a client says it is."""

    name: str
    version: str


def client_program(info: object) -> ClientProgram:
    """Return name and version from a client's `clientInfo`, safe for logs; empty without them."""
    stated = cast("Json", info) if isinstance(info, dict) else {}
    return ClientProgram(_safe(stated.get("name")), _safe(stated.get("version")))


def _safe(text: object) -> str:
    if not isinstance(text, str) or not text.isprintable():
        return ""
    return text[:_MAX_CLIENT_NAME]


def check_meta(params: Json) -> None:
    """Refuse a `_meta` with invalid values of known keys."""
    if "_meta" not in params:
        return
    meta = _expect(params, "_meta", dict, "an object")
    token = meta.get("progressToken")
    if token is not None and (isinstance(token, bool) or not isinstance(token, (str, int))):
        raise _wrong("_meta.progressToken", token, "a string or an integer")
    level = meta.get(LOG_LEVEL)
    if level is not None and level not in LOG_LEVELS:
        raise _wrong(f"_meta.{LOG_LEVEL}", level, "one of " + ", ".join(LOG_LEVELS))
    version = meta.get(PROTOCOL_VERSION, "")
    if not isinstance(version, str):
        raise _wrong(f"_meta.{PROTOCOL_VERSION}", version, "a string")


def check_list(params: Json) -> None:
    """Refuse a cursor, since the gateway never returns one.

    Lists have one page, because several client libraries read no other.
    """
    cursor = params.get("cursor")
    if cursor is not None:
        raise _wrong("cursor", cursor, "absent: lists come in one page")


def check_call(params: Json) -> None:
    """Refuse a tool call whose name or arguments have the wrong type."""
    _expect(params, "name", str, "a string")
    _optional(params, "arguments", dict, "an object")
    _optional(params, "inputResponses", dict, "an object")
    _optional(params, "requestState", str, "a string")


def _check_read(params: Json) -> None:
    _expect(params, "uri", str, "a string")
    _optional(params, "inputResponses", dict, "an object")
    _optional(params, "requestState", str, "a string")


def _check_prompt(params: Json) -> None:
    check_call(params)


def _check_completion(params: Json) -> None:
    _expect(params, "ref", dict, "an object")
    argument = _expect(params, "argument", dict, "an object")
    for key in ("name", "value"):
        if not isinstance(argument.get(key), str):
            raise _wrong(f"argument.{key}", argument.get(key), "a string")
    _optional(params, "context", dict, "an object")
    _optional(params.get("context", {}), "arguments", dict, "an object")


def _expect(params: Json, key: str, kind: type, words: str) -> Any:
    value = params.get(key)
    if not isinstance(value, kind):
        raise _wrong(key, value, words)
    return value


def _optional(params: Json, key: str, kind: type, words: str) -> None:
    if key not in params:
        return
    if params[key] is None:
        del params[key]  # some clients send every absent member as null
    elif not isinstance(params[key], kind):
        raise _wrong(key, params[key], words)


def _wrong(key: str, value: object, words: str) -> BadMessageError:
    actual = "nothing" if value is None else f"a value of type {type(value).__name__}"
    if isinstance(value, str):
        actual = repr(value[:60])
    return BadMessageError(INVALID_PARAMS, f"Parameter {key!r} must be {words}; {actual} came.")


@lru_cache(maxsize=16)
def _entries(listing: bytes) -> list[Json]:
    """Return a parsed listing, cached while it stays the same; callers must not change it."""
    return orjson.loads(listing)
