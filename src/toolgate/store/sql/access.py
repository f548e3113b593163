"""Projects, tokens, permission rules and guards in SQL. Every change counts the version up."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, select, update

from toolgate.store.base import StoredGuard, StoredPermission, StoredProject, StoredToken
from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text
from toolgate.store.sql import row_mapping

__all__ = [
    "changed",
    "delete_guards",
    "delete_permissions",
    "delete_project",
    "delete_token",
    "guards",
    "permissions",
    "projects",
    "save_guard",
    "save_permissions",
    "save_project",
    "save_token",
    "tokens",
    "touch_tokens",
    "version",
]

Insert = Callable[[Table], Any]

_STATE_ID = 1


def version(connection: Connection) -> int:
    """The number of changes so far."""
    table = tables.access_state
    return connection.execute(select(table.c.version)).scalar() or 0


def changed(connection: Connection, insert: Insert) -> None:
    """Count a change."""
    table = tables.access_state
    statement = insert(table).on_conflict_do_update(
        index_elements=["state_id"], set_={"version": table.c.version + 1}
    )
    connection.execute(statement, {"state_id": _STATE_ID, "version": 1})


def projects(connection: Connection) -> list[StoredProject]:
    """All, by name."""
    table = tables.projects
    rows = connection.execute(select(table).order_by(table.c.project_id)).mappings()
    return [row_mapping.project_from(row) for row in rows]


def save_project(connection: Connection, insert: Insert, project: StoredProject) -> None:
    """Insert, or replace the settings."""
    row = row_mapping.project_row(project)
    statement = insert(tables.projects).on_conflict_do_update(
        index_elements=["project_id"], set_={"settings": row["settings"]}
    )
    connection.execute(statement, row)
    changed(connection, insert)


def delete_project(connection: Connection, insert: Insert, project_id: str) -> bool:
    """Remove one; what refers to it goes with it."""
    table = tables.projects
    gone = connection.execute(delete(table).where(table.c.project_id == escape_text(project_id)))
    changed(connection, insert)
    return gone.rowcount > 0


def tokens(connection: Connection) -> list[StoredToken]:
    """All, by name."""
    table = tables.tokens
    rows = connection.execute(select(table).order_by(table.c.name)).mappings()
    return [row_mapping.token_from(row) for row in rows]


def save_token(connection: Connection, insert: Insert, token: StoredToken) -> None:
    """Insert or replace."""
    row = row_mapping.token_row(token)
    statement = insert(tables.tokens).on_conflict_do_update(index_elements=["token_id"], set_=row)
    connection.execute(statement, row)
    changed(connection, insert)


def delete_token(connection: Connection, insert: Insert, token_id: str) -> bool:
    """Remove one."""
    table = tables.tokens
    gone = connection.execute(delete(table).where(table.c.token_id == escape_text(token_id)))
    changed(connection, insert)
    return gone.rowcount > 0


def touch_tokens(connection: Connection, used: Mapping[str, str]) -> None:
    """Note their last use."""
    table = tables.tokens
    statement = (
        update(table)
        .where(table.c.token_id == bindparam("id_"))
        .values(last_used_at=bindparam("at_"))
    )
    connection.execute(
        statement, [{"id_": escape_text(one), "at_": at} for one, at in used.items()]
    )


def permissions(connection: Connection) -> list[StoredPermission]:
    """All, oldest first."""
    table = tables.permissions
    rows = connection.execute(select(table).order_by(table.c.permission_id)).mappings()
    return [row_mapping.permission_from(row) for row in rows]


def save_permissions(
    connection: Connection, insert: Insert, rules: Sequence[StoredPermission]
) -> None:
    """Add rules."""
    connection.execute(
        insert(tables.permissions), [row_mapping.permission_row(rule) for rule in rules]
    )
    changed(connection, insert)


def delete_permissions(
    connection: Connection, insert: Insert, permission_ids: Collection[str]
) -> int:
    """Remove rules."""
    table = tables.permissions
    ids = list(map(escape_text, permission_ids))
    gone = connection.execute(delete(table).where(table.c.permission_id.in_(ids)))
    changed(connection, insert)
    return gone.rowcount


def guards(connection: Connection) -> list[StoredGuard]:
    """All, oldest first."""
    table = tables.guards
    rows = connection.execute(select(table).order_by(table.c.guard_id)).mappings()
    return [row_mapping.guard_from(row) for row in rows]


def save_guard(connection: Connection, insert: Insert, guard: StoredGuard) -> None:
    """Add one."""
    connection.execute(insert(tables.guards), row_mapping.guard_row(guard))
    changed(connection, insert)


def delete_guards(connection: Connection, insert: Insert, guard_ids: Collection[str]) -> int:
    """Remove guards."""
    table = tables.guards
    ids = list(map(escape_text, guard_ids))
    gone = connection.execute(delete(table).where(table.c.guard_id.in_(ids)))
    changed(connection, insert)
    return gone.rowcount
