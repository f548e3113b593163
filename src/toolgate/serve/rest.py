"""The REST door, `/api/v1`: discovery and execution for programs, servers for operators.

Objects that are tools keep the keys they have everywhere (`toolKey`, `serverName`); all else is in
snake case with units. Errors are `{"error": {code, message, hint, retryable, request_id}}`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import toolgate
from toolgate.errors import ArgumentError, RpcError, ToolgateError, UnknownToolError
from toolgate.logs import REQUEST_ID
from toolgate.serve._asgi import (
    DisconnectedError,
    Receive,
    Scope,
    Send,
    TooLargeError,
    read_body,
    send_json,
)
from toolgate.serve._caller import caller_of
from toolgate.serve._guard import header
from toolgate.serve._message import BadMessageError, read
from toolgate.types import Caller, Json, json_object

if TYPE_CHECKING:
    from toolgate.app import App
    from toolgate.gateway import ToolView

__all__ = ["Rest"]

log = logging.getLogger(__name__)

FORMATS = ("mcp", "openai", "anthropic")
"""Forms in which tool definitions are given."""

_STATUS: Mapping[str, int] = {
    "argument": 400,
    "config": 400,
    "handle": 400,
    "access": 401,
    "forbidden": 403,
    "catalog": 404,
    "unreachable": 503,
    "timed_out": 504,
    "cannot_ask": 409,
    "upstream": 502,
    "store": 503,
}
"""HTTP status by `ToolgateError.code`, of the error itself or of the nearest ancestor."""

_Handler = Callable[["Rest", "_Call"], Awaitable[tuple[int, object]]]


class _RefusedError(Exception):
    """A request that is answered without reaching the gateway."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Call:
    """One request."""

    caller: Caller
    names: tuple[str, ...]
    """The variable parts of the path."""
    query: Mapping[str, str]
    body: Json


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Key:
    """A member that a body may have."""

    kind: type | tuple[type, ...]
    words: str
    is_needed: bool = False


_STRING = (str,)
_DISCOVER = {
    "query": _Key(kind=(str, list), words="a string or an array of strings", is_needed=True),
    "context": _Key(kind=_STRING, words="a string"),
    "maxResults": _Key(kind=(int,), words="an integer"),
    "server": _Key(kind=(str, list), words="a string or an array of strings"),
    "threshold": _Key(kind=(int, float), words="a number"),
    "format": _Key(kind=_STRING, words="one of " + ", ".join(FORMATS)),
}
_DESCRIBE = {
    "toolKeys": _Key(kind=(list,), words="an array of strings", is_needed=True),
    "format": _Key(kind=_STRING, words="one of " + ", ".join(FORMATS)),
}
_EXECUTE = {
    "toolKey": _Key(kind=_STRING, words="a string", is_needed=True),
    "arguments": _Key(kind=(dict,), words="an object"),
}
_ADD = {
    "name": _Key(kind=_STRING, words="a string", is_needed=True),
    "config": _Key(kind=(dict,), words="an object", is_needed=True),
    "save": _Key(kind=(bool,), words="true or false"),
}


