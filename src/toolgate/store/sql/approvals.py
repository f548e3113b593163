"""Approvals in SQL.

A row that is waiting, or decided and not used, holds the slot of its binding, which is unique: so
there is one such row for a call, however many come at once. Every change asks for the state that it
starts from, so of many that try only one succeeds.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Table, select, update

from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text
from toolgate.store.records.approvals import ApprovalFilter, StoredApproval
from toolgate.store.sql import row_mapping

__all__ = ["claim", "decide", "find", "one", "park"]

_LIVE = ("waiting", "approved")
_MOST = 1_000


def park(
    connection: Connection, insert: Callable[[Table], Any], wanted: StoredApproval
) -> StoredApproval:
    """Keep it, or give the one that holds its slot."""
    table = tables.approvals
    mine = table.c.slot == wanted.binding
    too_late = table.c.expires_at <= wanted.created_at
    connection.execute(update(table).where(mine, too_late).values(slot=None))
    row = row_mapping.approval_row(wanted) | {"slot": wanted.binding}
    connection.execute(insert(table).on_conflict_do_nothing(index_elements=["slot"]), row)
    found = connection.execute(select(table).where(mine)).mappings().one()
    return row_mapping.approval_from(found)


def one(connection: Connection, approval_id: str, now: str) -> StoredApproval | None:
    """One by its id."""
    table = tables.approvals
    wanted = select(table).where(table.c.approval_id == escape_text(approval_id))
    row = connection.execute(wanted).mappings().first()
    return None if row is None else _at(row_mapping.approval_from(row), now)


def find(connection: Connection, wanted: ApprovalFilter, now: str) -> list[StoredApproval]:
    """Those that fit, newest first."""
    table = tables.approvals
    statement = select(table).order_by(table.c.approval_id.desc())
    is_live = table.c.state.in_(_LIVE)
    if wanted.state == "expired":
        statement = statement.where(is_live, table.c.expires_at <= now)
    elif wanted.state is not None:
        statement = statement.where(table.c.state == wanted.state)
        if wanted.state in _LIVE:
            statement = statement.where(table.c.expires_at > now)
    for name in ("project_id", "caller_id"):
        value = getattr(wanted, name)
        if value is not None:
            statement = statement.where(table.c[name] == escape_text(value))
    if wanted.after is not None:
        statement = statement.where(table.c.approval_id < escape_text(wanted.after))
    statement = statement.limit(max(1, min(wanted.limit, _MOST)))
    rows = connection.execute(statement).mappings()
    return [_at(row_mapping.approval_from(row), now) for row in rows]


def decide(connection: Connection, approval_id: str, values: dict[str, Any], now: str) -> bool:
    """Decide one that waits and is not too late."""
    table = tables.approvals
    waits = (
        (table.c.approval_id == escape_text(approval_id))
        & (table.c.state == "waiting")
        & (table.c.expires_at > now)
    )
    kept = {
        key: escape_text(value) if isinstance(value, str) else value
        for key, value in values.items()
    }
    return connection.execute(update(table).where(waits).values(**kept)).rowcount == 1


def claim(connection: Connection, approval_id: str, step: int, now: str) -> bool:
    """Take the right to run once."""
    table = tables.approvals
    is_next = (table.c.approval_id == escape_text(approval_id)) & (table.c.step == step)
    if step == 0:
        is_next &= (table.c.state == "approved") & (table.c.expires_at > now)
        values: dict[str, Any] = {"state": "used", "slot": None, "used_at": now, "step": 1}
    else:
        is_next &= table.c.state == "used"
        values = {"step": step + 1}
    return connection.execute(update(table).where(is_next).values(**values)).rowcount == 1


def _at(found: StoredApproval, now: str) -> StoredApproval:
    """As it stands at a moment: what is too late for use is expired."""
    if found.state in _LIVE and found.expires_at <= now:
        return replace(found, state="expired")
    return found
