"""Read-only connections to databases, opened on first use."""

import logging
import re
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import anyio
import sqlalchemy as sa
from anyio import to_thread
from sqlalchemy.event import listen
from sqlalchemy.exc import ArgumentError as UrlError
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from toolgate.base.installation import install_hint, package_hint
from toolgate.base.processes.worker import WorkerError
from toolgate.databases.connections.inspect import read_schema
from toolgate.databases.connections.query import RunningQuery, forget_session, run_query
from toolgate.databases.connections.schema import Schema
from toolgate.databases.connections.sqlite_worker import SqliteWorkers
from toolgate.databases.statements import (
    QueryLimits,
    QueryResult,
    fault_of_statement,
    hint_of,
)
from toolgate.databases.statements.sqlite import open_sqlite
from toolgate.errors import (
    ArgumentError,
    DatabaseError,
    MissingExtraError,
    SettingError,
    StatementError,
)
from toolgate.settings import ConnectionTable

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_AT_ONCE: Final = 4
"""Concurrent requests to one database (chosen)."""

_WAIT_S: Final = 10.0
"""Seconds to wait for one of them to end (chosen: with the default `timeout_s`, an answer arrives
within the 60 s that many clients wait)."""

_ENDING_S: Final = 3.0
"""Seconds to cancel a statement in the database (chosen)."""

_STATEMENT_TIMEOUT: Final = (
    r"interrupted|statement timeout|ora-01013|execution time exceeded|dpy-4024"
)
"""Errors of drivers for a statement that exceeded its time limit."""

_REASONS: Final = (
    ("authentication", r"role .* does not exist", "there is no such user", "Correct the address."),
    (
        "no_such_database",
        r"database .* does not exist|unknown database",
        "there is no such database",
        "Correct the address.",
    ),
    (
        "no_such_service",
        r"ora-12514|ora-12505|dpy-6001|dpy-6003",
        "its listener knows no such service",
        "Correct the address.",
    ),
    (
        "missing",
        r"unable to open database file",
        "the file is not there or may not be read",
        "",
    ),
    ("damaged", r"not a database", "the file is no SQLite database", "Correct the address."),
    ("damaged", r"malformed", "the file is damaged", "Restore it from a copy."),
    (
        "locked",
        r"database .*locked|table .*locked|lock timeout|could not set lock",
        "another program holds a lock on it",
        "Wait, or end that program.",
    ),
    (
        "timeout",
        _STATEMENT_TIMEOUT,
        "it did not answer in time",
        "Raise timeout_s, or exclude tables.",
    ),
    (
        "authentication",
        r"(?:password )?authentication failed|access denied|ora-01017",
        "user or password are wrong",
        "Correct them in the address.",
    ),
    (
        "authentication",
        r"no password supplied",
        "it wants a password",
        "Add it to the address, as ${env:NAME}.",
    ),
    ("authentication", r"pg_hba\.conf", "it does not let this user in from here", ""),
    (
        "forbidden",
        r"permission denied",
        "the user may not read it",
        "Grant the user SELECT and USAGE.",
    ),
    (
        "refused",
        r"connection refused|no such file or directory|dpy-6005|can't connect to mysql",
        "nothing listens at its address",
        "Start the database, or correct the address.",
    ),
    (
        "unknown_host",
        r"resolve host|name or service not known|name resolution|getaddrinfo|nodename nor servname",
        "its host is unknown",
        "Correct the address.",
    ),
    (
        "timeout",
        r"timeout|timed out",
        "it did not answer in time",
        "Check whether it runs and can be reached.",
    ),
    (
        "lost",
        r"terminating connection|closed the connection|connection is closed",
        "it ended the connection",
        "Try again.",
    ),
)
"""Error texts of drivers, their meaning, and what to do. The original texts could show hosts and
users."""


