"""`toolgate add`: add servers from a command line, a JSON snippet or a URL."""

import sys
from typing import Annotated, Literal

import anyio
import typer

from toolgate.cli.client._gateway_client import GatewayResponseError
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._exit import FAILED, SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_text, spinner
from toolgate.cli.tools._pasted_server import read_servers
from toolgate.types import Json

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command(
    help="Add a server: a command line, a JSON snippet or a URL.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def add(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND ARGS... | URL | JSON",
            help="What the server's documentation shows; - reads standard input.",
        ),
    ],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Its name. Default: from what is given.")
    ] = "",
    save: Annotated[
        bool, typer.Option("--save", help="Write to toolgate.toml instead of the store.")
    ] = False,
    start: Annotated[
        Literal["always", "on-demand"] | None,
        typer.Option("--start", help="When it runs: always, or from the first call on."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be added.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> int:
    """Add a server: a command line, a JSON snippet or a URL.

    toolgate add npx -y @modelcontextprotocol/server-filesystem /home/me

    toolgate add https://mcp.example.org/mcp

    toolgate add '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'

    Options stand before what is added. To set headers, variables or a working folder:
    toolgate servers add NAME.
    """
    text = [sys.stdin.read()] if words == ["-"] else words
    servers = read_servers(text, name)
    if start is not None:
        servers = {name: {**config, "start": start} for name, config in servers.items()}
    if dry_run:
        print_json(servers)
        return SUCCESS
    return anyio.run(_add, servers, save, as_json)


async def _add(servers: dict[str, Json], save: bool, as_json: bool) -> int:
    results: list[Json] = []
    with spinner(f"Adding {', '.join(servers)}"):
        async with open_gateway(load_settings(), connect=list(servers)) as gateway:
            for name, config in servers.items():
                body: Json = {"name": name, "config": config, "save": save}
                try:
                    await gateway.request("POST", "servers", body)
                except GatewayResponseError as error:
                    if len(servers) == 1:
                        raise
                    results.append({"name": name, "added": False, "error": str(error)})
                    continue
                rows = await gateway.wait_for_servers(name)
                state: Json = next((row for row in rows if row["name"] == name), Json())
                results.append({"name": name, "added": True, "server": state})
    if as_json:
        print_json({"saved_in": "file" if save else "store", "servers": results})
    else:
        for result in results:
            _report(result, save=save)
    return SUCCESS if all(result["added"] for result in results) else FAILED


def _report(result: Json, *, save: bool) -> None:
    name = str(result["name"])
    if not result["added"]:
        note(f"{name} was not added: {result['error']}")
        return
    server = result["server"]
    print_text(f"Added {name} to {'toolgate.toml' if save else 'the store'}.")
    if server.get("state") == "ready":
        print_text(f"It is ready, with {server['tools']} tools.")
    elif server.get("login_hint"):
        note(str(server["login_hint"]))
    else:
        note(f"It is not ready yet: {server.get('last_error') or 'still starting'}")
        note(f"See: toolgate servers test {name}")
