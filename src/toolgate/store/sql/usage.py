"""The usage log in SQL: searches, and what became of the tools that they showed."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, func, select

from toolgate.store.base import StoredSearch, StoredUse, UsageEntry, UsageFilter
from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text
from toolgate.store.sql import row_mapping

__all__ = ["append", "clear", "find", "is_orphan"]

_PORTION = 500
"""Searches whose uses are read at once."""


def append(
    connection: Connection,
    insert: Callable[[Table], Any],
    searches: Sequence[StoredSearch],
    uses: Sequence[StoredUse],
) -> None:
    """Write rows; what is there already is left alone."""
    for table, rows in (
        (tables.usage_searches, [row_mapping.search_row(search) for search in searches]),
        (tables.usage_uses, [row_mapping.use_row(use) for use in uses]),
    ):
        if rows:
            connection.execute(insert(table).on_conflict_do_nothing(), rows)


def find(connection: Connection, wanted: UsageFilter) -> list[UsageEntry]:
    """Searches that fit, newest first, each with its uses."""
    searches, uses = tables.usage_searches, tables.usage_uses
    statement = select(searches).where(searches.c.project_id == escape_text(wanted.project_id))
    if wanted.caller_id is not None:
        statement = statement.where(searches.c.caller_id == escape_text(wanted.caller_id))
    if wanted.with_uses:
        # By the time of the last use: an old search may have been used a moment ago.
        last = (
            select(uses.c.search_id, func.max(uses.c.at).label("at"))
            .where(uses.c.project_id == escape_text(wanted.project_id))
            .group_by(uses.c.search_id)
            .subquery()
        )
        statement = statement.join(last, last.c.search_id == searches.c.search_id)
        if wanted.since:
            statement = statement.where(last.c.at >= wanted.since)
    elif wanted.since:
        statement = statement.where(searches.c.at >= wanted.since)
    statement = statement.order_by(searches.c.at.desc(), searches.c.search_id.desc())
    statement = statement.limit(max(1, min(wanted.limit, 100_000)))
    found = [row_mapping.search_from(row) for row in connection.execute(statement).mappings()]
    by_search: dict[str, list[StoredUse]] = {}
    for start in range(0, len(found), _PORTION):
        ids = [escape_text(search.search_id) for search in found[start : start + _PORTION]]
        of_these = select(uses).where(uses.c.search_id.in_(ids)).order_by(uses.c.at, uses.c.use_id)
        for row in connection.execute(of_these).mappings():
            use = row_mapping.use_from(row)
            by_search.setdefault(use.search_id, []).append(use)
    return [
        UsageEntry(search=search, uses=tuple(by_search.get(search.search_id, ())))
        for search in found
    ]


def clear(connection: Connection, project_id: str) -> int:
    """Forget a project; gives the number of its searches."""
    searches, uses = tables.usage_searches, tables.usage_uses
    connection.execute(delete(uses).where(uses.c.project_id == escape_text(project_id)))
    found = delete(searches).where(searches.c.project_id == escape_text(project_id))
    return connection.execute(found).rowcount


def is_orphan(before: str) -> ColumnElement[bool]:
    """Uses from before a moment whose search is gone."""
    searches, uses = tables.usage_searches, tables.usage_uses
    there = exists(select(searches.c.search_id).where(searches.c.search_id == uses.c.search_id))
    return (uses.c.at < before) & ~there
