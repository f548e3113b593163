"""`toolgate servers approve`: show quarantined definitions and decide about them."""

import sys
from collections.abc import Sequence
from typing import cast

import typer

from toolgate.cli.client._gateway_client import GatewayClient, path_of
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import local_time, note, plural, print_json, print_text
from toolgate.types import Json

_MAX_LINES = 40
"""Lines of differences shown per definition without --json (chosen)."""


async def approve(
    gateway: GatewayClient,
    server: str,
    names: Sequence[str],
    *,
    kind: str,
    accept: bool,
    sure: bool,
    as_json: bool,
) -> int:
    """Show quarantined definitions and decide about them; return the exit status.

    Decides nothing without a server, or if the user cannot be asked.
    """
    quarantined = [
        entry
        for entry in await gateway.rows("held")
        if server in ("", entry["serverName"])
        and kind in ("", entry["kind"])
        and (not names or entry["name"] in names)
    ]
    if as_json and not sure:
        print_json(quarantined)
        return SUCCESS if quarantined else NO_RESULT
    if not quarantined:
        missing = f" called {', '.join(names)}" if names else ""
        owner = f" of {server}" if server else ""
        note(f"No {kind or 'definition'}{missing}{owner} is quarantined.")
        return NO_RESULT
    decided: list[Json] = []
    for entry in quarantined:
        if not as_json:
            _show(entry)
        if not server or not (sure or _confirm(accept)):
            continue
        decision = {"kind": entry["kind"], "name": entry["name"], "approve": accept}
        path = path_of("servers", str(entry["serverName"]), "approve")
        decided.append(await gateway.request("POST", path, decision))
        if not as_json:
            print_text(f"{'Approved' if accept else 'Rejected'} {_title(entry)}.\n")
    if as_json:
        print_json(decided)
    elif not server:
        count = plural(len(quarantined), "definition")
        note(f"{count} quarantined. Decide: toolgate servers approve NAME")
    elif not decided:
        note("Nothing was decided. Use --yes without a terminal.")
    return SUCCESS if decided or not server else FAILED


def _title(entry: Json) -> str:
    if entry["kind"] == "instructions":
        return f"the instructions of {entry['serverName']}"
    return f"{entry['kind']} {entry['key']}"


def _show(entry: Json) -> None:
    title = _title(entry)
    seen = local_time(str(entry["seenAt"]))
    print_text(f"{title[0].upper()}{title[1:]}: {entry['reason']} Seen {seen}.")
    if entry["kind"] == "instructions":
        print_text("  They are left out of Toolgate's instructions until you approve them.")
    if entry["state"] == "rejected":
        print_text("  It was rejected before.")
    for finding in cast("list[Json]", entry["findings"]):
        print_text(f"  ! {finding['where']}: {finding['reason']}")
        print_text(f"    {finding['excerpt']}")
    lines: list[str] = []
    for difference in cast("list[Json]", entry["differences"]):
        lines.append(f"  {difference['kind']} {difference['where']}")
        lines += [f"    {line}" for line in cast("list[str]", difference["lines"])]
    for line in lines[:_MAX_LINES]:
        print_text(line)
    if len(lines) > _MAX_LINES:
        print_text(f"  and {len(lines) - _MAX_LINES} more lines: use --json")


def _confirm(accept: bool) -> bool:
    if not sys.stdin.isatty():
        return False
    return typer.confirm(
        "Approve this definition?" if accept else "Reject this definition?", err=True
    )