class Connection:
    """A named database, connected on first use."""

    def __init__(self, name: str, table: ConnectionTable) -> None:
        """Create a connection without connecting.

        Args:
            name: Its name in the settings.
            table: Its settings.
        """
        self.name = name
        self.table = table
        self._turns: anyio.Semaphore | None = None
        self._sqlite = SqliteWorkers(_AT_ONCE)

    @property
    def description(self) -> str:
        """Description of the contents, for people and models."""
        return self.table.description

    @cached_property
    def dialect(self) -> str:
        """SQL dialect, such as `sqlite` or `postgresql`; empty if the address is invalid."""
        try:
            return self._url.get_backend_name()
        except SettingError:
            return ""

    async def reading(self, work: Callable[[sa.Connection], _T]) -> _T:
        """Run work in a thread, in a read-only transaction with a consistent snapshot.

        Raises:
            DatabaseError: The database cannot be reached or read, took longer than `timeout_s`, or
                is busy with other requests.
            MissingExtraError: The library of this database is not installed.
            SettingError: The address is invalid.
        """
        return await self._in_thread(partial(self._read, work), self.table.timeout_s)

    async def run_query(
        self, statement: str, *, limits: QueryLimits | None = None, tag: str = ""
    ) -> QueryResult:
        """Run a statement, with all protection against changes that the database offers.

        WARNING: no database protects all of its state from a user who may only read. `judge` in
        `toolgate.databases.sql_guard` checks statements; this is the second line of defence.

        Args:
            statement: One statement, without a semicolon.
            limits: Limits of the result.
            tag: Name of the caller, shown in the database's list of sessions.

        Raises:
            DatabaseError: The database cannot be reached or read, took too long, or is busy with
                other requests.
            MissingExtraError: The library of this database is not installed.
            SettingError: The address is invalid.
            StatementError: The database rejected the statement.
        """
        seconds = self.table.timeout_s
        query_limits = limits or QueryLimits()
        seconds = min(seconds, query_limits.timeout_s or seconds)
        query_limits = replace(query_limits, timeout_s=seconds)
        if self.dialect == "sqlite":
            return await self._run_in_worker(statement, query_limits)
        running = RunningQuery()
        work = partial(self._asked, statement, query_limits, tag, running)
        try:
            return await self._in_thread(work, seconds)
        except DatabaseError as error:
            if error.kind == "timeout" and running.interrupt is not None:
                raise self._too_slow(seconds) from error
            raise
        finally:
            if running.interrupt is not None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_ENDING_S):
                    await to_thread.run_sync(_end, running, abandon_on_cancel=True)

    async def schema(self, schemas: Sequence[str] | None = None) -> Schema:
        """The current schema.

        Args:
            schemas: Database schemas to read; None: those of the settings.

        Raises:
            DatabaseError: The database cannot be reached or read, took longer than `timeout_s`, or
                is busy with other requests.
            MissingExtraError: The library of this database is not installed.
            SettingError: The address is invalid.
        """
        if self.dialect == "sqlite":
            return await self._schema_in_worker()
        table = self.table
        chosen = table.schemas if schemas is None else schemas
        return await self.reading(
            lambda opened: read_schema(opened, schemas=chosen, exclude=table.exclude)
        )

    async def aclose(self) -> None:
        """Close all connections. Can be called twice, and the object can be used again."""
        await self._sqlite.aclose()
        engine = self.__dict__.pop("_engine", None)
        if engine is not None:
            await to_thread.run_sync(engine.dispose)

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Wait until there are few enough concurrent requests.

        Raises:
            DatabaseError: None of them ended in time.
        """
        if self._turns is None:
            self._turns = anyio.Semaphore(_AT_ONCE)
        try:
            with anyio.fail_after(_WAIT_S):
                await self._turns.acquire()
        except TimeoutError as error:
            raise DatabaseError(
                f"The connection {self.name!r} is busy: its database already runs {_AT_ONCE} "
                f"requests, and this one waited {_WAIT_S:g} s for its turn.",
                kind="busy",
                hint="Try again in a few seconds.",
            ) from error
        try:
            yield
        finally:
            self._turns.release()

    async def _in_thread(self, work: Callable[[], _T], seconds: float) -> _T:
        async with self._turn():
            try:
                # The database gets the limit as well; this is for one that does not answer at all.
                with anyio.fail_after(seconds + 1):
                    # A limiter of its own: threads that do other work are not waited for.
                    return await to_thread.run_sync(
                        work, limiter=anyio.CapacityLimiter(1), abandon_on_cancel=True
                    )
            except TimeoutError as error:
                raise self._failed("timeout") from error

    def _read(self, work: Callable[[sa.Connection], _T]) -> _T:
        try:
            with self._engine.connect() as opened, opened.begin():
                return work(opened)
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            reason = str(error.orig if isinstance(error, DBAPIError) else error)
            raise self._failed(reason) from error

    def _asked(
        self, statement: str, limits: QueryLimits, tag: str, running: RunningQuery
    ) -> QueryResult:
        engine = self._engine
        driver_error: type[Exception] = engine.dialect.loaded_dbapi.Error
        try:
            with engine.connect() as opened:
                try:
                    with opened.begin() as transaction:
                        result = run_query(
                            opened, statement, limits=limits, tag=tag, running=running
                        )
                        transaction.rollback()
                        return result
                finally:
                    forget_session(opened)
        except (SQLAlchemyError, driver_error, OSError) as error:
            raise self._not_run(error, limits) from error

    async def _run_in_worker(self, statement: str, limits: QueryLimits) -> QueryResult:
        try:
            async with self._turn():
                return await self._sqlite.run_query(self._url.database or "", statement, limits)
        except TimeoutError as error:
            raise self._too_slow(limits.timeout_s or self.table.timeout_s) from error
        except WorkerError as error:
            raise self._refused(
                self._end_of_worker(error), hint="Read fewer rows, or shorter values."
            ) from error
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self._not_run(error, limits) from error

    async def _schema_in_worker(self) -> Schema:
        table = self.table
        try:
            async with self._turn():
                return await self._sqlite.read_schema(
                    self._url.database or "", table.exclude, table.timeout_s
                )
        except TimeoutError as error:
            raise self._failed("interrupted") from error
        except WorkerError as error:
            raise self._failed(self._end_of_worker(error)) from error
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self._failed(str(error)) from error

    def _too_slow(self, seconds: float) -> DatabaseError:
        return DatabaseError(
            f"The statement took longer than {seconds:g} s in the database of the connection "
            f"{self.name!r}, and was stopped.",
            kind="timeout",
            hint="Ask for less, filter by an indexed column, or raise timeout_s of "
            f"[connections.{self.name}].",
        )

    def _end_of_worker(self, error: WorkerError) -> str:
        log.warning("worker ended", extra={"connection": self.name}, exc_info=error)
        if error.is_out_of_memory:
            return f"it needs more than {self._sqlite.memory_mb} MB of memory"
        return "the process that ran it ended"

    def _not_run(self, error: Exception, limits: QueryLimits) -> DatabaseError | StatementError:
        """The error for a failed statement or its database, from the driver's error."""
        cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
        log.info("statement failed", extra={"connection": self.name}, exc_info=error)
        if re.search(_STATEMENT_TIMEOUT, str(cause).casefold()):
            return self._too_slow(limits.timeout_s or self.table.timeout_s)
        fault = fault_of_statement(cause)
        if not fault:
            return self._failed(str(cause))
        return self._refused(
            self._without_address(fault), hint=hint_of(cause) or "Correct the statement."
        )

    def _refused(self, fault: str, *, hint: str) -> StatementError:
        return StatementError(
            f"The database of the connection {self.name!r} does not run this statement: {fault}.",
            hint=hint,
        )

    def _failed(self, reason: str) -> DatabaseError:
        lowered = reason.casefold()
        kind, _, meaning, hint = next(
            (pattern for pattern in _REASONS if re.search(pattern[1], lowered)),
            ("other", "", self._without_address(reason), ""),
        )
        return DatabaseError(
            f"The database of the connection {self.name!r} cannot be read: {meaning}.",
            kind=kind,
            hint=hint or f"Look at [connections.{self.name}] and at the database.",
        )

    def _without_address(self, reason: str) -> str:
        """The first line of a driver's error, without parts of the address."""
        line = next(iter(reason.strip().splitlines()), "the driver gives no reason").rstrip(".")
        url = self._url
        for part in (url.password, url.username, url.host, url.database):
            if part and len(str(part)) > 2:
                line = line.replace(str(part), "…")
        return line[:200]

    @cached_property
    def _url(self) -> sa.URL:
        try:
            url = sa.make_url(self.table.url)
        except (UrlError, ValueError) as error:
            raise SettingError(
                f"connections.{self.name}.url is not a database URL.",
                allowed="Allowed: sqlite:///PATH, postgresql://USER@HOST/DATABASE, and others that "
                "SQLAlchemy knows.",
                hint="Write characters such as @ and / in a password as %40 and %2F.",
            ) from error
        if url.drivername in {"postgresql", "postgres"}:
            return url.set(drivername="postgresql+psycopg")
        return url

    @cached_property
    def _engine(self) -> sa.Engine:
        url, seconds = self._url, self.table.timeout_s
        if url.get_backend_name() == "sqlite":
            return _sqlite_engine(url, seconds)
        options: dict[str, Any] = {}
        if url.get_backend_name() == "postgresql":
            options["execution_options"] = {
                "isolation_level": "REPEATABLE READ",
                "postgresql_readonly": True,
            }
            limit = max(1, round(seconds * 1000))
            url_options = url.query.get("options", "")
            from_url = url_options if isinstance(url_options, str) else " ".join(url_options)
            connect_options = (
                f"-c statement_timeout={limit} -c lock_timeout={limit} "
                "-c standard_conforming_strings=on -c default_transaction_read_only=on"
            )
            options["connect_args"] = {
                "connect_timeout": max(2, round(seconds)),
                "options": f"{from_url} {connect_options}".strip(),
                "application_name": "toolgate",
            }
            url = url.difference_update_query(["options"])
        elif url.get_backend_name() == "duckdb":
            closed = {"enable_external_access": "false", "lock_configuration": "true"}
            options["connect_args"] = {"read_only": True, "config": closed}
        try:
            engine = sa.create_engine(url, pool_size=_AT_ONCE, pool_pre_ping=True, **options)
        except NoSuchModuleError as error:
            raise SettingError(
                f"connections.{self.name}.url begins with {url.drivername!r}, which is not a known"
                " database.",
                hint="Correct it, or install the dialect for SQLAlchemy.",
            ) from error
        except ModuleNotFoundError as error:
            is_postgres = url.get_backend_name() == "postgresql"
            raise MissingExtraError(
                f"The connection {self.name!r} needs the library {error.name!r}, which is not "
                "installed.",
                hint=install_hint("postgres") if is_postgres else package_hint(str(error.name)),
            ) from error
        if url.get_backend_name() in _READ_ONLY:
            for begin in _READ_ONLY[url.get_backend_name()]:
                listen(engine, "begin", partial(_run, begin.format(ms=round(seconds * 1000))))
        return engine


