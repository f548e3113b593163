"""The state machine of a server, seen through the gateway: what a call meets when things break."""

import sys
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from toolgate.app.app import open_app
from toolgate.errors import (
    CannotAskError,
    ConnectionLostError,
    InvalidAnswerError,
    RpcError,
    ServerDownError,
    TimedOutError,
)
from toolgate.gateway import visible_catalog
from toolgate.settings import Settings, StoreSettings
from toolgate.testing import FakePeer, FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json, ServerSpec

ME = Caller.local()
IDEMPOTENT = {"annotations": {"idempotentHint": True}}


class Blocking:
    """A tool that says when it runs and ends when it is let."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.runs = 0
        self.release = anyio.Event()

    async def __call__(self, params: Json) -> Json:
        self.runs += 1
        self.started.set()
        await self.release.wait()
        return text_result("done")


def echo_text(params: Json) -> Json:
    return text_result(params["arguments"]["text"])


async def state_of(app: Any, name: str, wanted: str) -> Any:
    """Wait until a server is in a state; gives its status."""
    with anyio.fail_after(HANG_S):
        while True:
            status = next(s for s in app.gateway.servers.statuses(ME) if s.name == name)
            if status.state == wanted:
                return status
            await anyio.sleep(0.01)


async def test_a_call_that_was_cut_off_is_repeated_when_the_tool_is_marked_idempotent() -> None:
    tool = Blocking()
    upstream = FakeUpstream({"work": tool}, definitions={"work": IDEMPOTENT})
    async with memory_app({"a": upstream}) as app, anyio.create_task_group() as group:
        results: list[Json] = []

        async def call() -> None:
            results.append(await app.gateway.calls.execute(ME, "a:work", {}))

        group.start_soon(call)
        with anyio.fail_after(HANG_S):
            await tool.started.wait()
            tool.release.set()
            upstream.crash()
            while not results:
                await anyio.sleep(0.01)
        assert results == [text_result("done")]
        assert tool.runs == 2


async def test_a_call_that_was_cut_off_is_not_repeated_when_it_may_have_run() -> None:
    """Toolgate never runs a tool twice on its own account."""
    tool = Blocking()
    upstream = FakeUpstream({"work": tool})
    async with memory_app({"a": upstream}) as app:
        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:

                async def call() -> None:
                    with pytest.raises(ConnectionLostError, match="may have run") as lost:
                        await app.gateway.calls.execute(ME, "a:work", {})
                    assert lost.value.sent

                group.start_soon(call)
                await tool.started.wait()
                upstream.crash()
        assert tool.runs == 1


async def test_marks_of_a_server_that_is_not_trusted_do_not_count() -> None:
    tool = Blocking()
    upstream = FakeUpstream({"work": tool}, definitions={"work": IDEMPOTENT})
    async with memory_app({"a": upstream}, trust=False) as app:
        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:

                async def call() -> None:
                    with pytest.raises(ConnectionLostError) as lost:
                        await app.gateway.calls.execute(ME, "a:work", {})
                    assert not lost.value.retryable, "a program that obeys would run it twice"

                group.start_soon(call)
                await tool.started.wait()
                upstream.crash()
        assert tool.runs == 1


async def test_a_server_that_dies_again_and_again_is_waited_for() -> None:
    """It could be greeted each time: one bad tool must not take the others away for long."""
    upstream = FakeUpstream({"echo": echo_text})
    async with memory_app({"a": upstream}) as app:
        for number in range(4):
            upstream.crash()
            with anyio.fail_after(HANG_S):
                result = await app.gateway.calls.execute(ME, "a:echo", {"text": str(number)})
            assert result == text_result(str(number))
        assert (await state_of(app, "a", "ready")).restarts == 4


async def test_a_crashed_server_is_back_for_the_next_call() -> None:
    upstream = FakeUpstream()
    async with memory_app({"a": upstream}) as app:
        upstream.crash()
        with anyio.fail_after(HANG_S):
            result = await app.gateway.calls.execute(ME, "a:echo", {"text": "again"})
        assert result == text_result("again")
        assert (await state_of(app, "a", "ready")).restarts == 1


async def test_how_a_server_ended_stays_to_be_read_once_it_is_back() -> None:
    upstream = FakeUpstream({"echo": echo_text})
    async with memory_app({"a": upstream}, kind="stdio") as app:
        upstream.crash()
        await app.gateway.calls.execute(ME, "a:echo", {"text": "hi"})
        (status,) = app.gateway.servers.statuses(ME)
        assert (status.state, status.restarts, len(status.stderr_tail)) == ("ready", 1, 1)
        assert status.stderr_tail[0].startswith("[The ")


@pytest.mark.parametrize("content", ["text", {"type": "text"}, ["text"], None])
async def test_content_that_no_client_can_read_is_told_as_a_fault_of_the_server(
    content: object,
) -> None:
    def answer(params: Json) -> Json:
        return {"content": content}

    async with memory_app({"a": FakeUpstream({"odd": answer})}) as app:
        with pytest.raises(InvalidAnswerError, match="content that is not a list of objects"):
            await app.gateway.calls.execute(ME, "a:odd", {})


async def test_over_http_a_broken_answer_fails_its_own_call_alone() -> None:
    """Every request has a stream of its own there."""

    def cut(params: Json) -> Json:
        raise ConnectionLostError("The stream was cut.", sent=True)

    tool = Blocking()
    upstream = FakeUpstream({"work": tool, "cut": cut})
    async with memory_app({"a": upstream}, kind="http") as app, anyio.create_task_group() as group:
        results: list[Json] = []

        async def call() -> None:
            results.append(await app.gateway.calls.execute(ME, "a:work", {}))

        with anyio.fail_after(HANG_S):
            group.start_soon(call)
            await tool.started.wait()
            with pytest.raises(ConnectionLostError, match="may have run"):
                await app.gateway.calls.execute(ME, "a:cut", {})
            tool.release.set()
            while not results:
                await anyio.sleep(0.01)
        assert results == [text_result("done")]
        assert len(upstream.wires) == 1, "the connection stayed"


async def test_a_server_that_is_down_is_not_waited_for_and_its_tools_stay_listed() -> None:
    upstream = FakeUpstream()
    async with memory_app({"a": upstream}) as app:
        upstream.refuses = True
        upstream.crash()
        status = await state_of(app, "a", "down")

        assert "refused" in (status.last_error or "")
        assert status.tools == 1
        assert b"a__echo" in await app.gateway.listing.list_tools(ME)
        with (
            anyio.fail_after(HANG_S),
            pytest.raises(ServerDownError, match="is down; nothing was sent"),
        ):
            await app.gateway.calls.execute(ME, "a:echo", {"text": "x"})


async def test_a_server_that_comes_back_leaves_the_state_down() -> None:
    upstream = FakeUpstream()
    upstream.refuses = True
    async with memory_app({"a": upstream}, wait_s=0) as app:
        await state_of(app, "a", "down")
        upstream.refuses = False
        status = await state_of(app, "a", "ready")
        assert status.last_error is None


async def test_a_call_without_answer_ends_at_its_deadline_and_is_cancelled_upstream() -> None:
    tool = Blocking()
    upstream = FakeUpstream({"work": tool})
    async with memory_app({"a": upstream}, timeout_s=0.05) as app:
        with anyio.fail_after(HANG_S), pytest.raises(TimedOutError, match=r"within 0\.05 seconds"):
            await app.gateway.calls.execute(ME, "a:work", {})
        assert upstream.cancelled == ["tools/call"]


async def test_a_tool_can_have_a_deadline_of_its_own() -> None:
    tool = Blocking()
    upstream = FakeUpstream({"work": tool})
    async with memory_app({"a": upstream}, tool_timeouts_s={"work": 0.05}) as app:
        with anyio.fail_after(HANG_S), pytest.raises(TimedOutError):
            await app.gateway.calls.execute(ME, "a:work", {})


async def test_progress_extends_the_deadline_up_to_its_maximum() -> None:
    """A tool that reports progress for ever is ended all the same."""
    reports = 0

    async def busy(params: Json) -> Json:
        nonlocal reports
        while True:
            await params["sink"].progress({"progress": reports})
            reports += 1
            await anyio.sleep(0.02)

    upstream = FakeUpstream({"work": busy})
    async with memory_app({"a": upstream}, timeout_s=0.6, max_timeout_s=1.5) as app:
        began = anyio.current_time()
        with anyio.fail_after(HANG_S), pytest.raises(TimedOutError):
            await app.gateway.calls.execute(ME, "a:work", {})
        assert anyio.current_time() - began > 0.9, "progress did not extend the deadline"


async def test_a_hanging_server_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_catalog, "_FIRST_LISTING_S", 0.05)
    hanging = FakeUpstream()
    hanging.silent = {"server/discover", "initialize"}
    async with memory_app({"hangs": hanging, "works": FakeUpstream()}, wait_s=0) as app:
        with anyio.fail_after(HANG_S):
            while app.gateway.servers.statuses(ME)[1].tools == 0:
                await anyio.sleep(0.01)
            result = await app.gateway.calls.execute(ME, "works:echo", {"text": "x"})
            assert result == text_result("x")
            assert b"tool_discovery" in await app.gateway.listing.list_tools(ME)
        with pytest.raises(ServerDownError, match="still starting"):
            await app.gateway.calls.execute(ME, "hangs:echo", {})


# The eras


@pytest.mark.parametrize("speaks", ["modern", "handshake"])
@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_a_call_works_between_any_two_eras(speaks: Any, era: str) -> None:
    upstream = FakeUpstream(speaks=speaks)
    async with memory_app({"a": upstream}) as app:
        peer = FakePeer(era=era)
        result = await app.gateway.call(ME, {"name": "a__echo", "arguments": {"text": "hi"}}, peer)
        assert result["content"] == [{"type": "text", "text": "hi"}]


ASK = {"message": "Your name?"}
ANSWER = {"action": "accept", "content": {"name": "ada"}}


async def asks_in_the_middle(params: Json) -> Json:
    """A tool of the handshake era: asks while it runs."""
    answer = await params["sink"].ask("elicitation/create", ASK)
    return text_result(answer["content"]["name"])


async def asks_by_result(params: Json) -> Json:
    """A tool of the modern era: asks by its result."""
    answers = params.get("inputResponses")
    if answers:
        assert params["requestState"] == "s1"
        return text_result(answers["q"]["content"]["name"])
    question = {"method": "elicitation/create", "params": ASK}
    return {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "s1"}


async def test_a_handshake_server_can_ask_a_handshake_client() -> None:
    upstream = FakeUpstream({"work": asks_in_the_middle}, speaks="handshake")
    peer = FakePeer(
        era="handshake", capabilities={"elicitation": {}}, answers={"elicitation/create": ANSWER}
    )
    async with memory_app({"a": upstream}) as app:
        result = await app.gateway.call(ME, {"name": "a__work"}, peer)
    assert result == text_result("ada")
    assert peer.messages == [("elicitation/create", ASK)]


async def test_a_modern_server_can_ask_a_handshake_client() -> None:
    upstream = FakeUpstream({"work": asks_by_result}, speaks="modern")
    peer = FakePeer(
        era="handshake", capabilities={"elicitation": {}}, answers={"elicitation/create": ANSWER}
    )
    async with memory_app({"a": upstream}) as app:
        result = await app.gateway.call(ME, {"name": "a__work"}, peer)
    assert result == text_result("ada")


async def test_a_modern_server_can_ask_a_modern_client() -> None:
    """The result and the retry pass as they are, through `tool_execute` too."""
    upstream = FakeUpstream({"work": asks_by_result}, speaks="modern")
    peer = FakePeer(capabilities={"elicitation": {}})
    async with memory_app({"a": upstream}) as app:
        call: Json = {"name": "tool_execute", "arguments": {"toolKey": "a:work"}}
        first = await app.gateway.call(ME, call, peer)
        assert first["requestState"] == "s1"
        again = call | {"inputResponses": {"q": ANSWER}, "requestState": "s1"}
        assert await app.gateway.call(ME, again, peer) == text_result("ada")


async def test_a_handshake_server_can_ask_a_modern_client() -> None:
    """The call is parked, and goes on with the client's retry."""
    upstream = FakeUpstream({"work": asks_in_the_middle}, speaks="handshake")
    peer = FakePeer(capabilities={"elicitation": {}})
    async with memory_app({"a": upstream}) as app:
        call: Json = {"name": "a__work"}
        first = await app.gateway.call(ME, call, peer)
        assert first["resultType"] == "input_required"
        ((key, question),) = first["inputRequests"].items()
        assert question == {"method": "elicitation/create", "params": ASK}

        again = call | {"inputResponses": {key: ANSWER}, "requestState": first["requestState"]}
        assert await app.gateway.call(ME, again, peer) == text_result("ada")
        assert len(upstream.calls("work")) == 1, "the call ran once"

        twice = await app.gateway.call(ME, again, peer)
        assert twice["isError"], "a state is good once"
        assert len(upstream.calls("work")) == 1


