"""Code of the users of a PostgreSQL database, which a query must not run: seen in the database."""

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.databases.sql_guard.statements import DATA
from tests.packs.builtin.sql.test_sql_tools import call, connection, gateway
from tests.postgres import PostgresServer
from toolgate.app.app import App
from toolgate.databases.connections import Connection, QueryLimits
from toolgate.errors import DatabaseError, StatementError
from toolgate.settings import ConnectionTable

TABLES = """
CREATE TYPE address AS (street text, city text);
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN amount AS numeric(10, 2);
CREATE TABLE customers (id int PRIMARY KEY, name text, email text, home address, feels mood);
CREATE TABLE orders (id int PRIMARY KEY, customer_id int, amount numeric(10, 2), status text,
  created_at timestamp, tags text[], data jsonb);
CREATE TABLE employees (id int, name text, manager_id int, salary numeric, department text);
CREATE TABLE papers (id int, body xml, at date);
CREATE TABLE "Mixed Case" ("Id" int, "Some Name" text);
CREATE SCHEMA sales;
CREATE TABLE sales.regions (id int, name text);
INSERT INTO customers VALUES (1, 'Ann', 'a@x', ROW('High St', 'York'), 'happy');
INSERT INTO orders VALUES (1, 1, 10.5, 'open', '2025-01-01', '{a,b}', '{"a": ["x"], "items": []}');
CREATE FUNCTION plain(text) RETURNS text LANGUAGE sql AS 'SELECT $1';
"""
USER_CODE = """
CREATE SCHEMA evil;
CREATE FUNCTION evil.act() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
  BEGIN EXECUTE 'COPY (SELECT 1) TO ' || quote_literal('{path}'); END $$;
CREATE FUNCTION system(text) RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN $1; END $$;
CREATE FUNCTION passing(text) RETURNS xml LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN '<a/>'::xml; END $$;
CREATE FUNCTION columns(text) RETURNS int LANGUAGE plpgsql STABLE AS
  $$ BEGIN PERFORM evil.act(); RETURN 1; END $$;
CREATE FUNCTION repeatable(text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM evil.act(); RETURN 1; END $$;
CREATE FUNCTION cube(int) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN 1; END $$;
CREATE FUNCTION public."between"(int) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN 1; END $$;
CREATE FUNCTION wipe(orders) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN 1; END $$;
CREATE FUNCTION wipe(address) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN 1; END $$;
CREATE FUNCTION wipe(text) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN 1; END $$;
CREATE FUNCTION wipe(record) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN 1; END $$;
CREATE FUNCTION upper(orders) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN 1; END $$;
CREATE FUNCTION same(orders, orders) RETURNS boolean LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN true; END $$;
CREATE OPERATOR === (LEFTARG = orders, RIGHTARG = orders, FUNCTION = same);
CREATE OPERATOR + (LEFTARG = orders, RIGHTARG = orders, FUNCTION = same);
CREATE OPERATOR ~~ (LEFTARG = orders, RIGHTARG = orders, FUNCTION = same);
CREATE FUNCTION checked(numeric) RETURNS boolean LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN true; END $$;
CREATE DOMAIN positive AS numeric CHECK (checked(VALUE));
CREATE TABLE payments (id int, amount positive);
INSERT INTO payments VALUES (1, 1);
CREATE TYPE mytype AS (a text);
CREATE FUNCTION from_text(text) RETURNS mytype LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN ROW($1)::mytype; END $$;
CREATE CAST (text AS mytype) WITH FUNCTION from_text(text);
CREATE FUNCTION to_json_of(mood) RETURNS json LANGUAGE plpgsql AS
  $$ BEGIN PERFORM evil.act(); RETURN '1'::json; END $$;
CREATE CAST (mood AS json) WITH FUNCTION to_json_of(mood);
CREATE TYPE size AS (a int);
CREATE FUNCTION compared(size, size) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM evil.act(); RETURN ($1).a - ($2).a; END $$;
CREATE FUNCTION holds(size, size) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM evil.act(); RETURN true; END $$;
CREATE OPERATOR <# (LEFTARG = size, RIGHTARG = size, FUNCTION = holds);
CREATE OPERATOR <=# (LEFTARG = size, RIGHTARG = size, FUNCTION = holds);
CREATE OPERATOR =# (LEFTARG = size, RIGHTARG = size, FUNCTION = holds, MERGES);
CREATE OPERATOR >=# (LEFTARG = size, RIGHTARG = size, FUNCTION = holds);
CREATE OPERATOR ># (LEFTARG = size, RIGHTARG = size, FUNCTION = holds);
CREATE OPERATOR CLASS size_ops DEFAULT FOR TYPE size USING btree AS OPERATOR 1 <#,
  OPERATOR 2 <=#, OPERATOR 3 =#, OPERATOR 4 >=#, OPERATOR 5 >#, FUNCTION 1 compared(size, size);
CREATE TYPE size_range AS RANGE (subtype = size);
CREATE TABLE boxes (id int, size size);
CREATE TABLE spans (id int, span size_range);
INSERT INTO boxes VALUES (1, ROW(1)), (1, ROW(2));
INSERT INTO spans SELECT 1, size_range(ROW(1)::size, ROW(2)::size);
CREATE DOMAIN nickname AS text CHECK (checked(length(VALUE)::numeric));
CREATE TABLE people (nicknames nickname[]);
INSERT INTO people VALUES ('{Ann}');
CREATE TABLE parcels (id int, weights positive[], parts payments);
INSERT INTO parcels VALUES (1, '{1}', ROW(1, 1));
"""

