"""The MCP server for clients of both protocol eras, on the SDK's lowlevel server.

A middleware responds with the raw objects of the gateway, so that the SDK's models never parse,
check or rebuild a result. The SDK provides transports, sessions, the handshake and streams.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

import toolgate
from toolgate.errors import AccessError, CannotAskError, RpcError, ToolgateError
from toolgate.gateway.gateway import Gateway
from toolgate.gateway.listing import Change
from toolgate.security.access import PresentedCredentials
from toolgate.server.asgi.authentication import ANONYMOUS, CALLER, IS_RELAYED
from toolgate.server.asgi.parsing.json_parser import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    BadMessageError,
)
from toolgate.server.mcp.methods import LISTS, LOG_LEVELS, ClientProgram, McpMethods, client_program
from toolgate.server.mcp.peer import Channel, ClientPeer
from toolgate.server.mcp.prebuilt_lists import insert_placeholder
from toolgate.server.mcp.result_shape import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    SERVER_INFO,
    discovery_answer,
    handshake_answer,
    rpc_error,
    shape,
)
from toolgate.server.mcp.summarize_body import FULL_PARAMS
from toolgate.types import Caller, Era, Json, json_object

log = logging.getLogger(__name__)

PUSH_TIMEOUT_S = 10.0
"""Seconds that a handshake client has to read a change notification before the rest are dropped."""

SESSION_IDLE_S = 30 * 60.0
"""Seconds without requests after which a handshake-era session ends."""

MAX_LISTENERS = 10_000
"""Largest number of open `subscriptions/listen` streams."""

_REMOVED_IN_MODERN = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)

_EVENTS: dict[str, ServerEvent] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}

_SESSION_KEY = "toolgate.session"

_HOW_TO_BEGIN = "A token is required: send it as _meta.token of each request."

SCOPE_CALLER = "toolgate.caller"
"""Key of the caller in a scope; the endpoint sets it."""

Context = ServerRequestContext[Any, Any]


@dataclass(kw_only=True, eq=False)
class _Session:
    """State of a handshake-era client."""

    connection: Connection
    capabilities: Json
    client: ClientProgram
    level: str | None = None
    uris: dict[str, Caller] = field(default_factory=dict[str, Caller])
    """Subscribed resources by URI, and the caller that subscribed."""
    waiting: dict[tuple[str, str], Json | None] = field(default_factory=dict[tuple[str, str], Any])
    """Notifications not sent yet, by method and URI; a newer one replaces the older one."""
    is_pushing: bool = False


class McpServer:
    """Serves MCP over the transports of the SDK."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        token: str = "",
        project: str = "",
        answering: Callable[[object], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Create a server.

        Args:
            gateway: The gateway that handles requests.
            token: Token of a client that sends none.
            project: Project of a client that names none.
            answering: Context manager around each request, given its id: tasks of the SDK do not
                have the context of the code that passed the message in.
        """
        self._gateway = gateway
        self._answering = answering
        self._token = token
        self._project = project
        self._listening: set[_Listener] = set()
        self._methods = McpMethods(gateway)
        self._bus = InMemorySubscriptionBus()
        self._listeners = ListenHandler(self._bus, max_subscriptions=MAX_LISTENERS)
        self._sessions: set[_Session] = set()
        self._tasks: TaskGroup | None = None
        self._server: Server[None] = Server(
            SERVER_INFO["name"],
            version=toolgate.__version__,
            title=SERVER_INFO["title"],
            lifespan=self._lifespan,
            # Otherwise each modern call with arguments would list all tools first (mcp 2.3.0).
            get_tool_input_schema=self._input_schema,
            on_subscriptions_listen=self._listen,
        )
        self._server.middleware[:] = [self._middleware]

    def http(self, *, max_body_bytes: int) -> StreamableHTTPSessionManager:
        """Return the streamable HTTP endpoint; `Host` and `Origin` are checked before it."""
        logging.getLogger("mcp.server.streamable_http").addFilter(_is_news)
        return StreamableHTTPSessionManager(
            app=self._server,
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            session_idle_timeout=SESSION_IDLE_S,
            max_request_body_size=max_body_bytes,
        )

    async def run(self, read_stream: Any, write_stream: Any) -> None:
        """Serve one client over a pair of the SDK's message streams until it disconnects."""
        options = self._server.create_initialization_options()
        await self._server.run(read_stream, write_stream, options)

    def end_streams(self) -> None:
        """End all open `subscriptions/listen` streams."""
        self._listeners.close()

    @asynccontextmanager
    async def _lifespan(self, _server: Server[None]) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            unsubscribe = self._gateway.changes.on_change(self._on_change)
            forget = self._gateway.changes.on_access_change(self._on_access_change)
            try:
                yield None
            finally:
                unsubscribe()
                forget()
                self._tasks = None
                tasks.cancel_scope.cancel()

    # Requests

    async def _middleware(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            await call_next(ctx)
            if ctx.method == "notifications/initialized":
                self._begin_pushing(ctx)
            return None
        with self._answering(ctx.request_id):
            return await self._answered(ctx, call_next)

    async def _answered(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        era: Era = "modern" if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else "handshake"
        if era == "modern" and ctx.method in _REMOVED_IN_MODERN:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        answer = self._answer_for(ctx.method, era)
        if answer is None:
            return await call_next(ctx)
        if ctx.method == "initialize":
            return await self._initialize(ctx, call_next)
        if not _connection(ctx).initialize_accepted:
            raise MCPError(INVALID_REQUEST, "Send 'initialize' before any other request.")
        try:
            result = await answer(ctx, era)
        except BadMessageError as error:
            raise MCPError(error.rpc_code, error.message) from error
        except MCPError:
            raise
        except Exception as error:
            code, message, data = rpc_error(error, era)
            raise MCPError(code, message, data) from error
        return shape(result, ctx.method, era)

    def _answer_for(self, method: str, era: Era) -> Callable[[Context, Era], Any] | None:
        """Return the handler of a method; None leaves it to the SDK."""
        if self._methods.supports(method):
            return self._answer_method
        if era == "modern":
            return self._discover if method == "server/discover" else None
        return {
            "initialize": self._answer_method,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }.get(method)

    async def _answer_method(self, ctx: Context, era: Era) -> Json:
        params = dict(_params(ctx))
        peer = self._peer(ctx, era, params)
        if era == "handshake" and peer.log_level is not None:
            # Modern servers take the log level from each request, so the level of the session goes
            # there.
            params["_meta"] = {**json_object(params.get("_meta")), LOG_LEVEL: peer.log_level}
        caller = await self._caller(ctx, params)
        if era == "handshake" and ctx.request is not None and ctx.method in LISTS:
            listing = await self._methods.checked_listing(ctx.method, params, caller)
            return {LISTS[ctx.method]: insert_placeholder(ctx.request.scope, listing)}
        return await self._methods.answer(ctx.method, params, caller, peer)

    async def _initialize(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        params = json_object(dict(ctx.params or {}))
        connection = _connection(ctx)
        session = _Session(
            connection=connection,
            capabilities=json_object(params.get("capabilities")),
            client=client_program(params.get("clientInfo")),
        )
        if connection.state.get(_SESSION_KEY) is None:
            connection.exit_stack.callback(self._end_session, connection)
        connection.state[_SESSION_KEY] = session
        answered = dict(result) if isinstance(result, dict) else {}
        return answered | handshake_answer(await self._instructions(ctx, params))

    async def _instructions(self, ctx: Context, params: Json) -> str:
        """Return the instructions; for an unknown caller, how to authenticate."""
        try:
            caller = await self._caller(ctx, params)
            if caller.identity is ANONYMOUS:
                return _HOW_TO_BEGIN
            return self._gateway.listing.instructions(caller)
        except AccessError as error:
            return str(error)

    async def _discover(self, ctx: Context, _era: Era) -> Json:
        return discovery_answer(await self._instructions(ctx, dict(ctx.params or {})))

    async def _set_level(self, ctx: Context, _era: Era) -> Json:
        level = (ctx.params or {}).get("level")
        if level not in LOG_LEVELS:
            raise BadMessageError(
                INVALID_PARAMS, f"Parameter 'level' must be one of {', '.join(LOG_LEVELS)}."
            )
        if (session := _session(ctx)) is not None:
            session.level = level
        return {}

    def _peer(self, ctx: Context, era: Era, params: Json) -> ClientPeer:
        meta = json_object(params.get("_meta"))
        session = _session(ctx)
        if era == "modern":
            declared, level = json_object(meta.get(CLIENT_CAPABILITIES)), meta.get(LOG_LEVEL)
        else:
            declared = session.capabilities if session else {}
            level = session.level if session else None
        return ClientPeer(
            _SdkChannel(_channel(ctx)),
            era=era,
            capabilities=declared,
            progress_token=meta.get("progressToken"),
            log_level=level,
        )

    async def _caller(self, ctx: Context, params: Json) -> Caller:
        """Return the caller of a request; over HTTP the endpoint has authenticated it."""
        session, meta = _session(ctx), json_object(params.get("_meta"))
        client = session.client if session is not None else client_program(meta.get(CLIENT_INFO))
        if ctx.request is not None:
            caller: Caller = ctx.request.scope[SCOPE_CALLER]
            return replace(
                caller,
                client=client.name,
                client_version=client.version,
                conversation=caller.conversation or client.name,
            )
        return await self._gateway.admission.admit(
            PresentedCredentials(
                meta_token=meta.get("token") or self._token,
                meta_project=meta.get("projectId") or self._project,
                client=client.name,
                client_version=client.version,
                conversation=_connection(ctx).session_id or "",
                entry_point="stdio",
            )
        )

    def _input_schema(self, name: str) -> Json | None:
        """Return the schema for checking mirrored headers; None for relays, which send none."""
        caller = CALLER.get()
        if caller is None or IS_RELAYED.get():
            return None
        return self._gateway.listing.input_schema(caller, name)

    # Subscriptions

    async def _subscribe(self, ctx: Context, _era: Era) -> Json:
        uri, session = _uri(ctx), _session(ctx)
        if session is not None and uri not in session.uris:
            caller = await self._caller(ctx, dict(ctx.params or {}))
            await self._gateway.resources.subscribe(caller, uri)
            session.uris[uri] = caller
        return {}

    async def _unsubscribe(self, ctx: Context, _era: Era) -> Json:
        uri, session = _uri(ctx), _session(ctx)
        if session is not None and uri in session.uris:
            await self._gateway.resources.unsubscribe(session.uris.pop(uri), uri)
        return {}

    async def _listen(
        self, ctx: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        caller = await self._caller(ctx, dict(ctx.params or {}))
        listener = _Listener(caller=caller)
        requested = params.notifications.resource_subscriptions or ()
        # Resources that the caller may not read are skipped, like those that do not exist.
        uris = [uri for uri in requested if self._gateway.visible.may_read(caller, uri)]
        params.notifications.resource_subscriptions = uris
        # In the background, since the first frame of the stream must not wait for a server.
        self._spawn(self._subscribe_listener, uris, listener)
        listener.uris_asked = uris
        self._listening.add(listener)
        try:
            with listener.scope:
                return await self._listeners(ctx, params)
            return SubscriptionsListenResult()
        finally:
            self._listening.discard(listener)
            listener.has_left = True
            for uri in listener.uris:
                self._spawn(self._gateway.resources.unsubscribe, caller, uri)

    async def _subscribe_listener(self, uris: Iterable[str], listener: "_Listener") -> None:
        """Subscribe for a listener; resources that do not exist never send an update."""
        for uri in dict.fromkeys(uris):
            if listener.has_left:
                return
            try:
                await self._gateway.resources.subscribe(listener.caller, uri)
            except ToolgateError as error:
                log.info("subscription not made", extra={"reason": str(error)})
                continue
            if listener.has_left:
                await self._gateway.resources.unsubscribe(listener.caller, uri)
            else:
                listener.uris.append(uri)

    # Changes

    def _on_access_change(self) -> None:
        """End streams of resources their callers may no longer read; they can listen again."""
        for listener in list(self._listening):
            if not all(
                self._gateway.visible.may_read(listener.caller, uri) for uri in listener.uris_asked
            ):
                listener.scope.cancel()

    def _on_change(self, change: Change) -> None:
        self._spawn(self._announce, change)

    async def _announce(self, change: Change) -> None:
        uri = change.uri or ""
        if change.kind == "resource":
            await self._bus.publish(ResourceUpdated(uri))
        else:
            await self._bus.publish(_EVENTS[change.kind])
        for session in list(self._sessions):
            if change.kind != "resource":
                self._push(session, f"notifications/{change.kind}/list_changed", uri, None)
            elif uri in session.uris and self._gateway.visible.may_read(session.uris[uri], uri):
                self._push(session, "notifications/resources/updated", uri, {"uri": uri})

    def _push(self, session: _Session, method: str, uri: str, params: Json | None) -> None:
        session.waiting[method, uri] = params
        if not session.is_pushing:
            session.is_pushing = True
            self._spawn(self._push_waiting, session)

    async def _push_waiting(self, session: _Session) -> None:
        try:
            while session.waiting and session in self._sessions:
                (method, uri), params = next(iter(session.waiting.items()))
                del session.waiting[method, uri]
                with anyio.move_on_after(PUSH_TIMEOUT_S) as scope:
                    await session.connection.notify(method, params)
                if scope.cancelled_caught:
                    log.info(
                        "client does not read its notices", extra={"client": session.client.name}
                    )
                    session.waiting.clear()
        finally:
            session.is_pushing = False

    def _begin_pushing(self, ctx: Context) -> None:
        if (session := _session(ctx)) is not None:
            self._sessions.add(session)

    def _end_session(self, connection: Connection) -> None:
        session: _Session | None = connection.state.pop(_SESSION_KEY, None)
        if session is None:
            return
        self._sessions.discard(session)
        for uri, caller in session.uris.items():
            self._spawn(self._gateway.resources.unsubscribe, caller, uri)

    def _spawn(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Run a function in the background; do nothing while the server is ending."""
        if self._tasks is not None:
            self._tasks.start_soon(_contained, work, *args)


@dataclass(kw_only=True, eq=False)
class _Listener:
    """Subscriptions of one listener."""

    caller: Caller
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    uris_asked: list[str] = field(default_factory=list[str])
    uris: list[str] = field(default_factory=list[str])
    has_left: bool = False


async def _contained(work: Callable[..., Awaitable[None]], *args: object) -> None:
    """Run background work, and log its failure so that it does not end the server."""
    try:
        await work(*args)
    except ToolgateError as error:
        log.warning("work beside requests failed", extra={"reason": str(error)})
    except Exception:
        log.exception("work beside requests failed")


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a log record of the SDK's transport reports a real fault.

    The SDK also logs an error when a client ends its session right after a message, or while
    sending one (mcp 2.3.0).
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.split(anyio.ClosedResourceError)[1] is not None
    return not isinstance(error, anyio.ClosedResourceError)


class _SdkChannel:
    """The SDK's stream of a request, with errors that do not depend on the SDK."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        try:
            return await self._channel.send_raw_request(method, params)
        except NoBackChannelError as error:
            raise CannotAskError(
                f"There is no open stream to ask the client {method!r}."
            ) from error
        except MCPError as error:
            raise RpcError(error.error.code, error.error.message, error.error.data) from error

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        await self._channel.notify(method, params)


def _uri(ctx: Context) -> str:
    uri = (ctx.params or {}).get("uri")
    if not isinstance(uri, str):
        raise BadMessageError(INVALID_PARAMS, "Parameter 'uri' must be a string.")
    return uri


def _params(ctx: Context) -> Mapping[str, Any]:
    """Return the original parameters, also where the SDK got only a part of them."""
    whole = ctx.request.scope.get(FULL_PARAMS) if ctx.request is not None else None
    return whole or ctx.params or {}


# The SDK has both in private attributes (mcp 2.3.0): its typed methods would drop unknown fields
# from notifications and requests that must be relayed unchanged, and there is no other public place
# for per-session state.
def _connection(ctx: Context) -> Connection:
    return ctx.session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _channel(ctx: Context) -> Channel:
    return ctx.session._request_outbound  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _session(ctx: Context) -> _Session | None:
    return _connection(ctx).state.get(_SESSION_KEY)