@pytest.mark.parametrize("change", ["tool", "caller", "altered", "invented"])
async def test_a_parked_call_goes_on_only_for_its_own_caller_and_tool(change: str) -> None:
    upstream = FakeUpstream(
        {"work": asks_in_the_middle, "other": asks_in_the_middle}, speaks="handshake"
    )
    peer = FakePeer(capabilities={"elicitation": {}})
    async with memory_app({"a": upstream}) as app:
        first = await app.gateway.call(ME, {"name": "a__work"}, peer)
        state = str(first["requestState"])
        key = next(iter(first["inputRequests"]))
        caller = Caller.local(caller_id="somebody-else") if change == "caller" else ME
        if change == "altered":
            state = state[:-2] + ("AA" if not state.endswith("AA") else "BB")
        if change == "invented":
            state = "park-1"
        again: Json = {
            "name": "a__other" if change == "tool" else "a__work",
            "inputResponses": {key: ANSWER},
            "requestState": state,
        }
        result = await app.gateway.call(caller, again, peer)
        assert result["isError"]
        assert result["_meta"]["toolgate/error"]["code"] == "handle"
        assert len(upstream.calls("work")) == 1
        assert not upstream.calls("other"), "nothing ran"


async def test_a_client_that_cannot_be_asked_is_not_and_the_server_hears_so() -> None:
    upstream = FakeUpstream({"work": asks_in_the_middle}, speaks="handshake")
    async with memory_app({"a": upstream}) as app:
        result = await app.gateway.call(ME, {"name": "a__work"}, FakePeer())
    assert result["isError"]
    assert "cannot answer" in result["content"][0]["text"]


