"""Credentials for servers and the keys that encrypt them, in SQL."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, update

from toolgate.base.ids import utc_now
from toolgate.store.engine import tables
from toolgate.store.engine.database import Insert, SqlRepository, writes
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.repositories.credentials import CredentialKey, StoredCredential, WrappedKey
from toolgate.store.sql.security.access import count_change


class SqlCredentials(SqlRepository):
    """Implements `CredentialRepository`."""

    async def select(
        self, server: str | None = None, *, kind: str | None = None
    ) -> list[StoredCredential]:
        """Credentials of a server or of all, by project, server, subject and kind."""
        table = tables.credentials
        query = select(table).order_by(
            table.c.project_id, table.c.server, table.c.subject, table.c.kind
        )
        if server is not None:
            query = query.where(table.c.server == escape_text(server))
        if kind is not None:
            query = query.where(table.c.kind == kind)
        return await self.database.fetch_all(query, _from)

    async def get(self, key: CredentialKey) -> StoredCredential | None:
        """A credential; None if it does not exist."""
        return await self.database.fetch_first(select(tables.credentials).where(_is(key)), _from)

    async def save(
        self, credential: StoredCredential, *, over: int | None = None, quietly: bool = False
    ) -> bool:
        """Insert or replace a credential. False if the condition `over` was not met."""
        insert = self.database.insert
        return await self.database.write(
            lambda opened: _save(opened, insert, credential, over=over, quietly=quietly)
        )

    @writes
    def delete(
        self,
        connection: Connection,
        server: str | None = None,
        *,
        subject: str | None = None,
        kind: str | None = None,
        project_id: str | None = None,
        before: str | None = None,
    ) -> int:
        """Delete credentials that match all arguments. Returns how many existed."""
        table = tables.credentials
        values = {"server": server, "subject": subject, "kind": kind, "project_id": project_id}
        statement = delete(table).where(
            *(
                table.c[name] == escape_text(text)
                for name, text in values.items()
                if text is not None
            )
        )
        if before is not None:
            statement = statement.where(table.c.updated_at < before)

        count = connection.execute(statement).rowcount
        if count and kind != "pending":
            count_change(connection, self.database.insert)
        return count

    async def lease(self, key: CredentialKey, by: str, until: str, now: str) -> bool:
        """Take the exclusive right to renew a credential. False if another process has it."""
        table = tables.credentials
        free = _is(key) & ((table.c.lease_by.in_(["", by])) | (table.c.lease_until < now))
        statement = update(table).where(free).values(lease_by=escape_text(by), lease_until=until)
        return await self.database.execute(statement) > 0

    async def keys(self) -> list[WrappedKey]:
        """All keys, oldest first."""
        table = tables.credential_keys
        query = select(table).order_by(table.c.key_id)
        return await self.database.fetch_all(query, lambda row: WrappedKey(**row))

    @writes
    def save_keys(
        self, connection: Connection, keys: tuple[WrappedKey, ...], *, only_first: bool = False
    ) -> bool:
        """Insert or replace keys, all or none; with `only_first`, only if there are none yet."""
        table, insert = tables.credential_keys, self.database.insert
        statement = insert(table)
        statement = statement.on_conflict_do_update(
            index_elements=["key_id"],
            set_={name: statement.excluded[name] for name in ("wrapped_by", "wrapped")},
        )

        if only_first:
            # Two processes that start at once would each create a first key: the row of the
            # version, which is locked first, prevents that.
            count_change(connection, insert)
            if connection.execute(select(table.c.key_id).limit(1)).first() is not None:
                return False
        connection.execute(statement, [vars(key) for key in keys])
        return True

    async def delete_keys(self, key_ids: tuple[str, ...]) -> int:
        """Delete keys that no credential uses. Returns how many existed."""
        table, used = tables.credential_keys, tables.credentials
        unused = table.c.key_id.in_(list(key_ids)) & table.c.key_id.not_in(
            select(used.c.key_id).distinct()
        )
        return await self.database.execute(delete(table).where(unused))


def _save(
    connection: Connection,
    insert: Insert,
    credential: StoredCredential,
    *,
    over: int | None,
    quietly: bool,
) -> bool:
    table = tables.credentials
    values = {
        "key_id": escape_text(credential.key_id),
        "sealed": credential.sealed,
        "shown": credential.shown,
        "lease_by": "",
        "lease_until": "",
        "updated_at": utc_now(),
    }
    row = {**{name: escape_text(text) for name, text in vars(credential.key).items()}, **values}
    changed = 0
    if over != 0:
        condition = _is(credential.key)
        if over is not None:
            condition &= table.c.version == over
        renewed = {**values, "version": table.c.version + 1}
        changed = connection.execute(update(table).where(condition).values(**renewed)).rowcount
    if not changed and not over:
        added = insert(table).on_conflict_do_nothing().returning(table.c.version)
        changed = len(connection.execute(added, {**row, "version": 1}).all())
    if changed and not quietly:
        count_change(connection, insert)
    return changed > 0


def _is(key: CredentialKey) -> ColumnElement[bool]:
    table = tables.credentials
    return (
        (table.c.project_id == escape_text(key.project_id))
        & (table.c.server == escape_text(key.server))
        & (table.c.subject == escape_text(key.subject))
        & (table.c.kind == key.kind)
    )


def _from(row: Mapping[Any, Any]) -> StoredCredential:
    values = dict(row)
    names = ("project_id", "server", "subject", "kind")
    key = CredentialKey(**{name: unescape_text(values.pop(name)) for name in names})
    return StoredCredential(key=key, **values)
