"""Records metrics and traces of requests, as configured."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from toolgate.app.app import App
    from toolgate.server.asgi.running_requests import RunningRequests
    from toolgate.telemetry import Metrics


@asynccontextmanager
async def record_telemetry(
    app: App, *, requests: RunningRequests | None = None, is_scraped: bool = True
) -> AsyncGenerator[Metrics | None]:
    """Record metrics and traces in this context; yields the metrics, None if disabled.

    Args:
        app: The gateway.
        requests: The running requests.
        is_scraped: Whether metrics can be scraped; otherwise they are recorded only if they are
            sent to an endpoint.
    """
    settings = app.settings
    async with AsyncExitStack() as stack:
        metrics = tracer = None
        if settings.traces.endpoint:
            traces: Any = import_module("toolgate.telemetry.traces")
            tracer = traces.Tracer(settings.traces)
            await stack.enter_async_context(tracer.recording())
        if settings.metrics.enabled and (is_scraped or settings.metrics.endpoint):
            telemetry: Any = import_module("toolgate.telemetry")
            metrics = telemetry.Metrics(app, requests=requests, tracer=tracer)
            stack.enter_context(metrics.counting())
            if settings.metrics.endpoint:
                otlp = telemetry.load_otel_module("otlp_metrics", "metrics.endpoint")
                stack.enter_context(otlp.sending(settings.metrics, metrics))
                tasks = await stack.enter_async_context(anyio.create_task_group())
                stop = anyio.Event()
                tasks.start_soon(metrics.keep_fresh, settings.metrics.every_s, stop)
                stack.callback(stop.set)
        yield metrics
