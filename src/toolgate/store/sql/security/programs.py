"""Programs that wait for approvals, in SQL."""

from collections.abc import Sequence

from sqlalchemy import delete, select, update

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlRepository
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.approvals import StoredProgram
from toolgate.store.sql.row_mapping import program_from, program_row


class SqlPrograms(SqlRepository):
    """Implements `ProgramRepository`."""

    async def save(self, program: StoredProgram) -> None:
        """Insert a program, or replace the one with this id."""
        row = program_row(program)
        statement = self.database.insert(tables.programs).on_conflict_do_update(
            index_elements=["program_id"], set_=row
        )
        await self.database.execute(statement, row)

    async def add(self, program: StoredProgram, *, now: str) -> bool:
        """Insert a program. False: one with this id exists that has not expired."""
        table, row = tables.programs, program_row(program)
        # The row count of an INSERT is available only on request.
        statement = (
            self.database.insert(table)
            .on_conflict_do_update(
                index_elements=["program_id"], set_=row, where=table.c.expires_at <= now
            )
            .execution_options(preserve_rowcount=True)
        )
        return await self.database.execute(statement, row) == 1

    async def get(self, program_id: str) -> StoredProgram | None:
        """A program; None if it does not exist. The caller checks owner and expiry."""
        table = tables.programs
        query = select(table).where(table.c.program_id == escape_text(program_id))
        return await self.database.fetch_first(query, program_from)

    async def first_waiting(self, program_ids: Sequence[str], *, now: str) -> str | None:
        """Which of these programs has been waiting longest; None: none waits, or they expired."""
        table = tables.programs
        query = (
            select(table.c.program_id)
            .where(table.c.program_id.in_([escape_text(name) for name in program_ids]))
            .where((table.c.state == "waiting") & (table.c.expires_at > now))
            .order_by(table.c.created_at, table.c.program_id)
            .limit(1)
        )
        return await self.database.fetch_first(query, lambda row: str(row["program_id"]))

    async def claim(self, program_id: str, *, now: str) -> bool:
        """Change `waiting` to `running`. False if someone else did, or it has expired."""
        table = tables.programs
        waits = (
            (table.c.program_id == escape_text(program_id))
            & (table.c.state == "waiting")
            & (table.c.expires_at > now)
        )
        claim = update(table).where(waits).values(state="running")
        return await self.database.execute(claim) == 1

    async def remove(self, program_id: str) -> None:
        """Delete a program, if it exists."""
        table = tables.programs
        await self.database.execute(
            delete(table).where(table.c.program_id == escape_text(program_id))
        )

    async def select(self, *, caller_id: str | None, now: str, limit: int) -> list[StoredProgram]:
        """Return unexpired programs of a caller, newest first; None: of all callers."""
        table = tables.programs
        query = select(table).where(table.c.expires_at > now)
        if caller_id is not None:
            query = query.where(table.c.caller_id == escape_text(caller_id))
        query = query.order_by(table.c.created_at.desc(), table.c.program_id).limit(limit)
        return await self.database.fetch_all(query, program_from)
