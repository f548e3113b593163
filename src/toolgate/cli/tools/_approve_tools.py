"""`toolgate servers approve`: shows tools that are held back, and asks."""

import sys
from collections.abc import Sequence
from typing import cast

import typer

from toolgate.cli.client._gateway_client import GatewayClient, path_of
from toolgate.cli.terminal._exit import FAILED, FINE, NOTHING
from toolgate.cli.terminal._output import counted, local_time, note, print_json, print_text
from toolgate.types import Json

__all__ = ["approve"]

_MOST_LINES = 40


async def approve(
    gateway: GatewayClient,
    server: str,
    tools: Sequence[str],
    *,
    accept: bool,
    sure: bool,
    as_json: bool,
) -> int:
    """Show what is held back, and decide; gives the exit status.

    Without a server, or where nobody can be asked, nothing is decided.
    """
    held = [
        one
        for one in await gateway.rows("held")
        if server in ("", one["serverName"]) and (not tools or one["toolName"] in tools)
    ]
    if as_json and not sure:
        print_json(held)
        return FINE if held else NOTHING
    if not held:
        missing = f" called {', '.join(tools)}" if tools else ""
        note(f"No tool{missing}{f' of {server}' if server else ''} is held back.")
        return NOTHING
    decided: list[Json] = []
    for one in held:
        if not as_json:
            _show(one)
        if not server or not (sure or _says_yes(accept)):
            continue
        name, tool = str(one["serverName"]), str(one["toolName"])
        decided.append(
            await gateway.request(
                "POST", path_of("servers", name, "approve"), {"tool": tool, "approve": accept}
            )
        )
        if not as_json:
            print_text(f"{'Approved' if accept else 'Rejected'} {one['toolKey']}.\n")
    if as_json:
        print_json(decided)
    elif not server:
        note(f"{counted(len(held), 'tool')} held back. Decide: toolgate servers approve NAME")
    elif not decided:
        note("Nothing was decided. Add --yes where nobody can be asked.")
    return FINE if decided or not server else FAILED


def _show(one: Json) -> None:
    print_text(f"{one['toolKey']}: {one['reason']} Seen {local_time(str(one['seenAt']))}.")
    if one["state"] == "rejected":
        print_text("  Somebody has said no to it already.")
    for finding in cast("list[Json]", one["findings"]):
        print_text(f"  ! {finding['where']}: {finding['reason']}")
        print_text(f"    {finding['excerpt']}")
    lines: list[str] = []
    for place in cast("list[Json]", one["differences"]):
        lines.append(f"  {place['kind']} {place['where']}")
        lines += [f"    {line}" for line in cast("list[str]", place["lines"])]
    for line in lines[:_MOST_LINES]:
        print_text(line)
    if len(lines) > _MOST_LINES:
        print_text(f"  and {len(lines) - _MOST_LINES} lines more: add --json")


def _says_yes(accept: bool) -> bool:
    if not sys.stdin.isatty():
        return False
    return typer.confirm("Let it be used from now on?" if accept else "Keep it held?", err=True)
