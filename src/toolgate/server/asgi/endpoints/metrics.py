"""`/metrics` for Prometheus, with access control unless the settings open it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

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


class OtherWorkers(Protocol):
    """The other gateways on the same port; a scrape may reach any of them."""

    @property
    def number(self) -> int:
        """Number of this worker, starting at 1."""
        ...

    def offer_metrics(self, give: Callable[[], Awaitable[str]]) -> None:
        """Make the metrics of this worker available to the others."""
        ...

    async def metrics(self) -> Mapping[int, str]:
        """Return the other workers' metrics by worker number, without those that time out."""
        ...


class MetricsEndpoint:
    """Responds to scrapes."""

    def __init__(self, app: App, host_check: HostCheck, others: OtherWorkers | None = None) -> None:
        self._app = app
        self._host_check = host_check
        self._others = others
        self._metrics: Metrics | None = None

    def use(self, metrics: Metrics | None) -> None:
        """Export these metrics from now on; None: no metrics are collected."""
        self._metrics = metrics
        if self._others is not None and metrics is not None:
            self._others.offer_metrics(self._own_text)

    async def __call__(self, scope: Scope, send: Send) -> None:
        """Respond with all metrics; with several workers they have the label `worker`."""
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
        assert self._metrics is not None
        content_type = self._metrics.collector.content_type
        if self._others is None:
            body = (await self._own_text()).encode()
        else:
            texts = {**await self._others.metrics(), self._others.number: await self._own_text()}
            prometheus: Any = import_module("toolgate.telemetry.prometheus_format")
            body = prometheus.join_workers(texts).encode()
        headers = [(b"content-type", content_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _own_text(self) -> str:
        assert self._metrics is not None
        _, body = await self._metrics.text()
        return body.decode()
