"""`/metrics` for Prometheus, with access control unless the settings open it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgate.app.app import App
from toolgate.errors import AccessError
from toolgate.server.asgi.authentication import (
    CALLER,
    challenge_headers,
    presented_credentials,
    refusal_status,
)
from toolgate.server.asgi.host_check import HostCheck
from toolgate.server.asgi.parsing.messages import Scope, Send, send_json
from toolgate.server.asgi.response import send_text

if TYPE_CHECKING:
    from toolgate.telemetry import Metrics

__all__ = ["MetricsEndpoint"]


class MetricsEndpoint:
    """Answers a scrape."""

    def __init__(self, app: App, host_check: HostCheck) -> None:
        self._app = app
        self._host_check = host_check

    async def __call__(self, metrics: Metrics, scope: Scope, send: Send) -> None:
        """Answer with all metrics."""
        refusal = self._host_check.check(scope)
        if refusal is not None:
            await send_text(send, refusal.status, refusal.message)
            return
        if not self._app.settings.metrics.open:
            try:
                caller = await self._app.gateway.admission.admit(presented_credentials(scope, {}))
                CALLER.set(caller)
                self._app.gateway.visible.must_manage(caller)
            except AccessError as error:
                headers = challenge_headers(error, scope, self._app.settings.authn.resource)
                body = {"error": {"code": error.code, "message": str(error)}}
                await send_json(send, refusal_status(error), body, headers=headers)
                return
        content_type, body = await metrics.text()
        headers = [(b"content-type", content_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
