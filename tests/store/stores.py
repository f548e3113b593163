"""Stores in SQLite and PostgreSQL, for tests that run on both."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, text

from toolgate.store import make_store
from toolgate.store.postgres import PostgresStore
from toolgate.store.sqlite import SqliteStore

BOTH = pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.real)])


def url_of(kind: str, request: pytest.FixtureRequest) -> str:
    """Address of an empty place."""
    if kind == "postgres":
        return request.getfixturevalue("postgres").new_schema()
    return f"sqlite:///{request.getfixturevalue('tmp_path') / 'data' / 'toolgate.db'}"


def make_sql_store(url: str) -> SqliteStore | PostgresStore:
    """A store, not open."""
    store = make_store(url)
    assert isinstance(store, (SqliteStore, PostgresStore))
    return store


@contextmanager
def transaction(url: str) -> Generator[Connection]:
    """A transaction of our own, whatever the schema is."""
    store = make_sql_store(url)
    if isinstance(store, SqliteStore):
        store._path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with store._engine.execution_options(toolgate_writes=True).begin() as connection:
            yield connection
    finally:
        store._engine.dispose()


def run_sql(url: str, statement: str, **values: Any) -> None:
    """Run one statement."""
    with transaction(url) as connection:
        connection.execute(text(statement), values)
