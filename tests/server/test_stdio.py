"""The door on standard input and output: of its own, and as a relay to a running gateway."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio
import mcp_types as t
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import ToolsListChanged, listen
from mcp.shared.exceptions import MCPError

from tests.limits import HANG_S
from tests.server.fake_gateway import FakeGateway, fake_app
from tests.server.http_gateway import INITIALIZE, headers_for, listening, modern, texts, until
from tests.telemetry.spans import attributes, collected
from toolgate.server.mcp import pipes
from toolgate.server.mcp import relay as _relay
from toolgate.server.mcp.pipes import LineReader, LineWriter
from toolgate.server.mcp.stdio_session import serve_lines
from toolgate.settings import ServeSettings, TraceSettings
from toolgate.store import AuditFilter
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Json

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
CHILD = ["-m", "tests.server.stdio_child"]


def starting(*arguments: str) -> StdioServerParameters:
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return StdioServerParameters(command=sys.executable, args=[*CHILD, *arguments], env=environment)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Line:
    """The client's side of a door that serves on a pair of pipes."""

    def __init__(self, to_door: int, from_door: int) -> None:
        self._to_door = to_door
        self._from_door = from_door
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=2**27)
        pipe = os.fdopen(self._from_door, "rb", buffering=0)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            while line := await reader.readline():
                self._lines.put_nowait(line)
        finally:
            transport.close()

    async def send(self, message: Any) -> None:
        body = message if isinstance(message, bytes) else orjson.dumps(message)
        await asyncio.to_thread(self._write, body + b"\n")

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._to_door, data) :]

    async def receive(self) -> Any:
        with anyio.fail_after(HANG_S):
            return orjson.loads(await self._lines.get())

    async def ask(self, message: Any) -> Any:
        await self.send(message)
        return await self.receive()

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._to_door)
        self._to_door = -1

    def waiting(self) -> int:
        return self._lines.qsize()


@asynccontextmanager
async def on_pipes(work: Any) -> AsyncIterator[tuple[Line, asyncio.Event]]:
    """Run `work(reader, writer)` on pipes; the event is set when it has ended."""
    door_reads, client_writes = os.pipe()
    client_reads, door_writes = os.pipe()
    writer = LineWriter(door_writes)
    line = Line(client_writes, client_reads)
    ended = asyncio.Event()

    async def run() -> None:
        await work(LineReader(door_reads, max_bytes=20_000_000), writer)
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        tasks.start_soon(line.listen)
        try:
            yield line, ended
        finally:
            line.hang_up()
            tasks.cancel_scope.cancel()
            await writer.close()
            os.close(door_writes)


@asynccontextmanager
async def alone(gateway: FakeGateway) -> AsyncIterator[tuple[Line, asyncio.Event]]:
    settings = ServeSettings(max_body_bytes=20_000_000)

    async def work(reader: LineReader, writer: LineWriter) -> None:
        await serve_lines(fake_app(gateway).gateway, reader, writer, settings)

    async with on_pipes(work) as served:
        yield served


@asynccontextmanager
async def relayed(url: str, folder: str = "") -> AsyncIterator[Line]:
    async def work(reader: LineReader, writer: LineWriter) -> None:
        await _relay.relay(url, "k", reader, writer, ServeSettings(), folder=folder)

    async with on_pipes(work) as (line, _):
        yield line


@given(st.lists(st.binary(max_size=12)), st.integers(min_value=1, max_value=5))
def test_lines_are_the_same_however_the_bytes_are_cut(lines: list[bytes], size: int) -> None:
    wanted = [line.replace(b"\n", b".").strip() for line in lines]
    stream = b"\n".join(wanted)
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert list(pipes._split(iter(chunks), 100)) == [line for line in wanted if line]


def test_a_line_over_the_limit_is_skipped_and_the_next_one_read() -> None:
    stream = [b"a" * 9, b"b" * 9, b"\nshort\n", b"c" * 11 + b"\n" + b"d" * 10]
    assert list(pipes._split(iter(stream), 10)) == [b"", b"short", b"", b"d" * 10]


