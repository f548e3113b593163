"""All metrics: name, type, labels and description."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["BUCKETS", "METRICS", "Metric"]

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


_ALL = (
    Metric(
        name="toolgate_info",
        kind="gauge",
        labels=("version",),
        description="Always 1; the label contains the version.",
    ),
    Metric(
        name="toolgate_requests",
        kind="counter",
        labels=("action", "status"),
        description="Requests by action and outcome, as in the audit log.",
    ),
    Metric(
        name="toolgate_request_duration_seconds",
        kind="histogram",
        labels=("action",),
        description="Duration of requests.",
    ),
    Metric(
        name="toolgate_calls",
        kind="counter",
        labels=("server", "status"),
        description="Tool calls that reached a server, by outcome.",
    ),
    Metric(
        name="toolgate_refusals",
        kind="counter",
        labels=("reason",),
        description="Requests refused before any server was called, by reason.",
    ),
    Metric(
        name="toolgate_login_refusals",
        kind="counter",
        labels=("reason",),
        description="Refused logins by reason: no_token, wrong_token, wrong_project.",
    ),
    Metric(
        name="toolgate_result_bytes",
        kind="counter",
        labels=("server",),
        description="Total size of tool results in bytes.",
    ),
    Metric(
        name="toolgate_stage_duration_seconds",
        kind="histogram",
        labels=("stage",),
        description="Duration of stages: identity, decision, search, server, model, audit, …",
    ),
    Metric(
        name="toolgate_stage_failures",
        kind="counter",
        labels=("stage",),
        description="Failed stages.",
    ),
    Metric(
        name="toolgate_search_fallbacks",
        kind="counter",
        description="Searches answered by a simpler strategy than the configured one.",
    ),
    Metric(
        name="toolgate_search_empty",
        kind="counter",
        description="Searches that found no match.",
    ),
    Metric(
        name="toolgate_discovery_tokens",
        kind="counter",
        description="Estimated tokens of search answers.",
    ),
    Metric(
        name="toolgate_tool_definition_tokens",
        kind="gauge",
        description="Estimated tokens in all tool definitions: the cost of listing every tool.",
    ),
    Metric(
        name="toolgate_servers",
        kind="gauge",
        labels=("state",),
        description="Servers by state.",
    ),
    Metric(
        name="toolgate_server_up",
        kind="gauge",
        labels=("server",),
        description="1 if the server answers, otherwise 0. Disabled servers are omitted.",
    ),
    Metric(
        name="toolgate_server_restarts",
        kind="counter",
        labels=("server",),
        description="Number of reconnections to a server.",
    ),
    Metric(name="toolgate_tools", kind="gauge", description="Tools in the catalog."),
    Metric(
        name="toolgate_definitions_held",
        kind="gauge",
        description="Quarantined definitions awaiting approval.",
    ),
    Metric(
        name="toolgate_catalog_age_seconds",
        kind="gauge",
        description="Age of the oldest tool listing among servers that answer.",
    ),
    Metric(
        name="toolgate_audit_pending",
        kind="gauge",
        description="Audit records not yet written.",
    ),
    Metric(
        name="toolgate_audit_written",
        kind="counter",
        description="Audit records written.",
    ),
    Metric(
        name="toolgate_audit_dropped",
        kind="counter",
        description="Audit records lost.",
    ),
    Metric(
        name="toolgate_audit_failing",
        kind="gauge",
        description="1 while audit records cannot be written.",
    ),
    Metric(
        name="toolgate_approvals_waiting",
        kind="gauge",
        description="Calls awaiting approval.",
    ),
    Metric(
        name="toolgate_store_waiting",
        kind="gauge",
        labels=("kind",),
        description="Store operations in the queue: read, write.",
    ),
    Metric(
        name="toolgate_store_up",
        kind="gauge",
        description="1 if the store (Toolgate's database) answers; if 0, other values may be old.",
    ),
    Metric(
        name="toolgate_search_circuit_open",
        kind="gauge",
        labels=("search",),
        description="1 while calls to a search service are suspended after repeated failures.",
    ),
    Metric(
        name="toolgate_vectors",
        kind="gauge",
        labels=("search",),
        description="Tool vectors in memory.",
    ),
    Metric(
        name="toolgate_embedding_backlog",
        kind="gauge",
        labels=("search",),
        description="Tools without a vector.",
    ),
    Metric(
        name="toolgate_embedded_texts",
        kind="counter",
        labels=("search", "kind"),
        description="Texts embedded.",
    ),
    Metric(
        name="toolgate_embedding_seconds",
        kind="counter",
        labels=("search", "kind"),
        description="Time spent embedding.",
    ),
    Metric(
        name="toolgate_embedding_failures",
        kind="counter",
        labels=("search", "kind"),
        description="Failed embedding requests.",
    ),
    Metric(
        name="toolgate_vectors_loaded",
        kind="counter",
        labels=("search",),
        description="Vectors read from the store instead of computed.",
    ),
    Metric(
        name="toolgate_search_cache_hits",
        kind="counter",
        labels=("search", "cache"),
        description="Search answers and query vectors found in the cache.",
    ),
    Metric(
        name="toolgate_search_cache_misses",
        kind="counter",
        labels=("search", "cache"),
        description="Search answers and query vectors not found in the cache.",
    ),
    Metric(
        name="toolgate_spans_sent",
        kind="counter",
        description="Spans accepted by the trace collector.",
    ),
    Metric(
        name="toolgate_spans_dropped",
        kind="counter",
        description="Spans lost: rejected by the collector, or the queue was full.",
    ),
    Metric(
        name="toolgate_running",
        kind="gauge",
        description="Requests in progress.",
    ),
    Metric(
        name="toolgate_overload_refusals",
        kind="counter",
        description="Requests refused because the delay exceeded serve.max_lag_s.",
    ),
    Metric(
        name="toolgate_event_loop_stalls",
        kind="counter",
        description="Number of times the event loop was blocked for more than 20 ms.",
    ),
    Metric(
        name="toolgate_event_loop_lag_seconds",
        kind="gauge",
        description="Delay of the event loop, as a moving average.",
    ),
    Metric(
        name="toolgate_event_loop_worst_stall_seconds",
        kind="gauge",
        description="Longest stall in the last hour; GET /api/v1/diagnostics shows where it was.",
    ),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}
"""Metrics by name."""
