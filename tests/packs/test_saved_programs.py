"""Saved programs: `programs/NAME.py` of a pack is a tool, whose code runs in the sandbox alone."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from tests.packs.pack_files import write_files
from toolgate.app.app import App
from toolgate.settings import GuardTable, PackSettings, ProgramSettings, Settings
from toolgate.store import AuditFilter
from toolgate.testing import FakePeer, FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json
from toolgate.upstream import FunctionTool, LocalParts, LocalServer

pytest.importorskip("pydantic_monty")
ME = Caller.local(client="tester", conversation="talk")
LATE = '''\
"""Notes for people."""


async def main(days: int = 14, status: Literal["open", "done"] = "open") -> dict[str, Any]:
    """List the orders that are late.

    Args:
        days: Days from which on an order is late.
    """
    orders = await shop.list_orders(status=status)
    return {"late": [order["number"] for order in orders if order["days"] >= days]}
'''
ORDERS = [{"number": 1, "days": 20}, {"number": 2, "days": 3}]
STATUS: Json = {"type": "object", "properties": {"status": {"type": "string"}}}


def shop() -> FakeUpstream:
    tools = {
        "list_orders": lambda params: text_result(json.dumps(ORDERS)),
        "refund": lambda params: text_result("refunded"),
    }
    return FakeUpstream(tools, definitions={name: {"inputSchema": STATUS} for name in tools})


@asynccontextmanager
async def gateway(
    folder: Path, files: dict[str, str], upstream: FakeUpstream | None = None, **settings: Any
) -> AsyncIterator[App]:
    write_files(folder, {"pack.toml": 'name = "sales"\nversion = "3"\n', **files})
    packs = PackSettings(paths=(str(folder),), disable=("schema",))
    wanted = Settings(packs=packs, **settings)
    async with memory_app({"shop": upstream or shop()}, wanted, wait_s=HANG_S) as app:
        yield app


async def call(app: App, tool: str, **arguments: Any) -> Json:
    return await request(app, None, tool, {}, **arguments)


async def request(
    app: App, peer: FakePeer | None, tool: str, answers: Json, **arguments: Any
) -> Json:
    """Call a tool as a client, with its answers to the questions of an earlier result."""
    with anyio.fail_after(HANG_S):
        params = {"name": "tool_execute", "arguments": {"toolKey": tool, "arguments": arguments}}
        return await app.gateway.call(ME, {**params, **answers}, peer)


def definition(app: App, key: str) -> Json:
    entry = app.gateway.visible.tool_or_none(ME, key)
    assert entry is not None
    return entry.definition


async def test_a_program_of_a_pack_is_a_tool_with_a_schema_from_its_annotations(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, {"programs/late_orders.py": LATE}) as app:
        assert app.packs.current.problems == ()
        tool = definition(app, "sales:late_orders")
        assert tool["description"] == "List the orders that are late."
        properties = tool["inputSchema"]["properties"]
        assert properties["days"] == {
            "default": 14,
            "description": "Days from which on an order is late.",
            "type": "integer",
        }
        assert properties["status"]["enum"] == ["open", "done"]
        assert tool["_meta"]["toolgate/program"]["version"] == "3"
        result = await call(app, "sales:late_orders", days=10)
        assert result["structuredContent"] == {"late": [1]}
        assert (await call(app, "sales:late_orders"))["structuredContent"] == {"late": [1]}
        refused = await call(app, "sales:late_orders", days="many")
        assert refused["isError"] is True
        assert "days" in refused["content"][0]["text"]


async def test_its_calls_are_recorded_below_the_call_of_the_tool(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"programs/late_orders.py": LATE}) as app:
        await call(app, "sales:late_orders")
        await app.recorder.flush()
        records = await app.store.audit.select(AuditFilter(phase="intent"))
        by_target = {record.target: record for record in records}
        program = by_target["tool_program"]
        assert by_target["shop:list_orders"].parent_id == program.record_id
        assert by_target["sales:late_orders"].action == "call"


async def test_another_program_is_another_definition_that_the_quarantine_withholds(
    tmp_path: Path,
) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    pack = tmp_path / "sales"
    write_files(pack, {"pack.toml": 'name = "sales"', "programs/late.py": LATE})
    packs = PackSettings(paths=(str(pack),), disable=("schema",))
    settings = Settings(packs=packs, quarantine="changed")
    async with memory_app({"shop": shop()}, settings, wait_s=HANG_S, store_url=store) as app:
        assert app.gateway.visible.tool_or_none(ME, "sales:late") is not None
    write_files(pack, {"programs/late.py": LATE.replace(">= days", "> days")})
    async with memory_app({"shop": shop()}, settings, wait_s=HANG_S, store_url=store) as app:
        with anyio.fail_after(HANG_S):  # the last listing is shown until there is a new one
            while app.gateway.visible.tool_or_none(ME, "sales:late") is not None:
                await anyio.sleep(0.01)
        held = await app.gateway.manage.quarantine.entries(ME)
        assert [item.key for item in held] == ["sales:late"]


async def test_the_same_call_resumes_a_program_whose_calls_a_person_decided(
    tmp_path: Path,
) -> None:
    """Where the servers' tools are listed, models do not see `tool_program`."""
    code = (
        'async def main(note: str = "") -> Any:\n    """Refund."""\n'
        '    return [await shop.list_orders(), await shop.refund(status="x")]\n'
    )
    guard = GuardTable(tools=("shop:refund",), approver="user")
    upstream = shop()
    files = {"programs/give_back.py": code}
    async with gateway(tmp_path, files, upstream, guard=(guard,)) as app:

        async def told() -> str:
            return (await call(app, "sales:give_back"))["content"][0]["text"]

        async def approve() -> None:
            (waiting,) = await app.gateway.approvals.search(ME, state="waiting")
            await app.gateway.approvals.decide(ME, waiting.approval_id, approve=True, via="console")

        first = await told()
        assert "a person has to approve 1 call" in first
        assert "make the same call again" in first
        assert "tool_program" not in first
        assert await told() == first
        other = (await call(app, "sales:give_back", note="another"))["content"][0]["text"]
        assert "a person has to approve 1 call" in other
        assert len(await app.gateway.kept_programs.programs(ME)) == 2

        await approve()
        other_talk = replace(ME, conversation="another")
        result = await app.gateway.calls.execute(other_talk, "sales:give_back", {})
        assert "refunded" in result["content"][0]["text"]
        assert "continued a program that the same call had started" in result["content"][1]["text"]
        assert len(upstream.calls("refund")) == 1
        assert len(upstream.calls("list_orders")) == 2, "once for each note"

        assert "a person has to approve 1 call" in await told(), "it is run anew"
        await approve()
        result = await call(app, "sales:give_back")
        assert len(result["content"]) == 1, "its conversation knows of the earlier call"
        assert "refunded" in result["content"][0]["text"]
        assert len(upstream.calls("refund")) == 2


