"""`toolgate tools`: list the tools of all servers."""

from typing import Annotated, cast

import anyio
import typer

from toolgate.cli.client._load_settings import load_settings, unknown_server
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._exit import FINE
from toolgate.cli.terminal._output import local_time, note, print_json, print_table, waiting

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command(help="List the tools of all servers.")
def tools(
    server: Annotated[
        str | None, typer.Option("--server", metavar="NAME", help="Only tools of this server.")
    ] = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="List the capability groups instead.")
    ] = False,
    usage: Annotated[
        bool, typer.Option("--usage", help="Show how they were used, and what follows from it.")
    ] = False,
    days: Annotated[
        float, typer.Option("--days", min=0.001, metavar="N", help="With --usage: how far back.")
    ] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> int:
    """List the tools of all servers."""
    if usage:
        return anyio.run(_usage, days, as_json)
    if groups:
        return anyio.run(_groups, as_json)
    return anyio.run(_tools, server, as_json)


async def _usage(days: float, as_json: bool) -> int:
    async with open_gateway(load_settings(), connect=()) as gateway:
        found = await gateway.request("GET", f"tools/usage?days={days:g}")
    if as_json:
        print_json(found)
        return FINE
    if not found["tools"]:
        note("No tool was called in this time.")
    else:
        print_table(
            ("Tool", "Project", "Calls", "Success", "Took", "Last"),
            [
                (
                    use["tool"],
                    use["project_id"],
                    f"{use['calls']:,}",
                    f"{use['success_share']:.0%}",
                    f"{use['mean_ms']:.0f} ms",
                    local_time(use["last_at"]),
                )
                for use in found["tools"]
            ],
            spare=("Project", "Took"),
        )
    if found["pins"]:
        note(f"Called often, worth listing always (pinned): {', '.join(found['pins'])}")
    if found["never_used_servers"]:
        names = ", ".join(found["never_used_servers"][:20])
        note(f"Never used in this time, worth removing: {names}")
    return FINE


async def _groups(as_json: bool) -> int:
    with waiting("Grouping tools"):
        async with open_gateway(load_settings()) as gateway:
            found = await gateway.rows("groups")
    if as_json:
        print_json(found)
    elif not found:
        note("There are no groups. Name some in [groups] of toolgate.toml; see docs/learning.md")
    else:
        print_table(
            ("Group", "Tools", "Servers"),
            [
                (
                    str(group["name"]) + (" *" if group["derived"] else ""),
                    str(group["tools"]),
                    ", ".join(map(str, cast("list[object]", group["servers"]))),
                )
                for group in found
            ],
        )
        if any(group["derived"] for group in found):
            note("* made from what the tools mean and say; name your own in [groups].")
    return FINE


async def _tools(server: str | None, as_json: bool) -> int:
    with waiting("Listing tools"):
        async with open_gateway(load_settings(), connect=[server] if server else "all") as gateway:
            known = await gateway.wait_for_servers(server)
            servers = {str(each["name"]) for each in known}
            found = await gateway.rows("tools", server=server)
    if server is not None and server not in servers:
        raise unknown_server(server, servers)
    if as_json:
        print_json(found)
        return FINE
    if not found:
        projects = sorted({str(name) for each in known for name in each.get("projects", ())})
        if projects:
            note(
                "There are no tools here. Projects have servers of their own:"
                f" TOOLGATE_PROJECT={projects[0]} toolgate tools"
            )
        else:
            note("There are no tools. See: toolgate servers list")
        return FINE
    print_table(
        ("Tool", "Description"),
        [
            (
                str(tool["toolKey"]),
                ("(server down) " if tool.get("down") else "") + str(tool.get("description") or ""),
            )
            for tool in found
        ],
    )
    return FINE
