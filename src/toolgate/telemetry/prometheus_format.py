"""The numbers in the words of Prometheus."""

from collections.abc import Iterable, Iterator
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
from toolgate.telemetry.metrics import FINE, MANAGER, OTHER, Counts, Labels, Metrics, Times
from toolgate.types import json_array, json_object

__all__ = ["Told"]


class Told(Collector):
    """The numbers of one gateway, for the library."""

    content_type = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
    """Of the answer."""

    def __init__(self, metrics: Metrics) -> None:
        self._of = metrics
        self.registry = CollectorRegistry()
        """With what the process itself takes."""
        self.registry.register(self)
        prometheus_client.ProcessCollector(registry=self.registry)

    def text(self) -> bytes:
        """All of it."""
        return prometheus_client.generate_latest(self.registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing: it is not asked before there is something."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All metrics, for the library."""
        yield self._gauge("toolgate_info", {(toolgate.__version__,): 1})
        yield from self._of_requests()
        yield self._histogram("toolgate_stage_duration_seconds", self._of.stages)
        yield self._counter("toolgate_stage_failures", self._of.failures.values)
        yield self._counter("toolgate_search_fallbacks", {(): self._of.fallbacks})
        yield self._counter("toolgate_search_empty", {(): self._of.empty})
        yield self._counter("toolgate_discovery_tokens", {(): self._of.tokens})
        yield from self._of_servers()
        yield from self._of_audit()
        yield from self._of_index()
        yield self._gauge("toolgate_approvals_waiting", {(): self._of.waiting})
        queued: dict[Labels, float] = {(kind,): number for kind, number in self._of.queued.items()}
        yield self._gauge("toolgate_store_waiting", queued)
        tracer = self._of.tracer
        sent, dropped = (tracer.sent, tracer.dropped) if tracer is not None else (0, 0)
        yield self._counter("toolgate_spans_sent", {(): sent})
        yield self._counter("toolgate_spans_dropped", {(): dropped})
        yield self._gauge("toolgate_running", {(): self._of.running()})

    def _of_requests(self) -> Iterator[Metric]:
        requests, calls, refusals, size = Counts(), Counts(), Counts(), Counts()
        durations = Times()
        for (action, status, server), cell in self._of.cells.items():
            requests.add((action, status), cell.requests)
            durations.join(action, cell.buckets, cell.seconds)
            if action == "call" and server is not None:
                calls.add((server, status), cell.requests)
                if cell.response_bytes:
                    size.add((server,), cell.response_bytes)
            elif server is None and (action == "call" or status not in FINE):
                refusals.add((status,), cell.requests)
        yield self._counter("toolgate_requests", requests.values)
        yield self._histogram("toolgate_request_duration_seconds", durations)
        yield self._counter("toolgate_calls", calls.values)
        yield self._counter("toolgate_refusals", refusals.values)
        yield self._counter("toolgate_result_bytes", size.values)

    def _of_servers(self) -> Iterator[Metric]:
        servers = self._of.app.gateway.servers(MANAGER)
        states: dict[Labels, float] = {
            (state,): 0 for state in ("ready", "degraded", "connecting", "down", "disabled")
        }
        up, restarts = Counts(), Counts()
        oldest = datetime.now(UTC)
        for server in servers:
            states[server.state,] += 1
            name = self._of.servers.bounded(server.name)
            restarts.add((name,), server.restarts)
            if server.state != "disabled" and name != OTHER:
                up.add((name,), server.state in {"ready", "degraded"})
            if server.state in {"ready", "degraded"} and server.listed_at:
                oldest = min(oldest, datetime.fromisoformat(server.listed_at))
        age = (datetime.now(UTC) - oldest).total_seconds()
        yield self._gauge("toolgate_servers", states)
        yield self._gauge("toolgate_server_up", up.values)
        yield self._counter("toolgate_server_restarts", restarts.values)
        yield self._gauge("toolgate_tools", {(): sum(server.tools for server in servers)})
        yield self._gauge("toolgate_tools_held", {(): self._of.held})
        yield self._gauge("toolgate_catalog_age_seconds", {(): age})
        yield self._gauge("toolgate_menu_tokens", {(): self._of.app.gateway.manage.menu_tokens})

    def _of_audit(self) -> Iterator[Metric]:
        status = self._of.app.recorder.status()
        yield self._gauge("toolgate_audit_pending", {(): status.pending})
        yield self._counter("toolgate_audit_written", {(): status.written})
        yield self._counter("toolgate_audit_dropped", {(): status.dropped})
        failing = status.failing_since is not None
        yield self._gauge("toolgate_audit_failing", {(): float(failing)})

    def _of_index(self) -> Iterator[Metric]:
        vectors, backlog, loaded = Counts(), Counts(), Counts()
        texts, seconds, failures = Counts(), Counts(), Counts()
        hits, misses = Counts(), Counts()
        for status in map(json_object, json_array(self._of.index.get("searches"))):
            search = str(status.get("search"))
            vectors.add((search,), status.get("vectors", 0))
            backlog.add((search,), status.get("backlog", 0))
            counted = json_object(status.get("counted"))
            loaded.add((search,), counted.get("vectors_loaded", 0))
            for cache, asked, known in (
                ("answers", "searches", "answers_kept"),
                ("vectors", "vectors_asked", "vectors_remembered"),
            ):
                hit = counted.get(known, 0)
                hits.add((search, cache), hit)
                misses.add((search, cache), counted.get(asked, 0) - hit)
            for kind, work in json_object(counted.get("embedding")).items():
                texts.add((search, kind), work["texts"])
                seconds.add((search, kind), work["total_s"])
                failures.add((search, kind), work["failures"])
        alone = {
            (str(service["search"]),): float(service["is_left_alone"])
            for service in map(json_object, json_array(self._of.index.get("services")))
        }
        yield self._gauge("toolgate_search_service_left_alone", alone)
        yield self._gauge("toolgate_vectors", vectors.values)
        yield self._gauge("toolgate_embedding_backlog", backlog.values)
        yield self._counter("toolgate_vectors_loaded", loaded.values)
        yield self._counter("toolgate_search_cache_hits", hits.values)
        yield self._counter("toolgate_search_cache_misses", misses.values)
        yield self._counter("toolgate_embedded_texts", texts.values)
        yield self._counter("toolgate_embedding_seconds", seconds.values)
        yield self._counter("toolgate_embedding_failures", failures.values)

    def _counter(self, name: str, values: dict[Labels, float]) -> Metric:
        about = METRICS[name]
        family = CounterMetricFamily(name, about.says, labels=about.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        return family

    def _gauge(self, name: str, values: dict[Labels, float]) -> Metric:
        about = METRICS[name]
        family = GaugeMetricFamily(name, about.says, labels=about.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        return family

    def _histogram(self, name: str, times: Times) -> Metric:
        about = METRICS[name]
        family = HistogramMetricFamily(name, about.says, labels=about.labels)
        for label, (*counts, total) in times.by_label.items():
            below, told = 0.0, list[tuple[str, float]]()
            for end, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                below += count
                told.append((str(end), below))
            family.add_metric((label,), told, sum_value=total)
        return family
