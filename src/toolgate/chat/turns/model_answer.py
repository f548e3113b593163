"""Asks the model for one answer, streams it, and assembles the message."""

import re
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace

from toolgate.base import json_text
from toolgate.base.ids import new_id
from toolgate.base.tracing import observe
from toolgate.chat.turns.budget import BudgetExceededError
from toolgate.chat.turns.turn import Turn
from toolgate.models.llm import (
    CallArguments,
    CallStart,
    ChatRequest,
    Message,
    Reasoning,
    RequestAttempt,
    Text,
    ToolCall,
)
from toolgate.types import Json, json_array, json_object

BETWEEN = "\n\n"
"""Separator between the texts of two answers in one turn."""

_HELD_CHARS = 400
"""Characters of a possible call written as text that are held back before it counts as text."""

_BEGINS_LIKE_CALL = re.compile(r"\s*(?:```(?:json)?\s*)?[\[{]")
_NAME = re.compile(r'"(?:name|function|tool)"\s*:\s*(?:\{\s*"name"\s*:\s*)?"([^"]{1,128})"')

NOT_SUPPORTED = (
    "Function Calling Not Supported: the model {model!r} wrote a call of the tool {tool!r} as text "
    "instead of making it. Choose a model that can call tools, or switch tools off for this thread."
)


async def answer(turn: Turn, messages: tuple[Message, ...]) -> Message:
    """Return the next answer of the model, after streaming it.

    Raises:
        ModelError: There is none.
        BudgetExceededError: The model was asked exactly this before.
    """
    definitions = turn.offers.definitions(without_retrieval=turn.is_without_retrieval)
    name = turn.services.models.name_of(turn.choices.model or None)
    request = ChatRequest(
        messages=messages, tools=definitions, parameters=_parameters(turn, definitions)
    )
    if request == turn.last_request:
        # Every answer adds something to the next request, or removes a tool from it.
        raise BudgetExceededError(
            "repeated_request",
            "I had to stop here: the model asks again for what was of no use before.",
        )
    turn.last_request = request
    asking = turn.services.models.ask(name, request, notice=turn.retried)
    passing = _AnswerStream(turn, asking)
    turn.partial = lambda: asking.gathering.message if asking.gathering.has_begun else None
    try:
        with observe("model", model=name, purpose="answer"):
            async with aclosing(asking.deltas()) as deltas:
                async for delta in deltas:
                    match delta:
                        case Text(text):
                            passing.text(text)
                        case Reasoning(text):
                            turn.reasoning.append(text)
                            turn.emit({"reasoning": text})
                        case CallStart() | CallArguments():
                            passing.call(delta)
                        case _:
                            pass
        passing.end()
    finally:
        # Usage counts, however the request ended.
        if asking.asked:
            turn.spent("answer", asking.model, asking.usage)
        turn.model = asking.model
    reply = asking.gathering.reply
    message = _with_ids(reply.message)
    if passing.replaced is not None:
        message = replace(message, content=passing.replaced)
    turn.finish = reply.finish_reason or "stop"
    turn.partial = lambda: None
    return turn.note(message, model=asking.model)


def _parameters(turn: Turn, definitions: Iterable[Json]) -> dict[str, object]:
    """Return the client's parameters; what forces a call applies only to the first answer."""
    parameters = dict(turn.request.parameters)
    # A tuple: clients name a tool by an object, which is not hashable.
    if turn.budget.steps > 1 and parameters.get("tool_choice") not in (None, "auto", "none"):
        parameters["tool_choice"] = "auto"
    if not any(True for _ in definitions):
        parameters.pop("tool_choice", None)
        parameters.pop("parallel_tool_calls", None)
    return parameters


class _AnswerStream:
    """Passes pieces on to listeners; holds back text that may be a call."""

    def __init__(self, turn: Turn, asking: RequestAttempt) -> None:
        self._turn = turn
        self._asking = asking
        self._pending = ""
        self._is_decided = not turn.offers.by_name or "response_format" in turn.request.parameters
        self._has_text = False
        self._theirs: dict[int, int] = {}
        self.replaced: str | None = None
        """Replacement for the text; None: the text stays."""

    def text(self, text: str) -> None:
        """Pass a piece on, or hold it back."""
        if self._is_decided:
            self._tell(text)
            return
        self._pending += text
        if not self._pending.strip():
            return
        named = _NAME.search(self._pending)
        if not _BEGINS_LIKE_CALL.match(self._pending):
            self._release()
        elif named is not None:
            if named[1] not in self._turn.offers.by_name:
                self._release()
        elif len(self._pending) > _HELD_CHARS:
            self._release()

    def call(self, delta: CallStart | CallArguments) -> None:
        """Report a call, if the client runs its tool."""
        if isinstance(delta, CallStart):
            offer = self._turn.offer(delta.name)
            if offer is not None and offer.source == "client":
                self._theirs[delta.index] = len(self._turn.client_calls) + len(self._theirs)

    def end(self) -> None:
        """Decide about text that is still held back."""
        if not self._pending:
            return
        named = _NAME.search(self._pending)
        if (
            named is not None
            and named[1] in self._turn.offers.by_name
            and _is_call(self._pending, named[1])
            and not self._asking.gathering.message.calls
        ):
            self.replaced = NOT_SUPPORTED.format(model=self._asking.model, tool=named[1])
            self._pending = self.replaced
        self._release()

    def _release(self) -> None:
        text, self._pending, self._is_decided = self._pending, "", True
        self._tell(text)

    def _tell(self, text: str) -> None:
        if not text:
            return
        turn = self._turn
        if not self._has_text:
            self._has_text = True
            if turn.texts:
                turn.emit({"stream": BETWEEN})
            turn.texts.append("")
        turn.texts[-1] += text
        turn.emit({"stream": text})


def _is_call(text: str, name: str) -> bool:
    """Whether a text is only a call: JSON that names a tool."""
    stripped = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        value: object = json_text.loads(stripped)
    except ValueError:
        # Several consecutive calls, or a truncated one.
        return stripped.startswith("{") and f'"{name}"' in stripped[:_HELD_CHARS]
    several = json_array(value)
    body = json_object(several[0] if several else value)
    return name in {
        body.get("name"),
        json_object(body.get("function")).get("name"),
        body.get("tool"),
    } or (body.get("function") == name)


def _with_ids(message: Message) -> Message:
    """Give every call a unique id: some services send none, or the same one twice."""
    seen: set[str] = set()
    calls: list[ToolCall] = []
    for call in message.calls:
        call_id = call.call_id
        if not call_id or call_id in seen:
            call_id = f"call_{new_id()}"
        seen.add(call_id)
        calls.append(replace(call, call_id=call_id))
    return replace(message, calls=tuple(calls))
