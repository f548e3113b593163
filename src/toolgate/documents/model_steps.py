"""The retrieval steps that ask a chat model: rephrase, select, grade.

Each is a plain function with an answer to everything that can go wrong; none of them raises.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

import anyio

from toolgate.documents.base import AskModel, ConversationMessage, RenderPrompt

__all__ = [
    "CollectionCandidate",
    "GradedPassages",
    "RephrasedQuestion",
    "SelectedCollections",
    "grade",
    "rephrase",
    "select",
]

log = logging.getLogger(__name__)

ENOUGH_SAID = 2
"""A conversation is rephrased when it has more entries than this, the question included."""

MOST_REPHRASED_TOKENS = 128
"""Tokens; chosen: a question of a long paragraph."""
_MOST_CHARS = 4 * MOST_REPHRASED_TOKENS
_GRADE_TOKENS = 64
"""Enough for the numbers of the passages, and a word about them."""

_GRADED_NUMBER = re.compile(r"(?<![\w.])\d{1,3}(?![\w.]*\d)")
_SAYS_NO = re.compile(r"\W*(?:no|none)\b")
_SELECT_TOKENS = 256
"""Tokens; chosen: a JSON array of some twenty names."""
_KEPT_ENTRIES = 20
"""Messages of the conversation; chosen: what a question refers to is rarely older."""
_ENTRY_CHARS = 2_000
"""Characters of a message, about 500 tokens; chosen."""
_GRADED_CHARS = 60_000
"""Characters of all passages, about 15,000 tokens; chosen: fits a context of 32k."""
_ARRAY_START = re.compile(r"\[")
_QUOTES = "\"'“”„«»`"


@dataclass(frozen=True, kw_only=True)
class RephrasedQuestion:
    """A question that stands alone."""

    status: Literal["success", "error"]
    """`error`: the model did not give one, and `query` is the question."""

    query: str
    """What to search for."""

    was_rephrased: bool = False
    """Whether it differs from the question."""

    error: str = ""
    """Why there is none."""


@dataclass(frozen=True, kw_only=True)
class GradedPassages:
    """Whether passages help."""

    status: Literal["success", "error"]
    """`error`: the model did not say, and they are kept."""

    relevant: Literal["yes", "no"] = "yes"
    """Whether at least one helps."""

    helpful: tuple[int, ...] = ()
    """Places of the passages that help, from 0 on; empty with `yes`: the model tells no
    differences, and all are kept."""

    grading_performed: bool = False
    """Whether it was asked and has answered."""

    error: str = ""
    """Why not."""


@dataclass(frozen=True, kw_only=True)
class SelectedCollections:
    """Which collections are searched."""

    names: tuple[str, ...]
    """Best first."""

    selection: Literal["", "model", "all"] = ""
    """Who chose: a model; `all`: it was asked and named none; empty: nothing was to be chosen."""

    error: str = ""
    """Why it named none."""


class CollectionCandidate(Protocol):
    """A collection as far as it is chosen."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def alias(self) -> str:
        """Another name."""
        ...

    @property
    def description(self) -> str:
        """What is in it."""
        ...

    @property
    def model(self) -> str:
        """Its embedding model."""
        ...


async def rephrase(
    question: str,
    history: Sequence[ConversationMessage],
    *,
    ask: AskModel | None,
    render: RenderPrompt,
    is_enabled: bool = True,
    timeout_s: float = 60.0,
) -> RephrasedQuestion:
    """A question made whole by its conversation.

    Args:
        question: The last message of the user.
        history: All messages of user and assistant, this question and empty ones included.
        ask: The model; None: there is none.
        render: Gives prompts.
        is_enabled: Whether to rephrase at all.
        timeout_s: Seconds for the model.
    """
    same = RephrasedQuestion(status="success", query=question)
    if not is_enabled or ask is None or len(history) <= ENOUGH_SAID:
        return same
    try:
        context = await render("context-default", {})
        prompt = await render(
            "vs-rephrase",
            {"context": context, "history": _history_text(history), "question": question},
        )
        with anyio.fail_after(timeout_s):
            answer = await ask(
                prompt,
                purpose="rephrase",
                max_tokens=MOST_REPHRASED_TOKENS,
                timeout_s=timeout_s,
            )
    except Exception as error:
        log.warning("question not rephrased", exc_info=True)
        return RephrasedQuestion(status="error", query=question, error=_failure(error))
    lines = [line for line in answer.strip().splitlines() if line.strip()]
    query = lines[0].strip().strip(_QUOTES).strip() if len(lines) == 1 else ""
    if not query or len(query) > _MOST_CHARS:
        log.warning("rephrased question not used", extra={"lines": len(lines)})
        return RephrasedQuestion(
            status="error", query=question, error="The model gave no single line to search for."
        )
    return RephrasedQuestion(status="success", query=query, was_rephrased=query != question)


