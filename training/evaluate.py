"""Measures a model's worth for tool search: `python -m training.evaluate FILE FOLDER ...`.

A folder holds `tools.jsonl` and `queries.jsonl`; `FOLDER+OTHER` adds the tools of its sibling OTHER
whose names are not in FOLDER. Only requests marked `test` are asked, `--most` of them evenly
spaced. Prints R@1, R@5 and R@10 (share of the needed tools among the first 1, 5, 10) of the cosine
alone, of BM25 alone (the library bm25s, Lucene's formula) and of .6 x cosine + .4 x BM25.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import bm25s
import numpy as np
import Stemmer
from numpy.typing import NDArray

from toolgate.models.embedders._vector_table import VectorTable, read_table
from training.corpus import parameters, rows, spoken, tool_text

COUNTS = (1, 5, 10)
"""Number of first tools that are examined."""


def main() -> None:
    """Print a row for each folder and way of ranking."""
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--most", type=int, default=1000)
    args = parser.parse_args()
    began = perf_counter()
    table = read_table(args.model)
    print(f"{table.name}: read in {1000 * (perf_counter() - began):.0f} ms")
    for folder in args.folders:
        tools, requests = load(folder, args.most)
        found, pace_ms = ranks(table, tools, requests)
        print(f"{folder.name}: {len(tools)} tools, {len(requests)} requests, {pace_ms:.3f} ms each")
        for way, shares in found.items():
            values = "  ".join(
                f"R@{k} {share:.3f}" for k, share in zip(COUNTS, shares, strict=True)
            )
            print(f"  {way:8} {values}", flush=True)


def load(folder: Path, most: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Tools and test requests of `FOLDER` or `FOLDER+OTHER`."""
    name, *others = folder.name.split("+")
    tools = [*rows(folder.parent / name / "tools.jsonl")]
    taken = {_plain(tool["name"]) for tool in tools}
    for other in others:
        more = rows(folder.parent / other / "tools.jsonl")
        tools += [tool for tool in more if _plain(tool["name"]) not in taken]
    requests = [r for r in rows(folder.parent / name / "queries.jsonl") if r["split"] == "test"]
    if len(requests) > most:
        requests = [requests[i * len(requests) // most] for i in range(most)]
    return tools, requests


def ranks(
    table: VectorTable, tools: Sequence[dict[str, Any]], requests: Sequence[dict[str, Any]]
) -> tuple[dict[str, NDArray[np.float64]], float]:
    """R@1, R@5 and R@10 by way of ranking, and the median milliseconds to embed a request."""
    vectors = np.stack([table.vector(tool_text(tool)) for tool in tools])
    words = _Words(tools)
    numbers = {tool["id"]: number for number, tool in enumerate(tools)}
    shares: dict[str, list[list[float]]] = {"cosine": [], "words": [], "sum .6": []}
    spent = []
    for request in requests:
        began = perf_counter()
        asked = table.vector(request["text"])
        spent.append(perf_counter() - began)
        cosine, lexical = vectors @ asked, words.scores(request["text"])
        both = 0.6 * _above_mean(cosine) + 0.4 * lexical / max(float(lexical.max()), 1e-9)
        needed = request.get("groups") or [[tool] for tool in request["relevant"]]
        groups = [{numbers[tool] for tool in group} for group in needed]
        for way, scores in zip(shares, (cosine, lexical, both), strict=True):
            first = np.argsort(-scores, kind="stable")[: max(COUNTS)].tolist()
            shares[way].append(
                [sum(bool(g.intersection(first[:k])) for g in groups) / len(groups) for k in COUNTS]
            )
    means = {way: np.mean(np.array(values), axis=0) for way, values in shares.items()}
    return means, 1000 * float(np.median(spent))


class _Words:
    def __init__(self, tools: Sequence[dict[str, Any]]) -> None:
        self._stem = Stemmer.Stemmer("english").stemWords
        self._index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        texts = [
            f"{tool_text(tool)} {' '.join(f'{name} {text}' for name, text in parameters(tool))}"
            for tool in tools
        ]
        self._index.index([self._cut(text) or ["_"] for text in texts], show_progress=False)
        self._count = len(tools)

    def scores(self, text: str) -> NDArray[np.float32]:
        known = [word for word in self._cut(text) if word in self._index.vocab_dict]
        return self._index.get_scores(known) if known else np.zeros(self._count, np.float32)

    def _cut(self, text: str) -> list[str]:
        return self._stem(re.findall(r"[a-z0-9]{2,}|[\u4e00-\u9fff]", spoken(text).lower()))


def _above_mean(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    low, high = float(scores.mean()), float(scores.max())
    return np.maximum(scores - low, 0) / max(high - low, 1e-9)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


if __name__ == "__main__":
    main()
