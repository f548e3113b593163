"""Programs over tools: typed, checked, limited, recorded; parked while a person decides."""

import json
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.limits import HANG_S
from tests.server.test_openapi import opened
from toolgate.app.app import App
from toolgate.cli.client._local_gateway import in_process
from toolgate.errors import ApprovalError, HandleError, ServerDownError
from toolgate.gateway.programs import helpers
from toolgate.settings import GuardTable, LimitSettings, PermissionTable, ProgramSettings, Settings
from toolgate.store import AuditFilter, StoredProgram
from toolgate.testing import FakePeer, FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Identity, Json

pytest.importorskip("pydantic_monty")
ASK = GuardTable(tools=("shop:refund",), approver="user", reason="It cannot be undone.")
ACCEPT = {"action": "accept", "content": {"approve": True}}
NUMBERS = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "unit": {"enum": ["eur", "usd"]}},
    "required": ["number"],
}
ORDER = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "total": {"type": "number"}},
    "required": ["number", "total"],
}


@dataclass
class Shop:
    app: App
    tools: dict[str, Any]
    upstream: FakeUpstream
    refunded: list[Json] = field(default_factory=list[Json])

    async def send(
        self, code: str = "", caller: Caller | None = None, peer: Any = None, **arguments: Any
    ) -> Json:
        meta = {name: arguments.pop(name) for name in list(arguments) if name in RETRY}
        sent = {"code": code, **arguments} if code else arguments
        params = {"name": "tool_program", "arguments": sent, **meta}
        with anyio.fail_after(HANG_S):
            return await self.app.gateway.call(caller or me(), params, peer)

    async def value(self, code: str, **more: Any) -> Any:
        result = await self.send(code, **more)
        assert "isError" not in result, result
        return json.loads(result["content"][0]["text"])

    async def error(self, code: str = "", **more: Any) -> str:
        result = await self.send(code, **more)
        assert result["isError"] is True, result
        return str(result["content"][0]["text"])

    async def approve_all(self, *, approve: bool = True) -> int:
        approvals = self.app.gateway.approvals
        waiting = await approvals.search(me(), state="waiting")
        for approval in waiting:
            await approvals.decide(me(), approval.approval_id, approve=approve, via="console")
        return len(waiting)


RETRY = {"requestState", "inputResponses"}


def me(conversation: str = "talk") -> Caller:
    return Caller.local(client="tester", conversation=conversation)


def program_id(text: str) -> str:
    match = re.search(r'"resume": "(\w+)"', text)
    assert match is not None, text
    return match[1]


def order(params: Json) -> Json:
    number = params["arguments"]["number"]
    return {**text_result("…"), "structuredContent": {"number": number, "total": number * 1.5}}


def fails(params: Json) -> Json:
    return {**text_result("out of stock"), "isError": True}


def asks(params: Json) -> Json:
    if answer := params.get("inputResponses"):
        return text_result(f"{params['requestState']}: {answer['colour']['content']['name']}")
    question = {"method": "elicitation/create", "params": {"message": "Which colour?"}}
    return {
        "resultType": "input_required",
        "inputRequests": {"colour": question},
        "requestState": f"state of {params['arguments']['number']}",
    }


@asynccontextmanager
async def shop(*, store_url: str = "sqlite://", **settings: Any) -> AsyncGenerator[Shop]:
    place: Shop

    def refund(params: Json) -> Json:
        place.refunded.append(params["arguments"])
        return text_result(f"refunded {params['arguments']['number']}")

    tools = {"get-order": order, "refund": refund, "buy": fails, "paint": asks, "list": order}
    definitions: dict[str, Json] = {name: {"inputSchema": NUMBERS} for name in tools}
    definitions["get-order"] |= {"outputSchema": ORDER, "annotations": {"readOnlyHint": True}}
    upstream = FakeUpstream(tools, definitions=definitions)
    settings = {"programs": ProgramSettings(offer="on"), "guard": (ASK,), **settings}
    async with memory_app({"shop": upstream}, Settings(**settings), store_url=store_url) as app:
        place = Shop(app, upstream.tools, upstream)
        yield place


# Values and types


