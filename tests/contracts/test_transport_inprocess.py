"""The wire `inprocess` keeps the contract with a real server of the library, and loads by name."""

import asyncio
import json
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from tests.limits import HANG_S
from toolgate.errors import (
    BrokenPluginError,
    CannotAskError,
    ConnectionLostError,
    InvalidAnswerError,
    OptionError,
    RpcError,
    UnreachableError,
)
from toolgate.testing.contracts.upstream import (
    MAX_MESSAGE_BYTES,
    EndServer,
    MakeWire,
    WireContract,
    WireRecorder,
    call,
    greet,
)
from toolgate.types import MODERN_VERSION, Caller, Json
from toolgate.upstream import (
    LocalParts,
    LocalServer,
    ToolContext,
    Wire,
    acting_for,
    tool,
)
from toolgate.upstream.transports.inprocess import InprocessWire, Options, build

pytestmark = pytest.mark.filterwarnings("ignore:The logging capability is deprecated")


def wire_to(target: object) -> InprocessWire:
    return build(Options(target=target), max_message_bytes=MAX_MESSAGE_BYTES)


class Tools:
    """The tools of `echo_server`, in a server of the library."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.counted = asyncio.Condition()

    async def count(self, what: str) -> None:
        async with self.counted:
            self.counts[what] += 1
            self.counted.notify_all()

    async def answer(self, ctx: Any, call_next: Any) -> Any:
        """Before everything else in the server, so that raw results stay raw."""
        if ctx.method != "tools/call":
            return await call_next(ctx)
        arguments = ctx.params.get("arguments") or {}
        match ctx.params["name"]:
            case "give":
                return arguments["result"]
            case "big":
                return text("x" * arguments["bytes"])
            case "progress":
                for number in range(arguments["count"]):
                    await ctx.session.report_progress(number + 1)
            case "log":
                for number in range(arguments["count"]):
                    await ctx.session.send_log_message("info", number)
            case "ask":
                return text(json.dumps(await self.ask(ctx, arguments["method"])))
            case "slow":
                await self.count("started")
                try:
                    await anyio.sleep(arguments["seconds"])
                except asyncio.CancelledError:
                    with anyio.CancelScope(shield=True):
                        await self.count("cancelled")
                    raise
            case "when":
                async with self.counted:
                    await self.counted.wait_for(
                        lambda: self.counts[arguments["what"]] >= arguments["times"]
                    )
            case "fail":
                raise MCPError(**arguments)
            case "change":
                await ctx.session.send_tool_list_changed()
            case "set":
                return {"content": [], "bad": {1, 2}}
            case _:
                return text(arguments.get("text", ""))
        return text("done")

    async def ask(self, ctx: Any, method: str) -> Json:
        try:
            answer = await ctx.session._request_outbound.send_raw_request(method, {}, None)
        except MCPError as error:
            return {"error": error.error.model_dump(exclude_none=True)}
        return {"result": answer}


def text(content: str) -> Json:
    return {"content": [{"type": "text", "text": content}], "isError": False}


def server() -> "Server[Any]":
    made: Server[Any] = Server("tools")
    made.middleware.append(Tools().answer)
    return made


class TestInprocess(WireContract):
    """All duties of a wire."""

    @pytest.fixture
    def make_wire(self) -> MakeWire:
        target = server()
        return lambda: wire_to(target)

    @pytest.fixture
    def unreachable_wire(self) -> Wire:
        return wire_to("no_such_module:server")

    @pytest.fixture
    def end_server(self) -> EndServer:
        async def end(wire: Wire) -> None:
            assert isinstance(wire, InprocessWire)
            await wire._wire._outlet.aclose()  # type: ignore[union-attr]
            await wire.closed()

        return end


class TestPutTogether(WireContract):
    """The same for a server that is put together from parts, as packs are."""

    @pytest.fixture
    def make_wire(self) -> MakeWire:
        async def load() -> LocalParts:
            return LocalParts(name="parts", server=server())

        target = LocalServer(load)
        return lambda: wire_to(target)

    @pytest.fixture
    def unreachable_wire(self) -> Wire:
        async def load() -> LocalParts:
            return LocalParts(name="parts", server=object())

        return wire_to(LocalServer(load))

    @pytest.fixture
    def end_server(self) -> EndServer:
        async def end(wire: Wire) -> None:
            assert isinstance(wire, InprocessWire)
            await wire._wire._current._inner._outlet.aclose()  # type: ignore[union-attr]
            await wire.closed()

        return end


async def test_exchanged_parts_answer_from_the_next_listing_on() -> None:
    from fastmcp import FastMCP  # not in all processes of a test run

    names = ["one"]

    async def load() -> LocalParts:
        made = FastMCP(names[-1])
        made.tool(lambda: "from it", name=names[-1])
        return LocalParts(name="parts", server=made)

    target = LocalServer(load)
    wire, told = wire_to(target), WireRecorder()
    await wire.open(told)
    await greet(wire)
    names.append("two")
    await target.reload()

    before = await call(wire, "one")
    listed = await wire.request("tools/list", {}, headers={})
    after = await call(wire, "two")
    await wire.aclose()

    assert [each["name"] for each in listed["tools"]] == ["two"]
    assert before["content"] == after["content"] == [{"type": "text", "text": "from it"}]
    assert not target.wires


async def test_what_is_no_json_fails_its_request_alone() -> None:
    wire = wire_to(server())
    await wire.open(WireRecorder())
    await greet(wire)

    with pytest.raises(InvalidAnswerError, match="cannot be written as JSON"):
        await call(wire, "set")
    assert (await call(wire, "echo", {"text": "on"}))["content"][0]["text"] == "on"
    await wire.aclose()


async def test_neither_side_can_change_what_the_other_holds() -> None:
    kept: Json = {"content": [], "list": [1]}
    target = server()

    async def answer(ctx: Any, call_next: Any) -> Any:
        return kept if ctx.method == "tools/call" else await call_next(ctx)

    target.middleware.insert(0, answer)
    wire = wire_to(target)
    await wire.open(WireRecorder())
    await greet(wire)

    result = await call(wire, "any")
    result["list"].append(2)

    assert kept["list"] == [1]
    await wire.aclose()


async def test_a_fastmcp_server_answers_in_the_modern_era() -> None:
    from fastmcp import FastMCP

    app = FastMCP("app")

    @app.tool
    def greet_by_name(name: str) -> str:
        return f"Hello {name}"

    wire = wire_to(app)
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    with anyio.fail_after(HANG_S):
        await wire.open(WireRecorder())
        discovered = await wire.request("server/discover", {"_meta": meta}, headers={})
        answer = await wire.request(
            "tools/call",
            {"name": "greet_by_name", "arguments": {"name": "Ada"}, "_meta": meta},
            headers={},
        )
        await wire.aclose()

    assert MODERN_VERSION in discovered["supportedVersions"]
    assert answer["content"][0]["text"] == "Hello Ada"


async def test_a_server_that_fails_at_its_start_says_why() -> None:
    target = server()

    def fail(*_: object) -> Any:
        raise RuntimeError("no configuration")

    target.create_initialization_options = fail  # type: ignore[method-assign]
    wire = wire_to(target)
    await wire.open(WireRecorder())

    with anyio.fail_after(HANG_S), pytest.raises(ConnectionLostError, match="no configuration"):
        await greet(wire)
    await wire.aclose()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "my_tools.py"
    path.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from toolgate.upstream import tool\n"
        "@dataclass\n"
        "class Sum:\n"
        "    total: int\n"
        "@tool\n"
        "def add(a: int, b: int = 2) -> int:\n"
        '    """Add."""\n'
        "    return Sum(a + b).total\n"
        "class Box:\n"
        "    inner = [add]\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    return path


@pytest.mark.parametrize(
    "name", ["my_tools", "my_tools:add", "my_tools:Box.inner", "{file}", "{file}:add"]
)
async def test_a_target_is_loaded_by_its_name(module: Path, name: str) -> None:
    wire = wire_to(name.format(file=module))
    await wire.open(WireRecorder())

    assert (await call(wire, "add", {"a": 1}))["content"][0]["text"] == "3"
    await wire.aclose()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_tools:nothing", "has nothing named 'nothing'"),
        ("no_such_module:x", "No module named"),
        ("/no/such/file.py:x", "no file"),
        ("json:dumps", "is not a server"),
        ("my_tools:Box", "is not a server"),
    ],
)
async def test_a_wrong_target_says_what_is_wrong(module: Path, name: str, message: str) -> None:
    with pytest.raises(UnreachableError, match=message):
        await wire_to(name).open(WireRecorder())


def test_an_empty_target_is_refused() -> None:
    with pytest.raises(OptionError):
        Options(target=" :x")


# Functions with @tool


@tool(title="Search notes", annotations={"readOnlyHint": True})
async def search(
    context: ToolContext,
    query: str,
    schema: Literal["short", "full"] = "short",
    since: date | None = None,
) -> dict[str, Any]:
    """Search the notes.

    Finds words.

    Args:
        query: What to look for,
            in plain words.
        schema (Literal): How much to show.

    Returns:
        The notes.
    """
    await context.report_progress(1, 2, "half")
    await context.log("info", {"since": since})
    return {"query": query, "who": context.caller.caller_id, "project": context.project}


@tool
def broken_at_run(times: int) -> str:
    raise ValueError(f"not {times} times")


@tool(name="ask")
async def ask_client(context: ToolContext) -> str:
    answer = await context.ask("elicitation/create", {"message": "Name?"})
    return str(answer["content"]["name"])


async def functions(*targets: object) -> InprocessWire:
    wire = wire_to(list(targets))
    await wire.open(WireRecorder())
    await greet(wire)
    return wire


async def test_a_function_describes_itself() -> None:
    wire = await functions(search)

    listed = await wire.request("tools/list", {}, headers={})

    assert listed["tools"] == [
        {
            "name": "search",
            "title": "Search notes",
            "description": "Search the notes.\n\nFinds words.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "What to look for, in plain words.",
                    },
                    "schema": {
                        "type": "string",
                        "enum": ["short", "full"],
                        "default": "short",
                        "description": "How much to show.",
                    },
                    "since": {
                        "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
                        "default": None,
                    },
                },
                "required": ["query"],
                "additionalProperties": False,
            },
            "outputSchema": {"type": "object", "additionalProperties": True},
            "annotations": {"readOnlyHint": True},
        }
    ]


async def test_a_function_sees_for_whom_it_runs_and_can_report() -> None:
    wire, recorder = await functions(search), WireRecorder()

    with acting_for(Caller.local(caller_id="ada", project_id="notes")):
        answer = await call(
            wire,
            "search",
            {"query": "x", "since": "2026-01-02"},
            sink=recorder,
            progress=True,
        )

    assert answer["structuredContent"] == {"query": "x", "who": "ada", "project": "notes"}
    assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
    assert recorder.seen == [
        ("progress", 1),
        ("notifications/message", {"level": "info", "data": {"since": "2026-01-02"}}),
    ]


async def test_arguments_that_do_not_fit_come_back_with_what_fits() -> None:
    wire = await functions(search)

    answer = await call(wire, "search", {"quary": "x", "schema": "long"})

    assert answer["isError"] is True
    shown = answer["content"][0]["text"]
    assert "query: Field required" in shown
    assert "schema: Input should be 'short' or 'full'" in shown
    assert "quary: Extra inputs are not permitted" in shown


async def test_what_a_function_raises_is_its_answer() -> None:
    wire = await functions(broken_at_run)

    answer = await call(wire, "broken_at_run", {"times": 3})

    assert answer == {"content": [{"type": "text", "text": "not 3 times"}], "isError": True}


async def test_a_function_can_ask_the_client() -> None:
    wire, recorder = await functions(ask_client), WireRecorder()
    recorder.answers["elicitation/create"] = {"action": "accept", "content": {"name": "Ada"}}

    assert (await call(wire, "ask", sink=recorder))["content"][0]["text"] == "Ada"
    with pytest.raises(CannotAskError):
        await call(wire, "ask")


async def test_a_plain_function_blocks_nobody_and_is_left_when_it_is_cancelled() -> None:
    import threading

    go, entered = threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        entered.set()
        go.wait(HANG_S)
        return "done"

    wire = await functions(wait, search)
    with anyio.fail_after(HANG_S):
        async with anyio.create_task_group() as group:
            group.start_soon(call, wire, "wait")
            await anyio.to_thread.run_sync(entered.wait)
            await call(wire, "search", {"query": "beside"})
            group.cancel_scope.cancel()
    go.set()


async def test_an_unknown_tool_is_an_error_of_the_protocol() -> None:
    wire = await functions(search)

    with pytest.raises(RpcError) as caught:
        await call(wire, "nothing")
    with pytest.raises(RpcError) as unknown:
        await wire.request("server/discover", {}, headers={})

    assert caught.value.rpc_code == -32602
    assert unknown.value.rpc_code == -32601


async def test_closing_ends_functions_that_run() -> None:
    entered, lost = anyio.Event(), anyio.Event()

    @tool
    async def forever() -> None:
        entered.set()
        await anyio.sleep_forever()

    wire = await functions(forever)

    async def wait() -> None:
        with pytest.raises(ConnectionLostError):
            await call(wire, "forever")
        lost.set()

    with anyio.fail_after(HANG_S):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await entered.wait()
            await wire.aclose()
            await lost.wait()


@pytest.mark.parametrize(
    "function", [lambda *args: args, lambda a, /: a], ids=["any number", "by position only"]
)
def test_a_function_that_cannot_be_called_by_name_is_refused(function: Any) -> None:
    from toolgate.upstream.python_tools.functions import tools_of

    with pytest.raises(BrokenPluginError):
        _ = tools_of(tool(function))[0].definition
