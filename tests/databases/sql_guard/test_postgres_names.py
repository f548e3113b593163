"""Names that can be code of users: functions, columns, operators and types of PostgreSQL."""

import json
import sys
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.databases.sql_guard.statements import DATA, Statement
from tests.real.setup import ensure_pglast
from toolgate.databases.sql_guard import (
    CatalogObject,
    PostgresCatalog,
    check_statement,
    named_in,
)

COLUMNS: dict[str, list[str]] = json.loads(
    (DATA / "postgres_columns.json").read_text(encoding="utf-8")
)
NAMES = [
    Statement(row["id"], "postgres", row["sql"], row["allowed"])
    for row in map(
        json.loads, (DATA / "postgres_names.jsonl").read_text(encoding="utf-8").splitlines()
    )
]
GOOD = [each for each in NAMES if each.allowed]
BAD = [each for each in NAMES if not each.allowed]


@pytest.fixture(
    params=[pytest.param("with pglast", marks=pytest.mark.real), "without pglast"], autouse=True
)
def grammar(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs with PostgreSQL's own grammar and without it."""
    if request.param == "without pglast":
        monkeypatch.setitem(sys.modules, "pglast", None)
    elif find_spec("pglast") is None:
        monkeypatch.syspath_prepend(str(ensure_pglast(print)))


def test_no_name_of_a_user_runs_code() -> None:
    passed = [
        each.sql for each in BAD if check_statement(each.sql, "postgres", columns=COLUMNS).allowed
    ]

    assert passed == []
    assert len(BAD) > 200


def test_what_analysts_write_is_let_through() -> None:
    refused = [
        (each.sql, verdict.reason)
        for each in GOOD
        if not (verdict := check_statement(each.sql, "postgres", columns=COLUMNS)).allowed
    ]

    assert refused == []
    assert len(GOOD) > 120


def test_without_known_columns_names_with_dots_are_columns_of_tables() -> None:
    """Nobody who only reads the text can tell `t.f` from a column."""
    assert check_statement("select o.wipe from orders o", "postgres").allowed
    for sql in (
        "select o.wipe from orders o",
        "select x.id from nowhere x",
    ):
        assert check_statement(sql, "postgres", columns={"orders": ["id"]}).rule == "attribute"
        assert check_statement(sql, "postgres", columns={}).rule == "attribute"
    for sql in (
        "select (o).wipe from orders o",
        "select (address).city from customers",
        "select (5.0::float8).pg_sleep",
        "select t.wipe from (select id from orders) t",
        "with orders as (select 1 as id) select orders.wipe from orders",
    ):
        assert check_statement(sql, "postgres").rule == "attribute"


@pytest.mark.parametrize(
    ("sql", "rule", "reason"),
    [
        ("select system('x')", "function", "The function system is not known to be harmless."),
        (
            "select orders.f from orders",
            "attribute",
            "The name orders.f may call a function: no column of this name is known.",
        ),
        (
            "select (o).f from orders o",
            "attribute",
            "What stands before .f may be given to a function of this name: no such field is "
            "known.",
        ),
        ("select 1 <=> 2", "operator", "The operator <=> is not known to be harmless."),
        (
            "select 1 operator(evil.+) 2",
            "operator",
            "The operator evil.+ is not known to be harmless.",
        ),
        ("select 'x'::mytype", "type", "The type mytype is not known to be harmless."),
        ("select 'x'::evil.text", "type", "The type evil.text is not known to be harmless."),
    ],
)
def test_the_reason_names_what_may_run_code(sql: str, rule: str, reason: str) -> None:
    verdict = check_statement(sql, "postgres", columns=COLUMNS)

    assert (verdict.allowed, verdict.rule, verdict.reason) == (False, rule, reason)


# What the catalog of a database says


def outside(
    name: str, *, function: str = "", is_visible: bool = True, is_harmless: bool = False
) -> CatalogObject:
    return CatalogObject(
        schema="public",
        name=name,
        function=function or f"public.{name}_f",
        is_visible=is_visible,
        is_harmless=is_harmless,
    )


def test_functions_of_extensions_pass_and_others_of_a_name_from_postgresql_do_not() -> None:
    trigrams = PostgresCatalog(functions=(outside("similarity", is_harmless=True),))
    own_lower = PostgresCatalog(functions=(outside("lower", function="public.lower"),))
    elsewhere = PostgresCatalog(functions=(outside("lower", is_visible=False),))

    assert check_statement("select similarity('a', 'b')", "postgres", catalog=trigrams).allowed
    assert check_statement(
        "select public.similarity('a', 'b')", "postgres", catalog=trigrams
    ).allowed
    assert not check_statement("select similarity('a', 'b')", "postgres").allowed
    assert not check_statement("select crosstab('x')", "postgres", catalog=trigrams).allowed
    refused = check_statement("select lower('A')", "postgres", catalog=own_lower)
    assert refused.reason == "The function lower of the schema public may run any code."
    assert check_statement("select pg_catalog.lower('A')", "postgres", catalog=own_lower).allowed
    assert check_statement("select lower('A')", "postgres", catalog=elsewhere).allowed
    assert check_statement(
        "select lower('A')", "postgres", catalog=own_lower, functions=["public.lower"]
    ).allowed


def test_operators_types_and_casts_outside_of_pg_catalog_are_asked_about() -> None:
    sql = "select a <=> b, 'x'::mood, c = d from (values (1, 2, 3, 4)) t(a, b, c, d)"
    vectors = outside("<=>", is_harmless=True)
    mood = outside("mood", is_harmless=True)

    def rule(
        operators: tuple[CatalogObject, ...] = (),
        types: tuple[CatalogObject, ...] = (),
        casts: tuple[CatalogObject, ...] = (),
    ) -> str:
        catalog = PostgresCatalog(operators=operators, types=types, casts=casts)
        return check_statement(sql, "postgres", catalog=catalog).rule

    assert rule(operators=(vectors,), types=(mood,)) == "reads"
    assert rule(operators=(vectors,)) == "type"
    assert rule(types=(mood,)) == "operator"
    assert rule(operators=(vectors, outside("=")), types=(mood,)) == "operator"
    assert rule(operators=(outside("<=>"),), types=(mood,)) == "operator"
    assert rule(operators=(vectors,), types=(outside("mood"),)) == "type"
    assert rule(operators=(vectors,), types=(mood,), casts=(outside("t"),)) == "type"


def test_operators_behind_keywords_are_asked_about() -> None:
    for sql, name in (
        ("select 'a' like 'b'", "~~"),
        ("select 'a' not ilike 'b'", "!~~*"),
        ("select 1 in (2)", "="),
        ("select 1 between 2 and 3", ">="),
        ("select nullif(1, 2)", "="),
        ("select case 1 when 2 then 3 end", "="),
        ("select 1 from a join b using (id)", "="),
        ("select 1 is distinct from 2", "="),
    ):
        assert name in named_in(sql).operators
        catalog = PostgresCatalog(operators=(outside(name),))
        assert check_statement(sql, "postgres", catalog=catalog).rule == "operator"


# Attacks in disguise

ATTACKS = [
    "system ( 'x' )",
    "passing ( 'x' )",
    "columns ( 'x' )",
    "repeatable ( 1 )",
    "wipe ( 1 )",
    "orders . wipe",
    "( orders ) . wipe",
    "( 5.0 ) . pg_sleep",
    "1 <=> 2",
    "1 operator ( public . + ) 2",
    "'x' :: mytype",
    "cast ( 'x' as mytype )",
    "mytype 'x'",
    "pg_sleep ( 9 )",
]
FRAMES = [
    "select {} from orders",
    "select id from orders where {} is null",
    "select id from orders order by {}",
    "select id from orders group by {}",
    "select coalesce ( {} ) from orders",
    "select ( select {} ) from orders",
    "select max ( {} ) over ( partition by id ) from orders",
    "with t as ( select {} as a from orders ) select t . a from t",
    "explain select {} from orders",
]
BLANKS = st.sampled_from([" ", "\n", "\t", "/**/", "/* /* ; */ ' */", "--\n", "-- '\n  "])


@st.composite
def disguised(draw: st.DrawFn) -> str:
    """An attack in another case, with other blanks, names in quotes or with escapes."""
    sql = draw(st.sampled_from(FRAMES)).format(draw(st.sampled_from(ATTACKS)))
    shapes = draw(st.lists(st.integers(0, 5), min_size=40, max_size=40))
    blanks = draw(st.lists(BLANKS, min_size=40, max_size=40))
    words = map(_disguised, sql.split(), shapes)
    return "".join(map(str.__add__, words, blanks))


def _disguised(word: str, shape: int) -> str:
    if word in {"wipe", "orders", "mytype", "pg_sleep", "system", "passing", "columns"}:
        if shape == 0:
            return f'"{word}"'
        if shape == 1:
            return f'U&"\\{ord(word[0]):04X}{word[1:]}"'
        if shape == 2:
            return f'u&"{word[0]}\\+{ord(word[1]):06x}{word[2:]}"'
    if shape in {3, 4} and not word.startswith("'"):
        return word.upper() if shape == 3 else word.title()
    return word


@given(sql=disguised())
def test_no_disguise_lets_an_attack_pass(sql: str) -> None:
    assert not check_statement(sql, "postgres", columns=COLUMNS).allowed


@given(sql=st.sampled_from([each.sql for each in GOOD]), blank=st.sampled_from([" ", "\n", "/**/"]))
def test_case_and_blanks_refuse_nothing_harmless(sql: str, blank: str) -> None:
    """Outside of quotes, where they mean nothing."""
    if any(sign in sql for sign in "'\"-/"):
        return
    assert check_statement(sql.upper().replace(" ", blank), "postgres", columns=COLUMNS).allowed
