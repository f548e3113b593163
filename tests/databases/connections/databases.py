"""Real databases for tests: SQLite files, and statements that are made in them."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from toolgate.databases.connections import Connections, SchemaHistory
from toolgate.settings import ConnectionTable
from toolgate.store import Store, make_store

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, mail VARCHAR(20) UNIQUE);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer_id INT REFERENCES customers (id) ON DELETE CASCADE,
  total NUMERIC(10,2) DEFAULT 0 CHECK (total >= 0)
);
CREATE INDEX ix_customer ON orders (customer_id);
CREATE VIEW big_orders AS SELECT id, total FROM orders WHERE total > 1000;
"""


def run(path: Path, statements: str) -> Path:
    """Run statements in a SQLite file, which is made where there is none."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(statements)
    return path


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


class Clock:
    """A time of day that only tests change."""

    def __init__(self) -> None:
        self.day = 1

    def __call__(self) -> str:
        return f"2026-07-{self.day:02d}T12:00:00.000Z"


@asynccontextmanager
async def history(
    clock: Clock | None = None, store: Store | None = None, **tables: ConnectionTable
) -> AsyncGenerator[SchemaHistory]:
    """The history of these connections, in a store in memory or in the one that is given."""
    kept = store or make_store("sqlite://")
    if store is None:
        await kept.open()
    made = SchemaHistory(Connections(tables), kept, clock=clock or Clock())
    try:
        yield made
    finally:
        await made.connections.aclose()
        if store is None:
            await kept.close()
