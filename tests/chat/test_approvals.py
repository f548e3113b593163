"""Calls that wait for a person, in clients that only know how to send the next message."""

import json

from tests.chat.chat_gateway import ChatGateway, chatting, check_pairs, contents
from toolgate.settings import GuardTable, Settings
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Caller, Json

ME = Caller.local()
GUARDED = Settings(guard=(GuardTable(tools=("weather:order",), approver="user"),))


def weather() -> FakeUpstream:
    return FakeUpstream(
        tools={
            "forecast": lambda _: text_result("Sunny"),
            "order": lambda params: text_result(f"Ordered {params['arguments']['city']}"),
        }
    )


def order(*cities: str) -> Json:
    return {
        "tool_calls": [{"name": "weather__order", "arguments": {"city": city}} for city in cities]
    }


async def decide(place: ChatGateway, city: str, *, approve: bool = True) -> None:
    """What a person does on the page."""
    approvals = place.app.gateway.approvals
    (waiting,) = [
        approval
        for approval in await approvals.search(ME, state="waiting")
        if json.loads(approval.arguments) == {"city": city}
    ]
    await approvals.decide(ME, waiting.approval_id, approve=approve, via="console")


def cities(server: FakeUpstream) -> list[str]:
    return [call["arguments"]["city"] for call in server.calls("order")]


async def pending(place: ChatGateway) -> list[str]:
    return [entry["arguments"]["city"] for entry in (await place.history("t"))["pending"]]


async def test_a_new_message_runs_first_what_was_approved() -> None:
    server = weather()
    async with chatting(
        order("Bonn"), {"text": "It is ordered."}, servers={"weather": server}, settings=GUARDED
    ) as place:
        asked = await place.text("Order the weather of Bonn", thread="t")
        await decide(place, "Bonn")
        text = await place.text("I have approved it", thread="t")

        assert f"{place.url}/console/approvals" in asked
        assert cities(server) == ["Bonn"]
        assert text == "It is ordered."
        assert contents(place.model.last, "tool") == ["Ordered Bonn"]
        check_pairs(place.model.last)
        assert await pending(place) == []


async def test_what_is_not_decided_goes_on_waiting_while_the_conversation_goes_on() -> None:
    server = weather()
    forecast = {"tool_calls": [{"name": "weather__forecast", "arguments": {}}]}
    async with chatting(
        order("Bonn", "Ulm"),
        {"text": "It waits."},
        forecast,
        {"text": "Sunny."},
        {"text": "Both are done."},
        {"text": "Gladly."},
        servers={"weather": server},
        settings=GUARDED,
    ) as place:
        await place.text("Order the weather of Bonn and Ulm", thread="t")
        await place.text("Is it done?", thread="t")
        waits = contents(place.model.last, "tool")
        assert sorted(await pending(place)) == ["Bonn", "Ulm"]

        await place.text("And the forecast of the weather?", thread="t")
        await decide(place, "Ulm")
        await decide(place, "Bonn", approve=False)
        await place.text("Now it is decided", thread="t")

        assert waits == ["[waits for a person's approval]"] * 2
        assert cities(server) == ["Ulm"]
        refused, ordered, sunny = contents(place.model.last, "tool")
        assert "rejected" in refused
        assert (ordered, sunny) == ("Ordered Ulm", "Sunny")
        check_pairs(place.model.last)
        assert await pending(place) == []

        await place.text("Thank you", thread="t")
        assert contents(place.model.last, "tool") == [refused, "Ordered Ulm", "Sunny"]
        check_pairs(place.model.last)
        assert cities(server) == ["Ulm"]


async def test_a_turn_that_waits_keeps_what_waited_before() -> None:
    server = weather()
    async with chatting(
        order("Bonn"),
        order("Ulm"),
        {"text": "Ulm is ordered."},
        {"text": "Bonn too."},
        servers={"weather": server},
        settings=GUARDED,
    ) as place:
        await place.text("Order the weather of Bonn", thread="t")
        await place.text("Order the weather of Ulm", thread="t")
        assert await pending(place) == ["Bonn", "Ulm"]

        await decide(place, "Ulm")
        unknown, _ = await place.post("/v1/chat/resume", {}, x_toolgate_thread="other")
        _, threads = await place.get("/api/v1/threads")
        assert (unknown, [each["thread_id"] for each in threads["threads"]]) == (404, ["t"])
        _, resumed = await place.post("/v1/chat/resume", {}, x_toolgate_thread="t")
        assert resumed["choices"][0]["message"]["content"] == "Ulm is ordered."
        assert (await pending(place), cities(server)) == (["Bonn"], ["Ulm"])

        await decide(place, "Bonn")
        assert await place.text("And Bonn?", thread="t") == "Bonn too."
        assert (await pending(place), cities(server)) == ([], ["Ulm", "Bonn"])
        check_pairs(place.model.last)
