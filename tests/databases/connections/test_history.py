"""The versions of a schema over time: what is kept, compared, and answered."""

import logging
import sqlite3
import time
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path

import anyio
import psycopg
import pytest

from tests.databases.connections.databases import SHOP, Clock, history, run, sqlite_url
from tests.limits import HANG_S
from tests.postgres import PostgresServer
from toolgate.databases.connections import Changelog, SchemaHistory
from toolgate.errors import DatabaseError
from toolgate.settings import ConnectionTable
from toolgate.store import make_store


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return run(tmp_path / "shop.db", SHOP)


def table(path: Path, **options: float) -> ConnectionTable:
    return ConnectionTable(url=sqlite_url(path), **options)  # pyright: ignore[reportArgumentType]


def said(log: Changelog) -> list[tuple[int, str]]:
    return [(entry.version.number, entry.change.text) for entry in log.entries]


async def test_equal_schemas_are_one_version_and_others_are_counted(shop: Path) -> None:
    clock = Clock()
    async with history(clock, shop=table(shop)) as known:
        connection = known.connections["shop"]
        first = await known.refresh(connection)
        clock.day = 2
        again = await known.refresh(connection)
        run(shop, "ALTER TABLE orders ADD COLUMN note TEXT")
        clock.day = 3
        second = await known.refresh(connection)
        run(shop, "ALTER TABLE orders DROP COLUMN note")
        third = await known.refresh(connection)

    assert [each.number for each in (first, again, second, third)] == [1, 1, 2, 3]
    assert (again.at, again.seen_at) == (first.at, "2026-07-02T12:00:00.000Z")
    assert first.digest == third.digest != second.digest
    assert [change.text for change in second.changes] == ["column orders.note added (TEXT)"]
    assert (first.changes, second.schema.by_name["orders"].columns[-1].name) == ((), "note")


async def test_the_log_has_the_changes_of_a_period_newest_first(shop: Path) -> None:
    clock = Clock()
    async with history(clock, shop=table(shop)) as known:
        connection = known.connections["shop"]
        for day, statement in enumerate(
            (
                "SELECT 1",
                "CREATE TABLE a (b)",
                "DROP TABLE a",
                "ALTER TABLE orders RENAME TO sales",
            ),
            1,
        ):
            run(shop, statement)
            clock.day = day
            await known.refresh(connection)

        whole = await known.changes(connection)
        few = await known.changes(connection, limit=1)
        since = await known.changes(connection, since=date(2026, 7, 3))
        until = await known.changes(connection, until=date(2026, 7, 3))
        exact = await known.changes(connection, since=datetime(2026, 7, 3, 12, 0, 1, tzinfo=UTC))

    added, removed = (2, "table a added (1 column)"), (3, "table a removed (1 column)")
    renamed = said(few)[0]
    assert renamed == (4, "table orders renamed to sales")
    assert said(whole)[-2:] == [removed, added]
    assert renamed in said(whole)
    assert (few.total, whole.total, whole.since) == (
        len(whole.entries),
        len(whole.entries),
        "2026-07-01T12:00:00.000Z",
    )
    assert added not in said(since)
    assert removed in said(since)
    assert said(until) == [removed, added]
    assert removed not in said(exact)


async def test_a_database_that_is_gone_is_answered_from_what_is_known(shop: Path) -> None:
    async with history(shop=table(shop)) as known:
        connection = known.connections["shop"]
        with_it = await known.latest(connection)
        shop.unlink()
        without = await known.latest(connection)
        log = await known.changes(connection)
        run(shop, SHOP)
        back = await known.latest(connection)

    assert (without.number, without.schema) == (1, with_it.schema)
    assert "the file is not there" in without.problem
    assert log.present.problem == without.problem
    assert (back.number, back.problem) == (1, "")


async def test_a_database_that_was_never_seen_is_an_error(tmp_path: Path) -> None:
    async with history(shop=table(tmp_path / "absent.db")) as known:
        with pytest.raises(DatabaseError, match="the file is not there"):
            await known.latest(known.connections["shop"])
        assert await known.names(refresh=True) == ()


async def test_a_database_that_takes_long_to_fail_is_not_waited_for_again(shop: Path) -> None:
    async with history(shop=table(shop, timeout_s=1.2)) as known:
        connection = known.connections["shop"]
        await known.latest(connection)
        with closing(sqlite3.connect(shop)) as other:
            other.execute("BEGIN EXCLUSIVE")
            first = await known.latest(connection)
            began = time.monotonic()
            second = await known.latest(connection)
            took_s = time.monotonic() - began

    assert "another program holds a lock" in first.problem
    assert second.problem == first.problem
    assert took_s < 1


