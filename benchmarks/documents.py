"""Measures time and memory of adding documents and retrieving passages.

    python -m benchmarks.documents [--quick] [--json]

The texts are shuffled sentences of our own documentation; the store is a SQLite file, the model the
bundled one. No chat model is used.
"""

import random
import re
import tempfile
from pathlib import Path
from statistics import quantiles
from time import perf_counter, process_time
from typing import Any

import anyio
import psutil

from benchmarks._report import Report, Target, main
from toolgate.app.app import open_app
from toolgate.documents import SEARCH_TYPES, NewDocument, RetrieveRequest
from toolgate.settings import Settings, StoreSettings
from toolgate.types import Caller

DOCS = Path(__file__).parents[1] / "docs"
SIZES = (1_000, 10_000)
QUESTIONS = 200


def sentences() -> list[str]:
    """Sentences of the documentation."""
    text = "\n".join(page.read_text("utf-8") for page in sorted(DOCS.glob("*.md")))
    found = re.findall(r"[A-Z][a-z][^.|`\n]{30,200}\.", text)
    return sorted(set(found))


async def figures(passages: int, questions: int, folder: Path) -> list[dict[str, Any]]:
    """Rows for each way to search."""
    said, chance = sentences(), random.Random(5)
    settings = Settings(store=StoreSettings(url=f"sqlite:///{folder / f'{passages}.db'}"))
    process, caller = psutil.Process(), Caller.local()
    rows: list[dict[str, Any]] = []
    async with open_app(settings) as app:
        library = app.gateway.documents
        await library.make(caller, "docs")
        before = process.memory_info().rss
        began, cpu = perf_counter(), process_time()
        for number in range(passages // 10):
            text = "\n\n".join(
                f"# Part {part}\n\n{' '.join(chance.choices(said, k=4))}" for part in range(10)
            )
            document = NewDocument(source=f"{number}.md", text=text, sha256=str(number))
            await library.add(caller, "docs", document)
        added_s, added_cpu_s = perf_counter() - began, process_time() - cpu
        asked = [" ".join(chance.choice(said).split()[:8]) for _ in range(questions)]
        for search_type in SEARCH_TYPES:
            walls: list[float] = []
            await app.gateway.documents.retrieve(
                caller, RetrieveRequest(question="warm up", search_type=search_type)
            )
            cpu = process_time()
            for question in asked:
                began = perf_counter()
                await app.gateway.documents.retrieve(
                    caller, RetrieveRequest(question=question, search_type=search_type)
                )
                walls.append((perf_counter() - began) * 1000)
            ranks = quantiles(walls, n=100)
            rows.append(
                {
                    "passages": passages,
                    "search": search_type,
                    "cpu ms": round((process_time() - cpu) * 1000 / questions, 2),
                    "p50 ms": round(ranks[49], 2),
                    "p95 ms": round(ranks[94], 2),
                    "added s": round(added_s, 1),
                    "added cpu s": round(added_cpu_s, 1),
                    "MB more": round((process.memory_info().rss - before) / 2**20, 1),
                }
            )
    return rows


def measure(quick: bool) -> Report:
    """Measure both sizes and return the table."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for passages in (100,) if quick else SIZES:
            rows += anyio.run(figures, passages, 20 if quick else QUESTIONS, Path(folder))
    largest = max(row["passages"] for row in rows)
    hybrid = next(row for row in rows if row["passages"] == largest and row["search"] == "hybrid")
    return Report(
        name="documents",
        title="Finding passages in a SQLite store, without a chat model",
        rows=rows,
        targets=(
            Target(what="hybrid, CPU ms for each question", measured=hybrid["cpu ms"], limit=50),
            Target(what="memory for vectors, MB", measured=hybrid["MB more"], limit=64),
        ),
        notes=("Vectors of up to 64 MB stay in memory (documents.place_options.sqlite).",),
    )


if __name__ == "__main__":
    main("documents", measure)