async def test_tools_are_typed_functions_of_their_server() -> None:
    async with shop() as place:
        assert await place.value("(await shop.get_order(number=4))['total']") == 6.0
        assert await place.value("await shop.get_order(inputs['n'])", inputs={"n": 2}) == {
            "number": 2,
            "total": 3.0,
        }
        totals = "[o['total'] for o in await gather(*[shop.get_order(number=n) for n in [1, 2]])]"
        assert await place.value(totals) == [1.5, 3.0]
        # A keyword and a builtin have another name in a program.
        assert await place.value("(await shop.list_(2))['number']") == 2
        assert await place.value("return {'a': 1}") == {"a": 1}
        printed = await place.send("print('half way')\n1")
        assert printed["content"][1]["text"] == "[printed]\nhalf way\n"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("await shop.get_order(numbre=1)", "did you mean 'number'"),
        ("(await shop.get_order(number=1))['totl']", "did you mean 'total'"),
        ("await shop.get_order(number='1')", "Expected 'int'"),
        ("await shop.get_order(number=1, unit='gbp')", "'eur'"),
        ("await shop.get_orders(number=1)", "no tool 'get_orders'"),
        ("shop.get_order(number=1)['total']", "await"),
    ],
)
async def test_mistakes_are_named_before_anything_runs(code: str, hint: str) -> None:
    async with shop(guard=()) as place:
        program = f"await shop.refund(number=1)\n{code}"
        assert await place.error(program, dryRun=True) == await place.error(program)
        text = await place.error(program)
        assert hint in text
        assert "Line 2" in text
        assert place.refunded == []


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("(await shop.get_order(number=1, unit=str('eur')))['total']", 1.5),
        ("call = {'number': 2, 'unit': 'eur'}\n(await shop.get_order(**call))['total']", 3.0),
        ("o: dict = await shop.get_order(number=2)\no['total']", 3.0),
        ("def total(o: dict): return o['total']\ntotal(await shop.get_order(number=2))", 3.0),
        ("def first(o: list[dict]): return o[0]['total']\nfirst([await shop.get_order(2)])", 3.0),
        ("o = await shop.get_order(number=2)\no['late'] = True\no['late']", True),
        ("import shop\n(await shop.get_order(number=2))['total']", 3.0),
        ("from shop import get_order\n(await get_order(number=2))['total']", 3.0),
        ("o = await shop.get_order(number=2)\njson.loads(json.dumps(o))['total']", 3.0),
        ("o = await shop.get_order(2)\nlist(map(math.floor, filter(None, [o['total']])))", [3]),
        ("o = await shop.get_order(2)\ngetattr(shop, 'get_order') and hasattr(o, 'x')", False),
        (
            "class Line:\n    def __init__(self, o): self.total = o['total']\n"
            "[Line(await shop.get_order(number=2))]",
            [{"total": 3.0}],
        ),
    ],
)
async def test_programs_whose_types_cannot_be_known_run(code: str, value: object) -> None:
    """As models write them; the arguments of every call are checked when it is made."""
    async with shop() as place:
        assert await place.value(code) == value


MISTAKES = (
    ("await shp.get_order(number=1)", "Did you mean the server 'shop'?"),
    ("await github.create_issue(title='x')", "There is no server 'github'"),
    ("await tool_execute('shop:get-order', {})", "await server.tool(name=value)"),
    ("x = shop\nawait call_tool('shop:get-order', {})", "await server.tool(name=value)"),
    ("o = await shop.get_order(number=1)\no.total", "write ['total']"),
    ("await gather([shop.get_order(number=1)])", "gather(*calls)"),
    ("await gather(shop.get_order(number=1), return_exceptions=True)", "around each call"),
    ("try:\n    await shop.buy(number=1)\nexcept ToolError: pass", "raise RuntimeError"),
    ("next(n for n in [1])", "next(iter(…), None)"),
    ("o = await shop.get_order(number=2)\no['late']", "Unknown key 'late'"),
    ("o = await shop.get_order(number=2)\no.splitlines()", "its keys: number, total"),
    ("o = await shop.get_order(number=2)\nre.findall('x', o)", "describe shows"),
    ("await shop.get_ordre(number=1)", "Did you mean shop.get_order?"),
    ("asyncio.create_task(shop.get_order(number=1))", "write gather(call, call)"),
    ("asyncio.create_task(search('x'))", "write gather(call, call)"),
    ("for tool in search('orders'): print(tool)", "Write 'await' before the call"),
    ("def f():\n    yield 1\nlist(f())", "Build a list and return it"),
    ("import requests", "no libraries but asyncio"),
    ("open('/etc/passwd').read()", "Programs have no files"),
)
"""Programs as models write them, and a part of the answer."""


async def test_typical_mistakes_are_answered_with_what_to_write() -> None:
    async with shop() as place:
        for code, hint in MISTAKES:
            assert hint in await place.error(code), code


async def test_a_server_named_like_a_module_is_named_as_programs_call_it() -> None:
    upstream = FakeUpstream({"now": order}, definitions={"now": {"inputSchema": NUMBERS}})
    settings = Settings(programs=ProgramSettings(offer="on"))
    async with memory_app({"time": upstream}, settings) as app:
        place = Shop(app, upstream.tools, upstream)

        assert await place.value("(await time_.now(number=2))['total']") == 3.0
        for code in ("await time.now(number=2)", "import time\nawait time_.now(time.now())"):
            assert "The server 'time' is time_ in a program." in await place.error(code)


async def test_a_program_for_a_server_without_tools_is_told_so() -> None:
    """Regression: for a server that was still starting it was asked if it meant that server."""
    depot = FakeUpstream({"count": order})
    depot.tools.clear()
    servers = {"shop": FakeUpstream({"list": order}), "depot": depot}
    settings = Settings(programs=ProgramSettings(offer="on"))
    async with memory_app(servers, settings, store_url="sqlite://") as app:
        text = await Shop(app, {}, FakeUpstream()).error("await depot.count(number=1)")

        assert "The server 'depot' has no tools yet" in text


async def test_a_program_in_a_markdown_fence_keeps_its_line_numbers() -> None:
    async with shop() as place:
        assert await place.value("```python\nawait shop.get_order(number=2)\n```") == {
            "number": 2,
            "total": 3.0,
        }
        assert "Line 2" in await place.error("```\nawait shop.get_order(numbre=2)\n```\n")


