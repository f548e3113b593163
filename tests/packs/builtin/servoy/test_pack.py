"""The pack as a whole: what it teaches, and how it works in a gateway."""

import json
from collections.abc import Mapping
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from tests.packs.builtin.servoy.workspaces import TOOLS, VALUE_LIST, make, put
from toolgate.app.app import App
from toolgate.base.plugins import make as plugin
from toolgate.cli import run
from toolgate.intents import (
    ArgumentReader,
    Detection,
    SemanticStage,
    StageRequest,
    builtin_pack_folder,
)
from toolgate.intents.rules.base import STANDARD
from toolgate.models.embedders import Embedder
from toolgate.packs import load_pack
from toolgate.packs.lint import lint
from toolgate.settings import PackSettings, Settings
from toolgate.testing import memory_app
from toolgate.types import Caller, PluginSpec

PACK = load_pack(builtin_pack_folder("servoy"))
ME = Caller.local(client="ide", conversation="talk")


@cache
def taught(embedder: str) -> SemanticStage:
    """A stage that has learned the pack, with an embedder or, without its name, by characters."""
    spec = PluginSpec(name=embedder, setting="search.embedder")
    made = SemanticStage(embedder=plugin("embedder", Embedder, spec, {}) if embedder else None)
    anyio.run(partial(made.update, PACK.intents, unsupported=PACK.unsupported))
    return made


def judged(embedder: str, text: str) -> Detection:
    """What a stage says of a message."""
    return anyio.run(taught(embedder).classify, StageRequest(text=text, today=date(2026, 1, 1)))


def test_every_file_of_the_pack_can_be_used() -> None:
    assert PACK.problems == ()
    assert [intent.name for intent in PACK.intents] == ["FORMS", "RELATIONS", "VALUELISTS"]
    assert "I'm here to help with Servoy development tasks only." in PACK.out_of_context


def test_each_intent_has_150_prompts_in_english_and_some_in_seven_other_languages() -> None:
    for intent in PACK.intents:
        assert set(intent.prompts) == {"", "de", "es", "fr", "it", "nl", "pt", "zh"}
        assert all(len(set(texts)) >= 25 for texts in intent.prompts.values())
        assert all(len(set(intent.prompts[language])) >= 30 for language in ("de", "es"))
        assert len(set(intent.prompts[""])) >= 150


def test_each_tool_has_a_schema_that_says_what_it_takes() -> None:
    for name, tool in TOOLS.items():
        schema = tool.definition["inputSchema"]
        described: Mapping[str, Any] = schema["properties"]
        assert all(each.get("description") for each in described.values()), name
        assert set(schema.get("required", ())) <= set(described)
        assert "outputSchema" not in tool.definition
    assert TOOLS["openRelation"].definition["inputSchema"]["required"] == ["name"]
    columns = TOOLS["openValueList"].definition["inputSchema"]["properties"]["displayColumn"]
    assert [each["type"] for each in columns["anyOf"]] == ["string", "array"]
    assert "context" not in TOOLS["listRelations"].definition["inputSchema"]["properties"]
    assert list(TOOLS["setContext"].definition["inputSchema"]["properties"]) == ["context"]


def test_all_tools_of_both_generations_are_there() -> None:
    """`processPrompt` and `getKnowledge` are Toolgate's own, for all packs."""
    assert sorted(TOOLS) == sorted(
        [
            "openRelation",
            "deleteRelation",
            "listRelations",
            "getRelations",
            "deleteRelations",
            "renameRelation",
            "openValueList",
            "deleteValueList",
            "listValueLists",
            "getValueLists",
            "deleteValueLists",
            "renameValueList",
            "queryDatabaseSchema",
            "getTableColumns",
            "getTableInfo",
            "listTables",
            "discoverDbRelations",
            "getContext",
            "setContext",
            "undo",
            "getCurrentForm",
            "openForm",
            "listForms",
            "getFormProperties",
            "listStyles",
            "getStyle",
            "listButtons",
            "getButtonInfo",
            "listLabels",
            "getLabelInfo",
        ]
    )