ATTACKS = [
    "select size from boxes order by size",
    "select distinct size from boxes",
    "select b.size from boxes b union select b.size from boxes b",
    "select greatest(size, size) from boxes",
    "select array_agg(size order by size) from boxes",
    "select rank() over (order by b) from boxes b",
    "select range_merge(span, span) from spans",
    "select system('x')",
    "select \"system\"('x')",
    "select system('x') from orders tablesample system (100)",
    "select passing('x')",
    "select x.* from xmltable('/a' passing passing('x') columns b text path '.') x",
    "select columns('x')",
    "select columns('x'), 1 as columns",
    "select x.* from xmltable('/r' passing xml '<r/>' columns a int default columns('1')) x",
    "select j.* from json_table('[1]', '$[*]' columns (a int path '$.b' default columns('1') "
    "on empty)) j",
    "select repeatable('x')",
    "select cube(1)",
    "select id from orders group by abs(cube(1)), id",
    "select public.between(1)",
    "select id from orders group by public.cube(1), id",
    "select orders.wipe from orders",
    "select o.wipe from orders o",
    'select O . "wipe" from orders o',
    "select public.orders.wipe from public.orders",
    "select (o).wipe from orders o",
    "select (orders).wipe from orders",
    "select (c.home).wipe from customers c",
    "select (home).wipe from customers",
    "select (name).wipe from customers",
    "select (o.status).wipe from orders o",
    "select (u).wipe from unnest(array['a']) as u(wipe)",
    "select (select o from orders o).wipe",
    "select t.wipe from (select 1 as id, 2 as n) t",
    "select t.wipe from (values (1, 2)) t",
    "with orders as (select orders.wipe from orders) select * from orders",
    "with t as (select 1 as id, 2 as n) select t.wipe from t",
    "select e.wipe from orders o, jsonb_each(o.data) e",
    "select (select 1 from (select 1 as wipe) o, (select o.wipe) s) from orders o",
    "select o.id from orders o order by o.wipe",
    "select upper(o) from orders o",
    "select o.upper from orders o",
    "select o === o from orders o",
    "select o operator(public.===) o from orders o",
    "select o + o from orders o",
    "select o operator(public.+) o from orders o",
    "select o like o from orders o",
    "select o === any (array[o]) from orders o",
    "select 1::positive",
    "select positive '1'",
    "select cast(1 as positive)",
    "select cast(1 as public.positive)",
    "select '{1}'::positive[]",
    "select x.a from json_to_record('{\"a\": 1}') as x(a positive)",
    "select j.a from json_table('1', '$' columns (a positive path '$')) j",
    "select json_value('1', '$' returning positive)",
    "select pg_input_is_valid('1', 'positive')",
    "select (pg_input_error_info('1', 'positive')).message",
    "select json_populate_record(p, '{\"amount\": 2}') from payments p",
    "select jsonb_populate_recordset(p, '[{\"amount\": 2}]') from payments p",
    "select json_populate_record(null::payments, '{\"amount\": 2}')",
    "select coalesce(p, '(1,2)') from payments p",
    "select coalesce(p.*, '(1,2)') from payments p",
    "select p from payments p union all select '(1,2)'",
    "select coalesce(array_agg(amount), '{2}') from payments",
    "select coalesce(b, '{2}') from payments p(a, c), lateral (select array[c]) d(b)",
    "select coalesce(weights, '{2}') from parcels",
    "select array_append(weights, $$2$$) from parcels",
    "select coalesce(c, '{2}') from parcels as p(a, c, d)",
    "select coalesce(parts, '(1,2)') from parcels",
    "select * from parcels union all select 1, '{2}', '(1,2)'",
    "select case when true then array[5.0] else weights end from parcels",
    "select greatest(weights, array[5.0]) from parcels",
    "select lag(weights, 1, array[5.0]) over () from parcels",
    'select pg_catalog."lead"(weights, 1, array_agg(5.0)) over () from parcels group by weights',
    "select array[weights, array[5.0]] from parcels",
    "values ((select weights from parcels)), (array[5.0])",
    "select weights from parcels union select array_agg(id::numeric) from parcels",
    "with t(w) as (select weights from parcels) select w from t except select array[5.0] from t",
    "select greatest(nicknames, tags) from people, orders",
    "select array_agg(amount) from payments union all select array_agg(5.0)",
    "select name::mytype from customers",
    "select cast(name as mytype) from customers",
    "select to_json(feels) from customers",
    "select row_to_json(c) from customers c",
    "select feels::json from customers",
]
"""Each runs code of a user in PostgreSQL 18, or would with a cast or a function more."""