async def test_a_small_program_cannot_build_a_result_that_fills_the_gateway() -> None:
    """Shared parts are written each time: 10 lists of 100 have 10 to the power of 20 members."""
    async with shop() as place:
        build = "x = [1] * 100\nfor _ in range(9): x = [x] * 100\n"

        assert "more than 32 MB as JSON" in await place.error(f"{build}x")
        assert "more than 32 MB as JSON" in await place.error(f"{build}await store('x', x)")
        nested = "x = 1\nfor _ in range(300): x = [x]\n[x, x]"
        assert "more than 100 levels deep" in await place.error(nested)


@pytest.mark.parametrize("value", ["n", "[n]", "{n: 1}", "{(n,): 1}", "{'a': {n}}"])
async def test_an_integer_that_has_no_text_is_named(value: str) -> None:
    """Regression: it was an internal error of the gateway."""
    async with shop(guard=()) as place:
        for code in (value, f"await store('x', {value})", "await shop.refund(n)"):
            told = await place.error(f"n = 10 ** 5000\n{code}")
            assert "an integer of more than 4,300 digits" in told, code
        assert await place.value("n = 10 ** 4299\nn // 10 ** 4298") == 10
        assert (await place.send("hex(10 ** 5000)"))["content"][0]["text"].startswith("0x")


@pytest.mark.parametrize(
    "end", ["raise SystemExit(1)", "raise SystemExit", "exit()", "quit(1)", "raise KeyError(3)"]
)
async def test_a_program_that_ends_itself_is_told_how_and_does_nothing_more(end: str) -> None:
    async with shop(guard=()) as place:
        text = await place.error(f"await shop.get_order(1)\n{end}\nawait shop.refund(1)")
        assert "return" in text
        assert "monty" not in text.lower()
        assert place.refunded == []


async def test_search_in_a_program_names_functions_as_it_calls_them() -> None:
    async with shop() as place:
        found = await place.value("await search('get order')")

        assert found[0]["function"] == "shop.get_order"
        called = 'shop.get_order(number: int, unit?: "eur"|"usd")'
        assert found[0]["signature"] == f"{called} -> {{number: int, total: number}}"


async def test_a_failed_call_is_an_exception_that_a_program_can_catch() -> None:
    async with shop() as place:
        code = "try:\n    await shop.buy(number=1)\nexcept RuntimeError as e:\n    r = str(e)\nr"
        assert (await place.send(code))["content"][0]["text"] == "out of stock"
        assert "line 1: RuntimeError: out of stock" in await place.error("await shop.buy(1)")
        assert "nowhere" in await place.error("import nowhere")


async def test_values_are_kept_for_the_next_program_of_the_conversation() -> None:
    async with shop() as place:
        await place.send("await store('orders', [1, {'a': 2}])")

        assert await place.value("(await load('orders'))[1]['a']") == 2
        assert "nothing is stored" in await place.error("await load('order')")
        other = me("other talk")
        assert "nothing is stored" in await place.error("await load('orders')", caller=other)
        text = await place.error("await store('large', 'x' * 2_000_000)")
        assert "1,048,576 bytes" in text


async def test_what_programs_keep_is_limited_for_each_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(helpers, "_MAX_VALUES", 2)
    monkeypatch.setattr(helpers, "_MAX_KEPT_BYTES", 1_000)
    async with shop(auth="required") as place:
        await place.send("await store('a', 'x' * 600)")
        text = await place.error("await store('b', 'x' * 600)", caller=me("other talk"))
        assert "1,204 bytes; 2 values and 1,000 bytes are allowed" in text
        assert await place.value("await store('a', 'x' * 900)") is None, "it replaces a value"
        await place.send("await store('b', 1)")
        assert "3 stored values" in await place.error("await store('c', 1)")
        assert await place.value("await store('b', 2)\nawait load('b')") == 2


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("await search()", "search needs the argument 'query'; it takes: query, limit"),
        ("await search(5)", "'query' of search must be a text, not of the type int"),
        ("await search('x', True)", "'limit' of search must be a whole number"),
        ("await search('x', limit=None)", "'limit' of search must be a whole number"),
        ("await search('x', 1, 2)", "search got 3 arguments; it takes: query, limit"),
        ("await search('x', count=3)", "search has no argument 'count'"),
        ("await search('x', query='y')", "search has two values for 'query'"),
        ("await describe()", "describe needs the argument 'function'"),
        ("await select({})", "select needs the argument 'filter'"),
        ("await store('x')", "store needs the argument 'value'"),
        ("await gather(load(), load())", "load needs the argument 'name'"),
        ("_tool_('load')", "load needs the argument 'name'"),
    ],
)
async def test_wrong_arguments_of_a_helper_are_named(code: str, problem: str) -> None:
    """A program that names no tool is not checked before it runs."""
    async with shop() as place:
        result = await place.send(code)
        assert problem in result["content"][0]["text"]


@pytest.mark.parametrize(
    "code", ["load('x')", "gather(load('x'))", "load('x')  # gather", "async def f(): pass\nf()"]
)
async def test_a_call_without_await_is_no_result(code: str) -> None:
    async with shop() as place:
        assert "Write 'await' before the call" in await place.error(code)


async def test_a_program_that_prints_too_much_is_told_so() -> None:
    async with shop() as place:
        text = await place.error("for n in range(100_000):\n    print(n)")
        assert "it printed more than 20,000 bytes" in text


async def test_programs_find_tools_themselves() -> None:
    async with shop() as place:
        (first, *_) = await place.value("await search('get order', limit=1)")
        assert first["function"] == "shop.get_order"
        described = await place.send("await describe('shop.get_order')")
        assert "number: int, unit: Literal['eur', 'usd'] = ..." in described["content"][0]["text"]


