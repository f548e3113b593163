"""The retrieval steps that ask a chat model: rephrase, select, grade.

Each is a plain function that handles every error; none of them raises.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

import anyio

from toolgate.documents.base import AskModel, ConversationMessage, RenderPrompt

log = logging.getLogger(__name__)

ENOUGH_SAID = 2
"""A conversation is rephrased if it has more entries than this, including the question."""

MOST_REPHRASED_TOKENS = 128
"""Tokens: a question as long as a paragraph (chosen)."""
_MOST_CHARS = 4 * MOST_REPHRASED_TOKENS
_GRADE_TOKENS = 64
"""Tokens: enough for the numbers of the passages, and a remark about them."""

_GRADED_NUMBER = re.compile(r"(?<![\w.])\d{1,3}(?![\w.]*\d)")
_SAYS_NO = re.compile(r"\W*(?:no|none)\b")
_SELECT_TOKENS = 256
"""Tokens: a JSON array of about twenty names (chosen)."""
_KEPT_ENTRIES = 20
"""Messages of the conversation: questions rarely refer to older ones (chosen)."""
_ENTRY_CHARS = 2_000
"""Characters of a message: about 500 tokens (chosen)."""
_GRADED_CHARS = 60_000
"""Characters of all passages: about 15,000 tokens, which fits a context of 32k (chosen)."""
_ARRAY_START = re.compile(r"\[")
_QUOTES = "\"'“”„«»`"


@dataclass(frozen=True, kw_only=True)
class RephrasedQuestion:
    """A question that stands alone."""

    status: Literal["success", "error"]
    """`error`: the model failed, and `query` is the question."""

    query: str
    """The search query."""

    was_rephrased: bool = False
    """Whether it differs from the question."""

    error: str = ""
    """Why it was not rephrased."""


@dataclass(frozen=True, kw_only=True)
class GradedPassages:
    """Whether passages help."""

    status: Literal["success", "error"]
    """`error`: the model failed, and all passages are used."""

    relevant: Literal["yes", "no"] = "yes"
    """Whether at least one helps."""

    helpful: tuple[int, ...] = ()
    """Indexes of the passages that help, from 0; empty with `yes`: the model made no
    distinction, and all are used."""

    grading_performed: bool = False
    """Whether the model was asked and has answered."""

    error: str = ""
    """The reason if not."""


@dataclass(frozen=True, kw_only=True)
class SelectedCollections:
    """The collections to search."""

    names: tuple[str, ...]
    """Best first."""

    selection: Literal["", "model", "all"] = ""
    """How they were chosen: `model`; `all`: the model named none; empty: there was no choice."""

    error: str = ""
    """Why it named none."""


class CollectionCandidate(Protocol):
    """The part of a collection that selection uses."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def alias(self) -> str:
        """Another name."""
        ...

    @property
    def description(self) -> str:
        """Its contents."""
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
    """Rewrite a question by its conversation, so that it stands alone.

    Args:
        question: The last user message.
        history: All messages of user and assistant, including this question and empty ones.
        ask: Asks the model; None: there is none.
        render: Renders prompts.
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
    """Choose the collections for a question.

    A single candidate is chosen without asking. Without a model, or if its answer names none,
    all are chosen: a question must not miss its documents because of a bad answer of a model.

    Args:
        question: The search query.
        candidates: Collections to choose from.
        limit: Most collections that the model may choose.
        ask: Asks the model; None: there is none.
        render: Renders prompts.
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
    """Decide which documents help to answer a question in its original form; if in doubt, all do.

    One request grades all. The model answers with numbers; yes and no apply to all documents.

    Args:
        question: The original question.
        documents: Their texts.
        ask: Asks the model; None: there is none.
        render: Renders prompts.
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
    """Parse a grade: `2, 3`, or yes or no for all."""
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
    """Return the names in the first JSON array of texts; unknown ones are left out."""
    parsed = _first_texts(answer)
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
            names[name.strip().casefold()] for name in parsed if name.strip().casefold() in names
        )
    )


def _first_texts(text: str) -> list[str]:
    """Return the first JSON array of texts in an answer that may contain more; empty: none.

    Arrays without texts are no choice: models also number what they write, as `[1]`.
    """
    decoder = json.JSONDecoder()
    for start in (match.start() for match in _ARRAY_START.finditer(text)):
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        texts = [item for item in cast("list[object]", value) if isinstance(item, str)]
        if texts or not value:
            return texts
    return []


def _failure(error: Exception) -> str:
    """Return one sentence for the log and the answer."""
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    if isinstance(error, ConnectionError | TimeoutError) or getattr(error, "code", "") in {
        "model_unreachable",
        "unreachable",
    }:
        return f"API connection failed: {reason}"
    return reason
