"""`toolgate eval`: measure search, intent detection and answers on labeled data."""

import json
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Annotated, Any

import anyio
import typer

from toolgate.app.factories.search import Strategies
from toolgate.base.installation import install_hint
from toolgate.cli.evaluation._answers import answers
from toolgate.cli.evaluation._intents import intents
from toolgate.cli.evaluation._own_requests import read_own_requests
from toolgate.cli.evaluation._save_results import save_metrics
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._context import shared_options
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_table
from toolgate.errors import ArgumentError
from toolgate.evaluation.search_metrics import (
    METRICS,
    LabelledSet,
    mean_of,
    precision_by_rank,
    read_labelled,
    score_notices,
    score_ranking,
)
from toolgate.search import Fit, SearchableTool, SearchRequest, SearchStrategy, end, ready
from toolgate.settings import Settings, load

app = CommandApp()
app.command()(answers)
app.command()(intents)

_DEPTH = 20
"""Hits evaluated for each request: the largest k of the reported metrics."""
_HEADINGS = (
    *("set", "search", "tools", "requests", *METRICS),
    *("none+", "none-", "ms p50", "ms p95"),
)
_SAVED_METRICS = ("R@5", "R@1", "C@10", "MRR", "any@5")
"""Metrics that the console shows over time, most important first."""


@app.callback()
def group() -> None:
    """Measure the quality of search, intent detection and answers."""


OwnRequests = Annotated[
    bool,
    typer.Option(
        "--mine",
        help="Also use your own requests from the usage log that led to successful calls.",
    ),
]


@app.command()
def tools(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR...]", help="Folders with labeled requests."),
    ] = None,
    distractors: Annotated[
        list[Path] | None,
        typer.Option(
            "--with", metavar="DIR", help="Also search the tools in this folder. Can be repeated."
        ),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Search strategy instead of the configured one: bm25, hybrid, cloud, llm.",
        ),
    ] = "",
    rankings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the rankings to FILE, one line of JSON per request."
        ),
    ] = None,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Also score FastMCP's search index.")
    ] = False,
    split: Annotated[str, typer.Option(help="Use only requests in this split.")] = "test",
    limit: Annotated[
        int,
        typer.Option(
            min=0, help="Maximum number of requests per folder, evenly sampled; 0 for all."
        ),
    ] = 0,
    own_requests: OwnRequests = False,
    as_json: AsJson = False,
) -> int:
    """Run labeled requests through the search and measure how many of the needed tools it finds.

    A folder contains tools.jsonl (id, server, name, description, input_schema) and queries.jsonl
    (id, text, relevant: ids of the needed tools). Each request is one search. "relevant": [] means
    that no tool can handle the request.

    R@k: share of the needed tools found in the first k results. C@10: share of requests with all
    needed tools in the first 10. any@5: share of requests with at least one needed tool in the
    first 5. ms: CPU time. The JSON output also has precision: for each rank up to 10, the share of
    requests with a needed tool at that rank.

    none+ and none-: share of requests for which the search reported that nothing fits, among
    requests that a tool can handle (false alarms) and among all others.

    The strategies cloud and llm use the settings search.options.cloud and search.options.llm.
    Fallbacks to another strategy are reported ("fallbacks" in JSON). The Evaluation page of the
    console shows the results over time.
    """
    settings = load(shared_options().config, shared_options().imports)
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    if not folders and not own_requests:
        raise ArgumentError(
            "There is nothing to measure.", hint="Give folders with labeled requests, or --mine."
        )
    if rankings is not None:
        _write(rankings, ())
    sets = [
        read_labelled(folder, distractors or (), split=split, limit=limit)
        for folder in folders or ()
    ]
    if own_requests:
        sets.append(anyio.run(partial(read_own_requests, settings, limit=limit)))
    for labeled in sets:
        if not labeled.questions:
            note(f"{labeled.name} has no request of the split {split!r}.")
            continue
        scored, written = anyio.run(_score, labeled, settings, strategy)
        rows.append(scored)
        lines += written
        if baseline:
            beside = _baseline(labeled)
            rows += [beside] if beside else []
    if rankings is not None:
        _write(rankings, lines)
    _save(rows)
    if as_json:
        print_json(rows)
    else:
        print_table(_HEADINGS, [_cells(row) for row in rows])
    return SUCCESS if rows else NO_RESULT


def _save(rows: Sequence[dict[str, Any]]) -> None:
    save_metrics(
        "tools",
        [
            (
                "mine" if row["set"].startswith("mine ") else row["set"],
                row["search"],
                row["requests"],
                {name: row[name] for name in _SAVED_METRICS},
            )
            for row in rows
            if row["R@5"] is not None
        ],
    )


