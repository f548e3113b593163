"""`toolgate index`: show, recompute and remove the vectors of the tool search."""

from collections.abc import Sequence
from typing import Annotated, cast

import anyio
import typer

from toolgate.cli.client._gateway_client import GatewayClient, path_of
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import FAILED, SUCCESS
from toolgate.cli.terminal._output import (
    local_time,
    note,
    plural,
    print_json,
    print_result,
    print_table,
    print_text,
    spinner,
)
from toolgate.errors import ArgumentError
from toolgate.types import Json

app = CommandApp()


_POLL_S = 0.1
"""Seconds between two checks of the index (chosen)."""

_STALLED_S = 15.0
"""Seconds without progress after which a failing embedder is given up (chosen)."""

_LOADING_TIMEOUT_S = 10.0
"""Seconds to wait for the short phases (chosen)."""

_SHORT_PHASES = ("loading", "keeping")


@app.command()
async def status(as_json: AsJson = False) -> None:
    """Show model, tools, vectors, backlog, search statistics and the last error."""
    with spinner("Reading the index"):
        async with open_gateway(connect=()) as gateway:
            index = await _wait_until_loaded(gateway)
    if as_json:
        print_json(index)
        return
    searches = cast("Sequence[Json]", index["searches"])
    if not searches:
        names = ", ".join(index["searched_by"])
        note(f"The search {names} uses no vectors.")
    for search in searches:
        _show(search)


@app.command()
async def refresh(
    server: Annotated[
        str | None, typer.Argument(metavar="[SERVER]", help="Name of a server.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All servers.")] = False,
    as_json: AsJson = False,
) -> int:
    """Recompute the vectors of a server or of all, and wait until they are ready."""
    if (server is None) == (not everything):
        raise ArgumentError(
            "Either SERVER or --all must be given.",
            hint="Run: toolgate index refresh SERVER, or: toolgate index refresh --all",
        )
    with spinner("Computing vectors"):
        async with open_gateway(connect=()) as gateway:
            asked = await gateway.request(
                "POST", "index/refresh", {"server": server} if server else {}
            )
            index = await _wait_until_complete(gateway)
    searches = cast("Sequence[Json]", index["searches"])
    left = max((int(search["backlog"]) for search in searches), default=0)
    if as_json:
        print_json({**asked, "backlog": left, **index})
    else:
        whose = f" of {server}" if server else ""
        if not left:
            print_text(f"Recomputed the vectors of {plural(asked['tools'], 'tool')}{whose}.")
        for search in searches:
            if left:
                state = search["last_error"] or "still working"
                note(f"{plural(left, 'tool')} still without a new vector: {state}")
    return FAILED if left else SUCCESS


@app.command()
async def remove(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Name of the server.")],
    as_json: AsJson = False,
) -> None:
    """Remove the stored vectors of a server; a refresh or the next start recomputes them."""
    async with open_gateway(connect=()) as gateway:
        removed = await gateway.request("DELETE", path_of("index", server))
    print_result(
        removed,
        f"Removed the stored vectors of {plural(removed['tools'], 'tool')} of {server}.",
        as_json=as_json,
    )


async def _wait_until_loaded(gateway: GatewayClient) -> Json:
    """Wait until all short phases are over; return the status."""
    index = await gateway.request("GET", "index")
    with anyio.move_on_after(_LOADING_TIMEOUT_S):
        while any(search["phase"] in _SHORT_PHASES for search in index["searches"]):
            await anyio.sleep(_POLL_S)
            index = await gateway.request("GET", "index")
    return index


async def _wait_until_complete(gateway: GatewayClient) -> Json:
    """Wait until the backlog is empty or a failing embedder stalls; return the status."""
    index, left, since = await gateway.request("GET", "index"), -1, anyio.current_time()
    while waits := sum(int(search["backlog"]) for search in index["searches"]):
        if waits != left:
            left, since = waits, anyio.current_time()
        has_failed = any(search["last_error"] for search in index["searches"])
        if has_failed and anyio.current_time() - since > _STALLED_S:
            break
        await anyio.sleep(_POLL_S)
        index = await gateway.request("GET", "index")
    return await _wait_until_loaded(gateway)


def _show(search: Json) -> None:
    figures, storage = search["counted"], search["kept"]
    latency, embedding = figures["latency_ms"], figures["embedding"]
    print_text(f"Search: {search['search']}")
    if not search["tools"]:
        print_text("Tools: none yet")
        note("See: toolgate servers list")
        return
    size = f", {search['dim']} dimensions" if search["dim"] else ""
    print_text(f"Model: {search['model'] or 'not loaded yet'}{size}")
    waits = f", {search['backlog']} pending" if search["backlog"] else ""
    waits += f" ({search['phase']})" if search["phase"] != "idle" else ""
    print_text(f"Tools: {search['tools']}, {search['vectors']} with a vector{waits}")
    if storage["is_there"]:
        stored = plural(storage["vectors"], "vector") if "vectors" in storage else "not read yet"
        state = "fails" if storage["is_failing"] else stored
        other_models = storage.get("vectors_of_other_models")
        print_text(
            f"Store: {state}" + (f", {other_models} of other models" if other_models else "")
        )
    else:
        print_text("Store: disabled, vectors are in memory only")
    for kind, words in (("document", "tools"), ("query", "requests")):
        work = embedding[kind]
        failures = f", {work['failures']} failures" if work["failures"] else ""
        print_text(
            f"Embedded texts of {words}: {work['texts']} in {work['total_s']:.2f} s{failures}"
        )
    if figures["searches"]:
        print_text(
            f"Searches: {figures['searches']}, p50 {latency['p50']} ms, p95 {latency['p95']} ms, "
            f"{figures['fallback_rate']:.2%} by keywords only"
        )
    if storage["notice"]:
        note(storage["notice"])
    if search["last_error"]:
        note(f"Last error, {local_time(search['last_error_at'])}: {search['last_error']}")
    if search["servers"]:
        print_text()
        print_table(
            ("Server", "Tools", "Vectors"),
            [
                (row["name"], str(row["tools"]), str(row["vectors"]))
                for row in cast("Sequence[Json]", search["servers"])
            ],
            wrap=0,
        )
