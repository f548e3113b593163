"""The REST API, `/api/v1`: discovery and execution for programs, servers for operators.

Tools have the same keys as everywhere (`toolKey`, `serverName`); all other keys are in snake
case with units. Errors are `{"error": {code, message, hint, retryable, request_id}}`.
"""

from typing import cast

from toolgate.app.app import App
from toolgate.base.lazy_loading import load
from toolgate.server.asgi.authentication import CALLER, presented_credentials
from toolgate.server.asgi.errors import send_failure
from toolgate.server.asgi.parsing.headers import header
from toolgate.server.asgi.parsing.messages import App as AsgiApp
from toolgate.server.asgi.parsing.messages import Receive, Scope, Send


class RestApi:
    """Handles requests below `/api/v1/`; imports its routes on the first request."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._router: AsgiApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI); `Host` and `Origin` were checked before."""
        try:
            client = (header(scope, b"user-agent") or "")[:100]
            credentials = presented_credentials(scope, {}, client=client)
            CALLER.set(await self._app.gateway.admission.admit(credentials))
            await self.route(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the one place that answers for all of them
            await send_failure(error, self._app, scope, receive, send)

    async def route(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request of an authenticated caller.

        Raises:
            HttpError: The path does not exist, or does not allow the method.
            ToolgateError: The operation failed.
        """
        if self._router is None:
            module = await load("toolgate.server.rest.router")
            self._router = cast("AsgiApp", module.RestRouter(self._app))
        await self._router(scope, receive, send)
