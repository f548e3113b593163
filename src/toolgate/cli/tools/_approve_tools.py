"""`toolgate servers approve`: shows tools that are held back, and asks."""

import sys
from collections.abc import Sequence
from typing import cast

import typer

from toolgate.cli.client._gateway_client import GatewayClient, path_of
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import local_time, note, plural, print_json, print_text
from toolgate.types import Json

__all__ = ["approve"]

_MAX_LINES = 40


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
    quarantined = [
        entry
        for entry in await gateway.rows("held")
        if server in ("", entry["serverName"]) and (not tools or entry["toolName"] in tools)
    ]
    if as_json and not sure:
        print_json(quarantined)
        return SUCCESS if quarantined else NO_RESULT
    if not quarantined:
        missing = f" called {', '.join(tools)}" if tools else ""
        note(f"No tool{missing}{f' of {server}' if server else ''} is held back.")
        return NO_RESULT
    decided: list[Json] = []
    for entry in quarantined:
        if not as_json:
            _show(entry)
        if not server or not (sure or _confirm(accept)):
            continue
        name, tool = str(entry["serverName"]), str(entry["toolName"])
        decided.append(
            await gateway.request(
                "POST", path_of("servers", name, "approve"), {"tool": tool, "approve": accept}
            )
        )
        if not as_json:
            print_text(f"{'Approved' if accept else 'Rejected'} {entry['toolKey']}.\n")
    if as_json:
        print_json(decided)
    elif not server:
        note(f"{plural(len(quarantined), 'tool')} held back. Decide: toolgate servers approve NAME")
    elif not decided:
        note("Nothing was decided. Add --yes where nobody can be asked.")
    return SUCCESS if decided or not server else FAILED


def _show(tool: Json) -> None:
    print_text(f"{tool['toolKey']}: {tool['reason']} Seen {local_time(str(tool['seenAt']))}.")
    if tool["state"] == "rejected":
        print_text("  Somebody has said no to it already.")
    for finding in cast("list[Json]", tool["findings"]):
        print_text(f"  ! {finding['where']}: {finding['reason']}")
        print_text(f"    {finding['excerpt']}")
    lines: list[str] = []
    for difference in cast("list[Json]", tool["differences"]):
        lines.append(f"  {difference['kind']} {difference['where']}")
        lines += [f"    {line}" for line in cast("list[str]", difference["lines"])]
    for line in lines[:_MAX_LINES]:
        print_text(line)
    if len(lines) > _MAX_LINES:
        print_text(f"  and {len(lines) - _MAX_LINES} lines more: add --json")


def _confirm(accept: bool) -> bool:
    if not sys.stdin.isatty():
        return False
    return typer.confirm("Let it be used from now on?" if accept else "Keep it held?", err=True)
