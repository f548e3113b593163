"""The REST API, `/api/v1`: discovery and execution for programs, servers for operators.

Objects that are tools keep the keys they have everywhere (`toolKey`, `serverName`); all else is in
snake case with units. Errors are `{"error": {code, message, hint, retryable, request_id}}`.
"""

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Any, cast
from urllib.parse import parse_qsl

import toolgate
from toolgate.app.app import App
from toolgate.audit import verify_audit
from toolgate.errors import (
    ApprovalError,
    ArgumentError,
    CredentialError,
    LimitError,
    RpcError,
    ToolgateError,
)
from toolgate.gateway.gateway import Gateway
from toolgate.gateway.listing import ToolView
from toolgate.gateway.meta_tools import (
    DiscoverRequest,
    read_describe,
    read_discover,
    read_execute,
    read_get_knowledge,
    read_process_prompt,
)
from toolgate.security.credentials import Logins
from toolgate.server.asgi.authentication import (
    CALLER,
    challenge_headers,
    presented_credentials,
    refusal_status,
)
from toolgate.server.asgi.errors import sees_details, send_error
from toolgate.server.asgi.parsing.headers import header
from toolgate.server.asgi.parsing.json_body import HttpError, json_body
from toolgate.server.asgi.parsing.json_parser import BadMessageError
from toolgate.server.asgi.parsing.messages import (
    DisconnectedError,
    Receive,
    Scope,
    Send,
    TooLargeError,
    discard_body,
    send_json,
    with_header,
)
from toolgate.server.rest.access import ACCESS
from toolgate.server.rest.approvals import approval, approval_list, approve, reject
from toolgate.server.rest.audit import audit_page
from toolgate.server.rest.cost import cost, tool_usage
from toolgate.server.rest.credentials import LOGINS, LoginAnswer
from toolgate.server.rest.detection import detection_json, read_detect
from toolgate.server.rest.documents import DOCUMENTS
from toolgate.server.rest.openapi import PAGED, openapi_document
from toolgate.server.rest.optimization import optimization, or_null
from toolgate.server.rest.pagination import paged
from toolgate.server.rest.quarantine import quarantined_view
from toolgate.server.rest.threads import TURNS, TurnAnswer
from toolgate.types import Caller, Json, json_object

__all__ = ["RestApi"]

log = logging.getLogger(__name__)

FORMATS = ("mcp", "openai", "anthropic")
"""Forms in which tool definitions are given."""

_STATUS: Mapping[str, int] = {
    "argument": 400,
    "decided": 409,
    "guard": 403,
    "config": 400,
    "handle": 400,
    "access": 401,
    "forbidden": 403,
    "catalog": 404,
    "document": 422,
    "embedder": 503,
    "unreachable": 503,
    "timed_out": 504,
    "cannot_ask": 409,
    "login_needed": 424,
    "upstream": 502,
    "store": 503,
}
"""HTTP status by `ToolgateError.code`, of the error itself or of the nearest ancestor."""