async def test_a_question_that_no_client_can_answer_says_what_is_missing() -> None:
    """Over stdio an old server does not say for which call it asks."""
    tool = Blocking()
    upstream = FakeUpstream({"work": tool}, speaks="handshake")
    async with memory_app({"a": upstream}) as app, anyio.create_task_group() as group:
        with anyio.fail_after(HANG_S):
            group.start_soon(app.gateway.call, ME, {"name": "a__work"}, FakePeer())
            await tool.started.wait()
            with pytest.raises(CannotAskError, match="this client cannot answer"):
                await upstream.ask("elicitation/create", {})
            with pytest.raises(RpcError, match="Method not found"):
                await upstream.ask("no/such", {})
            tool.release.set()


@pytest.mark.parametrize("requests", [None, [], "x", {}])
async def test_a_server_that_needs_input_and_asks_nothing_is_called_once(requests: Any) -> None:
    answer = {"resultType": "input_required", "inputRequests": requests}
    upstream = FakeUpstream({"work": lambda params: answer}, speaks="modern")
    async with memory_app({"a": upstream}) as app:
        peer = FakePeer(era="handshake", capabilities={"elicitation": {}})
        result = await app.gateway.call(ME, {"name": "a__work"}, peer)
    assert result["isError"]
    assert len(upstream.calls("work")) == 1


