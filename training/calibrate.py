"""Fits the relevance of the hybrid search: `python -m training.calibrate --data FOLDER`.

Writes `src/toolgate/search/_relevance.json`. Only train parts are read: requests of metatool over
their catalog, where the labels say which hits help; the same requests with the tools that they need
taken away, and everyday requests of clinc150 over several catalogs, where none does. `--check`
prints how the fitted numbers do on rows that were not used: reliability, false alarms, notices.
"""

import argparse
import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolgate.cli._measure import Labelled, Question, read_labelled
from toolgate.embed.bundled import MODEL, BundledEmbedder
from toolgate.search import Hit, SearchableTool, SearchRequest
from toolgate.search.hybrid import HybridSearch, Options

OUT = Path(__file__).parents[1] / "src" / "toolgate" / "search" / "_relevance.json"
PATIENT = Options(wait_s=60, embed_timeout_s=60)
FALSE_ALARMS = 0.05
"""Share of requests that the catalog serves which may get the notice."""
NAMES = ("bias", "cosine")


def main() -> None:
    """Fit, or check."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of tools/ and intents/")
    parser.add_argument("--model", type=Path, default=MODEL, help="table of the embedder")
    parser.add_argument("--most", type=int, default=1_000, help="requests of a set at most")
    parser.add_argument("--check", action="store_true", help="only report on rows not used")
    given = parser.parse_args()
    embedder = BundledEmbedder(given.model)
    if given.check:
        asyncio.run(check(given.data, embedder, given.most))
    else:
        asyncio.run(fit(given.data, embedder, given.most))


async def fit(data: Path, embedder: BundledEmbedder, most: int) -> None:
    """Write the file."""
    sets = data / "tools"
    served = read_labelled(sets / "metatool", split="train", most=most)
    everyday = _everyday(data, "train", most)
    good = await _found(served, embedder)
    removed = await _found(_without_needed(served), embedder, labels=False)
    more = [
        hits
        for other in ("toucan", "stabletoolbench")
        for hits in await _found(
            read_labelled(sets / "metatool", [sets / other], split="train", most=most), embedder
        )
    ]
    nothing: list[list[Row]] = []
    for name in ("metatool", "mcpverse", "stabletoolbench"):
        catalog = replace(read_labelled(sets / name), questions=everyday)
        nothing += await _found(catalog, embedder, labels=False)
    weights = _logistic(
        [(good, 1.0), (more, 1.0), (removed, 0.3), (nothing, 0.3 * len(good) / len(nothing))]
    )
    best = sorted(hits[0][0]["cosine"] for hits in good if hits)
    cut = best[int(len(best) * FALSE_ALARMS)]
    source = f"python -m training.calibrate; metatool train, clinc150 train; {embedder.identity}"
    made = {"source": source, **weights, "cut": round(cut, 4)}
    OUT.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    print(OUT.read_text(encoding="utf-8"))


async def check(data: Path, embedder: BundledEmbedder, most: int) -> None:
    """Print reliability and the notice on rows that were not used for fitting."""
    sets = data / "tools"
    everyday = _everyday(data, "test", most)
    print(f"{'set':22}{'requests':>9}{'ECE':>8}{'false alarms':>14}{'notice, clinc150':>18}")
    for name, more in (
        ("mcpverse", ()),
        ("mcpverse", (sets / "toucan",)),
        ("metatool", ()),
        ("metatool_multi", ()),
        ("stabletoolbench", ()),
    ):
        served = read_labelled(sets / name, more, most=most)
        search = await _search(served.tools, embedder)
        pairs: list[tuple[float, bool]] = []
        alarms: list[bool] = []
        for question in served.questions:
            hits = await _hits(search, question)
            needed = frozenset[str]().union(*question.groups)
            pairs += [(hit.relevance, hit.key in needed) for hit in hits]
            alarms.append(not hits or _is_weak(hits[0]))
        noticed: list[bool] = []
        for question in everyday:
            hits = await _hits(search, question)
            noticed.append(not hits or _is_weak(hits[0]))
        print(
            f"{served.name:22}{len(served.questions):9}{_error(pairs):8.3f}"
            f"{np.mean(alarms):14.3f}{np.mean(noticed):18.3f}",
            flush=True,
        )


def _is_weak(hit: Hit) -> bool:
    return bool(hit.fields.get("weak"))


def _error(pairs: Sequence[tuple[float, bool]]) -> float:
    """Expected calibration error over ten bins."""
    said = np.array([relevance for relevance, _ in pairs])
    true = np.array([helps for _, helps in pairs], float)
    bins = np.minimum((said * 10).astype(int), 9)
    return float(
        sum(
            abs(said[bins == each].mean() - true[bins == each].mean()) * (bins == each).mean()
            for each in np.unique(bins)
        )
    )


def _everyday(data: Path, split: str, most: int) -> tuple[Question, ...]:
    lines = (data / "intents" / "clinc150.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == split and not row["oos"]]
    rows = [rows[at * len(rows) // most] for at in range(most)] if len(rows) > most else rows
    return tuple(Question(id=row["id"], text=row["text"], groups=()) for row in rows)


def _without_needed(labelled: Labelled) -> Labelled:
    """Every third tool taken away, and the requests that need nothing else."""
    gone = {tool.key for tool in labelled.tools[::3]}
    return replace(
        labelled,
        tools=tuple(tool for tool in labelled.tools if tool.key not in gone),
        questions=tuple(
            question
            for question in labelled.questions
            if frozenset[str]().union(*question.groups) <= gone
        ),
    )


async def _search(tools: Iterable[SearchableTool], embedder: BundledEmbedder) -> HybridSearch:
    search = HybridSearch(PATIENT, embedder)
    await search.update(tuple(tools))
    await search.ready()
    return search


async def _hits(search: HybridSearch, question: Question) -> list[Hit]:
    answer = await search.search(SearchRequest(queries=(question.text,), limit=10))
    return [hit for hit in answer.hits if hit.source != "exact"]


Row = tuple[dict[str, float], bool]


async def _found(
    labelled: Labelled, embedder: BundledEmbedder, *, labels: bool = True
) -> list[list[Row]]:
    """The evidence of each hit and whether it helps, by request."""
    search = await _search(labelled.tools, embedder)
    found: list[list[Row]] = []
    for question in labelled.questions:
        needed = frozenset[str]().union(*question.groups) if labels else frozenset[str]()
        found.append(
            [
                (_evidence(hit), hit.key in needed)
                for hit in await _hits(search, question)
                if hit.fields["cosine"] is not None
            ]
        )
    return found


def _evidence(hit: Hit) -> dict[str, float]:
    return {
        "bias": 1.0,
        "cosine": hit.fields["cosine"],
    }


def _logistic(parts: Sequence[tuple[Sequence[Sequence[Row]], float]]) -> dict[str, float]:
    """Weights of a logistic regression, by Newton's method with a little ridge."""
    pairs = [(*pair, weight) for rows, weight in parts for hits in rows for pair in hits]
    x = np.array([[evidence[name] for name in NAMES] for evidence, _, _ in pairs])
    y = np.array([helps for _, helps, _ in pairs], float)
    share = np.array([weight for _, _, weight in pairs])
    weights: NDArray[np.float64] = np.zeros(len(NAMES))
    for _ in range(50):
        p = 1 / (1 + np.exp(-(x @ weights)))
        slope = x.T @ (share * (y - p)) - 0.01 * weights
        curve = (x * (share * p * (1 - p))[:, None]).T @ x + 0.01 * np.eye(len(NAMES))
        step = np.linalg.solve(curve, slope)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return {name: round(float(w), 4) for name, w in zip(NAMES, weights, strict=True)}


if __name__ == "__main__":
    main()
