"""The HTTP door: `/mcp` for MCP clients, `/api/v1` for programs, `/healthz` and `/readyz`.

The socket listens before the SDK is imported: the lane answers modern clients meanwhile, others
wait for the fraction of a second that the import takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import logging
import signal
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread
import uvicorn
from anyio.abc import TaskStatus

from toolgate.app.app import App
from toolgate.base.lazy_loading import load
from toolgate.base.logs import REQUEST_ID
from toolgate.base.process_memory import trim
from toolgate.base.tracing import join_trace, observe, observe_again, take_trace, trace_of
from toolgate.errors import AccessError, CredentialError, PortTakenError, SettingError, StoreError
from toolgate.security.access import PresentedCredentials
from toolgate.server.asgi.authentication import (
    ANONYMOUS,
    CALLER,
    IS_RELAYED,
    METADATA_PATH,
    challenge_headers,
    path_project,
    presented_credentials,
    public_address,
    refusal_data,
    refusal_status,
    request_id_of,
    resource_metadata,
)
from toolgate.server.asgi.forwarded_headers import ForwardedHeaders
from toolgate.server.asgi.host_check import HostCheck, header
from toolgate.server.asgi.http_parser import CONNECTION, HttpParser
from toolgate.server.asgi.json_parser import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LARGE_BYTES,
    BadMessageError,
    body_too_large,
    check_envelope,
    error_bytes,
    parse_json_async,
)
from toolgate.server.asgi.messages import (
    DisconnectedError,
    Message,
    Receive,
    Scope,
    Send,
    TooLargeError,
    discard_body,
    read_body,
    replay,
    send_json,
    with_header,
)
from toolgate.server.asgi.peer_process import has_other_users, is_same_user
from toolgate.server.asgi.telemetry import record_telemetry
from toolgate.server.mcp.fast_path import FastPath
from toolgate.server.mcp.methods import client_name
from toolgate.server.mcp.prebuilt_lists import fill_placeholder
from toolgate.server.mcp.result_shape import ACCESS_CODE, CLIENT_INFO, FORBIDDEN_CODE
from toolgate.server.mcp.sdk_errors import explain_errors, media_type_fault
from toolgate.server.mcp.sessions import SessionNames
from toolgate.server.mcp.summarize_body import FULL_PARAMS, summarize_body
from toolgate.server.openai.chat import ChatApi
from toolgate.server.rest.catalog_search import CatalogSearch
from toolgate.server.rest.login_pages import LoginPages
from toolgate.server.rest.routes import RestApi
from toolgate.server.signals import received
from toolgate.settings import TlsSettings
from toolgate.types import Caller, Json, json_object

if TYPE_CHECKING:
    from toolgate.console import Console
    from toolgate.server.mcp.front import McpServer
    from toolgate.telemetry import Metrics

__all__ = ["Door", "build_app", "serve"]

log = logging.getLogger(__name__)

CLOSE_S = 2.0
"""Seconds that responses get to be written once all calls are over."""

TRIM_AFTER_S = 1.5
"""Seconds after a large message in which memory is given back."""

_SHUTTING_DOWN = "The gateway is shutting down and takes no new calls."
_ENDED = "The gateway shut down before the answer came. Whether the request took effect is unknown."
_TWICE = (
    "A request with the id {!r:.100} is still running in this session."
    " Allowed: an id that no running request has. Count the ids up."
)
_ID = "toolgate.id"
_CALLER = "toolgate.caller"
_OPENING = "toolgate.opening"
_UNKNOWN_MAX_BYTES = 4 * 2**20
"""Largest body that is read of somebody who shows no token in a header."""
_LOOK_S = 30.0
"""Seconds between two looks whether those who have streams open may still have them."""
_SESSIONS = 100_000
_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""What anybody may ask."""
_STYLES = "/console/static/"
"""Files of the package that pages load, that which sends somebody away included."""
_IN_URL = (
    " A token in the address is not read: addresses stand in logs. Send it as a header instead."
)
_OTHER_SESSION = "Session not found"
_SIZE = "toolgate.size"
_AS_BEFORE = nullcontext()
_MUCH_BYTES = 4 * 2**20
_FAILED = "Internal error; the log of the gateway says more."


