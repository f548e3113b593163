"""Credentials towards servers and the keys that they are encrypted with, in SQL."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, delete, select, update

from toolgate.base.ids import utc_now
from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.records.credentials import CredentialKey, StoredCredential, WrappedKey
from toolgate.store.sql import access

__all__ = ["SqlCredentials"]

T = TypeVar("T")


class SqlCredentials:
    """That part over SQLAlchemy Core; `SqlStore` brings the transactions."""

    _insert: Callable[[Table], Any]

    async def _read(self, work: Callable[[Connection], T]) -> T:
        raise NotImplementedError

    async def _write(self, work: Callable[[Connection], T]) -> T:
        raise NotImplementedError

    async def credentials(
        self, server: str | None = None, *, kind: str | None = None
    ) -> list[StoredCredential]:
        """Credentials, of a server or of all, by project, server, subject and kind."""
        return await self._read(lambda opened: find(opened, server, kind))

    async def credential(self, key: CredentialKey) -> StoredCredential | None:
        """One of them; None when there is none."""
        return await self._read(lambda opened: get(opened, key))

    async def save_credential(
        self, credential: StoredCredential, *, over: int | None = None, quietly: bool = False
    ) -> bool:
        """Insert or replace one; False when that was not done."""
        return await self._write(
            lambda opened: save(opened, self._insert, credential, over=over, quietly=quietly)
        )

    async def delete_credentials(
        self,
        server: str | None = None,
        *,
        subject: str | None = None,
        kind: str | None = None,
        project_id: str | None = None,
        before: str | None = None,
    ) -> int:
        """Remove those that fit all that is given; gives how many there were."""
        given = {"server": server, "subject": subject, "kind": kind, "project_id": project_id}
        wanted = {name: escape_text(text) for name, text in given.items() if text is not None}
        return await self._write(lambda opened: remove(opened, self._insert, wanted, before))

    async def lease_credential(self, key: CredentialKey, by: str, until: str, now: str) -> bool:
        """Take the right to renew one, unless somebody else has it; whether it was taken."""
        return await self._write(lambda opened: lease(opened, key, by, until, now))

    async def wrapped_keys(self) -> list[WrappedKey]:
        """All keys, oldest first."""
        return await self._read(keys)

    async def save_wrapped_keys(
        self, keys: tuple[WrappedKey, ...], *, only_first: bool = False
    ) -> bool:
        """Insert or replace keys, all or none; with `only_first`, only where there is none yet."""
        return await self._write(
            lambda opened: save_keys(opened, self._insert, keys, only_first=only_first)
        )

    async def delete_wrapped_keys(self, key_ids: tuple[str, ...]) -> int:
        """Remove keys that no credential is encrypted with; gives how many there were."""
        return await self._write(lambda opened: remove_keys(opened, key_ids))


def find(connection: Connection, server: str | None, kind: str | None) -> list[StoredCredential]:
    """Credentials of a server or of all."""
    table = tables.credentials
    wanted = select(table).order_by(
        table.c.project_id, table.c.server, table.c.subject, table.c.kind
    )
    if server is not None:
        wanted = wanted.where(table.c.server == escape_text(server))
    if kind is not None:
        wanted = wanted.where(table.c.kind == kind)
    return [_from(row) for row in connection.execute(wanted).mappings()]


def get(connection: Connection, key: CredentialKey) -> StoredCredential | None:
    """One, or None."""
    row = connection.execute(select(tables.credentials).where(_is(key))).mappings().first()
    return None if row is None else _from(row)


def save(
    connection: Connection,
    insert: Callable[[Table], Any],
    credential: StoredCredential,
    *,
    over: int | None,
    quietly: bool,
) -> bool:
    """Insert or replace; whether it was."""
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
        here = _is(credential.key)
        if over is not None:
            here &= table.c.version == over
        renewed = {**values, "version": table.c.version + 1}
        changed = connection.execute(update(table).where(here).values(**renewed)).rowcount
    if not changed and not over:
        added = insert(table).on_conflict_do_nothing().returning(table.c.version)
        changed = len(connection.execute(added, {**row, "version": 1}).all())
    if changed and not quietly:
        access.changed(connection, insert)
    return changed > 0


def remove(
    connection: Connection,
    insert: Callable[[Table], Any],
    wanted: Mapping[str, str],
    before: str | None,
) -> int:
    """Remove those that fit."""
    table = tables.credentials
    statement = delete(table).where(*(table.c[name] == text for name, text in wanted.items()))
    if before is not None:
        statement = statement.where(table.c.updated_at < before)
    gone = connection.execute(statement).rowcount
    if gone and wanted.get("kind") != "pending":
        access.changed(connection, insert)
    return gone


def lease(connection: Connection, key: CredentialKey, by: str, until: str, now: str) -> bool:
    """Take the right to renew one."""
    table = tables.credentials
    free = _is(key) & ((table.c.lease_by.in_(["", by])) | (table.c.lease_until < now))
    taken = connection.execute(
        update(table).where(free).values(lease_by=escape_text(by), lease_until=until)
    )
    return taken.rowcount > 0


def keys(connection: Connection) -> list[WrappedKey]:
    """All keys, oldest first."""
    table = tables.credential_keys
    rows = connection.execute(select(table).order_by(table.c.key_id)).mappings()
    return [WrappedKey(**row) for row in rows]


def save_keys(
    connection: Connection,
    insert: Callable[[Table], Any],
    new: tuple[WrappedKey, ...],
    *,
    only_first: bool,
) -> bool:
    """Insert or replace keys."""
    table = tables.credential_keys
    if only_first:
        # Two processes that begin at once would each make a first key: the row of the version
        # stands for all of them, and is locked first.
        access.changed(connection, insert)
        if connection.execute(select(table.c.key_id).limit(1)).first() is not None:
            return False
    statement = insert(table)
    statement = statement.on_conflict_do_update(
        index_elements=["key_id"],
        set_={name: statement.excluded[name] for name in ("wrapped_by", "wrapped")},
    )
    connection.execute(statement, [vars(key) for key in new])
    return True


def remove_keys(connection: Connection, key_ids: tuple[str, ...]) -> int:
    """Remove keys that nothing is encrypted with."""
    table, used = tables.credential_keys, tables.credentials
    unused = table.c.key_id.in_(list(key_ids)) & table.c.key_id.not_in(
        select(used.c.key_id).distinct()
    )
    return connection.execute(delete(table).where(unused)).rowcount


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
