# ruff: noqa: SLF001 - a gateway is given a catalog of servers that are not run
"""Measures how search grows with the catalog, from 600 to 1,000,000 tools.

    python -m benchmarks.scale [DATA] [--sizes 600,5000,…] [--vectors FOLDER] [--docs] [--quick]

DATA is a folder with `NAME/tools.jsonl` (and the requests of `mcpverse`); larger catalogs repeat
these tools under other names. Each size runs in its own process, so that its memory can be
measured. A discovery is a `Gateway.discover` with a permission mask that leaves nine tools of ten,
with audit; no request is repeated. Computed vectors are kept in a folder: computing a million takes
ten minutes.

`--docs` writes the growth table and its plot, `docs/growth.md` and `docs/growth.svg`.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from benchmarks._data import DATA
from benchmarks._report import Report, Target, parser_of, print_all, run
from toolgate.app.app import open_app
from toolgate.base.processes.memory import trim
from toolgate.base.signing import Signer
from toolgate.catalog import Catalog, ServerEntries, Snapshot
from toolgate.catalog.changes import changed_lists
from toolgate.catalog.snapshot import build_entries
from toolgate.gateway.gateway import Gateway
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import Experiment, SearchableTool, SearchRequest, ToolIndex, Variant
from toolgate.search.lexical.clauses import clauses_of
from toolgate.search.semantic.first_stage import FIRST_LOOK_FROM
from toolgate.search.semantic.tool_vector_store import ToolVectorStore, VectorCounts, VectorSpace
from toolgate.search.strategies.hybrid import HybridSearch, Options, build
from toolgate.security.access import AllowAll, ResourceSnapshot
from toolgate.settings import Settings, StoreSettings
from toolgate.types import Caller, Json, ServerSpec
from toolgate.upstream import EraBridge, Fleet

SIZES = (600, 5_000, 50_000, 200_000, 1_000_000)
LIMITS_MS = {600: 1.0, 5_000: 3.0, 50_000: 12.0, 200_000: 25.0, 1_000_000: 60.0}
CACHE = Path(tempfile.gettempdir()) / "toolgate-scale"
_DOCS = Path(__file__).resolve().parents[1] / "docs"
_SOURCES = ("mcpverse", "toucan", "stabletoolbench")
_FASTMCP_MOST = 5_000
"""Largest catalog for FastMCP's index, which takes seconds per request for a million tools."""


def measure(
    quick: bool, data: Path = DATA, sizes: Sequence[int] = (), folder: Path = CACHE
) -> Report:
    """Measure each size in its own process and return the table.

    Args:
        quick: Measure the smallest size only.
        data: Folder of the sets that the catalogs are made from.
        sizes: Numbers of tools; by default all.
        folder: Where computed vectors are kept.
    """
    if quick:
        with tempfile.TemporaryDirectory() as empty:
            return _report(data, SIZES[:1], Path(empty))
    folder.mkdir(parents=True, exist_ok=True)
    return _report(data, sizes or SIZES, folder)


