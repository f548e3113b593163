"""`toolgate credentials`: list, store and remove credentials for servers."""

import getpass
import sys
from typing import Annotated

import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._output import (
    local_time,
    note,
    print_result,
    print_rows,
    print_text,
)
from toolgate.errors import ArgumentError
from toolgate.types import Json

app = CommandApp()

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the server.")]
User = Annotated[
    str,
    typer.Option(
        "--user", metavar="USER", help="For this user, if each user has their own credentials."
    ),
]
Project = Annotated[
    str,
    typer.Option(
        "--project",
        metavar="PROJECT",
        help="For this project, if each project has its own credentials.",
    ),
]


@app.command("list")
async def list_credentials(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only those of this server.")] = "",
    as_json: AsJson = False,
) -> None:
    """List stored credentials, without the secrets."""
    async with open_gateway(connect=()) as gateway:
        credentials = await gateway.rows("credentials", server=name)
    print_rows(
        credentials,
        ("Server", "Owner", "Type", "State", "Expires"),
        _row,
        empty="No stored credentials. Log in: toolgate servers login NAME",
        as_json=as_json,
    )


@app.command("set")
async def set_credentials(
    name: Name,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="NAME[=VALUE]",
            help="Header of every request to the server. Can be repeated.",
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME[=VALUE]",
            help="Environment variable of the server. Can be repeated.",
        ),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME[=VALUE]",
            help="What ${secret:NAME} stands for in the configuration of the server. Can be"
            " repeated.",
        ),
    ] = None,
    user: User = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Store headers, environment variables or secrets, encrypted.

    Headers and variables replace the stored ones; other secrets stay.

    If you omit a value, you are prompted for it, or it is read from standard input (one per line).
    This keeps it out of your shell history.
    """
    body: Json = {
        "headers": _parse_values("--header", header or []),
        "env": _parse_values("--env", env or []),
        "secrets": _parse_values("--secret", secret or []),
    }
    body |= {key: value for key, value in (("user", user), ("project", project)) if value}
    async with open_gateway(connect=()) as gateway:
        stored = await gateway.request("POST", path_of("servers", name, "credentials"), body)
        rows = [row for row in await gateway.servers() if row["name"] == name]
    print_result(stored, f"Stored {', '.join(stored['names'])} for {name}.", as_json=as_json)
    problem = str(rows[0].get("last_error") or "") if rows else ""
    if any(f"needs the variable {variable}," in problem for variable in body["env"]):
        # Its configuration names the environment of the gateway, in which this value is not.
        note(f"It is not used: {problem}")


@app.command()
async def remove(name: Name, user: User = "", project: Project = "") -> None:
    """Remove stored credentials; a login is revoked at its authorization server too."""
    async with open_gateway(connect=()) as gateway:
        gone = await gateway.remove_credentials(name, user=user, project=project)
    print_text(
        f"Removed the credentials for {name}." if gone else f"No stored credentials for {name}."
    )


def _row(credential: Json) -> tuple[str, ...]:
    until = credential.get("expires_at")
    return (
        str(credential["server"]),
        str(credential["subject"] or "everybody"),
        str(credential["form"]),
        f"{credential['state']}: {credential['reason']}"
        if credential.get("reason")
        else str(credential["state"]),
        "renewed automatically"
        if credential.get("renews")
        else local_time(until)
        if until
        else "-",
    )


def _parse_values(flag: str, texts: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in texts:
        name, has_value, value = text.partition("=")
        name = name.strip()
        if not name:
            raise ArgumentError(
                f"{flag} got {text[:40]!r}.", allowed="Allowed: NAME or NAME=VALUE."
            )
        values[name] = value if has_value else _read_value(name)
    return values


def _read_value(name: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"{name}: ")
    value = sys.stdin.readline().rstrip("\r\n")
    if not value:
        raise ArgumentError(
            f"There is no value for {name}.",
            hint="Write the values to standard input, one per line.",
        )
    return value