async def test_describe_takes_the_names_that_the_model_knows_of_a_tool() -> None:
    async with shop() as place:
        names = ("shop.get_order", "shop:get-order", "shop__get-order")
        shown = [await place.send(f"await describe({name!r})") for name in names]

        assert len({answer["content"][0]["text"] for answer in shown}) == 1
        assert "async def shop.get_order(number: int" in shown[0]["content"][0]["text"]


async def test_a_dry_run_names_the_tools_and_runs_none() -> None:
    async with shop(guard=()) as place:
        code = "for n in [1]:\n    await shop.refund(number=n)\nawait shop.get_order(number=1)"
        result = await place.send(code, dryRun=True)

        assert result["structuredContent"]["tools"] == [
            "shop.get_order (reads)",
            "shop.refund (may destroy)",
        ]
        assert place.refunded == []


@pytest.mark.parametrize("code", ["while True:\n    pass", "1 / 0", "raise ValueError('no')", ""])
async def test_a_dry_run_runs_nothing_of_a_program(code: str) -> None:
    async with shop() as place:
        result = await place.send(f"{code}\nawait shop.buy(number=1)", dryRun=True)
        assert result["structuredContent"]["tools"] == ["shop.buy (may destroy)"]


async def test_a_dry_run_says_why_a_program_cannot_be_read() -> None:
    async with shop() as place:
        assert "cannot be read" in await place.error("(1 +", dryRun=True)


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("await shop.refund(number=1)\nawait store('buy', 1)", {"refund"}),
        ("await shop.refund(number=1)\n# buy", {"refund"}),
        ("from shop import buy\nawait buy(number=1)", {"buy"}),
        ("place = shop\nawait place.buy(number=1)", {"buy"}),
        ("import shop as s\nawait s.buy(number=1)", {"buy"}),
        ("await getattr(shop, 'buy')(number=1)", {"buy"}),
    ],
)
async def test_a_dry_run_names_no_tool_that_is_only_mentioned(code: str, named: set[str]) -> None:
    async with shop() as place:
        result = await place.send(code, dryRun=True)
        lines = result["structuredContent"]["tools"]
        assert lines == [f"shop.{name} (may destroy)" for name in sorted(named)]


async def test_a_long_result_comes_in_pages() -> None:
    async with shop() as place:
        result = await place.send("'long ' * 1000", maxResultTokens=100)

        page = result["_meta"]["toolgate/page"]
        assert page["nextOffset"] <= 400
        assert page["totalCharacters"] == 5000


# The way of every call


async def test_every_call_is_recorded_with_the_program_as_parent() -> None:
    async with shop(guard=()) as place:
        await place.send("await gather(shop.get_order(1), shop.refund(2))\nawait search('order')")
        await place.app.recorder.flush()
        records = await place.app.store.audit.select(AuditFilter(oldest_first=True))

    (program,) = [r for r in records if r.action == "program" and r.phase == "intent"]
    calls = [r for r in records if r.action == "call" and r.phase == "intent"]
    inside = [*calls, *(r for r in records if r.action == "discover")]
    assert [r.target for r in inside] == ["shop:get-order", "shop:refund", None]
    assert {r.parent_id for r in inside} == {program.record_id}
    assert len(program.detail["code_sha256"]) == 64


async def test_a_program_may_only_do_what_its_caller_may() -> None:
    reader = Identity(caller_id="token:r", kind="token", token="r", projects=("*",))
    caller = Caller(caller_id="token:r", identity=reader)
    rules = (PermissionTable(allow=("shop:get-order",), to=("everyone",)),)
    async with shop(auth="required", permission=rules, guard=()) as place:
        assert await place.value("(await shop.get_order(number=1))['number']", caller=caller) == 1
        assert "no tool 'refund'" in await place.error("await shop.refund(1)", caller=caller)
        sneaky = "f = 'refund'\nx: Any = shop\nawait getattr(x, f)(number=1)"
        await place.error(f"from typing import Any\n{sneaky}", caller=caller)
        assert place.refunded == []


async def test_only_administrators_read_which_setting_limits_the_calls() -> None:
    """Others cannot change it, and are told what they can do."""
    reader = Identity(caller_id="token:r", kind="token", token="r", projects=("*",))
    caller = Caller(caller_id="token:r", identity=reader)
    rules = (PermissionTable(allow=("shop:*",), to=("everyone",)),)
    limited = ProgramSettings(offer="on", max_calls=2)
    async with shop(auth="required", permission=rules, guard=(), programs=limited) as place:
        text = await place.error("for n in range(9): await shop.get_order(n)", caller=caller)

    assert "more than 2 calls" in text
    assert "Divide the work" in text
    assert "max_calls" not in text


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("x = 10 ** 10 ** 8", "read less"),
        ("json.dumps([[]], indent=10 ** 9)", "read less"),
        ("return {'a': 1", "not closed"),
        ("await load('a')", "one conversation"),
        ("await shop.get_order(2, colour='red')", "its parameters: number, unit"),
    ],
)
async def test_errors_say_what_to_do(code: str, advice: str) -> None:
    async with shop(guard=()) as place:
        assert advice in await place.error(code)


