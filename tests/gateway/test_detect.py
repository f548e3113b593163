"""The verb `detect`: what messages ask for, over REST as programs call it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from toolgate.app.app import App
from toolgate.cli.client._local_gateway import in_process
from toolgate.intents import ArgumentSpec, DetectRequest, Intent, IntentSet, Keywords
from toolgate.settings import AuditSettings, ConnectionTable, PackSettings, Settings
from toolgate.store import AuditFilter, DetectionFilter
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller

PROMPTS = {
    "refunds": ("give me my money back", "i want a refund", "refund my order", "pay it back"),
    "tracking": ("where is my parcel", "track my order", "is my package late", "has it left"),
}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A pack of two intents with prompts."""
    home = tmp_path / "shop"
    (home / "intents").mkdir(parents=True)
    (home / "pack.toml").write_text('name = "shop"\n', encoding="utf-8")
    for name, lines in PROMPTS.items():
        (home / "intents" / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    return home


@asynccontextmanager
async def gateway_with(pack: Path, settings: Settings | None = None) -> AsyncGenerator[App]:
    """A gateway whose one pack has prompts."""
    wanted = replace(
        settings or Settings(), packs=PackSettings(paths=(str(pack),), disable=("schema",))
    )
    async with memory_app({}, wanted) as app:
        with anyio.fail_after(HANG_S):
            await app.recognizer.wait_until_trained()
        yield app


async def ask(app: App, body: dict[str, Any]) -> tuple[int, Any]:
    """What `POST /api/v1/detect` answers."""
    status, answer = await in_process(app)("POST", "/api/v1/detect", body)
    return status, json.loads(answer)


async def test_one_message_is_answered_with_its_intent_and_arguments() -> None:
    async with memory_app({}) as app:
        asked = {"message": "show the last 5 changes", "today": "2025-10-21", "stage": "keyword"}
        status, answer = await ask(app, asked)

    assert status == 200
    assert (answer["use_mcp"], answer["intent"], answer["confidence"]) == (
        True,
        "schema-changes",
        0.9,
    )
    assert (answer["tool"], answer["arguments"]) == ("schema_changelog", {"limit": 5})
    assert answer["stage"] == "keyword"


async def test_a_pack_whose_needs_are_unmet_teaches_nothing() -> None:
    """The pack `schema` is silent until a database is connected; only its keywords can be tried."""
    async with memory_app({}) as app:
        for stage, intent in (("keyword", "schema-version"), ("cascade", "none")):
            _, answer = await ask(app, {"message": "what is the schema version", "stage": stage})
            assert answer["intent"] == intent
    connected = Settings(connections={"shop": ConnectionTable(url="sqlite://")})
    async with memory_app({}, connected) as app:
        _, answer = await ask(app, {"message": "what is the schema version"})
        assert answer["intent"] == "schema-version"


async def test_many_messages_are_answered_in_their_order(pack: Path) -> None:
    async with gateway_with(pack) as app:
        messages = ["please track my order", "give me my money back", "what is pi"]
        status, answer = await ask(app, {"messages": messages})

    assert status == 200
    assert [one["intent"] for one in answer["detections"]] == ["tracking", "refunds", "none"]


async def test_no_messages_are_no_answers(pack: Path) -> None:
    async with gateway_with(pack) as app:
        assert await ask(app, {"messages": []}) == (200, {"detections": []})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "There is no message."),
        ({"message": "a", "messages": ["b"]}, "are too much"),
        ({"message": 5}, "Member 'message' must be"),
        ({"messages": ["a", None]}, "Member 'messages' must"),
        (
            {"message": "a", "stage": "magic"},
            "Member 'stage' must be keyword, semantic or cascade, not 'magic'.",
        ),
        ({"message": "a", "today": "tomorrow"}, "Member 'today' is 'tomorrow'."),
        ({"message": "a", "zone": "Moon"}, "Member 'zone' is 'Moon'."),
        ({"message": "a", "words": 1}, "Unknown member 'words'."),
    ],
)
async def test_what_does_not_fit_is_named(body: dict[str, Any], said: str) -> None:
    async with memory_app({}) as app:
        status, answer = await ask(app, body)

    assert status == 400
    assert said in answer["error"]["message"]


async def test_each_message_is_noted_and_the_request_audited_once(pack: Path) -> None:
    async with gateway_with(pack) as app:
        for _ in range(2):
            await ask(app, {"messages": ["refund my order", "what is pi"]})
        await app.notes.flush()
        await app.recorder.flush()
        noted = await app.store.detections.select(DetectionFilter())
        audited = await app.store.audit.select(AuditFilter(action="detect"))

    assert sorted((one.message, one.outcome, one.remembered) for one in noted) == [
        ("refund my order", "found", False),
        ("refund my order", "found", True),
        ("what is pi", "none", False),
        ("what is pi", "none", True),
    ]
    assert [one.detail for one in audited] == [
        {"messages": 2, "intents": {"refunds": 1, "none": 1}, "entry_point": "cli"}
    ] * 2


async def test_texts_are_kept_only_where_the_settings_allow_it(pack: Path) -> None:
    settings = Settings(audit=AuditSettings(keep_queries=False))
    async with gateway_with(pack, settings) as app:
        await ask(app, {"message": "refund my order"})
        await app.notes.flush()
        await app.recorder.flush()
        (noted,) = await app.store.detections.select(DetectionFilter())
        (audited,) = await app.store.audit.select(AuditFilter(action="detect"))

    assert (noted.message, noted.intent) == (None, "refunds")
    assert audited.query is None


async def test_a_tool_that_the_caller_may_not_use_is_not_suggested() -> None:
    intent = Intent(
        name="refunds",
        tool="refund",
        keywords={"en": Keywords(exact=("money back",))},
        arguments=(ArgumentSpec(name="order", kind="integer"),),
        pack="shop",
    )
    body = {"message": "money back for order 12", "stage": "keyword"}
    answers: list[dict[str, Any]] = []
    for allowed in (True, False):
        shop = FakeUpstream({"refund": lambda _: text_result("done")})
        async with memory_app({"shop": shop}, tool_permissions={"refund": allowed}) as app:
            app.recognizer.replace_intents(IntentSet(version="1", intents=(intent,)))
            _, answer = await ask(app, body)
            (found,) = await app.gateway.intents.detect(
                Caller.local(), DetectRequest(messages=(body["message"],), deciding="keyword")
            )
        assert found.tool == answer["tool"]
        answers.append(answer)

    free, held = answers
    assert (free["tool"], free["arguments"]) == ("refund", {"order": 12})
    assert (held["tool"], held["arguments"], held["found"]) == (None, {}, [])
    assert held["intent"] == "refunds"


async def test_changed_prompts_are_learned_while_messages_come(pack: Path) -> None:
    async with gateway_with(pack) as app:
        caller, request = Caller.local(), DetectRequest(messages=("book a table for two",))
        (before,) = await app.gateway.intents.detect(caller, request)
        new = pack / "intents" / "tables.txt"
        new.write_text("book a table\nreserve a seat\na table for two\n", encoding="utf-8")
        await app.packs.refresh()
        with anyio.fail_after(HANG_S):
            await app.recognizer.wait_until_trained()
        (after,) = await app.gateway.intents.detect(caller, request)

    assert (before.intent, after.intent) == ("none", "tables")