@pytest.mark.real
@ERAS
async def test_a_client_speaks_with_a_gateway_that_it_starts(mode: Any) -> None:
    """Whatever the gateway and its children print, the client sees messages alone."""
    steps: list[float] = []

    async def on_progress(progress: float, total: Any, message: Any) -> None:
        steps.append(progress)

    async def elicit(context: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"name": "ada"})

    question = {
        "method": "elicitation/create",
        "params": {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    with anyio.fail_after(HANG_S):
        async with Client(starting(), mode=mode, elicitation_callback=elicit) as connected:
            assert len((await connected.list_tools()).tools) == 2
            assert texts(await connected.call_tool("a__echo", {"text": "é"})) == ["é"]
            await connected.call_tool("progress", {}, progress_callback=on_progress)
            assert "'ada'" in texts(await connected.call_tool("ask", question))[0]
            with pytest.raises(MCPError):
                await connected.call_tool("rpc_error", {})
    assert steps == [1, 2, 3]


@pytest.mark.real
@pytest.mark.parametrize("how", ["closed input", "a signal"])
async def test_the_process_ends_with_its_client_and_cancels_what_runs(how: str) -> None:
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.defpath}
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *CHILD,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert child.stdin
    assert child.stderr
    assert child.stdout
    with anyio.fail_after(HANG_S):
        call = modern("tools/call", {"name": "slow"})
        child.stdin.write(orjson.dumps(call) + b"\n")
        while b"noise of a child" not in await child.stderr.readline():
            pass
        if how == "closed input":
            child.stdin.close()
        else:
            child.send_signal(signal.SIGTERM)
        errors = await child.stderr.read()
        assert await child.wait() == 0
    assert b"CancelledError" in errors
    assert b"Traceback" not in errors


async def test_each_request_is_a_line_of_the_log_without_what_it_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    caplog.set_level("INFO", logger="toolgate.server.mcp.stdio_session")

    async def work(reader: LineReader, writer: LineWriter) -> None:
        gateway = fake_app(FakeGateway()).gateway
        await serve_lines(gateway, reader, writer, ServeSettings(), logs_requests=True)

    with anyio.fail_after(HANG_S):
        async with on_pipes(work) as (line, _):
            sent = {"name": "a__echo", "arguments": {"text": "hush"}}
            sent["_meta"] = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
            assert "result" in await line.ask(modern("tools/call", sent))
            assert "error" in await line.ask(modern("tools/none"))
    one, other = (vars(record) for record in caplog.records if record.message == "request")
    assert (one["method"], one["path"], one["status"]) == ("tools/call", "stdio", "ok")
    assert one["trace_id"] == trace
    assert len(one["request_id"]) == 32
    assert one["request_id"] != other["request_id"]
    assert re.fullmatch("[0-9a-f]{32}", other["trace_id"])
    assert other["trace_id"] != trace
    assert one["duration_ms"] >= 0
    assert one["response_bytes"] > 10
    assert (other["method"], other["status"]) == ("tools/none", -32601)
    assert "hush" not in caplog.text


async def test_a_request_over_lines_is_one_in_the_log_the_audit_its_spans_and_at_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="toolgate.server.mcp.stdio_session")
    server = FakeUpstream()
    with anyio.fail_after(HANG_S):
        async with memory_app({"a": server}) as app, collected(TraceSettings(share=100)) as spans:

            async def work(reader: LineReader, writer: LineWriter) -> None:
                await serve_lines(app.gateway, reader, writer, ServeSettings(), logs_requests=True)

            async with on_pipes(work) as (line, _):
                asked = modern("tools/call", {"name": "a__echo", "arguments": {}})
                assert "result" in await line.ask(asked)
            await app.recorder.flush()
            records = await app.store.audit.select(AuditFilter())
    [told] = (vars(record) for record in caplog.records if record.message == "request")
    assert {record.request_id for record in records} == {told["request_id"]}
    assert {record.detail["trace_id"] for record in records} == {told["trace_id"]}
    assert {span.trace_id.hex() for span in spans} == {told["trace_id"]}
    named = {span.name: span for span in spans}
    assert attributes(named["request"]) == {
        "toolgate.method": "tools/call",
        "toolgate.path": "stdio",
    }
    assert named["server"].parent_span_id == named["request"].span_id
    [call] = server.calls("echo")
    told_server = f"00-{told['trace_id']}-{named['server'].span_id.hex()}-01"
    assert call["_meta"]["traceparent"] == told_server


