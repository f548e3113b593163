"""Measures what each part of the hybrid search adds, and whether it loses to any of them.

    python -m benchmarks.ablation [FOLDER …] [--distractors FOLDER] [--most 300] [--quick] [--json]

A FOLDER is a data set as `toolgate eval tools` reads it; `FOLDER+OTHER` adds the tools of its
sibling OTHER. The phrases of `benchmarks/data` that were not used for fitting always come first,
then the requests with users' own names, also among the tools of `--distractors`. Each cell shows
R@5 (share of the needed tools among the first five), then the lead of the default with a 95 %
interval (paired bootstrap over the requests). Fails where the default loses more than .01 to one of
its parts. "log of a fifth" and "of four fifths": five folds, where the usage log contains the
requests of other folds with the tools they needed.
"""

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks._data import DATA
from benchmarks._phrases import phrase_sets, requests_with_own_names, shortened
from benchmarks._report import Report, Target, parser_of, print_all, run
from toolgate.evaluation.search_metrics import LabelledSet, Question, read_labelled, score_ranking
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchRequest
from toolgate.search.relevance.usage_votes import UsageHistory
from toolgate.search.strategies.hybrid import HybridSearch, Options
from toolgate.search.usage.learning import Learned

DEFAULT = Options(embedding_wait_s=60, embed_timeout_s=60)
ALONE: Mapping[str, Options] = {
    "words alone": replace(DEFAULT, dense_weight=0, server_weight=0, reranking=False),
    "meaning alone": replace(DEFAULT, dense_weight=1, server_weight=0, reranking=False),
}
"""Parts that the default must not lose to."""
WITHOUT: Mapping[str, Options] = {
    "without clauses": replace(DEFAULT, clauses=0),
    "without server": replace(DEFAULT, server_weight=0),
    "without script gate": replace(DEFAULT, script_gate=False),
    "without typical requests": replace(DEFAULT, typical_requests=False),
    "without reranking": replace(DEFAULT, reranking=False),
}
LOST = 0.01
"""Largest loss in R@5 of the default against one of its parts, on any set."""
SAMPLES = 1_000
"""Samples of the bootstrap."""
FOLDS = 5
SHOWN = 10


def measure(
    quick: bool, folders: Sequence[str] = (), most: int = 300, distractors: str = ""
) -> Report:
    """Rank the requests with and without each part, and return the table.

    Args:
        quick: Use few requests.
        folders: Data sets, or set+distractors; by default, the set in the repository.
        most: Largest number of requests of a set.
        distractors: Folder of tools to add to the requests with users' own names.
    """
    most = 2 * FOLDS if quick else most
    sets = [
        replace(phrases, questions=tuple(q for q in phrases.questions if q.groups)[:most])
        for phrases in phrase_sets("held-out")
    ]
    sets.append(requests_with_own_names())
    if distractors:
        sets.append(requests_with_own_names(read_labelled(Path(distractors)).tools))
    sets += [_read(folder, most) for folder in folders or (DATA / "mcpverse",)]
    if quick:
        sets = [shortened(labelled, most) for labelled in sets]
    names = [labelled.name for labelled in sets]
    by_step = asyncio.run(_table(sets))
    default = by_step["default"]
    rows = [
        {"step": step, **dict(zip(names, map(_cell, default, recalls), strict=True))}
        for step, recalls in by_step.items()
    ]
    targets = [
        Target(
            what=f"{name}: R@5 that the default loses to {step}",
            measured=round(float(np.mean(part) - np.mean(ours)), 4),
            limit=LOST,
        )
        for step in ALONE
        for name, ours, part in zip(names, default, by_step[step], strict=True)
        if not quick
    ]
    return Report(
        name="ablation",
        title="R@5, and by how much the default is better (95 % interval)",
        rows=rows,
        targets=targets,
    )


def _cell(default: Sequence[float], part: Sequence[float]) -> str:
    """R@5 of a part, and the default's lead with its interval."""
    if default is part:
        return f"{np.mean(part):.3f}"
    leads = np.array(default) - np.array(part)
    rng = np.random.default_rng(7)
    means = leads[rng.integers(0, len(leads), (SAMPLES, len(leads)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{np.mean(part):.3f} ({leads.mean():+.3f}, {low:+.3f} to {high:+.3f})"


async def _table(sets: Sequence[LabelledSet]) -> dict[str, list[list[float]]]:
    """R@5 of each request, by step and set."""
    embedder = BundledEmbedder()
    rows: dict[str, list[list[float]]] = {}
    for labelled in sets:
        for step, options in {"default": DEFAULT, **ALONE, **WITHOUT}.items():
            search = await _search(labelled, options, embedder)
            ranked = [await _ranked(search, question, None) for question in labelled.questions]
            rows.setdefault(step, []).append(_recalls(labelled.questions, ranked))
        search = await _search(labelled, DEFAULT, embedder)
        for step, logged in (("with a log of a fifth", 1), ("of four fifths", FOLDS - 1)):
            ranked = await _with_log(search, labelled, embedder, logged)
            rows.setdefault(step, []).append(_recalls(labelled.questions, ranked))
    return rows


async def _with_log(
    search: HybridSearch, labelled: LabelledSet, embedder: BundledEmbedder, logged: int
) -> list[list[str]]:
    """Rank each request with a log of `logged` other folds."""
    texts = [question.text for question in labelled.questions]
    vectors = await embedder.embed(texts, "query")
    folds: list[Learned] = []
    for fold in range(FOLDS):
        known = UsageHistory(embedder.dim, half_life_s=1e9)
        others = {(fold + step) % FOLDS for step in range(1, logged + 1)}
        for at, question in enumerate(labelled.questions):
            if at % FOLDS in others:
                for group in question.groups:
                    vector = vectors[at].astype("<f2").tobytes()
                    known.add(vector, min(group), 1.0, 0.0, caller=question.id)
        folds.append(Learned({embedder.identity: known}, 0.0))
    return [
        await _ranked(search, question, folds[at % FOLDS])
        for at, question in enumerate(labelled.questions)
    ]


async def _search(
    labelled: LabelledSet, options: Options, embedder: BundledEmbedder
) -> HybridSearch:
    search = HybridSearch(options, embedder)
    await search.update(labelled.tools)
    await search.ready()
    return search


async def _ranked(search: HybridSearch, question: Question, learned: Learned | None) -> list[str]:
    answer = await search.search(
        SearchRequest(queries=(question.text,), limit=SHOWN, learned=learned)
    )
    return [hit.key for hit in answer.hits]


def _recalls(questions: Iterable[Question], ranked: Sequence[Sequence[str]]) -> list[float]:
    pairs = zip(questions, ranked, strict=True)
    return [score_ranking(keys, question.groups)["R@5"] for question, keys in pairs]


def _read(folder: str | Path, most: int) -> LabelledSet:
    path, *others = str(folder).split("+")
    return read_labelled(Path(path), [Path(path).parent / other for other in others], limit=most)


if __name__ == "__main__":
    parser = parser_of("ablation")
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="a set, or set+distractors")
    parser.add_argument("--most", type=int, default=300, help="requests of a set at most")
    parser.add_argument("--distractors", default="", help="tools among which own names are asked")
    given = parser.parse_args()
    report = run(
        lambda quick: measure(quick, given.folders, given.most, given.distractors),
        quick=given.quick,
    )
    print_all([lambda: report], as_json=given.json)
    sys.exit(not all(target.met for target in report.targets))
