"""Empty databases of both kinds that a gateway can use as its store."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tests.postgres import running_server

KINDS = ("SQLite", "PostgreSQL")


@contextmanager
def new_store_url(kind: str) -> Iterator[str]:
    """Yield the URL of a new database, which is removed afterwards.

    Args:
        kind: One of `KINDS`.
    """
    if kind == "SQLite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/toolgate.db"
    else:
        with running_server() as server:
            yield server.new_database()
