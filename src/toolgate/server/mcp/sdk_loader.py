"""Imports the MCP SDK when a request needs it.

Clients of protocol 2026-07-28 usually need none of it, and those of earlier versions need it for
streams of notifications and what is not a tool. It takes a second and 16 MB (mcp 2.3.0).
"""

from typing import TYPE_CHECKING, cast

import anyio

from toolgate.base.lazy_loading import load
from toolgate.gateway.gateway import Gateway
from toolgate.server.asgi.parsing.messages import App, Receive, Scope, Send

if TYPE_CHECKING:
    from toolgate.server.mcp.front import McpServer


class SdkLoader:
    """The SDK's ASGI application; its first requests wait until it is imported."""

    def __init__(self, gateway: Gateway, *, max_body_bytes: int) -> None:
        self._gateway = gateway
        self._max_body_bytes = max_body_bytes
        self._server: McpServer | None = None
        self._app: App | None = None
        self._is_needed = anyio.Event()
        self._is_loaded = anyio.Event()
        self._stop = anyio.Event()

    @property
    def is_loaded(self) -> bool:
        """Whether the import is done."""
        return self._is_loaded.is_set()

    async def run(self) -> None:
        """Import the SDK at the first request, and run its sessions until `stop`."""
        await self._is_needed.wait()
        module = await load("toolgate.server.mcp.front")
        self._server = server = cast("McpServer", module.McpServer(self._gateway))
        manager = server.http(max_body_bytes=self._max_body_bytes)
        async with manager.run():
            self._app = manager.handle_request
            self._is_loaded.set()
            await self._stop.wait()

    def stop(self) -> None:
        """End all sessions."""
        self._stop.set()

    def end_streams(self) -> None:
        """End the open listening streams; clients connect again elsewhere."""
        if self._server is not None:
            self._server.end_streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        self._is_needed.set()
        await self._is_loaded.wait()
        assert self._app is not None
        await self._app(scope, receive, send)
