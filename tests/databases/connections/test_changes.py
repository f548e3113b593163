"""What is found between two schemas: all that is different, and renames where they are clear."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgate.databases.connections import (
    ColumnSchema,
    ForeignKey,
    Index,
    NamedType,
    Schema,
    TableSchema,
    changes_between,
    with_unread,
)

ORDERS = TableSchema(
    name="orders",
    columns=(
        ColumnSchema(name="id", type="integer", nullable=False),
        ColumnSchema(name="customer_id", type="integer"),
        ColumnSchema(name="placed", type="date"),
        ColumnSchema(name="total", type="numeric(10,2)", default="0"),
    ),
    primary_key=("id",),
    foreign_keys=(ForeignKey(columns=("customer_id",), table="customers", to=("id",)),),
    unique_keys=(("customer_id", "placed"),),
    checks=("total >= 0",),
    indexes=(Index(name="ix_placed", columns=("placed",)),),
)
CUSTOMERS = TableSchema(
    name="customers",
    columns=(
        ColumnSchema(name="id", type="integer", nullable=False),
        ColumnSchema(name="name", type="text"),
        ColumnSchema(name="mail", type="text"),
    ),
    primary_key=("id",),
)
BEFORE = Schema.of([ORDERS, CUSTOMERS], [NamedType(name="mood", kind="enum", values=("sad",))])


def with_column(table: TableSchema, at: int, **changes: object) -> TableSchema:
    columns = list(table.columns)
    columns[at] = replace(columns[at], **changes)
    return replace(table, columns=tuple(columns))


def texts(*tables: TableSchema, types: Sequence[NamedType] | None = None) -> list[str]:
    after = Schema.of(tables, BEFORE.types if types is None else types)
    return [change.text for change in changes_between(BEFORE, after)]


LINES = TableSchema(name="lines", columns=(ColumnSchema(name="text", type="text"),))


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ((ORDERS, CUSTOMERS, LINES), ["table lines added (1 column)"]),
        (
            (ORDERS,),
            ["table customers removed (3 columns)"],
        ),
        (
            (
                replace(ORDERS, columns=(*ORDERS.columns, ColumnSchema(name="note", type="text"))),
                CUSTOMERS,
            ),
            ["column orders.note added (text)"],
        ),
        (
            (replace(CUSTOMERS, columns=CUSTOMERS.columns[:2]), ORDERS),
            ["column customers.mail removed (text)"],
        ),
        (
            (with_column(ORDERS, 3, type="numeric(12,2)", nullable=False), CUSTOMERS),
            [
                "column orders.total changed: numeric(10,2), default 0 → "
                "numeric(12,2), not null, default 0"
            ],
        ),
        (
            (replace(ORDERS, primary_key=("id", "placed")), CUSTOMERS),
            ["primary key of orders changed: (id) → (id, placed)"],
        ),
        (
            (replace(ORDERS, primary_key=()), CUSTOMERS),
            ["primary key of orders removed (id)"],
        ),
        (
            (
                replace(
                    ORDERS,
                    foreign_keys=(replace(ORDERS.foreign_keys[0], rule="ON DELETE CASCADE"),),
                ),
                CUSTOMERS,
            ),
            [
                "foreign key (customer_id) of orders changed: to customers(id) → "
                "to customers(id) ON DELETE CASCADE"
            ],
        ),
        (
            (replace(ORDERS, unique_keys=()), CUSTOMERS),
            ["unique key (customer_id, placed) of orders removed"],
        ),
        (
            (replace(ORDERS, checks=("total > 0",)), CUSTOMERS),
            ["check of orders added (total > 0)", "check of orders removed (total >= 0)"],
        ),
        (
            (
                replace(
                    ORDERS, indexes=(Index(name="ix_placed", columns=("placed",), unique=True),)
                ),
                CUSTOMERS,
            ),
            ["index ix_placed of orders changed: on (placed) → unique on (placed)"],
        ),
        (
            (replace(ORDERS, indexes=(Index(name="ix_day", columns=("placed",)),)), CUSTOMERS),
            ["index ix_placed of orders renamed to ix_day"],
        ),
        (
            (replace(ORDERS, kind="view", definition="SELECT 1"), CUSTOMERS),
            ["view orders changed: a table → a view", "view orders changed: nothing → SELECT 1"],
        ),
        (
            (replace(ORDERS, comment="All of them."), CUSTOMERS),
            ["table orders changed: comment '' → comment 'All of them.'"],
        ),
        (
            (replace(CUSTOMERS, columns=CUSTOMERS.columns[::-1]), ORDERS),
            [
                "table customers changed: columns in the order id, name, mail → "
                "columns in the order mail, name, id"
            ],
        ),
    ],
    ids=lambda value: value[0][:40] if isinstance(value, list) else "",
)
def test_every_kind_of_change_is_told(tables: tuple[TableSchema, ...], said: list[str]) -> None:
    assert sorted(texts(*tables)) == sorted(said)


def test_types_with_names_change_too() -> None:
    happy = NamedType(name="mood", kind="enum", values=("sad", "happy"))
    feeling = NamedType(name="feeling", kind="enum", values=("sad",))

    assert texts(ORDERS, CUSTOMERS, types=[happy]) == [
        "type mood changed: enum (sad) → enum (sad, happy)"
    ]
    assert texts(ORDERS, CUSTOMERS, types=[feeling]) == ["type mood renamed to feeling"]
    assert texts(ORDERS, CUSTOMERS, types=[]) == ["type mood removed (enum (sad))"]


def test_long_statements_are_cut_in_sentences_alone() -> None:
    view = TableSchema(name="all", kind="view", definition=f"SELECT {'a' * 900}")
    (change,) = changes_between(
        Schema.of([view]), Schema.of([replace(view, definition="SELECT 1")])
    )

    assert len(change.text) < 300
    assert change.before == view.definition


# Renames


def test_a_renamed_table_takes_the_references_to_it_along() -> None:
    key = replace(ORDERS.foreign_keys[0], table="clients")

    found = texts(replace(CUSTOMERS, name="clients"), replace(ORDERS, foreign_keys=(key,)))

    assert found == ["table customers renamed to clients"]


def test_a_renamed_column_takes_keys_checks_and_indexes_along() -> None:
    renamed = replace(
        with_column(with_column(ORDERS, 2, name="placed_on"), 3, name="sum_total"),
        unique_keys=(("customer_id", "placed_on"),),
        checks=("sum_total >= 0",),
        indexes=(Index(name="ix_placed", columns=("placed_on",)),),
    )

    assert texts(renamed, CUSTOMERS) == [
        "column orders.placed renamed to placed_on",
        "column orders.total renamed to sum_total",
    ]


def test_a_column_that_others_refer_to_is_renamed_in_their_keys() -> None:
    customers = replace(with_column(CUSTOMERS, 0, name="number"), primary_key=("number",))
    orders = replace(ORDERS, foreign_keys=(replace(ORDERS.foreign_keys[0], to=("number",)),))

    assert texts(orders, customers) == ["column customers.id renamed to number"]


def test_a_table_renamed_together_with_a_column_is_still_the_same() -> None:
    clients = replace(with_column(CUSTOMERS, 1, name="full_name"), name="clients")
    key = replace(ORDERS.foreign_keys[0], table="clients")

    assert texts(clients, replace(ORDERS, foreign_keys=(key,))) == [
        "column clients.name renamed to full_name",
        "table customers renamed to clients",
    ]


def test_a_last_column_dropped_and_another_added_is_no_rename() -> None:
    """They look alike, and only names could tell; these do not."""
    assert texts(with_column(CUSTOMERS, 2, name="colour"), ORDERS) == [
        "column customers.mail removed (text)",
        "column customers.colour added (text)",
    ]
    assert texts(with_column(CUSTOMERS, 2, name="e_mail"), ORDERS) == [
        "column customers.mail renamed to e_mail"
    ]


def test_two_that_look_alike_are_not_guessed() -> None:
    twins = [replace(CUSTOMERS, name=name) for name in ("clients", "suppliers")]

    assert texts(*twins, replace(ORDERS, foreign_keys=())) == [
        "table clients added (3 columns)",
        "table customers removed (3 columns)",
        "foreign key (customer_id) of orders removed (to customers(id))",
        "table suppliers added (3 columns)",
    ]


def test_another_database_behind_the_same_name_is_told_in_time() -> None:
    columns = tuple(ColumnSchema(name=f"c{number}", type="int") for number in range(20))
    one, other = (
        Schema.of(
            TableSchema(
                name=f"{letter}{number}",
                columns=(ColumnSchema(name=f"{letter}", type="int"), *columns),
            )
            for number in range(2_000)
        )
        for letter in "ab"
    )

    assert len(changes_between(one, other)) == 4_000


def test_what_could_not_be_read_is_not_gone() -> None:
    now = Schema.of([ORDERS], BEFORE.types, {"customers": "no permission", "new": "broken"})

    whole = with_unread(BEFORE, now)

    assert whole == BEFORE
    assert changes_between(BEFORE, whole) == ()
    assert whole.unread == now.unread


# Properties

names = st.sampled_from(["a", "b", "c", "a_b", "odd name", "é", 'q"t', "table"])
columns = st.builds(
    ColumnSchema,
    name=names,
    type=st.sampled_from(["int", "text", ""]),
    nullable=st.booleans(),
    default=st.sampled_from(["", "0"]),
)
tables = st.builds(
    TableSchema,
    name=names,
    kind=st.sampled_from(["table", "view"]),
    columns=st.lists(columns, max_size=4, unique_by=lambda each: each.name).map(tuple),
    primary_key=st.lists(names, max_size=2, unique=True).map(tuple),
    foreign_keys=st.lists(
        st.builds(ForeignKey, columns=st.tuples(names), table=names, to=st.tuples(names)),
        max_size=2,
    ).map(lambda keys: tuple(sorted(set(keys), key=str))),
    unique_keys=st.lists(st.tuples(names), max_size=2, unique=True).map(
        lambda keys: tuple(sorted(keys))
    ),
    checks=st.lists(st.sampled_from(["a > 0", "b < 1"]), max_size=2, unique=True).map(
        lambda checks: tuple(sorted(checks))
    ),
    indexes=st.lists(
        st.builds(Index, name=names, columns=st.tuples(names), unique=st.booleans()),
        max_size=2,
        unique_by=lambda each: each.name,
    ).map(lambda each: tuple(sorted(each, key=lambda index: index.name))),
)
schemas = st.lists(tables, max_size=4, unique_by=lambda each: each.name).map(Schema.of)


@given(schemas, schemas)
@settings(max_examples=80, deadline=None)
def test_there_are_changes_exactly_between_schemas_that_differ(one: Schema, other: Schema) -> None:
    found = changes_between(one, other)

    assert bool(found) == (one.digest != other.digest) == (one != other)
    assert all(change.text for change in found)


@given(schemas)
@settings(max_examples=50, deadline=None)
def test_a_schema_comes_back_from_its_content(schema: Schema) -> None:
    assert Schema.from_content(schema.content) == schema


@pytest.mark.parametrize("content", [b"[]", b"{}", b"no json", b'{"tables":[{}],"types":[]}'])
def test_other_content_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"schema|literal"):
        Schema.from_content(content)