def _write(path: Path, lines: Sequence[str]) -> None:
    """Write lines to a file; without lines, check that it can be written."""
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise ArgumentError(
            f"{path} cannot be written: {error.strerror}.",
            hint="Choose another file for --rankings, in an existing folder.",
        ) from error


async def _score(
    labeled: LabelledSet, settings: Settings, name: str
) -> tuple[dict[str, Any], list[str]]:
    """Return metrics and rankings of a search strategy on a set."""
    strategies = Strategies(settings.search, {})
    selector = "" if name else settings.search.selector
    name = name or settings.optimization
    search = strategies.make(name, selector=selector, setting="--strategy")
    try:
        await search.update(labeled.tools)
        await ready(search)
        return await _measure_searches(search, labeled, f"{name}+{selector}" if selector else name)
    finally:
        await end(search)
        await strategies.aclose()


async def _measure_searches(
    search: SearchStrategy, labeled: LabelledSet, name: str
) -> tuple[dict[str, Any], list[str]]:
    fallbacks: list[str] = []
    rankings: list[list[str]] = []
    fits: list[Fit] = []
    spent: list[float] = []
    lines: list[str] = []
    for question in labeled.questions:
        request = SearchRequest(queries=(question.text,), limit=_DEPTH)
        began, worked = perf_counter(), process_time()
        answer = await search.search(request)
        spent.append((process_time() - worked) * 1000)
        waited = (perf_counter() - began) * 1000
        ranked = [hit.key for hit in answer.hits]
        rankings.append(ranked)
        fits.append(answer.fit)
        line = {
            "query": question.id,
            "tools": ranked,
            "fit": answer.fit,
            "latency_ms": round(waited, 3),
        }
        lines.append(json.dumps(line, ensure_ascii=False))
        fallbacks += [answer.fallback] if answer.fallback else []
    if fallbacks:
        note(
            f"{labeled.name}: another search answered {len(fallbacks)} of"
            f" {len(labeled.questions)} requests ({fallbacks[-1]})."
        )
    notices = score_notices(fits, labeled.questions)
    return {
        **_row(labeled, name, rankings, spent),
        **notices,
        "fallbacks": len(fallbacks),
    }, lines


def _baseline(labeled: LabelledSet) -> dict[str, Any] | None:
    """Return metrics of the index that FastMCP's search transform uses."""
    try:
        module = import_module("fastmcp.server.transforms.search.bm25")
    except ModuleNotFoundError:
        note(f"The baseline needs FastMCP, which is not installed. {install_hint('fastmcp')}")
        return None
    index = module._BM25Index()  # noqa: SLF001 - there is no public API to rank texts
    index.build([_text(tool) for tool in labeled.tools])
    rankings: list[list[str]] = []
    spent: list[float] = []
    for question in labeled.questions:
        worked = process_time()
        places: list[int] = index.query(question.text, 50)
        spent.append((process_time() - worked) * 1000)
        rankings.append([labeled.tools[at].key for at in places])
    return _row(labeled, "FastMCP", rankings, spent)


def _text(tool: SearchableTool) -> str:
    """Return the text that FastMCP indexes of a tool."""
    parameters = (text for pair in tool.parameters for text in pair)
    return " ".join(filter(None, (tool.name, tool.description, *parameters)))


def _row(
    labeled: LabelledSet, name: str, rankings: Sequence[Sequence[str]], spent: Sequence[float]
) -> dict[str, Any]:
    served = [
        (ranked, question)
        for ranked, question in zip(rankings, labeled.questions, strict=True)
        if question.groups
    ]
    scores = [score_ranking(ranked, question.groups) for ranked, question in served]
    # Without a request that a tool serves there is no ranking, only the "nothing fits" notices.
    means = mean_of(scores) if scores else dict.fromkeys(METRICS)
    precision = (
        precision_by_rank([ranked for ranked, _ in served], [question for _, question in served])
        if served
        else []
    )
    return {
        "set": labeled.name,
        "search": name,
        "tools": len(labeled.tools),
        "requests": len(labeled.questions),
        **{metric: None if value is None else round(value, 4) for metric, value in means.items()},
        "precision": precision,
        "ms p50": round(median(spent), 3),
        "ms p95": round(sorted(spent)[int(len(spent) * 0.95)], 3),
    }


def _cells(row: dict[str, Any]) -> list[str]:
    names = (row["set"], row["search"], str(row["tools"]), str(row["requests"]))
    times = (f"{row[name]:.2f}" for name in ("ms p50", "ms p95"))
    metrics = (row.get(metric) for metric in (*METRICS, "none_served", "none_unserved"))
    return [*names, *("-" if value is None else f"{value:.3f}" for value in metrics), *times]
