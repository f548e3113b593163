"""The PostgreSQL store, which several gateways can share."""

import os
import socket
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakSet

import anyio.to_thread
import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import ArgumentError

from toolgate import __version__
from toolgate.errors import OptionError, StoreVersionError
from toolgate.store._change_listener import ChangeListener
from toolgate.store.base import SchemaUpgrade, Store
from toolgate.store.engine import backups, schema_version
from toolgate.store.engine import tables as _tables
from toolgate.store.engine.database import CHANGE_CHANNEL
from toolgate.store.sql.store import SqlStore

_UPGRADE_LOCK = 0x746F6F6C67617465
"""Key of the advisory lock: `toolgate` in ASCII."""

_CONNECTIONS = 4
"""Connections for writing, and as many for reading (chosen: a process uses one core)."""

_HALF_DEAD: Mapping[str, object] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Notice within seconds that the server has vanished; parameters of the URL take precedence.
https://www.postgresql.org/docs/current/libpq-connect.html"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the PostgreSQL store."""

    url: str
    """`postgresql://USER:PASSWORD@HOST:PORT/NAME`. WARNING: may contain a password; never shown."""

    lock_timeout_s: float = 10.0
    """Seconds to wait for a lock of another process before the request fails."""


def build(options: Options) -> "PostgresStore":
    """Create a store without connecting."""
    try:
        url = make_url(options.url).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError) as error:
        raise OptionError(
            "store.url is not a PostgreSQL URL.",
            allowed="Allowed: postgresql://USER@HOST/NAME.",
            hint="Correct store.url.",
        ) from error
    return PostgresStore(url, lock_timeout_s=options.lock_timeout_s)


class PostgresStore(SqlStore):
    """A database for any number of processes on any number of machines."""

    _driver_errors = (psycopg.Error, sqlite3.Error)

    def __init__(self, url: URL, *, lock_timeout_s: float = 10.0) -> None:
        engine = _engine(url, lock_timeout_s)
        super().__init__(engine, _safe_url(url), insert=insert, writers=_CONNECTIONS)
        self._in_use = _ConnectionsInUse(engine)

        address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._listener = ChangeListener(address)

    async def wait_for_change(self, within_s: float) -> tuple[str, ...]:
        """Return what other processes have announced as soon as they do, or after `within_s`."""
        return await self._listener.wait(within_s)

    async def announce(self, text: str) -> None:
        """Announce a text of at most 7,999 bytes to other processes."""
        await self.write(
            lambda connection: connection.execute(select(func.pg_notify(CHANGE_CHANNEL, text)))
        )

    async def close(self) -> None:
        """Close all connections, also those on which a database that hangs is waited for."""
        await self._listener.close()
        await super().close()
        self._in_use.break_off()

    @property
    def vector_backend(self) -> str:
        """Vectors are stored in the same database."""
        return "pgvector"

    async def open(self) -> None:
        """Connect, and create the tables of an empty database."""
        self._in_use.is_broken_off = False

        def prepare(connection: Connection) -> None:
            standing = schema_version.read_status(connection)
            if standing.kind == "empty":
                _lock(connection)
                standing = schema_version.read_status(
                    connection
                )  # again: another process may have been faster
                if standing.kind == "empty":
                    schema_version.create(connection)
                    return
            schema_version.require_upgradable(standing, self.url)
            if standing.kind == "old":
                raise StoreVersionError(
                    f"The store {self.url} has schema {standing.found!r}, and Toolgate"
                    f" {__version__} needs {_tables.REVISIONS[-1]!r}.",
                    hint="Run toolgate db backup FILE, then toolgate db upgrade.",
                )

        await self.write(prepare)

    async def upgrade(self) -> SchemaUpgrade:
        """Upgrade the schema, under a lock shared by all processes."""

        def run(connection: Connection) -> SchemaUpgrade:
            _lock(connection)
            standing = schema_version.read_status(connection)
            schema_version.require_upgradable(standing, self.url)
            if standing.kind == "empty":
                schema_version.create(connection)
            elif standing.kind == "old":
                schema_version.migrate(connection)
            return SchemaUpgrade(before=standing.found, after=_tables.REVISIONS[-1])

        return await self.write(run)

    async def backup(self, target: Path) -> None:
        """Write a consistent copy to a SQLite file."""
        engine = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )

        def write() -> None:
            with self._translated(), engine.begin() as connection:
                backups.write_file(connection, target)

        await anyio.to_thread.run_sync(write, limiter=self._reads)

    async def restore(self, source: Path) -> dict[str, int]:
        """Replace all rows."""
        await self.open()
        return await super().restore(source)

    def _total_bytes(self, connection: Connection) -> int:
        names = ", ".join(f"'{name}'" for name in _tables.metadata.tables)
        size = (
            f"SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(ARRAY[{names}]) name"  # noqa: S608
        )
        return int(connection.exec_driver_sql(size).scalar_one())


class _ConnectionsInUse:
    """The open connections of an engine, until it is closed."""

    def __init__(self, engine: Engine) -> None:
        self._connections = WeakSet[psycopg.Connection[Any]]()
        self.is_broken_off = False
        """Whether further connections are refused."""
        event.listen(engine, "do_connect", self._refuse)
        # Before the listener that sends the first statement, which may already hang.
        event.listen(engine, "connect", self._note, insert=True)

    def break_off(self) -> None:
        """Break the connections, so that threads stop waiting; further ones are refused."""
        self.is_broken_off = True
        for connection in list(self._connections):
            if not connection.closed:
                with suppress(OSError, psycopg.Error), _socket_of(connection) as opened:
                    opened.shutdown(socket.SHUT_RDWR)

    def _note(self, connection: psycopg.Connection[Any], _record: object) -> None:
        self._connections.add(connection)
        if self.is_broken_off:  # meanwhile
            connection.close()
            self._refuse()

    def _refuse(self, *_: object) -> None:
        if self.is_broken_off:
            raise psycopg.OperationalError("the store was closed")


def _socket_of(connection: psycopg.Connection[Any]) -> socket.socket:
    return socket.socket(fileno=os.dup(connection.fileno()))


def _engine(url: URL, lock_timeout_s: float) -> Engine:
    engine = create_engine(
        url,
        module=psycopg,  # imported above, so that its absence names the extra that brings it
        pool_size=2 * _CONNECTIONS,
        pool_pre_ping=True,  # a server that was restarted meanwhile costs no request
        connect_args={key: value for key, value in _HALF_DEAD.items() if key not in url.query},
    )

    def set_up(connection: Any, _record: object) -> None:
        connection.execute(f"SET lock_timeout = {round(lock_timeout_s * 1000)}")
        connection.commit()

    event.listen(engine, "connect", set_up)
    return engine


def _safe_url(url: URL) -> str:
    safe_url = url.set(drivername="postgresql").difference_update_query(["password", "sslpassword"])
    return safe_url._replace(password=None).render_as_string()


def _lock(connection: Connection) -> None:
    """Prevent concurrent schema changes until the end of the transaction."""
    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})")


_: type[Store] = PostgresStore
