"""All metrics: name, type, labels and description."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram buckets in seconds."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric."""

    name: str
    """Name in scrapes; counters without `_total`, which the format adds."""

    kind: Kind
    """`counter`: only grows, from 0 at the start. `gauge`. `histogram`: in seconds."""

    description: str
    """One sentence for the documentation and for `# HELP`."""

    labels: tuple[str, ...] = ()
    """Names of the labels."""


def _counter(name: str, description: str, *labels: str) -> Metric:
    return Metric(name=name, kind="counter", labels=labels, description=description)


def _gauge(name: str, description: str, *labels: str) -> Metric:
    return Metric(name=name, kind="gauge", labels=labels, description=description)


def _histogram(name: str, description: str, *labels: str) -> Metric:
    return Metric(name=name, kind="histogram", labels=labels, description=description)


_ALL = (
    _gauge("toolgate_info", "Always 1; the label contains the version.", "version"),
    _counter(
        "toolgate_requests",
        "Requests by action and outcome, as in the audit log.",
        "action",
        "status",
    ),
    _histogram("toolgate_request_duration_seconds", "Duration of requests.", "action"),
    _counter("toolgate_calls", "Tool calls that reached a server, by outcome.", "server", "status"),
    _counter(
        "toolgate_refusals", "Requests refused before any server was called, by reason.", "reason"
    ),
    _counter(
        "toolgate_login_refusals",
        "Refused logins by reason: no_token, wrong_token, wrong_project.",
        "reason",
    ),
    _counter("toolgate_result_bytes", "Total size of tool results in bytes.", "server"),
    _histogram(
        "toolgate_stage_duration_seconds",
        "Duration of stages: identity, decision, search, server, model, audit, …",
        "stage",
    ),
    _counter("toolgate_stage_failures", "Failed stages.", "stage"),
    _counter(
        "toolgate_search_fallbacks",
        "Searches answered by a simpler strategy than the configured one.",
    ),
    _counter("toolgate_search_empty", "Searches that found no match."),
    _counter("toolgate_discovery_tokens", "Estimated tokens of search answers."),
    _gauge(
        "toolgate_tool_definition_tokens",
        "Estimated tokens in all tool definitions: the cost of listing every tool.",
    ),
    _gauge("toolgate_servers", "Servers by state.", "state"),
    _gauge(
        "toolgate_server_up",
        "1 if the server answers, otherwise 0. Disabled servers are omitted.",
        "server",
    ),
    _counter("toolgate_server_restarts", "Number of reconnections to a server.", "server"),
    _gauge("toolgate_tools", "Tools in the catalog."),
    _gauge("toolgate_definitions_held", "Quarantined definitions awaiting approval."),
    _gauge(
        "toolgate_catalog_age_seconds", "Age of the oldest tool listing among servers that answer."
    ),
    _gauge("toolgate_audit_pending", "Audit records not yet written."),
    _counter("toolgate_audit_written", "Audit records written."),
    _counter("toolgate_audit_dropped", "Audit records lost."),
    _gauge("toolgate_audit_failing", "1 while audit records cannot be written."),
    _gauge("toolgate_approvals_waiting", "Calls awaiting approval."),
    _gauge("toolgate_store_waiting", "Store operations in the queue: read, write.", "kind"),
    _gauge(
        "toolgate_store_up",
        "1 if the store (Toolgate's database) answers; if 0, other values may be old.",
    ),
    _gauge(
        "toolgate_search_circuit_open",
        "1 while calls to a search service are suspended after repeated failures.",
        "search",
    ),
    _gauge("toolgate_vectors", "Tool vectors in memory.", "search"),
    _gauge("toolgate_embedding_backlog", "Tools without a vector.", "search"),
    _counter("toolgate_embedded_texts", "Texts embedded.", "search", "kind"),
    _counter("toolgate_embedding_seconds", "Time spent embedding.", "search", "kind"),
    _counter("toolgate_embedding_failures", "Failed embedding requests.", "search", "kind"),
    _counter(
        "toolgate_vectors_loaded", "Vectors read from the store instead of computed.", "search"
    ),
    _counter(
        "toolgate_search_cache_hits",
        "Search answers and query vectors found in the cache.",
        "search",
        "cache",
    ),
    _counter(
        "toolgate_search_cache_misses",
        "Search answers and query vectors not found in the cache.",
        "search",
        "cache",
    ),
    _counter("toolgate_spans_sent", "Spans accepted by the trace collector."),
    _counter(
        "toolgate_spans_dropped", "Spans lost: rejected by the collector, or the queue was full."
    ),
    _gauge("toolgate_running", "Requests in progress."),
    _counter(
        "toolgate_overload_refusals", "Requests refused because the delay exceeded serve.max_lag_s."
    ),
    _counter(
        "toolgate_event_loop_stalls",
        "Number of times the event loop was blocked for more than 20 ms.",
    ),
    _gauge("toolgate_event_loop_lag_seconds", "Delay of the event loop, as a moving average."),
    _gauge(
        "toolgate_event_loop_worst_stall_seconds",
        "Longest stall in the last hour; GET /api/v1/diagnostics shows where it was.",
    ),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}
"""Metrics by name."""
