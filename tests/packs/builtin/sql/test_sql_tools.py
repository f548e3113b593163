"""The tools of the pack `sql`, through a gateway and real databases."""

import logging
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from tests.databases.connections.databases import SHOP, run, sqlite_url
from tests.limits import HANG_S
from tests.postgres import PostgresServer
from toolgate.app.app import App, open_app
from toolgate.settings import load
from toolgate.types import Caller, Identity

ROWS = """
INSERT INTO customers VALUES (1, 'Ann', 'a@x'), (2, 'Böb | "x"', NULL);
INSERT INTO orders VALUES (1, 1, 10.5), (2, 2, 9007199254740993);
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return run(tmp_path / "shop.db", SHOP + ROWS)


def connection(name: str, url: str, more: str = "") -> str:
    return f'[connections.{name}]\nurl = "{url}"\nsnapshot_every_minutes = 0\n{more}'


@asynccontextmanager
async def gateway(tmp_path: Path, text: str, *, auth: str = "local") -> AsyncGenerator[App]:
    (tmp_path / "toolgate.toml").write_text(
        f'auth = "{auth}"\n[store]\nurl = "{sqlite_url(tmp_path / "store.db")}"\n'
        f'[packs]\nenable = ["sql"]\ndisable = ["schema"]\n{text}',
        encoding="utf-8",
    )
    settings = load(cwd=tmp_path, environ={"HOME": str(tmp_path)})
    async with open_app(settings, wait_s=HANG_S) as app:
        yield app


async def call(
    app: App, tool: str, caller: Caller | None = None, **arguments: object
) -> tuple[str, dict[str, Any]]:
    """Text and structured content; the text begins with `ERROR ` for an error."""
    result = await app.gateway.calls.execute(caller or Caller.local(), f"sql:{tool}", arguments)
    text = result["content"][0]["text"]
    return (f"ERROR {text}" if result["isError"] else text), result.get("structuredContent", {})


async def test_a_sql_1_rows_come_with_types_the_statement_and_a_table_for_people(
    tmp_path: Path, shop: Path
) -> None:
    """A-SQL-1; issue: JSON with types that survive, a table for people, executed SQL reported."""
    async with gateway(tmp_path, connection("shop", sqlite_url(shop))) as app:
        text, found = await call(
            app,
            "query",
            sql="select c.id, name, mail, total, x'00ff' as raw, 1e999 as huge, c.id "
            "from customers c join orders o on o.customer_id = c.id order by 1; -- all",
        )
        nothing, empty = await call(app, "query", sql="select id from orders where id > 5")

    assert found["rows"] == [
        {
            "id": 1,
            "name": "Ann",
            "mail": "a@x",
            "total": 10.5,
            "raw": "AP8=",
            "huge": "Infinity",
            "id_2": 1,
        },
        {
            "id": 2,
            "name": 'Böb | "x"',
            "mail": None,
            "total": "9007199254740993",
            "raw": "AP8=",
            "huge": "Infinity",
            "id_2": 2,
        },
    ]
    assert [each["type"] for each in found["columns"]] == [
        *("integer", "text", "text", "real", "blob", "real", "integer")
    ]
    assert (found["row_count"], found["truncated"]) == (2, False)
    assert found["executed_sql"].endswith("order by 1")
    assert found["elapsed_ms"] >= 0
    assert text.splitlines()[0] == "2 rows of shop."
    assert "id  | name       | mail | total" in text
    assert '2   | Böb \\| "x" | NULL' in text
    assert nothing.startswith("0 rows of shop.")
    assert (empty["rows"], empty["columns"][0]["name"]) == ([], "id")


async def test_what_changes_anything_is_refused_with_reason_and_rule(
    tmp_path: Path, shop: Path
) -> None:
    async with gateway(tmp_path, connection("shop", sqlite_url(shop))) as app:
        text, found = await call(app, "query", sql="with x as (select 1) delete from orders")
        two, _ = await call(app, "query", sql="select 1; select 2")
        explained, _ = await call(app, "explain", sql="delete from orders")

    assert text.startswith("ERROR Not run: ")
    assert found == {"error": "statement", "message": text[6:], "executed_sql": None}
    assert "There is more than one statement" in two
    assert explained.startswith("ERROR Not run: ")
    with closing(sqlite3.connect(shop)) as database:
        assert database.execute("SELECT count(*) FROM orders").fetchone() == (2,)


async def test_rows_bytes_and_time_are_capped(tmp_path: Path, shop: Path) -> None:
    many = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) "
    limits = "[packs.options.sql]\nrows = 3\nmax_rows = 5\nmax_bytes = 2000\ntimeout_s = 0.3\n"
    async with gateway(tmp_path, connection("shop", sqlite_url(shop)) + limits) as app:
        _, usual = await call(app, "query", sql=many + "select i from n")
        text, most = await call(app, "query", sql=many + "select i from n", max_rows=100)
        _, wide = await call(app, "query", sql=many + "select i, hex(zeroblob(300)) from n")
        _, long = await call(app, "query", sql="select hex(zeroblob(5000)) as x")
        slow, failed = await call(
            app,
            "query",
            sql="with recursive n(i) as (select 1 union all select 1 from n) "
            "select count(*) from n",
        )

    assert (usual["row_count"], usual["truncated"]) == (3, True)
    assert (most["row_count"], most["truncated"]) == (5, True)
    assert "There is more" in text
    assert (wide["row_count"], wide["truncated"]) == (3, True)
    assert long["rows"][0]["x"].endswith("… (10,000 characters)")
    assert long["truncated"]
    assert "statement took longer than 0.3 s" in slow
    assert failed["error"] == "database"


@pytest.mark.parametrize(
    "value",
    [
        "randomblob(2000000)",
        "hex(zeroblob(1000000))",
        "replace(hex(zeroblob(1000)), '0', hex(zeroblob(1000)))",
    ],
)
async def test_a_value_beyond_1_mb_is_not_made_in_sqlite(
    tmp_path: Path, shop: Path, value: str
) -> None:
    """Regression: values of up to 64 MB were made, inside one step that no deadline can stop."""
    async with gateway(tmp_path, connection("shop", sqlite_url(shop))) as app:
        text, _ = await call(app, "query", sql=f"select length({value}) as x")
        _, smaller = await call(app, "query", sql="select length(hex(zeroblob(400000))) as x")

    assert text.startswith("ERROR ")
    assert "A value or a row may have 1 MB: make shorter values" in text
    assert smaller["rows"] == [{"x": 800_000}]


async def test_plans_tables_connections_and_sessions_are_told(tmp_path: Path, shop: Path) -> None:
    stock = run(tmp_path / "stock.db", "CREATE TABLE shelves (id INT)")
    text = connection("shop", sqlite_url(shop), 'description = "What was sold"\n')
    text += connection("stock", sqlite_url(stock))
    text += '[packs.options.sql]\nconnection = "shop"\n'
    async with gateway(tmp_path, text) as app:
        plan, planned = await call(app, "explain", sql="select * from orders where id = 1")
        table, described = await call(app, "table_info", table="ORDERS")
        listed, names = await call(app, "list_tables", pattern="*orders")
        other, _ = await call(app, "list_tables", connection="stock")
        _, known = await call(app, "connection_list")
        tested, test = await call(app, "connection_test", connection="stock")
        _, session = await call(app, "session_info")
        wrong, _ = await call(app, "table_info", table="ordr")
        unknown, _ = await call(app, "query", connection="shp", sql="select 1")
        cursor, _ = await call(app, "list_tables", cursor="x")

    assert "SEARCH orders USING INTEGER PRIMARY KEY" in plan
    assert planned["plan"][0]["detail"].startswith("SEARCH orders")
    assert table.splitlines()[:2] == [
        "orders: table of shop.",
        "- id INTEGER, not null, primary key",
    ]
    assert described["foreign_keys"] == [
        {"columns": ["customer_id"], "table": "customers", "to": ["id"]}
    ]
    assert [each["name"] for each in names["tables"]] == ["big_orders", "orders"]
    assert "- big_orders (view)" in listed
    assert "- shelves (table)" in other
    assert known["connections"] == [
        {"name": "shop", "dialect": "sqlite", "description": "What was sold", "default": True},
        {"name": "stock", "dialect": "sqlite", "description": None, "default": False},
    ]
    assert tested.startswith("stock answers (sqlite ")
    assert test["write_privileges"] == ["its file may be written by the user that Toolgate runs as"]
    assert (session["read_only"], session["rows"], session["caller"]) == (True, 200, "local")
    assert wrong.startswith("ERROR There is no table 'ordr' in shop.")
    assert unknown.endswith("Did you mean 'shop'?")
    assert cursor.startswith("ERROR 'x' is not a cursor of list_tables.")


async def test_a_sql_2_each_statement_is_noted_for_who_asked(tmp_path: Path, shop: Path) -> None:
    """A-SQL-2: an audit row per statement; others' rows only with the right to manage."""
    ann = Caller(
        caller_id="ann", conversation="t1", identity=Identity(caller_id="ann", kind="token")
    )
    text = (
        connection("shop", sqlite_url(shop))
        + '[[permission]]\nto = ["everyone"]\nallow = ["sql"]\n'
    )
    async with gateway(tmp_path, text, auth="required") as app:
        await call(app, "query", ann, sql="select 'secret' from orders")
        await call(app, "query", ann, sql="drop table orders")
        await call(app, "query", sql="select nothing from orders")
        own, mine = await call(app, "activity_log", ann)
        refused, _ = await call(app, "activity_log", ann, everyone=True)
        _, local = await call(app, "activity_log")
        _, everything = await call(app, "activity_log", everyone=True, limit=2)
        _, later = await call(app, "activity_log", since="2999-01-01")
        wrong, _ = await call(app, "activity_log", since="soon")

    assert [(each["outcome"], each["statement"]) for each in mine["entries"]] == [
        ("refused", "drop table orders"),
        ("done", "select 'secret' from orders"),
    ]
    assert mine["entries"][1]["rows"] == 2
    assert {each["source"] for each in mine["entries"]} == {"toolgate"}
    assert mine["entries"][0]["thread"] == "t1"
    assert "shop refused (The statement begins with DROP; allowed are queries.): drop" in own
    assert "only with the right to manage" in refused
    assert [each["outcome"] for each in local["entries"]] == ["failed"]
    assert [each["caller"] for each in everything["entries"]] == ["local", "ann"]
    assert later["entries"] == []
    assert wrong.startswith("ERROR since is 'soon', which is not a date.")