class Rest:
    """Answers what lies under `/api/v1/`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._gateway = app.gateway
        self._settings = app.settings.serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI); `Host` and `Origin` were checked before."""
        try:
            status, body = await self._answer(scope, receive)
        except DisconnectedError:
            return
        except _RefusedError as error:
            await self.refuse(send, error.status, error.code, error.message, hint=error.hint)
        except BadMessageError as error:
            await self.refuse(send, 400, "bad_request", error.message)
        except TooLargeError:
            most = self._settings.max_body_bytes
            message = (
                f"The request body is larger than {most} bytes (setting serve.max_body_bytes)."
            )
            await self.refuse(send, 413, "too_large", message)
        except RpcError as error:
            await self.refuse(
                send, 502, "rpc", error.message, rpc={"code": error.rpc_code, "data": error.data}
            )
        except ToolgateError as error:
            await self.refuse(
                send,
                _status_of(error),
                error.code,
                " ".join(part for part in (error.failed, error.allowed) if part) or str(error),
                hint=error.hint,
                retryable=error.retryable,
            )
        except Exception:
            log.exception("request failed")
            message = "Internal error; the log of the gateway says more."
            await self.refuse(send, 500, "internal", message)
        else:
            await send_json(send, status, body)

    async def refuse(
        self,
        send: Send,
        status: int,
        code: str,
        message: str,
        *,
        hint: str = "",
        retryable: bool = False,
        rpc: Json | None = None,
    ) -> None:
        """Answer with an error."""
        error: Json = {
            "code": code,
            "message": message,
            "hint": hint,
            "retryable": retryable,
            "request_id": REQUEST_ID.get(),
        }
        if rpc is not None:
            error["rpc"] = rpc
        await send_json(send, status, {"error": error})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, object]:
        method: str = scope["method"]
        path = cast("str", scope["path"]).removeprefix("/api/v1/").rstrip("/")
        handler, names = _route(method, path)
        body: Json = {}
        if method == "POST":
            body = await self._body(scope, receive)
        headers = scope["headers"]
        caller = caller_of(
            (header(headers, b"user-agent") or "")[:100],
            thread=header(headers, b"x-toolgate-thread"),
        )
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        return await handler(self, _Call(caller=caller, names=names, query=query, body=body))

    async def _body(self, scope: Scope, receive: Receive) -> Json:
        """The JSON object of a request; empty when there is no body."""
        kind = (header(scope["headers"], b"content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            # Also keeps pages of other origins out: a browser asks before it sends this type.
            raise _RefusedError(
                415,
                "media_type",
                f"The Content-Type is {kind!r}.",
                "Send the body as application/json.",
            )
        raw = await read_body(scope, receive, max_bytes=self._settings.max_body_bytes)
        if not raw:
            return {}
        body = read(raw, max_depth=self._settings.max_depth)
        if not isinstance(body, dict):
            raise _RefusedError(400, "bad_request", "The body must be a JSON object.")
        return cast("Json", body)

    # Tools

    async def discover(self, call: _Call) -> tuple[int, object]:
        """`POST discover`: the tools that fit requests."""
        body = _checked(call.body, _DISCOVER)
        form = _format_of(body)
        request = {
            "queries": _texts(body["query"], "query"),
            "context": body.get("context", ""),
            "max_results": body.get("maxResults"),
            "servers": _texts(body.get("server", []), "server"),
            "threshold": float(body.get("threshold", 0.0)),
        }
        found = await self._gateway.discover(call.caller, _discover_request(request))
        answer = _plain(found)
        keys = [str(tool.get("toolKey", "")) for tool in answer.get("results", ())]
        return 200, answer if form is None else {**answer, "tools": self._tools(call, keys, form)}

    async def describe(self, call: _Call) -> tuple[int, object]:
        """`POST describe`: tools by key, whole."""
        body = _checked(call.body, _DESCRIBE)
        keys = _texts(body["toolKeys"], "toolKeys")
        form = _format_of(body)
        if form is not None:
            return 200, {"tools": self._tools(call, keys, form)}
        return 200, _plain(await self._gateway.describe(call.caller, keys))

    async def execute(self, call: _Call) -> tuple[int, object]:
        """`POST execute`: run a tool; its result unchanged."""
        body = _checked(call.body, _EXECUTE)
        return 200, await self._gateway.execute(
            call.caller, body["toolKey"], body.get("arguments") or {}
        )

    async def tools(self, call: _Call) -> tuple[int, object]:
        """`GET tools`: all tools in the order of the catalog; takes `?server=` and `?format=`."""
        form = _format_of(call.query)
        server = call.query.get("server")
        found = [
            tool
            for tool in self._gateway.tools(call.caller)
            if server is None or tool.server == server
        ]
        if form is not None:
            return 200, {"tools": [_in_format(tool, form) for tool in found]}
        return 200, {"tools": [_listed(tool) for tool in found]}

    # Servers

    async def servers(self, call: _Call) -> tuple[int, object]:
        """`GET servers`: how each server is."""
        found = self._gateway.servers(call.caller)
        return 200, {"servers": [dataclasses.asdict(status) for status in found]}

    async def add_server(self, call: _Call) -> tuple[int, object]:
        """`POST servers`: add one, or replace the one of this name."""
        body = _checked(call.body, _ADD)
        await self._gateway.add_server(
            call.caller, body["name"], body["config"], save=body.get("save", False)
        )
        return 201, {"name": body["name"]}

    async def remove_server(self, call: _Call) -> tuple[int, object]:
        """`DELETE servers/NAME`."""
        await self._gateway.remove_server(call.caller, call.names[0])
        return 200, {"name": call.names[0]}

    async def enable_server(self, call: _Call) -> tuple[int, object]:
        """`POST servers/NAME/enable`."""
        _checked(call.body, {})
        await self._gateway.enable_server(call.caller, call.names[0], True)
        return 200, {"name": call.names[0], "enabled": True}

    async def disable_server(self, call: _Call) -> tuple[int, object]:
        """`POST servers/NAME/disable`."""
        _checked(call.body, {})
        await self._gateway.enable_server(call.caller, call.names[0], False)
        return 200, {"name": call.names[0], "enabled": False}

    async def restart_server(self, call: _Call) -> tuple[int, object]:
        """`POST servers/NAME/restart`."""
        _checked(call.body, {})
        await self._gateway.restart_server(call.caller, call.names[0])
        return 200, {"name": call.names[0]}

    async def status(self, call: _Call) -> tuple[int, object]:
        """`GET status`: the gateway in a few numbers."""
        servers = self._gateway.servers(call.caller)
        states: dict[str, int] = {}
        for server in servers:
            states[server.state] = states.get(server.state, 0) + 1
        return 200, {
            "version": toolgate.__version__,
            "servers": len(servers),
            "states": states,
            "tools": len(self._gateway.tools(call.caller)),
            "mode": self._app.settings.mode,
        }

    def _tools(self, call: _Call, keys: list[str], form: str) -> list[Json]:
        """Definitions of tools by key, ready for a model's API."""
        known = {tool.key: tool for tool in self._gateway.tools(call.caller)}
        missing = [key for key in keys if key not in known]
        if missing:
            raise UnknownToolError(
                f"There is no tool {missing[0]!r}.", hint="Find tools with POST /api/v1/discover."
            )
        return [_in_format(known[key], form) for key in keys]


_ROUTES: Mapping[tuple[str, str], _Handler] = {
    ("POST", "discover"): Rest.discover,
    ("POST", "describe"): Rest.describe,
    ("POST", "execute"): Rest.execute,
    ("GET", "tools"): Rest.tools,
    ("GET", "status"): Rest.status,
    ("GET", "servers"): Rest.servers,
    ("POST", "servers"): Rest.add_server,
    ("DELETE", "servers/*"): Rest.remove_server,
    ("POST", "servers/*/enable"): Rest.enable_server,
    ("POST", "servers/*/disable"): Rest.disable_server,
    ("POST", "servers/*/restart"): Rest.restart_server,
}


def _route(method: str, path: str) -> tuple[_Handler, tuple[str, ...]]:
    parts = path.split("/")
    names: tuple[str, ...] = ()
    if parts[0] == "servers" and len(parts) > 1:
        names = (parts[1],)
        parts[1] = "*"
    pattern = "/".join(parts)
    handler = _ROUTES.get(("GET" if method == "HEAD" else method, pattern))
    if handler is not None:
        return handler, names
    methods = sorted(known for known, its in _ROUTES if its == pattern)
    if methods:
        allowed = " or ".join(methods)
        raise _RefusedError(
            405, "method", f"/api/v1/{path} does not take {method}.", f"Use {allowed}."
        )
    raise _RefusedError(404, "not_found", f"There is nothing at {'/api/v1/' + path[:100]!r}.")


def _checked(body: Json, keys: Mapping[str, _Key]) -> Json:
    """The body without absent members, after a check of all its members."""
    unknown = sorted(body.keys() - keys.keys())
    if unknown:
        raise ArgumentError(
            f"Unknown member {unknown[0]!r}.",
            allowed=f"Allowed: {', '.join(keys)}." if keys else "No member is allowed here.",
        )
    found = {name: value for name, value in body.items() if value is not None}
    for name, key in keys.items():
        if name not in found:
            if key.is_needed:
                raise ArgumentError(f"Member {name!r} is missing.", allowed=f"It is {key.words}.")
            continue
        value = found[name]
        is_bool = isinstance(value, bool) and key.kind != (bool,)
        if is_bool or not isinstance(value, key.kind):
            raise ArgumentError(f"Member {name!r} must be {key.words}, not {value!r:.60}.")
    return found


def _texts(value: object, name: str) -> list[str]:
    found = cast("list[object]", value) if isinstance(value, list) else [value]
    for text in found:
        if not isinstance(text, str):
            raise ArgumentError(f"Member {name!r} must hold strings, not {text!r:.60}.")
    return cast("list[str]", found)


def _format_of(values: Mapping[str, Any]) -> str | None:
    form = values.get("format")
    if form is not None and form not in FORMATS:
        raise ArgumentError(
            f"Unknown format {form!r:.60}.", allowed=f"Allowed: {', '.join(FORMATS)}."
        )
    return form


def _in_format(tool: ToolView, form: str) -> Json:
    """A tool's definition as a model's API takes it; `mcp`: as MCP lists it."""
    definition = tool.definition
    if form == "mcp":
        return {**definition, "name": tool.exposed}
    description = str(definition.get("description") or "")
    schema = json_object(definition.get("inputSchema")) or {"type": "object"}
    if form == "anthropic":
        return {"name": tool.exposed, "description": description, "input_schema": schema}
    function = {"name": tool.exposed, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def _listed(tool: ToolView) -> Json:
    definition = tool.definition
    return {
        "toolKey": tool.key,
        "toolName": tool.exposed,
        "serverName": tool.server,
        "description": definition.get("description", ""),
        "down": tool.down,
    }


def _plain(answer: Any) -> Json:
    """An answer of the gateway as JSON: its structured form where it has one."""
    structured = getattr(answer, "structured", None)
    if structured is not None:
        return structured() if callable(structured) else structured
    return dataclasses.asdict(answer)


def _discover_request(fields: Json) -> Any:
    from toolgate.gateway import DiscoverRequest

    return DiscoverRequest(**fields)


def _status_of(error: ToolgateError) -> int:
    for kind in type(error).__mro__:
        if issubclass(kind, ToolgateError) and kind.code in _STATUS:
            return _STATUS[kind.code]
    return 500
