"""A tool call: chooses the connection, checks the statement, runs it, logs it."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa
from anyio import to_thread

from toolgate import Context
from toolgate.base.ids import new_id, utc_now
from toolgate.databases.connections import (
    Connection,
    Connections,
    QueryResult,
    read_postgres_catalog,
)
from toolgate.databases.sql_guard import (
    PostgresCatalog,
    StatementVerdict,
    check_statement,
    mask_values,
    named_in,
)
from toolgate.errors import SettingError, StatementError, StoreError, ToolgateError
from toolgate.packs.builtin.sql._options import SqlOptions, read_options
from toolgate.store import StatementOutcome, StatementRepository, StoredStatement

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class SqlCall:
    """A call of one of the SQL tools."""

    def __init__(self, context: Context, tool: str) -> None:
        """Create the call.

        Raises:
            SettingError: The options of the pack are invalid.
        """
        self.context = context
        self.options: SqlOptions = read_options(context.settings)
        self._tool = tool

    @property
    def connections(self) -> Connections:
        """All databases.

        Raises:
            SettingError: There is none.
        """
        connections: Mapping[str, Any] = self.context.connections
        if not isinstance(connections, Connections):
            raise SettingError(
                "No database is connected.",
                hint='Add a table [connections.NAME] with url = "…" to toolgate.toml.',
            )
        return connections

    def chosen(self, name: str | None) -> Connection:
        """Return the named connection, or else the default.

        Raises:
            ArgumentError: The connection does not exist, or none was named and there are several.
            SettingError: There is no connection at all.
        """
        return self.connections.chosen((name or "").strip() or self.options.connection)

    async def checked(self, connection: Connection, sql: str) -> StatementVerdict:
        """Check that a text is a single read-only statement.

        For PostgreSQL, the objects that users have defined under names in the statement are read
        first.

        Raises:
            DatabaseError: PostgreSQL cannot be queried.
            MissingExtraError: The parser is not installed.
            StatementError: The text is not a single read-only statement; the refusal is logged.
        """
        catalog: PostgresCatalog | None = None
        if connection.dialect == "postgresql":
            names = await to_thread.run_sync(named_in, sql)
            catalog = await connection.reading(partial(read_postgres_catalog, names=names))
        check = partial(
            check_statement,
            sql,
            connection.dialect,
            functions=self.options.functions,
            catalog=catalog,
        )
        verdict = await to_thread.run_sync(check)
        if not verdict.allowed:
            await self.note(connection, sql, "refused", reason=verdict.reason)
            raise StatementError(
                f"Not run: {verdict.reason}",
                allowed="Only one statement that reads and changes nothing is run.",
                hint=f"Correct it (rule: {verdict.rule}).",
            )
        return verdict

    async def run(
        self, connection: Connection, statement: str, *, rows: int | None = None
    ) -> QueryResult:
        """Run a checked statement, and log it.

        Raises:
            DatabaseError: The database cannot be reached or read, or exceeded the timeout.
            StatementError: The database rejects the statement.
        """
        return await self._noted(
            connection,
            statement,
            connection.run_query(statement, limits=self.options.limits(rows), tag=self._tag),
        )

    async def read(self, connection: Connection, work: Callable[[sa.Connection], _T]) -> _T:
        """Read from a database with one of our own functions."""
        return await connection.reading(work)

    async def _noted(self, connection: Connection, statement: str, asking: Any) -> QueryResult:
        try:
            result: QueryResult = await asking
        except ToolgateError as error:
            await self.note(connection, statement, "failed", reason=error.failed)
            raise
        await self.note(connection, statement, "done", result=result)
        return result

    async def note(
        self,
        connection: Connection,
        statement: str,
        outcome: StatementOutcome,
        *,
        reason: str = "",
        result: QueryResult | None = None,
    ) -> None:
        """Log the outcome of a statement; a failing store does not fail the call."""
        fields = {
            "connection": connection.name,
            "dialect": connection.dialect,
            "outcome": outcome,
            "rows": None if result is None else len(result.rows),
            "elapsed_ms": None if result is None else result.elapsed_ms,
        }
        log.info("statement", extra=fields)
        store = self.context.store
        if store is None:
            return
        caller = self.context.caller
        text = (
            mask_values(statement, connection.dialect) if self.options.mask_literals else statement
        )
        rows: StatementRepository = store.statements
        try:
            await rows.append(
                StoredStatement(
                    statement_id=new_id(),
                    at=utc_now(),
                    project_id=caller.project_id,
                    caller_id=caller.caller_id,
                    conversation=caller.conversation,
                    connection=connection.name,
                    dialect=connection.dialect,
                    tool=self._tool,
                    statement=text[:100_000],
                    outcome=outcome,
                    reason=reason[:1000],
                    rows=None if result is None else len(result.rows),
                    elapsed_ms=None if result is None else result.elapsed_ms,
                )
            )
        except StoreError:
            log.warning("statement not noted", exc_info=True)

    @property
    def _tag(self) -> str:
        caller = self.context.caller
        return " ".join(filter(None, (caller.caller_id, caller.conversation)))
