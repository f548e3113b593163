"""`toolgate servers`: list, add, change, test and remove servers."""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Literal, cast

import typer

from toolgate.app.failure_causes import cause_of
from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._load_settings import load_settings, unknown_server
from toolgate.cli.client._open_gateway import find_running, find_running_by_file, open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import FAILED, SUCCESS
from toolgate.cli.terminal._output import (
    local_time,
    note,
    plural,
    print_json,
    print_result,
    print_rows,
    print_text,
    spinner,
)
from toolgate.cli.tools.add import register as register_add
from toolgate.cli.tools.override import override
from toolgate.errors import ArgumentError, SettingError
from toolgate.types import EntryKind, Json

app = CommandApp()

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the server.")]

LoginUser = Annotated[
    str,
    typer.Option("--user", metavar="USER", help="For this user, if each user has their own login."),
]

LoginProject = Annotated[
    str,
    typer.Option(
        "--project", metavar="PROJECT", help="For this project, if each project has its own login."
    ),
]


@app.command("list")
async def list_servers(as_json: AsJson = False) -> None:
    """List all servers with their state."""
    with spinner("Asking the servers"):
        try:
            loaded = load_settings()
        except SettingError as error:
            gateway = await find_running_by_file()
            if gateway is None:
                raise
            note(f"{error} The running gateway still uses the previous configuration.")
            servers = await gateway.servers()
        else:
            async with open_gateway(loaded, connect="all") as gateway:
                servers = await gateway.wait_for_servers()
    print_rows(
        servers,
        ("Name", "State", "Transport", "Protocol", "Tools", "Latency", "Remark"),
        _row,
        empty="There are no servers. Add one: toolgate add NAME -- COMMAND, or toolgate init",
        as_json=as_json,
        spare=("Latency", "Protocol", "Transport"),
    )


register_add(app)
app.command()(override)


@app.command()
async def remove(name: Name) -> None:
    """Remove a server from the store or from toolgate.toml (the file is backed up first)."""
    loaded = load_settings()
    async with open_gateway(loaded, connect=()) as gateway:
        await gateway.request("DELETE", path_of("servers", name))
    file = next((spec.source for spec in loaded.servers if spec.name == name), None)
    if file is None:
        print_text(f"Removed {name} from the store.")
    else:
        print_text(f"Removed {name} from {file}. The previous file is kept next to it as a backup.")


@app.command()
async def enable(name: Name) -> int:
    """Enable a server."""
    return await _switch(name, "enable")


@app.command()
async def disable(name: Name) -> int:
    """Disable a server, so that its tools can no longer be listed, found or called."""
    return await _switch(name, "disable")


