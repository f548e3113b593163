"""How many tokens a discovery answer costs, over the requests of a data set.

    python benchmarks/discovery_tokens.py DATA [--json] [--show ID]

DATA is a folder with `tools.jsonl` (`id server name description input_schema`) and `queries.jsonl`
(`id text`), one JSON object a line. Each request is searched as a caller of `tool_discovery` would
have it, with the default budget and number of results; both forms of the answer are measured, text
and structured JSON, beside the full definitions of the same tools.
"""

import argparse
import json
import statistics
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from toolgate.search import Discovery, SearchableTool, SearchRequest, compose
from toolgate.search.bm25 import Options, build
from toolgate.settings import DiscoverySettings
from toolgate.tokens import estimate_tokens


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def definition_of(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": row["name"],
        "description": row.get("description") or "",
        "inputSchema": row.get("input_schema") or {"type": "object"},
    }


def searchable(row: dict[str, Any]) -> SearchableTool:
    properties = (row.get("input_schema") or {}).get("properties")
    parameters = (
        tuple(
            (name, str(schema.get("description") or "") if isinstance(schema, dict) else "")
            for name, schema in properties.items()
        )
        if isinstance(properties, dict)
        else ()
    )
    return SearchableTool(
        key=f"{row.get('server') or 'tools'}:{row['name']}",
        server=row.get("server") or "tools",
        name=row["name"],
        description=row.get("description") or "",
        parameters=parameters,
    )


async def measure(folder: Path) -> tuple[dict[str, Any], dict[str, Discovery]]:
    rows, queries = read(folder / "tools.jsonl"), read(folder / "queries.jsonl")
    tools = [searchable(row) for row in rows]
    definitions = {tool.key: definition_of(row) for tool, row in zip(tools, rows, strict=True)}
    siblings: dict[str, list[str]] = {}
    for tool in tools:
        siblings.setdefault(tool.server, []).append(tool.name)
    settings = DiscoverySettings()
    search = build(Options())
    await search.update(tools)
    answers: dict[str, Discovery] = {}
    spent: list[float] = []
    full: list[int] = []
    for query in queries:
        started = perf_counter()
        found = await search.search(
            SearchRequest(queries=(query["text"],), limit=settings.max_results)
        )
        answers[query["id"]] = compose(
            found, definitions.__getitem__, siblings=siblings, budget_tokens=settings.budget_tokens
        )
        spent.append((perf_counter() - started) * 1000)
        full.append(estimate_tokens(json.dumps([definitions[hit.key] for hit in found.hits])))
    structured = [
        estimate_tokens(json.dumps(answer.structured(), ensure_ascii=False))
        for answer in answers.values()
    ]
    figures = {
        "tools": len(tools),
        "requests": len(queries),
        "budget_tokens": settings.budget_tokens,
        "text": spread([answer.tokens for answer in answers.values()]),
        "structured": spread(structured),
        "full_definitions": spread(full),
        "milliseconds": spread(spent),
    }
    return figures, answers


def spread(values: list[Any]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered), 2),
        "p95": round(ordered[int(len(ordered) * 0.95)], 2),
        "max": round(ordered[-1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Tokens of discovery answers.")
    parser.add_argument("data", type=Path, help="folder with tools.jsonl and queries.jsonl")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--show", metavar="ID", help="print the answer to one request")
    args = parser.parse_args()
    figures, answers = anyio.run(measure, args.data)
    if args.show:
        print(answers[args.show].text)
    elif args.json:
        print(json.dumps(figures))
    else:
        print(f"{figures['requests']} requests over {figures['tools']} tools, estimated tokens")
        print(f"{'':24}{'median':>10}{'p95':>10}{'max':>10}")
        for row in ("text", "structured", "full_definitions", "milliseconds"):
            print(f"{row:24}" + "".join(f"{value:>10}" for value in figures[row].values()))


if __name__ == "__main__":
    main()
