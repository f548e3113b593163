"""Threads of the chat as people read them."""

import pytest

from tests.chat.place import chatting
from tests.chat.test_doors import weather
from tests.web.places import said_in

pytestmark = pytest.mark.anyio


async def test_a_thread_shows_what_was_asked_called_and_answered() -> None:
    calling = {"tool_calls": [{"name": "weather__forecast", "arguments": {"city": "<b>Rome</b>"}}]}
    async with chatting(calling, {"text": "Sun, I was told."}, servers=weather()) as place:
        await place.say("The forecast?", thread="t/1")
        async with place.session.get(f"{place.url}/console/chat") as answer:
            assert "t/1" in said_in(await answer.text())
        address = f"{place.url}/console/thread?name=t/1"
        async with place.session.get(address) as answer:
            assert answer.status == 200
            text = await answer.text()
        assert "<b>Rome" not in text
        told = said_in(text)
        for word in ("Asked", "The forecast?", "Calls", "Answered", "Sun, I was told."):
            assert word in told, told
        async with place.session.get(f"{place.url}/console/thread?name=none") as answer:
            assert answer.status == 400
