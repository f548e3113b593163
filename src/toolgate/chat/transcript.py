"""Converts between messages of a turn and stored messages."""

from collections.abc import Mapping, Sequence

from toolgate.base import json_text
from toolgate.base.ids import utc_now
from toolgate.chat.turns.messages import repair
from toolgate.models.llm import Message, ToolCall, message_json
from toolgate.store import StoredArtifact, StoredMessage
from toolgate.types import Json, json_array, json_object

FORGOTTEN = "As requested, I've forgotten our conversation."
"""Answer after a conversation was cleared."""

NOTHING = "I'm sorry, I have no history of this conversation."
"""Answer if there is no conversation."""


_OUTSIDE = frozenset({"turn", "number"})
"""Notes that have their own columns."""


def to_stored(message: Message, turn_id: str) -> StoredMessage:
    """Convert a message for storing."""
    body: Json = {
        "content": message.content if isinstance(message.content, str) else list(message.content)
    }
    if message.calls:
        body["calls"] = [
            {"id": call.call_id, "name": call.name, "arguments": call.arguments}
            for call in message.calls
        ]
    for name, value in (
        ("call_id", message.call_id),
        ("name", message.name),
        ("kept", message.provider_state),
    ):
        if value:
            body[name] = value
    return StoredMessage(
        number=0,
        turn_id=turn_id,
        role=message.role,
        body=body,
        notes={name: value for name, value in message.notes.items() if name not in _OUTSIDE},
        at=utc_now(),
    )


def from_stored(stored: StoredMessage) -> Message:
    """Convert a stored message."""
    body = stored.body
    content: object = body.get("content", "")
    calls = tuple(
        ToolCall(
            call_id=str(call.get("id")),
            name=str(call.get("name")),
            arguments=str(call.get("arguments", "{}")),
        )
        for call in map(json_object, json_array(body.get("calls")))
    )
    return Message(
        role=stored.role,  # pyright: ignore[reportArgumentType] - as written
        content=content
        if isinstance(content, str)
        else tuple(map(json_object, json_array(content))),
        calls=calls,
        call_id=str(body.get("call_id", "")),
        name=str(body.get("name", "")),
        provider_state=json_object(body.get("kept")),
        notes={**stored.notes, "turn": stored.turn_id, "number": stored.number},
    )


def message_views(
    stored: Sequence[StoredMessage], artifacts: Mapping[str, StoredArtifact]
) -> list[Json]:
    """Return messages for the history: in OpenAI's format, with documents and metadata."""
    views: list[Json] = []
    for row in stored:
        message = from_stored(row)
        body = message_json(message, as_said=True)
        notes = message.notes
        artifact = artifacts.get(str(notes.get("artifact")))
        if message.role == "tool":
            body["name"] = message.name
            if artifact is not None and notes.get("internal_vs") is True:
                body["content"] = json_text.dumps(artifact.body).decode()
        extra: Json = {
            name: notes[name]
            for name in ("internal_vs", "policy", "partial", "is_error")
            if name in notes
        }
        if extra:
            body["additional_kwargs"] = extra
        if isinstance(metadata := notes.get("response_metadata"), dict):
            body["response_metadata"] = metadata
        views.append({**body, "turn_id": row.turn_id, "created_at": row.at, "number": row.number})
    return views


def usable(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages for later turns, without those of turns that had no history."""
    visible = [message for message in messages if message.notes.get("history_off") is not True]
    return repair(visible)