_Handler = Callable[["RestApi", "_RestRequest"], Awaitable[tuple[int, object]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RestRequest:
    """One request."""

    caller: Caller
    names: tuple[str, ...]
    """The variable parts of the path."""
    query: Mapping[str, str]
    body: Json


@dataclasses.dataclass(frozen=True, kw_only=True)
class _BodyField:
    """A member that a body may have."""

    kind: type | tuple[type, ...]
    words: str
    is_needed: bool = False


_STRING = (str,)
_MARK = {
    "toolKey": _BodyField(kind=_STRING, words="a string", is_needed=True),
    "mark": _BodyField(kind=_STRING, words="right or wrong", is_needed=True),
}
_ADD = {
    "project": _BodyField(kind=_STRING, words="a string"),
    "name": _BodyField(kind=_STRING, words="a string", is_needed=True),
    "config": _BodyField(kind=(dict,), words="an object", is_needed=True),
    "save": _BodyField(kind=(bool,), words="true or false"),
}
_APPROVE = {
    "name": _BodyField(kind=_STRING, words="a string", is_needed=True),
    "kind": _BodyField(kind=_STRING, words="a string"),
    "approve": _BodyField(kind=(bool,), words="true or false"),
}
_ENRICH = {
    "prompt": _BodyField(kind=_STRING, words="a string"),
    "queries": _BodyField(kind=(str, list), words="a string, or an array of strings"),
}
_REFRESH = {"server": _BodyField(kind=_STRING, words="a string")}


class RestApi:
    """Answers what lies under `/api/v1/`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._gateway = app.gateway
        self._settings = app.settings.serve

    @property
    def app(self) -> App:
        """The gateway with what it stands on."""
        return self._app

    @property
    def gateway(self) -> Gateway:
        """What is asked."""
        return self._gateway

    @property
    def logins(self) -> Logins:
        """What is shown to servers."""
        return self._app.logins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI); `Host` and `Origin` were checked before."""
        try:
            status, body = await self._answer(scope, receive)
        except DisconnectedError:
            return
        except HttpError as error:
            await send_error(send, error.status, error.code, error.message, hint=error.hint)
        except BadMessageError as error:
            await send_error(send, 400, "bad_request", error.message)
        except TooLargeError:
            limit = self._settings.max_body_bytes
            message = (
                f"The request body is larger than {limit} bytes (setting serve.max_body_bytes)."
            )
            closing = with_header(send, b"connection", b"close")
            await send_error(discard_body(closing, scope, receive), 413, "too_large", message)
        except RpcError as error:
            await send_error(
                send, 502, "rpc", error.message, rpc={"code": error.rpc_code, "data": error.data}
            )
        except (CredentialError, LimitError) as error:
            if isinstance(error, CredentialError):
                status = refusal_status(error)
                further = challenge_headers(error, scope, self._app.settings.authn.resource)
            else:
                status = 429
                further = ((b"retry-after", str(max(1, round(error.wait_s))).encode()),)
            for name, value in further:
                send = with_header(send, name, value)
            if isinstance(error, CredentialError):
                send = discard_body(send, scope, receive)  # its body was not read
            await send_error(
                send, status, error.code, error.failed, hint=error.hint, retryable=error.retryable
            )
        except ToolgateError as error:
            await send_error(
                send,
                _status_of(error),
                error.code,
                error.summary(with_detail=sees_details(self._gateway.visible)),
                hint=error.hint,
                retryable=error.retryable,
                approval=_approval_of(error),
            )
        except Exception:
            log.exception("request failed")
            message = "Internal error; the log of the gateway says more."
            await send_error(send, 500, "internal", message)
        else:
            await send_json(send, status, body)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, object]:
        method: str = scope["method"]
        path = cast("str", scope["path"]).removeprefix("/api/v1/").rstrip("/")
        client = (header(scope, b"user-agent") or "")[:100]
        caller = await self._gateway.admission.admit(
            presented_credentials(scope, {}, client=client)
        )
        CALLER.set(caller)
        handler, names = _route(method, path)
        body: Json = {}
        if method in {"PATCH", "POST"}:
            body = await self._body(scope, receive)
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        status, answer = await handler(
            self, _RestRequest(caller=caller, names=names, query=query, body=body)
        )
        if method in {"GET", "HEAD"} and path in PAGED:
            answer = paged(cast("Json", answer), PAGED[path], query)
        return status, answer

    async def _body(self, scope: Scope, receive: Receive) -> Json:
        """The JSON object of a request; empty when there is no body."""
        settings = self._settings
        return await json_body(
            scope,
            receive,
            max_bytes=settings.max_body_bytes,
            max_depth=settings.max_depth,
            may_be_empty=True,
        )

    # Tools

    async def discover(self, call: _RestRequest) -> tuple[int, object]:
        """`POST discover`: the tools that fit requests.

        Takes the arguments of `tool_discovery`, with `limit` for `maxResults` and `servers` for
        `server` too, `include_core` (true: pinned tools follow what was found), `explain` and
        `format`.
        """
        form, arguments = _form_and_rest(call.body)
        request, explain = _search_of(arguments)
        discovery = await self._gateway.discovery.discover(call.caller, request)
        answer = discovery.structured(explain=True) if explain else discovery.structured()
        if form is None:
            return 200, {**answer, "text": discovery.text}
        keys = [str(tool["toolKey"]) for tool in answer["results"]]
        return 200, {**answer, "tools": self._tools(call, keys, form)}

    async def describe(self, call: _RestRequest) -> tuple[int, object]:
        """`POST describe`: tools by key, whole; the arguments of `tool_describe`.

        With `indexed`, each tool has the texts by which its meaning is found.
        """
        form, arguments = _form_and_rest(call.body)
        shows_index = bool(
            _checked(
                {"indexed": arguments.pop("indexed", None)},
                {"indexed": _BodyField(kind=(bool,), words="true or false")},
            ).get("indexed")
        )
        keys = read_describe(arguments).keys
        described = await self._gateway.discovery.describe(call.caller, keys)
        if form is not None:
            return 200, {"tools": self._tools(call, keys, form)}
        answer = {**described.structured(), "text": described.text}
        if shows_index:
            tools = cast("list[Json]", answer["tools"])
            tool_keys = [str(tool["toolKey"]) for tool in tools]
            texts = self._gateway.manage.vectors.texts(call.caller, tool_keys)
            answer["tools"] = [
                {**tool, **dataclasses.asdict(texts[str(tool["toolKey"])])} for tool in tools
            ]
        return 200, answer

    async def execute(self, call: _RestRequest) -> tuple[int, object]:
        """`POST execute`: run a tool; its result unchanged. The arguments of `tool_execute`."""
        request = read_execute(call.body)
        return 200, await self._gateway.calls.execute(call.caller, request.key, request.arguments)

    async def tools(self, call: _RestRequest) -> tuple[int, object]:
        """`GET tools`: all tools in the order of the catalog; takes `?server=` and `?format=`."""
        form = _format_of(call.query)
        server = call.query.get("server")
        views = [
            tool
            for tool in self._gateway.listing.tool_views(call.caller)
            if server is None or tool.server == server
        ]
        if form is not None:
            return 200, {"tools": [_in_format(tool, form) for tool in views]}
        return 200, {"tools": [_listed(tool) for tool in views]}

    # Intents and rules

    async def detect(self, call: _RestRequest) -> tuple[int, object]:
        """`POST detect`: what a `message`, or each of `messages`, asks for.

        Takes `stage`, `today`, `zone`, `languages` and `previous` too.
        """
        request, is_one = read_detect(call.body)
        is_named = not call.caller.is_guess
        caller = call.caller if is_named else dataclasses.replace(call.caller, conversation="")
        detections = await self._gateway.intents.detect(caller, request)
        return 200, detection_json(detections[0]) if is_one else {
            "detections": [detection_json(detection) for detection in detections]
        }

    async def enrich(self, call: _RestRequest) -> tuple[int, object]:
        """`POST enrich`: the rules for a message (`prompt`) or for short actions (`queries`).

        Requests belong together by the header `X-Toolgate-Thread`; without it, each stands alone.
        """
        # A program that serves many people has one name: that makes no conversation.
        is_named = not call.caller.is_guess
        caller = call.caller if is_named else dataclasses.replace(call.caller, conversation="")
        body = _checked(call.body, _ENRICH)
        if "queries" in body and "prompt" in body:
            raise ArgumentError("A prompt and queries were both given.", hint="Give one of them.")
        if "queries" in body:
            queries = read_get_knowledge(body).queries
            return 200, (await self._gateway.intents.knowledge(caller, queries)).report()
        prompt = read_process_prompt(body).prompt
        return 200, (await self._gateway.intents.enrich(caller, prompt)).report()

    # Learning from use

    async def mark(self, call: _RestRequest) -> tuple[int, object]:
        """`POST mark`: say that a tool which a search showed was right, or wrong."""
        body = _checked(call.body, _MARK)
        if body["mark"] not in {"right", "wrong"}:
            raise ArgumentError(
                f"Member 'mark' is {body['mark']!r:.60}.", allowed="Allowed: right, wrong."
            )
        is_right, key = body["mark"] == "right", body["toolKey"]
        await self._gateway.learning.mark(call.caller, key, right=is_right)
        return 200, body

    async def usage(self, call: _RestRequest) -> tuple[int, object]:
        """`GET usage`: what was learned from use."""
        return 200, dataclasses.asdict(await self._gateway.learning.status(call.caller))

    async def packs(self, call: _RestRequest) -> tuple[int, object]:
        """Every pack that was found, with what is wrong with it."""
        self._gateway.visible.must_manage(call.caller)
        return 200, {"packs": [state.to_json() for state in self._app.packs.current.states]}

    async def forget_usage(self, call: _RestRequest) -> tuple[int, object]:
        """`DELETE usage`: forget what was searched and used."""
        return 200, {"searches": await self._gateway.learning.clear(call.caller)}

    async def groups(self, call: _RestRequest) -> tuple[int, object]:
        """`GET groups`: the capability groups."""
        return 200, {"groups": await self._gateway.discovery.groups(call.caller)}

    # Servers

    async def servers(self, call: _RestRequest) -> tuple[int, object]:
        """`GET servers`: how each server is."""
        servers = self._gateway.servers.statuses(call.caller)
        return 200, {"servers": [dataclasses.asdict(status) for status in servers]}

    async def running(self, call: _RestRequest) -> tuple[int, object]:
        """`GET running`: the calls that run now."""
        running_calls = self._gateway.calls.running(call.caller)
        return 200, {
            "running": [dataclasses.asdict(running_call) for running_call in running_calls]
        }

    async def add_server(self, call: _RestRequest) -> tuple[int, object]:
        """`POST servers`: add one, or replace the one of this name."""
        body = _checked(call.body, _ADD)
        added = await self._gateway.manage.servers.add(
            call.caller,
            body["name"],
            body["config"],
            save=body.get("save", False),
            project=body.get("project", ""),
        )
        return 201, dataclasses.asdict(added)

    async def remove_server(self, call: _RestRequest) -> tuple[int, object]:
        """`DELETE servers/NAME`."""
        await self._gateway.manage.servers.remove(call.caller, call.names[0])
        return 200, {"name": call.names[0]}

    async def enable_server(self, call: _RestRequest) -> tuple[int, object]:
        """`POST servers/NAME/enable`."""
        _checked(call.body, {})
        changed = await self._gateway.manage.servers.enable(call.caller, call.names[0], True)
        return 200, dataclasses.asdict(changed)

    async def disable_server(self, call: _RestRequest) -> tuple[int, object]:
        """`POST servers/NAME/disable`."""
        _checked(call.body, {})
        changed = await self._gateway.manage.servers.enable(call.caller, call.names[0], False)
        return 200, dataclasses.asdict(changed)

    async def restart_server(self, call: _RestRequest) -> tuple[int, object]:
        """`POST servers/NAME/restart`."""
        _checked(call.body, {})
        restarted = await self._gateway.manage.servers.restart(call.caller, call.names[0])
        return 200, dataclasses.asdict(restarted)

    async def quarantined_entries(self, call: _RestRequest) -> tuple[int, object]:
        """`GET held`: the definitions that wait until somebody approves them."""
        entries = await self._gateway.manage.quarantine.entries(call.caller)
        return 200, {"held": [quarantined_view(entry) for entry in entries]}

    async def tool_versions(self, call: _RestRequest) -> tuple[int, object]:
        """`GET tools/versions`: what the tool `?key=` was before, the last first."""
        key = call.query.get("key", "")
        versions = await self._gateway.manage.quarantine.versions(call.caller, key)
        return 200, {
            "toolKey": key,
            "versions": [dataclasses.asdict(version) for version in versions],
        }

    async def decide_quarantined(self, call: _RestRequest) -> tuple[int, object]:
        """`POST servers/NAME/approve`: let a held `name` through, or not (`"approve": false`)."""
        body = _checked(call.body, _APPROVE)
        decided = await self._gateway.manage.quarantine.decide(
            call.caller,
            call.names[0],
            body["name"],
            kind=body.get("kind", "tool"),
            accept=body.get("approve", True),
        )
        return 200, {
            "key": decided.key,
            "kind": decided.kind,
            "approved": body.get("approve", True),
        }

    async def approvals(self, call: _RestRequest) -> tuple[int, object]:
        """`GET approvals`: calls that wait for a person; `?state=`, `?limit=`, `?cursor=`."""
        return await approval_list(self._gateway, call.caller, call.query)

    # The audit

    async def audit(self, call: _RestRequest) -> tuple[int, object]:
        """`GET audit`: records, newest first.

        Takes `?action=`, `server`, `status`, `failed=true`, `since`, `until`, `tool`, `caller`,
        `project`, `phase` (`outcome`, `intent` or `all`), `limit`, `cursor`.
        """
        self._gateway.visible.must_manage(call.caller)
        return 200, await audit_page(self._app.store, call.query)

    async def verify_audit(self, call: _RestRequest) -> tuple[int, object]:
        """`GET audit/verify`: whether any record was changed, removed or moved."""
        self._gateway.visible.must_manage(call.caller)
        verification = await verify_audit(self._app.store, self._app.sealer)
        return 200, verification.as_json()

    # The index

    async def index(self, call: _RestRequest) -> tuple[int, object]:
        """`GET index`: how the vectors of the tools stand, and what the search has counted."""
        self._gateway.visible.must_manage(call.caller)
        return 200, await self._gateway.manage.vectors.status(call.caller)

    async def refresh_index(self, call: _RestRequest) -> tuple[int, object]:
        """`POST index/refresh`: compute vectors anew, of one `server` or of all."""
        server = _checked(call.body, _REFRESH).get("server")
        tools = await self._gateway.manage.vectors.refresh(call.caller, server)
        return 202, {"server": server, "tools": tools}

    async def remove_index(self, call: _RestRequest) -> tuple[int, object]:
        """`DELETE index/NAME`: remove what is kept of a server's vectors."""
        tools = await self._gateway.manage.vectors.remove(call.caller, call.names[0])
        return 200, {"server": call.names[0], "tools": tools}

    async def openapi(self, _call: _RestRequest) -> tuple[int, object]:
        """`GET openapi.json`: this interface as a document of OpenAPI 3.1."""
        return 200, openapi_document(
            {route: handler.__doc__ or "" for route, handler in _ROUTES.items()}
        )

    async def status(self, call: _RestRequest) -> tuple[int, object]:
        """`GET status`: the gateway in a few numbers."""
        servers = self._gateway.servers.statuses(call.caller)
        states: dict[str, int] = {}
        for server in servers:
            states[server.state] = states.get(server.state, 0) + 1
        return 200, {
            "version": toolgate.__version__,
            "servers": len(servers),
            "states": states,
            "tools": len(self._gateway.listing.tool_views(call.caller)),
            "mode": self._app.settings.mode,
            "optimization": or_null(self._app.settings.optimization),
        }

    async def optimization(self, call: _RestRequest) -> tuple[int, object]:
        """`GET optimization`: which search is used, and how each does; takes `?days=`."""
        self._gateway.visible.must_manage(call.caller)
        return 200, await optimization(self._app, call.caller, call.query)

    async def cost(self, call: _RestRequest) -> tuple[int, object]:
        """`GET cost`: tokens of each conversation, against listing all tools; takes `?days=`."""
        return 200, await cost(self._app, call.caller, call.query)

    async def tool_usage(self, call: _RestRequest) -> tuple[int, object]:
        """`GET tools/usage`: calls, success and last use by tool and project; takes `?days=`."""
        return 200, await tool_usage(self._app, call.caller, call.query)

    def _tools(self, call: _RestRequest, keys: Sequence[str], form: str) -> list[Json]:
        """Definitions of tools by key, ready for a model's API."""
        by_name = {tool.key: tool for tool in self._gateway.listing.tool_views(call.caller)}
        by_name |= {tool.exposed: tool for tool in by_name.values()}
        return [_in_format(by_name[key], form) for key in keys if key in by_name]


def _of_access(
    answer: Callable[[Gateway, Caller, tuple[str, ...], Json], Awaitable[tuple[int, object]]],
) -> _Handler:
    """A handler of what lies in a module of its own."""

    @wraps(answer)
    async def handler(rest: RestApi, call: _RestRequest) -> tuple[int, object]:
        return await answer(rest.gateway, call.caller, call.names, call.body)

    return handler


def _of_turns(answer: TurnAnswer) -> _Handler:
    """A handler of threads and prompts."""

    @wraps(answer)
    async def handler(rest: RestApi, call: _RestRequest) -> tuple[int, object]:
        return await answer(rest.app, call.caller, call.names, call.body)

    return handler


def _of_logins(answer: LoginAnswer) -> _Handler:
    """A handler of what is shown to servers."""

    @wraps(answer)
    async def handler(rest: RestApi, call: _RestRequest) -> tuple[int, object]:
        return await answer(rest.logins, call.caller, call.names, call.query, call.body)

    return handler


_ROUTES: Mapping[tuple[str, str], _Handler] = {
    **{route: _of_access(answer) for route, answer in {**ACCESS, **DOCUMENTS}.items()},
    **{route: _of_logins(answer) for route, answer in LOGINS.items()},
    **{route: _of_turns(answer) for route, answer in TURNS.items()},
    ("POST", "discover"): RestApi.discover,
    ("POST", "describe"): RestApi.describe,
    ("POST", "execute"): RestApi.execute,
    ("POST", "detect"): RestApi.detect,
    ("POST", "enrich"): RestApi.enrich,
    ("GET", "tools"): RestApi.tools,
    ("GET", "tools/versions"): RestApi.tool_versions,
    ("GET", "status"): RestApi.status,
    ("GET", "optimization"): RestApi.optimization,
    ("GET", "servers"): RestApi.servers,
    ("POST", "servers"): RestApi.add_server,
    ("DELETE", "servers/*"): RestApi.remove_server,
    ("POST", "servers/*/enable"): RestApi.enable_server,
    ("POST", "servers/*/disable"): RestApi.disable_server,
    ("POST", "servers/*/restart"): RestApi.restart_server,
    ("POST", "servers/*/approve"): RestApi.decide_quarantined,
    ("GET", "held"): RestApi.quarantined_entries,
    ("GET", "approvals"): RestApi.approvals,
    ("GET", "approvals/*"): _of_access(approval),
    ("POST", "approvals/*/approve"): _of_access(approve),
    ("POST", "approvals/*/reject"): _of_access(reject),
    ("GET", "audit"): RestApi.audit,
    ("GET", "audit/verify"): RestApi.verify_audit,
    ("GET", "openapi.json"): RestApi.openapi,
    ("GET", "cost"): RestApi.cost,
    ("GET", "tools/usage"): RestApi.tool_usage,
    ("GET", "groups"): RestApi.groups,
    ("GET", "running"): RestApi.running,
    ("POST", "mark"): RestApi.mark,
    ("GET", "usage"): RestApi.usage,
    ("DELETE", "usage"): RestApi.forget_usage,
    ("GET", "packs"): RestApi.packs,
    ("GET", "index"): RestApi.index,
    ("POST", "index/refresh"): RestApi.refresh_index,
    ("DELETE", "index/*"): RestApi.remove_index,
}


_NAMED = frozenset(
    {
        "approvals",
        "collections",
        "guards",
        "permissions",
        "projects",
        "prompts",
        "servers",
        "threads",
        "tokens",
    }
)
"""Where a name follows."""


def _route(method: str, path: str) -> tuple[_Handler, tuple[str, ...]]:
    parts = path.split("/")
    names: tuple[str, ...] = ()
    is_named = parts[0] in _NAMED or (parts[0] == "index" and method == "DELETE")
    if is_named and len(parts) > 1:
        names = (parts[1],)
        parts[1] = "*"
    pattern = "/".join(parts)
    handler = _ROUTES.get(("GET" if method == "HEAD" else method, pattern))
    if handler is not None:
        return handler, names
    methods = sorted(verb for verb, its in _ROUTES if its == pattern)
    if methods:
        allowed = " or ".join(methods)
        raise HttpError(405, "method", f"/api/v1/{path} does not take {method}.", f"Use {allowed}.")
    raise HttpError(404, "not_found", f"There is nothing at {'/api/v1/' + path[:100]!r}.")


def _checked(body: Json, keys: Mapping[str, _BodyField]) -> Json:
    """The body without absent members, after a check of all its members."""
    unknown = sorted(body.keys() - keys.keys())
    if unknown:
        raise ArgumentError(
            f"Unknown member {unknown[0]!r}.",
            allowed=f"Allowed: {', '.join(keys)}." if keys else "No member is allowed here.",
        )
    fields = {name: value for name, value in body.items() if value is not None}
    for name, key in keys.items():
        if name not in fields:
            if key.is_needed:
                raise ArgumentError(f"Member {name!r} is missing.", allowed=f"It is {key.words}.")
            continue
        value = fields[name]
        is_bool = isinstance(value, bool) and key.kind != (bool,)
        if is_bool or not isinstance(value, key.kind):
            raise ArgumentError(f"Member {name!r} must be {key.words}, not {value!r:.60}.")
    return fields


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


_ALSO = {"limit": "maxResults", "servers": "server"}
"""Members of a search under the names that programs expect."""

_SWITCHES = ("include_core", "explain")
_SEARCH = {"query", "context", "maxResults", "server", "group", "threshold", *_ALSO}


def _search_of(body: Json) -> tuple[DiscoverRequest, bool]:
    """The search that a body asks for, and whether each result is to be explained."""
    fields = {name: value for name, value in body.items() if value is not None}
    for other, name in _ALSO.items():
        if other in fields and name in fields:
            raise ArgumentError(f"{other!r} and {name!r} are the same.", hint="Give one of them.")
    switches = {name: _BodyField(kind=(bool,), words="true or false") for name in _SWITCHES}
    options = _checked({name: fields.pop(name) for name in _SWITCHES if name in fields}, switches)
    unknown = sorted(fields.keys() - _SEARCH)
    if unknown:
        raise ArgumentError(
            f"Unknown member {unknown[0]!r:.60}.",
            allowed=f"Allowed: {', '.join(sorted({*_SEARCH, *switches, 'format'}))}.",
        )
    limit = fields.get("limit")
    if "limit" in fields and (type(limit) is not int or not 1 <= limit <= 50):
        raise ArgumentError(
            f"Member 'limit' is {limit!r:.60}.", allowed="Allowed: whole numbers from 1 to 50."
        )
    request = read_discover({_ALSO.get(name, name): value for name, value in fields.items()})
    return (
        dataclasses.replace(request, include_core=options.get("include_core", True)),
        options.get("explain", False),
    )


def _form_and_rest(body: Json) -> tuple[str | None, Json]:
    """The format that a body asks for, and what else it says."""
    rest = {name: value for name, value in body.items() if name != "format"}
    return _format_of(body), rest


def _status_of(error: ToolgateError) -> int:
    for kind in type(error).__mro__:
        if issubclass(kind, ToolgateError) and kind.code in _STATUS:
            return _STATUS[kind.code]
    return 500


def _approval_of(error: ToolgateError) -> Json | None:
    """What a call waits for."""
    if not isinstance(error, ApprovalError):
        return None
    return {"id": error.approval_id, "state": error.state, "expires_at": error.expires_at}
