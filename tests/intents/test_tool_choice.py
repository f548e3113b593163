"""Which tool of an intent a message asks for."""

from dataclasses import replace
from datetime import date

import pytest

from toolgate.intents import ArgumentSpec, Intent, IntentDetector, Keywords
from toolgate.search import in_english

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
        ("can't you just list the relations?", "listRelations"),
        ("Kannst du mir die Relationen auflisten?", "listRelations"),
        ("I'd like to list the relations", "listRelations"),
        ("elimina las relaciones", "deleteRelation"),
        ("change the relation so that deleted rows stay", "openRelation"),
        ("remove the key customer_id from the relation", "openRelation"),
        ("relation: undo the last change", "openRelation"),
    ],
)
def test_the_verb_chooses_the_tool(text: str, tool: str) -> None:
    assert tool_of(RELATIONS, text) == tool


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("which buttons are on the form orders", "listButtons"),
        ("Welche Buttons hat das Formular orders?", "listButtons"),
        ("¿Qué botones tiene el formulario orders?", "listButtons"),
        ("what does the button btn_save on the form orders do", "getButtonInfo"),
        ("open the form with the red buttons", "openForm"),
        ("which styles does the form orders use", "openForm"),
        ("list the forms", "listForms"),
    ],
)
def test_a_part_that_is_named_before_the_object_has_its_own_tool(text: str, tool: str) -> None:
    forms = Intent(
        name="FORMS",
        tool="openForm",
        tools=("openForm", "listForms", "listButtons", "getButtonInfo", "listStyles"),
        arguments=(
            ArgumentSpec(
                name="formName", kind="name", tools=frozenset({"listButtons", "getButtonInfo"})
            ),
        ),
        keywords={"en": Keywords(exact=("form", "forms", "formular", "formulario"))},
    )

    def translate(message: str) -> str:
        reading = in_english(message)
        return reading.text if reading is not None else ""

    found = IntentDetector([forms], translate=translate).detect(text, today=date(2026, 11, 24))
    assert found.tool == tool


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


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("undo the last change", "undo"),
        ("which tables are there?", "listTables"),
        ("link the tables orders and customers", "openRelation"),
        ("what does the table orders look like?", "openRelation"),
    ],
)
def test_a_message_that_names_another_tool_gets_it(text: str, tool: str) -> None:
    keywords = {"en": Keywords(exact=("undo", "tables", "table"))}
    assert tool_of(replace(RELATIONS, keywords=keywords), text) == tool


def test_an_intent_that_only_shows_suggests_nothing_for_a_new_object() -> None:
    forms = Intent(
        name="FORMS",
        tool="openForm",
        tools=("openForm", "listForms"),
        keywords={"en": Keywords(exact=("form",))},
        arguments=(ArgumentSpec(name="name", kind="name", patterns=("form {name}",)),),
    )
    assert tool_of(forms, "create a form for orders") is None
    assert tool_of(forms, "open the form orders") == "openForm"


REFUNDS = Intent(
    name="refunds",
    tool="give_refund",
    tools=("give_refund", "list_refunds"),
    keywords={"en": Keywords(exact=("refund", "refunds", "Erstattungen", "remboursements"))},
)


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("show me the last 3 refunds", "list_refunds"),
        ("how many refunds did we give this week", "list_refunds"),
        ("zeig mir die letzten Erstattungen", "list_refunds"),
        ("montre-moi les derniers remboursements", "list_refunds"),
        ("refund order 12", "give_refund"),
        ("give me a refund for order 12", "give_refund"),
        ("how do I get a refund?", "give_refund"),
        ("is a refund possible for order 12?", "give_refund"),
        ("show me a new refund", "give_refund"),
    ],
)
def test_what_asks_to_see_something_does_not_suggest_the_tool_that_changes_it(
    text: str, tool: str
) -> None:
    """`show me the last 3 refunds` suggested to give one."""
    assert tool_of(REFUNDS, text) == tool


FORMS = Intent(
    name="forms",
    tools=("open_form", "list_forms"),
    keywords={"en": Keywords(exact=("form", "forms"))},
)


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("open a form for customers", "open_form"),
        ("which forms are there?", "list_forms"),
        ("show me all forms", "list_forms"),
        ("delete the order form", None),
        ("create a form", None),
    ],
)
def test_an_intent_without_a_main_tool_suggests_the_tool_that_is_named(
    text: str, tool: str | None
) -> None:
    """Packs that only list their tools got no suggestion for any message."""
    assert tool_of(FORMS, text) == tool