async def test_limits_hold_inside_a_program() -> None:
    limited = LimitSettings(calls_per_minute=3)
    async with shop(guard=(), limits=limited) as place:
        text = await place.error("for n in range(9): await shop.refund(number=n)")
        assert "RuntimeError" in text
        assert len(place.refunded) == 3
    async with shop(guard=(), programs=ProgramSettings(offer="on", max_calls=4)) as place:
        text = await place.error("for n in range(9): await shop.refund(number=n)")
        assert "more than 4 calls" in text
        assert "programs.max_calls" in text
        assert len(place.refunded) == 4
        text = await place.error("while True: pass", timeout_s=0.5)
        assert "took longer than 0.5 seconds" in text


# People


async def test_writes_that_run_together_wait_as_one_list_and_go_on_once() -> None:
    async with shop() as place:
        code = (
            "a = await shop.get_order(number=1)\n"
            "r = await gather(*[shop.refund(number=n) for n in [7, 8, 9]])\n"
            "return [a['total'], r]"
        )
        text = await place.error(code)
        assert "has to approve 3 calls" in text
        assert text.count('* shop.refund({"number":') == 3
        assert "has to approve 3 calls" in await place.error(resume=program_id(text))
        assert await place.approve_all() == 3
        outcomes: list[Json] = []

        async def resume() -> None:
            outcomes.append(await place.send(resume=program_id(text)))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(resume)
        (finished,) = [outcome for outcome in outcomes if "isError" not in outcome]
        assert json.loads(finished["content"][0]["text"]) == [
            1.5,
            ["refunded 7", "refunded 8", "refunded 9"],
        ]
        assert finished["_meta"]["toolgate/program"]["calls"] == 4
        assert [call["number"] for call in place.refunded] == [7, 8, 9]
        assert "There is no program" in await place.error(resume=program_id(text))


async def test_what_a_program_printed_before_it_was_parked_is_returned() -> None:
    async with shop() as place:
        parts = "print('a' * 1500)", "shop.refund(1)", "print('b')", "shop.refund(2)", "print('c')"
        parked = program_id(await place.error("\n".join(parts).replace("shop", "await shop")))
        await place.approve_all()
        assert program_id(await place.error(resume=parked)) == parked
        await place.approve_all()
        result = await place.send(resume=parked)
        assert result["content"][1]["text"] == f"[printed]\n{'a' * 1500}\nb\nc\n"


async def test_only_a_new_call_that_waits_begins_the_wait_of_a_program_anew() -> None:
    """Resuming it before somebody has decided does not."""
    async with shop() as place:

        async def wait() -> tuple[str, str]:
            (kept,) = await place.app.gateway.kept_programs.programs(me())
            return kept.created_at, kept.expires_at

        code = "await gather(shop.refund(1), shop.refund(2))\nawait shop.refund(3)"
        parked = program_id(await place.error(code))
        first = await wait()

        assert "has to approve 2 calls" in await place.error(resume=parked)
        assert await wait() == first

        assert await place.approve_all() == 2
        assert "has to approve 1 call" in await place.error(resume=parked)
        second = await wait()
        assert second[0] > first[0]
        assert second[1] > first[1]

        assert "has to approve 1 call" in await place.error(resume=parked)
        assert await wait() == second


async def test_waiting_calls_are_listed_in_the_order_of_the_program() -> None:
    """People decide them as one list, whichever of them was refused first."""
    peer, second = FakePeer(capabilities={"elicitation": {}}), anyio.Event()

    async def asks_last(params: Json) -> Json:
        await second.wait()
        return asks(params)

    def asks_first(params: Json) -> Json:
        second.set()
        return asks(params)

    async with shop() as place:
        place.tools |= {"paint": asks_last, "buy": asks_first}
        asked = await place.send("await gather(shop.paint(1), shop.buy(2))", peer=peer)

        assert list(asked["inputRequests"]) == ["0.colour", "1.colour"]


async def test_an_older_client_is_asked_once_about_all_calls_of_a_program() -> None:
    """Its server cannot end the call with a question, so the client is asked while it runs."""
    peer = FakePeer(
        era="handshake",
        capabilities={"elicitation": {}},
        answers={"elicitation/create": ACCEPT},
    )
    async with shop() as place:
        many = "r = await gather(*[shop.refund(number=n) for n in range(14)])"
        code = f"{many}\nr + [await shop.refund(number=20)]"
        result = await place.send(code, peer=peer)

        assert "isError" not in result, result
        assert [call["number"] for call in place.refunded] == [*range(14), 20]
        together, single = [params["message"] for _, params in peer.messages]
        assert together.startswith("This program will make 14 calls: 14 × shop.refund.")
        assert single.startswith("Run shop:refund with")


@pytest.mark.parametrize("code", ["await shop.refund(number=1)", "await shop.paint(number=1)"])
async def test_the_time_in_which_an_older_client_is_asked_does_not_count(code: str) -> None:
    """Regression: a person who took longer than `programs.timeout_s` ended the program."""

    left_s: list[float] = []

    class Person(FakePeer):
        async def ask(self, method: str, params: Json) -> Json:
            left_s.append(anyio.current_effective_deadline() - anyio.current_time())
            red = {"action": "accept", "content": {"name": "red"}}
            return ACCEPT if "Run shop:refund" in params["message"] else red

    peer = Person(era="handshake", capabilities={"elicitation": {}})
    async with shop() as place:
        result = await place.send(code, peer=peer, timeout_s=HANG_S / 2)
        assert "isError" not in result, result
        assert left_s[0] > HANG_S / 2, "only the limit of this test counts"