class Connections(Mapping[str, Connection]):
    """All named databases."""

    def __init__(self, tables: Mapping[str, ConnectionTable] | None = None) -> None:
        """Create the connections without connecting.

        Args:
            tables: `[connections]` of the settings.
        """
        self._connections: dict[str, Connection] = {}
        for name, table in (tables or {}).items():
            self._connections[name] = Connection(name, table)

    def __getitem__(self, name: str) -> Connection:
        return self._connections[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._connections)

    def __len__(self) -> int:
        return len(self._connections)

    def chosen(self, name: str = "") -> Connection:
        """A connection by name; without a name, the only connection.

        Raises:
            ArgumentError: The name is unknown, or missing although there are several connections.
            SettingError: There are no connections.
        """
        if not self:
            raise SettingError(
                "No database is connected.",
                hint='Add a table [connections.NAME] with url = "…" to toolgate.toml.',
            )
        names = ", ".join(sorted(self))
        if not name and len(self) > 1:
            raise ArgumentError(
                "There are several connections.",
                allowed=f"Connections: {names}.",
                hint="Name one as connection.",
            )
        if not name:
            return next(iter(self.values()))
        folded = {name.casefold(): name for name in self}
        if name.casefold() in folded:
            return self[folded[name.casefold()]]
        near = get_close_matches(name, self, n=1)
        raise ArgumentError(
            f"There is no connection {name[:80]!r}.",
            allowed=f"Connections: {names}.",
            hint=f"Did you mean {near[0]!r}?" if near else "Name one of these.",
        )

    async def reload(self, tables: Mapping[str, ConnectionTable]) -> None:
        """Apply new settings; unchanged connections stay open."""
        gone = [
            connection
            for name, connection in self._connections.items()
            if tables.get(name) != connection.table
        ]
        self._connections = {
            name: self._connections[name]
            if name in self._connections and self._connections[name].table == table
            else Connection(name, table)
            for name, table in tables.items()
        }
        for removed in gone:
            await removed.aclose()

    async def aclose(self) -> None:
        """Close all connections. Can be called twice."""
        for connection in list(self._connections.values()):
            await connection.aclose()


def _sqlite_engine(url: sa.URL, seconds: float) -> sa.Engine:
    """An engine that creates no file, writes nothing, and times out."""
    connect = partial(open_sqlite, url.database or "", seconds)
    # Files are opened for each request: that costs nothing, and a file can be replaced at any time.
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)
    listen(engine, "begin", _begin)
    return engine


def _begin(opened: sa.Connection) -> None:
    opened.exec_driver_sql("BEGIN")


_READ_ONLY: Final[Mapping[str, tuple[str, ...]]] = {
    "mysql": ("SET SESSION MAX_EXECUTION_TIME={ms}", "START TRANSACTION READ ONLY"),
    "mariadb": ("SET SESSION max_statement_time={ms}/1000", "START TRANSACTION READ ONLY"),
    "oracle": ("SET TRANSACTION READ ONLY",),
}
"""Statements that start a read-only transaction, for drivers without an option for it."""


def _run(statement: str, opened: sa.Connection) -> None:
    opened.exec_driver_sql(statement)


def _end(running: RunningQuery) -> None:
    end = running.interrupt
    if end is not None:
        with suppress(Exception):  # it may have ended meanwhile, or be out of reach
            end()
