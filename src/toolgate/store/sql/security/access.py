"""Projects, tokens, permission rules and guards in SQL. Every change increments the version."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, func, select, update

from toolgate.base.ids import utc_now
from toolgate.store.engine import tables
from toolgate.store.engine.database import CHANGE_CHANNEL, Insert, SqlDatabase, SqlRepository
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.access import (
    CallGrant,
    DayUsage,
    FullLimit,
    StoredGuard,
    StoredPermission,
    StoredProject,
    StoredToken,
)
from toolgate.store.sql import row_mapping
from toolgate.store.sql.security.limits import CallBucket, CallSlots, add_day_usage

_REFERENCE = "null"
"""Settings, as JSON, of a project that is only referred to."""

_STATE_ID = 1
"""Id of the only row of `access_state`."""


def count_change(connection: Connection, insert: Insert) -> None:
    """Increment the version of the access data, so that other processes reload it."""
    table = tables.access_state
    statement = insert(table).on_conflict_do_update(
        index_elements=["state_id"], set_={"version": table.c.version + 1}
    )
    connection.execute(statement, {"state_id": _STATE_ID, "version": 1})
    if connection.dialect.name == "postgresql":  # sent when the transaction commits
        connection.execute(select(func.pg_notify(CHANGE_CHANNEL, "")))


async def _change(database: SqlDatabase, work: Callable[[Connection], int | None]) -> int | None:
    """Run work that changes access data and count the change, in one transaction."""

    def change(connection: Connection) -> int | None:
        result = work(connection)
        count_change(connection, database.insert)
        return result

    return await database.write(change)


async def _delete(database: SqlDatabase, table: Table, condition: ColumnElement[bool]) -> int:
    statement = delete(table).where(condition)
    count = await _change(database, lambda connection: connection.execute(statement).rowcount)
    return count or 0


class SqlProjects(SqlRepository):
    """Implements `ProjectRepository`."""

    async def add_references(self, project_ids: Collection[str]) -> None:
        """Allow rows to refer to projects that are defined in `toolgate.toml`."""
        rows = [
            {
                "project_id": escape_text(project_id),
                "created_at": utc_now(),
                "settings": _REFERENCE,
            }
            for project_id in project_ids
        ]
        if rows:
            statement = self.database.insert(tables.projects).on_conflict_do_nothing()
            await self.database.execute(statement, rows)

    async def list_all(self) -> list[StoredProject]:
        """All projects defined in the store and the default one, by name."""
        table = tables.projects
        query = select(table).where(table.c.settings != _REFERENCE).order_by(table.c.project_id)
        return await self.database.fetch_all(query, row_mapping.project_from)

    async def save(self, project: StoredProject) -> None:
        """Insert a project, or replace the settings of an existing one."""
        created_at = project.created_at or utc_now()
        row = row_mapping.project_row(replace(project, created_at=created_at))
        statement = self.database.insert(tables.projects).on_conflict_do_update(
            index_elements=["project_id"], set_={"settings": row["settings"]}
        )
        await _change(self.database, _executing(statement, row))

    async def delete(self, project_id: str) -> bool:
        """Delete a project and everything that belongs to it. False if it does not exist."""
        name = escape_text(project_id)
        collections = tables.document_collections
        its_vectors = select(collections.c.shelf_id).where(collections.c.project_id == name)

        def remove(connection: Connection) -> int:
            # No foreign key leads from vectors to their owners, so nothing cascades to them.
            statement = delete(tables.vectors)
            connection.execute(statement.where(tables.vectors.c.collection_id.in_(its_vectors)))
            table = tables.projects
            return connection.execute(delete(table).where(table.c.project_id == name)).rowcount

        return bool(await _change(self.database, remove))


class SqlAccessRules:
    """Implements `AccessRepository`."""

    def __init__(self, database: SqlDatabase, *, shares_limits: bool) -> None:
        """Create the repository.

        Args:
            database: The database.
            shares_limits: Whether processes on several machines may use it.
        """
        self.database = database
        self.shares_limits = shares_limits

    async def tokens(self) -> list[StoredToken]:
        """All tokens by name, including revoked and expired ones."""
        table = tables.tokens
        query = select(table).order_by(table.c.name)
        return await self.database.fetch_all(query, row_mapping.token_from)

    async def save_token(self, token: StoredToken) -> None:
        """Insert a token, or replace the one with the same `token_id`."""
        row = row_mapping.token_row(token)
        statement = self.database.insert(tables.tokens).on_conflict_do_update(
            index_elements=["token_id"], set_=row
        )
        await _change(self.database, _executing(statement, row))

    async def delete_token(self, token_id: str) -> bool:
        """Delete a token. False if it does not exist."""
        table = tables.tokens
        condition = table.c.token_id == escape_text(token_id)
        return await _delete(self.database, table, condition) > 0

    async def touch_tokens(self, used: Mapping[str, str]) -> None:
        """Set the time of last use by `token_id`; does not count as a change."""
        if not used:
            return
        table = tables.tokens
        statement = (
            update(table)
            .where(table.c.token_id == bindparam("id_"))
            .values(last_used_at=bindparam("at_"))
        )
        rows = [{"id_": escape_text(token_id), "at_": at} for token_id, at in used.items()]
        await self.database.execute(statement, rows)

    async def permissions(self) -> list[StoredPermission]:
        """All permission rules, oldest first."""
        table = tables.permissions
        query = select(table).order_by(table.c.permission_id)
        return await self.database.fetch_all(query, row_mapping.permission_from)

    async def save_permissions(self, rules: Sequence[StoredPermission]) -> None:
        """Add rules; all or none."""
        if rules:
            rows = [row_mapping.permission_row(rule) for rule in rules]
            statement = self.database.insert(tables.permissions)
            await _change(self.database, _executing(statement, rows))

    async def delete_permissions(self, permission_ids: Collection[str]) -> int:
        """Delete rules. Returns how many existed."""
        table = tables.permissions
        condition = table.c.permission_id.in_(list(map(escape_text, permission_ids)))
        return await _delete(self.database, table, condition)

    async def guards(self) -> list[StoredGuard]:
        """All guards, oldest first."""
        table = tables.guards
        query = select(table).order_by(table.c.guard_id)
        return await self.database.fetch_all(query, row_mapping.guard_from)

    async def save_guard(self, guard: StoredGuard) -> None:
        """Add a guard."""
        statement = self.database.insert(tables.guards)
        await _change(self.database, _executing(statement, row_mapping.guard_row(guard)))

    async def delete_guards(self, guard_ids: Collection[str]) -> int:
        """Delete guards. Returns how many existed."""
        table = tables.guards
        condition = table.c.guard_id.in_(list(map(escape_text, guard_ids)))
        return await _delete(self.database, table, condition)

    async def version(self) -> int:
        """A number that grows with each change that other processes must reload."""
        query = select(tables.access_state.c.version)
        return await self.database.read(lambda opened: opened.execute(query).scalar()) or 0

    async def wait_for_change(self, within_s: float) -> tuple[str, ...]:
        """Return when another process may have changed `version`, or after `within_s` seconds."""
        return await self.database.wait_for_change(within_s)

    async def announce_session_end(self, session_id: str) -> None:
        """Let `wait_for_change` return the id of a session in all other processes."""
        await self.database.announce(session_id)

    async def add_day_usage(self, day: str, used: Mapping[str, DayUsage]) -> dict[str, DayUsage]:
        """Add usage of a day by name. Returns the totals of these names."""
        return await add_day_usage(self.database, day, used)

    async def take_calls(
        self, name: str, *, per_minute: int, up_to: int, now_s: float
    ) -> CallGrant:
        """Take calls from a token bucket that processes share."""
        bucket = CallBucket(name=escape_text(name), per_minute=per_minute)
        return await self.database.write(
            lambda connection: bucket.take(
                connection, self.database.insert, up_to=up_to, now_s=now_s
            )
        )

    async def take_slots(
        self, limits: Mapping[str, int], *, call_id: str, lease_s: float
    ) -> FullLimit | None:
        """Take a slot of each limit for a call, or none. Returns a limit that is full, if any."""
        slots = CallSlots(lease_s)
        return await self.database.write(lambda connection: slots.take(connection, limits, call_id))

    async def renew_slots(self, call_ids: Collection[str], *, lease_s: float) -> None:
        """Extend the slots of calls to `lease_s` seconds from now; create none."""
        slots = CallSlots(lease_s)
        await self.database.write(lambda connection: slots.renew(connection, call_ids))

    async def free_slots(self, call_ids: Collection[str]) -> None:
        """Release the slots of calls that ended, and delete expired ones."""
        slots = CallSlots(0.0)
        await self.database.write(lambda connection: slots.free(connection, call_ids))


def _executing(statement: Any, rows: Any) -> Callable[[Connection], None]:
    def execute(connection: Connection) -> None:
        connection.execute(statement, rows)

    return execute
