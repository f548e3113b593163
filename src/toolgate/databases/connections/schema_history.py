"""Versions of schemas over time: captured, stored, compared."""

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

__all__ = ["Changelog", "ChangelogEntry", "SchemaHistory", "SchemaVersion"]

log = logging.getLogger(__name__)

_MOST_VERSIONS: Final = 10_000
"""Versions of a schema; chosen: one a day for 27 years."""
_SLOW_S: Final = 1.0
"""Seconds; chosen: a database that fails later than this would hold up every search."""
_SILENT_S: Final = 15.0
"""Seconds that a database which took more than `_SLOW_S` to fail is not asked again."""

_RACES: Final = 5
"""Times that another process may be faster before it is a fault."""

_SHORT: Final = 12
"""Digits of a hash that people are shown."""


@dataclass(frozen=True, kw_only=True)
class SchemaVersion:
    """A version of the schema of a connection."""

    connection: str
    """Name of the connection."""

    number: int
    """Counts the versions that were seen, from 1."""

    digest: str
    """Hash of the schema; equal schemas have equal ones, also in other databases."""

    at: str
    """When it was seen first; UTC, ISO 8601."""

    seen_at: str
    """When it was seen last; UTC, ISO 8601."""

    schema: Schema = field(default_factory=Schema, repr=False)
    """The schema itself; empty in lists."""

    changes: tuple[SchemaChange, ...] = ()
    """What it changed in the version before; empty for the first."""

    problem: str = ""
    """Why the database could not be looked at just now; empty: this is how it is now."""

    @property
    def label(self) -> str:
        """The beginning of the hash, for people."""
        return self.digest[:_SHORT]


@dataclass(frozen=True, kw_only=True)
class ChangelogEntry:
    """One change in the log."""

    at: str
    """When it was seen; UTC, ISO 8601. It happened after the look before."""

    version: SchemaVersion
    """The version that has it."""

    change: SchemaChange
    """What it was."""


@dataclass(frozen=True, kw_only=True)
class Changelog:
    """Changes of a schema, newest first."""

    present: SchemaVersion
    """The version as it is now."""

    entries: tuple[ChangelogEntry, ...]
    """As many as were asked for."""

    total: int
    """How many there are in the period."""

    since: str
    """When the schema was looked at first; UTC, ISO 8601. What changed before is not known."""


class SchemaHistory:
    """Looks at the schemas of connections and keeps what it sees in the store."""

    def __init__(
        self, connections: Connections, store: Store, *, clock: Callable[[], str] = utc_now
    ) -> None:
        """Make a history; nothing is looked at yet.

        Args:
            connections: The databases.
            store: An open one.
            clock: Gives the time; UTC, ISO 8601.
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
        """Have a function awaited when there are other connections, or a schema is another one."""
        self._listeners.append(listener)

    async def reload(self, tables: Mapping[str, ConnectionTable]) -> None:
        """Take new settings of connections over."""
        await self.connections.reload(tables)
        await self._tell()

    async def refresh(self, connection: Connection) -> SchemaVersion:
        """The version as it is now; what is new in it is kept.

        Whoever asks while somebody looks gets the next answer, not one that is older than the
        question.

        Raises:
            DatabaseError: The database cannot be read.
            MissingExtraError: The library for this kind of database is not installed.
            SettingError: The address of the connection is none.
            StoreError: The version cannot be kept.
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
        """As `look`; the last known version with its problem where the database does not answer.

        Raises:
            DatabaseError: The database cannot be read, and never was.
            MissingExtraError: The library for this kind of database is not installed.
            SettingError: The address of the connection is none.
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
        """The last version that was kept, without a look at the database.

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
        """What changed, newest first, after a look at the database.

        Args:
            connection: Which schema.
            since: The first moment; a day begins in UTC.
            until: The first moment after the period; a day is inside as a whole.
            limit: At most as many changes.

        Raises:
            DatabaseError: The database cannot be read, and never was.
            MissingExtraError: The library for this kind of database is not installed.
            SettingError: The address of the connection is none.
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
        """Names of the tables and types of all connections, as they were seen last.

        Args:
            refresh: Whether a connection that was never looked at is looked at now.

        Gives:
            Names without their schemas; none of a connection that does not answer.
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
        """Look at each connection from time to time, as it is set, until cancelled.

        The time of the last look is in the store: after a restart, and among several processes, it
        counts whoever looked.
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
        """Seconds until a look is due; none when it was never looked at."""
        stored = await self._store.schemas.versions(DEFAULT_PROJECT, name, limit=1)
        if not stored:
            return 0.0
        current_time, seen = map(datetime.fromisoformat, (self._clock(), stored[0].seen_at))
        return every_s - (current_time - seen).total_seconds()

    async def _kept(self, name: str, schema: Schema, exclude: Sequence[str]) -> SchemaVersion:
        """The version that the schema is: the last one, or a new one.

        A table that is left out from now on is not gone.
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
            f"The schema of the connection {name!r} changes faster than it can be kept.",
            hint="Try again.",
        )

    async def _with_schema(self, stored: StoredSchema) -> SchemaVersion:
        """A version with its schema, which is read once as long as it is the last one."""
        digest, schema = self._schemas.get(stored.connection, ("", Schema()))
        if digest != stored.digest:
            schema = await to_thread.run_sync(Schema.from_content, stored.content)
            self._schemas[stored.connection] = (stored.digest, schema)
        return replace(_version(stored), schema=schema)


_TICK_S: Final = 5.0
"""Seconds from one look at the clock to the next, so that new settings are noticed."""


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
    """A moment as the store has it; of a day the first one, `days` later."""
    if moment is None:
        return ""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC) + timedelta(days=days)
    return utc_text(moment)
