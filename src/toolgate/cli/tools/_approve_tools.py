"""`toolgate servers approve`: show quarantined tools and decide about them."""

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
"""Lines of differences shown per tool without --json (chosen)."""


async def approve(
    gateway: GatewayClient,
    server: str,
    tools: Sequence[str],
    *,
    accept: bool,
    sure: bool,
    as_json: bool,
) -> int:
    """Show quarantined tools and decide about them; the exit status.

    Decides nothing without a server, or if nobody can be asked.
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
        note(f"No tool{missing}{f' of {server}' if server else ''} is quarantined.")
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
        note(
            f"{plural(len(quarantined), 'tool')} quarantined. Decide: toolgate servers approve NAME"
        )
    elif not decided:
        note("Nothing was decided. Use --yes without a terminal.")
    return SUCCESS if decided or not server else FAILED


def _show(tool: Json) -> None:
    print_text(f"{tool['toolKey']}: {tool['reason']} Seen {local_time(str(tool['seenAt']))}.")
    if tool["state"] == "rejected":
        print_text("  It was rejected before.")
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
        print_text(f"  and {len(lines) - _MAX_LINES} more lines: use --json")


def _confirm(accept: bool) -> bool:
    if not sys.stdin.isatty():
        return False
    return typer.confirm("Approve this tool?" if accept else "Reject this tool?", err=True)