def test_the_pack_is_without_faults() -> None:
    schemas = {name: tool.definition["inputSchema"] for name, tool in TOOLS.items()}

    found = lint(PACK, model=taught("bundled").model, schemas=schemas, variables=STANDARD)

    assert [f"{each.rule}: {each.text}" for each in found.findings] == []
    assert all((each.accuracy or 0) > 0.9 for each in found.intents)


MESSAGES = {
    "I need a relation between orders and customers": "RELATIONS",
    "Show me all relations in example_data": "RELATIONS",
    "Rename the orders_to_customers relation": "RELATIONS",
    "craete a relatoin from invoices to payments": "RELATIONS",
    "Verbinde bitte Kunden mit ihren Aufträgen über eine Relation": "RELATIONS",
    "¿qué relaciones existen con la tabla clientes?": "RELATIONS",
    "create a value list with Active, Inactive, Pending": "VALUELISTS",
    "can you create a value list with countries?": "VALUELISTS",
    "drop-down for the shipping methods please": "VALUELISTS",
    "Lege eine Werteliste mit den Monaten an": "VALUELISTS",
    "necesito una lista de valores con colores": "VALUELISTS",
    "What is the capital of France?": "none",
    "Explain quantum physics": "none",
    "What's the weather today?": "none",
    "Tell me a joke": "none",
    "Create a calculation that sums order totals": "none",
    "Open the customers form": "FORMS",
    "Which labels are on the order form?": "FORMS",
    "Füge dem Formular Kunden einen Knopf hinzu": "FORMS",
    "Show me all database servers": "none",
    "How do I write a method in Servoy?": "none",
}


@pytest.mark.parametrize("embedder", ["bundled", ""])
def test_messages_are_told_apart(embedder: str) -> None:
    """Facts 4.9: the four questions of the rules, other topics of Servoy, and both intents."""
    assert {text: judged(embedder, text).intent for text in MESSAGES} == MESSAGES


@pytest.mark.parametrize(
    ("text", "tool", "name"),
    [
        ("get rid of the countries value list", "deleteValueList", "countries"),
        ("get rid of the new value list", "deleteValueList", None),
        (
            "cr\u00e9e une liste de valeurs payment avec Carte et Ch\u00e8que",
            "openValueList",
            "payment",
        ),
        ("Crea una lista de valores estados con Abierto y Cerrado", "openValueList", "estados"),
        ("Crea una lista de valores con Abierto y Cerrado", "openValueList", None),
        ("Crea una lista di valori stati con Alta e Bassa", "openValueList", "stati"),
        ("\u521b\u5efa\u503c\u5217\u8868 order_status", "openValueList", "order_status"),
        ("\u5220\u9664\u5173\u7cfborders_to_items", "deleteRelation", "orders_to_items"),
        ("\u6253\u5f00\u8868\u5355 customer_list", "openForm", "customer_list"),
    ],
)
def test_the_name_of_an_object_is_read_in_other_languages_too(
    text: str, tool: str, name: str | None
) -> None:
    (intent,) = (intent for intent in PACK.intents if tool in intent.tools)
    specs = [spec for spec in intent.arguments if not spec.tools or tool in spec.tools]
    read = ArgumentReader(specs).read(text, today=date(2026, 11, 28))
    assert {argument.name: argument.value for argument in read}.get("name") == name


def test_a_message_may_ask_for_both() -> None:
    said = judged("bundled", "Create a relation and a value list")

    assert set(said.intents) == {"RELATIONS", "VALUELISTS"}


def with_servoy(root: Path) -> Settings:
    options = {"servoy": {"workspace": str(root)}}
    packs = PackSettings(enable=("servoy",), disable=("schema",), options=options)
    return Settings(mode="all", packs=packs)


async def called(app: App, tool: str, /, **arguments: Any) -> dict[str, Any]:
    return await app.gateway.call(ME, {"name": tool, "arguments": arguments}, None)


