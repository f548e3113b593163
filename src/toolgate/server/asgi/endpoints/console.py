"""The web console, imported on the first browser request."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread

from toolgate.app.app import App
from toolgate.errors import CredentialError
from toolgate.server.asgi.authentication import CALLER
from toolgate.server.asgi.host_check import HostCheck
from toolgate.server.asgi.parsing.messages import Receive, Scope, Send
from toolgate.server.asgi.response import send_text
from toolgate.server.asgi.running_requests import SHUTTING_DOWN, RunningRequests

if TYPE_CHECKING:
    from toolgate.console import Console


class ConsoleEndpoint:
    """Serves `/console` and the paths below it."""

    def __init__(self, app: App, host_check: HostCheck, requests: RunningRequests) -> None:
        self._app = app
        self._host_check = host_check
        self._requests = requests
        self._console: Console | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        refusal = self._host_check.check(scope)
        if refusal is not None:
            await send_text(send, refusal.status, refusal.message)
            return
        if self._requests.is_draining:
            await send_text(send, 503, SHUTTING_DOWN)
            return
        console = await self._loaded()
        if scope["path"] == "/console/events":  # open as long as the page: shutdown ends it first
            await console(scope, receive, send)
            return
        with self._requests.counted():
            await console(scope, receive, send)

    async def refuse(
        self, scope: Scope, receive: Receive, send: Send, error: CredentialError
    ) -> None:
        """Respond with a page that says why a request is refused."""
        console = await self._loaded()
        await console.turn_away(scope, receive, send, error)

    def end_streams(self) -> None:
        """End the event streams of open pages."""
        if self._console is not None:
            self._console.end_streams()

    async def _loaded(self) -> Console:
        if self._console is None:
            module: Any = await anyio.to_thread.run_sync(import_module, "toolgate.console")
            console = cast("Console", module.Console(self._app, tell=CALLER.set))
            self._console = self._console or console
        return self._console
