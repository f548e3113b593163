"""Fits the order of the first hits of short requests: `python -m training.reranking --data FOLDER`.

A linear model in `src/toolgate/search/reranking/weights.json`, fitted by its likelihood of a
right tool in the first place (softmax over the first hits). It learns from the phrases of the
fitting half, over two catalogs, from every second set of written requests, and from the short ones
among every second question of the sets. All sets have the same weight, the phrases twice.
`--check` writes nothing, leaves one set out in turn, and fails if the file is not what the fit
gives.
"""

import argparse
import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks._phrases import phrase_sets
from toolgate.evaluation.search_metrics import LabelledSet, read_labelled
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchRequest
from toolgate.search.lexical.query import read_request
from toolgate.search.lexical.translation import in_english
from toolgate.search.reranking.first_hits import (
    MOST_WORDS,
    RERANKED,
    FirstHits,
    HitEvidence,
    evidence_of,
)
from toolgate.search.strategies.hybrid import HybridSearch, Options
from training._shipped import ship
from training.written_requests import sets_of_servers

OUT: Final = Path(__file__).parents[1] / "src/toolgate/search/reranking/weights.json"
LONG: Final = ("mcpverse", "metatool", "bfcl_live", "bfcl_basic")
"""Sets with single-step questions."""
MOST: Final = 600
"""Questions used from a set."""
PHRASES_COUNT: Final = 2.0
"""Weight of a set of phrases relative to a set of questions."""
RIDGE: Final = 0.01
"""Penalty of a squared weight, in standard deviations of its evidence."""
STEPS: Final = 250
"""Steps of gradient descent; the weights move by less than .01 after 150."""


class Request(NamedTuple):
    """A request with its first hits."""

    evidence: Sequence[HitEvidence]
    """Evidence by name, best hit first."""
    helps: NDArray[np.bool_]
    """Which hits serve the request."""


async def observe(labelled: LabelledSet) -> list[Request]:
    """The first hits of served short requests before they are reranked."""
    options = Options(embedding_wait_s=60, embed_timeout_s=60, reranking=False, cached_answers=0)
    search = HybridSearch(options, BundledEmbedder())
    await search.update(labelled.tools)
    await search.ready()
    words = search._state.words  # noqa: SLF001 - what the search itself ranks by
    slots = {tool.key: at for at, tool in enumerate(words.tools)}
    requests: list[Request] = []
    for question in labelled.questions:
        asked = read_request(words, question.text).asked
        if not question.groups or asked.n_words > MOST_WORDS:
            continue
        answer = await search.search(SearchRequest(queries=(question.text,), limit=RERANKED))
        hits = [hit for hit in answer.hits if hit.fields.get("cosine") is not None]
        needed = frozenset[str]().union(*question.groups)
        helps = np.array([hit.key in needed for hit in hits])
        if any(hit.source == "exact" for hit in answer.hits) or not helps.any():
            continue
        first = FirstHits(
            slots=[slots[hit.key] for hit in hits],
            scores=np.array([hit.fields["score"] for hit in hits], np.float32),
            cosines=np.array([hit.fields["cosine"] for hit in hits], np.float32),
            shares=np.array([hit.fields["bm25_coverage"] for hit in hits], np.float32),
        )
        translation = in_english(question.text)
        text = question.text if translation is None else translation.all_meanings
        requests.append(Request(evidence_of(words, text, asked, first), helps))
    await search.aclose()
    return requests


def fit(sets: Mapping[str, Sequence[Request]]) -> dict[str, float]:
    """Fit and return the weights, by name of the evidence."""
    every = [request for requests in sets.values() for request in requests]
    names = HitEvidence._fields
    rows = np.array([row for request in every for row in request.evidence], np.float64)
    spread = rows.std(axis=0)
    spread[spread == 0] = 1.0
    x = np.zeros((len(every), RERANKED, len(names)))
    helps = np.zeros(x.shape[:2])
    lacking = np.full(x.shape[:2], -1e9)
    for at, request in enumerate(every):
        count = len(request.helps)
        x[at, :count] = np.array(request.evidence, np.float64) / spread
        helps[at, :count] = request.helps
        lacking[at, :count] = 0
    share = np.concatenate(
        [
            np.full(len(requests), (PHRASES_COUNT if "phrases" in name else 1) / len(requests))
            for name, requests in sets.items()
            if requests
        ]
    )
    share /= share.sum()
    return dict(zip(names, (_descend(x, helps, lacking, share) / spread).round(4), strict=True))


def _descend(
    x: NDArray[np.float64],
    helps: NDArray[np.float64],
    lacking: NDArray[np.float64],
    share: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Maximise the likelihood by Adam (https://arxiv.org/abs/1412.6980); returns the weights."""
    weights = np.zeros(x.shape[2])
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        logits = x @ weights + lacking
        chosen = np.exp(logits - logits.max(axis=1, keepdims=True))
        right = chosen * helps
        chosen /= chosen.sum(axis=1, keepdims=True)
        right /= np.maximum(right.sum(axis=1, keepdims=True), 1e-12)
        slope = np.einsum("in,ind->id", chosen - right, x).T @ share + RIDGE * weights
        mean = 0.9 * mean + 0.1 * slope
        square = 0.99 * square + 0.01 * slope**2
        weights -= 0.05 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return weights


def share_right(requests: Iterable[Request], weights: Mapping[str, float], first: int) -> float:
    """Share of requests with a right tool first, with these weights; {}: without reranking."""
    right: list[bool] = []
    for request in requests:
        worth = -np.arange(len(request.helps), dtype=float)
        if weights:
            rows = np.array(request.evidence, np.float64)
            worth = rows @ [weights[name] for name in HitEvidence._fields]
        order = np.argsort(-worth, kind="stable")[:first]
        right.append(bool(request.helps[order].any()))
    return float(np.mean(right)) if right else float("nan")


def _print(name: str, requests: Sequence[Request], weights: Mapping[str, float]) -> None:
    cells = "".join(
        f"{share_right(requests, {}, first):8.3f}{share_right(requests, weights, first):7.3f}"
        for first in (1, 5)
    )
    print(f"{name:28}{len(requests):6}{cells}", flush=True)


async def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of tools/")
    parser.add_argument("--check", action="store_true", help="compare the file with a new fit")
    given = parser.parse_args()
    sets = {labelled.name: await observe(labelled) for labelled in phrase_sets("fit")}
    held_out = {labelled.name: await observe(labelled) for labelled in phrase_sets("held-out")}
    for at, labelled in enumerate(sets_of_servers(given.data)):
        part = held_out if at % 2 else sets
        part[f"{labelled.name} ({at})"] = await observe(labelled)
    for name in LONG:
        labelled = read_labelled(given.data / "tools" / name, limit=MOST)
        every = await observe(labelled)
        sets[name], held_out[name] = every[::2], every[1::2]
    print(f"{'':28}{'':6}{'R@1':>8}{'now':>7}{'R@5':>8}{'now':>7}")
    if given.check:
        for name, requests in sets.items():
            others = {other: every for other, every in sets.items() if other != name}
            _print(f"without {name}", requests, fit(others))
    weights = fit(sets)
    for name, requests in held_out.items():
        _print(f"not used: {name}", requests, weights)
    fitted = {"source": "python -m training.reranking", "weights": weights}
    ship(OUT, fitted, check=given.check)


if __name__ == "__main__":
    asyncio.run(_main())