async def test_a_cancelled_request_over_lines_is_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="toolgate.server.mcp.stdio_session")
    began = anyio.Event()

    async def slow(_: Json) -> Json:
        began.set()
        await anyio.sleep_forever()
        raise AssertionError("it goes on for ever")

    with anyio.fail_after(HANG_S):
        async with memory_app({"a": FakeUpstream({"slow": slow})}) as app:

            async def work(reader: LineReader, writer: LineWriter) -> None:
                await serve_lines(app.gateway, reader, writer, ServeSettings(), logs_requests=True)

            async with on_pipes(work) as (line, _):
                await line.send(modern("tools/call", {"name": "a__slow", "arguments": {}}))
                await began.wait()
                gone = {"requestId": 1}
                await line.send(
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone}
                )
                assert "result" in await line.ask(modern("tools/list", request_id=2))
    told = [vars(record) for record in caplog.records if record.message == "request"]
    assert [(one["method"], one["status"]) for one in told] == [
        ("tools/call", "cancelled"),
        ("tools/list", "ok"),
    ]


@ERAS
async def test_broken_lines_are_answered_and_the_next_one_served(mode: str) -> None:
    async with alone(FakeGateway()) as (line, _):
        if mode == "legacy":
            assert (await line.ask(INITIALIZE))["result"]["protocolVersion"] == "2025-11-25"
        request = modern("tools/list") if mode == "auto" else {**INITIALIZE, "method": "ping"}
        assert "result" in await line.ask(request)
        for broken, code in (
            (b"{", -32700),
            (b'{"x": "\xff"}', -32700),
            (b'{"x": NaN}', -32700),
            (b"[]", -32600),
            (b'{"jsonrpc":"2.0","id":3,"method":"x","params":[]}', -32600),
            (b"[" * 100_000, -32600),
            (b'"' + b"x" * 20_000_001 + b'"', -32600),
        ):
            assert (await line.ask(broken))["error"]["code"] == code
        assert "result" in await line.ask(request)


async def test_ten_megabytes_pass_both_ways() -> None:
    text = "y" * 10_000_000
    async with alone(FakeGateway()) as (line, _):
        answer = await line.ask(
            modern("tools/call", {"name": "a__echo", "arguments": {"text": text}})
        )
    assert answer["result"]["content"][0]["text"] == text


async def test_a_client_that_reads_nothing_stops_the_writer_and_not_the_loop() -> None:
    """The pipe is full after 64 KiB; the rest waits without blocking anything."""
    reads, writes = os.pipe()
    writer = LineWriter(writes)
    async with anyio.create_task_group() as tasks:

        async def write() -> None:
            for _ in range(20):
                await writer.write(b"x" * 2**20)

        tasks.start_soon(write)
        await until(lambda: writer._waiting > pipes._WAITING_BYTES)
        tasks.cancel_scope.cancel()
    await asyncio.to_thread(os.read, reads, 2**16)
    os.close(reads)
    await until(writer.gone.is_set)
    await writer.write(b"dropped")
    await writer.close()
    os.close(writes)


# The relay


@pytest.mark.real
@ERAS
async def test_a_client_speaks_with_a_running_gateway_through_a_relay(mode: Any) -> None:
    heard: list[str] = []
    logged: list[str] = []

    async def on_message(message: Any) -> None:
        heard.append(getattr(message, "method", ""))

    async def on_log(params: Any) -> None:
        logged.append(params.level)

    async def elicit(context: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"name": "ada"})

    question = {
        "method": "elicitation/create",
        "params": {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    steps: list[float] = []

    async def on_progress(progress: float, total: Any, message: Any) -> None:
        steps.append(progress)

    async with listening(key="k1") as place:
        with anyio.fail_after(HANG_S):
            async with Client(
                starting(place.url, "k1"),
                mode=mode,
                elicitation_callback=elicit,
                message_handler=on_message,
                logging_callback=on_log,
                log_level="debug" if mode == "auto" else None,
            ) as connected:
                assert len((await connected.list_tools()).tools) == 2
                result = await connected.call_tool("a__regional", {"region": "eu"})
                assert not result.is_error
                await connected.call_tool("progress", {}, progress_callback=on_progress)
                await connected.call_tool("logs", {})
                assert "'ada'" in texts(await connected.call_tool("ask", question))[0]
                with pytest.raises(MCPError) as caught:
                    await connected.call_tool("rpc_error", {})
                assert caught.value.error.data == {"why": "test", "none": None}
                if mode == "auto":
                    async with listen(connected.session, tools_list_changed=True) as changes:
                        place.gateway.change("tools")
                        assert isinstance(await anext(changes), ToolsListChanged)
                else:
                    while "notifications/tools/list_changed" not in heard:
                        place.gateway.change("tools")
                        await anyio.sleep(0.01)
    assert steps == [1, 2, 3]
    assert logged == ["debug", "info", "error"]


@ERAS
async def test_a_call_cancelled_through_the_relay_is_cancelled_and_not_answered(mode: str) -> None:
    async with listening() as place, relayed(place.url) as line:
        if mode == "legacy":
            await line.ask(INITIALIZE)
            await line.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        call = modern("tools/call", {"name": "slow"}, request_id="s")
        if mode == "legacy":
            del call["params"]["_meta"]
        await line.send(call)
        await place.gateway.started.wait()
        await line.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}}
        )
        with anyio.fail_after(HANG_S):
            await place.gateway.cancelled.wait()
        again = {**call, "id": 9, "params": {**call["params"], "name": "a__echo"}}
        assert (await line.ask(again))["id"] == 9
        assert line.waiting() == 0


