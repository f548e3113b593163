"""Compares the search strategies that conversations used: cost and usefulness."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from statistics import fmean, median, quantiles

from toolgate.store import AuditFilter, Store
from toolgate.types import COMMAND_LINE, CONSOLE, AuditRecord, Json, json_array

# Records per query (chosen).
_PAGE = 1_000
_MOST = 200_000
"""Searches that are read, newest first (chosen: more do not make a share more precise)."""


@dataclass(frozen=True, kw_only=True)
class SearchReport:
    """Use and cost of one search strategy."""

    optimization: str
    """Name of the strategy in the settings: `off`, `bm25`, `hybrid`."""

    conversations: int
    """Conversations that used it; a client that names no conversation counts as one."""

    searches: int
    """Number of `tool_discovery` answers."""

    executed: int
    """Number of answers from which a tool was called afterwards."""

    executed_share: float
    """`executed` divided by `searches`, 0 to 1."""

    without_result: int
    """Number of answers without a tool."""

    fallbacks: int
    """Number of answers that a simpler strategy gave instead."""

    tokens: int
    """Estimated tokens of all answers."""

    tokens_mean: float
    """Estimated tokens of an answer, mean."""

    duration_ms_p50: float
    """Median of a whole discovery, milliseconds."""

    duration_ms_p95: float
    """95th percentile of a whole discovery, milliseconds."""

    def as_json(self) -> Json:
        """The form of REST and `--json`; no strategy is null."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**values, "optimization": None if self.optimization == "off" else self.optimization}


@dataclass
class _SearchTotals:
    conversations: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    durations_ms: list[float] = field(default_factory=list[float])
    tokens: list[int] = field(default_factory=list[int])
    executed: set[str] = field(default_factory=set[str])
    without_result: int = 0
    fallbacks: int = 0


async def compare_searches(
    store: Store, *, since: str | None = None, project_id: str | None = None
) -> list[SearchReport]:
    """A report for each strategy that was used, by name.

    Args:
        store: The store with the audit log.
        since: UTC, ISO 8601; None: everything.
        project_id: The project; None: all.

    Raises:
        StoreError: The store cannot be read.
    """
    sums: dict[str, _SearchTotals] = {}
    searched_by: dict[str, str] = {}
    filters = AuditFilter(action="discover", status="ok", since=since, project_id=project_id)
    async for record in _records(store, filters):
        name = record.detail.get("search")
        if not isinstance(name, str) or record.client.startswith((COMMAND_LINE, CONSOLE)):
            continue  # written before searches had names, or somebody's try
        searched_by[record.record_id] = name
        _add(sums.setdefault(name, _SearchTotals()), record)
        if len(searched_by) >= _MOST:
            break
    calls = AuditFilter(action="call", phase="intent", since=since, project_id=project_id)
    if searched_by:
        async for record in _records(store, calls):
            name = searched_by.get(record.parent_id or "")
            if name is not None:
                sums[name].executed.add(str(record.parent_id))
    return [_report(name, totals) for name, totals in sorted(sums.items())]


def _add(totals: _SearchTotals, record: AuditRecord) -> None:
    totals.conversations.add((record.project_id, record.caller_id, record.conversation))
    totals.durations_ms.append(record.duration_ms or 0.0)
    tokens = record.detail.get("tokens")
    totals.tokens.append(tokens if isinstance(tokens, int) else 0)
    totals.without_result += not json_array(record.detail.get("shown"))
    totals.fallbacks += bool(record.detail.get("fallback"))


def _report(name: str, totals: _SearchTotals) -> SearchReport:
    times, count = totals.durations_ms, len(totals.tokens)
    return SearchReport(
        optimization=name,
        conversations=len(totals.conversations),
        searches=count,
        executed=len(totals.executed),
        executed_share=round(len(totals.executed) / count, 4),
        without_result=totals.without_result,
        fallbacks=totals.fallbacks,
        tokens=sum(totals.tokens),
        tokens_mean=round(fmean(totals.tokens), 1),
        duration_ms_p50=round(median(times), 3),
        duration_ms_p95=round(
            quantiles(times, n=20, method="inclusive")[-1] if count > 1 else times[0], 3
        ),
    )


async def _records(store: Store, filters: AuditFilter) -> AsyncGenerator[AuditRecord]:
    """Matching records, page by page, newest first."""
    filters = replace(filters, limit=_PAGE)
    while True:
        page = await store.audit.select(filters)
        for record in page:
            yield record
        if len(page) < _PAGE:
            return
        filters = replace(filters, after=(page[-1].at, page[-1].record_id))
