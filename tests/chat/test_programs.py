"""Programs in turns of a chat: offered where they save, with what is set here, and approved."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.chat.chat_gateway import chatting
from tests.limits import HANG_S
from tests.packs.pack_files import write_files
from toolgate.settings import GuardTable, PackSettings, ProgramSettings, Settings
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Caller, Json

pytest.importorskip("pydantic_monty")
ME = Caller.local()
ANY: Json = {"type": "object", "properties": {"n": {"type": "integer"}}}


def shop(count: int = 20) -> FakeUpstream:
    tools = {f"tool_{n}": lambda params: text_result("1") for n in range(count)}
    tools["double"] = lambda params: text_result(str(2 * params["arguments"]["n"]))
    return FakeUpstream(tools, definitions={name: {"inputSchema": ANY} for name in tools})


def program(**arguments: Any) -> Json:
    return {"tool_calls": [{"name": "tool_program", "arguments": arguments}]}


def offered(request: Json) -> list[str]:
    return [tool["function"]["name"] for tool in request["tools"]]


def answers(request: Json) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


async def test_a_program_runs_in_a_turn_and_only_its_result_comes_back() -> None:
    upstream = shop()
    code = "sum(int(n) for n in await gather(*[shop.double(n=n) for n in range(5)]))"
    step = program(code=code)
    async with chatting(step, {"text": "20"}, servers={"shop": upstream}) as place:
        await place.say("Add the doubles")
        assert answers(place.model.last) == ["20"]
    assert len(upstream.calls("double")) == 5


async def test_what_a_program_calls_and_how_it_ends_is_shown() -> None:
    """Regression: the tools of a program were no tools of its turn, and one that could not be read
    was shown as running for ever."""
    code = "[await shop.double(n=1), await shop.tool_1(), await shop.double(n=2)]"
    steps = program(programme=code), program(code=code), {"text": "Done."}
    async with chatting(*steps, servers={"shop": shop()}) as place:
        events = await place.stream("Add the doubles", thread="t", toolgate={"events": True})
        answer = (await place.history("t"))["messages"][-1]
    shown = [event["status"] for kind, event in events if kind == "toolgate.mcp_tool"]
    assert shown == ["started", "failed", "started", "completed"]
    assert answer["response_metadata"]["tools"] == ["shop:double", "shop:tool_1"]


@pytest.mark.parametrize(
    ("count", "offer", "expected"),
    [(20, "auto", True), (3, "auto", False), (3, "on", True), (20, "off", False)],
)
async def test_programs_are_offered_where_they_save(count: int, offer: Any, expected: bool) -> None:
    settings = Settings(programs=ProgramSettings(offer=offer))
    async with chatting(
        {"text": "Hello."}, servers={"shop": shop(count)}, settings=settings
    ) as place:
        await place.say("Hello")
        assert ("tool_program" in offered(place.model.last)) is expected


async def test_what_is_set_here_replaces_what_a_program_says() -> None:
    schema = {"type": "object", "properties": {"thread_id": {"type": "string"}}}
    definitions = {"remember": {"inputSchema": schema}}
    notes = FakeUpstream({"remember": lambda params: text_result("kept")}, definitions=definitions)
    step = program(code="await notes.remember(thread_id='forged')")
    settings = Settings(programs=ProgramSettings(offer="on"))
    async with chatting(
        step, {"text": "Kept."}, servers={"notes": notes}, settings=settings
    ) as place:
        await place.say("Remember this", thread="mine")
    assert notes.calls("remember")[0]["arguments"] == {"thread_id": "mine"}


async def test_a_program_that_waits_for_a_person_goes_on_in_a_later_turn() -> None:
    settings = Settings(guard=(GuardTable(tools=("shop:double",), approver="user"),))
    upstream = shop()
    step = program(code="await shop.double(n=4)")
    async with chatting(
        step, {"text": "It waits."}, servers={"shop": upstream}, settings=settings
    ) as place:
        await place.say("Double 4", thread="t")
        (told,) = answers(place.model.last)
        assert "a person has to approve 1 call" in told
        (waiting,) = await place.app.gateway.approvals.search(ME, state="waiting")
        assert json.loads(waiting.arguments) == {"n": 4}
        assert upstream.calls("double") == []
        await place.app.gateway.approvals.decide(
            ME, waiting.approval_id, approve=True, via="console"
        )
        program_id = told.split('"resume": "')[1].split('"')[0]
        place.model.script(program(resume=program_id), {"text": "8"})
        await place.say("I have approved it", thread="t")
        assert answers(place.model.last)[-1] == "8"
    assert len(upstream.calls("double")) == 1


TWICE = '''\
async def main(n: int) -> Any:
    """Double a number twice."""
    once = await shop.double(n=n)
    return await shop.double(n=int(once))
'''


@pytest.mark.parametrize("tool", ["sales__twice", "tool_execute"])
async def test_a_saved_program_goes_on_in_its_turn_once_its_calls_are_decided(
    tool: str, tmp_path: Path
) -> None:
    write_files(tmp_path, {"pack.toml": 'name = "sales"', "programs/twice.py": TWICE})
    settings = Settings(
        guard=(GuardTable(tools=("shop:double",), approver="user"),),
        packs=PackSettings(paths=(str(tmp_path),), disable=("schema",)),
    )
    arguments: Json = {"n": 4}
    if tool == "tool_execute":
        arguments = {"toolKey": "sales:twice", "arguments": arguments}
    steps = {"tool_calls": [{"name": tool, "arguments": arguments}]}, {"text": "Done."}
    upstream = shop()
    async with chatting(
        *steps, servers={"shop": upstream}, settings=settings, chat={"approval_wait_s": HANG_S}
    ) as place:
        gateway = place.app.gateway

        async def decide(n: int) -> None:
            while not (waiting := await gateway.approvals.search(ME, state="waiting")):
                await anyio.sleep(0.01)
            assert json.loads(waiting[0].arguments) == {"n": n}
            await gateway.approvals.decide(ME, waiting[0].approval_id, approve=True, via="console")

        with anyio.fail_after(HANG_S):
            while gateway.visible.tool_or_none(ME, "sales:twice") is None:
                await anyio.sleep(0.01)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(place.say, "Double 4 twice")
                await decide(4)
                await decide(8)
        assert answers(place.model.last) == ["16"]
    assert [call["arguments"]["n"] for call in upstream.calls("double")] == [4, 8]


async def test_a_server_cannot_make_a_turn_call_it_again_for_ever() -> None:
    """It may name a program of the caller that is parked, and whose calls are decided."""
    parked: list[str] = []

    def echo(params: Json) -> Json:
        return {**text_result("x"), "isError": True, "_meta": {"toolgate/parked": parked[0]}}

    upstream = shop()
    upstream.tools["tool_1"] = echo
    call = {"tool_calls": [{"name": "tool_execute", "arguments": {"toolKey": "shop:tool_1"}}]}
    settings = Settings(guard=(GuardTable(tools=("shop:double",), approver="user"),))
    async with chatting(
        program(code="await shop.double(n=4)"),
        {"text": "It waits."},
        servers={"shop": upstream},
        settings=settings,
    ) as place:
        await place.say("Double 4", thread="t")
        approvals = place.app.gateway.approvals
        (waiting,) = await approvals.search(ME, state="waiting")
        await approvals.decide(ME, waiting.approval_id, approve=True, via="console")
        parked.append(answers(place.model.last)[0].split('"resume": "')[1].split('"')[0])

        place.model.script(call, {"text": "Done."})
        assert await place.text("Call the first tool") == "Done."
    assert 1 <= len(upstream.calls("tool_1")) <= 2
