"""The contract suite for chat models, run over HTTP.

Example:
    ```python
    class TestMine(ChatModelContract):
        @pytest.fixture
        async def service(self) -> AsyncIterator[ModelServiceDouble]:
            async with my_double() as service:
                yield service

        @pytest.fixture
        def make_model(self, service: ModelServiceDouble) -> Callable[[], ChatModel]:
            return lambda: build(Options(url=service.url, key="k"))
    ```
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import pytest

from toolgate.errors import (
    ContextTooLongError,
    ModelAuthError,
    ModelError,
    ModelRateError,
    ModelRequestError,
    ModelUnavailableError,
)
from toolgate.models.llm import (
    CallArguments,
    CallEnd,
    CallStart,
    ChatModel,
    ChatRequest,
    Finish,
    Message,
    Text,
    ToolCall,
    complete,
)
from toolgate.testing.contracts._limits import HANG_S
from toolgate.types import Json


@dataclass(frozen=True, kw_only=True)
class ScriptedReply:
    """A provider-independent response to one request."""

    text: str = ""
    """Its text, sent in several chunks."""

    calls: tuple[tuple[str, Json], ...] = ()
    """Names and arguments of tool calls."""

    finish: str = "stop"
    """`stop`, `length` or `content_filter`; ignored if there are calls."""

    prompt_tokens: int = 11
    """Reported request tokens."""

    completion_tokens: int = 3
    """Reported response tokens."""

    status: int = 200
    """HTTP status; others than 200 are errors."""

    error: str = "scripted"
    """Message of the error."""

    retry_after: int = 0
    """Seconds in `Retry-After`."""

    drop: bool = False
    """Whether the connection breaks in the middle."""

    hang: bool = False
    """Whether the stream stalls after the first chunk, until the client disconnects."""


class ModelServiceDouble(Protocol):
    """A scripted model service on a local socket."""

    url: str
    """Its address for the model's options."""

    requests: list[Json]
    """Received bodies."""

    reached: anyio.Event
    """Set when a request has arrived."""

    left: anyio.Event
    """Set when a client disconnected before the end of its response."""

    def script(self, *answers: ScriptedReply) -> None:
        """Set the next responses, in order."""
        ...


_TOOL: Json = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "Tells the time.",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
    },
}


def _asked(*messages: Message, tools: Sequence[Json] = ()) -> ChatRequest:
    conversation = messages or (Message(role="user", content="What time is it?"),)
    return ChatRequest(messages=conversation, tools=tuple(tools))


