"""SQLite in worker processes: the code of the workers, and its interface for the gateway."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any, Final

from toolgate.base.processes.worker import WorkerPool
from toolgate.databases.connections.schema import Schema
from toolgate.databases.connections.sqlite import read_sqlite_schema
from toolgate.databases.statements.result import QueryLimits, QueryResult, ResultColumn
from toolgate.databases.statements.sqlite import open_sqlite, run_sqlite

_MEMORY_MB: Final = 512
"""Memory limit of a worker in megabytes: 256 for SQLite, the rest for Python and the result."""

_KILL_S: Final = 0.5
"""Seconds after the deadline at which a process is killed that did not stop by itself (chosen)."""

_ERRORS: Final[Mapping[str, type[Exception]]] = {
    kind.__name__: kind
    for kind in (
        *(sqlite3.DataError, sqlite3.DatabaseError, sqlite3.Error, sqlite3.IntegrityError),
        *(sqlite3.InterfaceError, sqlite3.InternalError, sqlite3.NotSupportedError),
        *(sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.Warning),
    )
}


class SqliteWorkers:
    """Reads SQLite files in processes that can be killed."""

    def __init__(self, size: int) -> None:
        """Create the pool without starting a process.

        Args:
            size: Largest number of concurrent requests.
        """
        self._pool = WorkerPool(f"{__name__}:answer", memory_mb=_MEMORY_MB, size=size)

    @property
    def memory_mb(self) -> int:
        """Memory limit of a request in megabytes."""
        return self._pool.memory_mb

    async def run_query(self, path: str, statement: str, limits: QueryLimits) -> QueryResult:
        """Run a statement; `limits.timeout_s` must be a number.

        Raises:
            TimeoutError: The process was killed.
            WorkerError: The process crashed or ran out of memory.
            sqlite3.Error: SQLite rejected the statement.
            sqlite3.Warning: The same, raised by Python.
        """
        assert limits.timeout_s is not None
        request = {"path": path, "statement": statement, "limits": asdict(limits)}
        fields = await self._ask(request, limits.timeout_s)
        return QueryResult(
            columns=tuple(ResultColumn(**column) for column in fields["columns"]),
            rows=tuple(map(tuple, fields["rows"])),
            truncated=fields["truncated"],
            elapsed_ms=fields["elapsed_ms"],
        )

    async def read_schema(self, path: str, exclude: Sequence[str], timeout_s: float) -> Schema:
        """The schema of a file; raises like `run_query`.

        Args:
            path: The file.
            exclude: Patterns of tables to leave out.
            timeout_s: Time limit in seconds.
        """
        request = {"path": path, "exclude": list(exclude), "timeout_s": timeout_s}
        fields = await self._ask(request, timeout_s)
        return replace(Schema.from_content(fields["content"].encode()), unread=fields["unread"])

    async def aclose(self) -> None:
        """End the processes. Can be called twice, and the pool can be used again."""
        await self._pool.aclose()

    async def _ask(self, request: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        reply = await self._pool.call(request, timeout_s=timeout_s + _KILL_S)
        if "error" in reply:
            error = _ERRORS.get(reply["error"], sqlite3.DatabaseError)(reply["reason"])
            if reply["code"] is not None:
                vars(error)["sqlite_errorcode"] = reply["code"]
            raise error
        return reply["result"]


def answer(request: Mapping[str, Any], _data: bytes) -> Mapping[str, Any]:
    """The result or error of SQLite as JSON; runs in a worker."""
    try:
        if "statement" in request:
            limits = QueryLimits(**request["limits"])
            return {"result": run_sqlite(request["path"], request["statement"], limits)}
        with closing(open_sqlite(request["path"], request["timeout_s"])) as opened:
            opened.execute("BEGIN")
            schema = read_sqlite_schema(opened, exclude=request["exclude"])
        return {"result": {"content": schema.content.decode(), "unread": schema.unread}}
    except (sqlite3.Error, sqlite3.Warning) as error:
        code: int | None = getattr(error, "sqlite_errorcode", None)
        return {"error": type(error).__name__, "reason": str(error), "code": code}