@app.command()
async def schedule(
    name: Name,
    start: Annotated[
        Literal["always", "on-demand"] | None,
        typer.Option(
            "--start",
            metavar="WHEN",
            help="always or on-demand (start on the first call, stop when idle).",
        ),
    ] = None,
    idle_s: Annotated[
        float | None,
        typer.Option(
            "--idle-s", metavar="SECONDS", help="Idle time in seconds before the server is stopped."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose whether a server runs all the time or only on demand."""
    if start is None and idle_s is None:
        raise ArgumentError("Nothing is changed.", allowed="Allowed: --start, --idle-s, or both.")
    body: Json = {"start": start} if start is not None else {}
    if idle_s is not None:
        body["idle_s"] = idle_s
    async with open_gateway(connect=()) as gateway:
        status = await gateway.request("POST", path_of("servers", name, "schedule"), body)
    print_result(status, f"{name} is {status.get('state')}.", as_json=as_json)


@app.command()
async def restart(name: Name) -> int:
    """Reconnect a server in the running gateway."""
    remote = await find_running(load_settings())
    if remote is None:
        note("No gateway is running. Start one: toolgate serve")
        return FAILED
    await remote.request("POST", path_of("servers", name, "restart"), {})
    print_text(f"Restarted {name}.")
    return SUCCESS


@app.command()
async def login(
    name: Name,
    user: LoginUser = "",
    project: LoginProject = "",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the URL.")] = False,
    as_json: AsJson = False,
) -> int:
    """Log in to an MCP server over HTTP in the browser (OAuth 2.1)."""
    return await _login(name, user, project, not no_browser, as_json)


@app.command()
async def logout(
    name: Name,
    user: LoginUser = "",
    project: LoginProject = "",
) -> None:
    """Log out of a server, and revoke the login at its authorization server."""
    async with open_gateway(connect=()) as gateway:
        gone = await gateway.remove_credentials(name, user=user, project=project, kind="login")
    print_text(f"Logged out of {name}." if gone else f"There is no login for {name}.")


@app.command()
async def approve(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Name of the server. Default: show all.")
    ] = "",
    definitions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DEFINITION]...",
            help="Only these definitions: tool or prompt names, resource URIs, or the word"
            " `instructions`.",
        ),
    ] = None,
    kind: Annotated[
        EntryKind | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="Only definitions of this kind: tool, prompt, resource, template or instructions.",
        ),
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Reject them instead.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show quarantined tools, prompts, resources, templates and instructions, and approve them.

    The setting `quarantine` decides what is quarantined.
    """
    approval = import_module("toolgate.cli.tools._approve_definitions")
    async with open_gateway(connect=[name] if name else "unknown") as gateway:
        if name:
            await gateway.wait_for_servers(name)
        return await approval.approve(
            gateway,
            name,
            definitions or [],
            kind=kind or "",
            accept=not reject,
            sure=yes,
            as_json=as_json,
        )


@app.command("test")
async def try_server(name: Name, as_json: AsJson = False) -> int:
    """Test a server: start it, list its tools, and measure the time."""
    trials = import_module("toolgate.cli.client._server_check")
    with spinner(f"Testing {name}"):
        trial = (await trials.test_servers(load_settings(), [name]))[0]
    if as_json:
        print_json(trial)
    elif trial["ok"]:
        print_text(
            f"{name} works: protocol {trial['version']}, {trial['tools']} tools,"
            f" {trial['resources']} resources, {trial['prompts']} prompts,"
            f" {trial['ready_s']:.2f} s until the tools were listed."
        )
    else:
        note(f"{name} does not work: {trial['error']}")
        for line in cast("Sequence[str]", trial["stderr_tail"]):
            note(f"    {line}")
    return SUCCESS if trial["ok"] else FAILED


@app.command()
async def logs(name: Name, as_json: AsJson = False) -> None:
    """Show the last lines of a server's standard error."""
    with spinner(f"Asking {name}"):
        async with open_gateway(connect=[name]) as gateway:
            servers = await gateway.wait_for_servers(name)
    by_name = {str(server["name"]): server for server in servers}
    if name not in by_name:
        raise unknown_server(name, by_name)
    lines = cast("Sequence[str]", by_name[name].get("stderr_tail") or ())
    if as_json:
        print_json({"name": name, "stderr_tail": list(lines)})
    elif lines:
        for line in lines:
            print_text(line)
    elif by_name[name]["state"] == "asleep":
        note(f"{name} is asleep. Start it and see: toolgate servers test {name}")
    else:
        note(f"{name} wrote nothing to standard error.")


def _row(server: Json) -> tuple[str, ...]:
    latency = server.get("latency_ms")
    return (
        str(server["name"]),
        str(server["state"]),
        str(server["kind"]),
        str(server.get("version") or "-"),
        str(server.get("tools", 0)),
        f"{latency:.0f} ms" if isinstance(latency, (int, float)) else "-",
        _remark(server),
    )


def _remark(server: Json) -> str:
    if quarantined := server.get("held"):
        count = plural(quarantined, "definition")
        return f"{count} quarantined: toolgate servers approve {server['name']}"
    if server.get("last_error") and server["state"] != "ready":
        return cause_of(server).found
    if server["state"] == "asleep":
        return "the next call starts it"
    if server["state"] == "connecting":
        return "starting"
    restarts = server.get("restarts")
    since = f"since {local_time(server['started_at'])}" if server.get("started_at") else ""
    return f"{since}, {plural(restarts, 'restart')}" if restarts else since


async def _switch(name: str, action: str) -> int:
    async with open_gateway(connect=()) as gateway:
        await gateway.request("POST", path_of("servers", name, action), {})
    print_text(f"{action.capitalize()}d {name}.")
    return SUCCESS


async def _login(name: str, user: str, project: str, browser: bool, as_json: bool) -> int:
    logins = import_module("toolgate.cli.tools._login")
    async with open_gateway(connect=()) as gateway:
        done = await logins.log_in(gateway, name, user=user, project=project, browser=browser)
    if as_json:
        print_json(done)
    else:
        whose = f" for {done['subject']}" if done["subject"] else ""
        print_text(f"Logged in to {name}{whose}.")
    return SUCCESS
