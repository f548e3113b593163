"""The end of a turn: outcome, audit record, and the text if it is cut short."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from toolgate.chat.base import Outcome, TurnStatus
from toolgate.chat.turns.messages import unanswered
from toolgate.chat.turns.model_answer import BETWEEN
from toolgate.chat.turns.sources import sources_of, unknown_citations
from toolgate.chat.turns.turn import Turn
from toolgate.models.llm import FinishReason, Message, TokenUsage
from toolgate.types import Json

log = logging.getLogger(__name__)

_MAX_AUDITED_TOOLS = 50
"""Most tools named in the record of a turn: keeps it below 4 kB (chosen)."""


def audit_detail(turn: Turn) -> Json:
    """Return the audit detail of a turn, without texts and arguments."""
    usage = turn.budget.usage
    return {
        "turn": turn.turn_id,
        "model": turn.model,
        "requests": len(turn.spending),
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": round(usage.cost, 8),
        "offered": len(turn.offers.by_name),
        "calls": turn.budget.calls,
        "tools": turn.used_tools[:_MAX_AUDITED_TOOLS],
    }


def outcome_of(turn: Turn, status: TurnStatus) -> Outcome:
    """Return the outcome of a turn whose steps have ended."""
    usage: TokenUsage = turn.budget.usage
    finish = turn.finish if turn.finish in {"stop", "length", "content_filter"} else "stop"
    if status == "client_calls":
        finish = "tool_calls"
    elif status == "out_of_budget":
        finish = "length"
    metadata: Json = {"model": turn.model, "finish_reason": finish}
    if usage.total_tokens:
        metadata["token_usage"] = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
            "cached_tokens": usage.cached_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "is_estimate": usage.is_estimate,
            "parts": [
                {
                    "purpose": spent.purpose,
                    "model": spent.model,
                    "prompt_tokens": spent.prompt_tokens,
                    "completion_tokens": spent.completion_tokens,
                }
                for spent in turn.spending
            ],
        }
    if turn.vs_metadata:
        metadata["vs_metadata"] = turn.vs_metadata
    if sources := sources_of(turn):
        metadata["sources"] = sources
        if unknown := unknown_citations(BETWEEN.join(turn.texts), sources):
            metadata["unknown_citations"] = unknown
    if turn.used_tools:
        metadata["tools"] = turn.used_tools
    if usage.cost:
        metadata["cost"] = round(usage.cost, 8)
    if turn.waiting:
        metadata["approvals"] = turn.waiting
    if status != "completed":
        metadata["status"] = status
    return Outcome(
        turn_id=turn.turn_id,
        model=turn.model,
        text=BETWEEN.join(turn.texts),
        calls=tuple(turn.client_calls),
        finish_reason=cast("FinishReason", finish),
        status=status,
        usage=usage,
        metadata=metadata,
        reasoning="".join(turn.reasoning),
    )


def say(turn: Turn, text: str, *, is_stored: bool = True) -> None:
    """Add an answer of our own; with `is_stored` false only current listeners get it."""
    if turn.texts:
        turn.emit({"stream": BETWEEN})
    turn.texts.append(text)
    turn.emit({"stream": text})
    if not is_stored:
        return
    last = turn.transcript[-1] if turn.transcript else None
    if last is not None and last.role == "assistant" and not last.text and not last.calls:
        turn.transcript[-1] = replace(last, content=text)
    else:
        turn.transcript.append(turn.note(Message(role="assistant", content=text), ours=True))


def end_by_budget(turn: Turn, limit: str, sentence: str) -> None:
    """Answer open calls, and tell the user why the turn ends here."""
    log.info("turn out of budget", extra={"turn": turn.turn_id, "limit": limit})
    turn.emit({"budget": {"limit": limit}})
    turn.transcript = with_partial_answer(turn, "out_of_budget")
    for call in unanswered(turn.transcript):
        text = f"[not run: {sentence}]"
        result = Message(role="tool", content=text, call_id=call.call_id, name=call.name)
        turn.transcript.append(turn.note(result, is_error=True))
    say(turn, sentence)


def with_partial_answer(turn: Turn, why: str) -> list[Message]:
    """Return the messages, with the partial answer if one was cut off; its calls never ran."""
    partial = turn.partial()
    if partial is None or not partial.text:
        return list(turn.transcript)
    return [*turn.transcript, turn.note(replace(partial, calls=()), partial=why)]


def approval_request(calls: Iterable[Json], page: str) -> str:
    """Return the text that asks for approvals.

    Args:
        calls: The calls that wait, as in `Turn.waiting`.
        page: Where people decide about them.
    """
    lines = [
        f"- {call['tool']} (approval {call['approval_id']}, until {call['expires_at']})"
        for call in calls
    ]
    return (
        "I need a person's approval before I can go on:\n"
        + "\n".join(lines)
        + f"\nDecide on {page}, then send any message to go on."
    )