async def test_values_can_stay_out_of_the_log(tmp_path: Path, shop: Path) -> None:
    text = connection("shop", sqlite_url(shop)) + "[packs.options.sql]\nmask_literals = true\n"
    async with gateway(tmp_path, text) as app:
        await call(app, "query", sql="select 'secret', 42 from orders")
        _, found = await call(app, "activity_log")

    assert found["entries"][0]["statement"] == "select ? , ? from orders"


async def test_a_database_that_is_gone_or_locked_is_a_friendly_sentence(
    tmp_path: Path, shop: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Issue: a friendly sentence to the user, details in the log."""
    caplog.set_level(logging.INFO)
    text = connection("shop", sqlite_url(shop), "timeout_s = 0.2\n")
    async with gateway(tmp_path, text) as app:
        with closing(sqlite3.connect(shop, isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            locked, _ = await call(app, "query", sql="select 1 from orders")
            _, test = await call(app, "connection_test", connection="shop")
        again, _ = await call(app, "query", sql="select count(*) as n from orders")
        shop.unlink()
        gone, _ = await call(app, "query", sql="select 1")
        _, missing = await call(app, "connection_test", connection="shop")

    assert "cannot be read: another program holds a lock on it." in locked
    assert (test["ok"], test["kind"]) == (False, "locked")
    assert again.startswith("1 row of shop.")
    assert "the file is not there or may not be read" in gone
    assert missing["kind"] == "missing"
    assert any(record.exc_info for record in caplog.records if record.message == "statement failed")
    assert str(tmp_path) not in locked + gone


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("row = 3", "packs.options.sql.row does not exist. Allowed: connection, rows, "),
        ("rows = 0", "packs.options.sql.rows is 0. Allowed: a number from 1 to 10000."),
        ('functions = "f"', "packs.options.sql.functions is 'f'. Allowed: a list of texts."),
        ("mask_literals = 1", "packs.options.sql.mask_literals is 1. Allowed: true or false."),
        ("connection = 5", "packs.options.sql.connection is 5. Allowed: a text."),
    ],
)
async def test_options_that_are_none_are_named(
    tmp_path: Path, shop: Path, line: str, said: str
) -> None:
    text = connection("shop", sqlite_url(shop)) + f"[packs.options.sql]\n{line}\n"
    async with gateway(tmp_path, text) as app:
        result, _ = await call(app, "query", sql="select 1")

    assert said in result


DOCUMENTS = """
CREATE TABLE notes (id INTEGER PRIMARY KEY, doc JSON, more jsonb NOT NULL, said TEXT);
CREATE VIEW latest AS SELECT doc AS newest FROM notes WHERE id = 1;
INSERT INTO notes VALUES (1, '{"a": [1, null, 2.5], "b": {"c": "Böb"}}', '[true]', '{"a": 1}');
INSERT INTO notes VALUES (2, '{"a": 1', '"text"', NULL), (3, NULL, '7', NULL);
INSERT INTO notes VALUES (4, '{"a": NaN}', '{"large": 9007199254740993}', NULL);
INSERT INTO notes VALUES (5, x'00ff', '{"\\ud800": "\\ud800"}', NULL);
"""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return run(tmp_path / "notes.db", DOCUMENTS)


async def test_json_columns_of_sqlite_are_json_and_what_is_not_json_there_stays_text(
    tmp_path: Path, notes: Path
) -> None:
    async with gateway(tmp_path, connection("notes", sqlite_url(notes))) as app:
        text, found = await call(app, "query", sql="select * from notes order by id;")

    assert [row["doc"] for row in found["rows"]] == [
        {"a": [1, None, 2.5], "b": {"c": "Böb"}},
        '{"a": 1',
        None,
        '{"a": NaN}',
        "AP8=",
    ]
    assert [row["more"] for row in found["rows"]] == [
        [True],
        "text",
        7,
        {"large": "9007199254740993"},
        {"?": "?"},
    ]
    assert found["rows"][0]["said"] == '{"a": 1}'
    types = {column["name"]: column["type"] for column in found["columns"]}
    assert types == {"id": "integer", "doc": "json", "more": "json", "said": "text"}
    assert '{"a":[1,null,2.5],"b":{"c":"Böb"}}' in text
    assert not found["truncated"]


@pytest.mark.parametrize(
    "sql",
    [
        "select newest from latest",
        "with n as (select * from notes) select doc from n where id = 1 -- all",
        "select x.doc as d from (select doc, id from notes) x join latest l on x.id = 1",
        "select doc from notes where id = 1 union all select doc from notes where id = 9",
    ],
)
async def test_json_is_told_through_views_and_subqueries(
    tmp_path: Path, notes: Path, sql: str
) -> None:
    before = notes.read_bytes()
    async with gateway(tmp_path, connection("notes", sqlite_url(notes))) as app:
        _, found = await call(app, "query", sql=sql)

    (value,) = found["rows"][0].values()
    assert value == {"a": [1, None, 2.5], "b": {"c": "Böb"}}
    assert notes.read_bytes() == before


@pytest.mark.parametrize("doc", ["[" * 5_000 + "]" * 5_000, "[" * 60 + "]" * 60])
async def test_deep_json_of_sqlite_is_still_json_or_its_text(tmp_path: Path, doc: str) -> None:
    path = run(tmp_path / "deep.db", f"CREATE TABLE t (doc JSON); INSERT INTO t VALUES ('{doc}')")
    async with gateway(tmp_path, connection("deep", sqlite_url(path))) as app:
        _, found = await call(app, "query", sql="select doc from t")

    value, depth = found["rows"][0]["doc"], 0
    while isinstance(value, list):
        (value,), depth = value, depth + 1
    assert depth * "[" + str(value) + depth * "]" == doc


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_large_json_keeps_within_the_limit_of_a_result(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    if kind == "sqlite":
        items = f"[{', '.join(map(str, range(50_000)))}]"
        path = run(
            tmp_path / "l.db", f"CREATE TABLE t (doc JSON); INSERT INTO t VALUES ('{items}')"
        )
        url, sql = sqlite_url(path), "select doc from t"
    else:
        url = request.getfixturevalue("postgres").url()
        sql = "select to_jsonb(array(select generate_series(0, 49999))) as doc"
    async with gateway(tmp_path, connection("large", url)) as app:
        _, found = await call(app, "query", sql=sql)

    (row,) = found["rows"]
    assert row["doc"].startswith("[0,1,2,3,")
    assert len(row["doc"]) <= 200_100
    assert found["truncated"]


# PostgreSQL


async def test_values_of_postgresql_survive(tmp_path: Path, postgres: PostgresServer) -> None:
    """Issue: Decimal, dates, UUID, bytes; and what Python has no place for."""
    sql = """
      select 12.50::numeric(10,2) as price, date '2026-11-22' as day,
        timestamptz '2026-11-22 12:00+00' as moment,
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid as id,
        '\\x00ff'::bytea as raw, interval '1 day 2 hours 30 seconds' as span, array[1,2] as list,
        '{"a": [1, null]}'::jsonb as doc, 9007199254740993::bigint as large,
        null as nothing,
        'infinity'::date as never, '20000-01-01'::date as far, 'NaN'::float as nan,
        '10.0.0.1'::inet as host, int4range(1, 5) as span2, time '10:11:12' as at,
        true as yes
    """
    async with gateway(tmp_path, connection("store", postgres.url())) as app:
        text, found = await call(app, "query", sql=sql)

    row = found["rows"][0]
    assert row == {
        "price": "12.50",
        "day": "2026-11-22",
        "moment": row["moment"],
        "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "raw": "AP8=",
        "span": "P1DT2H30S",
        "list": [1, 2],
        "doc": {"a": [1, None]},
        "large": "9007199254740993",
        "nothing": None,
        "never": "infinity",
        "far": "20000-01-01",
        "nan": "NaN",
        "host": "10.0.0.1",
        "span2": "[1, 5)",
        "at": "10:11:12",
        "yes": True,
    }
    assert row["moment"].startswith("2026-11-22T12:00:00")
    types = {each["name"]: each["type"] for each in found["columns"]}
    assert (types["price"], types["id"], types["doc"]) == ("numeric(10,2)", "uuid", "jsonb")
    assert text.startswith("1 row of store.")


async def test_a_sql_2_sessions_of_postgresql_are_tagged_plans_are_json_and_limits_hold(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """A-SQL-2: the session is tagged; the plan is that of the engine, and nothing is run."""
    url = postgres.new_schema()
    with psycopg.connect(url, autocommit=True) as opened:
        opened.execute("CREATE TABLE things (id int PRIMARY KEY, name text)")
        opened.execute("COMMENT ON TABLE things IS 'All of them'")
        opened.execute("INSERT INTO things SELECT i, 'n' || i FROM generate_series(1, 1000) i")
        opened.execute("ANALYZE things")
    caller = Caller.local(conversation="thread-7")
    async with gateway(tmp_path, connection("store", url.replace("%", "%"))) as app:
        _, tag = await call(
            app, "query", caller, sql="select current_setting('application_name') as tag"
        )
        _, plan = await call(app, "explain", sql="select * from things where id = 5")
        _, many = await call(app, "query", sql="select * from things")
        table, about = await call(app, "table_info", table="things")
        _, names = await call(app, "list_tables")
        _, session = await call(app, "session_info")
        wrong, _ = await call(app, "query", sql="select nme from things")
        show, _ = await call(app, "query", sql="show transaction_read_only")
        _, test = await call(app, "connection_test")

    assert tag["rows"] == [{"tag": "toolgate local thread-7"}]
    assert plan["plan"][0]["Plan"]["Node Type"] in {"Index Scan", "Seq Scan", "Bitmap Heap Scan"}
    assert (many["row_count"], many["truncated"]) == (200, True)
    assert "All of them" in table
    assert about["row_estimate"] == 1000
    assert names["tables"][0]["comment"] == "All of them"
    assert (session["transaction_read_only"], session["user"]) == ("on", "postgres")
    assert 'does not run this statement: column "nme" does not exist.' in wrong
    assert "Perhaps you meant" in wrong
    assert "on" in show
    assert test["write_privileges"] == ["superuser: everything"]


async def test_a_statement_that_nobody_waits_for_is_ended_in_the_database(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """Facts: cancel at the engine, not only in Python."""
    slow = "select count(*) from generate_series(1, 3000000000) as cancelled_one"
    running = (
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%cancelled_one' "
        "AND state = 'active' AND pid <> pg_backend_pid()"
    )
    async with gateway(tmp_path, connection("store", postgres.url())) as app:
        with psycopg.connect(postgres.url(), autocommit=True) as watching:

            async def count() -> int:
                return (watching.execute(running).fetchone() or (0,))[0]

            with anyio.fail_after(HANG_S):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(lambda: call(app, "query", sql=slow))
                    while not await count():
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
                while await count():
                    await anyio.lowlevel.checkpoint()
