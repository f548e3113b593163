"""`toolgate usage`: show and delete what was learned from use."""

from typing import Annotated

import typer

from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._output import note, plural, print_json, print_table
from toolgate.errors import ArgumentError

app = CommandApp()


@app.command()
async def status(as_json: AsJson = False) -> None:
    """Show how much search has learned.

    JSON: {"enabled", "requests", "tools", "pairs", "judged", "pending", "dropped", "last_error"}
    """
    async with open_gateway(connect=()) as gateway:
        answer = await gateway.request("GET", "usage")
    if as_json:
        print_json(answer)
        return
    if not answer["enabled"]:
        note("Learning from use is disabled. Set usage.enabled = true to enable it.")
    print_table(
        ("Learned", "Count"),
        [
            ("past requests", str(answer["requests"])),
            ("used tools", str(answer["tools"])),
            ("pairs of tools used together", str(answer["pairs"])),
            ('searches that calibrate "no match"', str(answer["judged"])),
        ],
    )
    if answer["last_error"]:
        note(f"Cannot write the usage log: {answer['last_error']} {answer['dropped']} rows lost.")


@app.command()
async def clear(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the usage log; the search starts learning from scratch."""
    if not yes and not _is_sure():
        raise ArgumentError("Nothing was deleted.", hint="Answer y, or use --yes.")
    async with open_gateway(connect=()) as gateway:
        removed = await gateway.request("DELETE", "usage")
    if as_json:
        print_json(removed)
    else:
        note(f"Deleted {plural(removed['searches'], 'search', 'searches')} with their outcomes.")


def _is_sure() -> bool:
    """Ask for confirmation; no answer counts as no."""
    try:
        return typer.confirm("Delete what was learned from use?", err=True)
    except typer.Abort:
        note("")
        return False
