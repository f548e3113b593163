"""`toolgate profile`: replay past searches with other settings."""

from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import anyio
import typer

from toolgate.app.app import App, open_app
from toolgate.base.ids import utc_now
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.client._local_gateway import silence_logs
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, plural, print_json, print_table, spinner
from toolgate.errors import ArgumentError
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.search import WEIGHTS
from toolgate.settings import AuditSettings, Settings, UsageSettings, load
from toolgate.store import AuditFilter, StoreMaintenance, make_store
from toolgate.types import Caller, Json

app = CommandApp()

_MAX_QUERIES = 2_000
"""Newest distinct requests to replay (chosen)."""

_INDEX_TIMEOUT_S = 60.0
"""Seconds to wait until all tools have vectors (chosen)."""

_QUERY_CHARS = 60
"""Characters of a request in the table (chosen)."""

_POLL_S = 0.05
"""Seconds between two checks of the index (chosen)."""


@dataclass(frozen=True, kw_only=True)
class _SearchResult:
    """Result of a replayed search."""

    keys: tuple[str, ...]
    tokens: int
    duration_ms: float


@app.command(help="Replay past searches with different settings and show the differences.")
async def profile(
    other: Annotated[
        Path | None,
        typer.Option("--with", metavar="FILE", help="Use the settings in this toolgate.toml."),
    ] = None,
    optimization: Annotated[
        str | None, typer.Option("--optimization", metavar="NAME", help="Use this search strategy.")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option("--embedder", metavar="NAME", help="Use this embedder.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option("--weight", metavar="NAME=VALUE", help="Use this weight in hybrid search."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", min=200, metavar="N", help="Use this token budget."),
    ] = None,
    days: Annotated[
        float, typer.Option("--days", min=0.001, metavar="N", help="Number of days. Default: 7.")
    ] = 7.0,
    as_json: AsJson = False,
) -> int:
    """Replay past searches with different settings and show the differences.

    Searches come from the audit log, if it stores their text; tools are the last known ones.
    Neither side uses what was learned from use, and nothing is recorded. Exit status 3 if there is
    nothing to replay.
    """
    loaded = load_settings()
    changed = load(other) if other is not None else loaded
    if optimization is not None:
        changed = replace(changed, optimization=optimization, experiment_percent=100.0)
    if embedder is not None:
        changed = replace(changed, search=replace(changed.search, embedder=embedder))
    if weight:
        options = changed.search.options
        hybrid = {**options.get("hybrid", {}), **dict(map(_weight, weight))}
        search = replace(changed.search, options={**options, "hybrid": hybrid})
        changed = replace(changed, search=search)
    if budget is not None:
        changed = replace(changed, discovery=replace(changed.discovery, budget_tokens=budget))
    if changed == loaded:
        raise ArgumentError(
            "There is nothing to compare: the settings are the current ones.",
            hint="Change some: --with, --optimization, --embedder, --weight, --budget.",
        )
    # Same servers and store on both sides: only the search settings are compared.
    changed = replace(changed, servers=loaded.servers, store=loaded.store)
    silence_logs(loaded)
    with spinner("Reading past searches"):
        queries = await _queries(loaded, utc_now(plus_s=-86_400 * days))
    if not queries:
        note("The audit log has no search texts (audit.keep_queries).")
        return NO_RESULT
    with spinner(f"Searching {plural(len(queries), 'request')} twice"):
        before, after = await _replay(loaded, queries), await _replay(changed, queries)
    report = _report(queries, before, after)
    if as_json:
        print_json(report)
        return SUCCESS
    if report["changes"]:
        print_table(("Request", "Current", "Changed"), list(map(_row, report["changes"])), wrap=2)
    note(
        f"{plural(len(queries), 'search', 'searches')}: {report['different']} with other results,"
        f" {report['other_first']} with another first tool. Tokens of all answers:"
        f" {report['tokens']['before']:,} before, {report['tokens']['after']:,} after; mean time"
        f" of a search: {report['mean_ms']['before']} ms before, {report['mean_ms']['after']} ms"
        " after."
    )
    return SUCCESS


def _report(
    queries: list[str], before: dict[str, _SearchResult], after: dict[str, _SearchResult]
) -> Json:
    different = [query for query in queries if before[query].keys != after[query].keys]
    sides = {"before": before.values(), "after": after.values()}
    return {
        "searches": len(queries),
        "different": len(different),
        "other_first": sum(before[q].keys[:1] != after[q].keys[:1] for q in different),
        "tokens": {
            name: sum(answer.tokens for answer in answers) for name, answers in sides.items()
        },
        "mean_ms": {
            name: round(sum(answer.duration_ms for answer in answers) / len(answers), 3)
            for name, answers in sides.items()
        },
        "changes": [
            {"query": query, "before": list(before[query].keys), "after": list(after[query].keys)}
            for query in different
        ],
    }


def _weight(text: str) -> tuple[str, float]:
    """Parse a weight, such as `dense_weight=0.5`, to its name and value."""
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if name not in WEIGHTS or not 0 <= number <= 1:
        raise ArgumentError(
            f"--weight is {text!r}.",
            allowed=f"Allowed: NAME=VALUE, from 0 to 1, with one of {', '.join(WEIGHTS)}.",
            hint="Correct it.",
        )
    return name, number


def _row(change: Json) -> tuple[str, str, str]:
    before, after = (", ".join(change[side]) or "nothing" for side in ("before", "after"))
    return change["query"][:_QUERY_CHARS], before, after


async def _queries(loaded: Settings, since: str) -> list[str]:
    """Return distinct requests in the audit log, newest first."""
    store = make_store(store_url(loaded))
    try:
        if isinstance(store, StoreMaintenance) and not await store.exists():
            return []
        await store.open()
        selection = AuditFilter(action="discover", status="ok", since=since, limit=_MAX_QUERIES)
        records = await store.audit.select(selection)
    finally:
        await store.close()
    return list(dict.fromkeys(record.query for record in records if record.query))


async def _replay(settings: Settings, queries: list[str]) -> dict[str, _SearchResult]:
    """Search with these settings, without connecting to servers."""
    silent = replace(
        settings,
        audit=AuditSettings(enabled=False, detections=False),
        usage=UsageSettings(enabled=False),
    )
    answers: dict[str, _SearchResult] = {}
    async with open_app(silent, connect=()) as opened:
        await _wait_for_index(opened)
        for query in queries:
            began = perf_counter()
            request = DiscoverRequest(queries=tuple(query.split("\n")), include_core=False)
            answer = await opened.gateway.discovery.discover(Caller.local(), request)
            answers[query] = _SearchResult(
                keys=answer.shown_keys,
                tokens=answer.tokens,
                duration_ms=(perf_counter() - began) * 1000,
            )
    return answers


async def _wait_for_index(opened: App) -> None:
    """Wait up to a minute until all tools have vectors; without them, only words are searched."""
    vectors = opened.gateway.manage.vectors
    for _ in range(round(_INDEX_TIMEOUT_S / _POLL_S)):
        status = await vectors.status(Caller.local())
        if not any(search["backlog"] for search in status["searches"]):
            return
        await anyio.sleep(_POLL_S)