async def test_calls_that_an_older_client_leaves_open_wait_elsewhere() -> None:
    answers = {"elicitation/create": {"action": "cancel"}}
    peer = FakePeer(era="handshake", capabilities={"elicitation": {}}, answers=answers)
    async with shop() as place:
        code = "await gather(shop.refund(number=1), shop.refund(number=2))"
        text = await place.error(code, peer=peer)
        assert "a person has to approve 2 calls" in text
        assert len(peer.messages) == 1
        await place.approve_all()
        result = await place.send(resume=program_id(text), peer=peer)
        assert json.loads(result["content"][0]["text"]) == ["refunded 1", "refunded 2"]


async def test_a_decision_elsewhere_ends_the_question_to_an_older_client() -> None:
    class Busy(FakePeer):
        async def ask(self, method: str, params: Json) -> Json:
            self.messages.append((method, params))
            await place.approve_all()
            await anyio.sleep_forever()
            raise AssertionError

    peer = Busy(era="handshake", capabilities={"elicitation": {}})
    async with shop() as place:
        code = "await gather(shop.refund(number=1), shop.refund(number=2))"
        result = await place.send(code, peer=peer)
        assert json.loads(result["content"][0]["text"]) == ["refunded 1", "refunded 2"]
        assert len(peer.messages) == 1


async def test_a_rejected_call_is_an_exception() -> None:
    async with shop() as place:
        code = "try:\n    await shop.refund(1)\nexcept RuntimeError:\n    r = 'no'\nr"
        text = await place.error(code)
        await place.approve_all(approve=False)
        result = await place.send(resume=program_id(text))

        assert result["content"][0]["text"] == "no"
        assert place.refunded == []


async def test_a_program_waits_until_the_tool_that_it_calls_is_no_longer_quarantined() -> None:
    """Regression: it was continued, failed since there was no such function, and was lost."""
    async with shop(quarantine="changed") as place:
        parked = program_id(await place.error("await shop.refund(1)"))
        await place.approve_all()
        place.upstream.definitions["refund"] = {
            "inputSchema": NUMBERS,
            "description": "Refund it twice.",
        }
        await place.upstream.announce()
        with anyio.fail_after(HANG_S):
            while place.app.gateway.visible.tool_or_none(me(), "shop:refund") is not None:
                await anyio.sleep(0.01)
        text = await place.error(resume=parked)
        assert "stays parked" in text
        assert "is quarantined" in text

        quarantine = place.app.gateway.manage.quarantine
        await quarantine.decide(me(), "shop", "refund", kind="tool", accept=True)
        text = (await place.send(resume=parked))["content"][0]["text"]
        if "has to approve" in text:  # the approval was of the tool as it was
            await place.approve_all()
            text = (await place.send(resume=parked))["content"][0]["text"]
        assert text == "refunded 1"


async def test_a_program_waits_while_the_server_that_it_calls_is_down() -> None:
    """Regression: it was continued, its call failed, and with it what it had done before."""
    async with shop() as place:
        parked = program_id(await place.error("[await shop.list_(1), await shop.refund(2)]"))
        place.upstream.refuses = True
        place.upstream.crash()
        await in_state(place, "down")
        assert "has to approve" in await place.error(resume=parked), "nothing is sent yet"
        await place.approve_all()
        for _ in range(2):
            text = await place.error(resume=parked)
            assert "stays parked, since it cannot make its call of shop.refund" in text
            assert "Server 'shop' is down" in text

        place.upstream.refuses = False
        await place.app.gateway.manage.servers.restart(me(), "shop")
        await in_state(place, "ready")
        result = await place.send(resume=parked)
        assert json.loads(result["content"][0]["text"])[1] == "refunded 2"
        assert len(place.upstream.calls("list")) == len(place.refunded) == 1


async def test_an_approved_call_needs_no_other_approval_once_its_server_is_back() -> None:
    """Regression: the approval was used up although nothing could be sent."""
    async with shop() as place:
        with pytest.raises(ApprovalError):
            await place.app.gateway.calls.execute(me(), "shop:refund", {"number": 1})
        await place.approve_all()
        place.upstream.refuses = True
        place.upstream.crash()
        await in_state(place, "down")
        with pytest.raises(ServerDownError):
            await place.app.gateway.calls.execute(me(), "shop:refund", {"number": 1})

        place.upstream.refuses = False
        await place.app.gateway.manage.servers.restart(me(), "shop")
        await in_state(place, "ready")
        await place.app.gateway.calls.execute(me(), "shop:refund", {"number": 1})
        assert place.refunded == [{"number": 1}]


async def in_state(place: Shop, state: str) -> None:
    with anyio.fail_after(HANG_S):
        while place.app.gateway.servers.statuses(me())[0].state != state:
            await anyio.sleep(0.01)


