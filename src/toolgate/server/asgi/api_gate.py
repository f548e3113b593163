"""The checks before REST, chat and search: host check, refusal while draining, request count."""

from toolgate.server.asgi.errors import send_error
from toolgate.server.asgi.host_check import HostCheck
from toolgate.server.asgi.parsing.messages import App, Receive, Scope, Send, with_header
from toolgate.server.asgi.running_requests import OVERLOADED, SHUTTING_DOWN, RunningRequests


class ApiGate:
    """Passes a request on to an API, or refuses it."""

    def __init__(self, app: App, host_check: HostCheck, requests: RunningRequests) -> None:
        self._app = app
        self._host_check = host_check
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        refusal = self._host_check.check(scope)
        if refusal is not None:
            await send_error(send, refusal.status, "forbidden", refusal.message)
        elif self._requests.is_draining:
            await send_error(send, 503, "shutting_down", SHUTTING_DOWN, retryable=True)
        elif wait_s := self._requests.refusal_wait_s(caller := _address(scope)):
            send = with_header(send, b"retry-after", b"%d" % wait_s)
            await send_error(send, 503, "overloaded", OVERLOADED, retryable=True)
        else:
            with self._requests.counted(caller):
                await self._app(scope, receive, send)


def _address(scope: Scope) -> str:
    """Return the client address, which stands for the caller before authentication."""
    client = scope.get("client")
    return str(client[0]) if client else ""
