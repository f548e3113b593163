"""Puts the passages that a search found in the order in which they answer the question."""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Final

import anyio

from toolgate.documents.base import FoundPassage
from toolgate.models.rerankers import CandidatePassage, Reranker, reranked

__all__ = ["codes_in", "passages_worth_reading", "rerank_passages", "with_codes_first"]

log = logging.getLogger(__name__)

_WORTH_READING: Final = 0.45
"""Deviations below the best passage down to which others are given to a model; chosen so that
models get half of the tokens, on the tuned collections of `benchmarks.document_questions`."""

_TOKEN = re.compile(r"[\w#@&][\w#@&./:+-]*")
_CODE = re.compile(
    r"(?!\d+(?:st|nd|rd|th)$)(?=.*[^\W\d_])(?=.*\d).+"  # A37, X-12b, but not 2nd
    r"|\w*[^\W_]_[^\W_]\w*"  # FST_ERR_NOT_FOUND
    r"|#\w+"  # #conduct
    r"|[\w.+-]+@[\w.-]+"  # submit@example.org
)
_LONGEST_CODE: Final = 100
"""Characters; chosen: part numbers and identifiers are shorter."""


def codes_in(question: str) -> list[str]:
    """What a question names to the letter: article numbers, error codes, addresses."""
    tokens = (token.rstrip(".:/-") for token in _TOKEN.findall(question))
    return list(
        dict.fromkeys(
            token.casefold()
            for token in tokens
            if 1 < len(token) <= _LONGEST_CODE and _CODE.fullmatch(token)
        )
    )


def with_codes_first(question: str, passages: Sequence[FoundPassage]) -> list[FoundPassage]:
    """Passages that have more of the codes of a question first, else in their order."""
    patterns = [re.compile(rf"(?<!\w){re.escape(code)}(?!\w)") for code in codes_in(question)]
    if not patterns:
        return list(passages)
    texts = [f"{passage.heading}\n{passage.text}".casefold() for passage in passages]
    counts = [sum(bool(pattern.search(text)) for pattern in patterns) for text in texts]
    order = sorted(range(len(passages)), key=lambda number: -counts[number])
    return [passages[number] for number in order]


async def rerank_passages(
    reranker: Reranker,
    question: str,
    passages: Sequence[FoundPassage],
    *,
    is_comparable: bool,
    timeout_s: float,
) -> list[FoundPassage]:
    """Passages with their score, best first; as they are, if the reranker fails.

    Args:
        reranker: What gives the scores.
        question: What was searched for.
        passages: What was found.
        is_comparable: Whether one model and one metric measured all similarities.
        timeout_s: Seconds for the reranker.
    """
    candidates = [
        CandidatePassage(
            text=passage.text,
            heading=passage.heading,
            similarity=passage.similarity if is_comparable else None,
            words=passage.words,
        )
        for passage in passages
    ]
    try:
        with anyio.fail_after(timeout_s):
            scores = await reranked(reranker, question, candidates)
    except Exception:
        log.warning("passages not reranked", exc_info=True)
        return list(passages)
    scored = [
        replace(passage, relevance=score) for passage, score in zip(passages, scores, strict=True)
    ]
    return sorted(scored, key=lambda passage: -(passage.relevance or 0.0))


def passages_worth_reading(
    question: str, passages: Sequence[FoundPassage], *, most: int
) -> list[FoundPassage]:
    """The first passages that are not much worse than the best; all first ones without scores.

    Scores of rerankers have scales of their own, so what is much is said in deviations over all
    passages. A passage that has a code of the question is never much worse.

    Args:
        question: What was searched for.
        passages: All that were found, best first.
        most: Passages that are given at most.
    """
    scores = [passage.relevance for passage in passages if passage.relevance is not None]
    if len(scores) < len(passages) or len(scores) <= most:
        return list(passages[:most])
    best, deviation = max(scores), pstdev(scores, fmean(scores))
    has_codes = bool(codes_in(question))
    return [
        passage
        for at, passage in enumerate(passages[:most])
        if at == 0 or has_codes or best - (passage.relevance or 0.0) <= _WORTH_READING * deviation
    ]