async def test_a_client_that_can_be_asked_is_asked_by_the_program() -> None:
    """For an approval, and for a question of a server, at the same time."""
    peer = FakePeer(capabilities={"elicitation": {}})
    async with shop() as place:
        code = "await gather(shop.refund(number=1), shop.paint(number=2))"
        asked = await place.send(code, peer=peer)
        assert asked["resultType"] == "input_required"
        approval, colour = sorted(asked["inputRequests"])
        assert (approval, colour) == ("0.approval", "1.colour")
        answers = {approval: ACCEPT, colour: {"action": "accept", "content": {"name": "red"}}}
        again = {"requestState": asked["requestState"], "inputResponses": answers}
        result = await place.send(code, peer=peer, **again)

        assert json.loads(result["content"][0]["text"]) == ["refunded 1", "state of 2: red"]
        assert "isError" in await place.send(code, peer=peer, **again)
        assert len(place.refunded) == 1


@pytest.mark.parametrize(("approve", "refunded"), [(True, 3), (False, 0)])
async def test_the_writes_of_a_program_are_one_question(approve: bool, refunded: int) -> None:
    peer = FakePeer(capabilities={"elicitation": {}})
    async with shop() as place:
        code = textwrap.dedent("""
            async def tried(call):
                try:
                    return await call
                except RuntimeError:
                    return "refused"
            refunds = [tried(shop.refund(number=n)) for n in range(3)]
            await gather(*refunds, shop.paint(number=9))
            """)
        asked = await place.send(code, peer=peer)
        assert sorted(asked["inputRequests"]) == ["3.colour", "approvals"]
        form = asked["inputRequests"]["approvals"]["params"]
        first, *lines = form["message"].splitlines()
        assert first == "This program will make 3 calls: 3 × shop.refund. Run all of them?"
        assert lines[0] == '* Run shop:refund with {"number": 0}'
        assert lines[3:] == ["It cannot be undone."]
        answers = {
            "approvals": {"action": "accept", "content": {"approve": approve}},
            "3.colour": {"action": "accept", "content": {"name": "red"}},
        }
        again = {"requestState": asked["requestState"], "inputResponses": answers}
        result = await place.send(code, peer=peer, **again)
        texts = [f"refunded {n}" if approve else "refused" for n in range(3)]
        assert json.loads(result["content"][0]["text"]) == [*texts, "state of 9: red"]
        assert len(place.refunded) == refunded


async def test_the_answer_about_approvals_answers_no_question_of_a_server() -> None:
    """Whatever key a server chooses for its question."""
    seen: list[Json] = []

    def asks_for_approval(params: Json) -> Json:
        seen.append(params.get("inputResponses", {}))
        question = {"method": "elicitation/create", "params": {"message": "Delete all?"}}
        if params.get("inputResponses", {}).get("approval"):
            return text_result("deleted")
        return {
            "resultType": "input_required",
            "inputRequests": {"approval": question},
            "requestState": "mine",
        }

    peer = FakePeer(capabilities={"elicitation": {}})
    async with shop() as place:
        place.tools["paint"] = asks_for_approval
        code = "await gather(shop.refund(number=1), shop.refund(number=2), shop.paint(number=3))"
        asked = await place.send(code, peer=peer)
        assert sorted(asked["inputRequests"]) == ["2.approval", "approvals"]
        again = {"requestState": asked["requestState"], "inputResponses": {"approvals": ACCEPT}}
        result = await place.send(code, peer=peer, **again)
        assert result["resultType"] == "input_required"
        assert list(result["inputRequests"]) == ["2.approval"]
        assert not any(responses.get("approval") for responses in seen)
        assert len(place.refunded) == 2


async def test_only_its_own_caller_lets_a_program_go_on(anyio_backend: str) -> None:
    async with shop() as place:
        parked = program_id(await place.error("await shop.refund(1)"))
        await place.approve_all()
        stranger = Identity(caller_id="token:x", kind="token", token="x", projects=("*",))
        other = Caller(caller_id="token:x", identity=stranger)
        assert "There is no program" in await place.error(resume=parked, caller=other)

        store = place.app.store.approvals.programs
        stored = await store.get(parked)
        assert isinstance(stored, StoredProgram)
        body = json.loads(stored.body)
        body["calls"][0]["arguments"] = {"number": 1000}
        altered = StoredProgram(**{**vars(stored), "body": json.dumps(body).encode()})
        await store.save(altered)
        assert "altered" in await place.error(resume=parked)
        await store.save(stored)
        assert (await place.send(resume=parked))["content"][0]["text"] == "refunded 1"


