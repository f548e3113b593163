"""The wire `stdio` keeps the contract, whatever its child does."""

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import psutil
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.limits import HANG_S
from toolgate.errors import (
    ConnectionLostError,
    InvalidAnswerError,
    OptionError,
    RpcError,
    UnreachableError,
)
from toolgate.settings import base_environment
from toolgate.testing import echo_server
from toolgate.testing.contracts.upstream import (
    MAX_MESSAGE_BYTES,
    MakeWire,
    TextWireContract,
    WireRecorder,
)
from toolgate.types import Json
from toolgate.upstream import OrphanGuard, Wire
from toolgate.upstream.transports import _duplex, stdio
from toolgate.upstream.transports.stdio import Options, StdioWire, build


@pytest.fixture
async def guard() -> AsyncGenerator[OrphanGuard]:
    guard = OrphanGuard()
    yield guard
    await guard.aclose()


def wire_to(guard: OrphanGuard, *args: str, command: str = sys.executable) -> StdioWire:
    return build(
        Options(command=command, args=args),
        max_message_bytes=MAX_MESSAGE_BYTES,
        base_environment=base_environment(),
        guard=guard,
    )


class TestStdio(TextWireContract):
    """All duties of a wire."""

    @pytest.fixture
    async def make_wire(self, guard: OrphanGuard) -> MakeWire:  # pyright: ignore[reportIncompatibleMethodOverride]
        return lambda: wire_to(guard, echo_server.__file__)

    @pytest.fixture
    def unreachable_wire(self, guard: OrphanGuard) -> Wire:
        return wire_to(guard, command="no-such-command")


def script(*lines: str) -> tuple[str, ...]:
    """Arguments for a child that runs these lines after a few helpers."""
    return ("-u", "-c", "\n".join((HELPERS, *lines)))


HELPERS = """
import json, os, signal, subprocess, sys, time
def read():
    line = sys.stdin.readline()
    if not line: sys.exit(0)
    return json.loads(line)
def answer(message, **result):
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
def write(data):
    sys.stdout.buffer.write(data); sys.stdout.buffer.flush()
def serve():
    while True:
        message = read()
        if "id" in message: answer(message, method=message["method"])
"""


@pytest.fixture
async def start(
    guard: OrphanGuard, recorder: WireRecorder
) -> AsyncGenerator[Callable[..., Awaitable[StdioWire]]]:
    wires: list[StdioWire] = []

    async def start(*lines: str, **environment: str) -> StdioWire:
        wire = build(
            Options(command=sys.executable, args=script(*lines), env=environment),
            max_message_bytes=1_000_000,
            base_environment=base_environment(),
            guard=guard,
        )
        wires.append(wire)
        await wire.open(recorder)
        return wire

    yield start
    with anyio.CancelScope(shield=True):
        for wire in wires:
            await wire.aclose()


@pytest.fixture
def recorder() -> WireRecorder:
    return WireRecorder()


