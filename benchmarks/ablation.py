"""What each part of the hybrid search is worth.

    python -m benchmarks.ablation [FOLDER …] [--most 300] [--quick] [--json]

A FOLDER is a set as `toolgate eval tools` reads it; `FOLDER+OTHER` adds the tools of its sibling
OTHER. Prints R@5 of each set (share of the needed tools among the first five), a row per step; each
step has what the rows above it have. "log of a fifth" and "of four fifths": five folds, where the
requests of other folds, with the tools they needed, stand in the usage log.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks._data import DATA
from benchmarks._report import Report, parser_of, print_measured
from toolgate.cli.evaluation._measure import LabelledSet, Question, read_labelled, score_ranking
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchRequest
from toolgate.search.relevance.usage_votes import UsageHistory
from toolgate.search.strategies.hybrid import HybridSearch, Options
from toolgate.search.usage.learning import Learned

PLAIN = Options(
    embedding_wait_s=60, embed_timeout_s=60, clauses=0, server_weight=0, script_gate=False
)
STEPS: Mapping[str, Options] = {
    "words alone": replace(PLAIN, dense_weight=0),
    "meaning alone": replace(PLAIN, dense_weight=1),
    "sum": PLAIN,
    "+ clauses": replace(PLAIN, clauses=Options.clauses),
    "+ server": replace(PLAIN, clauses=Options.clauses, server_weight=Options.server_weight),
    "+ script gate": replace(
        PLAIN, clauses=Options.clauses, server_weight=Options.server_weight, script_gate=True
    ),
}
FOLDS = 5
SHOWN = 10


def measure(quick: bool, folders: Sequence[str] = (), most: int = 300) -> Report:
    """Rank the requests with each step; gives the table.

    Args:
        quick: Few requests.
        folders: A set each, or set+distractors; without any, the one that comes along.
        most: Requests of a set at most.
    """
    sets = [
        _read(folder, 5 * FOLDS if quick else most) for folder in folders or (DATA / "mcpverse",)
    ]
    names = [labelled.name for labelled in sets]
    return Report(
        name="ablation",
        title="R@5: share of the needed tools among the first five",
        rows=[
            {"step": step, **dict(zip(names, recalls, strict=True))}
            for step, recalls in asyncio.run(_table(sets)).items()
        ],
    )


async def _table(sets: Sequence[LabelledSet]) -> dict[str, list[float]]:
    embedder = BundledEmbedder()
    rows: dict[str, list[float]] = {}
    for labelled in sets:
        for step, options in STEPS.items():
            search = await _search(labelled, options, embedder)
            found = [await _ranked(search, question, None) for question in labelled.questions]
            rows.setdefault(step, []).append(_recall(labelled.questions, found))
        search = await _search(labelled, STEPS["+ script gate"], embedder)
        for step, logged in (("+ log of a fifth", 1), ("+ log of four fifths", FOLDS - 1)):
            found = await _with_log(search, labelled, embedder, logged)
            rows.setdefault(step, []).append(_recall(labelled.questions, found))
    return rows


async def _with_log(
    search: HybridSearch, labelled: LabelledSet, embedder: BundledEmbedder, logged: int
) -> list[list[str]]:
    """Each request with a log of `logged` other folds."""
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


def _recall(questions: Iterable[Question], found: Sequence[Sequence[str]]) -> float:
    pairs = zip(questions, found, strict=True)
    return float(np.mean([score_ranking(keys, question.groups)["R@5"] for question, keys in pairs]))


def _read(folder: str | Path, most: int) -> LabelledSet:
    path, *others = str(folder).split("+")
    return read_labelled(Path(path), [Path(path).parent / other for other in others], limit=most)


if __name__ == "__main__":
    parser = parser_of("ablation")
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="a set, or set+distractors")
    parser.add_argument("--most", type=int, default=300, help="requests of a set at most")
    given = parser.parse_args()
    print_measured(given, lambda quick: measure(quick, given.folders, given.most))
