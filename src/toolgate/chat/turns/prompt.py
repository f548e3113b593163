"""Assembles the prompt for a model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolgate.chat.base import DOCUMENTS, SQL, TurnState
from toolgate.chat.turns.messages import clean_messages, repair
from toolgate.chat.turns.turn import Turn
from toolgate.models.llm import Message


async def prompt_of(turn: Turn, state: TurnState) -> tuple[Message, ...]:
    """Return the messages for the next answer: one system message, the history, this turn."""
    system = await system_prompt(turn)
    is_tail = turn.choices.inject == "tail"
    if not is_tail and (documents := state.get("documents", "")):
        system = f"{system}\n\n{await _render(turn, 'documents', {'documents': documents})}"
    quotations = {
        call_id: await _render(turn, "documents", {"documents": documents})
        for call_id, documents in (turn.documents.items() if is_tail else ())
    }
    current = _this_turn(turn, state.get("messages", []), quotations)
    everything = _with_new_tools(turn, [*turn.history, *current])
    cleaned = clean_messages(everything, this_turn=turn.turn_id, policy_of=turn.policy_of)
    return repair((Message(role="system", content=system), *cleaned))


async def system_prompt(turn: Turn) -> str:
    """Return the system message: by the offered tools, followed by the client's own."""
    families = turn.offers.families()
    has_other_tools = any(
        offer.source == "server" and not offer.family for offer in turn.offers.by_name.values()
    )
    if not turn.offers.by_name:
        # A client that defines the role of the model itself needs no text of ours.
        if turn.system:
            return turn.system
        name = "basic-default"
    elif families == {DOCUMENTS} and not has_other_tools:
        name = "vs_tools-default"
    elif families == {SQL} and not has_other_tools:
        name = "nl2sql_tools-default"
    else:
        name = "tools-default"
    text = await _render(turn, name, {})
    return f"{text}\n\n{turn.system}" if turn.system else text


def _this_turn(
    turn: Turn, messages: Sequence[Message], quotations: Mapping[str, str]
) -> list[Message]:
    """Return the messages of this turn, with temporary rules, context and documents by call."""
    messages_of_turn: list[Message] = []
    for message in messages:
        if message.role == "user" and (turn.context or turn.rules):
            messages_of_turn.append(_with_extras(turn, message))
        elif message.notes.get("internal_vs") is True and message.call_id in quotations:
            # After the line that stays, so that prompt caches stay valid as far as possible.
            text = f"{message.text}\n\n{quotations[message.call_id]}"
            messages_of_turn.append(replace(message, content=text))
        else:
            messages_of_turn.append(message)
    return messages_of_turn


def _with_new_tools(turn: Turn, messages: Sequence[Message]) -> list[Message]:
    """Return the messages; the question of each turn names the tools that the turn added."""
    added: dict[str, list[str]] = {}
    for offer in turn.offers.by_name.values():
        if offer.key in turn.tool_turns:
            added.setdefault(turn.tool_turns[offer.key], []).append(offer.name)
    if not added:
        return list(messages)
    return [
        replace(message, loads=tuple(added.pop(str(message.notes.get("turn")), ())))
        if message.role == "user"
        else message
        for message in messages
    ]


def _with_extras(turn: Turn, message: Message) -> Message:
    """Return the question, with a tool result before it and rules after it."""
    before = f"Context: {turn.context}\n\nQuestion: " if turn.context else ""
    behind = f"\n\n{turn.rules}" if turn.rules else ""
    if isinstance(message.content, str):
        return replace(message, content=f"{before}{message.content}{behind}")
    parts = list(message.content)
    if before:
        parts.insert(0, {"type": "text", "text": before})
    if behind:
        parts.append({"type": "text", "text": behind})
    return replace(message, content=tuple(parts))


async def _render(turn: Turn, name: str, values: dict[str, str]) -> str:
    return await turn.services.prompts.render(turn.caller.project_id, name, values)