async def test_a_view_that_cannot_be_read_for_a_while_is_no_change(shop: Path) -> None:
    async with history(shop=table(shop)) as known:
        connection = known.connections["shop"]
        await known.refresh(connection)
        run(shop, "PRAGMA legacy_alter_table = ON; ALTER TABLE orders RENAME TO away;")
        broken = await known.refresh(connection)
        run(shop, "PRAGMA legacy_alter_table = ON; ALTER TABLE away RENAME TO orders;")
        mended = await known.refresh(connection)

    assert "big_orders" in broken.schema.unread
    assert "big_orders" in broken.schema.by_name
    assert [change.text for change in broken.changes] == ["table orders renamed to away"]
    assert mended.schema.unread == {}


async def test_a_table_that_is_left_out_from_now_on_is_not_told_as_removed(shop: Path) -> None:
    async with history(shop=table(shop)) as known:
        await known.refresh(known.connections["shop"])
        fewer = ConnectionTable(url=sqlite_url(shop), exclude=("big_*",))
        await known.reload({"shop": fewer})
        without = await known.refresh(known.connections["shop"])
        await known.reload({"shop": table(shop)})
        again = await known.refresh(known.connections["shop"])

    assert (without.number, sorted(without.schema.by_name)) == (1, ["customers", "orders"])
    assert (again.number, len(again.schema.tables)) == (1, 3)


async def test_who_asks_while_somebody_looks_gets_one_answer(shop: Path) -> None:
    clock = Clock()
    async with history(clock, shop=table(shop)) as known:
        numbers: list[int] = []

        async def ask() -> None:
            numbers.append((await known.refresh(known.connections["shop"])).number)

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(ask)

    assert numbers == [1] * 20


async def test_two_processes_count_the_same_change_once(shop: Path, tmp_path: Path) -> None:
    store = make_store(sqlite_url(tmp_path / "store.db"))
    await store.open()
    try:
        async with (
            history(store=store, shop=table(shop)) as one,
            history(store=store, shop=table(shop)) as other,
        ):
            for _ in range(3):
                run(shop, f"CREATE TABLE t{_} (a)")
                async with anyio.create_task_group() as tasks:
                    for each in (one, other):
                        tasks.start_soon(each.refresh, each.connections["shop"])
            log = await one.changes(one.connections["shop"])
    finally:
        await store.close()

    assert said(log) == [(3, "table t2 added (1 column)"), (2, "table t1 added (1 column)")]


async def test_names_are_those_of_all_tables_and_types(shop: Path) -> None:
    told: list[tuple[str, ...]] = []
    async with history(shop=table(shop)) as known:

        async def tell() -> None:
            told.append(await known.names())

        known.on_change(tell)
        unknown = await known.names()
        names = await known.names(refresh=True)
        await known.refresh(known.connections["shop"])
        await known.reload({})

    assert unknown == ()
    assert names == ("big_orders", "customers", "orders")
    assert told == [names, ()]


async def test_schemas_are_looked_at_as_often_as_is_set(
    shop: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At once where the last look is too long ago, whoever had it; never where that is set."""
    clock = Clock()
    tables = {
        "due": table(shop, snapshot_every_minutes=60),
        "never": table(shop, snapshot_every_minutes=0),
        "absent": table(tmp_path / "absent.db", snapshot_every_minutes=60),
    }

    async def watched(known: SchemaHistory) -> None:
        """Until every connection had its turn: the one that is absent is the last."""
        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(known.watch)
                caplog.clear()
                while not any("schema not read" in each.getMessage() for each in caplog.records):
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()

    with caplog.at_level(logging.WARNING):
        async with history(clock, None, **tables) as known:
            await watched(known)
            first = await known.stored_version("due")
            run(shop, "CREATE TABLE fresh (a)")
            await watched(known)
            second = await known.stored_version("due")
            clock.day = 2
            await watched(known)
            third = await known.stored_version("due")
            never = await known.stored_version("never")

    assert never is None
    assert [each and each.number for each in (first, second, third)] == [1, 1, 2]


async def test_changes_of_postgresql_are_followed(postgres: PostgresServer) -> None:
    url = postgres.new_schema()
    async with history(shop=ConnectionTable(url=url)) as known:
        connection = known.connections["shop"]
        empty = await known.refresh(connection)
        with psycopg.connect(url, autocommit=True) as opened:
            opened.execute("CREATE TYPE mood AS ENUM ('sad')")
            opened.execute("CREATE TABLE people (id serial PRIMARY KEY, name text, now mood)")
            opened.execute("CREATE TABLE pets (id int, owner int REFERENCES people (id))")
            await known.refresh(connection)
            opened.execute("ALTER TYPE mood ADD VALUE 'happy'")
            opened.execute("ALTER TABLE people RENAME TO persons")
            opened.execute("ALTER TABLE persons RENAME COLUMN name TO full_name")
            opened.execute("ALTER TABLE pets ADD UNIQUE (owner)")
        log = await known.changes(connection, limit=4)

    assert empty.schema.tables == ()
    assert sorted(said(log)) == [
        (3, "column persons.name renamed to full_name"),
        (3, "table people renamed to persons"),
        (3, "type mood changed: enum (sad) → enum (sad, happy)"),
        (3, "unique key (owner) of pets added"),
    ]
