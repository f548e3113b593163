"""How well requests in many languages are answered: `python -m tests.search.languages`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import anyio

from tests.search.patient import PATIENT
from toolgate.evaluation.search_metrics import LabelledSet, Question, read_labelled, score_ranking
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchableTool, SearchRequest, SearchStrategy
from toolgate.search.strategies import bm25 as lexical
from toolgate.search.strategies import hybrid as both

DATA = Path(__file__).with_name("data")
NAMES = {
    "ar": "Arabic", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "fr": "French", "he": "Hebrew", "hi": "Hindi", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese",
    "ru": "Russian", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese",
    "zh": "Chinese",
}  # fmt: skip
"""The languages by the names of their folders."""

FIRST = 5
"""Tools that a request is answered with."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Which requests found their tool, in their order."""

    lexical: tuple[bool, ...]
    hybrid: tuple[bool, ...]


def labelled(language: str) -> LabelledSet:
    """Tools and requests of a language."""
    return read_labelled(DATA / "languages" / language)


def others() -> tuple[SearchableTool, ...]:
    """Tools of other servers, most in English, some in Chinese."""
    return read_labelled(DATA / "mcpverse").tools[::3]


def over_english(language: str) -> tuple[Question, ...]:
    """The requests of a language, to be answered by the tools in English."""
    return tuple(
        replace(asked, groups=(frozenset({tool.key}),))
        for asked, tool in zip(labelled(language).questions, labelled("en").tools, strict=True)
    )


@lru_cache
def _model() -> BundledEmbedder:
    return BundledEmbedder()


async def found(tools: Sequence[SearchableTool], questions: Sequence[Question]) -> Found:
    """Which requests find their tool among the first five, by words alone and by both."""
    hybrid = both.build(PATIENT, embedder=_model())
    try:
        return Found(
            lexical=await _found(lexical.build(lexical.Options()), tools, questions),
            hybrid=await _found(hybrid, tools, questions),
        )
    finally:
        await hybrid.aclose()


async def _found(
    strategy: SearchStrategy, tools: Sequence[SearchableTool], questions: Sequence[Question]
) -> tuple[bool, ...]:
    await strategy.update(tools)
    answers = [
        await strategy.search(SearchRequest(queries=(question.text,), limit=FIRST))
        for question in questions
    ]
    return tuple(
        score_ranking([hit.key for hit in answer.hits], question.groups)["R@5"] == 1
        for answer, question in zip(answers, questions, strict=True)
    )


async def _table() -> str:
    crowd, english = others(), labelled("en").tools
    lines = [
        "| | own: words | both | among others: words | both | English tools: words | both |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for language, name in sorted(NAMES.items(), key=lambda item: item[1]):
        own = labelled(language)
        rows = (
            await found(own.tools, own.questions),
            await found((*own.tools, *crowd), own.questions),
            await found(english, over_english(language)),
        )
        counts = [str(count) for row in rows for count in (sum(row.lexical), sum(row.hybrid))]
        lines.append(f"| {name} | {' | '.join(counts)} |")
    return "\n".join([*lines, "", f"Model: {_model().identity}"])


if __name__ == "__main__":
    sys.stdout.write(f"{anyio.run(_table)}\n")
