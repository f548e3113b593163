"""The metrics in Prometheus' text format."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import prometheus_client
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

import toolgate
from toolgate.telemetry.metric_names import BUCKETS, METRICS
from toolgate.telemetry.metrics import (
    MANAGER,
    OTHER,
    SUCCESS_STATUSES,
    LabelledCounts,
    LabelledHistogram,
    Labels,
    Metrics,
)
from toolgate.types import json_array, json_object

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?( .*)", re.ASCII)
"""A sample in the text format: name, labels if any, and value."""


def join_workers(texts: Mapping[int, str]) -> str:
    """Merge the metrics of several workers into one text, with the label `worker` on each sample.

    Args:
        texts: Metrics in Prometheus' text format by the number of the worker.
    """
    families: dict[str, list[str]] = {}
    for number, text in sorted(texts.items()):
        samples: list[str] = []
        is_new = False
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
                is_new = name not in families
                samples = families.setdefault(name, [])
            if not line.startswith("#") and (sample := _SAMPLE.fullmatch(line)):
                labels = f'{sample[2]},worker="{number}"' if sample[2] else f'worker="{number}"'
                samples.append(f"{sample[1]}{{{labels}}}{sample[3]}")
            elif is_new:
                samples.append(line)
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


class PrometheusCollector(Collector):
    """The metrics of one gateway as a collector of the Prometheus library."""

    content_type = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
    """Content type of the response."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.registry = CollectorRegistry()
        """Also includes the library's metrics of the process."""
        self.registry.register(self)
        prometheus_client.ProcessCollector(registry=self.registry)

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return prometheus_client.generate_latest(self.registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering the collector does not call `collect`."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics for the library."""
        yield self._gauge("toolgate_info", {(toolgate.__version__,): 1})
        yield from self._of_requests()
        yield self._histogram("toolgate_stage_duration_seconds", self._metrics.stages)
        yield self._counter("toolgate_stage_failures", self._metrics.failures.values)
        yield self._counter("toolgate_search_fallbacks", {(): self._metrics.fallbacks})
        yield self._counter("toolgate_search_empty", {(): self._metrics.empty})
        yield self._counter("toolgate_discovery_tokens", {(): self._metrics.tokens})
        yield from self._of_servers()
        yield from self._of_audit()
        yield from self._of_index()
        yield self._gauge("toolgate_approvals_waiting", {(): self._metrics.waiting})
        queued: dict[Labels, float] = {
            (kind,): number for kind, number in self._metrics.queued.items()
        }
        yield self._gauge("toolgate_store_waiting", queued)
        yield self._gauge("toolgate_store_up", {(): float(self._metrics.is_store_up)})
        tracer = self._metrics.tracer
        sent, dropped = (tracer.sent, tracer.dropped) if tracer is not None else (0, 0)
        yield self._counter("toolgate_spans_sent", {(): sent})
        yield self._counter("toolgate_spans_dropped", {(): dropped})
        yield from self._of_load()

    def _of_load(self) -> Iterator[Metric]:
        requests, monitor = self._metrics.requests, self._metrics.app.loop_monitor
        worst = monitor.worst
        yield self._gauge("toolgate_running", {(): len(requests) if requests else 0})
        refusals = requests.refusals if requests is not None else 0
        yield self._counter("toolgate_overload_refusals", {(): refusals})
        yield self._counter("toolgate_event_loop_stalls", {(): monitor.stalls})
        yield self._gauge("toolgate_event_loop_lag_seconds", {(): monitor.lag_s})
        seconds = worst.seconds if worst is not None else 0.0
        yield self._gauge("toolgate_event_loop_worst_stall_seconds", {(): seconds})

    def _of_requests(self) -> Iterator[Metric]:
        requests, calls, refusals, size = (
            LabelledCounts(),
            LabelledCounts(),
            LabelledCounts(),
            LabelledCounts(),
        )
        durations = LabelledHistogram()
        for (action, status, server), cell in self._metrics.cells.items():
            requests.add((action, status), cell.requests)
            durations.merge(action, cell.buckets, cell.seconds)
            if action == "call" and server is not None:
                calls.add((server, status), cell.requests)
                if cell.response_bytes:
                    size.add((server,), cell.response_bytes)
            elif server is None and (action == "call" or status not in SUCCESS_STATUSES):
                refusals.add((status,), cell.requests)
        yield self._counter("toolgate_requests", requests.values)
        yield self._histogram("toolgate_request_duration_seconds", durations)
        yield self._counter("toolgate_calls", calls.values)
        yield self._counter("toolgate_refusals", refusals.values)
        reasons = self._metrics.app.gateway.admission.refusals
        logins: dict[Labels, float] = {
            (reason,): reasons[reason] for reason in ("no_token", "wrong_token", "wrong_project")
        }
        yield self._counter("toolgate_login_refusals", logins)
        yield self._counter("toolgate_result_bytes", size.values)

    def _of_servers(self) -> Iterator[Metric]:
        servers = self._metrics.app.gateway.servers.statuses(MANAGER)
        states: dict[Labels, float] = {
            (state,): 0
            for state in ("ready", "degraded", "asleep", "connecting", "down", "disabled")
        }
        up, restarts = LabelledCounts(), LabelledCounts()
        oldest = datetime.now(UTC)
        for server in servers:
            states[server.state,] += 1
            name = self._metrics.servers.bounded(server.name)
            restarts.add((name,), server.restarts)
            if server.state != "disabled" and name != OTHER:
                up.add((name,), server.state in {"ready", "degraded", "asleep"})
            if server.state in {"ready", "degraded"} and server.listed_at:
                oldest = min(oldest, datetime.fromisoformat(server.listed_at))
        age = (datetime.now(UTC) - oldest).total_seconds()
        yield self._gauge("toolgate_servers", states)
        yield self._gauge("toolgate_server_up", up.values)
        yield self._counter("toolgate_server_restarts", restarts.values)
        yield self._gauge("toolgate_tools", {(): sum(server.tools for server in servers)})
        yield self._gauge("toolgate_definitions_held", {(): self._metrics.quarantined})
        yield self._gauge("toolgate_catalog_age_seconds", {(): age})
        yield self._gauge(
            "toolgate_tool_definition_tokens", {(): self._metrics.app.gateway.listing.total_tokens}
        )

    def _of_audit(self) -> Iterator[Metric]:
        status = self._metrics.app.recorder.status()
        yield self._gauge("toolgate_audit_pending", {(): status.pending})
        yield self._counter("toolgate_audit_written", {(): status.written})
        yield self._counter("toolgate_audit_dropped", {(): status.dropped})
        failing = status.failing_since is not None
        yield self._gauge("toolgate_audit_failing", {(): float(failing)})

    def _of_index(self) -> Iterator[Metric]:
        vectors, backlog, loaded = LabelledCounts(), LabelledCounts(), LabelledCounts()
        texts, seconds, failures = LabelledCounts(), LabelledCounts(), LabelledCounts()
        hits, misses = LabelledCounts(), LabelledCounts()
        for status in map(json_object, json_array(self._metrics.index.get("searches"))):
            search = str(status.get("search"))
            vectors.add((search,), status.get("vectors", 0))
            backlog.add((search,), status.get("backlog", 0))
            counted = json_object(status.get("counted"))
            loaded.add((search,), counted.get("vectors_loaded", 0))
            for cache, requests_key, hits_key in (
                ("answers", "searches", "answers_kept"),
                ("vectors", "vectors_asked", "vectors_remembered"),
            ):
                hit = counted.get(hits_key, 0)
                hits.add((search, cache), hit)
                misses.add((search, cache), counted.get(requests_key, 0) - hit)
            for kind, work in json_object(counted.get("embedding")).items():
                texts.add((search, kind), work["texts"])
                seconds.add((search, kind), work["total_s"])
                failures.add((search, kind), work["failures"])
        alone = {
            (str(service["search"]),): float(service["is_left_alone"])
            for service in map(json_object, json_array(self._metrics.index.get("services")))
        }
        yield self._gauge("toolgate_search_circuit_open", alone)
        yield self._gauge("toolgate_vectors", vectors.values)
        yield self._gauge("toolgate_embedding_backlog", backlog.values)
        yield self._counter("toolgate_vectors_loaded", loaded.values)
        yield self._counter("toolgate_search_cache_hits", hits.values)
        yield self._counter("toolgate_search_cache_misses", misses.values)
        yield self._counter("toolgate_embedded_texts", texts.values)
        yield self._counter("toolgate_embedding_seconds", seconds.values)
        yield self._counter("toolgate_embedding_failures", failures.values)

    def _counter(self, name: str, values: dict[Labels, float]) -> Metric:
        metric = METRICS[name]
        family = CounterMetricFamily(name, metric.description, labels=metric.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        return family

    def _gauge(self, name: str, values: dict[Labels, float]) -> Metric:
        metric = METRICS[name]
        family = GaugeMetricFamily(name, metric.description, labels=metric.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        return family

    def _histogram(self, name: str, times: LabelledHistogram) -> Metric:
        metric = METRICS[name]
        family = HistogramMetricFamily(name, metric.description, labels=metric.labels)
        for label, (*counts, total) in times.by_label.items():
            below, buckets = 0.0, list[tuple[str, float]]()
            for end, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                below += count
                buckets.append((str(end), below))
            family.add_metric((label,), buckets, sum_value=total)
        return family
