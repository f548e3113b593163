"""`toolgate explain`: why a caller can or cannot see a tool."""

from typing import Annotated, cast

import typer

from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import DENIED, SUCCESS
from toolgate.cli.terminal._output import print_json, print_table, print_text, spinner
from toolgate.types import Json

app = CommandApp()


@app.command(help="Explain why a caller can or cannot see a tool.")
async def explain(
    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="Key of the tool (SERVER:TOOL), or its name.")
    ],
    token: Annotated[
        str,
        typer.Option(
            "--token",
            metavar="T",
            help="Caller to check: a token's name, its prefix, or the token itself. Default: you, "
            "on this machine.",
        ),
    ] = "",
    project: Annotated[
        str, typer.Option("--project", metavar="PROJECT", help="Project of the caller.")
    ] = "",
    query: Annotated[
        str,
        typer.Option(
            "--query", "-q", metavar="TEXT", help="Also show the rank of the tool in this search."
        ),
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Check every stage in order: token, project, permissions, read-only, rules, server, search.

    Exit status 0 if the tool is visible, 4 if it is not.

    JSON: {"tool", "caller", "token", "project", "visible", "stages": [{"stage", "passed",
    "reason"}]}
    """
    options = {"tool": tool, "token": token, "project": project, "query": query}
    body: Json = {key: value for key, value in options.items() if value}
    loaded = load_settings()
    server = tool.partition(":")[0]
    is_configured = server in {spec.name for spec in loaded.servers}
    with spinner("Checking"):
        async with open_gateway(
            loaded, connect=[server] if is_configured else "unknown"
        ) as gateway:
            if is_configured:
                await gateway.wait_for_servers(server)
            explanation = await gateway.request("POST", "explain", body)
    if as_json:
        print_json(explanation)
    else:
        stages = cast("list[Json]", explanation["stages"])
        print_table(
            ("Stage", "", "Reason"),
            [
                (str(stage["stage"]), "yes" if stage["passed"] else "NO", str(stage["reason"]))
                for stage in stages
            ],
            wrap=None,
        )
        print_text(
            f"{explanation['tool']} is {'visible' if explanation['visible'] else 'not visible'}."
        )
    return SUCCESS if explanation["visible"] else DENIED
