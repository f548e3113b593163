"""What was asked of connected databases, in SQL."""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, Table, select

from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.records.statements import StoredStatement

__all__ = ["SqlStatements"]

T = TypeVar("T")

_MOST = 10_000
_OWN_BYTES = 200
"""What a row takes besides its texts."""


class SqlStatements:
    """That part over SQLAlchemy Core; `SqlStore` brings the transactions."""

    _insert: Callable[[Table], Any]

    async def _read(self, work: Callable[[Connection], T]) -> T:
        raise NotImplementedError

    async def _write(self, work: Callable[[Connection], T]) -> T:
        raise NotImplementedError

    async def append_statement(self, statement: StoredStatement) -> None:
        """Insert one; one with a known id is left as it is."""
        row = {
            name: escape_text(value) if isinstance(value, str) else value
            for name, value in vars(statement).items()
        }
        row["size_bytes"] = _OWN_BYTES + sum(
            len(value.encode()) for value in row.values() if isinstance(value, str)
        )
        wanted = self._insert(tables.statements).on_conflict_do_nothing()
        await self._write(lambda opened: opened.execute(wanted, row))

    async def statements(
        self, project_id: str, *, caller_id: str | None = None, since: str = "", limit: int = 100
    ) -> list[StoredStatement]:
        """Statements of a project, of one caller or of all, newest first."""
        table = tables.statements
        wanted = select(table).where(table.c.project_id == escape_text(project_id))
        if caller_id is not None:
            wanted = wanted.where(table.c.caller_id == escape_text(caller_id))
        if since:
            wanted = wanted.where(table.c.at >= escape_text(since))
        wanted = wanted.order_by(table.c.at.desc(), table.c.statement_id.desc())
        wanted = wanted.limit(max(1, min(limit, _MOST)))
        return await self._read(
            lambda opened: [_from(row) for row in opened.execute(wanted).mappings()]
        )


def _from(row: RowMapping) -> StoredStatement:
    values: dict[str, Any] = {
        name: unescape_text(value) if isinstance(value, str) else value
        for name, value in row.items()
        if name != "size_bytes"
    }
    return StoredStatement(**values)