@pytest.fixture(scope="module")
def shop(postgres: PostgresServer) -> Generator[str]:
    postgres.execute("CREATE DATABASE user_code")
    postgres.execute(TABLES, "user_code")
    yield postgres.url("user_code")
    postgres.execute("DROP DATABASE user_code WITH (FORCE)")


@pytest.fixture(scope="module")
def trace(postgres: PostgresServer) -> Generator[Path]:
    """A database whose users' code leaves a file, also in a transaction that only reads."""
    path = Path(postgres.folder) / "trace"
    postgres.execute("CREATE DATABASE attacked")
    postgres.execute(TABLES, "attacked")
    postgres.execute(USER_CODE.replace("{path}", str(path)), "attacked")
    yield path
    postgres.execute("DROP DATABASE attacked WITH (FORCE)")
    path.unlink(missing_ok=True)


@pytest.fixture
async def attacked(tmp_path: Path, postgres: PostgresServer, trace: Path) -> AsyncGenerator[App]:
    async with gateway(tmp_path, connection("store", postgres.url("attacked"))) as app:
        yield app


async def test_no_query_runs_code_of_the_database_users(
    attacked: App, postgres: PostgresServer, trace: Path
) -> None:
    """Issue: grammar words, attribute calls, operators and types; the attacks work without it."""
    unguarded = Connection("store", ConnectionTable(url=postgres.url("attacked"), timeout_s=5))
    works: set[str] = set()
    passed: list[str] = []
    left_traces: list[str] = []
    for sql in ATTACKS:
        trace.unlink(missing_ok=True)
        text, _ = await call(attacked, "query", sql=sql)
        if not text.startswith("ERROR Not run: "):
            passed.append(f"{sql}: {text}")
        if trace.exists():
            left_traces.append(sql)
        with suppress(StatementError, DatabaseError):
            await unguarded.run_query(sql, limits=QueryLimits(rows=3))
        if trace.exists():
            works.add(sql)
    await unguarded.aclose()

    assert (passed, left_traces) == ([], [])
    # The server of the tests is built without libxml, so it computes nothing of XMLTABLE.
    assert [sql for sql in ATTACKS if sql not in works and "xmltable" not in sql] == []


async def test_columns_whose_domain_runs_user_code_are_read(attacked: App, trace: Path) -> None:
    """Their checks run only where a text or an array can become a row or another array."""
    trace.unlink(missing_ok=True)
    texts = [
        (await call(attacked, "query", sql=sql))[0]
        for sql in (
            "select amount, weights from payments p join parcels q on q.id = p.id",
            "select count(*) from parcels where id = '1'",
            "select coalesce(id, 2) from parcels union select 3",
            "select weights[1], array_length(weights, 1), round(amount, 1) from parcels, payments",
            "select * from payments",
        )
    ]

    assert [text for text in texts if text.startswith("ERROR")] == []
    assert not trace.exists()


