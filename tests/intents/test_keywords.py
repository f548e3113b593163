"""The keyword stage: the project's 83 rows, the rules one by one, and what must never fire."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate.intents import (
    Intent,
    IntentDetector,
    Keywords,
    KeywordStage,
    StageRequest,
    builtin_pack_folder,
    detect,
    load_intents,
    supported_intents,
    tool_for,
    with_list_entries,
)

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "acceptance_detector.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
TODAY = date(2025, 10, 21)
INTENTS = load_intents(builtin_pack_folder("schema"))
DETECTOR = IntentDetector(INTENTS)


def fits(row: dict, languages: tuple[str, ...]) -> list[str]:
    """The keys of a row's expectation that the answer does not meet."""
    found = DETECTOR.detect(
        row["input"], today=date.fromisoformat(row["today"]), languages=languages
    )
    wrong: list[str] = []
    for key, wanted in row["expect"].items():
        held = {
            "arguments": dict(found.arguments) == wanted,
            "arguments_absent": not set(wanted if isinstance(wanted, list) else [])
            & set(found.arguments),
            "matched_contains": wanted in found.matched,
            "matched": list(found.matched) == wanted,
            "intent_in": found.intent in wanted if isinstance(wanted, list) else True,
        }.get(key)
        if held is None:
            held = getattr(found, key) == wanted
        if not held:
            wrong.append(key)
    return wrong


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_row_is_answered_as_expected(row: dict) -> None:
    assert fits(row, ("en",)) == []


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_further_languages_change_no_row_but_the_french_one(row: dict) -> None:
    if row["id"] == "D12":
        assert detect(row["input"], today=TODAY).intent == "schema-version"
    else:
        assert fits(row, ()) == []


def test_the_rows_are_answered_on_any_day_and_at_any_time() -> None:
    """A gateway counts from now, not from the start of a day."""
    found = [DETECTOR.detect(row["input"]) for row in ROWS]

    on_a_day = [DETECTOR.detect(row["input"], today=date(2025, 10, 21)) for row in ROWS]
    assert [one.intent for one in found] == [one.intent for one in on_a_day]


def test_all_rows_are_there() -> None:
    assert len(ROWS) == 83


def test_the_names_of_intents_and_their_tools_can_be_asked_for() -> None:
    """Rule 10."""
    assert supported_intents() == ("schema-version", "schema-changes", "type-info")
    assert [tool_for(name) for name in supported_intents()] == [
        "schema_version",
        "schema_changelog",
        "type_info",
    ]
    assert tool_for("SCHEMA-VERSION") == "schema_version"
    assert tool_for("weather") is None
    assert tool_for("none") is None


def test_the_lists_are_as_long_as_those_of_the_source() -> None:
    """Rule 9; "types" is the one that was added."""
    counts = [
        (len(intent.keywords["en"].exact), len(intent.keywords["en"].partial)) for intent in INTENTS
    ]

    assert counts == [(10, 3), (17, 5), (26, 2)]


