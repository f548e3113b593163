"""The records of the audit that are wanted, found among a million.

What is common has no index: records that went well, calls, the default project, the local user,
what is about to begin. The indexes over the rest are small, and cost little when a call is written.
A database uses one of them only if the statement says that the rest is meant, so that is said.
SQLite keeps no figures of how rare a value is: where several indexes fit, it is counted before
which of them has the fewest.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, func, literal, literal_column, select, tuple_

from toolgate.store.base import AuditFilter
from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text
from toolgate.store.sql import row_mapping
from toolgate.store.sql.audit_views import FINE
from toolgate.types import AuditRecord

__all__ = ["find"]

_PLAIN: Final = ("project_id", "caller_id", "action", "server", "status", "phase", "target")
_COUNTED: Final = 3_000
_MOST: Final = 10_000


def find(connection: Connection, wanted: AuditFilter) -> list[AuditRecord]:
    """The records, in the order asked for."""
    table = tables.audit
    columns = (table.c.at, table.c.record_id)
    order = columns if wanted.oldest_first else [column.desc() for column in columns]
    indexed = _indexed(wanted)
    best = _rarest(connection, indexed)
    is_sqlite = connection.dialect.name == "sqlite"
    statement = select(table).order_by(*order)
    for name in _PLAIN:
        value = getattr(wanted, name)
        if value is None or name == best:
            continue
        # A plus keeps SQLite from the index of a column.
        column: ColumnElement[Any] = table.c[name]
        is_other = name in indexed if best else name == "phase" and _of_failures(wanted)
        if is_sqlite and is_other:
            column = literal_column(f"+audit.{name}")
        statement = statement.where(column == escape_text(value))
    if best:
        statement = statement.where(indexed[best])
    elif indexed:
        statement = statement.where(*indexed.values())
    if wanted.failed:
        statement = statement.where(table.c.status.not_in(FINE))
    if wanted.since is not None:
        statement = statement.where(table.c.at >= wanted.since)
    if wanted.until is not None:
        statement = statement.where(table.c.at < wanted.until)
    if wanted.after is not None:
        last = tuple_(*(literal(escape_text(part)) for part in wanted.after))
        age = tuple_(*columns)
        statement = statement.where(age > last if wanted.oldest_first else age < last)
    statement = statement.limit(max(1, min(wanted.limit, _MOST)))
    return [row_mapping.audit_from(row) for row in connection.execute(statement).mappings()]


def _indexed(wanted: AuditFilter) -> dict[str, ColumnElement[bool]]:
    """Conditions that an index has, by column."""
    table = tables.audit
    if wanted.server is not None and _of_failures(wanted):
        here = (table.c.server == escape_text(wanted.server)) & tables.audit_failed()
        return {"server": here}
    found: dict[str, ColumnElement[bool]] = {}
    for name, common in tables.AUDIT_COMMON.items():
        value = getattr(wanted, name)
        if value is not None and value != common:
            found[name] = (table.c[name] == escape_text(value)) & tables.audit_rest(name)
    if wanted.failed and wanted.status is None:
        found["status"] = tables.audit_rest("status")
    if wanted.phase == "outcome":
        for name in ("server", "target"):
            value = getattr(wanted, name)
            if value is not None:
                found[name] = (table.c[name] == escape_text(value)) & tables.audit_outcome()
    return found


def _of_failures(wanted: AuditFilter) -> bool:
    """Whether there is an index of just what is wanted: what failed at a server."""
    return wanted.failed and wanted.server is not None


def _rarest(connection: Connection, indexed: Mapping[str, ColumnElement[bool]]) -> str:
    """The condition that the fewest records fit; empty: the database finds out itself."""
    if connection.dialect.name != "sqlite" or len(indexed) < 2:
        return ""
    return min(indexed, key=lambda name: _count(connection, indexed[name]))


def _count(connection: Connection, condition: ColumnElement[bool]) -> int:
    some: Any = select(literal(1)).select_from(tables.audit).where(condition).limit(_COUNTED)
    counted = connection.execute(select(func.count()).select_from(some.subquery()))
    return int(counted.scalar_one())
