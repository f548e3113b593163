"""The contract of wires finds faults: each broken wire fails the test that names its fault."""

import asyncio
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from toolgate.errors import RpcError
from toolgate.testing.contracts.upstream import TextWireContract, WireRecorder, greet
from toolgate.testing.echo_server import EchoServer
from toolgate.types import Json
from toolgate.upstream.base import CallSink, WireEvents
from toolgate.upstream.transports._duplex import DuplexWire, PendingRequest
from toolgate.upstream.transports._jsonrpc import read_message


class MemoryWire(DuplexWire):
    """A good wire to an `EchoServer` in this process; the others below each spoil one thing."""

    def __init__(self) -> None:
        super().__init__(2**30)
        self._server = EchoServer(crash=lambda: self._end("The server crashed."))
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, events: WireEvents) -> None:
        self._events = events

    async def aclose(self) -> None:
        self._end("The connection was closed.")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send_call(
        self, text: bytes, call: PendingRequest, headers: Mapping[str, str]
    ) -> None:
        call.sent = True
        self._send_soon(text, headers)

    async def _send(self, text: bytes, headers: Mapping[str, str]) -> None:
        self._send_soon(text, headers)

    def _send_soon(self, text: bytes, headers: Mapping[str, str]) -> None:
        task = asyncio.create_task(self._server.handle(text, self._hear, self._hear))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hear(self, text: bytes) -> None:
        await self._take(read_message(text))


class RoundsNumbers(MemoryWire):
    async def request(self, method: str, params: Json, **options: Any) -> Json:
        return rounded(await super().request(method, params, **options))


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return float(value) if type(value) is int and abs(value) > 2**64 else value


class OneAtATime(MemoryWire):
    def __init__(self) -> None:
        super().__init__()
        self._lock = anyio.Lock()

    async def request(self, method: str, params: Json, **options: Any) -> Json:
        async with self._lock:
            return await super().request(method, params, **options)


class ReportsLate(MemoryWire):
    async def request(
        self, method: str, params: Json, *, sink: CallSink | None = None, **options: Any
    ) -> Json:
        kept = WireRecorder()
        result = await super().request(method, params, sink=kept, **options)
        for _, progress in kept.seen:
            if sink is not None:
                self._tasks.add(asyncio.create_task(sink.progress({"progress": progress})))
        return result


class NeverCancels(MemoryWire):
    def _send_soon(self, text: bytes, headers: Mapping[str, str]) -> None:
        if b"notifications/cancelled" not in text:
            super()._send_soon(text, headers)


class ErrorsAsText(MemoryWire):
    async def request(self, method: str, params: Json, **options: Any) -> Json:
        try:
            return await super().request(method, params, **options)
        except RpcError as error:
            return {"isError": True, "content": [{"type": "text", "text": str(error)}]}


class LeavesATask(MemoryWire):
    async def open(self, events: WireEvents) -> None:
        await super().open(events)
        self.left = asyncio.create_task(anyio.sleep(0.5), name="toolgate-left")


class HangsAtTheEnd(MemoryWire):
    def _end(self, reason: str, *, expired: bool = False) -> None:
        calls, self._calls = self._calls, {}
        super()._end(reason, expired=expired)
        self._calls = calls


class TrustsEveryAnswer(MemoryWire):
    async def _hear(self, text: bytes) -> None:
        message = read_message(text)
        if isinstance(message, dict):
            await self._take(message)


FAULTS = [
    (RoundsNumbers, "test_a_result_comes_as_it_was_sent"),
    (OneAtATime, "test_a_slow_request_delays_no_other"),
    (ReportsLate, "test_progress_comes_in_order_and_before_the_result"),
    (NeverCancels, "test_a_cancelled_request_is_cancelled_at_the_server"),
    (ErrorsAsText, "test_an_error_keeps_its_code_message_and_data"),
    (LeavesATask, "test_closing_ends_who_waits_and_leaves_no_task"),
    (HangsAtTheEnd, "test_everybody_who_waits_learns_at_once_that_the_server_has_ended"),
    (TrustsEveryAnswer, "test_a_wrong_answer_fails_its_request_alone"),
]


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs is known to hang: these tests need not wait minutes for it."""
    fail_after = anyio.fail_after
    monkeypatch.setattr(anyio, "fail_after", lambda _: fail_after(3.0))


async def run(make_wire: type[MemoryWire], test: str) -> None:
    recorder, contract = WireRecorder(), TextWireContract()
    wire = make_wire()
    values: dict[str, Any] = {
        "wire": wire,
        "make_wire": make_wire,
        "recorder": recorder,
        "end_server": end,
        "text": b'{"jsonrpc":"2.0","id":{id},"result":{"number":NaN}}',
    }
    method = getattr(contract, test)
    await wire.open(recorder)
    await greet(wire)
    try:
        await method(**{name: values[name] for name in method.__annotations__ if name in values})
    finally:
        await wire.aclose()


async def end(wire: Any) -> None:
    wire._server.crash()


@pytest.mark.parametrize("test", [test for _, test in FAULTS])
async def test_a_good_wire_passes(test: str) -> None:
    await run(MemoryWire, test)


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize(("make_wire", "test"), FAULTS)
async def test_a_broken_wire_fails_the_test_that_names_its_fault(
    make_wire: type[MemoryWire], test: str
) -> None:
    with pytest.raises((AssertionError, TimeoutError, pytest.fail.Exception, ExceptionGroup)):
        await run(make_wire, test)
