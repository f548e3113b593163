"""Clients that search tools themselves: what each kind of list costs until a tool is usable.

    python -m benchmarks.client_search [--quick] [--json]

Such clients leave the definitions of a server's tools out until their model looks for one. Either
the meta-tools are listed, so that the model finds these, searches with `tool_discovery` and runs
`tool_execute`; or the real tools, so that it picks one by name (Claude Code, Cursor) or searches
their texts. Tokens are those of names, searched definitions and answers up to the first call of a
conversation. The search of texts is BM25 over name, description and parameters as in Codex, for
the five (Claude Code) or eight (Codex) best; a search that does not find the tool is made once
more. Requests are the English half of `data/phrases.jsonl` that nothing was fitted on, each over
the tools of some of 37 servers. Whether a model picks the right name is not measured.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import anyio
import bm25s

from benchmarks._data import PHRASES, REAL_TOOLS, read_rows
from benchmarks._phrases import real_tools
from benchmarks._report import Report, Target, main
from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.catalog import ServerEntries, build_entries
from toolgate.catalog.tools_list import SHORT_TOKENS, short_tokens, shortened
from toolgate.gateway.meta_tools import DEFINITIONS
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchRequest, compose
from toolgate.search.strategies.hybrid import HybridSearch, Options
from toolgate.settings import DiscoverySettings
from toolgate.types import Json

SERVERS = (1, 2, 3, 8, 20, 37)
"""Servers of the catalogs."""
CATALOGS = 16
"""Random catalogs of up to three servers each, where the rule decides; one of each larger size."""
FIRST_SEED = 1000
"""The limit in catalog/tools_list.py was chosen by catalogs with other seeds, and lowered once by
one of these."""
SETTINGS = DiscoverySettings()
_META = ("tool_discovery", "tool_describe", "tool_execute", "tool_read", "tool_program")
_NEEDED = ("tool_discovery", "tool_execute")
_PREFIX = "mcp__toolgate__"

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Estimated tokens up to the first call, by way, averaged over the requests of a catalog."""

    tools: int
    definitions: int
    names: int
    short: int
    """Names and a definition of average size, by which `auto` decides."""

    meta: float
    by_name: float
    five: float
    eight: float
    meta_found: float
    five_found: float
    eight_found: float


def measure(quick: bool) -> Report:
    """Ask every request over each catalog; gives the table."""
    return anyio.run(_measure, quick)


async def _measure(quick: bool) -> Report:
    rows: list[Row] = []
    listed: list[float] = []
    searched: list[float] = []
    catalogs_each = 4 if quick else CATALOGS
    for count in SERVERS[:3] if quick else SERVERS:
        seeds = range(FIRST_SEED, FIRST_SEED + (catalogs_each if count <= 3 else 1))
        catalogs = [await _costs(count, seed) for seed in seeds]
        measured = [costs for costs in catalogs if costs is not None]
        large = [costs for costs in measured if costs.definitions > SETTINGS.auto_tokens]
        listed += [c.by_name / c.meta for c in large if c.short <= SHORT_TOKENS]
        searched += [c.meta / c.by_name for c in large if c.short > SHORT_TOKENS]
        rows.append(
            {
                "servers": count,
                "tools": fmean(c.tools for c in measured),
                "names": fmean(c.names for c in measured),
                "meta-tools": fmean(c.meta for c in measured),
                "found": fmean(c.meta_found for c in measured),
                "tools by name": fmean(c.by_name for c in measured),
                "tools, best 5": fmean(c.five for c in measured),
                "found in 5": fmean(c.five_found for c in measured),
                "Codex, best 8": fmean(c.eight for c in measured),
                "found in 8": fmean(c.eight_found for c in measured),
            }
        )
    return Report(
        name="client_search",
        title="estimated tokens up to the first call of a client that searches tools itself",
        rows=rows,
        targets=(
            Target(
                what="by name over meta-tools, catalogs whose tools auto lists, largest",
                measured=max(listed, default=0.0),
                limit=1.0,
            ),
            Target(
                what="meta-tools over by name, the other catalogs, mean",
                measured=fmean(searched),
                limit=1.0,
            ),
        ),
        notes=(
            f"auto lists the tools while their names and one definition cost at most "
            f"{SHORT_TOKENS} tokens: in "
            f"{len(listed)} of {len(listed) + len(searched)} catalogs whose definitions cost more "
            f"than {SETTINGS.auto_tokens} tokens.",
        ),
    )


