"""The tool of an intent is called before the model is asked only where that is certain."""

import pytest

from tests.chat.chat_gateway import chatting, contents
from toolgate.intents import Intent, IntentSet, Keywords
from toolgate.settings import PackSettings, Settings
from toolgate.testing import FakeUpstream, text_result

STOCK = Intent(
    name="STOCK",
    tool="count_stock",
    tools=("count_stock",),
    keywords={"en": Keywords(exact=("stock report",))},
    prompts={
        "": (
            "show me the stock report",
            "stock report please",
            "how many items are in stock",
            "what is left in the warehouse",
            "count what we have in stock",
        )
    },
    pack="shop",
)
OTHER = Intent(
    name="LETTERS",
    prompts={
        "": (
            "write a letter to my boss",
            "draft an email to the team",
            "tell a colleague about something in a letter",
            "send a note to a friend",
            "compose a message for my sister",
        )
    },
    pack="shop",
)


@pytest.mark.parametrize(
    ("message", "is_called"),
    [
        ("show me the stock report", True),
        ("please don't show me the stock report", False),
        ("I don't need the stock report, just say hello", False),
        ("how do I spell stock report?", False),
        ("write a letter to my sister that I was late, for the stock report bored me", False),
    ],
)
async def test_a_tool_is_called_first_only_for_what_is_meant(message: str, is_called: bool) -> None:
    """A message that declined or only mentioned something queried a database."""
    server = FakeUpstream({"count_stock": lambda _: text_result("7 items")})
    settings = Settings(packs=PackSettings(disable=("schema",)))
    async with chatting(
        fallback={"text": "Done."}, servers={"shop": server}, settings=settings
    ) as place:
        recognizer = place.app.recognizer
        recognizer.replace_intents(IntentSet(version="test", intents=(STOCK, OTHER)))
        await recognizer.wait_until_trained()
        await place.say(message)

    assert bool(server.calls("count_stock")) is is_called
    assert contents(place.model.last, "user")[0].startswith("Context: 7 items") is is_called


async def test_no_tool_is_called_first_if_none_may_be_offered() -> None:
    """The tool of an intent was called although the thread was to have no tools."""
    server = FakeUpstream({"count_stock": lambda _: text_result("7 items")})
    settings = Settings(packs=PackSettings(disable=("schema",)))
    chat = {"tools_enabled": ()}
    async with chatting(
        fallback={"text": "Done."}, servers={"shop": server}, settings=settings, chat=chat
    ) as place:
        recognizer = place.app.recognizer
        recognizer.replace_intents(IntentSet(version="test", intents=(STOCK, OTHER)))
        await recognizer.wait_until_trained()
        await place.say("show me the stock report")

    assert not server.calls("count_stock")
    assert contents(place.model.last, "user") == ["show me the stock report"]
