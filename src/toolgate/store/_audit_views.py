"""The audit as people look at it, in SQL: calls by minute, and what belongs to one record."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy import Connection, case, func, select

from toolgate.errors import StoreError
from toolgate.ids import utc_text
from toolgate.store import _rows, _tables
from toolgate.store._audit_view_rows import MinuteCount
from toolgate.store._keepable import keepable
from toolgate.types import AuditRecord

__all__ = ["FINE", "SqlAuditViews"]

T = TypeVar("T")

FINE = ("ok", "input_required")
"""How calls end that did not fail."""

_WITHIN = timedelta(hours=1)
_MOST = 400
_STEPS = 4


class SqlAuditViews:
    """That part over SQLAlchemy Core; `SqlStore` brings the transactions."""

    async def _read(self, work: Callable[[Connection], T]) -> T:
        raise NotImplementedError

    async def audit_minutes(self, since: str) -> list[MinuteCount]:
        """Calls of each minute from a moment on, without those that had none."""
        table = _tables.audit
        minute = func.substr(table.c.at, 1, 16)
        failed = func.sum(case((table.c.status.in_(FINE), 0), else_=1))
        wanted = (
            select(minute, func.count(), failed)
            .where(table.c.at >= since, table.c.action == "call", table.c.phase == "outcome")
            .group_by(minute)
            .order_by(minute)
        )
        return await self._read(
            lambda opened: [
                MinuteCount(minute=at, calls=int(calls), errors=int(errors))
                for at, calls, errors in opened.execute(wanted)
            ]
        )

    async def audit_chain(self, record_id: str) -> list[AuditRecord]:
        """A record with all that it belongs to, oldest first."""
        return await self._read(lambda opened: _chain_of(opened, record_id))


def _chain_of(opened: Connection, record_id: str) -> list[AuditRecord]:
    first = _record(opened, record_id)
    for _ in range(_STEPS):
        above = _record(opened, first.parent_id) if first and first.parent_id else None
        if above is None:
            break
        first = above
    if first is None:
        return []
    table = _tables.audit
    # What belongs to a record comes soon after it in the same conversation: found by time, so
    # that no index has to be kept for the few times that somebody looks.
    wanted = (
        select(table)
        .where(
            table.c.at >= first.at,
            table.c.at <= _later(first.at),
            table.c.conversation == keepable(first.conversation),
            table.c.parent_id.is_not(None),
        )
        .order_by(table.c.at, table.c.record_id)
        .limit(_MOST)
    )
    found = {first.record_id: first}
    for row in opened.execute(wanted).mappings():
        record = _rows.audit_from(row)
        if record.parent_id in found:
            found[record.record_id] = record
    return list(found.values())


def _record(opened: Connection, record_id: str) -> AuditRecord | None:
    table = _tables.audit
    wanted = select(table).where(table.c.record_id == keepable(record_id))
    row = opened.execute(wanted).mappings().first()
    return None if row is None else _rows.audit_from(row)


def _later(at: str) -> str:
    try:
        return utc_text(datetime.fromisoformat(at) + _WITHIN)
    except (ValueError, OverflowError) as error:
        raise StoreError(f"The audit has the time {at[:40]!r}, which is none.") from error