async def test_a_program_has_its_own_time_limit_and_a_new_one_interrupts_no_call(
    tmp_path: Path,
) -> None:
    """Regression: its calls ended after the 60 seconds of other tools, and a pack's server has no
    table where one could raise them."""
    upstream, began, goes_on = shop(), anyio.Event(), anyio.Event()

    async def slow(params: Json) -> Json:
        began.set()
        await goes_on.wait()
        return text_result(json.dumps(ORDERS))

    upstream.tools["list_orders"] = slow
    async with gateway(tmp_path, {"programs/late.py": LATE}, upstream) as app:
        results: list[Json] = []

        async def run() -> None:
            results.append(await call(app, "sales:late"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with anyio.fail_after(HANG_S):
                await began.wait()
                write_files(tmp_path, {"programs/later.py": LATE})
                await app.reload(app.settings)
            goes_on.set()
        assert results[0]["structuredContent"] == {"late": [1]}
        (spec,) = app.packs.specs((), has_connections=False)
        longest_s = ProgramSettings(timeout_s=3_600).timeout_s
        assert {name for name, limit_s in spec.tool_timeouts_s.items() if limit_s > longest_s} == {
            "late",
            "later",
        }


async def test_programs_do_not_run_each_other(tmp_path: Path) -> None:
    """Each holds a process while it waits for the other, and there are few of them."""
    again = 'async def main() -> Any:\n    """Again."""\n    return await sales.again()\n'
    async with gateway(tmp_path, {"programs/again.py": again}) as app:
        told = (await call(app, "sales:again"))["content"][0]["text"]
        assert "A program cannot run another one" in told


async def test_nothing_of_a_program_runs_in_the_gateway(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    touch = f"__import__('pathlib').Path({str(mark)!r}).touch()"
    files = {
        "programs/default.py": f'async def main(a: str = {touch}) -> str:\n    """D."""\n',
        "programs/note.py": f'async def main(a: {touch}) -> str:\n    """N."""\n',
        "programs/top.py": f'{touch}\nasync def main(a: str = "") -> str:\n    """T."""\n',
        "programs/decorated.py": f'@{touch}\nasync def main() -> str:\n    """T."""\n',
    }
    async with gateway(tmp_path, files) as app:
        assert (await call(app, "sales:top"))["isError"] is True
        assert not mark.exists()
        problems = " ".join(app.packs.current.problems)
        assert "The default of the parameter 'a' is not a plain value" in problems
        assert "is not understood" in problems


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("1 +", "SyntaxError"),
        ("x = 1", "does not end with a function `main`"),
        ("async def other(): ...", "does not end with a function `main`"),
        ("async def main(): ...", "has no docstring"),
        ('async def main(*all):\n    """A."""', "unnamed parameters"),
        ('async def main(a: Order):\n    """A."""', "annotation 'Order' is not understood"),
        ('async def main(a: dict[int, str]):\n    """A."""', "is not understood"),
    ],
)
async def test_a_file_that_is_no_program_is_left_out_and_named(
    code: str, problem: str, tmp_path: Path
) -> None:
    async with gateway(tmp_path, {"programs/odd.py": code, "programs/late.py": LATE}) as app:
        assert app.gateway.visible.tool_or_none(ME, "sales:late") is not None
        assert app.gateway.visible.tool_or_none(ME, "sales:odd") is None
        (told,) = app.packs.current.problems
        assert "programs/odd.py" in told
        assert problem in told


PAINT = '''\
async def main(number: int) -> Any:
    """Paint an order."""
    orders = await shop.list_orders()
    colour = await shop.paint(status=str(number))
    await shop.refund(status=str(number))
    return {"colour": colour, "orders": len(orders)}
'''
ASK = GuardTable(tools=("shop:refund",), approver="user")
RED = {"action": "accept", "content": {"name": "red"}}
YES = {"action": "accept", "content": {"approve": True}}


def asking_shop() -> FakeUpstream:
    def paint(params: Json) -> Json:
        if answer := params.get("inputResponses"):
            return text_result(f"{params['requestState']}: {answer['colour']['content']['name']}")
        question = {"method": "elicitation/create", "params": {"message": "Which colour?"}}
        return {
            "resultType": "input_required",
            "inputRequests": {"colour": question},
            "requestState": f"state of {params['arguments']['status']}",
        }

    upstream = shop()
    upstream.tools["paint"] = paint
    upstream.definitions["paint"] = {"inputSchema": STATUS}
    return upstream


def answered(asked: Json, answer: Json) -> Json:
    """The parameters of the retry, with the same answer to all questions."""
    assert asked["resultType"] == "input_required", asked
    responses = dict.fromkeys(asked["inputRequests"], answer)
    return {"requestState": asked["requestState"], "inputResponses": responses}


async def test_a_program_asks_the_client_what_its_calls_ask(tmp_path: Path) -> None:
    """The question of a server, then the approval of another call; each answer continues it."""
    peer, upstream = FakePeer(capabilities={"elicitation": {}}), asking_shop()
    files = {"programs/paint.py": PAINT}
    async with gateway(tmp_path, files, upstream, guard=(ASK,)) as app:
        asked = await request(app, peer, "sales:paint", {}, number=7)
        (question,) = asked["inputRequests"].values()
        assert question["params"]["message"] == "Which colour?"
        asked = await request(app, peer, "sales:paint", answered(asked, RED), number=7)
        (question,) = asked["inputRequests"].values()
        assert "Run shop:refund" in question["params"]["message"]
        result = await request(app, peer, "sales:paint", answered(asked, YES), number=7)
        assert result["structuredContent"] == {"colour": "state of 7: red", "orders": 2}
        assert len(upstream.calls("refund")) == len(upstream.calls("list_orders")) == 1
        again = await request(app, peer, "sales:paint", answered(asked, YES), number=7)
        assert "There is no program" in again["content"][0]["text"]


async def test_a_program_asks_an_older_client_while_it_runs(tmp_path: Path) -> None:
    class Person(FakePeer):
        async def ask(self, method: str, params: Json) -> Json:
            self.messages.append((method, params))
            return RED if params["message"] == "Which colour?" else YES

    peer, upstream = Person(era="handshake", capabilities={"elicitation": {}}), asking_shop()
    async with gateway(tmp_path, {"programs/paint.py": PAINT}, upstream, guard=(ASK,)) as app:
        result = await request(app, peer, "sales:paint", {}, number=7)
        assert result["structuredContent"] == {"colour": "state of 7: red", "orders": 2}
        assert len(peer.messages) == 2


async def test_an_approved_program_asks_and_continues(tmp_path: Path) -> None:
    """The call of the tool itself needs approval, too."""
    peer = FakePeer(capabilities={"elicitation": {}})
    guard = GuardTable(tools=("sales:paint",), approver="user")
    files = {"programs/paint.py": PAINT}
    async with gateway(tmp_path, files, asking_shop(), guard=(guard,)) as app:
        asked = await request(app, peer, "sales:paint", {}, number=7)
        assert "Run sales:paint" in str(asked["inputRequests"])
        asked = await request(app, peer, "sales:paint", answered(asked, YES), number=7)
        assert "Which colour?" in str(asked["inputRequests"])
        result = await request(app, peer, "sales:paint", answered(asked, RED), number=7)
        assert result["structuredContent"]["colour"] == "state of 7: red"


async def test_a_question_is_repeated_if_the_client_makes_the_call_anew(tmp_path: Path) -> None:
    """A client may be restarted before its person has answered."""
    peer, upstream = FakePeer(capabilities={"elicitation": {}}), asking_shop()
    async with gateway(tmp_path, {"programs/paint.py": PAINT}, upstream) as app:
        asked = await request(app, peer, "sales:paint", {}, number=7)
        repeated = await request(app, peer, "sales:paint", {}, number=7)
        assert repeated["inputRequests"] == asked["inputRequests"]
        result = await request(app, peer, "sales:paint", answered(repeated, RED), number=7)
        assert result["structuredContent"]["colour"] == "state of 7: red"
        assert len(upstream.calls("list_orders")) == 1


async def test_an_answer_continues_no_other_call(tmp_path: Path) -> None:
    peer = FakePeer(capabilities={"elicitation": {}})
    files = {"programs/paint.py": PAINT, "programs/late.py": LATE}
    async with gateway(tmp_path, files, asking_shop()) as app:
        asked = await request(app, peer, "sales:paint", {}, number=7)
        for tool, arguments in (("sales:paint", {"number": 8}), ("sales:late", {})):
            refused = await request(app, peer, tool, answered(asked, RED), **arguments)
            assert "state is of another call" in refused["content"][0]["text"]
        result = await request(app, peer, "sales:paint", answered(asked, RED), number=7)
        assert result["structuredContent"]["colour"] == "state of 7: red"


async def test_the_same_calls_at_the_same_time_are_programs_of_their_own(tmp_path: Path) -> None:
    """Regression: the one that was parked last replaced the others."""
    peer, upstream, running = FakePeer(capabilities={"elicitation": {}}), asking_shop(), 0
    all_run = anyio.Event()

    async def meet(params: Json) -> Json:
        nonlocal running
        running += 1
        if running == 3:
            all_run.set()
        await all_run.wait()
        return text_result(json.dumps(ORDERS))

    upstream.tools["list_orders"] = meet
    async with gateway(tmp_path, {"programs/paint.py": PAINT}, upstream) as app:
        results: list[Json] = []

        async def paint() -> None:
            asked = await request(app, peer, "sales:paint", {}, number=7)
            asked_all.append(asked)
            if len(asked_all) == 3:
                all_asked.set()
            await all_asked.wait()
            results.append(await request(app, peer, "sales:paint", answered(asked, RED), number=7))

        asked_all: list[Json] = []
        all_asked = anyio.Event()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(paint)
        values = [result.get("structuredContent", result) for result in results]
        assert values == [{"colour": "state of 7: red", "orders": 2}] * 3
        assert await app.gateway.kept_programs.programs(ME) == []


async def test_programs_that_were_parked_together_are_resumed_one_after_the_other(
    tmp_path: Path,
) -> None:
    """Nobody can be asked: each of the same calls resumes one of them, whichever waits longest."""
    upstream, running, all_run = shop(), 0, anyio.Event()

    async def meet(params: Json) -> Json:
        nonlocal running
        running += 1
        if running == 2:
            all_run.set()
        await all_run.wait()
        return text_result(json.dumps(ORDERS))

    upstream.tools["list_orders"] = meet
    code = '''\
async def main() -> Any:
    """Refund."""
    return [await shop.list_orders(), await shop.refund(status="x")]
'''
    async with gateway(tmp_path, {"programs/back.py": code}, upstream, guard=(ASK,)) as app:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(call, app, "sales:back")
        assert len(await app.gateway.kept_programs.programs(ME)) == 2
        for refunded in (1, 2):
            await call(app, "sales:back")
            (waiting,) = await app.gateway.approvals.search(ME, state="waiting")
            await app.gateway.approvals.decide(ME, waiting.approval_id, approve=True, via="console")
            assert "refunded" in (await call(app, "sales:back"))["content"][0]["text"]
            assert len(upstream.calls("refund")) == refunded
        assert len(upstream.calls("list_orders")) == 2
        assert await app.gateway.kept_programs.programs(ME) == []


@pytest.mark.parametrize(
    ("body", "problem", "advice"),
    [
        (
            "return await shop.list_orders(stats=days)",
            "did you mean 'status'",
            "The arguments are not the cause: the author of the pack",
        ),
        ("return await shop.list_order()", "It needs shop.list_order,", "Ask an administrator."),
        ("return await mail.send(to=days)", "It needs mail,", "Ask an administrator."),
        (
            "return [await shop.list_orders(status=s) for s in [days]]",
            "ValueError",
            "If one of the arguments is the cause, call the tool with another one",
        ),
        ("await shop.list_orders()\n    return 1 / days", "ZeroDivision", "another one"),
    ],
)
async def test_an_error_says_whether_the_caller_can_do_something(
    body: str, problem: str, advice: str, tmp_path: Path
) -> None:
    """Callers can neither correct the program nor send it again."""
    code = f'async def main(days: Any = 0) -> Any:\n    """Late."""\n    {body}\n'
    async with gateway(tmp_path, {"programs/late.py": code}) as app:
        text = (await call(app, "sales:late"))["content"][0]["text"]
        assert problem in text
        assert advice in text
        assert "send the whole program again" not in text


async def test_a_tool_of_a_pack_that_takes_too_long_is_told_how_to_take_longer() -> None:
    """Packs have no table `[server.NAME]`."""

    async def load() -> LocalParts:
        return LocalParts(name="sales", tools=[FunctionTool(anyio.sleep_forever, name="slow")])

    async with memory_app({"sales": LocalServer(load)}, timeout_s=0.05) as app:
        text = (await call(app, "sales:slow"))["content"][0]["text"]
        assert "did not answer within" in text
        assert "context.report_progress" in text
        assert "[server." not in text


async def test_a_program_that_is_switched_off_says_what_switches_it_on(tmp_path: Path) -> None:
    """Regression: its caller was told to use `tool_execute`, which it had used."""
    files, off = {"programs/late.py": LATE}, ProgramSettings(offer="off")
    async with gateway(tmp_path, files, programs=off) as app:
        text = (await call(app, "sales:late"))["content"][0]["text"]
        assert text.startswith("Code mode is switched off.")
        assert "programs.offer" in text