async def test_a_modern_server_hears_what_this_client_can_be_asked_and_no_secrets() -> None:
    upstream = FakeUpstream(speaks="modern")
    async with memory_app({"a": upstream}) as app:
        prefix = "io.modelcontextprotocol/"
        meta = {
            "token": "SECRET",
            "projectId": "p",
            "com.example/x": 1,
            "progressToken": 7,
            f"{prefix}clientInfo": {"name": "their client"},
        }
        params: Json = {"name": "a__echo", "arguments": {"text": "x"}, "_meta": meta}
        await app.gateway.call(ME, params, FakePeer(capabilities={"roots": {}}))

        (sent,) = upstream.calls("echo")
        assert sent["_meta"]["com.example/x"] == 1
        assert sent["_meta"][f"{prefix}clientCapabilities"] == {"roots": {}}
        assert sent["_meta"][f"{prefix}clientInfo"]["name"] == "toolgate"
        assert not {"token", "projectId", "progressToken"} & set(sent["_meta"])


async def test_an_old_server_over_stdio_is_not_guessed_for_when_two_calls_could_be_meant() -> None:
    first, second = Blocking(), Blocking()
    upstream = FakeUpstream({"one": first, "two": second}, speaks="handshake")
    peer = FakePeer(era="handshake", capabilities={"roots": {}}, answers={"roots/list": {}})
    async with memory_app({"a": upstream}) as app, anyio.create_task_group() as group:
        with anyio.fail_after(HANG_S):
            group.start_soon(app.gateway.call, ME, {"name": "a__one"}, peer)
            await first.started.wait()
            assert await upstream.ask("roots/list", {}) == {}
            group.start_soon(app.gateway.call, ME, {"name": "a__two"}, peer)
            await second.started.wait()
            with pytest.raises(Exception, match="2 running calls could be meant"):
                await upstream.ask("roots/list", {})
            first.release.set()
            second.release.set()