async def select(
    question: str,
    candidates: Sequence[CollectionCandidate],
    *,
    limit: int,
    ask: AskModel | None,
    render: RenderPrompt,
    timeout_s: float = 60.0,
) -> SelectedCollections:
    """The collections that fit a question.

    One is taken as it is. Without a model, all are, and so where its answer names none: a question
    must not miss its documents because a model did not answer as it should.

    Args:
        question: What is looked for.
        candidates: What there is.
        limit: How many the model may choose.
        ask: The model; None: there is none.
        render: Gives prompts.
        timeout_s: Seconds for the model.
    """
    names = tuple(candidate.name for candidate in candidates)
    if len(names) <= 1 or ask is None:
        return SelectedCollections(names=names)
    try:
        prompt = await render(
            "vs-table-selection",
            {
                "question": question,
                "tables": "\n".join(map(_described, candidates)),
                "max_tables": str(limit),
            },
        )
        with anyio.fail_after(timeout_s):
            answer = await ask(
                prompt, purpose="select", max_tokens=_SELECT_TOKENS, timeout_s=timeout_s
            )
    except Exception as error:
        log.warning("collections not chosen", exc_info=True)
        return SelectedCollections(names=names, selection="all", error=_failure(error))
    chosen = tuple(_chosen(answer, candidates))[:limit]
    if not chosen:
        log.warning("collections not chosen", extra={"answer": answer[:200]})
        error = "The model named no collection."
        return SelectedCollections(names=names, selection="all", error=error)
    return SelectedCollections(names=chosen, selection="model")


async def grade(
    question: str,
    documents: Sequence[str],
    *,
    ask: AskModel | None,
    render: RenderPrompt,
    is_enabled: bool = True,
    timeout_s: float = 30.0,
) -> GradedPassages:
    """Which documents help with a question, as it was asked; when in doubt all do.

    One request grades all. The model answers with numbers; yes and no count for all documents.

    Args:
        question: The original one.
        documents: Their texts.
        ask: The model; None: there is none.
        render: Gives prompts.
        is_enabled: Whether to grade at all.
        timeout_s: Seconds for the model.
    """
    if not is_enabled or ask is None or not documents:
        return GradedPassages(status="success")
    try:
        numbered = (f"[{number}]\n{text}" for number, text in enumerate(documents, 1))
        text = "\n\n".join(numbered)[:_GRADED_CHARS]
        prompt = await render("vs-grade", {"question": question, "documents": text})
        with anyio.fail_after(timeout_s):
            answer = await ask(
                prompt, purpose="grade", max_tokens=_GRADE_TOKENS, timeout_s=timeout_s
            )
    except Exception as error:
        log.warning("documents not graded", exc_info=True)
        return GradedPassages(status="error", error=_failure(error))
    relevant, helpful = _verdict(answer.lower(), len(documents))
    return GradedPassages(
        status="success", relevant=relevant, helpful=helpful, grading_performed=True
    )


def _verdict(reply: str, count: int) -> tuple[Literal["yes", "no"], tuple[int, ...]]:
    """What a grade says: `2, 3`, or yes or no for all."""
    numbers = {int(digits) for digits in _GRADED_NUMBER.findall(reply)}
    helpful = tuple(sorted(number - 1 for number in numbers if 1 <= number <= count))
    if helpful and not _SAYS_NO.match(reply):
        return "yes", helpful
    return ("no" if "yes" not in reply and "no" in reply else "yes"), ()


def _history_text(history: Sequence[ConversationMessage]) -> str:
    last = [entry for entry in history[:-1] if entry.text.strip()][-_KEPT_ENTRIES:]
    return "\n".join(f"{entry.role}: {entry.text.strip()[:_ENTRY_CHARS]}" for entry in last)


def _described(candidate: CollectionCandidate) -> str:
    alias = f" (alias: {candidate.alias})" if candidate.alias else ""
    description = " ".join(candidate.description.split()) or "no description"
    return f"- {candidate.name}{alias}: {description} [model: {candidate.model}]"


def _chosen(answer: str, candidates: Sequence[CollectionCandidate]) -> list[str]:
    """Names in the first JSON array of an answer; unknown ones are left out."""
    parsed = _first_array(answer)
    names: Mapping[str, str] = {
        **{
            candidate.alias.casefold(): candidate.name
            for candidate in candidates
            if candidate.alias
        },
        **{candidate.name.casefold(): candidate.name for candidate in candidates},
    }
    return list(
        dict.fromkeys(
            names[name.strip().casefold()]
            for name in parsed
            if isinstance(name, str) and name.strip().casefold() in names
        )
    )


def _first_array(text: str) -> list[object]:
    """The first JSON array in a text that may say more; empty: there is none."""
    decoder = json.JSONDecoder()
    for start in (match.start() for match in _ARRAY_START.finditer(text)):
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return cast("list[object]", value)
    return []


def _failure(error: Exception) -> str:
    """One sentence for the log and the answer."""
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    if isinstance(error, ConnectionError | TimeoutError) or getattr(error, "code", "") in {
        "model_unreachable",
        "unreachable",
    }:
        return f"API connection failed: {reason}"
    return reason