async def test_a_prompt_is_enriched_and_its_tool_writes_the_file(tmp_path: Path) -> None:
    """The walk through source document 000, from the message to the relation."""
    root = make(tmp_path)
    message = "I need a relation between orders and employees"
    async with memory_app({}, with_servoy(root), wait_s=HANG_S) as app:
        with anyio.fail_after(HANG_S):
            await app.recognizer.wait_until_trained()
        enriched = (await called(app, "processPrompt", prompt=message))["content"][0]["text"]
        schema = await called(app, "servoy__queryDatabaseSchema", serverName="example_data")
        made = await called(
            app,
            "servoy__openRelation",
            name="orders_to_employees",
            primaryDataSource="example_data/orders",
            foreignDataSource="example_data/employees",
            primaryColumn="employeeid",
            foreignColumn="employeeid",
        )
        missing = await called(app, "servoy__openRelation")
        off_topic = await called(app, "processPrompt", prompt="What is the capital of France?")

    assert enriched.startswith(
        "=== SERVOY DEVELOPMENT CONTEXT ===\n**Current Project:** shop\n**Active Solution:** shop\n"
        f"\nUSER REQUEST:\n{message}\n\n=== RELATIONS OPERATIONS ==="
    )
    assert "**Database servers**: example_data" in enriched
    assert "- shop/forms/orders.frm" in enriched
    assert "{{" not in enriched
    assert "orders.employeeid → employees" in schema["content"][0]["text"]
    assert made["isError"] is False
    assert (root / "shop/relations/orders_to_employees.rel").exists()
    assert missing["isError"]
    assert missing["content"][0]["text"] == "The 'name' argument is required."
    assert off_topic["content"][0]["text"] == "PASS_THROUGH"


async def test_without_a_workspace_there_is_no_active_project(tmp_path: Path) -> None:
    async with memory_app({}, with_servoy(tmp_path), wait_s=HANG_S) as app:
        with anyio.fail_after(HANG_S):
            await app.recognizer.wait_until_trained()
        answer = await called(app, "processPrompt", prompt="list all relations")
        failed = await called(app, "servoy__listRelations")

    text = answer["content"][0]["text"]
    assert text.startswith(
        "=== SERVOY DEVELOPMENT CONTEXT ===\n**No active Servoy project**\n\nUSER REQUEST:\n"
    )
    assert "**Current project**: UNKNOWN" in text
    assert failed["isError"]


def test_the_command_counts_the_files_that_are_written_as_they_were_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Facts 4.2: a file that cannot be parsed is different, and nothing on disk changes."""
    make(tmp_path / "a", "plain")
    make(tmp_path / "b", "json")
    put(
        tmp_path / "a/shop/datasources/example_data/orders.tbl",
        {"typeid": 39, "uuid": "U"},
        "plain",
    )
    (tmp_path / "a/shop/medias.obj").write_text('[\n{\nname:"a.png"\n}\n]\n', encoding="utf-8")

    assert run(["pack", "servoy", "roundtrip", str(tmp_path), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    (tmp_path / "b/shop/valuelists/half.val").write_text('{\n    "name":"x', encoding="utf-8")
    spaced = json.dumps(VALUE_LIST, indent=4)
    (tmp_path / "b/shop/valuelists/spaced.val").write_text(spaced, encoding="utf-8")
    status = run(["pack", "servoy", "roundtrip", str(tmp_path), "--json"])
    damaged = json.loads(capsys.readouterr().out)
    run(["pack", "servoy", "roundtrip", str(tmp_path)])
    shown = capsys.readouterr().out

    assert (whole["files"], whole["identical"], whole["different"]) == (24, 24, [])
    assert {name: each["files"] for name, each in whole["extensions"].items()} == {
        "rel": 2,
        "val": 2,
        "dbi": 10,
        "obj": 9,
        "tbl": 1,
    }
    assert status == 1
    assert damaged["different"] == ["b/shop/valuelists/half.val", "b/shop/valuelists/spaced.val"]
    assert damaged["extensions"]["val"] == {
        "files": 4,
        "identical": 2,
        "different": damaged["different"],
    }
    assert ".val  2 of 4 identical" in shown
    assert "half.val: line 2: a text is begun here and not ended" in shown
    assert (tmp_path / "b/shop/valuelists/spaced.val").read_text() == spaced


@pytest.mark.parametrize(("below", "status"), [("", 3), ("nowhere", 2)])
def test_the_command_says_when_there_is_nothing(tmp_path: Path, below: str, status: int) -> None:
    assert run(["pack", "servoy", "roundtrip", str(tmp_path / below)]) == status
