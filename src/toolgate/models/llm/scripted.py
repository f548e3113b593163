"""A model with scripted answers, for demonstrations and tests without a service.

Each step has `say` (its text), `call` (a tool and arguments), and conditions: `user`, a part of
the last user message, `after`, the name of the tool that returned the last result, and `offers`,
a tool that must be offered. The first matching step answers.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolgate.base import json_text
from toolgate.base.ids import new_id
from toolgate.base.token_estimate import estimate_tokens
from toolgate.errors import ModelRequestError
from toolgate.models.llm.base import (
    CallArguments,
    CallEnd,
    CallStart,
    ChatModel,
    ChatRequest,
    Delta,
    Finish,
    Text,
    TokenUsage,
    message_json,
)
from toolgate.types import Json, json_array, json_object

_PIECE = 24
"""Characters of a streamed piece: several pieces for a short answer (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[models.NAME.options]`."""

    model: str = "scripted"
    """Its name."""

    steps: Sequence[Any] = field(default_factory=list[Any])
    """Its answers: `{ user = "weather", call = { name = "weather__forecast", arguments = {} }
    }`, `{ after = "weather__forecast", say = "It says: {result}" }`. In `say`, `{result}` is the
    last result and `{user}` the last user message."""


def build(options: Options) -> "ScriptedModel":
    """Create the model."""
    return ScriptedModel(options)


class ScriptedModel:
    """A model that answers from a list."""

    def __init__(self, options: Options) -> None:
        self._options = options

    @property
    def identity(self) -> str:
        """Provider and model."""
        return f"scripted:{self._options.model}"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        """Yield the answer of the first matching step."""
        step = self._step(request)
        user, _, result = _last(request)
        text = str(step.get("say", "")).replace("{result}", result).replace("{user}", user)
        for at in range(0, len(text), _PIECE):
            yield Text(text[at : at + _PIECE])
        calls = [json_object(call) for call in json_array(step.get("calls"))]
        if "call" in step:
            calls.insert(0, json_object(step["call"]))
        for index, call in enumerate(calls):
            yield CallStart(index, f"call_{new_id()}", str(call.get("name")))
            arguments = json_text.dumps(json_object(call.get("arguments"))).decode()
            yield CallArguments(index, arguments)
            yield CallEnd(index)
        sent = json_text.dumps([message_json(message) for message in request.messages])
        yield TokenUsage(
            prompt_tokens=estimate_tokens(sent),
            completion_tokens=estimate_tokens(text) or 1,
        )
        yield Finish("tool_calls" if calls else "stop")

    async def aclose(self) -> None:
        """Do nothing: no resources are open."""

    def _step(self, request: ChatRequest) -> Json:
        user, after, _ = _last(request)
        offered = {str(json_object(tool.get("function")).get("name")) for tool in request.tools}
        for step in map(json_object, self._options.steps):
            if str(step.get("after", "")) != after:
                continue
            if str(step.get("user", "")).lower() not in user.lower():
                continue
            if step.get("offers") and step["offers"] not in offered:
                continue
            return step
        raise ModelRequestError(
            f"The model {self.identity} has nothing to say to {user[:60]!r}.",
            hint="Add a step under [models.NAME.options].",
        )


def _last(request: ChatRequest) -> tuple[str, str, str]:
    """Return the last user message, and tool name and text of the result after it."""
    user, after, result = "", "", ""
    names: dict[str, str] = {}
    for message in request.messages:
        names |= {call.call_id: call.name for call in message.calls}
        if message.role == "user":
            user, after, result = message.text, "", ""
        elif message.role == "tool":
            after, result = names.get(message.call_id, message.name), message.text
    return user, after, result


_: type[ChatModel] = ScriptedModel
