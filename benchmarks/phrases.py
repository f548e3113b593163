"""Measures how well the search answers short requests of agents, by catalog and language.

    python -m benchmarks.phrases [--quick] [--json]

The requests are the half of `data/phrases.jsonl` that nothing was fitted to, over the 642 tools of
37 servers and the 326 of mcpverse, with the bundled embedder and the defaults, and over the tools
of each server that has less than 30 of them, without the others. A request is found at k if one of
the first k hits is a tool that serves it. `none` is the answer that nothing fits.
The English requests are also asked in six other languages (`data/phrases_translated.jsonl`).
"""

from collections.abc import Iterable, Sequence
from statistics import fmean

import anyio

from benchmarks._data import PHRASES, read_rows
from benchmarks._phrases import (
    phrase_sets,
    phrases_of_single_servers,
    translated_phrase_sets,
)
from benchmarks._report import Report, Target, main
from toolgate.evaluation.search_metrics import LabelledSet, Question
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchAnswer, SearchRequest
from toolgate.search.strategies.hybrid import HybridSearch, Options

LANGUAGES = {
    "English": ("en",),
    "German, French, Spanish, Portuguese": ("de", "fr", "es", "pt"),
    "Chinese, Japanese": ("zh", "ja"),
}
TRANSLATIONS = {
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "pt": "Portuguese",
    "zh": "Chinese",
    "ja": "Japanese",
}
QUICK_EVERY = 10
"""The quick form asks every tenth request."""

Answered = tuple[Question, SearchAnswer]


def measure(quick: bool) -> Report:
    """Ask each request once and return the table."""
    return anyio.run(_measure, QUICK_EVERY if quick else 1)


async def _measure(step: int) -> Report:
    language = {str(row["id"]): row["language"] for row in read_rows(PHRASES)}
    rows: list[dict[str, object]] = []
    english: dict[str, list[Answered]] = {}
    for labelled in phrase_sets("held-out"):
        answered = await _ask(labelled, step)
        catalog = labelled.name.removeprefix("phrases, ")
        for name, codes in LANGUAGES.items():
            part = [pair for pair in answered if language[pair[0].id] in codes]
            rows.append({"catalog": catalog, "language": name, **_figures(part)})
            if name == "English":
                english[catalog] = part
    for size, sets in phrases_of_single_servers("held-out").items():
        answers = [await _ask(labelled, step) for labelled in sets]
        catalog = size.replace("phrases", "one server")
        every = [pair for answered in answers for pair in answered]
        rows.append({"catalog": catalog, "language": "all", **_figures(every)})
    for code, name in TRANSLATIONS.items():
        for labelled in translated_phrase_sets("held-out", code):
            answered = await _ask(labelled, step)
            catalog = labelled.name.removeprefix("phrases, ")
            row = {"catalog": catalog, "language": f"English, in {name}"}
            rows.append({**row, **_figures(answered)})
    first = english["37 servers"]
    return Report(
        name="phrases",
        title="short requests that nothing was fitted on",
        rows=rows,
        targets=(
            Target(what="R@1, 37 servers", measured=_found(first, 1), limit=0.62, at_least=True),
            Target(what="R@5, 37 servers", measured=_found(first, 5), limit=0.88, at_least=True),
            Target(what="none where served", measured=_none(first, served=True), limit=0.05),
            Target(
                what="none where nothing serves",
                measured=_none(first, served=False),
                limit=0.8,
                at_least=True,
            ),
        ),
    )


async def _ask(labelled: LabelledSet, step: int) -> list[Answered]:
    search = HybridSearch(Options(embedding_wait_s=60, embed_timeout_s=60), BundledEmbedder())
    await search.update(labelled.tools)
    await search.ready()
    answered = [
        (question, await search.search(SearchRequest(queries=(question.text,), limit=5)))
        for question in labelled.questions[::step]
    ]
    await search.aclose()
    return answered


def _figures(part: Sequence[Answered]) -> dict[str, object]:
    return {
        "served": sum(bool(question.groups) for question, _ in part),
        "R@1": _found(part, 1),
        "R@5": _found(part, 5),
        "none": _none(part, served=True),
        "not served": sum(not question.groups for question, _ in part),
        "none there": _none(part, served=False),
    }


def _found(part: Iterable[Answered], k: int) -> float:
    return _mean(
        any(hit.key in question.groups[0] for hit in answer.hits[:k])
        for question, answer in part
        if question.groups
    )


def _none(part: Iterable[Answered], *, served: bool) -> float:
    return _mean(
        answer.fit == "none" for question, answer in part if bool(question.groups) == served
    )


def _mean(values: Iterable[bool]) -> float:
    known = list(values)
    return round(fmean(known), 3) if known else 0.0


if __name__ == "__main__":
    main("phrases", measure)
