"""`toolgate projects`: create and change projects, which group servers and settings."""

from typing import Annotated, cast

import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._output import note, print_json, print_rows, print_text
from toolgate.errors import ArgumentError
from toolgate.types import Json

app = CommandApp()

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the project.")]
Server = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        metavar="SERVER",
        help="Add this server and hide it from other projects. Can be repeated.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="optimization, mode, pinned, budget_tokens, shared_servers, read_only_allow, audit or"
        " a limit such as calls_per_day; an empty value restores the global setting."
        " Can be repeated.",
    ),
]
ReadOnly = Annotated[
    bool | None,
    typer.Option("--read-only/--writable", help="Allow only read-only tools, or all tools."),
]

_LIMITS = frozenset({"calls_per_minute", "concurrent_calls", "calls_per_day", "tokens_per_day"})


@app.command()
async def create(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Names of the new projects.")
    ],
    server: Server = None,
    settings: Set = None,
    read_only: ReadOnly = None,
    as_json: AsJson = False,
) -> None:
    """Create projects.

    JSON: {"name", "servers", "settings", "source"}; a list of them for several names
    """
    body = _parse_settings(settings or [], read_only, {})
    if server:
        body["servers"] = server
    created: list[Json] = []
    loaded = load_settings()
    async with open_gateway(loaded, connect=()) as gateway:
        configured = {str(server["name"]) for server in await gateway.servers()}
        for name in names:
            created.append(await gateway.request("POST", "projects", {**body, "name": name}))  # noqa: PERF401
    if as_json:
        print_json(created[0] if len(created) == 1 else created)
        return
    for project in created:
        print_text(f"Created the project {project['name']}.")
    _warn_of_unknown(cast("list[str]", body.get("servers", [])), configured)


@app.command("list")
async def list_projects(as_json: AsJson = False) -> None:
    """List all projects with their servers.

    JSON: a list of objects as printed by `create`
    """
    async with open_gateway(connect=()) as gateway:
        projects = await gateway.rows("projects")
    print_rows(
        projects,
        ("Name", "Servers", "Settings"),
        _row,
        empty="There are no projects. Create one: toolgate projects create NAME --server SERVER",
        as_json=as_json,
    )


@app.command("set")
async def change(
    name: Name,
    server: Server = None,
    remove_server: Annotated[
        list[str] | None,
        typer.Option("--remove-server", metavar="SERVER", help="Remove a server. Can be repeated."),
    ] = None,
    no_servers: Annotated[bool, typer.Option("--no-servers", help="Remove all servers.")] = False,
    settings: Set = None,
    read_only: ReadOnly = None,
    as_json: AsJson = False,
) -> None:
    """Add and remove servers of a project, and change its settings.

    JSON: same as `create`
    """
    add, remove = server or [], remove_server or []
    async with open_gateway(connect=()) as gateway:
        projects = {str(project["name"]): project for project in await gateway.rows("projects")}
        configured = {str(server["name"]) for server in await gateway.servers()}
        present = projects.get(name, {})
        limits = cast("Json", present.get("settings", {})).get("limits", {})
        body = _parse_settings(settings or [], read_only, cast("Json", limits))
        if add or remove or no_servers:
            current = [] if no_servers else cast("list[str]", present.get("servers", []))
            body["servers"] = [
                server for server in dict.fromkeys([*current, *add]) if server not in remove
            ]
        changed = await gateway.request("POST", path_of("projects", name), body)
    if as_json:
        print_json(changed)
        return
    print_text(f"Changed the project {name}.")
    _warn_of_unknown(add, configured)


@app.command()
async def delete(name: Name) -> None:
    """Delete a project that has no servers."""
    async with open_gateway(connect=()) as gateway:
        await gateway.request("DELETE", path_of("projects", name))
    print_text(f"Deleted the project {name}.")


def _row(project: Json) -> tuple[str, ...]:
    settings = cast("Json", project["settings"])
    text = ", ".join(
        f"{key} = {'off' if value is None else value}" for key, value in settings.items()
    )
    return (
        str(project["name"]),
        ", ".join(cast("list[str]", project["servers"])) or "-",
        text or "-",
    )


def _warn_of_unknown(servers: list[str], configured: set[str]) -> None:
    for server in servers:
        if server not in configured:
            note(f"There is no server {server!r} yet; the project gets it once it is added.")


def _parse_settings(texts: list[str], read_only: bool | None, limits: Json) -> Json:
    """Create the body of a request from the values of `--set` and `--read-only`."""
    body: Json = {} if read_only is None else {"read_only": read_only}
    limits = dict(limits)
    for text in texts:
        key, equals, value = text.partition("=")
        key, value = key.strip(), value.strip()
        if not equals:
            raise ArgumentError(f"--set got {text[:60]!r}.", allowed="Allowed: KEY=VALUE.")
        if key in _LIMITS:
            limits[key] = _number(text, value or "0")
            body["limits"] = limits
        elif not value:
            body[key] = "" if key == "optimization" else None
        elif key == "budget_tokens":
            body[key] = _number(text, value)
        elif key == "shared_servers":
            body[key] = _boolean(text, value)
        elif key in {"pinned", "read_only_allow"}:
            body[key] = [item.strip() for item in value.split(",")]
        else:
            body[key] = value
    return body


def _number(text: str, value: str) -> int:
    if not value.isdecimal() or len(value) > 15:
        raise ArgumentError(f"--set got {text[:60]!r}.", allowed="Allowed: an integer.")
    return int(value)


def _boolean(text: str, value: str) -> bool:
    if value not in {"true", "false"}:
        raise ArgumentError(f"--set got {text[:60]!r}.", allowed="Allowed: true, false.")
    return value == "true"
