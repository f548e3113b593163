"""A database over SQLAlchemy Core: transactions in worker threads, with deadlines and clear errors.

Synchronous drivers run in worker threads: a batch of audit records is one hop, and no
asynchronous driver or greenlets are needed.
"""

import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial, wraps
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import Connection, Engine, Executable, RowMapping, Table
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError, SQLAlchemyError

from toolgate.errors import StoreError
from toolgate.store.engine.deadline import TransactionAttempt, current_deadline

T = TypeVar("T")
P = ParamSpec("P")
RepositoryT = TypeVar("RepositoryT", bound="SqlRepository")

Insert: TypeAlias = Callable[[Table], Any]
"""Starts an `INSERT` of the dialect, which supports `on_conflict_...`."""

CHANGE_CHANNEL = "toolgate_change"
"""PostgreSQL channel of `NOTIFY`; shared by all schemas of a database, which costs extra checks."""

_READERS = 4
"""Threads that read concurrently (chosen)."""


class SqlDatabase:
    """Runs work in transactions of one engine."""

    _driver_errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    """Errors of the driver when it is used without SQLAlchemy."""

    def __init__(self, engine: Engine, url: str, *, insert: Insert, writers: int) -> None:
        """Create a database without connecting.

        Args:
            engine: The SQLAlchemy engine.
            url: URL without password.
            insert: `INSERT` of its dialect.
            writers: Threads that may write concurrently.
        """
        self.insert = insert
        self._engine = engine
        self._url = url
        self._alone: AbstractContextManager[object] = nullcontext()
        """Held while a shared connection is in use, since a cancelled task leaves its thread
        running."""
        self._reads = anyio.CapacityLimiter(_READERS)
        self._writes = anyio.CapacityLimiter(writers)

    @property
    def url(self) -> str:
        """URL of the database, without password."""
        return self._url

    async def close(self) -> None:
        """Close all connections. Can be called twice."""
        await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._alone:  # closing a connection that another thread still uses ends the process
            self._engine.dispose()

    async def wait_for_change(self, within_s: float) -> tuple[str, ...]:
        """Return what other processes have announced as soon as they do, or after `within_s`."""
        await anyio.sleep(within_s)
        return ()

    async def announce(self, text: str) -> None:
        """Announce a text to other processes, which `wait_for_change` returns there."""

    def waiting(self) -> dict[str, int]:
        """Numbers of transactions waiting to `read` and to `write`."""
        return {
            "read": self._reads.statistics().tasks_waiting,
            "write": self._writes.statistics().tasks_waiting,
        }

    # Transactions of repositories

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run work that reads, in one transaction."""
        return await self._run(work, self._reads)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run work that reads and writes, in one transaction."""
        return await self._run(work, self._writes, writes=True)

    async def fetch_all(self, query: Executable, convert: Callable[[RowMapping], T]) -> list[T]:
        """All rows of a query, converted."""
        return await self.read(
            lambda connection: [convert(row) for row in connection.execute(query).mappings()]
        )

    async def fetch_first(self, query: Executable, convert: Callable[[RowMapping], T]) -> T | None:
        """The first row of a query, converted; None if there is none."""

        def fetch(connection: Connection) -> T | None:
            row = connection.execute(query).mappings().first()
            return None if row is None else convert(row)

        return await self.read(fetch)

    async def execute(
        self,
        statement: Executable,
        values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> int:
        """Execute a statement that writes. Returns the number of changed rows."""
        return await self.write(lambda connection: connection.execute(statement, values).rowcount)

    def compiled_insert(self, table: Table) -> tuple[Sequence[str], str]:
        """The SQL text of an `INSERT`, with its columns in the order of the parameters.

        The list of columns is empty if the parameters are named.
        """
        compiled = self.insert(table).compile(dialect=self._engine.dialect)
        return tuple(compiled.positiontup or ()), str(compiled)

    # Transactions with the driver's connection

    async def reading(self, work: Callable[[Any], T]) -> T:
        """Read with the driver's connection. Cancelling does not wait for it."""

        def read(connection: Connection) -> T:
            return work(_driver(connection))

        return await self._run(read, self._reads, abandon_on_cancel=True)

    async def writing(self, work: Callable[[Any], T]) -> T:
        """Read and write with the driver's connection, all or nothing."""
        return await self.write(lambda connection: work(_driver(connection)))

    async def maintaining(self, work: Callable[[Any], T]) -> T:
        """Run work that must not be in a transaction."""

        def run() -> T:
            engine = self._engine.execution_options(isolation_level="AUTOCOMMIT")
            with self._translated(), engine.connect() as connection:
                return work(_driver(connection))

        return await anyio.to_thread.run_sync(run, limiter=self._writes)

    async def _run(
        self,
        work: Callable[[Connection], T],
        limiter: anyio.CapacityLimiter,
        *,
        writes: bool = False,
        abandon_on_cancel: bool = False,
    ) -> T:
        """Run a transaction in a thread; a caller with a deadline waits no longer than that."""
        deadline = current_deadline()
        attempt = None if deadline is None else TransactionAttempt()
        running = anyio.to_thread.run_sync(
            partial(self._transact, work, attempt, writes=writes),
            limiter=limiter,
            abandon_on_cancel=abandon_on_cancel,
        )
        if deadline is None or attempt is None:
            return await running
        return await deadline.wait_for(running, attempt, saves=writes)

    @cached_property
    def _writing_engine(self) -> Engine:
        """The same engine; its transactions take their lock at the start."""
        return self._engine.execution_options(toolgate_writes=True)

    def _transact(
        self,
        work: Callable[[Connection], T],
        attempt: TransactionAttempt | None,
        *,
        writes: bool,
    ) -> T:
        if attempt is None:
            with self._begun(writes=writes) as connection:
                return work(connection)
        attempt.may_begin()
        try:
            with self._begun(writes=writes) as connection:
                attempt.may_begin()  # again: the lock may have been waited for
                result = work(connection)
                attempt.may_commit()
        except StoreError as error:
            if not _is_cut(error.__cause__):
                attempt.has_failed()
            raise
        attempt.was_kept()
        return result

    @contextmanager
    def _begun(self, *, writes: bool) -> Generator[Connection]:
        with self._alone, self._translated():
            # Chosen only now: while this waited, a store in memory may have moved to its file.
            engine = self._writing_engine if writes else self._engine
            with engine.begin() as connection:
                yield connection

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except (SQLAlchemyError, *self._driver_errors, OSError) as error:
            failure = StoreError(
                f"The store failed{_public_reason(error)}.",
                detail=f"{self._url}: {_reason(error)}.",
                hint=_hint(error),
            )
            failure.retryable = not is_damage(error)
            raise failure from error


def is_damage(error: BaseException | None) -> bool:
    """Whether a database is damaged, not just locked, full, read-only or unreachable."""
    return isinstance(error, DatabaseError) and not isinstance(error, OperationalError)


def _driver(connection: Connection) -> Any:
    """The driver's connection below SQLAlchemy's."""
    return connection.connection.driver_connection


def _is_cut(error: BaseException | None) -> bool:
    """Whether the connection broke, so that the result of a commit is unknown."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _reason(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    lines = str(cause).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(cause).__name__


def _public_reason(error: Exception) -> str:
    """A reason that any caller may see: without hosts, users and paths."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    if isinstance(cause, sqlite3.Error):
        return f": {_reason(error)}"
    if isinstance(cause, OSError) and cause.strerror:
        return f": {cause.strerror.lower()}"
    reason = _reason(error).lower()
    return next((f": {words}" for words in _HINTS if words in reason), "")


def _hint(error: Exception) -> str:
    reason = _reason(error).lower()
    for words, hint in _HINTS.items():
        if words in reason:
            return hint
    return ""


_HINTS = {
    "disk is full": "Make room on its disk.",
    "no space left": "Make room on its disk.",
    "disk i/o error": "Look whether its disk is full or failing.",
    "locked": "Another program holds it for long: end that, or wait.",
    "readonly": "Make the file and its folder writable for this user.",
    "permission denied": "Make the file and its folder writable for this user.",
    "unable to open": "Look whether its folder exists and may be written.",
    "malformed": "Restore a backup with toolgate db restore FILE.",
    "not a database": "Set store.url to another file, or restore a backup.",
    "connection refused": "Look whether the database runs, and correct store.url.",
    "no such table": "Open it first, or run toolgate db upgrade.",
}


class SqlRepository:
    """A repository, whose methods are transactions of a database."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database
        """Runs the transactions."""


def reads(
    method: Callable[Concatenate[RepositoryT, Connection, P], T],
) -> "Callable[Concatenate[RepositoryT, P], CoroutineType[Any, Any, T]]":
    """Run a method in a transaction that reads; it gets the connection of a worker thread."""

    @wraps(method)
    async def transaction(self: RepositoryT, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.read(
            lambda connection: method(self, connection, *args, **kwargs)
        )

    return transaction


def writes(
    method: Callable[Concatenate[RepositoryT, Connection, P], T],
) -> "Callable[Concatenate[RepositoryT, P], CoroutineType[Any, Any, T]]":
    """Run a method in a transaction that reads and writes; see `reads`."""

    @wraps(method)
    async def transaction(self: RepositoryT, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.write(
            lambda connection: method(self, connection, *args, **kwargs)
        )

    return transaction
