"""The ASGI application: `/mcp` for MCP clients, `/api/v1` for programs, `/console` for browsers.

A request passes, in this order: forwarded headers, `RequestContext` (id, trace, log, failures),
`Cors` if it comes from a web page, the check for other local users, and then the endpoint of its
path. Each endpoint checks the host, refuses new work while the gateway drains, and authenticates
its callers.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from toolgate.app.readiness import unready_reason
from toolgate.errors import CredentialError
from toolgate.server.asgi.api_gate import ApiGate
from toolgate.server.asgi.authentication import METADATA_PATH, path_project, presented_credentials
from toolgate.server.asgi.cors import Cors
from toolgate.server.asgi.endpoints.console import ConsoleEndpoint
from toolgate.server.asgi.endpoints.metrics import MetricsEndpoint, OtherWorkers
from toolgate.server.asgi.errors import send_error
from toolgate.server.asgi.forwarded_headers import ForwardedHeaders
from toolgate.server.asgi.host_check import HostCheck
from toolgate.server.asgi.local_users import LocalKey, LocalUsers
from toolgate.server.asgi.memory_release import MemoryRelease
from toolgate.server.asgi.open_streams import OpenStreams
from toolgate.server.asgi.parsing.headers import HEADERS, header
from toolgate.server.asgi.parsing.messages import App as AsgiApp
from toolgate.server.asgi.parsing.messages import (
    Receive,
    Scope,
    Send,
    discard_body,
    send_json,
)
from toolgate.server.asgi.request_context import RequestContext
from toolgate.server.asgi.response import send_empty, send_redirect, send_text
from toolgate.server.asgi.running_requests import RunningRequests
from toolgate.server.asgi.telemetry import record_telemetry
from toolgate.server.mcp.endpoint import McpEndpoint
from toolgate.server.mcp.sdk_loader import SdkLoader
from toolgate.server.openai.chat import ChatApi
from toolgate.server.rest.api import RestApi
from toolgate.server.rest.catalog_search import CatalogSearch
from toolgate.server.rest.login_pages import LoginPages

if TYPE_CHECKING:
    from toolgate.app.app import App
    from toolgate.telemetry import Metrics


class HttpApplication:
    """Sends each request to its endpoint."""

    def __init__(
        self, app: App, *, host: str, key: str = "", others: OtherWorkers | None = None
    ) -> None:
        """Build the chain of handlers.

        Args:
            app: The opened gateway.
            host: Address the gateway listens on, to check `Host` against.
            key: Key that relays of the same user present; empty: there can be no relays.
            others: The other workers on the same port, whose metrics are included.
        """
        settings = app.settings.serve
        self._app = app
        self._admission = app.gateway.admission
        host_check = HostCheck(
            host=host, hosts=settings.allowed_hosts, origins=settings.allowed_origins
        )
        self._forwarded = ForwardedHeaders(settings.trusted_proxies, settings.root_path)
        self._is_proxied = self._forwarded.is_configured
        self._local_key = LocalKey("")
        self.use_local_key(key)
        self._local_users = LocalUsers(app, self._local_key)
        self._requests = RunningRequests(
            lambda: app.loop_monitor.lag_s, max_lag_s=settings.max_lag_s
        )
        self._streams = OpenStreams(self._admission)
        self._memory = MemoryRelease()
        self._sdk = SdkLoader(app.gateway, max_body_bytes=settings.max_body_bytes)
        self._mcp = McpEndpoint(
            app,
            host_check=host_check,
            local_key=self._local_key,
            requests=self._requests,
            streams=self._streams,
            sdk=self._sdk,
        )
        self._catalog_search = CatalogSearch(app)
        self._host_check = host_check
        self._rest = ApiGate(RestApi(app), host_check, self._requests)
        self._logins = ApiGate(LoginPages(app.logins, self._admission), host_check, self._requests)
        self._chat = ApiGate(ChatApi(app), host_check, self._requests)
        self._search = ApiGate(self._catalog_search, host_check, self._requests)
        self._console = ConsoleEndpoint(app, host_check, self._requests)
        self._metrics_endpoint = MetricsEndpoint(app, host_check, others)
        self._metrics: Metrics | None = None
        self._handler = self._in_context(self._route)
        self._handler_of_pages = self._in_context(Cors(self._route, host_check))

    def _in_context(self, app: AsgiApp) -> RequestContext:
        return RequestContext(
            app,
            requests=self._requests,
            streams=self._streams,
            memory=self._memory,
            logs_requests=self._app.settings.log.names_requests,
        )

    def use_local_key(self, key: str) -> None:
        """Recognize relays and commands of the same user by this key."""
        self._local_key.replace(key)
        self._admission.local_key = key

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the background tasks of the gateway; required while requests are served."""
        telemetry = record_telemetry(self._app, requests=self._requests)
        monitor = self._app.loop_monitor.watching(lambda: len(self._requests) > 0)
        async with telemetry as self._metrics, anyio.create_task_group() as tasks:
            self._metrics_endpoint.use(self._metrics)
            tasks.start_soon(self._sdk.run)
            forget = self._app.gateway.changes.on_access_change(self._streams.check_soon)
            try:
                with monitor:
                    yield
            finally:
                forget()
                self._streams.stop_checking()
                self._mcp.sessions.close()
                self._sdk.stop()
                if not self._sdk.is_loaded:
                    tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await self._catalog_search.aclose()

    def is_trusted_proxy(self, address: str) -> bool:
        """Whether an address is a configured reverse proxy, which many clients share."""
        return self._forwarded.is_trusted(address)

    async def drain(self, within_s: float) -> bool:
        """Refuse new calls and wait for running ones; False if some are still running."""
        self._requests.begin_draining()
        self.end_streams()
        return await self._requests.wait_until_idle(within_s)

    def end_streams(self) -> None:
        """End the streams that clients keep open without a call."""
        self._sdk.end_streams()
        self._console.end_streams()

    async def wait_until_idle(self) -> None:
        """Wait until no request is running, however long that takes."""
        await self._requests.wait_until_idle(math.inf)

    def end(self) -> None:
        """Cancel running requests, with a response that says so, and end all sessions."""
        self._memory.cancel()
        self._sdk.stop()
        self._requests.cancel_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._requests.wait_to_start()
            if self._is_proxied:
                scope = self._forwarded.apply(scope)
            headers = scope[HEADERS] = dict(scope["headers"])
            handler = self._handler_of_pages if b"origin" in headers else self._handler
            await handler(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._local_users.allows_others and (
            error := await self._local_users.refusal(scope)
        ):
            self._admission.note_refusal(error, presented_credentials(scope, {}))
            await self._refuse(scope, receive, send, error)
            return
        path: str = scope["path"]
        if path_project(path) is not None:
            await self._mcp(scope, receive, send)
            return
        if path == "*":  # about the server itself (RFC 9110 section 9.3.7)
            await send_empty(send, 204, ((b"allow", b"GET, POST, DELETE, OPTIONS"),))
        elif path == "/healthz":
            await send_json(send, 200, {"status": "ok"})
        elif path == "/readyz":
            await self._answer_readiness(send)
        elif path.startswith(METADATA_PATH) and (metadata := self._mcp.metadata(scope)):
            # The response repeats the host, which a page using DNS rebinding must not choose.
            refusal = self._host_check.check(scope)
            if refusal is None:
                await send_json(send, 200, metadata)
            else:
                await send_text(send, refusal.status, refusal.message)
        elif api := self._api_of(path):
            await api(scope, receive, send)
        elif path == "/metrics" and self._metrics is not None:
            await self._metrics_endpoint(scope, send)
        elif path == "/" and "text/html" in (header(scope, b"accept") or ""):
            await send_redirect(send, f"{scope.get('root_path', '')}/console")
        else:
            message = (
                f"There is nothing at {path[:100]!r}; MCP clients use /mcp, OpenAI clients /v1."
            )
            await send_json(send, 404, {"error": {"code": "not_found", "message": message}})

    async def _answer_readiness(self, send: Send) -> None:
        reason = "Shutting down." if self._requests.is_draining else unready_reason(self._app)
        if reason:
            await send_json(send, 503, {"ready": False, "reason": reason})
        else:
            await send_json(send, 200, {"ready": True})

    def _api_of(self, path: str) -> Callable[[Scope, Receive, Send], Awaitable[None]] | None:
        if path.startswith("/api/v1/"):
            return self._rest
        if path.startswith("/oauth/"):
            return self._logins
        if path.startswith("/v1/"):
            return self._chat
        if path == "/catalog/search":
            return self._search
        return self._console if _is_console(path) else None

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, error: CredentialError
    ) -> None:
        """Refuse another user of this machine, in the format of the requested endpoint."""
        send = discard_body(send, scope, receive)
        if path_project(scope["path"]) is not None:
            await self._mcp.refuse(scope, send, error)
        elif _is_console(scope["path"]):
            await self._console.refuse(scope, receive, send, error)
        else:
            await send_error(send, 401, error.code, error.failed, hint=error.hint)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Handle ASGI lifespan events, so that any ASGI server can run the gateway."""
        await receive()
        async with self.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _is_console(path: str) -> bool:
    return path == "/console" or path.startswith("/console/")
