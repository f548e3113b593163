"""Builds the messages for a model from the transcript. Pure functions.

Every request goes through `repair`, which makes any list of messages one that services accept.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from toolgate.chat.base import Policy
from toolgate.chat.turns.pending_calls import LATE
from toolgate.models.llm import Message, ToolCall

__all__ = [
    "INTERRUPTED",
    "POLICY",
    "clean_messages",
    "last_question",
    "repair",
    "stub_of",
    "unanswered",
    "without_internal",
]

INTERRUPTED = "[interrupted: this call has no result]"
"""What a call without a result is answered with."""

POLICY = "policy"
"""Member of `Message.notes` that has the `Policy` of a result."""

_ABOUT = 160
"""Characters of a message that say what it was about; chosen: one or two lines."""


def repair(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same conversation in a form that every service accepts.

    One system message at most, first. Behind each assistant message with calls stands exactly one
    result for each of them, in their order; a call without one is answered as interrupted, a result
    without a call is left out. Answers are matched within their own step, since services use ids
    again; those that came late are matched by the turn of their call. What is right already stays
    as it is, so repairing twice changes nothing.
    """
    late = {
        (message.notes.get("turn"), message.call_id): message
        for message in messages
        if message.role == "tool" and message.notes.get(LATE) is True
    }
    repaired: list[Message] = []
    system = [message for message in messages if message.role == "system"]
    if system:
        text = "\n\n".join(message.text for message in system if message.text)
        repaired.append(system[0] if len(system) == 1 else Message(role="system", content=text))
    rest = [message for message in messages if message.role != "system"]
    at = 0
    while at < len(rest):
        message = rest[at]
        at += 1
        if message.role == "tool":
            continue
        message = _with_own_ids(message)
        repaired.append(message)
        if not message.calls:
            continue
        results: dict[str, Message] = {}
        # Results of a step come before anybody else speaks of it; those behind a message of the
        # user that came in between belong here too, those behind further calls do not.
        cursor = at
        while cursor < len(rest) and not (rest[cursor].role == "assistant" and rest[cursor].calls):
            if rest[cursor].role == "tool" and rest[cursor].notes.get(LATE) is not True:
                results.setdefault(rest[cursor].call_id, rest[cursor])
            cursor += 1
        turn_id = message.notes.get("turn")
        for call in message.calls:
            if (turn_id, call.call_id) in late:
                results[call.call_id] = late[turn_id, call.call_id]
        repaired += [results.get(call.call_id) or _interrupted(call) for call in message.calls]
    return tuple(repaired)


def _with_own_ids(message: Message) -> Message:
    """The message without calls that say an id again."""
    ids = [call.call_id for call in message.calls]
    if len(set(ids)) == len(ids):
        return message
    return replace(
        message, calls=tuple({call.call_id: call for call in message.calls[::-1]}.values())[::-1]
    )


def _interrupted(call: ToolCall) -> Message:
    return Message(role="tool", content=INTERRUPTED, call_id=call.call_id, name=call.name)


def unanswered(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Calls of the last assistant message that has some, which nothing after it answers."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "assistant":
            answered = {message.call_id for message in messages[at + 1 :] if message.role == "tool"}
            return tuple(call for call in messages[at].calls if call.call_id not in answered)
    return ()


def without_internal(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Without results that are marked as internal; all others stay. Their calls stay too.

    By mark and never by name. What is sent to a model needs whole pairs: see `clean_messages`.
    """
    return tuple(
        message
        for message in messages
        if message.role != "tool" or message.notes.get("internal_vs") is not True
    )


def clean_messages(
    messages: Sequence[Message],
    *,
    this_turn: str = "",
    policy_of: Callable[[str], Policy] | None = None,
) -> tuple[Message, ...]:
    """What later requests have of results, by their policies; pairs stay pairs.

    Args:
        messages: Oldest first.
        this_turn: The turn that runs: its results stay whole, unless they were found to be of no
            use.
        policy_of: The policy of a tool by the key in the notes of its result; None: as the result
            says.
    """
    dropped: set[int] = set()
    cleaned: list[Message] = []
    results = _results_of(messages)
    gone: dict[int, set[str]] = {}
    for position, (call_place, call) in results.items():
        policy = _policy(messages[position], this_turn, policy_of)
        if policy == "drop_pair":
            dropped.add(position)
            gone.setdefault(call_place, set()).add(call.call_id)
    for position, message in enumerate(messages):
        if position in dropped:
            continue
        if position in gone:
            left = tuple(call for call in message.calls if call.call_id not in gone[position])
            if not left and not message.text:
                continue
            cleaned.append(replace(message, calls=left))
        elif message.role == "tool" and _policy(message, this_turn, policy_of) == "stub":
            cleaned.append(replace(message, content=stub_of(message)))
        else:
            cleaned.append(message)
    return tuple(cleaned)


def _results_of(messages: Sequence[Message]) -> dict[int, tuple[int, ToolCall]]:
    """Place of each result, with the place of the message that has its call, and the call."""
    results: dict[int, tuple[int, ToolCall]] = {}
    at, calls = -1, cast("Mapping[str, ToolCall]", {})
    for position, message in enumerate(messages):
        if message.role == "assistant" and message.calls:
            at, calls = position, {call.call_id: call for call in message.calls}
        elif message.role == "tool" and message.call_id in calls:
            results[position] = (at, calls[message.call_id])
    return results


def _policy(message: Message, this_turn: str, policy_of: Callable[[str], Policy] | None) -> Policy:
    policy = cast("Policy", message.notes.get(POLICY, "keep"))
    if policy == "drop_pair":
        return policy  # what was of no use is of none in its own turn either
    if this_turn and message.notes.get("turn") == this_turn:
        return "keep"
    if policy == "keep" and policy_of is not None:
        return policy_of(str(message.notes.get("tool") or message.name))
    return policy


def stub_of(message: Message) -> str:
    """One line in place of a result: what was asked, what came of it, where it can be had again."""
    notes = message.notes
    if isinstance(stub := notes.get("stub"), str):
        return stub
    size = len(message.text)
    first = " ".join(message.text.split())[:_ABOUT]
    handle = f", kept as {notes['artifact']}" if "artifact" in notes else ""
    return f"[result of {message.name or 'a tool'}, {size:,} characters{handle}] {first}…"


def last_question(messages: Sequence[Message]) -> str:
    """Text of the last message of the user; empty without one."""
    return next((message.text for message in reversed(messages) if message.role == "user"), "")
