"""Arguments read from messages: each kind, from declarations and from input schemas."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate.intents import (
    ArgumentReader,
    ArgumentSpec,
    Intent,
    IntentDetector,
    IntentSet,
    Keywords,
    Recognizer,
    specs_of_schema,
)

TODAY = date(2025, 10, 21)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "since": {"type": "string", "format": "date"},
        "until": {"type": "string", "format": "date"},
        "limit": {"type": "integer", "maximum": 500},
        "days": {"type": "integer"},
        "status": {"type": "string", "enum": ["open", "closed", "in_progress"]},
        "include_archived": {"type": "boolean"},
        "email": {"type": "string"},
        "link": {"type": "string", "format": "uri"},
        "file_path": {"type": "string"},
        "port": {"type": "integer"},
        "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sort": {"$ref": "#/$defs/Sort"},
    },
    "$defs": {"Sort": {"enum": ["ascending", "descending"]}},
}
READER = ArgumentReader(specs_of_schema(SCHEMA))


def read(text: str, reader: ArgumentReader = READER, today: date = TODAY) -> dict[str, object]:
    found = reader.read(text, today=today)
    for each in found:
        for span in each.spans:
            assert text[span.start : span.end] == each.text
    return {each.name: each.value for each in found}


def test_a_schema_says_what_can_be_read() -> None:
    assert {spec.name: spec.kind for spec in READER.specs} == {
        "query": "string",
        "since": "date",
        "until": "date",
        "limit": "count",
        "days": "period",
        "status": "choice",
        "include_archived": "boolean",
        "email": "email",
        "link": "url",
        "file_path": "path",
        "port": "integer",
        "ratio": "number",
        "sort": "choice",
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # counts
        ("last 5 orders", {"limit": 5}),
        ("top five", {"limit": 5}),
        ("the 3 latest", {"limit": 3}),
        ("first 1,000 rows", {"limit": 500}),
        ("top5", {"limit": 5}),
        ("at most 20", {"limit": 20}),
        ("limit to 7", {"limit": 7}),
        ("die letzten 5", {"limit": 5}),
        ("les 5 derniers", {"limit": 5}),
        ("los \u00faltimos 5", {"limit": 5}),
        ("show changes, stop 5", {}),
        ("first 0", {}),
        ("last 5% of it", {}),
        ("last 5.5", {}),
        ("top 99999999999999999999", {}),
        # periods and dates
        ("last 2 weeks", {"since": "2025-10-07", "until": "2025-10-21", "days": 14}),
        ("between 2025-01-01 and 2025-02-01", {"since": "2025-01-01", "until": "2025-02-01"}),
        (
            "last 3 months, top 4",
            {"since": "2025-07-21", "until": "2025-10-21", "days": 90, "limit": 4},
        ),
        ("before 2025-06-01", {"until": "2025-05-31"}),
        ("since 2025-13-45", {}),
        # choices
        ("what is closed", {"status": "closed"}),
        ("in progress", {"status": "in_progress"}),
        ("clsoed ones, desending", {"status": "closed", "sort": "descending"}),
        ("opening hours", {}),
        # texts
        ('find "red shoes"', {"query": "red shoes"}),
        ("find \u201cred shoes\u201d", {"query": "red shoes"}),
        ("suche \u201erote Schuhe\u201c", {"query": "rote Schuhe"}),
        ("cherche \u00ab chaussures rouges \u00bb", {"query": "chaussures rouges"}),
        ("it's Bob's", {}),
        # switches
        ("include archived ones", {"include_archived": True}),
        ("without the archived ones", {"include_archived": False}),
        ("sans archived", {"include_archived": False}),
        # addresses
        ("write to bob.b+x@mail.example.org.", {"email": "bob.b+x@mail.example.org"}),
        ("see https://example.org/a_(b)).", {"link": "https://example.org/a_(b)"}),
        ("see (http://example.org/?a=1&b=2)", {"link": "http://example.org/?a=1&b=2"}),
        ("read src/main.py", {"file_path": "src/main.py"}),
        ("read ~/notes/today.md, please", {"file_path": "~/notes/today.md"}),
        ("read C:\\Users\\x\\a.txt", {"file_path": "C:\\Users\\x\\a.txt"}),
        ("either way", {}),
        # numbers
        ("port 8080", {"port": 8080}),
        ("port: 99", {"port": 99}),
        ("with a ratio of 0.25", {"ratio": 0.25}),
        ("8080", {}),
        ("version 2.1", {}),
        # pairs
        (
            "limit=7 status=closed since=yesterday",
            {"limit": 7, "status": "closed", "since": "2025-10-20"},
        ),
        ("--limit 3 --include-archived no", {"limit": 3, "include_archived": False}),
        ('{"limit": 12, "status": "open"}', {"limit": 12, "status": "open"}),
        ('query="red shoes" port=8', {"query": "red shoes", "port": 8}),
        ("limit=many status=gone ratio=x", {}),
        ("LIMIT = 4", {"limit": 4}),
    ],
)
def test_a_message_is_read_with_a_schema(text: str, wanted: dict[str, object]) -> None:
    assert read(text) == wanted


def test_a_date_behind_the_name_of_its_parameter_is_that_one() -> None:
    reader = ArgumentReader(
        [
            ArgumentSpec(name="start_date", kind="date"),
            ArgumentSpec(name="end_date", kind="date", part="until", inclusive=True),
        ]
    )

    assert read("end date 2025-10-15", reader) == {"end_date": "2025-10-15"}
    assert read("end date 2025-10-15, start date: 2025-10-01", reader) == {
        "start_date": "2025-10-01",
        "end_date": "2025-10-15",
    }


def test_a_moment_is_written_in_utc() -> None:
    reader = ArgumentReader([ArgumentSpec(name="at", kind="date", form="date-time")])
    found = reader.read("yesterday", today=TODAY, zone="Asia/Tokyo")
    timed = reader.read("yesterday at 14:30", today=TODAY, zone="Asia/Tokyo")

    assert found[0].value == "2025-10-19T15:00:00Z"
    assert timed[0].value == "2025-10-20T05:30:00Z"


def test_a_single_day_is_no_range() -> None:
    reader = ArgumentReader([ArgumentSpec(name="day", kind="date", part="day")])

    assert read("last week", reader) == {}
    assert read("yesterday", reader) == {"day": "2025-10-20"}


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("last week", "2025-10-19"),
        ("yesterday", "2025-10-20"),
        ("until 2025-10-01", "2025-10-01"),
        ("this month", None),
        ("last 7 days", None),
        ("today", None),
        ("since yesterday", None),
    ],
)
def test_a_tool_for_the_past_needs_no_end_that_is_not_over(text: str, until: str | None) -> None:
    spec = ArgumentSpec(name="until", kind="date", part="until", inclusive=True, past=True)

    assert read(text, ArgumentReader([spec])) == ({"until": until} if until else {})


@pytest.mark.parametrize(
    ("text", "hours"), [("last 2 days", 48), ("past hour", 1), ("90 minutes", 2), ("3 h", 3)]
)
def test_a_period_is_given_in_the_unit_of_its_parameter(text: str, hours: int) -> None:
    assert read(text, ArgumentReader([ArgumentSpec(name="hours", kind="period")])) == {
        "hours": hours
    }


def test_names_are_known_ones_or_as_they_are_written() -> None:
    spec = ArgumentSpec(
        name="table",
        kind="name",
        values={"order_items": ("line items",), "Customers": ()},
        patterns=("table {name}", "in {tables}"),
        stop=frozenset({"with"}),
    )
    reader = ArgumentReader([spec], {"tables": ("order_items", "Customers", "line items")})

    assert read("table custmers", reader) == {"table": "Customers"}
    assert read("table with", reader) == {}
    assert read("table 'My Own'", reader) == {"table": "My Own"}
    assert read("in line items", reader) == {"table": "order_items"}
    assert read("table order_items", reader) == {"table": "order_items"}


def test_defaults_fill_what_the_message_does_not_say_and_have_no_place() -> None:
    reader = ArgumentReader([ArgumentSpec(name="limit", kind="count", default=10)])

    (found,) = reader.read("all", today=TODAY)

    assert (found.value, found.spans, found.kind) == (10, (), "default")


def test_one_text_is_not_read_twice() -> None:
    reader = ArgumentReader([ArgumentSpec(name=name, kind="string") for name in ("title", "body")])

    assert read('"a" and "b"', reader) == {"title": "a", "body": "b"}
    assert read('body: "a", title: "b"', reader) == {"title": "b", "body": "a"}


def test_an_intent_without_arguments_takes_those_of_its_tool() -> None:
    intent = Intent(name="find", tool="search", keywords={"en": Keywords(exact=("find",))})
    detector = IntentDetector([intent], schema_of={"search": SCHEMA}.get)

    found = detector.detect('find "x", last 5', today=TODAY)

    assert found.arguments == {"query": "x", "limit": 5}


def test_the_clock_is_asked_where_nobody_says_the_day() -> None:
    intent = Intent(
        name="find",
        keywords={"en": Keywords(exact=("find",))},
        arguments=(ArgumentSpec(name="day", kind="date"),),
    )
    late = datetime(2025, 10, 21, 23, 30, tzinfo=UTC)
    detector = IntentDetector([intent], zone="Asia/Tokyo", clock=lambda: late)

    assert detector.detect("find today").arguments == {"day": "2025-10-22"}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": []},
        {"properties": {"a": 1, "": {"type": "string"}, "b": {"$ref": "#/$defs/none"}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"enum": [1, None]}, "b": {"type": ["string", "integer"]}}},
        {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
    ],
)
def test_a_schema_that_says_nothing_gives_nothing(schema: dict[str, Any]) -> None:
    assert specs_of_schema(schema) == ()


@given(st.text(), st.dates())
def test_any_text_can_be_read(text: str, today: date) -> None:
    read(text, today=today)


@given(
    st.lists(
        st.sampled_from(
            ["last", "5", "limit=", "=", "--limit", '"', "'", "/", "a@b.c", "http://", "since", ":"]
        )
    ).map("".join)
)
def test_pieces_of_forms_can_be_read(text: str) -> None:
    read(text)


@pytest.mark.parametrize(
    "piece",
    [
        "a.",
        "a@",
        "/a",
        "last 5 ",
        "limit=",
        '"',
        "http://",
        "x-",
        "'a' ",
        "1,000",
        "with ",
        "port ",
    ],
)
def test_long_messages_are_read_to_their_end(piece: str) -> None:
    read(piece * (40_000 // len(piece)))


LINKS = ArgumentReader(
    [
        ArgumentSpec(name="first", kind="link", part="from", stop=frozenset({"inner"})),
        ArgumentSpec(name="second", kind="link", part="to", stop=frozenset({"inner"})),
        ArgumentSpec(name="left", kind="link", part="from-column"),
        ArgumentSpec(name="right", kind="link", part="to-column"),
    ]
)
BOTH = {"first": "orders", "second": "customers"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a relation from orders to customers", BOTH),
        ("between the orders table and the customers table", BOTH),
        ('from "orders" to "customers"', BOTH),
        ("orders -> customers", BOTH),
        ("verbinde orders mit customers", BOTH),
        ("von der Tabelle orders zu customers", BOTH),
        ("entre orders et customers", BOTH),
        ("conecta orders con customers", BOTH),
        ("van orders naar customers", BOTH),
        (
            "between orders.customer_id and customers.id",
            {**BOTH, "left": "customer_id", "right": "id"},
        ),
        (
            "link orders to customers on customer_id = id",
            {**BOTH, "left": "customer_id", "right": "id"},
        ),
        (
            "orders -> customers (customer_id -> id)",
            {**BOTH, "left": "customer_id", "right": "id"},
        ),
        ("connect orders with customers via customer_id", {**BOTH, "left": "customer_id"}),
        (
            "from db:/shop/orders to db:/shop/customers",
            {"first": "db:/shop/orders", "second": "db:/shop/customers"},
        ),
        ("change it from inner to left outer", {}),
        ("list all relations", {}),
    ],
)
def test_what_a_message_links_is_read(text: str, expected: dict[str, str]) -> None:
    assert read(text, LINKS) == expected


VALUES = ArgumentReader([ArgumentSpec(name="values", kind="list", words=("with", "values", "mit"))])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a list with Active, Inactive and Pending", ["Active", "Inactive", "Pending"]),
        ("with the values New, Paid, Shipped please", ["New", "Paid", "Shipped"]),
        ("with Yes/No/Maybe called answers", ["Yes", "No", "Maybe"]),
        ("lege eine Liste mit Rot, Gelb und Blau an", ["Rot", "Gelb", "Blau"]),
        ("a list of values named states with open and closed", ["open", "closed"]),
        ('values: "Very high", "high" and "low"', ["Very high", "high", "low"]),
        ("mit Offen, Bezahlt und Storniert", ["Offen", "Bezahlt", "Storniert"]),
        ('with "Only"', ["Only"]),
        ("with a blank line", None),
        ("with everything that I told you about it yesterday, and more of the same", None),
    ],
)
def test_a_list_of_values_is_read(text: str, expected: list[str] | None) -> None:
    assert read(text, VALUES).get("values") == expected


TABLES = ArgumentReader(
    [
        ArgumentSpec(
            name="table",
            kind="name",
            values={
                "customers": ("customer",),
                "order_items": ("order items",),
                "orders": ("order",),
                "Person": (),
            },
            live=frozenset({"customers", "order_items", "orders"}),
            patterns=("table {name}",),
            stop=frozenset({"has"}),
        )
    ]
)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("where is order 4711?", 4711),
        ("has order number 4711 been shipped?", 4711),
        ("order no. 4711", 4711),
        ("order #4711", 4711),
        ("Bestellung 4711 ist noch nicht da", 4711),
        ("Dov'\u00e8 il mio ordine 4711?", 4711),
        ("Waar blijft bestelling 4711?", 4711),
        ("\u00bfd\u00f3nde est\u00e1 el pedido 4711?", 4711),
        ("\u6211\u7684\u8ba2\u5355 4711 \u5230\u54ea\u91cc\u4e86\uff1f", 4711),
        ("Rechnung 4711", None),
        ("Bestellung 4711.5", None),
        ("Bestellung von 4711 Schrauben", None),
        ("an order of 4711 screws", None),
        ("order of 4711 screws, order 12", 12),
        ("commande de 4711 vis", None),
        ("pedido de 4711 tornillos", None),
        ("un ordine di 4711 viti", None),
        ("een bestelling van 4711 schroeven", None),
        ("the order of 4711 euros", 4711),
        ("the order of 4711, please", 4711),
    ],
)
async def test_a_number_is_read_next_to_its_name_in_other_languages_too(
    text: str, order: int | None
) -> None:
    intent = Intent(
        name="tracking",
        keywords={"en": Keywords(exact=tuple(text.split()))},
        arguments=(ArgumentSpec(name="order", kind="integer"),),
    )
    recognizer = Recognizer()
    recognizer.replace_intents(IntentSet(intents=(intent,)))
    detection = await recognizer.detect(text, deciding="keyword")
    await recognizer.aclose()

    assert detection.intent == "tracking"
    assert detection.arguments.get("order") == order


def test_a_name_without_patterns_is_a_known_one_anywhere() -> None:
    spec = ArgumentSpec(name="room", kind="name", values={"Kyoto": (), "Lisbon": ()})
    reader = ArgumentReader([spec])
    assert read("is Kyoto free on Tuesday?", reader) == {"room": "Kyoto"}
    assert read("book the room lisbn", reader) == {"room": "Lisbon"}
    assert read("book the room Oslo", reader) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what is in customers?", "customers"),
        ("describe public.customers", "customers"),
        ("the `order_items` layout", "order_items"),
        ("fields of the order items", "order_items"),
        ("how is the table order items built", "order_items"),
        ("columns of the table oders", "orders"),
        ("customers表有哪些字段", "customers"),
        ("columns of orderitems", "order_items"),
        ("columns of custmers", "customers"),
        ("which table has customers?", "customers"),
        ("describe table zebra", "zebra"),
        # What is not there now is found by phrases alone.
        ("a person told me", None),
        ("what is the weather", None),
    ],
)
def test_what_exists_now_is_found_anywhere(text: str, expected: str | None) -> None:
    assert read(text, TABLES).get("table") == expected


PERIOD = ArgumentReader([ArgumentSpec(name="since", kind="date")])


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("changes since the last release", ("since the last release",)),
        ("changes between the merge and today", ("between the merge and today",)),
        ("since the migration, show the top 3", ("since the migration",)),
        ("Änderungen seit dem Umzug", ("seit dem Umzug",)),
        ("changes since 2025-13-45", ("since 2025-13-45",)),
        ("changes since yesterday", ()),
        ("changes between 2025-01-01 and 2025-02-01", ()),
        ("all changes", ()),
    ],
)
def test_a_period_that_is_no_date_is_reported(text: str, unread: tuple[str, ...]) -> None:
    assert PERIOD.unread(text, today=TODAY) == unread
    if unread:
        assert read(text, PERIOD) == {}


def test_only_tools_with_a_period_report_one() -> None:
    assert VALUES.unread("since the last release", today=TODAY) == ()


def test_an_argument_is_for_the_tools_that_it_names_and_not_for_a_mere_look() -> None:
    intent = Intent(
        name="LINKS",
        tool="openLink",
        tools=("openLink", "deleteLink"),
        keywords={"en": Keywords(exact=("link",))},
        arguments=(
            ArgumentSpec(name="name", kind="name", patterns=("link {identifier}",)),
            ArgumentSpec(
                name="start", kind="link", part="from", tools=frozenset({"openLink"}), writes=True
            ),
        ),
    )
    detector = IntentDetector([intent])

    def arguments(text: str) -> object:
        return detector.detect(text, today=TODAY).arguments

    assert arguments("create the link a_b from a to b") == {"name": "a_b", "start": "a"}
    assert arguments("delete the link a_b from a to b") == {"name": "a_b"}
    assert arguments("show the link a_b from a to b") == {"name": "a_b"}
