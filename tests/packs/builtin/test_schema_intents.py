"""The pack `schema`: which messages are its own, by keywords and by meaning together."""

import json
from datetime import date
from functools import lru_cache
from pathlib import Path

import anyio
import pytest

from toolgate.base.plugins import make
from toolgate.intents import (
    NONE,
    Cascade,
    Detection,
    IntentDetector,
    SemanticStage,
    builtin_pack_folder,
)
from toolgate.models.embedders import Embedder
from toolgate.packs import Pack, load_pack
from toolgate.types import PluginSpec

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "intents" / "data" / "acceptance_detector.jsonl")
    .read_text("utf-8")
    .splitlines()
]
TODAY = date(2025, 10, 21)


@lru_cache(maxsize=1)
def pack() -> Pack:
    return load_pack(builtin_pack_folder("schema"))


@lru_cache(maxsize=2)
def cascade(embedder: str) -> tuple[IntentDetector, Cascade]:
    spec = PluginSpec(name=embedder, setting="search.embedder", options={})
    stage = SemanticStage(embedder=make("embedder", Embedder, spec, {}) if embedder else None)

    async def learn() -> None:
        await stage.update(pack().intents, unsupported=pack().unsupported, limits=pack().limits)

    anyio.run(learn)
    detector = IntentDetector(pack().intents)
    return detector, Cascade(detector.keywords, stage)


def judged(text: str, *languages: str, embedder: str = "bundled") -> Detection:
    detector, both = cascade(embedder)
    request = detector.request(text, today=TODAY, languages=languages)
    return detector.with_arguments(anyio.run(both.classify, request), request)


def test_the_files_of_the_pack_are_without_fault() -> None:
    assert pack().problems == ()


@pytest.mark.parametrize("intent", ["schema-version", "schema-changes", "type-info"])
def test_each_intent_has_more_than_a_hundred_prompts_in_eight_languages(intent: str) -> None:
    prompts = pack().prompts[intent]

    assert set(prompts) == {"", "de", "fr", "es", "pt", "it", "nl", "zh"}
    assert sum(len(set(each)) for each in prompts.values()) >= 100


def test_no_prompt_and_no_unsupported_message_is_a_row_of_the_acceptance_data() -> None:
    """They would prove nothing then. A bare keyword is turned away on purpose."""
    known = {row["input"].casefold() for row in ROWS} - {"version", "types", "schema version"}
    taught = [
        text
        for by_language in pack().prompts.values()
        for each in by_language.values()
        for text in each
    ]

    assert [text for text in [*taught, *pack().unsupported] if text.casefold() in known] == []


@pytest.mark.parametrize("embedder", ["bundled", ""], ids=["bundled", "without"])
def test_the_rows_hold_for_keywords_and_meaning_together(embedder: str) -> None:
    """D11 and D12 are limits of the keyword stage that are lifted here."""
    wrong: list[tuple[str, str, object]] = []
    for row in ROWS:
        found, expected = judged(row["input"], embedder=embedder), row["expect"]
        if row["id"] in {"D11", "D12"}:
            continue
        if found.intent not in expected.get("intent_in", [expected.get("intent", found.intent)]):
            wrong.append((row["id"], "intent", found.intent))
        wrong.extend(
            (row["id"], key, getattr(found, key))
            for key in {"use_mcp", "tool", "confidence", "arguments"} & set(expected)
            if getattr(found, key) != expected[key]
        )
        if set(expected.get("arguments_absent", ())) & set(found.arguments):
            wrong.append((row["id"], "arguments", found.arguments))

    assert wrong == []


def test_a_request_without_a_keyword_is_understood() -> None:
    found = judged("Retrieve schema metadata")

    assert (found.intent, found.stage) == ("schema-version", "semantic")


def test_french_is_answered_where_it_is_allowed_and_only_there() -> None:
    question = "Quelle est la version du sch\u00e9ma?"

    assert judged(question).intent == judged(question, "en", "fr").intent == "schema-version"
    assert judged(question, "en").intent == NONE


@pytest.mark.parametrize(
    ("message", "intent"),
    [
        ("which release of the data model do we have in production", "schema-version"),
        ("draw a diagram of the schema", "type-info"),
        ("describe main.customers", "type-info"),
        ("wijzigingen in het schema tussen 3 en 7 november", "schema-changes"),
        ("did anything in the table definitions move since Friday", "schema-changes"),
        ("what does the payments table consist of", "type-info"),
        ("Wie hei\u00dfen die Spalten der Tabelle lieferungen?", "type-info"),
        ("Wurde im Schema eine Spalte umbenannt?", "schema-changes"),
        ("\u00bfCu\u00e1ntas columnas hay en la base?", "schema-version"),
        ("Quelles colonnes ont \u00e9t\u00e9 supprim\u00e9es ?", "schema-changes"),
        ("What version of Go do we need?", NONE),
        ("what changed in the side bar", NONE),
        ("which types of chart can I draw", NONE),
        ("create a table for the new suppliers", NONE),
        ("Wie komme ich zum Bahnhof?", NONE),
    ],
)
def test_other_messages_are_told_by_their_meaning(message: str, intent: str) -> None:
    assert judged(message).intent == intent
