"""The usage log in SQL: searches, and the uses of the tools that they returned."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, delete, exists, func, select

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlRepository, writes
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.usage import StoredSearch, StoredUse, UsageEntry, UsageFilter
from toolgate.store.sql import row_mapping

_PORTION = 500
"""Searches whose uses are read at once; well below SQLite's limit of 32,766 values."""


class SqlUsage(SqlRepository):
    """Implements `UsageRepository`."""

    async def append(self, searches: Sequence[StoredSearch], uses: Sequence[StoredUse]) -> None:
        """Write to the usage log, all or nothing; existing rows are skipped."""
        rows_of = {
            tables.usage_searches: [row_mapping.search_row(search) for search in searches],
            tables.usage_uses: [row_mapping.use_row(use) for use in uses],
        }

        def append(connection: Connection) -> None:
            for table, rows in rows_of.items():
                if rows:
                    connection.execute(self.database.insert(table).on_conflict_do_nothing(), rows)

        await self.database.write(append)

    async def select(self, query: UsageFilter) -> list[UsageEntry]:
        """Matching searches with their uses, newest first."""
        return await self.database.read(lambda connection: _select(connection, query))

    @writes
    def clear(self, connection: Connection, project_id: str) -> int:
        """Delete the usage log of a project. Returns the number of searches."""
        for table in (tables.usage_uses, tables.usage_searches):
            statement = delete(table).where(table.c.project_id == escape_text(project_id))
            count = connection.execute(statement).rowcount
        return count


def _select(connection: Connection, query: UsageFilter) -> list[UsageEntry]:
    searches, uses = tables.usage_searches, tables.usage_uses
    statement = select(searches).where(searches.c.project_id == escape_text(query.project_id))
    if query.caller_id is not None:
        statement = statement.where(searches.c.caller_id == escape_text(query.caller_id))
    if query.with_uses:
        # By time of last use: an old search may have been used a moment ago.
        last = (
            select(uses.c.search_id, func.max(uses.c.at).label("at"))
            .where(uses.c.project_id == escape_text(query.project_id))
            .group_by(uses.c.search_id)
            .subquery()
        )
        statement = statement.join(last, last.c.search_id == searches.c.search_id)
        if query.since:
            statement = statement.where(last.c.at >= query.since)
    elif query.since:
        statement = statement.where(searches.c.at >= query.since)
    statement = statement.order_by(searches.c.at.desc(), searches.c.search_id.desc())
    statement = statement.limit(max(1, min(query.limit, 100_000)))
    matches = [row_mapping.search_from(row) for row in connection.execute(statement).mappings()]
    by_search: dict[str, list[StoredUse]] = {}
    for start in range(0, len(matches), _PORTION):
        ids = [escape_text(search.search_id) for search in matches[start : start + _PORTION]]
        of_these = select(uses).where(uses.c.search_id.in_(ids)).order_by(uses.c.at, uses.c.use_id)
        for row in connection.execute(of_these).mappings():
            use = row_mapping.use_from(row)
            by_search.setdefault(use.search_id, []).append(use)
    return [
        UsageEntry(search=search, uses=tuple(by_search.get(search.search_id, ())))
        for search in matches
    ]


def is_orphan(before: str) -> ColumnElement[bool]:
    """Return the condition for uses before a time whose search was deleted."""
    searches, uses = tables.usage_searches, tables.usage_uses
    there = exists(select(searches.c.search_id).where(searches.c.search_id == uses.c.search_id))
    return (uses.c.at < before) & ~there