async def _costs(count: int, seed: int) -> Costs | None:
    catalog = _catalog(count, seed)
    keys = [tool.key for tool in catalog.tools]
    requests = [
        row
        for row in read_rows(PHRASES)
        if row["split"] == "held-out" and row["language"] == "en"
        if set(row.get("relevant", ())) & set(keys)
    ]
    if not requests:
        return None
    answers = await _discoveries(catalog, requests)
    definitions = {tool.key: shortened(tool.raw) for tool in catalog.tools}
    names = catalog.name_tokens
    meta_names = sum(estimate_tokens(_PREFIX + name) for name in _META)
    meta = meta_names + sum(_tokens(DEFINITIONS[name]) for name in _NEEDED)
    five, five_found = _searches(definitions, requests, 5)
    eight, eight_found = _searches(definitions, requests, 8)
    found = fmean(is_found for _, is_found in answers)
    # By name, the model loads the definition of the tool that it needs, and no other.
    needed = [
        fmean(estimate_tokens(definitions[key]) for key in row["relevant"] if key in definitions)
        for row in requests
    ]
    return Costs(
        tools=len(keys),
        definitions=catalog.menu_tokens,
        names=names,
        short=short_tokens(names, catalog.tools),
        meta=meta + fmean(tokens for tokens, _ in answers) * (2 - found),
        by_name=names + fmean(needed),
        five=names + five * (2 - five_found),
        eight=eight * (2 - eight_found),
        meta_found=found,
        five_found=five_found,
        eight_found=eight_found,
    )


def _catalog(count: int, seed: int) -> ServerEntries:
    """The tools of some servers, under the names that clients see."""
    listed: dict[str, list[Json]] = {}
    for row in read_rows(REAL_TOOLS):
        definition = {key: value for key, value in row.items() if key != "server"}
        listed.setdefault(row["server"], []).append(definition)
    some = random.Random(seed * 100 + count).sample(sorted(listed), count)
    return ServerEntries(
        tools=tuple(
            tool for server in some for tool in build_entries(server, tools=listed[server]).tools
        )
    )


async def _discoveries(catalog: ServerEntries, requests: Sequence[Row]) -> list[tuple[int, bool]]:
    """Tokens of the answer of `tool_discovery` to each request, and whether it has the tool."""
    raw = {tool.key: tool.raw for tool in catalog.tools}
    search = HybridSearch(Options(embedding_wait_s=60, embed_timeout_s=60), BundledEmbedder())
    await search.update([tool for tool in real_tools() if tool.key in raw])
    await search.ready()
    answers: list[tuple[int, bool]] = []
    for row in requests:
        found = await search.search(
            SearchRequest(queries=(row["text"],), limit=SETTINGS.max_results)
        )
        answer = compose(found, raw.__getitem__, budget_tokens=SETTINGS.budget_tokens)
        hits = {result.tool_key for result in answer.results}
        answers.append((answer.tokens, bool(hits & set(row["relevant"]))))
    await search.aclose()
    return answers


def _searches(
    definitions: dict[str, bytes], requests: Sequence[Row], best: int
) -> tuple[float, float]:
    """Mean tokens of the best definitions, and in which share of them the tool is."""
    keys = list(definitions)
    ranking = bm25s.BM25(k1=1.2, b=0.75)
    texts = [_searched_text(json_text.loads(definition)) for definition in definitions.values()]
    ranking.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    queries = bm25s.tokenize(
        [row["text"] for row in requests], stopwords="en", show_progress=False, return_ids=False
    )
    hits, _ = ranking.retrieve(queries, k=min(best, len(keys)), show_progress=False)
    tokens = fmean(sum(estimate_tokens(definitions[keys[n]]) for n in row) for row in hits)
    found = fmean(
        any(keys[n] in request["relevant"] for n in row)
        for row, request in zip(hits, requests, strict=True)
    )
    return tokens, found


def _searched_text(definition: Any) -> str:
    name = str(definition["name"])
    parameters = definition.get("inputSchema", {}).get("properties", {})
    words = name.replace("_", " ").replace("-", " ")
    return " ".join((name, words, str(definition.get("description") or ""), *parameters))


def _tokens(definition: Json) -> int:
    shown = {key: definition[key] for key in ("name", "description", "inputSchema")}
    return estimate_tokens(json_text.dumps(shown))


if __name__ == "__main__":
    main("client_search", measure)
