"""Every metric there is: its name, what kind it is, its labels, what it says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["BUCKETS", "METRICS", "Metric"]

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the histograms in seconds."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric."""

    name: str
    """As it is scraped; of counters without `_total`, as the format wants it."""

    kind: Kind
    """`counter`: only grows, from 0 at the start. `gauge`. `histogram`: in seconds."""

    says: str
    """One sentence for the documentation and for `# HELP`."""

    labels: tuple[str, ...] = ()
    """Names of its labels."""


def _all() -> tuple[Metric, ...]:
    return (
        Metric(
            name="toolgate_info",
            kind="gauge",
            labels=("version",),
            says="1, with the version.",
        ),
        Metric(
            name="toolgate_requests",
            kind="counter",
            labels=("action", "status"),
            says="What was asked of the gateway and how it ended, as in the audit.",
        ),
        Metric(
            name="toolgate_request_duration_seconds",
            kind="histogram",
            labels=("action",),
            says="How long that took.",
        ),
        Metric(
            name="toolgate_calls",
            kind="counter",
            labels=("server", "status"),
            says="Calls of tools that reached a server, and how they ended.",
        ),
        Metric(
            name="toolgate_refusals",
            kind="counter",
            labels=("reason",),
            says="What reached no server: not for this caller, limits, arguments, approvals.",
        ),
        Metric(
            name="toolgate_result_bytes",
            kind="counter",
            labels=("server",),
            says="Bytes of results of tools.",
        ),
        Metric(
            name="toolgate_stage_duration_seconds",
            kind="histogram",
            labels=("stage",),
            says="How long each stage took: identity, decision, search, server, model, audit, …",
        ),
        Metric(
            name="toolgate_stage_failures",
            kind="counter",
            labels=("stage",),
            says="Runs of a stage that ended in an error.",
        ),
        Metric(
            name="toolgate_search_fallbacks",
            kind="counter",
            says="Searches that a simpler one answered than the one that was wanted.",
        ),
        Metric(
            name="toolgate_search_empty",
            kind="counter",
            says="Searches whose answer was that nothing fits.",
        ),
        Metric(
            name="toolgate_discovery_tokens",
            kind="counter",
            says="Estimated tokens of the answers of searches.",
        ),
        Metric(
            name="toolgate_menu_tokens",
            kind="gauge",
            says="Estimated tokens of all definitions: what a model pays that is shown all tools.",
        ),
        Metric(name="toolgate_servers", kind="gauge", labels=("state",), says="Servers by state."),
        Metric(
            name="toolgate_server_up",
            kind="gauge",
            labels=("server",),
            says="1 where a server answers, 0 where it does not; not for those switched off.",
        ),
        Metric(
            name="toolgate_server_restarts",
            kind="counter",
            labels=("server",),
            says="Connections to a server after the first.",
        ),
        Metric(name="toolgate_tools", kind="gauge", says="Tools in the catalog."),
        Metric(
            name="toolgate_tools_held",
            kind="gauge",
            says="Tools that are held back until somebody approves them.",
        ),
        Metric(
            name="toolgate_catalog_age_seconds",
            kind="gauge",
            says="Age of the oldest listing of a server that answers.",
        ),
        Metric(
            name="toolgate_audit_pending",
            kind="gauge",
            says="Records of the audit that are not written yet.",
        ),
        Metric(name="toolgate_audit_written", kind="counter", says="Records of the audit on disk."),
        Metric(
            name="toolgate_audit_dropped",
            kind="counter",
            says="Lost records of the audit.",
        ),
        Metric(
            name="toolgate_audit_failing",
            kind="gauge",
            says="1 while the store takes no records of the audit.",
        ),
        Metric(
            name="toolgate_approvals_waiting",
            kind="gauge",
            says="Calls that wait for a person.",
        ),
        Metric(
            name="toolgate_store_waiting",
            kind="gauge",
            labels=("kind",),
            says="Work that waits for its turn at the store: read, write.",
        ),
        Metric(
            name="toolgate_search_service_left_alone",
            kind="gauge",
            labels=("search",),
            says="1 while the service of a search is left alone since it failed several times.",
        ),
        Metric(
            name="toolgate_vectors",
            kind="gauge",
            labels=("search",),
            says="Tools whose vector is in memory.",
        ),
        Metric(
            name="toolgate_embedding_backlog",
            kind="gauge",
            labels=("search",),
            says="Tools that have no vector yet.",
        ),
        Metric(
            name="toolgate_embedded_texts",
            kind="counter",
            labels=("search", "kind"),
            says="Texts that were embedded.",
        ),
        Metric(
            name="toolgate_embedding_seconds",
            kind="counter",
            labels=("search", "kind"),
            says="Seconds that embedding took.",
        ),
        Metric(
            name="toolgate_embedding_failures",
            kind="counter",
            labels=("search", "kind"),
            says="Times that the embedder failed.",
        ),
        Metric(
            name="toolgate_vectors_loaded",
            kind="counter",
            labels=("search",),
            says="Vectors that were read from the store instead of being computed.",
        ),
        Metric(
            name="toolgate_search_cache_hits",
            kind="counter",
            labels=("search", "cache"),
            says="Answers and vectors of requests that were still known.",
        ),
        Metric(
            name="toolgate_search_cache_misses",
            kind="counter",
            labels=("search", "cache"),
            says="Answers and vectors of requests that were not.",
        ),
        Metric(
            name="toolgate_spans_sent",
            kind="counter",
            says="Spans that the collector of traces took.",
        ),
        Metric(
            name="toolgate_spans_dropped",
            kind="counter",
            says="Spans that were lost: the collector did not take them, or too many waited.",
        ),
        Metric(
            name="toolgate_running",
            kind="gauge",
            says="Requests that are being answered.",
        ),
    )


METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _all()}
"""By name."""
