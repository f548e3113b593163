"""Sorts the passages that a search found by how well they answer the question."""

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
"""Standard deviations below the best passage up to which others are given to a model; chosen so
that models get half of the tokens, on the tuned collections of `benchmarks.document_questions`."""

_TOKEN = re.compile(r"[\w#@&][\w#@&./:+-]*")
_CODE = re.compile(
    r"(?!\d+(?:st|nd|rd|th)$)(?=.*[^\W\d_])(?=.*\d).+"  # A37, X-12b, but not 2nd
    r"|\w*[^\W_]_[^\W_]\w*"  # FST_ERR_NOT_FOUND
    r"|#\w+"  # #conduct
    r"|[\w.+-]+@[\w.-]+"  # submit@example.org
)
_LONGEST_CODE: Final = 100
"""Characters: part numbers and identifiers are shorter (chosen)."""


def codes_in(question: str) -> list[str]:
    """Return what a question names exactly: article numbers, error codes, addresses."""
    tokens = (token.rstrip(".:/-") for token in _TOKEN.findall(question))
    return list(
        dict.fromkeys(
            token.casefold()
            for token in tokens
            if 1 < len(token) <= _LONGEST_CODE and _CODE.fullmatch(token)
        )
    )


def with_codes_first(question: str, passages: Sequence[FoundPassage]) -> list[FoundPassage]:
    """Move passages with more of the codes of a question to the front; else keep the order."""
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
    """Return passages with their score, best first; unchanged, if the reranker fails.

    Args:
        reranker: The reranker.
        question: The search query.
        passages: The passages found.
        is_comparable: Whether all similarities have the same model and metric.
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
    """Return the first passages that are not much worse than the best.

    Rerankers have different scales, so "much" is measured in standard deviations over all
    passages. Without scores, or if the question contains codes, none is much worse.

    Args:
        question: The search query.
        passages: All passages found, best first.
        most: Largest number of results.
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
