"""Approvals in SQL.

A row that is pending, or approved and unused, holds the slot of its binding, which is unique: so
there is one such row for a call, however many requests arrive at once. Every update requires the
state that it starts from, so only one of several concurrent updates succeeds.
"""

from dataclasses import replace
from typing import Any, Literal

from sqlalchemy import Connection, select, update

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlDatabase, SqlRepository, writes
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.approvals import ApprovalFilter, StoredApproval
from toolgate.store.sql.row_mapping import approval_from, approval_row
from toolgate.store.sql.security.programs import SqlPrograms

_LIVE = ("waiting", "approved")
_MAX_ROWS = 1_000
"""Most approvals in a result; as in `ApprovalFilter.limit`."""


class SqlApprovals(SqlRepository):
    """Implements `ApprovalRepository`."""

    def __init__(self, database: SqlDatabase) -> None:
        super().__init__(database)
        self.programs = SqlPrograms(database)
        """Implements `ProgramRepository`."""

    @writes
    def add_or_get(self, connection: Connection, approval: StoredApproval) -> StoredApproval:
        """Insert an approval, or return the pending or unused one with the same binding."""
        table = tables.approvals
        same_slot = table.c.slot == approval.binding
        too_late = table.c.expires_at <= approval.created_at
        row = approval_row(approval) | {"slot": approval.binding}

        connection.execute(update(table).where(same_slot, too_late).values(slot=None))
        insert = self.database.insert(table).on_conflict_do_nothing(index_elements=["slot"])
        connection.execute(insert, row)
        return approval_from(connection.execute(select(table).where(same_slot)).mappings().one())

    async def get(self, approval_id: str, *, now: str) -> StoredApproval | None:
        """Return an approval; None if it does not exist."""
        table = tables.approvals
        query = select(table).where(table.c.approval_id == escape_text(approval_id))
        approval = await self.database.fetch_first(query, approval_from)
        return approval and _at(approval, now)

    async def select(self, query: ApprovalFilter, *, now: str) -> list[StoredApproval]:
        """Approvals that match, newest first."""
        table = tables.approvals
        statement = select(table).order_by(table.c.approval_id.desc())
        is_live = table.c.state.in_(_LIVE)
        if query.state == "expired":
            statement = statement.where(is_live, table.c.expires_at <= now)
        elif query.state is not None:
            statement = statement.where(table.c.state == query.state)
            if query.state in _LIVE:
                statement = statement.where(table.c.expires_at > now)
        for name in ("project_id", "caller_id"):
            value = getattr(query, name)
            if value is not None:
                statement = statement.where(table.c[name] == escape_text(value))
        if query.after is not None:
            statement = statement.where(table.c.approval_id < escape_text(query.after))
        statement = statement.limit(max(1, min(query.limit, _MAX_ROWS)))
        return [_at(row, now) for row in await self.database.fetch_all(statement, approval_from)]

    async def decide(
        self,
        approval_id: str,
        *,
        state: Literal["approved", "rejected"],
        by: str,
        via: str,
        comment: str,
        edited: str | None,
        now: str,
    ) -> bool:
        """Decide a waiting approval. False if it is not waiting; concurrent calls succeed once."""
        table = tables.approvals
        waits = (
            (table.c.approval_id == escape_text(approval_id))
            & (table.c.state == "waiting")
            & (table.c.expires_at > now)
        )
        values = {
            "state": state,
            "decided_at": now,
            "decided_by": escape_text(by),
            "decided_via": escape_text(via),
            "comment": escape_text(comment),
            "edited": None if edited is None else escape_text(edited),
        }
        return await self.database.execute(update(table).where(waits).values(**values)) == 1

    async def claim(self, approval_id: str, *, step: int, now: str) -> bool:
        """Claim the single run that an approval allows. False if it is taken or has expired."""
        table = tables.approvals
        is_next = (table.c.approval_id == escape_text(approval_id)) & (table.c.step == step)
        if step == 0:
            is_next &= (table.c.state == "approved") & (table.c.expires_at > now)
            values: dict[str, Any] = {"state": "used", "slot": None, "used_at": now, "step": 1}
        else:
            is_next &= table.c.state == "used"
            values = {"step": step + 1}
        return await self.database.execute(update(table).where(is_next).values(**values)) == 1


def _at(approval: StoredApproval, now: str) -> StoredApproval:
    """Return an approval as of a time: expired if it was not used before its expiry."""
    if approval.state in _LIVE and approval.expires_at <= now:
        return replace(approval, state="expired")
    return approval