def build_app(app: App, *, host: str | None = None, key: str = "") -> Door:
    """The ASGI application over an opened gateway.

    Args:
        app: The opened gateway.
        host: Address that is listened on, for the check of `Host`; by default that of the settings.
        key: Shown by relays of the same user; empty: nobody can be one.
    """
    return Door(app, host=host or app.settings.serve.host, key=key)


async def serve(
    app: App,
    *,
    host: str | None = None,
    port: int | None = None,
    on_ready: Callable[[str], str | None] | None = None,
    on_loaded: Callable[[], None] | None = None,
    on_reload: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; running calls get `serve.drain_s` then.

    A second signal ends at once.

    Args:
        app: The opened gateway.
        host: Address to listen on; by default that of the settings.
        port: Port to listen on, 0 for a free one; by default that of the settings.
        on_ready: Called with the address, such as `http://127.0.0.1:7420`, once clients can
            connect; gives the key that relays of the same user show, if there is one.
        on_loaded: Called once nothing is left to import and clients of both eras are answered.
        on_reload: Awaited at SIGHUP.

    Raises:
        PortTakenError: Another program listens there.
    """
    settings = app.settings.serve
    host, port = host or settings.host, settings.port if port is None else port
    tls = app.settings.tls
    if tls.cert:
        check_certificate(tls)
    listener = _listen(host, port)
    door = build_app(app, host=host)
    config = uvicorn.Config(
        door,
        http=HttpParser,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what goes wrong in a request is logged here
        access_log=False,
        server_header=False,
        proxy_headers=False,  # `ForwardedHeaders` reads them
        ssl_certfile=tls.cert or None,
        ssl_keyfile=tls.key or None,
        timeout_graceful_shutdown=CLOSE_S,  # pyright: ignore[reportArgumentType] - a number of s
    )
    server = _Server(config)
    async with door.running(), anyio.create_task_group() as tasks:
        stopper = _Stopper(door, server, drain_s=settings.drain_s, on_reload=on_reload)
        tasks.start_soon(stopper.run)
        await server.open([listener])
        address = _address(host, listener, is_safe=bool(tls.cert))
        app.logins.base = public_address(app.settings, address)
        if on_ready is not None:
            door.key = on_ready(address) or ""
        if on_loaded is not None:
            tasks.start_soon(door.tell_loaded, on_loaded)
        try:
            await server.main_loop()
        finally:
            # Also when cancelled: nobody may be left connected to a gateway that is gone.
            door.end()
            with anyio.CancelScope(shield=True):
                await server.shutdown([listener])
        tasks.cancel_scope.cancel()


class Door:
    """Sends each request to where it is answered."""

    def __init__(self, app: App, *, host: str, key: str = "") -> None:
        self._settings = app.settings.serve
        self._gateway = app.gateway
        self._guard = HostCheck(
            host=host,
            hosts=self._settings.allowed_hosts,
            origins=self._settings.allowed_origins,
        )
        self._proxied = ForwardedHeaders(self._settings.trusted_proxies, self._settings.root_path)
        self._is_open = app.settings.auth != "local" or (
            not has_other_users()
            if app.settings.allow_other_users is None
            else app.settings.allow_other_users
        )
        self._authn = app.settings.authn
        self._lane = FastPath(app.gateway)
        self._sessions = SessionNames(app.signer)
        self._owners: dict[str, str] = {}
        """Who opened a session, by its id."""
        self._streams: dict[asyncio.Task[Any], tuple[PresentedCredentials, str]] = {}
        """Open streams: what their request showed, and who that was."""
        self._revoked: set[asyncio.Task[Any] | None] = set()
        self._rest = RestApi(app)
        self._login_pages = LoginPages(app.logins, app.gateway.admission)
        self._catalog_search = CatalogSearch(app, refuse=self._rest.refuse)
        self._chat = ChatApi(app)
        self._front: McpServer | None = None
        self._app = app
        self._console: Console | None = None
        self._sdk: Callable[[Scope, Receive, Send], Awaitable[None]] | None = None
        self._has_sdk = anyio.Event()
        self._stop = anyio.Event()
        self._running: set[asyncio.Task[Any]] = set()
        self._asked: set[tuple[str, str]] = set()
        """Requests of sessions that are being answered: session and id."""
        self._idle = anyio.Event()
        self._is_draining = False
        self._is_ending = False
        self._logs_requests = app.settings.log.names_requests
        self._metrics: Metrics | None = None
        self._trimming: asyncio.TimerHandle | None = None
        self._passed_bytes = 0
        """Of requests and answers since memory was given back: many small ones leave gaps, too."""
        self._looking: asyncio.Task[None] | asyncio.TimerHandle | None = None
        self.key = key

    @property
    def key(self) -> str:
        """What relays and commands of the same user show; empty: nobody can be one."""
        return self._key

    @key.setter
    def key(self, key: str) -> None:
        self._key = self._gateway.admission.local_key = key

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Hold what serves requests; needed around any of them."""
        counting = record_telemetry(self._app, running=lambda: len(self._running))
        async with counting as self._metrics, anyio.create_task_group() as tasks:
            tasks.start_soon(self._load)
            forget = self._gateway.changes.on_access_change(self._look_soon)
            try:
                yield
            finally:
                forget()
                if self._looking is not None:
                    self._looking.cancel()
                self._stop.set()
                if not self._has_sdk.is_set():
                    tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await self._catalog_search.aclose()

    async def tell_loaded(self, tell: Callable[[], None]) -> None:
        """Call a function once nothing is left to import."""
        await self._has_sdk.wait()
        tell()

    async def drain(self, within_s: float) -> bool:
        """Take no new calls and wait for those that run; False when some were still running."""
        self._is_draining = True
        if self._front is not None:
            self._front.end_streams()
        if self._console is not None:
            self._console.end_streams()
        with anyio.move_on_after(within_s):
            while self._running:
                self._idle = anyio.Event()
                await self._idle.wait()
        return not self._running

    def end(self) -> None:
        """End what still runs, with an answer that says so, and all sessions."""
        self._is_draining = self._is_ending = True
        if self._trimming is not None:
            self._trimming.cancel()
        self._stop.set()
        for task in self._running:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            scope = self._proxied.apply(scope)
            request_id = request_id_of(header(scope["headers"], b"x-request-id"))
            REQUEST_ID.set(request_id)
            named = header(scope["headers"], b"traceparent")
            join_trace(trace_of(named, named and header(scope["headers"], b"tracestate")))
            CALLER.set(None)
            began = perf_counter()
            response = _Response(send)
            page = self._guard.readable_origin(scope["headers"])
            try:
                with observe("request", method=scope["method"], path=_place_of(scope["path"])):
                    if page is not None and scope["method"] == "OPTIONS":
                        await _preflight(scope, response, page)
                    else:
                        answer = response if page is None else _readable(response, page)
                        await self._route(scope, receive, answer, request_id)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task in self._revoked:
                    task.uncancel()
                    return  # the connection closes: nothing more for who may not listen any more
                if not self._is_ending:
                    raise
                await self._fail(response, scope, 503, _ENDED, "shutting_down")
            except Exception:
                if response.is_whole:
                    # The SDK may find out that a session has ended when all is answered.
                    log.debug("request failed after its answer", exc_info=True)
                    return
                log.exception("request failed")
                await self._fail(response, scope, 500, _FAILED, "internal")
            finally:
                self._revoked.discard(asyncio.current_task())
                if self._logs_requests:
                    _log_request(scope, response, perf_counter() - began)
                self._passed_bytes += response.sent_bytes + scope.get(_SIZE, 0)
                if self._passed_bytes > _MUCH_BYTES:
                    self._passed_bytes = 0
                    self._trim_soon()

    def _trim_soon(self) -> None:
        """Give memory back once a large message is forgotten, once for many that come together."""
        if self._trimming is not None:
            self._trimming.cancel()
        loop = asyncio.get_running_loop()
        self._trimming = loop.call_later(TRIM_AFTER_S, loop.run_in_executor, None, trim)

    async def _fail(
        self, response: _Response, scope: Scope, status: int, message: str, code: str
    ) -> None:
        """Answer with an error in the form that the client waits for, if it still does."""
        if response.is_whole:
            return
        if not response.has_begun and scope["path"].startswith(("/api/v1/", "/catalog/")):
            await self._rest.refuse(response, status, code, message)
            return
        data = {"code": code, "retryable": False, "requestId": REQUEST_ID.get()}
        body = error_bytes(scope.get(_ID), INTERNAL_ERROR, message, data)
        if not response.has_begun:
            await send_json(response, status, body)
        elif response.is_stream and not response.is_within_event and scope.get(_ID) is not None:
            event = b"event: message\r\ndata: " + body + b"\r\n\r\n"
            await response({"type": "http.response.body", "body": event})

    async def _is_stranger(self, scope: Scope) -> bool:
        """Whether another user of this machine asks, who has not shown the key of the run file."""
        path: str = scope["path"]
        if self._is_open or path in _OPEN_PATHS or path.startswith(_STYLES):
            return False
        if self._shows_key(scope["headers"]):
            return False
        about: dict[str, bool] | None = scope.get(CONNECTION)
        client, server = scope.get("client"), scope.get("server")
        if about is None:
            return False  # a program that embeds the gateway decides who reaches it
        if client is None or server is None:
            return True
        if "stranger" not in about:
            same = await is_same_user(tuple(client), tuple(server))
            about["stranger"] = same is not True
        return about["stranger"]

    def _shows_key(self, headers: list[tuple[bytes, bytes]]) -> bool:
        shown = header(headers, b"x-toolgate-key") or ""
        return self._is_relay(headers) or (
            bool(self.key) and hmac.compare_digest(shown.encode(), self.key.encode())
        )

    async def _send_away(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer another user of this machine."""
        error = CredentialError(
            "This gateway is for the user that runs it, and another user of this machine asks.",
            was_presented=False,
            hint="Whoever runs it can set allow_other_users = true, or "
            'auth = "required" and give tokens.',
        )
        answer = discard_body(send, scope, receive)
        if path_project(scope["path"]) is not None:
            await self._turn_away(scope, answer, error, None)
        elif scope["path"] == "/console" or scope["path"].startswith("/console/"):
            console = await self._loaded_console()
            await console.turn_away(scope, receive, answer, error)
        else:
            await self._rest.refuse(answer, 401, error.code, error.failed, hint=error.hint)

    async def _route(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        if await self._is_stranger(scope):
            await self._send_away(scope, receive, send)
            return
        path: str = scope["path"]
        if path_project(path) is not None:
            await self._mcp(scope, receive, send, request_id)
            return
        send = with_header(send, b"x-request-id", request_id.encode("ascii"))
        if path == "/healthz":
            await send_json(send, 200, {"status": "ok"})
        elif path == "/readyz":
            ready = not self._is_draining
            await send_json(send, 200 if ready else 503, {"ready": ready})
        elif path.startswith(METADATA_PATH) and (found := self._metadata(scope)) is not None:
            await send_json(send, 200, found)
        elif path.startswith("/api/v1/"):
            await self._api(self._rest, scope, receive, send)
        elif path.startswith("/oauth/"):
            await self._api(self._login_pages, scope, receive, send)
        elif path.startswith("/v1/"):
            await self._api(self._chat, scope, receive, send)
        elif path == "/catalog/search":
            await self._api(self._catalog_search, scope, receive, send)
        elif path == "/metrics" and self._metrics is not None:
            await self._tell_metrics(self._metrics, scope, send)
        elif path == "/console" or path.startswith("/console/"):
            await self._page(scope, receive, send)
        elif path == "/" and "text/html" in (header(scope["headers"], b"accept") or ""):
            await _redirect(send, f"{scope.get('root_path', '')}/console")
        else:
            message = f"There is nothing at {path[:100]!r}; MCP clients use /mcp."
            await send_json(send, 404, {"error": {"code": "not_found", "message": message}})

    async def _api(
        self,
        answer: Callable[[Scope, Receive, Send], Awaitable[None]],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        refusal = self._guard.check(scope["headers"])
        if refusal is not None:
            await self._rest.refuse(send, refusal.status, "forbidden", refusal.message)
        elif self._is_draining:
            await self._rest.refuse(send, 503, "shutting_down", _SHUTTING_DOWN, retryable=True)
        else:
            with self._counted():
                await answer(scope, receive, send)

    async def _tell_metrics(self, metrics: Metrics, scope: Scope, send: Send) -> None:
        """Answer a scrape."""
        refusal = self._guard.check(scope["headers"])
        if refusal is not None:
            await _say(send, refusal.status, refusal.message)
            return
        if not self._app.settings.metrics.open:
            shown = presented_credentials(scope, {}, is_relay=False)
            try:
                caller = await self._gateway.admission.admit(shown)
                CALLER.set(caller)
                self._gateway.visible.must_manage(caller)
            except AccessError as error:
                headers = challenge_headers(error, scope, self._authn.resource)
                body = {"error": {"code": error.code, "message": str(error)}}
                await send_json(send, refusal_status(error), body, headers=headers)
                return
        try:
            kind, body = await metrics.text()
        except StoreError as error:
            await _say(send, 503, str(error))
            return
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a browser; the console is loaded when the first one comes."""
        refusal = self._guard.check(scope["headers"])
        if refusal is not None:
            await _say(send, refusal.status, refusal.message)
            return
        if self._is_draining:
            await _say(send, 503, _SHUTTING_DOWN)
            return
        console = await self._loaded_console()
        if scope["path"] == "/console/events":  # is open as long as the page is
            await console(scope, receive, send)
            return
        with self._counted():
            await console(scope, receive, send)

    async def _loaded_console(self) -> Console:
        if self._console is None:
            module: Any = await anyio.to_thread.run_sync(import_module, "toolgate.console")
            made = cast("Console", module.Console(self._app, tell=CALLER.set))
            self._console = self._console or made
        return self._console

    async def _mcp(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        tagged = with_header(send, b"x-request-id", request_id.encode("ascii"))
        refusal = self._guard.check(headers)
        if refusal is not None:
            body = error_bytes(None, INVALID_REQUEST, refusal.message)
            await send_json(tagged, refusal.status, body)
            return
        is_relay = self._is_relay(headers)
        if scope["method"] != "POST":
            shown = presented_credentials(scope, {}, is_relay=is_relay)
            if await self._admit(scope, tagged, shown, None, is_relay=is_relay):
                with self._stream_of(scope, shown):
                    await self._to_sdk(scope, receive, explain_errors(tagged, scope, None))
            return
        max_bytes = self._max_bytes(headers)
        try:
            body = await read_body(scope, receive, max_bytes=max_bytes)
            scope[_SIZE] = len(body)
            message = check_envelope(
                await parse_json_async(body, max_depth=self._settings.max_depth)
            )
        except DisconnectedError:
            return
        except TooLargeError:
            error = body_too_large(max_bytes)
            body = error_bytes(None, error.rpc_code, error.message)
            closing = ((b"connection", b"close"),)
            await send_json(discard_body(tagged, scope, receive), 413, body, headers=closing)
            return
        except BadMessageError as error:
            body = error_bytes(error.request_id, error.rpc_code, error.message)
            await send_json(tagged, 400, body)
            return
        scope[_ID] = asked = message.get("id") if "method" in message else None
        if fault := media_type_fault(scope):
            await send_json(tagged, 415, error_bytes(asked, INVALID_REQUEST, fault))
            return
        if self._is_draining and asked is not None:
            body = error_bytes(asked, -31040, _SHUTTING_DOWN)
            await send_json(tagged, 503, body, headers=((b"retry-after", b"5"),))
            return
        meta = json_object(json_object(message.get("params")).get("_meta"))
        with self._in_trace_of(scope, meta):
            shown = presented_credentials(
                scope, meta, client=client_name(meta.get(CLIENT_INFO)), is_relay=is_relay
            )
            if not await self._admit(scope, tagged, shown, message, is_relay=is_relay):
                return
            IS_RELAYED.set(is_relay)
            with self._counted(), self._stream_of(scope, shown, message):
                request = None
                if self._lane.accepts_headers(headers):
                    request = self._lane.parse(message, headers, scope[_CALLER])
                if request is not None:
                    await self._lane.serve(request, receive, send, request_id)
                else:
                    if len(body) > LARGE_BYTES and "method" in message:
                        scope = {**scope, FULL_PARAMS: message.get("params")}
                        body = summarize_body(message)
                    with self._alone_in_session(headers, asked) as is_alone:
                        if is_alone:
                            answer = explain_errors(tagged, scope, asked)
                            if not is_relay and message.get("method") == "initialize":
                                scope[_OPENING] = json_object(message.get("params"))
                            try:
                                await self._to_sdk(scope, replay(body, receive), answer)
                            finally:
                                # The SDK's objects hold the scope until garbage is searched for.
                                scope.pop(FULL_PARAMS, None)
                        else:
                            text = _TWICE.format(asked)
                            await send_json(tagged, 400, error_bytes(asked, INVALID_REQUEST, text))

    def _in_trace_of(self, scope: Scope, meta: Json) -> AbstractContextManager[None]:
        """What runs within belongs to the trace that a message names."""
        if "traceparent" not in meta:
            return _AS_BEFORE
        take_trace(meta["traceparent"], meta.get("tracestate"))
        return observe_again("request", method=scope["method"], path=_place_of(scope["path"]))

    @contextlib.contextmanager
    def _alone_in_session(
        self, headers: list[tuple[bytes, bytes]], request_id: object
    ) -> Generator[bool]:
        """Whether no request of the session has the same id; holds the id meanwhile.

        The SDK gives both answers to the later one, and the earlier would wait for ever; for it 1
        and "1" are the same (mcp 2.3.0).
        """
        session = header(headers, b"mcp-session-id")
        if session is None or request_id is None:
            yield True
            return
        key = (session, str(request_id))
        if key in self._asked:
            yield False
            return
        self._asked.add(key)
        try:
            yield True
        finally:
            self._asked.discard(key)

    def _max_bytes(self, headers: list[tuple[bytes, bytes]]) -> int:
        """The largest body that is read."""
        most = self._settings.max_body_bytes
        if not self._gateway.admission.required or header(headers, b"authorization") is not None:
            return most
        return min(most, _UNKNOWN_MAX_BYTES)

    async def _admit(
        self,
        scope: Scope,
        send: Send,
        shown: PresentedCredentials,
        message: Json | None,
        *,
        is_relay: bool,
    ) -> bool:
        """Leave in the scope who sends a request; False when it was refused.

        A refusal is answered at once and whole: some clients wait for ever otherwise.
        """
        try:
            caller = await self._gateway.admission.admit(shown)
        except AccessError as error:
            owner = self._owner_of_notice(scope, shown, message)
            if owner is None and is_relay and _opens(message, error):
                owner = Caller(caller_id="", client=shown.client, identity=ANONYMOUS)
            if owner is None:
                await self._turn_away(scope, send, error, message)
                return False
            caller = owner
        if not is_relay and not self._is_of_session(scope, caller):
            body = error_bytes(scope.get(_ID), INVALID_REQUEST, _OTHER_SESSION)
            await send_json(send, 404, body)
            return False
        scope[_CALLER] = caller
        CALLER.set(caller)
        return True

    async def _turn_away(
        self, scope: Scope, send: Send, error: AccessError, message: Json | None
    ) -> None:
        text = str(error)
        if isinstance(error, CredentialError) and b"token=" in scope.get("query_string", b""):
            text += _IN_URL
        code = ACCESS_CODE if isinstance(error, CredentialError) else FORBIDDEN_CODE
        body = error_bytes(
            None if message is None else message.get("id"), code, text, refusal_data(error)
        )
        headers = challenge_headers(error, scope, self._authn.resource)
        await send_json(send, refusal_status(error), body, headers=headers)

    def _owner_of_notice(
        self, scope: Scope, shown: PresentedCredentials, message: Json | None
    ) -> Caller | None:
        """Who opened a session, for a notice in it from a client that shows tokens in `_meta`.

        A notice starts nothing and gets no answer; anything else needs a token of its own.
        """
        if message is None or "id" in message or shown.authorization is not None:
            return None
        owner = self._owner_of(header(scope["headers"], b"mcp-session-id") or "")
        return None if owner is None else Caller(caller_id=owner, identity=ANONYMOUS)

    def _is_of_session(self, scope: Scope, caller: Caller) -> bool:
        """Whether a session, if the request names one, was opened by the same caller."""
        if not self._gateway.admission.required:
            return True
        session = header(scope["headers"], b"mcp-session-id")
        return session is None or self._owner_of(session) == caller.caller_id

    def _owner_of(self, session: str) -> str | None:
        """Who opened a session, here or in another process."""
        return self._owners.get(session) or self._sessions.owner(session)

    def _noting_session(self, send: Send, caller: Caller) -> Send:
        """A `send` that remembers who opened the session that an answer names."""

        async def send_noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                session = header(message.get("headers", ()), b"mcp-session-id")
                if session is not None and session not in self._owners:
                    self._owners[session] = caller.caller_id
                    if len(self._owners) > _SESSIONS:
                        del self._owners[next(iter(self._owners))]
            await send(message)

        return send_noting

    @contextlib.contextmanager
    def _stream_of(
        self, scope: Scope, shown: PresentedCredentials, message: Json | None = None
    ) -> Generator[None]:
        """Have a request that stays open ended when its caller may not be here any more."""
        stays = message is None or message.get("method") == "subscriptions/listen"
        task = asyncio.current_task()
        is_nobody = scope[_CALLER].identity is ANONYMOUS
        if not stays or is_nobody or not self._gateway.admission.required or task is None:
            yield
            return
        self._streams[task] = (shown, scope[_CALLER].caller_id)
        if self._looking is None:
            loop = asyncio.get_running_loop()
            self._looking = loop.call_later(_LOOK_S, self._look_soon)
        try:
            yield
        finally:
            del self._streams[task]

    def _look_soon(self) -> None:
        """Look at open streams now, and again after a while as long as there are any."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        if self._streams:
            self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        for task, (shown, caller_id) in list(self._streams.items()):
            try:
                caller = await self._gateway.admission.admit(shown)
            except AccessError:
                caller = None
            if task in self._streams and (caller is None or caller.caller_id != caller_id):
                self._revoked.add(task)
                task.cancel()
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(_LOOK_S, self._look_soon) if self._streams else None

    def _metadata(self, scope: Scope) -> Json | None:
        """How clients log in here (RFC 9728)."""
        issuers = self._gateway.admission.issuers
        return resource_metadata(scope, self._authn.resource, issuers)

    async def _to_sdk(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._has_sdk.wait()
        assert self._sdk is not None
        if self._gateway.admission.required:
            send = self._noting_session(send, scope[_CALLER])
        session = header(scope["headers"], b"mcp-session-id")
        if session is not None:
            send = await self._sessions.enter(session, scope, send, self._sdk)
        elif _OPENING in scope:
            send = self._sessions.assign_name(send, scope.pop(_OPENING), scope[_CALLER].caller_id)
        await self._sdk(scope, receive, fill_placeholder(send, scope))

    def _is_relay(self, headers: list[tuple[bytes, bytes]]) -> bool:
        if not self.key:
            return False
        shown = header(headers, b"authorization") or ""
        return hmac.compare_digest(shown.encode(), f"Bearer {self.key}".encode())

    @contextlib.contextmanager
    def _counted(self) -> Generator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            yield
        finally:
            self._running.discard(task)
            if not self._running:
                self._idle.set()

    async def _load(self) -> None:
        """Import the SDK beside the first requests and keep its sessions until the end."""
        module = await load("toolgate.server.mcp.front")
        self._front = front = cast("McpServer", module.McpServer(self._gateway))
        manager = front.http(max_body_bytes=self._settings.max_body_bytes)
        async with manager.run():
            self._sdk = manager.handle_request
            self._has_sdk.set()
            await self._stop.wait()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Run under any ASGI server."""
        await receive()
        async with self.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""What every answer says to browsers, unless it is a page and says so itself."""

_NO_STORE = (b"cache-control", b"no-store")


def _guarded(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    found = [*headers]
    said = {name for name, _ in found}
    found += [pair for pair in _SECURITY if pair[0] not in said]
    if all(name != b"cache-control" for name, _ in found):
        found.append(_NO_STORE)
    return found


def _readable(send: Send, page: bytes) -> Send:
    """A `send` whose answers the browser shows to a page of another origin."""
    for name, value in (
        (b"access-control-allow-origin", page),
        (b"access-control-expose-headers", b"Mcp-Session-Id, X-Request-Id"),
        (b"vary", b"Origin"),
    ):
        send = with_header(send, name, value)
    return send


def _place_of(path: str) -> str:
    """A path as metrics and spans may name it: without names in it."""
    parts = path.split("/")
    return "/".join(parts[:3]) if path.startswith("/api/") else f"/{parts[1]}"[:40]


def _log_request(scope: Scope, response: _Response, took_s: float) -> None:
    """One line about a request that was answered: nothing of what it asked."""
    caller = CALLER.get()
    log.info(
        "request",
        extra={
            "method": scope["method"],
            "path": scope["path"][:200],
            "status": response.status,
            "duration_ms": round(took_s * 1000, 1),
            "response_bytes": response.sent_bytes,
            "caller": caller.caller_id if caller is not None else None,
        },
    )


async def _say(send: Send, status: int, text: str) -> None:
    """Answer somebody who looks with a browser."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


async def _redirect(send: Send, place: str) -> None:
    headers = [(b"location", place.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _preflight(scope: Scope, send: Send, page: bytes) -> None:
    """Tell a browser that a page may send what it is about to send (CORS)."""
    asked = header(scope["headers"], b"access-control-request-headers") or "content-type"
    headers = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", asked.encode("latin-1")),
        (b"access-control-max-age", b"600"),
    ]
    send = _readable(send, page)
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _opens(message: Json | None, error: AccessError) -> bool:
    """Whether a relay may pass it on before its client has shown a token.

    Clients that show one in `_meta` of each request do so from the first that asks for something.
    """
    if not isinstance(error, CredentialError) or error.was_presented:
        return False
    return message is None or message.get("method") in {"initialize", "ping"}


class _Response:
    """A `send` that knows what was sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False
        """Whether it is too late for another status."""
        self.status = 0
        """Of the answer; 0 while there is none."""
        self.is_stream = False
        """Whether it is a stream of events."""
        self.is_within_event = False
        """Whether the last event was not sent to its end."""
        self.sent_bytes = 0
        """Size of the body so far."""
        self.is_whole = False
        """Whether all of the answer was sent."""

    async def __call__(self, message: Message) -> None:
        """Send (ASGI)."""
        self.has_begun = True
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": _guarded(message.get("headers", ()))}
            kind = header(message.get("headers", ()), b"content-type") or ""
            self.is_stream = kind.startswith("text/event-stream")
        elif body := message.get("body"):
            self.is_within_event = not body.endswith(b"\n")
            self.sent_bytes += len(body)
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_whole = True


class _Server(uvicorn.Server):
    """Uvicorn without its own handling of signals; `main_loop` and `shutdown` follow `open`."""

    async def open(self, sockets: list[socket.socket]) -> None:
        """Listen."""
        if not self.config.loaded:
            self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets=sockets)


class _Stopper:
    """Turns signals into an orderly end."""

    def __init__(
        self,
        door: Door,
        server: _Server,
        *,
        drain_s: float,
        on_reload: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._door = door
        self._server = server
        self._drain_s = drain_s
        self._on_reload = on_reload
        self._asked = 0

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Act on signals until cancelled."""
        wanted = [signal.SIGTERM, signal.SIGINT]
        if sys.platform != "win32":
            wanted.append(signal.SIGHUP)
        async with anyio.create_task_group() as tasks:
            with received(*wanted) as signals:
                task_status.started()
                while True:
                    number = await signals.get()
                    if sys.platform != "win32" and number == signal.SIGHUP:
                        tasks.start_soon(self._reload)
                        continue
                    self._asked += 1
                    if self._asked == 1:
                        tasks.start_soon(self._stop)
                    else:
                        log.warning("ending at once")
                        self._door.end()
                        self._server.should_exit = True

    async def _stop(self) -> None:
        log.info("shutting down", extra={"drain_s": self._drain_s})
        if not await self._door.drain(self._drain_s):
            log.warning("calls were still running")
        self._door.end()
        self._server.should_exit = True

    async def _reload(self) -> None:
        if self._on_reload is None:
            return
        try:
            await self._on_reload()
        except Exception:
            log.exception("reload failed; the old settings stay")


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens; raises `PortTakenError` where that is impossible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, or asyncio does not switch Nagle's delay off for what it accepts.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise _no_listener(host, port, error) from error
    listener.setblocking(False)
    return listener


def _no_listener(host: str, port: int, error: OSError) -> PortTakenError:
    if error.errno == errno.EADDRINUSE:
        return PortTakenError(
            f"Port {port} on {host} is taken by another program.",
            hint="Stop it, or choose another port with --port or serve.port; 0 takes a free one.",
        )
    return PortTakenError(
        f"Cannot listen on {host}, port {port}: {error.strerror or error}.",
        hint="Set serve.host and serve.port, or --host and --port, to an address of this machine"
        " and a port that you may use.",
    )


def check_certificate(tls: TlsSettings) -> None:
    """Try the certificate before anything listens.

    Raises:
        SettingError: It cannot be used.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.cert, tls.key or None)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise SettingError(
            f"tls.cert {tls.cert!r} cannot be used:"
            f" {getattr(error, 'strerror', None) or getattr(error, 'reason', None) or error}.",
            allowed="Expected: a certificate and its key, both in PEM form.",
            hint="Correct tls.cert and tls.key.",
        ) from error


def _address(host: str, listener: socket.socket, *, is_safe: bool = False) -> str:
    port = listener.getsockname()[1]
    scheme = "https" if is_safe else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
