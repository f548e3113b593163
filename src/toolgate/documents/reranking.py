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

log = logging.getLogger(__name__)

_WORTH_READING: Final = 0.25
"""Standard deviations below the best passage up to which others are given to a model; chosen so
that models get half of the tokens, on the tuned collections of `benchmarks.document_questions`."""

_TOKEN = re.compile(r"[\w#@&][\w#@&./:+-]*")
_CODE = re.compile(
    r"(?!\d+(?:st|nd|rd|th)$)(?=.*[^\W\d_])(?=.*\d).+"  # A37, X-12b, but not 2nd
    r"|\w*[^\W_]_[^\W_]\w*"  # FST_ERR_NOT_FOUND
    r"|#\w+"  # #conduct
    r"|[\w.+-]+@[\w.-]+"  # submit@example.org
)
_SYMBOL = re.compile(r"""(?<!\S)[`'"“]?([^\w\s`'"“”.,;:?!()…]{1,3})[`'"”]?(?=[.,;:?!]*(?:\s|$))""")
_IN_PROSE: Final = frozenset([*"-–—&/+=<>%~*|•$€£@", "--"])
"""Symbols that stand alone in ordinary sentences; others, such as `}` and `<-`, are codes."""
_LONGEST_CODE: Final = 100
"""Characters: part numbers and identifiers are shorter (chosen)."""


def codes_in(question: str) -> list[str]:
    """Return what a question names exactly: article numbers, error codes, addresses, symbols."""
    tokens = (token.rstrip(".:/-") for token in _TOKEN.findall(question))
    codes = [
        token.casefold()
        for token in tokens
        if 1 < len(token) <= _LONGEST_CODE and _CODE.fullmatch(token)
    ]
    codes += [symbol for symbol in _SYMBOL.findall(question) if symbol not in _IN_PROSE]
    return list(dict.fromkeys(codes))


def with_codes_first(question: str, passages: Sequence[FoundPassage]) -> list[FoundPassage]:
    """Move passages with more of the codes of a question to the front; else keep the order."""
    counts = _counts_of_codes(question, passages)
    order = sorted(range(len(passages)), key=lambda number: -counts[number])
    return [passages[number] for number in order]


def _counts_of_codes(question: str, passages: Sequence[FoundPassage]) -> list[int]:
    """Return how many of the codes of a question each passage contains."""
    patterns = [re.compile(rf"(?<!\w){re.escape(code)}(?!\w)") for code in codes_in(question)]
    if not patterns:
        return [0] * len(passages)
    texts = [f"{passage.heading}\n{passage.text}".casefold() for passage in passages]
    return [sum(bool(pattern.search(text)) for pattern in patterns) for text in texts]


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
    passages. Without scores, none is much worse; nor is one with a code from the question.

    Args:
        question: The search query.
        passages: All passages found, best first.
        most: Largest number of results.
    """
    scores = [passage.relevance for passage in passages if passage.relevance is not None]
    if len(scores) < len(passages) or len(scores) <= most:
        return list(passages[:most])
    best, deviation = max(scores), pstdev(scores, fmean(scores))
    first = passages[:most]
    return [
        passage
        for at, (passage, codes) in enumerate(
            zip(first, _counts_of_codes(question, first), strict=True)
        )
        if at == 0 or codes or best - (passage.relevance or 0.0) <= _WORTH_READING * deviation
    ]
