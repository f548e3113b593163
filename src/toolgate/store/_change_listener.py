"""Waits for the notifications with which processes announce changes in a PostgreSQL database."""

import logging
from time import monotonic

import anyio
import psycopg

from toolgate.store.engine.database import CHANGE_CHANNEL

log = logging.getLogger(__name__)

# Seconds before a failed connection is retried; until then, waiting takes its full time (chosen).
_RETRY_S = 5.0


class ChangeListener:
    """A connection that listens. If it fails, as behind a pooler, waiting takes its full time."""

    def __init__(self, conninfo: str) -> None:
        """Create a listener without connecting.

        Args:
            conninfo: Connection string of libpq. WARNING: may contain a password.
        """
        self._conninfo = conninfo
        self._connection: psycopg.AsyncConnection | None = None
        self._retry_at = 0.0

    async def wait(self, within_s: float) -> tuple[str, ...]:
        """Return as soon as something is announced, or after this many seconds.

        Returns the announced texts; a change of the store has none.
        """
        ends_at = monotonic() + within_s
        try:
            if self._connection is None and monotonic() >= self._retry_at:
                self._connection = await self._connect()
            if self._connection is not None:
                notices = self._connection.notifies(timeout=within_s, stop_after=1)
                if payloads := [notice.payload async for notice in notices]:
                    return tuple(filter(None, payloads))
        except (psycopg.Error, OSError) as error:
            log.info("changes are polled", extra={"error": type(error).__name__})
            self._retry_at = monotonic() + _RETRY_S
            await self.close()
        await anyio.sleep(max(0.0, ends_at - monotonic()))
        return ()

    async def close(self) -> None:
        """Close the connection. Can be called twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connect(self) -> psycopg.AsyncConnection:
        connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
        try:
            await connection.execute(f"LISTEN {CHANGE_CHANNEL}")
        except BaseException:
            await connection.close()
            raise
        return connection
