"""Builds the messages for a model from the transcript. Pure functions.

Every request goes through `repair`, which turns any list of messages into one that services
accept.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import cast

from toolgate.chat.base import Policy
from toolgate.chat.turns.pending_calls import LATE
from toolgate.models.llm import Message, ToolCall

INTERRUPTED = "[interrupted: this call has no result]"
"""Result of a call that has none."""

POLICY = "policy"
"""Member of `Message.notes` for the `Policy` of a result."""

_ABOUT = 160
"""Characters of a message in its one-line summary: one or two lines (chosen)."""


def repair(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the same conversation in a form that every service accepts.

    At most one system message, which is first. Each assistant message with calls is followed by
    exactly one result for each of them, in their order; calls without a result are answered as
    interrupted, results without a call are left out. Results are matched within their own step,
    since services reuse ids; late results are matched by the turn of their call. Valid parts
    stay unchanged, so repairing twice changes nothing.
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
        # Results usually follow their step directly; those after a user message in
        # between belong here, too, those after further calls do not.
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
    """Return the message without calls that repeat an id."""
    ids = [call.call_id for call in message.calls]
    if len(set(ids)) == len(ids):
        return message
    return replace(
        message, calls=tuple({call.call_id: call for call in message.calls[::-1]}.values())[::-1]
    )


def _interrupted(call: ToolCall) -> Message:
    return Message(role="tool", content=INTERRUPTED, call_id=call.call_id, name=call.name)


def unanswered(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return calls without a result, of the last assistant message that has calls."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "assistant":
            answered = {message.call_id for message in messages[at + 1 :] if message.role == "tool"}
            return tuple(call for call in messages[at].calls if call.call_id not in answered)
    return ()


def repeated_steps(messages: Sequence[Message]) -> int:
    """Return how many steps at the end made the same calls with the same results; at least 0."""
    steps: list[tuple[list[tuple[str, str]], list[object]]] = []
    for message in messages:
        if message.role == "assistant":
            steps.append(([(call.name, call.arguments) for call in message.calls], []))
        elif message.role == "tool" and steps:
            steps[-1][1].append(message.content)
    same = takewhile(lambda step: step == steps[-1] and step[0], reversed(steps))
    return sum(1 for _ in same)


def without_internal(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages without results that are marked as internal; their calls stay.

    Decided by the mark, never by name. Models need complete pairs: see `clean_messages`.
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
    """Return messages with the results reduced by their policies; pairs stay complete.

    Args:
        messages: Oldest first.
        this_turn: The running turn, whose results stay complete, unless they were found useless.
        policy_of: Returns the policy of a tool by the key in its result's notes; None: use the
            result's own policy.
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
    """Return the call of each result with the index of its message, by index of the result."""
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
        return policy  # useless results are dropped in their own turn, too
    if this_turn and message.notes.get("turn") == this_turn:
        return "keep"
    if policy == "keep" and policy_of is not None:
        return policy_of(str(message.notes.get("tool") or message.name))
    return policy


def stub_of(message: Message) -> str:
    """Return one line in place of a result: the call, its outcome, how to get the result again."""
    notes = message.notes
    if isinstance(stub := notes.get("stub"), str):
        return stub
    size = len(message.text)
    first = " ".join(message.text.split())[:_ABOUT]
    handle = f", kept as {notes['artifact']}" if "artifact" in notes else ""
    return f"[result of {message.name or 'a tool'}, {size:,} characters{handle}] {first}…"


def last_question(messages: Sequence[Message]) -> str:
    """Return the text of the last user message; empty if there is none."""
    return next((message.text for message in reversed(messages) if message.role == "user"), "")
