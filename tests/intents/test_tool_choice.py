"""Which tool of an intent a message asks for."""

from datetime import date

import pytest

from toolgate.intents import Intent, IntentDetector, Keywords

RELATIONS = Intent(
    name="RELATIONS",
    tool="openRelation",
    tools=(
        *("openRelation", "listRelations", "getRelations", "deleteRelation", "deleteRelations"),
        *("renameRelation", "listTables", "undo"),
    ),
    keywords={"en": Keywords(exact=("relation", "relations", "Relationen", "relaciones"))},
)
PRICES = Intent(
    name="PRICES",
    tool="show_prices",
    tools=("show_prices", "set_price"),
    keywords={"en": Keywords(exact=("price", "prices"))},
)


def tool_of(intent: Intent, text: str) -> str | None:
    return IntentDetector([intent]).detect(text, today=date(2026, 11, 24)).tool


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("create a relation from orders to customers", "openRelation"),
        ("open the relation orders_to_customers", "openRelation"),
        ("relation orders_to_customers", "openRelation"),
        ("delete the relation orders_to_customers", "deleteRelation"),
        ("please remove all relations of orders", "deleteRelations"),
        ("get rid of the old relation", "deleteRelation"),
        ("list the relations", "listRelations"),
        ("show me all relations", "listRelations"),
        ("which relations are there?", "listRelations"),
        ("rename the relation a_to_b to c_to_d", "renameRelation"),
        ("lösche die relation auftraege", "deleteRelation"),
        ("zeige mir alle Relationen", "listRelations"),
        ("elimina las relaciones", "deleteRelation"),
        ("change the relation so that deleted rows stay", "openRelation"),
    ],
)
def test_the_verb_chooses_the_tool(text: str, tool: str) -> None:
    assert tool_of(RELATIONS, text) == tool


def test_what_no_tool_of_the_intent_does_suggests_none() -> None:
    assert tool_of(PRICES, "delete the price of tea") is None
    assert tool_of(PRICES, "show me the price of tea") == "show_prices"
    assert tool_of(PRICES, "show me all prices") == "show_prices"


def test_a_tool_that_may_do_everything_stays() -> None:
    users = Intent(
        name="USERS",
        tool="manage_user",
        tools=("manage_user", "list_users"),
        keywords={"en": Keywords(exact=("user", "users"))},
    )
    assert tool_of(users, "delete the user ann") == "manage_user"
    assert tool_of(users, "list the users") == "list_users"


def test_an_intent_with_one_tool_suggests_that() -> None:
    only = Intent(name="X", tool="x", tools=("x",), keywords=PRICES.keywords)
    assert tool_of(only, "delete the price of tea") == "x"
