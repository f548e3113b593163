"""`toolgate cost`: token cost of conversations, compared with listing every tool."""

from typing import Annotated

import typer

from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import CommandApp
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import local_time, note, plural, print_json, print_table
from toolgate.types import Json

app = CommandApp()


@app.command(help="Show what conversations cost in tokens, compared with listing every tool.")
async def cost(
    days: Annotated[
        float, typer.Option("--days", min=0.001, metavar="N", help="Number of days. Default: 1.")
    ] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Show what conversations cost in tokens, compared with listing every tool.

    A negative saving is shown as such. Exit status 3 if there are no requests in this time.
    """
    async with open_gateway(connect=()) as gateway:
        report = await gateway.request("GET", f"cost?days={days:g}")
    tasks: list[Json] = report["tasks"]
    if as_json:
        print_json(report)
        return SUCCESS if tasks else NO_RESULT
    if not tasks:
        note(
            "There were no conversations in this time, or the audit log is disabled. Searches and"
            " calls of commands and of the console do not count."
        )
        return NO_RESULT
    print_table(
        (
            "Last",
            "Client",
            "Caller",
            "Turns",
            "Repeats",
            "Tool list",
            "Searches",
            "Calls",
            "Total",
            "Saved",
        ),
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
        spare=("Caller", "Repeats"),
    )
    saved = report["saved_tokens"]
    word = "less" if saved >= 0 else "more"
    note(
        f"{plural(len(tasks), 'conversation')}: {report['tokens']:,} estimated tokens,"
        f" {abs(saved):,} {word} than with all tools listed ({report['listed_tokens']:,})."
        " Tool lists are those of the current catalog, counted once per conversation."
    )
    return SUCCESS
