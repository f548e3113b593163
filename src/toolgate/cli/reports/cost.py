"""`toolgate cost`: what tasks cost in tokens, against listing every tool."""

from typing import Annotated

import anyio
import typer

from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import local_time, note, plural, print_json, print_table
from toolgate.types import Json

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command(help="Show what tasks cost in tokens, against listing every tool.")
def cost(
    days: Annotated[
        float, typer.Option("--days", min=0.001, metavar="N", help="How far back.")
    ] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the account as JSON.")] = False,
) -> int:
    """Show what tasks cost in tokens, against listing every tool. Losses are shown as losses.

    Exit status 3 when nothing was asked in this time.
    """
    return anyio.run(_cost, days, as_json)


async def _cost(days: float, as_json: bool) -> int:
    async with open_gateway(load_settings(), connect=()) as gateway:
        report = await gateway.request("GET", f"cost?days={days:g}")
    tasks: list[Json] = report["tasks"]
    if as_json:
        print_json(report)
        return SUCCESS if tasks else NO_RESULT
    if not tasks:
        note("Nothing was searched or called in this time, or the audit is switched off.")
        return NO_RESULT
    print_table(
        ("Last", "Client", "Who", "Turns", "Repeats", "Menu", "Searches", "Calls", "All", "Saved"),
        [
            (
                local_time(task["last_at"]),
                task["client"] or "-",
                task["caller_id"],
                *(
                    f"{task[name]:,}"
                    for name in (
                        "turns",
                        "repeats",
                        "menu_tokens",
                        "search_tokens",
                        "call_tokens",
                        "tokens",
                        "saved_tokens",
                    )
                ),
            )
            for task in tasks
        ],
        spare=("Who", "Repeats"),
    )
    saved = report["saved_tokens"]
    word = "less" if saved >= 0 else "more"
    note(
        f"{plural(len(tasks), 'conversation')}: {report['tokens']:,} estimated tokens,"
        f" {abs(saved):,} {word} than with all tools listed ({report['listed_tokens']:,})."
        " Menus are those of the present catalog, each counted once for a conversation."
    )
    return SUCCESS
