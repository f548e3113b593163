"""Versions of schemas over time: read, stored, compared."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

import anyio
import orjson
from anyio import to_thread

from toolgate.base.ids import utc_now, utc_text
from toolgate.databases.connections.connection import Connection, Connections
from toolgate.databases.connections.schema import Schema
from toolgate.databases.connections.schema_diff import (
    SchemaChange,
    changes_between,
    with_unread,
    without,
)
from toolgate.errors import StoreError, ToolgateError
from toolgate.settings import ConnectionTable
from toolgate.store import Store, StoredSchema
from toolgate.types import DEFAULT_PROJECT

log = logging.getLogger(__name__)

_MOST_VERSIONS: Final = 10_000
"""Versions of a schema (chosen: one a day for 27 years)."""
_SLOW_S: Final = 1.0
"""Seconds (chosen: a database that fails later would delay every search)."""
_SILENT_S: Final = 15.0
"""Seconds for which a database that took longer than `_SLOW_S` to fail is not contacted
(chosen)."""

_RACES: Final = 5
"""Lost races against other processes that are tolerated (chosen)."""

_SHORT: Final = 12
"""Digits of a hash shown to people (chosen)."""


@dataclass(frozen=True, kw_only=True)
class SchemaVersion:
    """A version of the schema of a connection."""

    connection: str
    """Name of the connection."""

    number: int
    """Version number, from 1."""

    digest: str
    """Hash of the schema; equal for equal schemas, even in different databases."""

    at: str
    """When it was first seen; UTC, ISO 8601."""

    seen_at: str
    """When it was last seen; UTC, ISO 8601."""

    schema: Schema = field(default_factory=Schema, repr=False)
    """The schema; empty in lists."""

    changes: tuple[SchemaChange, ...] = ()
    """Changes from the previous version; empty for the first."""

    problem: str = ""
    """Why the database could not be read now; empty if this is the current schema."""

    @property
    def label(self) -> str:
        """The start of the hash, for people."""
        return self.digest[:_SHORT]


@dataclass(frozen=True, kw_only=True)
class ChangelogEntry:
    """A change in the changelog."""

    at: str
    """When it was noticed; UTC, ISO 8601. It happened after the previous check."""

    version: SchemaVersion
    """The version with the change."""

    change: SchemaChange
    """The change."""


@dataclass(frozen=True, kw_only=True)
class Changelog:
    """Changes of a schema, newest first."""

    present: SchemaVersion
    """The current version."""

    entries: tuple[ChangelogEntry, ...]
    """The requested number of changes."""

    total: int
    """Number of changes in the period."""

    since: str
    """First check of the schema; UTC, ISO 8601. Earlier changes are unknown."""


class SchemaHistory:
    """Reads the schemas of connections and stores their versions."""

    def __init__(
        self, connections: Connections, store: Store, *, clock: Callable[[], str] = utc_now
    ) -> None:
        """Create a history without reading anything.

        Args:
            connections: The databases.
            store: An open store.
            clock: Returns the time; UTC, ISO 8601.
        """
        self.connections = connections
        self._store = store
        self._clock = clock
        self._looking: dict[str, anyio.Lock] = {}
        self._looked: dict[str, tuple[float, SchemaVersion]] = {}
        self._schemas: dict[str, tuple[str, Schema]] = {}
        self._silent: dict[str, tuple[float, str]] = {}
        self._listeners: list[Callable[[], Awaitable[None]]] = []

    def on_change(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Await a function when connections or schemas have changed."""
        self._listeners.append(listener)

    async def reload(self, tables: Mapping[str, ConnectionTable]) -> None:
        """Apply new settings of connections."""
        await self.connections.reload(tables)
        await self._tell()

    async def refresh(self, connection: Connection) -> SchemaVersion:
        """Read the current version, and store it if it is new.

        Concurrent callers never get a result that is older than their request.

        Raises:
            DatabaseError: The database cannot be read.
            MissingExtraError: The library of this database is not installed.
            SettingError: The address of the connection is invalid.
            StoreError: The version cannot be stored.
        """
        asked = time.monotonic()
        async with self._looking.setdefault(connection.name, anyio.Lock()):
            began, version = self._looked.get(connection.name, (0.0, None))
            if version is not None and began >= asked:
                return version
            began = time.monotonic()
            schema = await connection.schema()
            version = await self._kept(connection.name, schema, connection.table.exclude)
            before = self._looked.get(connection.name)
            self._looked[connection.name] = (began, version)
        if before is None or before[1].digest != version.digest:
            await self._tell()
        return version

    async def latest(self, connection: Connection) -> SchemaVersion:
        """Like `refresh`; if the database does not answer, the last version with the problem.

        Raises:
            DatabaseError: The database cannot be read, and never was.
            MissingExtraError: The library of this database is not installed.
            SettingError: The address of the connection is invalid.
            StoreError: The store cannot be read.
        """
        name = connection.name
        until, problem = self._silent.get(name, (0.0, ""))
        if time.monotonic() < until and (stored := await self.stored_version(name)) is not None:
            return replace(stored, problem=problem)
        began = time.monotonic()
        try:
            return await self.refresh(connection)
        except StoreError:
            raise
        except ToolgateError as error:
            if time.monotonic() - began > _SLOW_S:
                self._silent[name] = (time.monotonic() + _SILENT_S, str(error))
            stored = await self.stored_version(name)
            if stored is None:
                raise
            return replace(stored, problem=str(error))

    async def stored_version(self, name: str) -> SchemaVersion | None:
        """The last stored version, without reading the database.

        Raises:
            StoreError: The store cannot be read.
        """
        stored = await self._store.schemas.latest(DEFAULT_PROJECT, name)
        return None if stored is None else await self._with_schema(stored)

    async def changes(
        self,
        connection: Connection,
        *,
        since: date | datetime | None = None,
        until: date | datetime | None = None,
        limit: int = 10,
    ) -> Changelog:
        """Read the database, and return its changes, newest first.

        Args:
            connection: The connection.
            since: Start of the period; a day starts in UTC.
            until: End of the period, exclusive; a day is included as a whole.
            limit: Largest number of changes.

        Raises:
            DatabaseError: The database cannot be read, and never was.
            MissingExtraError: The library of this database is not installed.
            SettingError: The address of the connection is invalid.
            StoreError: The store cannot be read.
        """
        present = await self.latest(connection)
        stored = await self._store.schemas.versions(
            DEFAULT_PROJECT, connection.name, limit=_MOST_VERSIONS
        )
        first, end = _moment(since, days=0), _moment(until, days=1)
        entries = [
            ChangelogEntry(at=version.at, version=version, change=change)
            for version in map(_version, stored)
            if (not first or version.at >= first) and (not end or version.at < end)
            for change in version.changes
        ]
        return Changelog(
            present=present,
            entries=tuple(entries[:limit]),
            total=len(entries),
            since=stored[-1].at if stored else present.at,
        )

    async def names(self, *, refresh: bool = False) -> tuple[str, ...]:
        """Last known names of the tables and types of all connections.

        Args:
            refresh: Whether to read connections that were never read.

        Returns:
            Unqualified names; connections that do not answer contribute none.
        """
        names: dict[str, None] = {}
        for connection in list(self.connections.values()):
            try:
                version = await self.stored_version(connection.name)
                if version is None and refresh:
                    version = await self.refresh(connection)
            except ToolgateError as error:
                _warn(connection.name, error)
                continue
            if version is not None:
                for item in (*version.schema.tables, *version.schema.types):
                    names[item.name.rpartition(".")[2]] = None
        return tuple(names)

    async def watch(self) -> None:
        """Check each connection at its configured interval, until cancelled.

        The time of the last check is in the store, so checks of other processes and before a
        restart count.
        """
        due: dict[str, float] = {}
        quiet: set[str] = set()
        while True:
            for connection in list(self.connections.values()):
                name, every_s = connection.name, connection.table.snapshot_every_minutes * 60
                if not every_s or due.get(name, 0.0) > time.monotonic():
                    continue
                try:
                    left_s = await self._left_s(name, every_s)
                    if left_s <= 0:
                        left_s = every_s
                        await self.refresh(connection)
                    quiet.discard(name)
                except ToolgateError as error:
                    left_s = every_s
                    if name not in quiet:  # once, not every hour
                        _warn(name, error)
                    quiet.add(name)
                except Exception:  # a fault here must not end all later looks
                    left_s = every_s
                    log.exception("schema not read", extra={"connection": name})
                due[name] = time.monotonic() + left_s
            await anyio.sleep(_TICK_S)

    async def _tell(self) -> None:
        for listener in self._listeners:
            await listener()

    async def _left_s(self, name: str, every_s: float) -> float:
        """Seconds until a check is due; 0 if there was none yet."""
        stored = await self._store.schemas.versions(DEFAULT_PROJECT, name, limit=1)
        if not stored:
            return 0.0
        current_time, seen = map(datetime.fromisoformat, (self._clock(), stored[0].seen_at))
        return every_s - (current_time - seen).total_seconds()

    async def _kept(self, name: str, schema: Schema, exclude: Sequence[str]) -> SchemaVersion:
        """The version of a schema: the last stored one, or a new one.

        Tables that are excluded from now on do not count as removed.
        """
        for _ in range(_RACES):
            stored = await self._store.schemas.latest(DEFAULT_PROJECT, name)
            current_time = self._clock()
            before = None if stored is None else await self._with_schema(stored)
            changes: tuple[SchemaChange, ...] = ()
            if before is not None:
                previous = without(before.schema, exclude)
                schema = with_unread(previous, schema)
                changes = await to_thread.run_sync(changes_between, previous, schema)
                if not changes:
                    await self._store.schemas.mark_seen(
                        DEFAULT_PROJECT, name, before.number, current_time
                    )
                    return replace(before, seen_at=current_time, schema=schema)
            await to_thread.run_sync(getattr, schema, "digest")  # what it is made of too
            fresh = StoredSchema(
                project_id=DEFAULT_PROJECT,
                connection=name,
                number=before.number + 1 if before else 1,
                digest=schema.digest,
                at=current_time,
                seen_at=current_time,
                content=schema.content,
                changes=orjson.dumps([asdict(change) for change in changes]),
            )
            if await self._store.schemas.add(fresh):
                log.info(
                    "schema changed" if before else "schema seen first",
                    extra={"connection": name, "version": fresh.number, "changes": len(changes)},
                )
                self._schemas[name] = (fresh.digest, schema)
                return replace(_version(fresh), schema=schema)
        raise StoreError(
            f"The schema of the connection {name!r} changes faster than it can be stored.",
            hint="Try again.",
        )

    async def _with_schema(self, stored: StoredSchema) -> SchemaVersion:
        """A version with its schema; the schema of the last version is cached."""
        digest, schema = self._schemas.get(stored.connection, ("", Schema()))
        if digest != stored.digest:
            schema = await to_thread.run_sync(Schema.from_content, stored.content)
            self._schemas[stored.connection] = (stored.digest, schema)
        return replace(_version(stored), schema=schema)


_TICK_S: Final = 5.0
"""Seconds between two looks at the clock, so that new settings are noticed (chosen)."""


def _warn(name: str, error: ToolgateError) -> None:
    log.warning("schema not read", extra={"connection": name, "reason": str(error)})


def _version(stored: StoredSchema) -> SchemaVersion:
    """A version without its schema."""
    return SchemaVersion(
        connection=stored.connection,
        number=stored.number,
        digest=stored.digest,
        at=stored.at,
        seen_at=stored.seen_at,
        changes=_read_changes(stored.changes),
    )


def _read_changes(content: bytes) -> tuple[SchemaChange, ...]:
    plain: Sequence[dict[str, str]] = orjson.loads(content) if content else ()
    return tuple(SchemaChange(**item) for item in plain)  # pyright: ignore[reportArgumentType] -- as written


def _moment(moment: date | datetime | None, *, days: int) -> str:
    """A time in the format of the store; for a day, its start plus `days`."""
    if moment is None:
        return ""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC) + timedelta(days=days)
    return utc_text(moment)
