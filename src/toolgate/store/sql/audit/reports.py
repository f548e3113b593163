"""Reports from the audit log, in SQL: calls by minute, costs, and all records of one call."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Integer, case, cast, func, literal, select

from toolgate.base.ids import utc_text
from toolgate.errors import StoreError
from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.repositories.audit import (
    DURATION_BOUNDS_MS,
    CallCount,
    ConversationCost,
    ToolUsage,
)
from toolgate.store.sql import row_mapping
from toolgate.types import AuditRecord

_SUCCEEDED = ("ok", "input_required")
"""Statuses of calls that did not fail."""

_SLOWEST = len(DURATION_BOUNDS_MS)
"""Class of the calls that took longer than all bounds."""

_RELATED_WITHIN = timedelta(hours=1)
"""Longest time between a search and a call that belongs to it (chosen)."""

_MAX_RELATED = 400
"""Most records that belong to one record (chosen)."""

_MAX_PARENTS = 4
"""Parents that are followed to the first record; more than calls ever have."""


def has_failed(opened: Connection) -> ColumnElement[bool]:
    """Return the condition for failed records; a call that waits for approval has not failed."""
    table = tables.audit
    if opened.dialect.name == "sqlite":
        state: ColumnElement[Any] = func.json_extract(table.c.detail, "$.state")
    else:
        state = cast(table.c.detail, JSON)["state"].as_string()
    is_waiting = (table.c.status == "approval") & (func.coalesce(state, "") == "waiting")
    return table.c.status.not_in(_SUCCEEDED) & ~is_waiting


def call_counts(
    opened: Connection, since: str, period_chars: int, server: str | None
) -> list[CallCount]:
    """Count calls and searches since a time, by period and class of duration."""
    table = tables.audit
    period = func.substr(table.c.at, 1, period_chars)
    is_call = table.c.action == "call"
    slower = [
        (table.c.duration_ms <= bound, number) for number, bound in enumerate(DURATION_BOUNDS_MS)
    ]
    kind = case((~is_call, 0), (table.c.duration_ms.is_(None), 0), *slower, else_=_SLOWEST)
    size = func.coalesce(table.c.request_bytes, 0) + func.coalesce(table.c.response_bytes, 0)
    query = (
        select(
            period.label("period"),
            kind.label("duration_class"),
            func.sum(case((is_call, 1), else_=0)).label("calls"),
            func.sum(case((is_call & has_failed(opened), 1), else_=0)).label("errors"),
            func.sum(case((is_call, 0), else_=1)).label("searches"),
            func.coalesce(func.sum(case((~is_call, _tokens(opened)))), 0).label("search_tokens"),
            func.sum(case((is_call, size), else_=0)).label("call_bytes"),
        )
        .where(table.c.at >= since, tables.audit_outcome())
        .group_by(period, kind)
        .order_by(period, kind)
    )
    if server is None:
        query = query.where(table.c.action.in_(("call", "discover", "describe")))
    else:
        query = query.where(is_call, table.c.server == escape_text(server))
    return [
        CallCount(
            period=row.period,
            duration_class=int(row.duration_class),
            calls=int(row.calls),
            errors=int(row.errors),
            searches=int(row.searches),
            search_tokens=int(row.search_tokens),
            call_bytes=int(row.call_bytes),
        )
        for row in opened.execute(query)
    ]


def _tokens(opened: Connection) -> ColumnElement[Any]:
    """Return an expression for the tokens of a response, from the detail of its record."""
    detail = tables.audit.c.detail
    if opened.dialect.name == "sqlite":
        return func.json_extract(detail, "$.tokens")
    return cast(cast(detail, JSON)["tokens"].as_string(), Integer)


def count(opened: Connection, since: str, limit: int) -> int:
    """Count records since a time; stops at `limit`."""
    counted = select(literal(1)).where(tables.audit.c.at >= since).limit(limit)
    query = select(func.count()).select_from(counted.subquery())
    return int(opened.execute(query).scalar_one())


def costs(
    opened: Connection, since: str, project_id: str | None, limit: int
) -> list[ConversationCost]:
    """Return the costs of conversations since a time, most recent first."""
    table = tables.audit
    tokens = _tokens(opened)
    is_call = table.c.action == "call"
    is_search = table.c.action.in_(("discover", "describe"))
    # What a model receives in a chat turn is known, including the tool list, so it is not
    # estimated.
    is_turn = table.c.action == "turn"
    called = case((is_call, table.c.target + func.coalesce(table.c.arguments_sha256, "")))
    calls = func.sum(case((is_call, 1), else_=0))
    last = func.max(table.c.at)
    who = (table.c.project_id, table.c.caller_id, table.c.client, table.c.conversation)
    query = (
        select(
            *who,
            calls.label("calls"),
            func.sum(case((is_call & has_failed(opened), 1), else_=0)).label("failed"),
            (calls - func.count(called.distinct())).label("repeats"),
            func.sum(case((is_search, 1), else_=0)).label("searches"),
            func.coalesce(func.sum(case((is_search, tokens))), 0).label("search_tokens"),
            func.coalesce(func.sum(table.c.request_bytes), 0).label("request_bytes"),
            func.coalesce(func.sum(table.c.response_bytes), 0).label("response_bytes"),
            last.label("last_at"),
        )
        .where(table.c.at >= since, table.c.phase == "outcome", is_call | is_search | is_turn)
        .group_by(*who)
        .having(func.sum(case((is_turn, 1), else_=0)) == 0)
        .order_by(last.desc())
        .limit(limit)
    )
    if project_id is not None:
        query = query.where(table.c.project_id == escape_text(project_id))
    return [
        ConversationCost(
            project_id=unescape_text(row.project_id),
            caller_id=unescape_text(row.caller_id),
            client=unescape_text(row.client),
            conversation=unescape_text(row.conversation),
            calls=int(row.calls),
            failed=int(row.failed),
            repeats=int(row.repeats),
            searches=int(row.searches),
            search_tokens=int(row.search_tokens),
            request_bytes=int(row.request_bytes),
            response_bytes=int(row.response_bytes),
            last_at=row.last_at,
        )
        for row in opened.execute(query)
    ]


def tool_usage(
    opened: Connection, since: str, project_id: str | None, tool: str | None
) -> list[ToolUsage]:
    """Return the usage of tools since a time, most used first."""
    table = tables.audit
    calls = func.count()
    query = (
        select(
            table.c.project_id,
            table.c.target,
            calls.label("calls"),
            func.sum(case((has_failed(opened), 1), else_=0)).label("failed"),
            func.coalesce(func.avg(table.c.duration_ms), 0.0).label("mean_ms"),
            func.max(table.c.at).label("last_at"),
            (
                func.coalesce(func.sum(table.c.request_bytes), 0)
                + func.coalesce(func.sum(table.c.response_bytes), 0)
            ).label("total_bytes"),
        )
        .where(
            table.c.at >= since,
            table.c.action == "call",
            tables.audit_outcome(),  # written out: databases then know of their index
            table.c.server.is_not(None),
        )
        .group_by(table.c.project_id, table.c.target)
        .order_by(calls.desc(), table.c.target)
    )
    if project_id is not None:
        query = query.where(table.c.project_id == escape_text(project_id))
    if tool is not None:
        query = query.where(table.c.target == escape_text(tool))
    return [
        ToolUsage(
            project_id=unescape_text(row.project_id),
            tool=unescape_text(row.target or ""),
            calls=int(row.calls),
            failed=int(row.failed),
            mean_ms=float(row.mean_ms),
            last_at=row.last_at,
            total_bytes=int(row.total_bytes),
        )
        for row in opened.execute(query)
    ]


def related(opened: Connection, record_id: str) -> list[AuditRecord]:
    """Return a record with all related ones, oldest first."""
    first = _record(opened, record_id)
    for _ in range(_MAX_PARENTS):
        above = _record(opened, first.parent_id) if first and first.parent_id else None
        if above is None:
            break
        first = above
    if first is None:
        return []
    table = tables.audit
    # Related records follow soon after in the same conversation: they are found by time, so that
    # this rare query needs no index of its own.
    query = (
        select(table)
        .where(
            table.c.at >= first.at,
            table.c.at <= _later(first.at),
            table.c.conversation == escape_text(first.conversation),
            table.c.parent_id.is_not(None),
        )
        .order_by(table.c.at, table.c.record_id)
        .limit(_MAX_RELATED)
    )
    records = {first.record_id: first}
    for row in opened.execute(query).mappings():
        record = row_mapping.audit_from(row)
        if record.parent_id in records:
            records[record.record_id] = record
    return list(records.values())


def _record(opened: Connection, record_id: str) -> AuditRecord | None:
    table = tables.audit
    query = select(table).where(table.c.record_id == escape_text(record_id))
    row = opened.execute(query).mappings().first()
    return None if row is None else row_mapping.audit_from(row)


def _later(at: str) -> str:
    try:
        return utc_text(datetime.fromisoformat(at) + _RELATED_WITHIN)
    except (ValueError, OverflowError) as error:
        raise StoreError(f"The audit log has the time {at[:40]!r}, which is not a time.") from error
