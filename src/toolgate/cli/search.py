"""`toolgate search`: find the tools that fit a request."""

from typing import Annotated, cast

import anyio
import typer

from toolgate.cli._door import load_settings, open_door
from toolgate.cli._exit import FINE, NOTHING
from toolgate.cli._harmless import one_line
from toolgate.cli._output import note, print_json, print_text, waiting
from toolgate.types import Json

__all__ = ["app"]

app = typer.Typer()


@app.command(help="Find the tools that fit a request.")
def search(
    query: Annotated[
        list[str], typer.Argument(metavar="QUERY", help="What a tool should do, in plain words.")
    ],
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=50, help="Most tools to show.")
    ] = 5,
    server: Annotated[
        list[str] | None,
        typer.Option("--server", metavar="NAME", help="Only tools of this server. Repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> int:
    """Find the tools that fit a request."""
    wanted: Json = {"query": " ".join(query), "maxResults": limit}
    if server:
        wanted["server"] = server
    return anyio.run(_search, wanted, as_json)


async def _search(wanted: Json, as_json: bool) -> int:
    with waiting("Searching"):
        async with open_door(load_settings()) as door:
            answer = await door.discover(wanted)
    found = cast("list[Json]", answer.get("results") or [])
    if as_json:
        print_json(answer)
    else:
        for hit in found:
            show(hit)
        if answer.get("notice"):
            note(str(answer["notice"]))
        elif not found:
            note("No tool fits. Try other words, or see: toolgate tools")
    return FINE if found else NOTHING


def show(hit: Json) -> None:
    """Print a found tool: key and relevance, then what it does, then how it is called."""
    print_text(f"{one_line(str(hit['toolKey']))}  {float(hit.get('relevance') or 0):.2f}")
    for line in (hit.get("description"), hit.get("signature")):
        if line:
            print_text(f"    {one_line(str(line))}")