@pytest.fixture
def quick_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stubborn children are ended sooner, so that these tests take no seconds."""
    monkeypatch.setattr(stdio, "PATIENCE_S", 0.2)
    monkeypatch.setattr(stdio, "NOTIFY_S", 0.2)


async def ask(wire: Wire, method: str = "any", **params: object) -> Json:
    with anyio.fail_after(HANG_S):
        return await wire.request(method, params, headers={})


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def gone(pid: int) -> None:
    with anyio.fail_after(HANG_S):
        while is_alive(pid):
            await anyio.sleep(0.01)


Start = Callable[..., Awaitable[StdioWire]]


async def test_whatever_a_child_prints_between_messages_is_ignored(start: Start) -> None:
    wire = await start(
        "print('Welcome!')",
        "write(b'\\xff\\xfe broken text\\n\\n   \\n{not json}\\n[1, 2]\\n')",
        "write(b'\"text\"\\n123\\nnull\\n')",
        "message = read()",
        'write(b\'{"jsonrpc":"2.0","id":99,"result":{}}\\n\')',
        'write(b\'{"jsonrpc":"2.0","id":"1","result":{}}\\n{"level":"info"}\\n{}\\n\')',
        "answer(message, fine=True)",
        "serve()",
    )

    assert await ask(wire) == {"fine": True}
    assert wire.stray_messages == 12


def error_line(code: object) -> str:
    """A line of a child that sends an error without an id."""
    return (
        f'print(json.dumps({{"jsonrpc":"2.0","id":None,"error":{{"code":{code},"message":"m"}}}}))'
    )


@pytest.mark.parametrize("code", [-32700, -32601, -32000, [-32700], {"a": 1}])
async def test_an_error_without_an_id_fails_no_request_that_is_answered(
    start: Start, code: object
) -> None:
    """Some servers answer notifications with errors."""
    wire = await start(
        "message = read()",
        error_line(code),
        "sys.stdout.flush()",
        "answer(message, fine=True)",
        "serve()",
    )

    assert await ask(wire) == {"fine": True}


async def test_a_request_that_could_not_be_read_fails_with_the_error(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_duplex, "_GRACE_S", 0.01)
    wire = await start("read()", error_line(-32700), "sys.stdout.flush()", "serve()")

    with pytest.raises(RpcError) as caught:
        await ask(wire)

    assert caught.value.rpc_code == -32700


async def test_a_message_may_come_in_any_pieces(start: Start) -> None:
    wire = await start(
        "message = read()",
        "text = json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': {'a': 'ü✓😀'}},",
        "    ensure_ascii=False).encode()",
        "for byte in text + b'\\r\\n': write(bytes([byte]))",
        "serve()",
    )

    assert await ask(wire) == {"a": "ü✓😀"}


async def test_a_last_message_without_its_end_is_no_answer(start: Start) -> None:
    wire = await start("read()", 'write(b\'{"jsonrpc":"2.0","id":1,"resul\')', "sys.exit(4)")

    with pytest.raises(ConnectionLostError, match="exited with status 4"):
        await ask(wire)


async def test_an_answer_with_its_id_last_is_failed_when_it_is_too_large(start: Start) -> None:
    """The TypeScript SDK writes the id behind the result."""
    wire = await start(
        "read(); second = read()",
        'write(b\'{"result":{"a":"\' + b\'x\' * 2000000 + b\'"},"jsonrpc":"2.0","id":1}\\n\')',
        "answer(second, fine=True)",
        "serve()",
    )
    failed: list[str] = []

    async def first() -> None:
        with pytest.raises(InvalidAnswerError) as caught:
            await ask(wire, "first")
        failed.append(str(caught.value))

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await anyio.lowlevel.checkpoint()
        assert await ask(wire, "second") == {"fine": True}

    assert "more than 1,000,000 bytes" in failed[0]


@pytest.mark.usefixtures("quick_patience")
async def test_a_line_that_never_ends_keeps_no_memory_and_fails_its_request(start: Start) -> None:
    wire = await start(
        "read()",
        'write(b\'{"jsonrpc":"2.0","id":1,"result":{"a":"\')',
        "while True: write(b'x' * 65536)",
    )

    with pytest.raises(InvalidAnswerError, match="more than"):
        await ask(wire)


async def test_a_child_that_dies_in_the_middle_says_how(start: Start) -> None:
    wire = await start(
        "print('out of luck', file=sys.stderr, flush=True)",
        "read()",
        "os.kill(os.getpid(), signal.SIGKILL)",
    )

    with pytest.raises(ConnectionLostError) as caught:
        await ask(wire)

    assert caught.value.sent
    assert await wire.closed() == "The process was ended by the signal SIGKILL."
    assert wire.stderr_tail == ("out of luck",)


async def test_a_request_to_a_child_that_has_just_ended_says_how_it_ended(start: Start) -> None:
    """Its input is closed a moment before its status is known; a server that ends at once because
    it lacks a setting was reported with "The connection ended." """
    wire = await start("sys.exit(3)")
    assert wire._child is not None  # pyright: ignore[reportPrivateUsage]
    await wire._child.stdin_lost.wait()  # pyright: ignore[reportPrivateUsage]

    with pytest.raises(ConnectionLostError) as caught:
        await ask(wire)

    assert caught.value.failed == "The process exited with status 3."
    assert not caught.value.sent


async def test_the_last_answer_of_a_child_that_ends_still_counts(start: Start) -> None:
    wire = await start("answer(read(), last=True)", "sys.exit(0)")

    assert await ask(wire) == {"last": True}
    assert await wire.closed() == "The process exited with status 0."


@pytest.mark.usefixtures("quick_patience")
async def test_a_child_that_closes_its_output_has_ended(start: Start) -> None:
    wire = await start("read()", "os.close(1)", "time.sleep(60)")

    with pytest.raises(ConnectionLostError, match="closed its standard output"):
        await ask(wire)


@pytest.mark.usefixtures("quick_patience")
async def test_a_child_that_closes_its_input_has_ended(start: Start) -> None:
    wire = await start("answer(read())", "os.close(0)", "time.sleep(60)")

    await ask(wire)
    with anyio.fail_after(HANG_S):
        assert await wire.closed() == "The process closed its standard input."


async def test_a_dead_child_is_noticed_although_a_grandchild_holds_its_pipes(start: Start) -> None:
    """`asyncio.subprocess.Process.wait` of Python 3.11 hangs here."""
    wire = await start(
        "message = read()",
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])",
        "answer(message, pid=child.pid)",
        "read(); os._exit(5)",
    )
    grandchild = (await ask(wire))["pid"]

    with pytest.raises(ConnectionLostError, match="exited with status 5"):
        await ask(wire)
    assert is_alive(grandchild)
    with anyio.fail_after(HANG_S):
        await wire.aclose()

    await gone(grandchild)


@pytest.mark.usefixtures("quick_patience")
async def test_a_child_that_ignores_everything_is_ended_with_its_children(start: Start) -> None:
    wire = await start(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "code = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); '",
        "code += 'print(1, flush=True); time.sleep(60)'",
        "child = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE)",
        "child.stdout.readline()",
        "answer(read(), pid=child.pid)",
        "time.sleep(60)",
    )
    pids = [wire.pid, (await ask(wire))["pid"]]

    with anyio.fail_after(HANG_S):
        await wire.aclose()

    for pid in pids:
        assert pid is not None
        await gone(pid)


async def test_a_child_that_ends_with_its_input_gets_no_signal(
    start: Start, tmp_path: Path
) -> None:
    """Its own way out comes first: it may have something to save."""
    saved = tmp_path / "saved"
    wire = await start(
        "message = read()",
        "answer(message)",
        "sys.stdin.read()",
        "open(os.environ['SAVED'], 'w').write('yes')",
        SAVED=str(saved),
    )
    await ask(wire)

    await wire.aclose()

    assert saved.read_text(encoding="utf-8") == "yes"


@pytest.mark.usefixtures("quick_patience")
async def test_a_child_that_never_reads_blocks_nobody_and_takes_no_memory(start: Start) -> None:
    """What does not fit into the pipe waits in its callers, who can give up at any time."""
    wire = await start("time.sleep(60)")
    text = "x" * 300_000
    gave_up = 0

    async def try_it() -> None:
        nonlocal gave_up
        with anyio.move_on_after(0.2) as scope:
            await wire.request("any", {"text": text}, headers={})
        gave_up += scope.cancelled_caught

    with anyio.fail_after(HANG_S):
        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(try_it)
        await wire.notify("notifications/x", {}, headers={})

    assert gave_up == 50
    assert wire._child is not None
    assert wire._child.unwritten_bytes < 1_000_000


async def test_a_request_that_never_went_out_is_not_cancelled_at_the_server(start: Start) -> None:
    """A notification about a request that the server never saw would be wrong."""
    wire = await start(
        "time.sleep(0.5)",  # long enough for the pipe to fill
        "seen = []",
        "while True:",
        "    message = read()",
        "    seen.append(message.get('method'))",
        "    if message.get('method') == 'seen': answer(message, seen=seen)",
    )
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(lambda: wire.request("big", {"text": "x" * 300_000}, headers={}))
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    seen = (await ask(wire, "seen"))["seen"]

    assert seen.count("big") == seen.count("notifications/cancelled") < 10


async def test_standard_error_is_kept_in_its_last_lines(start: Start) -> None:
    wire = await start(
        "for number in range(100000): print('line', number, file=sys.stderr)",
        "print('y' * 100000, file=sys.stderr)",
        "sys.stderr.buffer.write(b'\\xff\\xfe no text'); sys.stderr.flush()",
        "serve()",
    )

    await ask(wire)

    assert len(wire.stderr_tail) == 51
    assert wire.stderr_tail[0] == "line 99951"
    assert wire.stderr_tail[49] == "y" * 500
    assert wire.stderr_tail[50] == "\ufffd\ufffd no text"


async def test_colours_on_standard_error_are_left_out(start: Start) -> None:
    said = r"\x1b[1;31mERROR\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07 \x1b(Bend"
    wire = await start(f"print('{said}', file=sys.stderr)", "serve()")

    await ask(wire)

    assert wire.stderr_tail == ("ERROR link end",)


async def test_a_child_sees_only_the_variables_it_is_given(
    guard: OrphanGuard, recorder: WireRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    wire = build(
        Options(
            command=sys.executable,
            args=script("answer(read(), env=dict(os.environ), cwd=os.getcwd())", "serve()"),
            env={"GIVEN": "1"},
            cwd="/",
        ),
        max_message_bytes=1000,
        base_environment={"PATH": "/bin", "LC_CTYPE": "C.UTF-8"},
        guard=guard,
    )
    await wire.open(recorder)
    answer = await ask(wire)
    await wire.aclose()

    assert answer == {"env": {"GIVEN": "1", "PATH": "/bin", "LC_CTYPE": "C.UTF-8"}, "cwd": "/"}


@pytest.mark.parametrize(
    ("command", "cwd", "message"),
    [
        ("no-such-command", None, "The command 'no-such-command' was not found"),
        ("/no/such/file", None, "The command '/no/such/file' was not found"),
        ("/", None, "The command '/' could not be started"),
        (sys.executable, "/no/such/folder", "The folder '/no/such/folder'"),
    ],
)
async def test_what_cannot_be_started_says_why(
    guard: OrphanGuard, recorder: WireRecorder, command: str, cwd: str | None, message: str
) -> None:
    wire = build(
        Options(command=command, cwd=cwd),
        max_message_bytes=1000,
        base_environment=base_environment(),
        guard=guard,
    )

    with pytest.raises(UnreachableError, match=message):
        await wire.open(recorder)
    await wire.aclose()


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": " "},
        {"command": "a\0b"},
        {"command": "a", "args": ("b\0",)},
        {"command": "a", "env": {"B=C": ""}},
        {"command": "a", "env": {"": "x"}},
    ],
)
def test_options_that_no_system_takes_are_refused(wrong: Json) -> None:
    with pytest.raises(OptionError):
        Options(**wrong)


async def test_a_question_of_the_server_is_answered_while_it_may_ask_much(
    start: Start, recorder: WireRecorder
) -> None:
    """A flood of questions is refused from the hundredth on, in order, and ends nothing."""
    recorder.answers["roots/list"] = {"roots": []}
    wire = await start(
        "message = read()",
        "for number in range(500):",
        "    print(json.dumps({'jsonrpc': '2.0', 'id': f'q{number}', 'method': 'roots/list'}))",
        "sys.stdout.flush()",
        "answers = [read() for _ in range(500)]",
        "answer(message, good=sum('result' in a for a in answers), all=len(answers))",
        "serve()",
    )

    answer = await ask(wire)

    assert answer["all"] == 500
    assert answer["good"] >= 100


async def test_a_question_that_the_server_takes_back_gets_no_answer(
    guard: OrphanGuard,
) -> None:
    class Slow(WireRecorder):
        async def on_request(self, method: str, params: Json) -> Json:
            await anyio.sleep_forever()
            return {}

    wire = build(
        Options(
            command=sys.executable,
            args=script(
                "message = read()",
                "print(json.dumps({'jsonrpc': '2.0', 'id': 'q', 'method': 'roots/list'}))",
                "print(json.dumps({'jsonrpc': '2.0', 'method': 'notifications/cancelled',",
                "    'params': {'requestId': 'q'}}))",
                "print(json.dumps({'jsonrpc': '2.0', 'id': 'p', 'method': 'ping'}), flush=True)",
                "answer(message, next=read())",
                "serve()",
            ),
        ),
        max_message_bytes=10_000,
        base_environment=base_environment(),
        guard=guard,
    )
    await wire.open(Slow())

    assert (await ask(wire))["next"] == {"jsonrpc": "2.0", "id": "p", "result": {}}
    await wire.aclose()


# The orphan guard

GATEWAY = """
import asyncio, sys
from toolgate.upstream import OrphanGuard
from toolgate.upstream.transports.stdio import Options, build