@pytest.mark.parametrize("way", ["restart", "disable"])
async def test_a_server_is_never_missing_while_it_is_replaced(way: str) -> None:
    """Its page in the console was not found, and calls said that there is no such server."""
    async with memory_app({"a": FakeUpstream({"echo": echo_text})}) as app:
        servers = app.gateway.manage.servers

        async def change() -> None:
            if way == "restart":
                await servers.restart(ME, "a")
            else:
                await servers.enable(ME, "a", False)
            done.set()

        done = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(change)
            while not done.is_set():
                assert app.gateway.servers.status(ME, "a") is not None
                await anyio.lowlevel.checkpoint()
        await state_of(app, "a", "ready" if way == "restart" else "disabled")


async def test_the_log_says_once_that_a_server_is_down_and_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="toolgate")
    upstream = FakeUpstream({"work": echo_text})
    upstream.refuses = True
    async with memory_app({"a": upstream}, wait_s=0) as app:
        await state_of(app, "a", "down")
        upstream.refuses = False
        await state_of(app, "a", "ready")
    logged = [record for record in caplog.records if record.name == "toolgate.upstream.server"]
    assert [(record.levelname, record.getMessage()) for record in logged] == [
        ("WARNING", "server is down"),
        ("INFO", "server is back"),
    ]
    assert vars(logged[0])["error"] == "The connection was refused."


async def test_the_log_says_why_a_program_ended(caplog: pytest.LogCaptureFixture) -> None:
    """It said only `The process exited with status 125.`, while `toolgate status` knew more."""
    caplog.set_level("WARNING", logger="toolgate.upstream.server")
    program = "import sys; sys.exit('Cannot connect to the Docker daemon.')"
    options = {"command": sys.executable, "args": ["-c", program]}
    spec = ServerSpec(name="a", kind="stdio", options=options)
    async with open_app(
        Settings(servers=(spec,), store=StoreSettings(url="sqlite://")), wait_s=0
    ) as app:
        await state_of(app, "a", "down")
    [record] = [r for r in caplog.records if r.getMessage() == "server is down"]
    assert vars(record)["error"] == (
        "The process exited with status 1. Cannot connect to the Docker daemon."
    )
