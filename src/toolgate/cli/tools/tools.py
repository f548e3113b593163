"""`toolgate tools`: list the tools of all servers."""

from typing import Annotated, cast

import typer

from toolgate.cli.client._load_settings import unknown_server
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import CommandApp
from toolgate.cli.terminal._exit import SUCCESS
from toolgate.cli.terminal._output import local_time, note, print_json, print_table, spinner

app = CommandApp()


@app.command(help="List the tools of all servers.")
async def tools(
    server: Annotated[
        str | None, typer.Option("--server", metavar="NAME", help="Only tools from this server.")
    ] = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="List the capability groups instead.")
    ] = False,
    usage: Annotated[
        bool, typer.Option("--usage", help="Show usage statistics and suggestions instead.")
    ] = False,
    days: Annotated[
        float,
        typer.Option(
            "--days", min=0.001, metavar="N", help="With --usage: number of days. Default: 30."
        ),
    ] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> int:
    """List the tools of all servers."""
    if usage:
        return await _usage(days, as_json)
    if groups:
        return await _groups(as_json)
    with spinner("Listing tools"):
        async with open_gateway(connect=[server] if server else "all") as gateway:
            states = await gateway.wait_for_servers(server)
            servers = {str(state["name"]) for state in states}
            rows = await gateway.rows("tools", server=server)
    if server is not None and server not in servers:
        raise unknown_server(server, servers)
    if as_json:
        print_json(rows)
        return SUCCESS
    if not rows:
        projects = sorted({str(name) for state in states for name in state.get("projects", ())})
        if projects:
            note(
                "There are no tools here, but projects have servers:"
                f" TOOLGATE_PROJECT={projects[0]} toolgate tools"
            )
        else:
            note("There are no tools. See: toolgate servers list")
        return SUCCESS
    print_table(
        ("Tool", "Description"),
        [
            (
                str(tool["toolKey"]),
                ("(server down) " if tool.get("down") else "") + str(tool.get("description") or ""),
            )
            for tool in rows
        ],
    )
    return SUCCESS


async def _usage(days: float, as_json: bool) -> int:
    async with open_gateway(connect=()) as gateway:
        report = await gateway.request("GET", f"tools/usage?days={days:g}")
    if as_json:
        print_json(report)
        return SUCCESS
    if not report["tools"]:
        note("There were no calls in this time.")
    else:
        print_table(
            ("Tool", "Project", "Calls", "Success", "Mean time", "Last"),
            [
                (
                    use["tool"],
                    use["project_id"],
                    f"{use['calls']:,}",
                    f"{use['success_share']:.0%}",
                    f"{use['mean_ms']:.0f} ms",
                    local_time(use["last_at"]),
                )
                for use in report["tools"]
            ],
            spare=("Project", "Mean time"),
        )
    if report["pins"]:
        note(f"Called often, consider pinning: {', '.join(report['pins'])}")
    if report["never_used_servers"]:
        names = ", ".join(report["never_used_servers"][:20])
        note(f"Unused in this time, consider removing: {names}")
    return SUCCESS


async def _groups(as_json: bool) -> int:
    with spinner("Grouping tools"):
        async with open_gateway() as gateway:
            groups = await gateway.rows("groups")
    if as_json:
        print_json(groups)
    elif not groups:
        note("There are no groups. Define some in [groups] of toolgate.toml; see docs/learning.md")
    else:
        print_table(
            ("Group", "Tools", "Servers"),
            [
                (
                    str(group["name"]) + (" *" if group["derived"] else ""),
                    str(group["tools"]),
                    ", ".join(map(str, cast("list[object]", group["servers"]))),
                )
                for group in groups
            ],
        )
        if any(group["derived"] for group in groups):
            note("* derived from the tools; define your own in [groups].")
    return SUCCESS
