"""Exports the metrics over OTLP/HTTP. Needs the extra `otel`."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

import toolgate
from toolgate.settings import MetricSettings, service_attributes
from toolgate.telemetry.metric_names import METRICS
from toolgate.telemetry.metrics import Metrics


@contextmanager
def sending(
    settings: MetricSettings, metrics: Metrics, *, reader: MetricReader | None = None
) -> Generator[None]:
    """Send the metrics periodically while the block runs, under the names of `/metrics`.

    Only the sum and the count of histograms are sent; quantiles need `/metrics`.
    """
    reader = reader or PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint=settings.endpoint),
        export_interval_millis=settings.every_s * 1000,
    )
    provider = MeterProvider(
        [reader],
        resource=Resource.create({**service_attributes(), "service.version": toolgate.__version__}),
    )
    meter = provider.get_meter("toolgate", toolgate.__version__)
    for metric in METRICS.values():
        match metric.kind:
            case "gauge":
                meter.create_observable_gauge(
                    metric.name, [_reading(metrics, metric.name)], description=metric.description
                )
            case "counter":
                name = f"{metric.name}_total"
                meter.create_observable_counter(
                    metric.name, [_reading(metrics, name)], description=metric.description
                )
            case "histogram":
                for part in ("sum", "count"):
                    name = f"{metric.name}_{part}"
                    meter.create_observable_counter(
                        name, [_reading(metrics, name)], description=metric.description
                    )
    try:
        yield
    finally:
        provider.shutdown()


def _reading(metrics: Metrics, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return partial(_read, metrics, name)


def _read(metrics: Metrics, name: str, _: CallbackOptions) -> Iterable[Observation]:
    for family in metrics.collector.registry.restricted_registry([name]).collect():
        for sample in family.samples:
            if sample.name == name:
                yield Observation(sample.value, dict(sample.labels))