@pytest.mark.anyio
class ChatModelContract:
    """The requirements of `toolgate.models.llm.ChatModel`, one test each; all are our decisions."""

    @pytest.fixture
    async def service(self) -> ModelServiceDouble:
        """The service behind the model; subclasses override it."""
        raise NotImplementedError

    @pytest.fixture
    def make_model(self, service: ModelServiceDouble) -> Callable[[], ChatModel]:
        """Builds a model that uses the service."""
        raise NotImplementedError

    @pytest.fixture
    async def model(self, make_model: Callable[[], ChatModel]) -> AsyncIterator[ChatModel]:
        """The model under test."""
        model = make_model()
        yield model
        await model.aclose()

    async def test_it_is_a_chat_model_with_a_name(self, model: ChatModel) -> None:
        """`plugins.make` rejects others."""
        assert isinstance(model, ChatModel)
        assert ":" in model.identity

    async def test_text_comes_in_pieces_with_reason_and_usage(
        self, model: ChatModel, service: ModelServiceDouble
    ) -> None:
        """The streamed chunks add up to the text."""
        service.script(ScriptedReply(text="It is noon in Bonn, and sunny."))
        deltas = [delta async for delta in model.stream(_asked())]

        texts = [delta.text for delta in deltas if isinstance(delta, Text)]
        assert "".join(texts) == "It is noon in Bonn, and sunny."
        assert len(texts) > 1
        assert deltas[-1] == Finish("stop")
        reply = await _again(model, service, ScriptedReply(text="Noon."))
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (11, 3)

    @pytest.mark.parametrize("reason", ["length", "content_filter"])
    async def test_the_true_reason_is_given(
        self, model: ChatModel, service: ModelServiceDouble, reason: str
    ) -> None:
        """A truncated answer is not a complete one."""
        reply = await _again(model, service, ScriptedReply(text="Half", finish=reason))
        assert reply.finish_reason == reason

    async def test_two_calls_come_whole_with_their_own_ids(
        self, model: ChatModel, service: ModelServiceDouble
    ) -> None:
        """Each call starts once, has its arguments, and ends."""
        service.script(
            ScriptedReply(calls=(("clock", {"zone": "CET"}), ("clock", {"zone": "UTC"})))
        )
        deltas = [delta async for delta in model.stream(_asked(tools=[_TOOL]))]

        starts = [delta for delta in deltas if isinstance(delta, CallStart)]
        ends = [delta for delta in deltas if isinstance(delta, CallEnd)]
        arguments = [delta for delta in deltas if isinstance(delta, CallArguments)]
        assert [start.name for start in starts] == ["clock", "clock"]
        assert len({start.call_id for start in starts}) == len(ends) == 2
        assert {delta.index for delta in arguments} == {0, 1}
        assert deltas[-1] == Finish("tool_calls")
        assert "clock" in str(service.requests[-1])

    async def test_calls_and_results_are_sent_back(
        self, model: ChatModel, service: ModelServiceDouble
    ) -> None:
        """The second request of a turn contains the calls and results of the first."""
        call = ToolCall(call_id="call_1", name="clock", arguments='{"zone":"CET"}')
        reply = await _again(
            model,
            service,
            ScriptedReply(text="Noon."),
            Message(role="system", content="Be brief."),
            Message(role="user", content="What time is it?"),
            Message(role="assistant", content="Let me look.", calls=(call,)),
            Message(role="tool", content="twelve", call_id="call_1", name="clock"),
        )
        sent = str(service.requests[-1])

        assert reply.message.text == "Noon."
        for part in ("Be brief.", "What time is it?", "Let me look.", "CET", "twelve"):
            assert part in sent

    @pytest.mark.parametrize("arguments", ['{"zone": "CE', "", "[1]", "now", "null"])
    async def test_broken_arguments_of_an_earlier_call_are_not_sent_back(
        self, model: ChatModel, service: ModelServiceDouble, arguments: str
    ) -> None:
        """A call that no service can parse would break its thread for good."""
        call = ToolCall(call_id="call_1", name="clock", arguments=arguments)
        await _again(
            model,
            service,
            ScriptedReply(text="Noon."),
            Message(role="user", content="What time is it?"),
            Message(role="assistant", calls=(call,)),
            Message(role="tool", content="not run", call_id="call_1", name="clock"),
        )
        sent = json.dumps(service.requests[-1])

        assert "not run" in sent
        calls = re.findall(r'"(?:arguments|input|args)": ("[^"]*"|\{\})', sent)
        assert calls
        assert set(calls) <= {'"{}"', "{}"}

    async def test_without_tools_the_request_has_none(
        self, model: ChatModel, service: ModelServiceDouble
    ) -> None:
        """Some services reject an empty list."""
        await _again(model, service, ScriptedReply(text="Noon."))
        assert "tools" not in service.requests[-1]

    @pytest.mark.parametrize(
        ("reply", "error"),
        [
            (ScriptedReply(status=401, error="wrong key"), ModelAuthError),
            (ScriptedReply(status=429, retry_after=7), ModelRateError),
            (ScriptedReply(status=400, error="prompt is too long: 9 tokens"), ContextTooLongError),
            (ScriptedReply(status=400, error="no such parameter"), ModelRequestError),
            (ScriptedReply(status=500), ModelUnavailableError),
            (ScriptedReply(text="It is noon in Bonn", drop=True), ModelUnavailableError),
        ],
        ids=["key", "rate", "length", "request", "down", "drop"],
    )
    async def test_failures_are_told_apart(
        self,
        model: ChatModel,
        service: ModelServiceDouble,
        reply: ScriptedReply,
        error: type[ModelError],
    ) -> None:
        """Callers handle each error differently."""
        service.script(reply, reply, reply)
        with pytest.raises(error) as caught:
            await complete(model, _asked())

        assert len(service.requests) == 1  # repeating is for whoever asks to decide
        if isinstance(caught.value, ModelRateError):
            assert caught.value.wait_s == pytest.approx(7, abs=1)

    async def test_closing_ends_the_request_at_once(
        self, model: ChatModel, service: ModelServiceDouble
    ) -> None:
        """Unread tokens cost money."""
        service.script(ScriptedReply(text="It is noon in Bonn", hang=True))
        stream: Any = model.stream(_asked())
        with anyio.fail_after(HANG_S):
            await anext(stream)
            await stream.aclose()
            await service.left.wait()

    async def test_cancelling_ends_the_request_at_once(
        self, model: ChatModel, service: ModelServiceDouble
    ) -> None:
        """A client that leaves cancels its turn."""
        service.script(ScriptedReply(text="It is noon in Bonn", hang=True))
        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:
                group.start_soon(complete, model, _asked())
                await service.reached.wait()
                group.cancel_scope.cancel()
            await service.left.wait()


async def _again(
    model: ChatModel, service: ModelServiceDouble, reply: ScriptedReply, *messages: Message
) -> Any:
    service.script(reply)
    return await complete(model, _asked(*messages))