async def test_plans_are_made_of_harmless_queries_only(attacked: App, trace: Path) -> None:
    trace.unlink(missing_ok=True)
    text, _ = await call(attacked, "explain", sql="select repeatable('x')")

    assert text.startswith("ERROR Not run: The function repeatable is not known to be harmless.")
    assert not trace.exists()


async def test_what_analysts_write_runs(tmp_path: Path, shop: str) -> None:
    """The columns, the types and the row types come from the catalog."""
    rows = map(json.loads, (DATA / "postgres_names.jsonl").read_text(encoding="utf-8").splitlines())
    statements = [row["sql"] for row in rows if row["allowed"]]
    statements += [
        "select 'sad'::mood, feels::text, feels = 'happy' from customers",
        "select 5::amount, cast(5 as public.amount), '{sad}'::mood[]",
        "select null::orders, row('a', 'b')::address",
        "select (c.home).city, (home).street from customers c",
        "select plain.relname from pg_class plain",
    ]
    failed: list[str] = []
    async with gateway(tmp_path, connection("store", shop)) as app:
        for sql in statements:
            text, _ = await call(app, "query", sql=sql)
            if text.startswith("ERROR") and "unsupported XML feature" not in text:
                failed.append(f"{sql}: {text}")

    assert "\n".join(failed) == ""


async def test_functions_that_are_named_in_the_options_run(tmp_path: Path, shop: str) -> None:
    async with gateway(tmp_path, connection("store", shop)) as app:
        refused, _ = await call(app, "query", sql="select plain('a')")
    options = '[packs.options.sql]\nfunctions = ["plain"]\n'
    async with gateway(tmp_path, connection("store", shop) + options) as app:
        _, found = await call(app, "query", sql="select plain('a')")

    assert refused.startswith("ERROR Not run: The function plain is not known to be harmless.")
    assert found["rows"] == [{"plain": "a"}]


async def test_what_an_extension_adds_runs(tmp_path: Path, shop: str) -> None:
    """Operators, types and functions of pgvector, which PostgreSQL knows to be the extension's."""
    with psycopg.connect(shop, autocommit=True) as opened:
        opened.execute("CREATE EXTENSION vector")
        opened.execute("CREATE TABLE items (id int, embedding vector(2))")
        opened.execute("INSERT INTO items VALUES (1, '[1,2]')")
    async with gateway(tmp_path, connection("store", shop)) as app:
        _, found = await call(
            app,
            "query",
            sql="select i.id, cosine_distance(i.embedding, '[1,2]') as a, "
            "i.embedding <-> '[1,2]'::vector as b, i.embedding::vector(2)::text as c "
            "from items i order by i.embedding <=> cast('[1,2]' as public.vector)",
        )

    assert found["rows"] == [{"id": 1, "a": 0.0, "b": 0.0, "c": "[1,2]"}]


async def test_search_path_makes_no_function_of_a_user_a_built_in_one(
    tmp_path: Path, postgres: PostgresServer, shop: str
) -> None:
    """A schema can stand before pg_catalog, so that its functions are the ones that run."""
    postgres.execute("CREATE SCHEMA front", "user_code")
    postgres.execute(
        "CREATE FUNCTION front.lower(text) RETURNS text LANGUAGE sql AS 'SELECT $1'", "user_code"
    )
    url = f"{shop}&options=-csearch_path%3Dfront,pg_catalog,public"
    async with gateway(tmp_path, connection("store", url)) as app:
        own, _ = await call(app, "query", sql="select lower('A')")
        _, found = await call(app, "query", sql="select pg_catalog.lower('A')")
    async with gateway(tmp_path, connection("store", shop)) as app:
        _, usual = await call(app, "query", sql="select lower('A')")

    assert own.startswith("ERROR Not run: The function lower of the schema front may run any code.")
    assert (found["rows"], usual["rows"]) == ([{"lower": "a"}], [{"lower": "a"}])
