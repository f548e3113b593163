"""Finds the audit records that match a filter, quickly among a million.

Common values have no index: successful records, calls, the default project, the local user,
records of phase "intent". The indexes over all other values are small, and cost little when a
call is written. A database uses such an index only if the statement repeats its condition, so it
does. SQLite has no statistics about how rare a value is: if several indexes match, records are
counted to choose the one with the fewest.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Text,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy import cast as sql_cast

from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.audit import AuditFilter
from toolgate.store.sql import row_mapping
from toolgate.store.sql.audit.reports import has_failed
from toolgate.types import AuditRecord

_PLAIN: Final = ("project_id", "caller_id", "action", "server", "status", "phase", "target")
_MAX_COUNTED: Final = 3_000
"""Most records that are counted to choose an index; counting more costs more than it saves."""

_MAX_OPEN: Final = 1_000
"""Intents without an outcome that are closed at a time: more than a process runs calls at once."""

_MAX_ROWS: Final = 10_000
"""Most records in a result; as in `AuditFilter.limit`."""


def search(connection: Connection, query: AuditFilter) -> list[AuditRecord]:
    """Return the matching records, in the order of the filter."""
    table = tables.audit
    columns = (table.c.at, table.c.record_id)
    order = columns if query.oldest_first else [column.desc() for column in columns]
    indexed = _indexed(query)
    best = _rarest(connection, indexed)
    is_sqlite = connection.dialect.name == "sqlite"
    statement = select(table).order_by(*order)
    for name in _PLAIN:
        value = getattr(query, name)
        if value is None or name == best:
            continue
        # A plus prevents SQLite from using the index of a column.
        column: ColumnElement[Any] = table.c[name]
        is_other = name in indexed if best else name == "phase" and _of_failures(query)
        if is_sqlite and is_other:
            column = literal_column(f"+audit.{name}")
        statement = statement.where(column == escape_text(value))
    if best:
        statement = statement.where(indexed[best])
    elif indexed:
        statement = statement.where(*indexed.values())
    if query.conversation is not None:
        statement = statement.where(table.c.conversation == escape_text(query.conversation))
    for word in query.text.lower().split():
        statement = statement.where(or_(*(_contains(column, word) for column in _searched())))
    if query.failed:
        statement = statement.where(has_failed(connection))
    if query.since is not None:
        statement = statement.where(table.c.at >= query.since)
    if query.until is not None:
        statement = statement.where(table.c.at < query.until)
    if query.after is not None:
        last = tuple_(*(literal(escape_text(part)) for part in query.after))
        age = tuple_(*columns)
        statement = statement.where(age > last if query.oldest_first else age < last)
    statement = statement.limit(max(1, min(query.limit, _MAX_ROWS)))
    return [row_mapping.audit_from(row) for row in connection.execute(statement).mappings()]


def _indexed(query: AuditFilter) -> dict[str, ColumnElement[bool]]:
    """Return the conditions that have an index, by column."""
    table = tables.audit
    if query.server is not None and _of_failures(query):
        condition = (table.c.server == escape_text(query.server)) & tables.audit_failed()
        return {"server": condition}
    conditions: dict[str, ColumnElement[bool]] = {}
    for name, common in tables.AUDIT_COMMON.items():
        value = getattr(query, name)
        if value is not None and value != common:
            conditions[name] = (table.c[name] == escape_text(value)) & tables.audit_rest(name)
    if query.failed and query.status is None:
        conditions["status"] = tables.audit_rest("status")
    if query.phase == "outcome":
        for name in ("server", "target"):
            value = getattr(query, name)
            if value is not None:
                conditions[name] = (table.c[name] == escape_text(value)) & tables.audit_outcome()
    return conditions


def _searched() -> list[ColumnElement[Any]]:
    """Return the columns for full-text conditions."""
    table = tables.audit
    names = ("target", "query", "action", "status", "caller_id", "client", "server", "detail")
    return [table.c[name] for name in names]


def _contains(column: ColumnElement[Any], word: str) -> ColumnElement[bool]:
    text = func.lower(sql_cast(column, Text))
    return text.contains(escape_text(word), autoescape=True)


def _of_failures(query: AuditFilter) -> bool:
    """Whether the query is for failures at a server, which have an index of their own."""
    return query.failed and query.server is not None


def _rarest(connection: Connection, indexed: Mapping[str, ColumnElement[bool]]) -> str:
    """Return the condition with the fewest records; empty: the database chooses itself."""
    if connection.dialect.name != "sqlite" or len(indexed) < 2:
        return ""
    return min(indexed, key=lambda name: _count(connection, indexed[name]))


def _count(connection: Connection, condition: ColumnElement[bool]) -> int:
    counted_rows: Any = (
        select(literal(1)).select_from(tables.audit).where(condition).limit(_MAX_COUNTED)
    )
    counted = connection.execute(select(func.count()).select_from(counted_rows.subquery()))
    return int(counted.scalar_one())


def open_intents(connection: Connection, since: str) -> list[AuditRecord]:
    """Return intents since a time that have no outcome."""
    table = tables.audit
    recent = table.c.at >= since
    # EXCEPT sorts both sides once; a join would look up each intent, without an index.
    missing = (
        select(table.c.record_id)
        .where(recent, table.c.phase == "intent")
        .except_(select(table.c.parent_id).where(recent, table.c.phase == "outcome"))
        .limit(_MAX_OPEN)
    )
    ids = list(connection.execute(missing).scalars())
    rows = connection.execute(select(table).where(table.c.record_id.in_(ids))).mappings()
    return [row_mapping.audit_from(row) for row in rows]