PARKS_AND_DIES = """
import os, signal, sys
import anyio
sys.path.insert(0, sys.argv[2])
from tests.gateway.test_programs import program_id, shop

async def main():
    async with shop(store_url=sys.argv[1]) as place:
        code = "a = await shop.get_order(number=5)\\nawait shop.refund(number=a['number'])"
        print(program_id(await place.error(code)), flush=True)
        import psutil
        print(*[child.pid for child in psutil.Process().children(recursive=True)], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


async def test_a_parked_program_goes_on_in_another_process_after_a_kill(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    command = [sys.executable, "-c", PARKS_AND_DIES, url, str(Path(__file__).parents[2])]
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, capture_output=True, timeout=HANG_S, check=False, text=True)
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    parked, workers = done.stdout.split("\n", 1)
    with anyio.fail_after(HANG_S):
        while any(psutil.pid_exists(int(pid)) for pid in workers.split()):
            await anyio.sleep(0.02)
    async with shop(store_url=url) as place:
        assert "has to approve 1 call" in await place.error(resume=parked)
        await place.approve_all()
        result = await place.send(resume=parked)

        assert result["content"][0]["text"] == "refunded 5"
        assert place.refunded == [{"number": 5}]


# Offer


async def listed(**settings: Any) -> list[str]:
    tools = {f"tool_{number}": order for number in range(settings.pop("tools", 5))}
    async with memory_app({"shop": FakeUpstream(tools)}, Settings(**settings)) as app:
        return [tool["name"] for tool in json.loads(await app.gateway.listing.list_tools(me()))]


async def test_programs_are_listed_where_they_pay() -> None:
    assert "tool_program" not in await listed(mode="meta", tools=14)
    assert "tool_program" in await listed(mode="meta", tools=15)
    assert "tool_program" not in await listed(mode="all", tools=15)
    assert "tool_program" in await listed(mode="all", programs=ProgramSettings(offer="on"))
    off = ProgramSettings(offer="off")
    assert "tool_program" not in await listed(mode="meta", tools=15, programs=off)
    async with shop(programs=off) as place:
        assert "switched off" in await place.error("1")


async def test_programs_filter_values_with_jq() -> None:
    async with shop() as place:
        code = "await select({'a': [{'n': 1}, {'n': 2}]}, '.a[].n')"
        assert await place.value(code) == [1, 2]
        assert await place.value("await select(await shop.get_order(number=4), '.total')") == 6.0
        assert "not a valid jq filter" in await place.error("await select([], '.[')")
        caught = "try:\n    await select([], '.a')\nexcept ValueError as e:\n    return [str(e)]"
        assert "Cannot index array" in (await place.value(caught))[0]


async def test_rest_reads_on_in_the_result_of_a_program() -> None:
    async with opened(programs=ProgramSettings(offer="on")) as (_, ask):
        body = {"code": "[{'n': n} for n in range(1000)]", "maxResultTokens": 100}
        _, _, page = await ask("POST", "program", body)
        place = page["_meta"]["toolgate/page"]
        status, _, rest = await ask(
            "POST", "result", {"handle": place["handle"], "offset": place["nextOffset"]}
        )
        text = page["content"][0]["text"] + rest["content"][0]["text"]
        assert (status, json.loads(text)[999]) == (200, {"n": 999})
        _, _, part = await ask("POST", "result", {"handle": place["handle"], "select": ".[7]"})
        assert part["content"][0]["text"] == '{"n":7}'
        status, _, refused = await ask("POST", "result", {"handle": "other"})
        assert (status, refused["error"]["code"]) == (400, "handle")


async def test_rest_runs_programs() -> None:
    async with opened(programs=ProgramSettings(offer="on")) as (_, ask):
        code = {"code": "len(await gather(github.list_issues(), github.list_issues()))"}
        status, _, answer = await ask("POST", "program", code)
        assert (status, answer["content"]) == (200, [{"type": "text", "text": "2"}])
        status, _, answer = await ask("POST", "program", {"code": "1 + nowhere"})
        assert (status, answer["error"]["code"]) == (422, "program")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"code": ""},
        {"code": 3},
        {"code": "1", "resume": "x"},
        {"code": "1", "input": {}},
        {"code": "1", "inputs": []},
        {"code": "1", "timeout_s": 0},
        {"code": "1", "timeout_s": True},
        {"code": "1", "maxResultTokens": 1},
        {"code": "1", "dryRun": "yes"},
        {"code": "x" * 100_001},
    ],
)
async def test_wrong_arguments_are_named(arguments: Json) -> None:
    async with shop() as place:
        result = await place.app.gateway.call(
            me(), {"name": "tool_program", "arguments": arguments}, None
        )
        assert result["_meta"]["toolgate/error"]["code"] == "argument"


async def test_a_handle_of_somebody_else_is_no_program() -> None:
    async with shop() as place:
        with pytest.raises(HandleError):
            place.app.signer.check("program", "tg1.x.y")
        assert "was not issued" in await place.error("1", requestState="tg1.x.y")


async def test_a_value_is_deleted_over_rest_whatever_its_name() -> None:
    name = "a/b?c#d %20 é"
    async with shop() as place:
        await place.send(f"await store({name!r}, 1)")
        rest = in_process(place.app)
        (value,) = json.loads((await rest("GET", "/api/v1/programs", None))[1])["values"]
        assert value["name"] == name
        assert (await rest("DELETE", f"/api/v1/programs/{value['id']}", None))[0] == 200
        assert json.loads((await rest("GET", "/api/v1/programs", None))[1])["values"] == []


async def test_people_see_and_delete_what_programs_left_behind() -> None:
    """Administrators all of it, others their own; what is deleted cannot be used again."""
    async with shop(auth="required") as place:
        await place.send('await store("prices: new", [1, 2, 3])\n1')
        await place.error("await shop.refund(number=1)")
        kept = place.app.gateway.kept_programs
        (value,), (program,) = await kept.values(me()), await kept.programs(me())
        assert (value.name, value.size_bytes, program.state) == ("prices: new", 7, "waiting")
        stranger = Caller(caller_id="x", identity=Identity(caller_id="x", kind="token"))
        assert await kept.values(stranger) == []
        assert await kept.programs(stranger) == []
        for kept_id in (value.id, program.id):
            with pytest.raises(HandleError):
                await kept.forget(stranger, kept_id)
            await kept.forget(me(), kept_id)
            with pytest.raises(HandleError):
                await kept.forget(me(), kept_id)
        assert "nothing is stored" in await place.error('await load("prices: new")')
        assert "There is no program" in await place.error(resume=program.id)