@ERAS
async def test_a_relay_tells_where_its_client_works_and_strangers_cannot(mode: str) -> None:
    call = modern("tools/call", {"name": "a__echo", "arguments": {}})
    if mode == "legacy":
        del call["params"]["_meta"]
    folder = "/work/größe 1"
    async with listening(key="k") as place, relayed(place.url, folder) as line:
        if mode == "legacy":
            await line.ask(INITIALIZE)
            await line.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert "result" in await line.ask(call)
        if mode == "auto":
            stranger = {**headers_for(call), "X-Toolgate-Folder": "/work/other"}
            async with (
                aiohttp.ClientSession() as http,
                http.post(f"{place.url}/mcp", json=call, headers=stranger) as answer,
            ):
                assert answer.status == 200
        folders = [caller.folder for caller, _ in place.gateway.received]

    assert folders == ([folder] if mode == "legacy" else [folder, ""])


@ERAS
async def test_a_relay_says_when_no_gateway_runs_and_finds_the_next_one(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of the handshake era is opened again, with its level and its subscriptions."""
    monkeypatch.setattr(_relay, "CONNECT_WITHIN_S", 0.0)
    port = free_port()
    request = modern("tools/call", {"name": "a__echo", "arguments": {"text": "x"}})
    if mode == "legacy":
        del request["params"]["_meta"]
    async with relayed(f"http://127.0.0.1:{port}") as line:
        async with listening(port=port, key="k") as place:
            if mode == "legacy":
                await line.ask(INITIALIZE)
                await line.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
                for method, params in (
                    ("logging/setLevel", {"level": "error"}),
                    ("resources/subscribe", {"uri": "memo://1"}),
                ):
                    message = {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}
                    assert (await line.ask(message))["result"] == {}
            assert "result" in await line.ask(request)
            await line.send({**request, "id": 2, "params": {**request["params"], "name": "slow"}})
            await place.gateway.started.wait()
        cut = await line.receive()
        assert cut["id"] == 2
        assert cut["error"]["code"] == -32603
        assert "is unknown" in cut["error"]["message"]
        missing = await line.ask(request)
        assert missing["error"]["code"] == -31012
        assert "toolgate serve" in missing["error"]["message"]
        assert missing["error"]["data"] == {"code": "server_down", "retryable": True}
        async with listening(port=port, key="k") as place:
            assert "result" in await line.ask(request)
            if mode == "legacy":
                assert place.gateway.subscribed == ["memo://1"]
                await line.send({**request, "params": {"name": "logs"}})
                assert (await line.receive())["params"]["level"] == "error"
                assert (await line.receive())["result"]["content"][0]["text"] == "error"


async def test_a_relay_passes_errors_of_the_door_on_with_the_id_of_the_request() -> None:
    async with listening(max_body_bytes=1000) as place, relayed(place.url) as line:
        big = modern("tools/call", {"name": "a__echo", "arguments": {"text": "x" * 2000}})
        answer = await line.ask({**big, "id": "big"})
        assert answer["id"] == "big"
        assert "1000 bytes" in answer["error"]["message"]
        assert (await line.ask(b"{"))["error"]["code"] == -32700
        unknown = await line.ask(modern("no/such", request_id=4))
        assert (unknown["id"], unknown["error"]["code"]) == (4, -32601)


async def test_three_megabytes_pass_through_the_relay() -> None:
    text = "y" * 3_000_000
    async with listening() as place, relayed(place.url) as line:
        answer = await line.ask(
            modern("tools/call", {"name": "a__echo", "arguments": {"text": text}})
        )
        assert answer["result"]["content"][0]["text"] == text
        streamed = modern("tools/call", {"name": "a__echo", "arguments": {"text": text}})
        streamed["params"]["_meta"]["progressToken"] = 1
        answer = await line.ask(streamed)
        assert answer["result"]["content"][0]["text"] == text
