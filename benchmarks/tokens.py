"""Measures how many tokens the answers of `tool_discovery` cost over a data set.

    python -m benchmarks.tokens [DATA] [--quick] [--json] [--show ID]

DATA is a folder with `tools.jsonl` (`id server name description input_schema`) and `queries.jsonl`
(`id text`), one JSON object per line; by default, 216 requests by people from `data/mcpverse`. Each
request is searched as `tool_discovery` does for a caller, with the default budget and number of
results. Both forms of the answer are measured, text and structured JSON, next to the full
definitions of the same tools. `--show` prints the answer to one request.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Any

import anyio

from benchmarks._data import DATA, read_rows
from benchmarks._report import Report, Target, parser_of, print_measured
from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.evaluation.search_metrics import tool_of
from toolgate.search import Discovery, SearchRequest, compose
from toolgate.search.strategies.bm25 import Options, build
from toolgate.settings import DiscoverySettings

Row = dict[str, Any]
SETTINGS = DiscoverySettings()
REQUESTS = DATA / "mcpverse"
QUICK_REQUESTS = 20


def measure(quick: bool, folder: Path = REQUESTS) -> Report:
    """Ask every request once and return the table."""
    tools, queries = read_rows(folder / "tools.jsonl"), read_rows(folder / "queries.jsonl")
    return anyio.run(_measure, tools, queries[:QUICK_REQUESTS] if quick else queries)


async def _measure(tools: list[Row], queries: list[Row]) -> Report:
    answers = [answer async for answer in _answers(tools, queries)]
    definitions = {_key(row): _definition(row) for row in tools}
    tokens = [answer.tokens for answer in answers]
    structured = [
        estimate_tokens(json.dumps(answer.structured(), ensure_ascii=False)) for answer in answers
    ]
    full = [
        estimate_tokens(json.dumps([definitions[result.tool_key] for result in answer.results]))
        for answer in answers
    ]
    return Report(
        name="tokens",
        title=f"{len(queries)} requests over {len(tools)} tools",
        rows=[
            {"estimated tokens of": "the answer", **_spread(tokens)},
            {"estimated tokens of": "the same, structured", **_spread(structured)},
            {"estimated tokens of": "full definitions of the same tools", **_spread(full)},
        ],
        targets=(
            Target(what="tokens, median", measured=median(tokens), limit=700),
            Target(what="tokens, largest", measured=max(tokens), limit=1000),
        ),
        notes=(f"The budget of an answer is {SETTINGS.budget_tokens} tokens.",),
    )


async def _answers(tools: list[Row], queries: list[Row]) -> AsyncIterator[Discovery]:
    """The answer to each request."""
    definitions = {_key(row): json_text.dumps(_definition(row)) for row in tools}
    siblings: dict[str, list[str]] = {}
    for row in tools:
        siblings.setdefault(_server(row), []).append(row["name"])
    search = build(Options())
    await search.update([tool_of({**row, "id": _key(row)}, "tools.jsonl") for row in tools])
    for query in queries:
        request = SearchRequest(queries=(query["text"],), limit=SETTINGS.max_results)
        yield compose(
            await search.search(request),
            definitions.__getitem__,
            siblings=siblings,
            budget_tokens=SETTINGS.budget_tokens,
        )


def _server(row: Row) -> str:
    return row.get("server") or "tools"


def _key(row: Row) -> str:
    return f"{_server(row)}:{row['name']}"


def _definition(row: Row) -> Row:
    return {
        "name": row["name"],
        "description": row.get("description") or "",
        "inputSchema": row.get("input_schema") or {"type": "object"},
    }


def _spread(values: list[int]) -> dict[str, float]:
    return {
        "median": median(values),
        "p95": sorted(values)[int(len(values) * 0.95)],
        "max": max(values),
    }


def _print_answer(folder: Path, request_id: str) -> None:
    queries = [row for row in read_rows(folder / "queries.jsonl") if row["id"] == request_id]

    async def show() -> None:
        async for answer in _answers(read_rows(folder / "tools.jsonl"), queries):
            print(answer.text)

    anyio.run(show)


if __name__ == "__main__":
    parser = parser_of("tokens")
    parser.add_argument("data", nargs="?", type=Path, default=REQUESTS, metavar="DATA")
    parser.add_argument("--show", metavar="ID", help="print the answer to one request")
    given = parser.parse_args()
    if given.show:
        _print_answer(given.data, given.show)
    else:
        print_measured(given, lambda quick: measure(quick, given.data))
