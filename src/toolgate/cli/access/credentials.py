"""`toolgate credentials`: list, store and remove credentials for servers."""

import getpass
import sys
from typing import Annotated

import anyio
import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._exit import SUCCESS
from toolgate.cli.terminal._output import local_time, note, print_json, print_table, print_text
from toolgate.errors import ArgumentError
from toolgate.types import Json

__all__ = ["app"]

app = typer.Typer(
    help="List, store and remove credentials for servers.",
    no_args_is_help=True,
    add_completion=False,
)

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
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command("list")
def list_credentials(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only those of this server.")] = "",
    as_json: AsJson = False,
) -> int:
    """List stored credentials, without the secrets."""
    return anyio.run(_list, name, as_json)


@app.command("set")
def set_credentials(
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
    user: User = "",
    project: Project = "",
    as_json: AsJson = False,
) -> int:
    """Store headers or environment variables, encrypted. They replace the stored ones.

    If you omit a value, you are prompted for it, or it is read from standard input (one per line).
    This keeps it out of your shell history.
    """
    return anyio.run(_set, name, header or [], env or [], user, project, as_json)


@app.command()
def remove(name: Name, user: User = "", project: Project = "") -> int:
    """Remove stored credentials; a login is revoked at its authorization server too."""
    return anyio.run(_remove, name, user, project)


async def _list(name: str, as_json: bool) -> int:
    async with open_gateway(connect=()) as gateway:
        credentials = await gateway.rows("credentials", server=name)
    if as_json:
        print_json(credentials)
    elif credentials:
        print_table(
            ("Server", "Owner", "Type", "State", "Expires"),
            [_row(credential) for credential in credentials],
        )
    else:
        note("No stored credentials. Log in: toolgate servers login NAME")
    return SUCCESS


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


async def _set(
    name: str, headers: list[str], env: list[str], user: str, project: str, as_json: bool
) -> int:
    body: Json = {"headers": _parse_values("--header", headers), "env": _parse_values("--env", env)}
    body |= {key: value for key, value in (("user", user), ("project", project)) if value}
    async with open_gateway(connect=()) as gateway:
        stored = await gateway.request("POST", path_of("servers", name, "credentials"), body)
    if as_json:
        print_json(stored)
    else:
        print_text(f"Stored {', '.join(stored['names'])} for {name}.")
    return SUCCESS


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


async def _remove(name: str, user: str, project: str) -> int:
    async with open_gateway(connect=()) as gateway:
        gone = await gateway.remove_credentials(name, user=user, project=project)
    print_text(
        f"Removed the credentials for {name}." if gone else f"No stored credentials for {name}."
    )
    return SUCCESS
