"""The contract suite for transports to upstream servers.

The suite speaks with `toolgate.testing.echo_server`, or with a server that has the same tools.

Example:
    ```python
    from toolgate.testing.echo_server import EchoServer

    class TestMine(TextWireContract):
        @pytest.fixture
        async def make_wire(self) -> AsyncGenerator[MakeWire]:
            async with serve_mine(EchoServer()) as address:
                yield lambda **options: build(Options(url=address), **services)
    ```
"""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest

from toolgate.errors import (
    ArgumentError,
    CannotAskError,
    ConnectionLostError,
    InvalidAnswerError,
    RpcError,
    UnreachableError,
)
from toolgate.testing.contracts._limits import HANG_S
from toolgate.types import LEGACY_VERSION, Json
from toolgate.upstream import Wire

MakeWire: TypeAlias = Callable[[], Wire]
"""Creates an unopened transport to the server of the test."""

EndServer: TypeAlias = Callable[[Wire], Awaitable[None]]
"""Ends the server behind a transport."""

HEADERS = {"mcp-protocol-version": LEGACY_VERSION}
# Size limit of a message in bytes, above the 30 MB of the largest in these tests.
MAX_MESSAGE_BYTES = 40 * 2**20


class WireRecorder:
    """Records everything from a transport in order; serves as events and as sink."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        """Kind and content of everything, in order."""
        self.answers: dict[str, Json | Exception] = {}
        """Answers to requests of the server, by method; other methods are unknown."""
        self.noticed = anyio.Event()
        """Set by each notification from the server."""

    async def on_request(self, method: str, params: Json) -> Json:
        """A request of the server outside of calls."""
        return await self.ask(method, params)

    async def on_notification(self, method: str, params: Json) -> None:
        """A notification outside of calls."""
        await anyio.lowlevel.checkpoint()
        self.seen.append((method, params))
        self.noticed.set()

    async def progress(self, params: Json) -> None:
        """Progress of a call."""
        await anyio.lowlevel.checkpoint()
        self.seen.append(("progress", params["progress"]))

    async def log(self, params: Json) -> None:
        """A log message of a call."""
        await anyio.lowlevel.checkpoint()
        self.seen.append(("notifications/message", params))

    async def ask(self, method: str, params: Json) -> Json:
        """A request of the server during a call."""
        self.seen.append((method, params))
        answer = self.answers.get(method, CannotAskError("This client cannot answer that."))
        if isinstance(answer, Exception):
            raise answer
        return answer


async def greet(wire: Wire) -> None:
    """Do the handshake."""
    params: Json = {
        "protocolVersion": LEGACY_VERSION,
        "capabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
        "clientInfo": {"name": "contract", "version": "1"},
    }
    answer = await wire.request("initialize", params, headers={})
    assert answer["protocolVersion"] == LEGACY_VERSION
    await wire.notify("notifications/initialized", {}, headers=HEADERS)
    wire.begin_session(LEGACY_VERSION)


async def call(wire: Wire, name: str, arguments: Json | None = None, **options: Any) -> Json:
    """Call a tool."""
    params: Json = {"name": name, "arguments": arguments or {}}
    return await wire.request("tools/call", params, headers=HEADERS, **options)


async def happened(wire: Wire, event: str, times: int = 1) -> None:
    """Wait until an event has happened at the server that many times: `started`, `cancelled`."""
    await call(wire, "when", {"what": event, "times": times})


@pytest.mark.anyio
class WireContract:
    """The requirements of `toolgate.upstream.Wire`; our decisions unless a test says otherwise."""

    @pytest.fixture
    async def make_wire(self) -> AsyncGenerator[MakeWire]:
        """Creates transports to a server, limited to `MAX_MESSAGE_BYTES`; to be overridden."""
        raise NotImplementedError
        yield  # noqa: PT022 -- it makes this a generator, which subclasses are

    @pytest.fixture
    def unreachable_wire(self) -> Wire:
        """A transport to an address without a server."""
        raise NotImplementedError

    @pytest.fixture
    def end_server(self) -> EndServer:
        """How to end the server behind a transport; by default its tool `crash`."""

        async def crash(wire: Wire) -> None:
            with pytest.raises(ConnectionLostError):
                await call(wire, "crash")

        return crash

    @pytest.fixture
    def recorder(self) -> WireRecorder:
        """Records everything from the transport."""
        return WireRecorder()

    @pytest.fixture
    async def wire(self, make_wire: MakeWire, recorder: WireRecorder) -> AsyncGenerator[Wire]:
        """An open transport after the handshake."""
        wire = make_wire()
        with anyio.fail_after(HANG_S):
            await wire.open(recorder)
            await greet(wire)
        yield wire
        with anyio.fail_after(HANG_S):
            await wire.aclose()

    async def test_it_satisfies_the_protocol(self, make_wire: MakeWire) -> None:
        """`plugins.make` rejects others."""
        assert isinstance(make_wire(), Wire)

    async def test_a_result_comes_as_it_was_sent(self, wire: Wire) -> None:
        """Including unknown fields, `_meta` and numbers over 64 bits."""
        result: Json = {
            "content": [{"type": "text", "text": "ünï ✓", "unknown": [None, 1.5, True]}],
            "_meta": {"com.example/big": 2**70 + 1, "com.example/small": -(2**63)},
            "isError": False,
        }

        assert await call(wire, "give", {"result": result}) == result

    async def test_many_requests_each_get_their_own_answer(self, wire: Wire) -> None:
        """Concurrently, in whatever order the server answers."""
        answers: dict[int, str] = {}

        async def ask(number: int) -> None:
            answer = await call(wire, "echo", {"text": str(number)})
            answers[number] = answer["content"][0]["text"]

        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:
                for number in range(100):
                    group.start_soon(ask, number)

        assert answers == {number: str(number) for number in range(100)}

    async def test_a_slow_request_delays_no_other(self, wire: Wire) -> None:
        """The other answer arrives while the slow request is running."""
        answer: Json = {}

        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:
                group.start_soon(call, wire, "slow", {"seconds": 60})
                await happened(wire, "started")
                answer = await call(wire, "echo", {"text": "quick"})
                group.cancel_scope.cancel()

        assert answer["content"][0]["text"] == "quick"

    async def test_progress_comes_in_order_and_before_the_result(
        self, wire: Wire, recorder: WireRecorder
    ) -> None:
        """A client whose stream ends with the result would miss later messages."""
        with anyio.fail_after(HANG_S):
            await call(wire, "progress", {"count": 20}, sink=recorder, progress=True)

        assert recorder.seen == [("progress", number) for number in range(1, 21)]

    async def test_progress_is_asked_for_only_when_wanted(
        self, wire: Wire, recorder: WireRecorder
    ) -> None:
        """Without a token, a server must not send progress."""
        with anyio.fail_after(HANG_S):
            await call(wire, "progress", {"count": 3}, sink=recorder)

        assert recorder.seen == []

    async def test_logs_come_in_order_and_before_the_result(
        self, wire: Wire, recorder: WireRecorder
    ) -> None:
        """To the sink if the transport knows the call, otherwise to the events."""
        with anyio.fail_after(HANG_S):
            await call(wire, "log", {"count": 20}, sink=recorder)

        assert [(kind, params["data"]) for kind, params in recorder.seen] == [
            ("notifications/message", number) for number in range(20)
        ]

    async def test_a_question_in_the_middle_of_a_call_gets_its_answer(
        self, wire: Wire, recorder: WireRecorder
    ) -> None:
        """Elicitation, sampling and roots of the handshake era."""
        recorder.answers["roots/list"] = {"roots": [{"uri": "file:///a"}]}

        with anyio.fail_after(HANG_S):
            answer = await call(wire, "ask", {"method": "roots/list"}, sink=recorder)

        assert [kind for kind, _ in recorder.seen] == ["roots/list"]
        assert json.loads(answer["content"][0]["text"]) == {
            "result": {"roots": [{"uri": "file:///a"}]}
        }

    async def test_a_question_that_cannot_be_answered_gets_an_error(
        self, wire: Wire, recorder: WireRecorder
    ) -> None:
        """-32601 means that the client does not know the method; other errors keep their code."""
        recorder.answers["roots/list"] = RpcError(-31111, "not now", {"later": True})

        with anyio.fail_after(HANG_S):
            unknown = await call(wire, "ask", {"method": "sampling/createMessage"}, sink=recorder)
            refused = await call(wire, "ask", {"method": "roots/list"}, sink=recorder)

        assert json.loads(unknown["content"][0]["text"])["error"]["code"] == -32601
        assert json.loads(refused["content"][0]["text"])["error"] == {
            "code": -31111,
            "message": "not now",
            "data": {"later": True},
        }

    async def test_an_error_keeps_its_code_message_and_data(self, wire: Wire) -> None:
        """They reach the client unchanged."""
        with pytest.raises(RpcError) as caught, anyio.fail_after(HANG_S):
            await call(wire, "fail", {"code": -31999, "message": "no", "data": {"why": [1]}})

        error = caught.value
        assert (error.rpc_code, error.message, error.data) == (-31999, "no", {"why": [1]})

    async def test_a_notification_that_belongs_to_no_call_reaches_the_events(
        self, wire: Wire, recorder: WireRecorder
    ) -> None:
        """Such as a changed list of tools."""
        with anyio.fail_after(HANG_S):
            await call(wire, "change")
            await recorder.noticed.wait()

        assert ("notifications/tools/list_changed", {}) in recorder.seen

    async def test_a_cancelled_request_is_cancelled_at_the_server(self, wire: Wire) -> None:
        """The transport remains usable."""
        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:
                group.start_soon(call, wire, "slow", {"seconds": 60})
                await happened(wire, "started", 1)
                group.cancel_scope.cancel()
            await happened(wire, "cancelled", 1)

    async def test_arguments_that_are_no_json_fail_alone(self, wire: Wire) -> None:
        """JSON has no NaN and no numbers beyond the range of floats."""
        for value in (float("nan"), float("inf"), object()):
            with pytest.raises(ArgumentError):
                await call(wire, "echo", {"text": value})

        assert (await call(wire, "echo", {"text": "on"}))["content"][0]["text"] == "on"

    async def test_half_a_surrogate_pair_breaks_nothing(self, wire: Wire) -> None:
        """Clients cut texts in the middle of an emoji; orjson cannot encode the rest."""
        with anyio.fail_after(HANG_S):
            answer = await call(wire, "echo", {"text": "cut \ud83d"})

        assert answer["content"][0]["text"].startswith("cut ")
        assert answer["content"][0]["text"].encode()  # and can be sent on

    async def test_a_large_answer_comes_whole(self, wire: Wire) -> None:
        """30 MB, while other requests are answered."""
        answer: Json = {}

        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:
                group.start_soon(call, wire, "echo", {"text": "beside"})
                answer = await call(wire, "big", {"bytes": 30_000_000})

        assert len(answer["content"][0]["text"]) == 30_000_000

    async def test_a_large_argument_goes_whole(self, wire: Wire) -> None:
        """10 MB."""
        text = "y" * 10_000_000

        with anyio.fail_after(HANG_S):
            answer = await call(wire, "echo", {"text": text})

        assert answer["content"][0]["text"] == text

    async def test_where_no_server_is_the_error_says_so(
        self, unreachable_wire: Wire, recorder: WireRecorder
    ) -> None:
        """On opening, or with the first request if opening sends nothing."""

        async def connect() -> None:
            await unreachable_wire.open(recorder)
            await greet(unreachable_wire)

        with anyio.fail_after(HANG_S):
            with pytest.raises(UnreachableError):
                await connect()
            await unreachable_wire.aclose()

    async def test_everybody_who_waits_learns_at_once_that_the_server_has_ended(
        self, wire: Wire, end_server: EndServer
    ) -> None:
        """Their request was sent, so it may have run."""
        lost: list[ConnectionLostError] = []

        async def wait() -> None:
            try:
                await call(wire, "slow", {"seconds": 60})
            except ConnectionLostError as error:
                lost.append(error)

        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(wait)
                await happened(wire, "started", 3)
                await end_server(wire)

        assert [error.sent for error in lost] == [True, True, True]

    async def test_after_the_end_nothing_is_sent_any_more(
        self, wire: Wire, end_server: EndServer
    ) -> None:
        """`closed` returns the reason as a sentence."""
        with anyio.fail_after(HANG_S):
            await end_server(wire)
            with pytest.raises(ConnectionLostError) as caught:
                await call(wire, "echo", {"text": "late"})
            reason = await wire.closed()

        assert caught.value.sent is False
        assert reason.endswith(".")

    async def test_closing_ends_who_waits_and_leaves_no_task(
        self, make_wire: MakeWire, recorder: WireRecorder
    ) -> None:
        """Even if closed twice, and with pending requests and calls."""
        before = asyncio.all_tasks()
        wire = make_wire()
        lost = anyio.Event()

        async def wait() -> None:
            with pytest.raises(ConnectionLostError):
                await call(wire, "slow", {"seconds": 60}, sink=recorder)
            lost.set()

        with anyio.fail_after(HANG_S):
            await wire.open(recorder)
            await greet(wire)
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await happened(wire, "started", 1)
                await wire.aclose()
                await lost.wait()
            await wire.aclose()
            await wire.closed()
        left = [task for task in asyncio.all_tasks() - before if "toolgate" in task.get_name()]

        assert left == []

    async def test_closing_what_was_never_opened_is_nothing(self, make_wire: MakeWire) -> None:
        """A failed start is closed like any other."""
        with anyio.fail_after(HANG_S):
            await make_wire().aclose()


class TextWireContract(WireContract):
    """The requirements of a transport with text messages, which a server can get wrong."""

    @pytest.mark.parametrize(
        "text",
        [
            b'{"jsonrpc":"2.0","id":{id},"result":["no","object"]}',
            b'{"jsonrpc":"2.0","id":{id},"result":null}',
            b'{"jsonrpc":"2.0","id":{id}}',
            b'{"jsonrpc":"2.0","id":{id},"error":"text"}',
            b'{"jsonrpc":"2.0","id":{id},"error":{"message":"no code"}}',
            b'{"jsonrpc":"2.0","id":{id},"result":{"number":NaN}}',
            b'{"jsonrpc":"2.0","id":{id},"result":{"number":-Infinity}}',
            b'{"jsonrpc":"2.0","id":{id},"result":{"number":1e999}}',
            b'{"jsonrpc":"2.0","id":{id},"result":{"text":"wrong \xff\xfe"}}',
            b'{"jsonrpc":"2.0","id":{id},"result":{"text":"cut',
            b'{"result":{"text":"\xc3"},"jsonrpc":"2.0","id":{id}}',
            b'{"jsonrpc":"2.0","id":{id},"result":{"deep":' + b"[" * 100_000,
        ],
        ids=lambda text: text[25:60].decode("latin-1"),
    )
    async def test_a_wrong_answer_fails_its_request_alone(self, wire: Wire, text: bytes) -> None:
        """Never a hang, never a lost connection."""
        with anyio.fail_after(HANG_S):
            with pytest.raises(InvalidAnswerError):
                await call(wire, "raw", {"base64": base64.b64encode(text).decode()})
            answer = await call(wire, "echo", {"text": "on"})

        assert answer["content"][0]["text"] == "on"

    async def test_half_a_surrogate_pair_in_an_answer_becomes_a_replacement_sign(
        self, wire: Wire
    ) -> None:
        """Servers in JavaScript send it; nothing behind the transport can encode it as UTF-8."""
        text = b'{"jsonrpc":"2.0","id":{id},"result":{"a":"x\\ud83d","b":"\\ud83d\\ude00"}}'

        with anyio.fail_after(HANG_S):
            answer = await call(wire, "raw", {"base64": base64.b64encode(text).decode()})

        assert answer == {"a": "x\ufffd", "b": "😀"}

    async def test_an_answer_in_a_batch_is_found(self, wire: Wire) -> None:
        """The revision 2025-03-26 allowed batches."""
        text = (
            b'[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":77777,'
            b'"result":{}},{"jsonrpc":"2.0","id":{id},"result":{"found":1}}]'
        )

        with anyio.fail_after(HANG_S):
            answer = await call(wire, "raw", {"base64": base64.b64encode(text).decode()})

        assert answer == {"found": 1}

    async def test_a_message_over_the_limit_fails_its_request_alone(self, wire: Wire) -> None:
        """The limit of the suite is 40 MiB; the connection stays open."""
        with anyio.fail_after(HANG_S):
            with pytest.raises(InvalidAnswerError, match="41,943,040"):
                await call(wire, "big", {"bytes": 45_000_000})
            answer = await call(wire, "echo", {"text": "on"})

        assert answer["content"][0]["text"] == "on"
