"""Calls that miss: the model is told what was meant, and tries again in the same turn."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.chat.chat_gateway import ChatGateway, chatting, contents
from toolgate.intents import Intent, IntentSet, Keywords
from toolgate.intents.rules import PackRules
from toolgate.settings import PackSettings, Settings
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Json

INTENTS = (
    Intent(
        name="RELATIONS",
        tools=("openRelation",),
        keywords={"en": Keywords(exact=("open the relation",))},
        pack="ide",
    ),
    Intent(
        name="VALUELISTS",
        tools=("openValueList",),
        keywords={"en": Keywords(exact=("open the value list",))},
        pack="ide",
    ),
)
RULES = PackRules(
    pack="ide", rules={"relations": "Rules of relations.", "valuelists": "Rules of lists."}
)
ASKED = "Please open the relation orders"


def ide() -> FakeUpstream:
    named = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return FakeUpstream(
        {
            "openRelation": lambda _: text_result("relation is open"),
            "openValueList": lambda _: text_result("list is open"),
        },
        definitions={
            name: {"description": "Opens one.", "inputSchema": named}
            for name in ("openRelation", "openValueList")
        },
    )


@asynccontextmanager
async def at_work(server: FakeUpstream, *steps: Json, **chat: object) -> AsyncIterator[ChatGateway]:
    settings = Settings(packs=PackSettings(disable=("schema",)))
    async with chatting(*steps, servers={"ide": server}, settings=settings, chat=chat) as place:
        place.app.recognizer.replace_intents(IntentSet(version="test", intents=INTENTS))
        place.app.rulebook.replace_rules((RULES,))
        yield place


def calls(tool: str, **arguments: str) -> Json:
    return {"tool_calls": [{"name": f"ide__{tool}", "arguments": arguments}]}


async def test_after_a_call_outside_the_intent_the_model_chooses_again() -> None:
    server = ide()
    steps = (
        calls("openValueList", name="orders"),
        calls("openRelation", name="orders"),
        {"text": "It is open."},
    )
    async with at_work(server, *steps) as place:
        text = await place.text(ASKED, thread="t")
        missed, right = contents(place.model.last, "tool")

    assert text == "It is open."
    assert "was not called: it belongs to VALUELISTS" in missed
    assert "Rules of relations." in missed
    assert right == "relation is open"
    assert server.calls("openValueList") == []


async def test_a_model_that_means_it_is_held_back_once() -> None:
    server = ide()
    meant = calls("openValueList", name="orders")
    async with at_work(server, meant, meant, {"text": "The list is open."}) as place:
        text = await place.text(ASKED, thread="t")

    assert text == "The list is open."
    assert len(server.calls("openValueList")) == 1


async def test_after_arguments_that_do_not_fit_the_model_sends_others() -> None:
    server = ide()
    steps = (
        calls("openRelation", nam="orders"),
        calls("openRelation", name="orders"),
        {"text": "It is open."},
    )
    async with at_work(server, *steps) as place:
        text = await place.text(ASKED)
        missed, right = contents(place.model.last, "tool")

    assert text == "It is open."
    assert "The arguments do not fit." in missed
    assert "Rules of relations." in missed
    assert right == "relation is open"
    assert len(server.calls("openRelation")) == 1


async def test_tries_count_in_the_budget_of_the_turn() -> None:
    server = ide()
    wrong = calls("openRelation", nam="orders")
    async with at_work(server, wrong, wrong, wrong, max_steps=2) as place:
        text = await place.text(ASKED)

        assert len(place.model.chats) == 2
    assert "all 2 steps" in text
    assert server.calls("openRelation") == []
