"""`toolgate tokens`: create, list, rotate and revoke tokens."""

from typing import Annotated, cast

import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._durations import parse_duration
from toolgate.cli.terminal._output import (
    local_time,
    note,
    print_json,
    print_result,
    print_rows,
    print_text,
)
from toolgate.errors import ArgumentError
from toolgate.settings import Settings
from toolgate.types import Json

app = CommandApp()

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the token, or its prefix (tg_…).")
]
Expires = Annotated[
    str,
    typer.Option(
        "--expires",
        metavar="DURATION",
        help="Lifetime, such as 12h, 30d or 1y. Default: never expires.",
    ),
]


@app.command()
async def create(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help="Names of the tokens, usually those of their users."
        ),
    ],
    project: Annotated[
        list[str] | None,
        typer.Option(
            "--project",
            metavar="PROJECT",
            help="Project the token may use; * for all. The first one is the default. Can be "
            "repeated.",
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="admin, member (all tools), reader (read-only tools), or a role from your rules."
            " Can be repeated.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="PATTERN",
            help="Allow *, SERVER, SERVER:TOOL, resource=…, prompt=…. Can be repeated.",
        ),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option(
            "--deny",
            metavar="PATTERN",
            help="Deny this pattern (same syntax as --allow). Can be repeated.",
        ),
    ] = None,
    user: Annotated[
        str,
        typer.Option(
            "--user", metavar="USER", help="User of the token, for rules and the audit log."
        ),
    ] = "",
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="GROUP", help="Group of the user. Can be repeated."),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Allow only read-only tools.")
    ] = False,
    expires: Expires = "",
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=NUMBER",
            help="calls_per_minute, concurrent_calls, calls_per_day or tokens_per_day. Can be "
            "repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create tokens. Each token is shown only once; the store keeps only its hash.

    A token has no rights until a rule allows something: use --allow or --role, or add rules.

    JSON: {"name", "id", "prefix", "state", "user", "projects", "roles", "groups", "read_only",
    "limits", "created_at", "expires_at", "rotated_at", "revoked_at", "last_used_at", "token"}; a
    list of them for several names.
    """
    body: Json = {
        "projects": project or [],
        "roles": role or [],
        "allow": allow or [],
        "deny": deny or [],
        "user": user,
        "groups": group or [],
        "read_only": read_only,
        "limits": _parse_limits(limit or []),
    }
    if expires:
        body["expires_in_s"] = parse_duration("--expires", expires)
    await _create(names, body, as_json)


async def _create(names: list[str], body: Json, as_json: bool) -> None:
    loaded = load_settings()
    created: list[Json] = []
    async with open_gateway(loaded, connect=()) as gateway:
        for name in names:
            created.append(await gateway.request("POST", "tokens", {**body, "name": name}))  # noqa: PERF401
    if as_json:
        print_json(created[0] if len(created) == 1 else created)
        return
    for token in created:
        _show(token)
    if not (body["allow"] or body["roles"] or loaded.permission):
        note(
            "It has no rights yet. Allow something, such as:"
            f" toolgate permissions allow '*' --to token:{names[0]}"
        )
    _note_if_tokens_are_optional(loaded)


@app.command("list")
async def list_tokens(as_json: AsJson = False) -> None:
    """List all tokens, without the secrets.

    JSON: a list of objects as printed by `create`, without "token"
    """
    loaded = load_settings()
    async with open_gateway(loaded, connect=()) as gateway:
        tokens = await gateway.rows("tokens")
    print_rows(
        tokens,
        ("Name", "Prefix", "State", "Projects", "Roles", "Expires", "Last used"),
        _row,
        empty="There are no tokens. Create one: toolgate tokens create NAME --allow '*'",
        as_json=as_json,
        wrap=3,
        spare=("Last used", "Expires", "Prefix"),
    )


@app.command()
async def rotate(
    name: Name,
    grace: Annotated[
        str,
        typer.Option(
            "--grace",
            metavar="DURATION",
            help="How long the old token stays valid, such as 15m or 1h. Default: 0.",
        ),
    ] = "",
    expires: Expires = "",
    as_json: AsJson = False,
) -> None:
    """Replace a token with a new one that has the same name, rules and limits.

    JSON: same as `create`
    """
    body: Json = {}
    if grace:
        body["grace_s"] = parse_duration("--grace", grace)
    if expires:
        body["expires_in_s"] = parse_duration("--expires", expires)
    async with open_gateway(connect=()) as gateway:
        token = await gateway.request("POST", path_of("tokens", name, "rotate"), body)
    if as_json:
        print_json(token)
    else:
        _show(token)


@app.command()
async def revoke(name: Name, as_json: AsJson = False) -> None:
    """Revoke a token. Its record is kept for the audit log.

    JSON: one item from `list`
    """
    async with open_gateway(connect=()) as gateway:
        token = await gateway.request("POST", path_of("tokens", name, "revoke"), {})
    print_result(token, f"Revoked {token['name']}.", as_json=as_json)


@app.command()
async def delete(name: Name, as_json: AsJson = False) -> None:
    """Delete a token and the rules that apply to it alone; its name can be used again.

    JSON: one item from `list`
    """
    async with open_gateway(connect=()) as gateway:
        token = await gateway.request("DELETE", path_of("tokens", name))
    print_result(token, f"Deleted {token['name']}.", as_json=as_json)


def _row(token: Json) -> tuple[str, ...]:
    return (
        str(token["name"]),
        str(token["prefix"]),
        str(token["state"]),
        ", ".join(cast("list[str]", token["projects"])) or "-",
        ", ".join(cast("list[str]", token["roles"])) or "-",
        local_time(token["expires_at"]),
        local_time(token["last_used_at"]),
    )


def _show(token: Json) -> None:
    """Print only the token to standard output, so that it can be piped; the rest to stderr."""
    note(f"Token {token['name']}, shown only once:")
    print_text(str(token["token"]))


def _note_if_tokens_are_optional(loaded: Settings) -> None:
    if loaded.auth == "local":
        note(
            'Tokens are required once the gateway runs with auth = "required":'
            " toolgate serve --auth required"
        )


def _parse_limits(texts: list[str]) -> dict[str, int]:
    limits: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not number.isdecimal() or len(number) > 15:
            raise ArgumentError(
                f"--limit got {text[:60]!r}.",
                allowed="Allowed: NAME=NUMBER, such as calls_per_minute=60.",
            )
        limits[name.strip()] = int(number)
    return limits