def _report(data: Path, sizes: Sequence[int], folder: Path) -> Report:
    rows: list[dict[str, Any]] = []
    for size in sizes:
        print(f"==> {size:,} tools", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "benchmarks.scale", str(data), "--one", str(size)]
        found = subprocess.run(
            [*command, "--vectors", str(folder)],
            check=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        rows.append(json.loads(found.stdout.splitlines()[-1]))
    targets = [
        Target(
            what=f"CPU ms of a discovery, p50, one clause, {row['tools']:,} tools",
            measured=row["CPU ms p50"],
            limit=LIMITS_MS[row["tools"]],
        )
        for row in rows
        if row["tools"] in LIMITS_MS
    ]
    for row in rows:
        if row["tools"] == 1_000_000:
            targets += [
                Target(what="GB resident", measured=row["MB"] / 1024, limit=2.5),
                Target(what="ms of a changed server", measured=row["change ms"], limit=200),
                Target(what="s of a restart", measured=row["restart s"], limit=10),
            ]
    return Report(
        name="scale",
        title="Discoveries over catalogs of many sizes, one thread",
        rows=rows,
        targets=targets,
        notes=(
            "ms are CPU time unless the column says otherwise; MB is the whole process with the "
            "definitions of all tools. Words: index the words of all tools. Vectors: compute those "
            "of all tools, 0 if they were read from the folder. Change: one server gets other "
            "tools, until a search finds them. Restart: build the index from stored words and "
            "vectors. FastMCP: its own index over the same tools in the same run, ranking only. "
            "Loop: 100,000 steps of Python, fastest of ten, to compare machines. Recall: share of "
            "the first ten hits of an exact search over all vectors that are found.",
        ),
    )


# ------------------------------------------------------------------ catalogs


def _servers(data: Path, size: int) -> Iterator[tuple[str, list[Json]]]:
    """Servers with `size` tools in all: the given ones, then the same under other names."""
    given: dict[str, list[Json]] = {}
    paths = {source: data / source / "tools.jsonl" for source in _SOURCES}
    for source, path in paths.items():
        if not path.exists():
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            name = re.sub(r"[^A-Za-z0-9.-]+", "-", row.get("server") or source)[:24].strip("-")
            given.setdefault(name or source, []).append(
                {
                    "name": row["name"],
                    "description": row.get("description") or "",
                    "inputSchema": row.get("input_schema") or {"type": "object"},
                }
            )
    words = _words(given)
    chance = random.Random(7)
    left = size
    for copy in count():
        for server, tools in given.items():
            if left <= 0:
                return
            some = tools[:left]
            if copy:
                one, other = chance.choice(words), chance.choice(words)
                name = f"{server[:14]}-{one[:9]}-{copy}"[:32]
                some = [_renamed(tool, one, other) for tool in some]
            else:
                name = server
            left -= len(some)
            yield name, list({tool["name"]: tool for tool in some}.values())


def _renamed(tool: Json, one: str, other: str) -> Json:
    return {
        **tool,
        "name": f"{tool['name']}_{other}",
        "description": f"{one.capitalize()}: {tool['description']} For {other} of {one}.",
    }


def _words(given: dict[str, list[Json]]) -> list[str]:
    """Frequent words of the descriptions."""
    seen: dict[str, int] = {}
    for tools in given.values():
        for tool in tools:
            for word in set(re.findall(r"[a-z]{4,12}", tool["description"])):
                seen[word] = seen.get(word, 0) + 1
    return sorted(sorted(seen, key=lambda word: (-seen[word], word))[:3_000])


# ------------------------------------------------------------------ parts


class _Fixed(Catalog):
    """A catalog of given servers, which are not run."""

    def put(self, servers: dict[str, ServerEntries]) -> None:
        """Replace the servers, as listing them would."""
        new = Snapshot(self.snapshot.version + 1, servers)
        changed_lists(self.snapshot, new)
        self.snapshot = new


class _Mask(AllowAll):
    """A permission mask that leaves nine tools of ten, kept as long as the tools are the same."""

    def __init__(self) -> None:
        self._version = -1
        self._mask = np.zeros(0, np.bool_)

    def mask(self, caller: Caller, things: ResourceSnapshot) -> Any:
        """The mask for these tools; the same mask for the same tools."""
        del caller
        if things.version != self._version:
            self._version = things.version
            self._mask = np.random.default_rng(3).random(len(things.tools)) < 0.9
        return self._mask


class _Folder(ToolVectorStore):
    """Vectors in one file: a vector store that reads at the speed of memory."""

    notice = ""  # pyright: ignore[reportAssignmentType,reportIncompatibleMethodOverride]

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new: dict[bytes, Any] = {}
        self._linked: dict[str, dict[str, bytes]] = {}
        self.is_whole = path.exists()
        self.hashes, self.rows = np.zeros((0, 2), np.uint64), np.zeros((0, 1), np.float16)
        if self.is_whole:
            with np.load(path) as kept:
                self.hashes, self.rows = kept["hashes"], kept["rows"]

    async def load(
        self, space: VectorSpace, hashes: Sequence[bytes], receive: Callable[..., None]
    ) -> None:
        """Return the stored vectors."""
        del space
        if len(self.rows):
            wanted = np.frombuffer(b"".join(hashes), np.uint64).reshape(-1, 2)
            by_hash = np.argsort(self.hashes[:, 0])
            sorted_hashes = self.hashes[by_hash, 0]
            at = np.minimum(np.searchsorted(sorted_hashes, wanted[:, 0]), len(by_hash) - 1)
            there = np.flatnonzero(sorted_hashes[at] == wanted[:, 0])
            for begin in range(0, len(there), 1 << 15):
                part = there[begin : begin + (1 << 15)]
                receive(part, self.rows[by_hash[at[part]]])

    async def save(self, space: VectorSpace, hashes: Sequence[bytes], rows: Any) -> int:
        """Remember new vectors."""
        del space
        if not self.is_whole:
            self._new.update(zip(hashes, rows, strict=True))
        return len(hashes)

    def write(self) -> None:
        """Write all new vectors to the file."""
        if not self.is_whole and self._new:
            np.savez(
                self._path,
                hashes=np.frombuffer(b"".join(self._new), np.uint64).reshape(-1, 2),
                rows=np.array(list(self._new.values()), np.float16),
            )
            self._new.clear()

    def close(self) -> None:
        """Forget what was read."""
        self.hashes, self.rows = np.zeros((0, 2), np.uint64), np.zeros((0, 1), np.float16)
        self._new.clear()

    async def known(self, space: VectorSpace, hashes: Sequence[bytes]) -> Any:
        """Return all hashes: nothing is stored twice."""
        del space
        return np.ones(len(hashes), np.bool_)

    async def nearest(self, *_: Any, **__: Any) -> list[Any]:
        """Do nothing."""
        return []

    async def settle(self, space: VectorSpace) -> None:
        """Do nothing."""

    async def link(self, project_id: str, server: str, links: Sequence[Any]) -> int:
        """Do nothing."""
        del project_id, server
        return len(links)

    async def links(self, project_id: str) -> dict[str, dict[str, bytes]]:
        """Return no vectors."""
        del project_id
        return {}

    async def unlink(self, project_id: str, server: str) -> int:
        """Do nothing."""
        del project_id, server
        return 0

    async def prune(self, space: VectorSpace | None, *, before: str) -> int:
        """Do nothing."""
        del space, before
        return 0

    async def counts(self, space: VectorSpace, project_id: str) -> VectorCounts:
        """Do nothing."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Requests:
    single: list[str]
    several: list[str]


def _requests(data: Path) -> _Requests:
    """Requests that people wrote, with one clause and with several."""
    found = _Requests([], [])
    for line in (data / "mcpverse" / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["text"]
        (found.several if clauses_of(text, 12) else found.single).append(text)
    return found


# ------------------------------------------------------------------ measuring


async def _measure(data: Path, size: int, folder: Path) -> dict[str, Any]:
    requests = _requests(data)
    entries = {name: build_entries(name, tools=tools) for name, tools in _servers(data, size)}
    with tempfile.TemporaryDirectory() as place:
        settings = Settings(store=StoreSettings(url=f"sqlite:///{place}/store.db"), mode="meta")
        async with open_app(settings) as app:
            return await _measure_in(app.gateway, entries, requests, size, folder, Path(place))


async def _measure_in(
    gateway: Gateway,
    entries: dict[str, ServerEntries],
    requests: _Requests,
    size: int,
    folder: Path,
    place: Path,
) -> dict[str, Any]:
    options = Options(embedding_wait_s=60.0, cached_queries=0, cached_answers=0)
    kept, file = _Folder(folder / f"vectors-{size}.npz"), place / "index"
    strategy = build(options, embedder=BundledEmbedder(), vectors=kept, index_file=file)
    fleet = Fleet(_no_wire, EraBridge(Signer(bytes(32))), completed=_as_configured)
    catalog = _Fixed(fleet, None, project_id="default")
    catalog.put(entries)
    index = ToolIndex(Experiment(main=Variant(name="hybrid", strategy=strategy)))
    for service in (gateway.discovery, gateway.visible):
        service._catalog, service._access, service._index = catalog, _Mask(), index
    gateway.listing.policy._catalog, gateway.listing.policy._index = catalog, index
    snapshot = catalog.snapshot
    began = time.process_time()
    words = build(
        replace(options, dense_weight=0.0, embedding_wait_s=0.0),
        embedder=_Silent(),
        index_file=file,
    )
    await ToolIndex(Experiment(main=Variant(name="words", strategy=words))).update_to(
        1, snapshot.tools
    )
    words_s = time.process_time() - began
    await words.aclose()
    del words
    gc.collect()
    began = time.process_time()
    await gateway.discovery._index.update_to(snapshot.version, snapshot.tools)
    await strategy.ready()
    vectors_s = 0.0 if kept.is_whole else time.process_time() - began
    await strategy.wait_until_saved()  # background work is not part of a search
    await strategy.aclose()
    kept.write()
    kept.close()
    gc.collect()
    trim()
    caller = Caller.local()
    for text in (*requests.single[:20], *requests.several[:4]):
        await gateway.discovery.discover(caller, DiscoverRequest(queries=(f"{text} now",)))
    await gateway.discovery._relations.wait_until_computed(600.0)
    single = await _timed(gateway, caller, requests.single)
    several = await _timed(gateway, caller, requests.several)
    loop_ms = _loop_ms()
    changed_ms = [await _change(gateway, catalog, caller, number) for number in range(5)]
    memory_mb = psutil.Process().memory_info().rss / 2**20
    row = {
        "tools": size,
        "servers": len(entries),
        "CPU ms p50": _at(single, 0, 0.5),
        "p95": _at(single, 0, 0.95),
        "wall ms p50": _at(single, 1, 0.5),
        "several clauses p50": _at(several, 0, 0.5),
        "several p95": _at(several, 0, 0.95),
        "FastMCP p50": _fastmcp_ms(gateway.discovery._index.tools, requests.single),
        "loop ms": loop_ms,
        "MB": round(memory_mb),
        "words s": round(words_s, 2),
        "vectors s": round(vectors_s, 1),
        "change ms": round(median(changed_ms), 1),
        "restart s": await _restarted(snapshot, options, folder, size, file),
        "recall": await _recall(strategy, requests) if size >= FIRST_LOOK_FROM else 1.0,
    }
    await strategy.aclose()
    return row


async def _as_configured(spec: ServerSpec) -> ServerSpec:
    return spec


def _no_wire(spec: ServerSpec) -> Any:
    raise NotImplementedError(spec)


class _Silent(BundledEmbedder):
    """Returns no vectors, so that words alone are measured."""

    @property
    def dim(self) -> int:
        """The width is unknown."""
        raise RuntimeError


async def _timed(
    gateway: Gateway, caller: Caller, texts: Sequence[str]
) -> list[tuple[float, float]]:
    """CPU and wall milliseconds of each request."""
    found: list[tuple[float, float]] = []
    for text in texts:
        request = DiscoverRequest(queries=(text,))
        wall, cpu = time.perf_counter(), time.process_time()
        await gateway.discovery.discover(caller, request)
        spent = (time.process_time() - cpu) * 1000
        found.append((spent, (time.perf_counter() - wall) * 1000))
    return found


def _at(spent: Sequence[tuple[float, float]], which: int, share: float) -> float:
    values = sorted(each[which] for each in spent)
    return round(values[int(len(values) * share)], 3)


def _fastmcp_ms(tools: Sequence[SearchableTool], texts: Sequence[str]) -> float | None:
    """Median CPU milliseconds of FastMCP's index over the same tools; it only ranks."""
    if len(tools) > _FASTMCP_MOST:
        return None
    index = import_module("fastmcp.server.transforms.search.bm25")._BM25Index()
    index.build(
        [
            " ".join(
                (tool.name, tool.description, *(text for pair in tool.parameters for text in pair))
            )
            for tool in tools
        ]
    )
    spent: list[float] = []
    for text in texts:
        cpu = time.process_time()
        index.query(text, 5)
        spent.append((time.process_time() - cpu) * 1000)
    return round(median(spent), 3)


def _loop_ms() -> float:
    """CPU milliseconds of 100,000 steps of Python, the least of ten: the machine's speed today."""
    spent: list[float] = []
    for _ in range(10):
        cpu, found = time.process_time(), {}
        for step in range(100_000):
            found[step & 255] = step
        spent.append((time.process_time() - cpu) * 1000)
    return round(min(spent), 2)


async def _change(gateway: Gateway, catalog: _Fixed, caller: Caller, number: int) -> float:
    """CPU milliseconds until a search covers a changed tool of a server in the middle."""
    servers = dict(catalog.snapshot.servers)
    names = [name for name, entries in servers.items() if entries.tools]
    name = names[len(names) * (number + 1) // 7]
    tools: list[Json] = [
        {"name": f"renewed_{number}_{at}", "description": f"Renewed {number}: {tool.name}."}
        for at, tool in enumerate(servers[name].tools)
    ]
    servers[name] = build_entries(name, tools=tools)
    began = time.process_time()
    catalog.put(servers)
    await gateway.discovery._index.update_to(catalog.snapshot.version, catalog.snapshot.tools)
    spent = (time.process_time() - began) * 1000
    found = await gateway.discovery.discover(
        caller, DiscoverRequest(queries=(f"{name}:{tools[0]['name']}", "renewed"))
    )
    del found
    return spent


async def _restarted(
    snapshot: Snapshot, options: Options, folder: Path, size: int, file: Path
) -> float:
    """CPU seconds until an index of the same tools has all of its vectors again."""
    began = time.process_time()
    kept = _Folder(folder / f"vectors-{size}.npz")
    again = build(options, embedder=BundledEmbedder(), vectors=kept, index_file=file)
    await ToolIndex(Experiment(main=Variant(name="hybrid", strategy=again))).update_to(
        1, snapshot.tools
    )
    await again.ready()
    spent = time.process_time() - began
    await again.aclose()
    return round(spent, 2)


async def _recall(strategy: HybridSearch, requests: _Requests) -> float:
    """Share of the exact first ten, compared with all vectors, that a search finds."""
    texts = requests.single[:40:2] + requests.several[:20:2]
    quick = [await _first_ten(strategy, text) for text in texts]
    state = strategy._state
    assert state.vectors is not None
    strategy._state = replace(state, vectors=replace(state.vectors, heads=None), usual=None)
    exact = [await _first_ten(strategy, text) for text in texts]
    strategy._state = state
    shares = [len(a & b) / max(1, len(b)) for a, b in zip(quick, exact, strict=True)]
    return round(sum(shares) / len(shares), 4)


async def _first_ten(strategy: HybridSearch, text: str) -> set[str]:
    answer = await strategy.search(SearchRequest(queries=(text,), limit=10))
    return {hit.key for hit in answer.hits}


# ------------------------------------------------------------------ docs


def _write_docs(report: Report) -> None:
    names = list(report.rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---:|" * len(names)]
    lines += ["| " + " | ".join(_shown(row[name]) for name in names) + " |" for row in report.rows]
    machine = f"{os.cpu_count()} cores, load {report.load[0]} to {report.load[1]}"
    text = f"""# Scaling with the catalog

{chr(10).join(lines)}

![Milliseconds per discovery by number of tools](growth.svg)

Made by `make scale DATA=FOLDER` ({machine}; `–`: not measured). {report.notes[0]}
"""
    (_DOCS / "growth.md").write_text(text, encoding="utf-8")
    (_DOCS / "growth.svg").write_text(_plot(report.rows), encoding="utf-8")


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _plot(rows: Sequence[Any]) -> str:
    """Plot with logarithmic axes."""
    left, top, wide, high = 60, 20, 560, 300
    x0, x1, y0, y1 = 2.5, 6.2, -0.5, 2.5

    def x(tools: float) -> float:
        return left + (np.log10(tools) - x0) / (x1 - x0) * wide

    def y(ms: float) -> float:
        return top + high - (np.log10(ms) - y0) / (y1 - y0) * high

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + 170} '
        f'{top + high + 50}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    parts += [
        f'<line x1="{x(tools):.1f}" y1="{top}" x2="{x(tools):.1f}" y2="{top + high}" '
        f'stroke="#ddd"/><text x="{x(tools):.1f}" y="{top + high + 18}" '
        f'text-anchor="middle">{tools:,}</text>'
        for tools in (1_000, 10_000, 100_000, 1_000_000)
    ]
    parts += [
        f'<line x1="{left}" y1="{y(ms):.1f}" x2="{left + wide}" y2="{y(ms):.1f}" '
        f'stroke="#ddd"/><text x="{left - 8}" y="{y(ms) + 4:.1f}" '
        f'text-anchor="end">{ms} ms</text>'
        for ms in (1, 10, 100)
    ]
    series = (
        ("one clause, p50", "CPU ms p50", "#1f77b4", ""),
        ("one clause, p95", "p95", "#1f77b4", "4 3"),
        ("several clauses, p50", "several clauses p50", "#d62728", ""),
        ("several clauses, p95", "several p95", "#d62728", "4 3"),
    )
    for label, name, colour, dash in series:
        points = [(row["tools"], row[name]) for row in rows]
        parts += _line(label, points, colour, dash, x, y)
    parts += _line("aim", list(LIMITS_MS.items()), "#7f7f7f", "1 3", x, y)
    middle = left + wide / 2
    parts.append(
        f'<text x="{middle}" y="{top + high + 40}" text-anchor="middle">tools</text></svg>'
    )
    return "\n".join(parts) + "\n"


def _line(
    label: str,
    points: Sequence[tuple[float, float]],
    colour: str,
    dash: str,
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> list[str]:
    path = " ".join(f"{x(tools):.1f},{y(ms):.1f}" for tools, ms in points)
    tools, ms = points[-1]
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
        f'stroke-dasharray="{dash}"/>',
        f'<text x="{x(tools) + 8:.1f}" y="{y(ms) + 4:.1f}" fill="{colour}">{label}</text>',
    ]


if __name__ == "__main__":
    parser = parser_of("scale")
    parser.add_argument("data", nargs="?", type=Path, default=DATA, metavar="DATA")
    parser.add_argument("--sizes", default="", help="numbers of tools, separated by commas")
    parser.add_argument("--vectors", type=Path, default=CACHE, help="where vectors are kept")
    parser.add_argument("--docs", action="store_true", help="write docs/growth.md and its plot")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    chosen = [int(size) for size in given.sizes.split(",") if size]
    if given.one:
        print(json.dumps(asyncio.run(_measure(given.data, given.one, given.vectors))))
    else:
        report = run(
            lambda quick: measure(quick, given.data, chosen, given.vectors), quick=given.quick
        )
        print_all([lambda: report], as_json=given.json)
        if given.docs:
            _write_docs(report)