@pytest.mark.parametrize(
    ("message", "intent"),
    [
        # other phrasings
        ("Which version is our schema on?", "schema-version"),
        ("schema  version", "schema-version"),
        ("recent\n\nchanges", "schema-changes"),
        ("(schema version)", "schema-version"),
        ("schema-version?!", "schema-version"),
        ("'schema version'", "schema-version"),
        ("I am in a hurry. What are the recent changes?", "schema-changes"),
        ("changes, since yesterday", "schema-changes"),
        ("what changed in Q1 2025", "schema-changes"),
        ("what changed in summer 2024", "schema-changes"),
        ("changes between 2025-01-01 and 2025-02-01", "schema-changes"),
        ("updates before last Monday", "schema-changes"),
        ("show me 5 changes", "schema-changes"),
        ("changes between versions", "none"),
        ("show me the 2 sides", "none"),
        ("top five changes", "schema-changes"),
        ("the 10 most recent updates", "schema-changes"),
        ("what changed in the last 7 days", "schema-changes"),
        ("what changed on 2025-10-15", "schema-changes"),
        ("what changed in our database?", "schema-changes"),
        ("what changed in JSON please", "schema-changes"),
        ("about Person", "type-info"),
        ("attributes of the 'Company'", "type-info"),
        ("the person-type", "type-info"),
        ("entty types", "type-info"),
        ("shcema chnages", "schema-changes"),
        ("scehma chagnes", "schema-changes"),
        # about something else
        ("What changed in React 19?", "none"),
        ("What changed for our customers?", "none"),
        ("latest changes of Kubernetes", "none"),
        ("show changes on GitHub", "none"),
        ("all types of cheese", "none"),
        ("which data types does Python offer", "none"),
        ("color scheme changes", "none"),
        ("about the location of the restaurant", "none"),
        ("about project management", "none"),
        ("remind me tomorrow at four about an event", "none"),
        ("conversion", "none"),
        ("subversion of the schemata", "none"),
        ("prototypes of entities2", "none"),
        ("show_changes", "none"),
        ("recent", "none"),
        ("changes", "none"),
        ("schema", "none"),
        ("last 5 minutes", "none"),
        ("since yesterday", "none"),
        # other languages
        ("Welche Version hat das Schema?", "schema-version"),
        ("Zeige die Schema\u00e4nderungen seit gestern", "schema-changes"),
        ("\u00c4nderungen seit letzter Woche", "schema-changes"),
        ("Zeig mir die letzten 5 \u00c4nderungen", "schema-changes"),
        ("Was hat sich in der App ge\u00e4ndert?", "none"),
        ("Welche Objekttypen gibt es?", "type-info"),
        ("Felder von Person", "type-info"),
        ("Hallo, wie geht es dir?", "none"),
        ("Quelle est la version du sche\u0301ma\u00a0?", "schema-version"),
        ("Montre les 5 derniers changements", "schema-changes"),
        ("Qu'est-ce qui a chang\u00e9 dans React ?", "none"),
        ("liste des entit\u00e9s", "type-info"),
        ("Quel temps fait-il ?", "none"),
        ("\u00bfQu\u00e9 versi\u00f3n tiene el esquema?", "schema-version"),
        ("\u00bfQu\u00e9 cambi\u00f3 en el esquema?", "schema-changes"),
        ("cambios desde ayer", "schema-changes"),
        ("cambios antes del 15 de octubre", "schema-changes"),
        ("\u00bfQu\u00e9 cambi\u00f3 en la aplicaci\u00f3n?", "none"),
        ("tipos de entidad", "type-info"),
        ("\u4eca\u5929\u5929\u6c14\u600e\u4e48\u6837\uff1f", "none"),
        ("\U0001f600" * 50, "none"),
    ],
)
def test_other_messages_are_told_too(message: str, intent: str) -> None:
    assert detect(message, today=TODAY).intent == intent


def test_an_answer_says_which_keyword_decided_and_what_else_was_in_question() -> None:
    found = detect("What's the schema version and recent changes?", today=TODAY)

    assert found.stage == "keyword"
    assert found.matched == ("schema version",)
    assert found.reason == "The exact keyword 'schema version'."
    assert [(each.intent, each.confidence) for each in found.candidates] == [
        ("schema-version", 0.9),
        ("schema-changes", 0.9),
    ]


def test_nothing_found_says_so() -> None:
    found = detect("How do I create a project?", today=TODAY)

    assert (found.use_mcp, found.intent, found.confidence, found.tool) == (False, "none", 0.0, None)
    assert dict(found.arguments) == {}
    assert found.matched == ()
    assert found.reason


def test_an_exact_match_of_a_later_intent_beats_a_partial_one_of_an_earlier() -> None:
    """Rule 6."""
    found = detect("the version of the schema with all types of schema diff", today=TODAY)
    other = detect("the current version, schema-wise, and the entity types", today=TODAY)

    assert found.intent == "schema-version"
    assert other.intent == "type-info"


def test_a_partial_match_names_every_partial_keyword_in_their_order() -> None:
    """Rule 5."""
    found = detect("updated history and changes of a schema", today=TODAY)

    assert (found.confidence, found.matched) == (0.8, ("changes", "history", "updated"))


def stage(**words: object) -> KeywordStage:
    keywords = Keywords(**words)  # type: ignore[arg-type]
    return KeywordStage([Intent(name="it", keywords={"xx": keywords})])


def says(made: KeywordStage, message: str, languages: tuple[str, ...] = ()) -> float:
    return made.match(StageRequest(text=message, today=TODAY, languages=languages)).confidence


def test_keywords_of_scripts_without_blanks_are_found_inside_a_sentence() -> None:
    made = stage(exact=("\u6700\u65b0\u7248\u672c",))

    assert says(made, "\u8bf7\u95ee\u6700\u65b0\u7248\u672c\u662f\u4ec0\u4e48") == 0.9
    assert says(made, "\u8bf7\u95ee") == 0.0


