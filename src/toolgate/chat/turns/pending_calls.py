"""Calls of earlier turns that wait for approval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolgate.models.llm import Message, ToolCall
from toolgate.types import Json, json_array, json_object

LATE = "late"
"""Member of `Message.notes`: true for a result that came after the end of its turn. It belongs
after its call, wherever it was written."""

_WAITS = "[waits for a person's approval]"


@dataclass(frozen=True, kw_only=True)
class PendingCall:
    """A call that waits for approval."""

    call: ToolCall
    """The call as the model made it."""

    turn_id: str
    """Its turn."""

    number: int
    """Number of its message in the thread."""

    entry: Json
    """Its stored state: `call_id`, `turn_id`, `tool`, `approval_id` and others."""

    @property
    def approval_id(self) -> str:
        """Id of the approval."""
        return str(self.entry.get("approval_id", ""))

    def answered(self, result: Message) -> Message:
        """Return the result as a message of the call's turn."""
        return Message(
            role="tool",
            content=result.content,
            call_id=self.call.call_id,
            name=self.call.name,
            notes={**result.notes, "turn": self.turn_id, "number": self.number, LATE: True},
        )


def pending_calls(state: Mapping[str, object], messages: Sequence[Message]) -> list[PendingCall]:
    """Return the waiting calls in the state of a thread, without those in no message.

    Calls with a result are left out, too: a process may have ended before it wrote the state.
    """
    pending = json_object(state.get("pending"))
    answered = {
        (message.notes.get("turn"), message.call_id)
        for message in messages
        if message.notes.get(LATE) is True
    }
    of_turns = {
        (str(message.notes.get("turn", "")), call.call_id): (call, message.notes.get("number", 0))
        for message in messages
        for call in message.calls
    }
    waiting: list[PendingCall] = []
    for entry in map(json_object, json_array(pending.get("calls"))):
        turn_id = str(entry.get("turn_id") or pending.get("turn_id", ""))
        key = turn_id, str(entry.get("call_id", ""))
        if key in of_turns and key not in answered:
            call, number = of_turns[key]
            complete = {**entry, "turn_id": turn_id}
            waiting.append(PendingCall(call=call, turn_id=turn_id, number=number, entry=complete))
    return waiting


def placeholders(calls: Sequence[PendingCall]) -> list[Message]:
    """Return results that say that calls wait, so that a model does not think they failed."""
    return [call.answered(Message(role="tool", content=_WAITS)) for call in calls]