async def main():
    guard = OrphanGuard()
    wire = build(Options(command=sys.executable, args=("-c", sys.argv[1])),
        max_message_bytes=1000, base_environment={}, guard=guard)
    await wire.open(None)
    answer = await wire.request("pids", {}, headers={})
    print(guard.pid, wire.pid, answer["pid"], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

STUBBORN = """
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "60"])
answer(read(), pid=child.pid)
while True: time.sleep(60)
"""


async def test_children_do_not_outlive_a_gateway_that_is_killed() -> None:
    """SIGKILL leaves no time for anything; the child here ignores the end of its input too."""
    process = await anyio.open_process(
        [sys.executable, "-c", GATEWAY, HELPERS + STUBBORN], stderr=None
    )
    assert process.stdout is not None
    try:
        with anyio.fail_after(HANG_S):
            line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 100)
        guard, child, grandchild = map(int, line.split())
        assert all(map(is_alive, (guard, child, grandchild)))
    finally:
        process.kill()
        await process.aclose()

    for pid in (child, grandchild, guard):
        await gone(pid)


async def test_the_guard_starts_with_the_first_child_and_ends_with_the_gateway(
    start: Start, guard: OrphanGuard
) -> None:
    assert guard.pid is None
    await start("serve()")
    pid = guard.pid
    assert pid is not None

    await guard.aclose()

    assert not is_alive(pid)


async def test_a_guard_that_was_ended_is_replaced(start: Start, guard: OrphanGuard) -> None:
    await start("serve()")
    first = guard.pid
    assert first is not None
    psutil.Process(first).kill()
    await gone(first)

    await start("serve()")
    await start("serve()")

    assert guard.pid not in {first, None}
    assert is_alive(guard.pid or 0)