def test_keywords_may_hold_signs() -> None:
    made = stage(exact=("c++", "what's up", "node.js"))

    assert says(made, "Is C++ fine?") == 0.9
    assert says(made, "node.js") == 0.9
    assert says(made, "nodexjs") == 0.0
    assert says(made, "c+") == 0.0


def test_a_language_can_be_left_out() -> None:
    made = stage(exact=("hello",))

    assert says(made, "hello", ("xx",)) == 0.9
    assert says(made, "hello", ("en",)) == 0.0


@pytest.mark.parametrize(
    ("phrase", "yes", "no"),
    [
        ("last|top {number} ... orders", "top 5 open and paid orders", "top orders"),
        ("last {number} ... orders", "last 5 orders", "last 5. No orders"),
        ("orders since {date}", "orders since last month", "orders since lunch"),
        ("about [the] thing $", "about the thing, please", "about the thing we said"),
        ("[please] stop", "stop", "nonstop"),
        ("call {name}", "call 'New York'", "call"),
    ],
)
def test_phrases_mean_what_they_show(phrase: str, yes: str, no: str) -> None:
    made = stage(patterns=(phrase,))

    assert says(made, yes) == 0.9
    assert says(made, no) == 0.0


@pytest.mark.parametrize("phrase", ["", "{nothing} here", "... orders", "a ... ... b"])
def test_a_phrase_that_does_not_hold_is_refused_with_its_intent(phrase: str) -> None:
    with pytest.raises(ValueError, match="of intent 'it'"):
        stage(patterns=(phrase,))


def test_names_of_a_connected_schema_are_known_types_too() -> None:
    tables = {"order_items": ("order items", "order item"), "Invoice": (), "data": ()}
    detector = IntentDetector(with_list_entries(intent, "types", tables) for intent in INTENTS)

    found = detector.detect("fields of order_items", today=TODAY)
    said = detector.detect("attributes of an order item", today=TODAY)
    other = detector.detect("what is in the invoice type", today=TODAY)

    assert (found.intent, found.arguments) == ("type-info", {"type_name": "order_items"})
    assert said.arguments == {"type_name": "order_items"}
    assert (other.intent, other.arguments) == ("type-info", {"type_name": "Invoice"})
    assert detector.detect("which data type is that", today=TODAY).intent == "none"
    assert DETECTOR.detect("fields of order_items", today=TODAY).intent == "none"


def test_thousands_of_names_are_known_and_made_ready_at_once() -> None:
    """They are looked up, not written into every pattern, which would take ten seconds."""
    tables = {f"table_{number}": () for number in range(3_000)}
    detector = IntentDetector(with_list_entries(intent, "types", tables) for intent in INTENTS)

    for message in (
        "fields of the table_2999",
        "is table_2999 type new?",
        "tell me about TABLE_2999",
    ):
        found = detector.detect(message, today=TODAY)
        assert (found.intent, found.arguments) == ("type-info", {"type_name": "table_2999"})
    assert detector.detect("fields of the table_3000", today=TODAY).intent == "none"


def test_the_order_of_intents_is_theirs_and_not_that_of_the_files() -> None:
    reverse = KeywordStage(reversed(INTENTS))
    swapped = KeywordStage(replace(intent, order=-intent.order, guards={}) for intent in INTENTS)
    message = StageRequest(text="schema version and recent changes", today=TODAY)

    assert reverse.match(message).intent == "schema-version"
    assert swapped.match(message).intent == "schema-changes"


@given(st.text())
def test_any_text_is_a_message(text: str) -> None:
    found = detect(text, today=TODAY)

    assert found.confidence in {0.0, 0.8, 0.9}
    assert found.use_mcp == (found.intent != "none") == (found.confidence > 0)


@given(st.text(), st.sampled_from([row["input"] for row in ROWS]), st.text())
def test_any_text_around_a_message_is_one_too(before: str, message: str, after: str) -> None:
    text = before + message + after
    found = detect(text, today=TODAY)

    for each in found.read_arguments:
        for span in each.spans:
            assert text[span.start : span.end] == each.text


@pytest.mark.parametrize(
    "piece",
    [
        "what changed in ui ",
        "last 5 ",
        "about ",
        "schema ",
        "show changes in ",
        "in the ",
        "a",
        "\n",
    ],
)
def test_a_message_of_100_kb_is_read_to_its_end(piece: str) -> None:
    long = piece * (100_000 // len(piece))

    assert detect(f"{long}\n\nschema version", today=TODAY).intent in {
        "schema-version",
        "schema-changes",
    }
