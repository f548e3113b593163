"""Compacts long threads: oldest results first, then a summary. The history stays complete."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolgate.chat.turns.budget import BudgetExceededError
from toolgate.chat.turns.messages import POLICY, clean_messages, repair
from toolgate.chat.turns.turn import Turn
from toolgate.errors import ModelError
from toolgate.models.llm import Message, estimate_request
from toolgate.types import Json

log = logging.getLogger(__name__)

_MARGIN_TOKENS = 4_000
"""Tokens reserved for the system message and tools."""
_DOWN_TO = 0.6
"""Target share of the limit: well below it, so that not every turn changes the prompt's start."""
_SUMMARY_WORDS = 400
"""Requested length of a summary in words: about a page (chosen)."""
_SUMMARY_TOKENS = 1_200
"""Largest number of tokens: three per word, for languages with long words."""
_LINE = 300
"""Characters of a message in a summary without a model: two or three sentences (chosen)."""
_SUMMED_CHARS = 60_000
"""Characters that the model is given: about 15,000 tokens, which fits a context of 32k with room
to spare (chosen)."""
_HEAD = "[The earlier conversation, summed up]\n"
_WITHOUT = "[The earlier conversation is left out. Its questions were:]\n"


@dataclass
class Compaction:
    """The part of a thread that is no longer sent in full."""

    stub_before: int = 0
    """Tool results in messages before this number are reduced to one line."""

    summed_to: int = 0
    """Messages up to this number are in the summary."""

    summary: str = ""
    """The summary that replaces them."""

    @classmethod
    def from_state(cls, state: Json) -> "Compaction":
        """Read from the state of a thread."""
        return cls(
            stub_before=int(state.get("stub_before", 0)),
            summed_to=int(state.get("from", 0)),
            summary=str(state.get("summary", "")),
        )

    def state(self) -> Json:
        """Return the state to store."""
        state: Json = {}
        if self.stub_before:
            state["stub_before"] = self.stub_before
        if self.summed_to:
            state |= {"from": self.summed_to, "summary": self.summary}
        return state

    def applied(self, history: Sequence[Message]) -> tuple[Message, ...]:
        """Return the compacted history, as it is sent."""
        left = [message for message in history if _number(message) > self.summed_to]
        stubbed = tuple(
            replace(message, notes={**message.notes, POLICY: "stub"})
            if message.role == "tool"
            and _number(message) < self.stub_before
            and POLICY not in message.notes
            else message
            for message in left
        )
        if not self.summary:
            return stubbed
        return (Message(role="user", content=_HEAD + self.summary), *stubbed)


async def compacted(
    turn: Turn, compaction: Compaction, question: Sequence[Message]
) -> tuple[Message, ...]:
    """Compact the history of a turn to the model's context; earlier compactions are kept.

    Args:
        turn: The turn, with its whole history.
        compaction: What is compacted already; it is changed.
        question: What has to fit besides the history.
    """
    models = turn.services.models
    table = models.tables[models.name_of(turn.choices.model or None)]
    limit = int(table.context_tokens * turn.settings.compact_share) - _MARGIN_TOKENS
    least = table.context_tokens // 4
    limit = max(limit, least)
    # A single message must not fill the context: a text is cut to a quarter of it.
    history = tuple(_shortened(message, limit) for message in turn.history)
    asked = _size(turn, question)
    if asked < limit:  # else the question is refused, whatever precedes it
        limit = max(limit - asked, least)
    applied = compaction.applied(history)
    if not turn.choices.history or _size(turn, applied) <= limit:
        return applied
    boundary = _boundary(history, turn.settings.keep_turns)
    before = _size(turn, applied)
    for message in history:
        number = _number(message)
        if message.role != "tool" or not compaction.stub_before <= number < boundary:
            continue
        compaction.stub_before = number + 1
        if _size(turn, compaction.applied(history)) <= limit * _DOWN_TO:
            break
    if _size(turn, compaction.applied(history)) > limit:
        for keep_turns in range(turn.settings.keep_turns, -1, -1):
            boundary = _boundary(history, keep_turns)
            kept = [message for message in history if _number(message) >= boundary]
            if _size(turn, kept) <= limit:
                break
        await _sum_up(turn, compaction, history, boundary)
    applied = compaction.applied(history)
    after = _size(turn, applied)
    turn.emit({"compaction": {"tokens_before": before, "tokens_after": after}})
    log.info(
        "thread made shorter",
        extra={"turn": turn.turn_id, "tokens_before": before, "tokens_after": after},
    )
    return applied


async def _sum_up(
    turn: Turn, compaction: Compaction, history: Sequence[Message], boundary: int
) -> None:
    old = [message for message in compaction.applied(history) if _number(message) < boundary]
    if not old:
        return
    lines: list[str] = []
    for message in clean_messages(repair(old), policy_of=turn.policy_of):
        text = " ".join(message.text.split())
        if text:
            lines.append(f"{message.role}: {text[: _LINE * 4]}")
    prompt = await turn.services.prompts.render(
        turn.caller.project_id,
        "summary",
        {"conversation": "\n".join(lines)[-_SUMMED_CHARS:], "max_words": str(_SUMMARY_WORDS)},
    )
    try:
        summary = (await turn.ask(prompt, "summary", _SUMMARY_TOKENS)).strip()
    except (ModelError, BudgetExceededError) as error:
        log.warning("thread not summed up", extra={"turn": turn.turn_id, "reason": str(error)})
        summary = ""
    if not summary:
        asked = [
            " ".join(message.text.split())[:_LINE] for message in old if message.role == "user"
        ]
        summary = _WITHOUT + "\n".join(f"- {question}" for question in asked[-40:])
    compaction.summary = summary
    compaction.summed_to = boundary - 1


def _shortened(message: Message, most_chars: int) -> Message:
    """Return the message, without the middle of texts longer than `most_chars`.

    Longer arguments of calls are left out: part of them would be no JSON.
    """
    if any(len(call.arguments) > most_chars for call in message.calls):
        calls = tuple(
            replace(call, arguments="{}") if len(call.arguments) > most_chars else call
            for call in message.calls
        )
        message = replace(message, calls=calls)
    if isinstance(message.content, str):
        if len(message.content) <= most_chars:
            return message
        return replace(message, content=_cut(message.content, most_chars))
    parts = tuple(
        {**part, "text": _cut(str(part["text"]), most_chars)} if "text" in part else part
        for part in message.content
    )
    return message if parts == message.content else replace(message, content=parts)


def _cut(text: str, most_chars: int) -> str:
    if len(text) <= most_chars:
        return text
    half = most_chars // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters are left out here]\n{text[-half:]}"


def _boundary(history: Sequence[Message], keep_turns: int) -> int:
    """Return the number of the first message that is sent in full."""
    turns: dict[object, int] = {}
    for message in history:
        turns.setdefault(message.notes.get("turn"), _number(message))
    end = max(map(_number, history), default=0) + 1
    firsts = [*sorted(turns.values()), end]
    return firsts[-min(keep_turns + 1, len(firsts))]


def _size(turn: Turn, messages: Sequence[Message]) -> int:
    sent = clean_messages(messages, policy_of=turn.policy_of)
    return estimate_request(sent, ())


def _number(message: Message) -> int:
    number: object = message.notes.get("number", 0)
    return number if isinstance(number, int) else 0
