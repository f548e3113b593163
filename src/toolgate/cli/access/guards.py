"""`toolgate guards`: list, add and remove guards."""

import json
from typing import Annotated, cast

import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._output import (
    plural,
    print_result,
    print_rows,
    print_text,
)
from toolgate.errors import ArgumentError
from toolgate.types import Json

app = CommandApp()

_NOT_CHECKS = ("id", "tools", "projects", "hint", "reason", "source")


@app.command("list")
async def list_guards(as_json: AsJson = False) -> None:
    """List all guards, including those in toolgate.toml.

    JSON: a list of {"id", "source"} and the keys of its table guard
    """
    async with open_gateway(connect=()) as gateway:
        guards = await gateway.rows("guards")
    print_rows(
        guards,
        ("Tools", "Guard", "Id or source"),
        _row,
        empty="There are no guards. Add one: toolgate guards add PATTERN --approver user",
        as_json=as_json,
        wrap=1,
    )


Destructive = Annotated[
    bool,
    typer.Option(
        "--destructive",
        help="Apply only to destructive tools, including tools without annotations.",
    ),
]
Deny = Annotated[
    list[str] | None,
    typer.Option(
        "--deny",
        metavar="NAME=EXPRESSION",
        help="Refuse calls in which argument NAME matches this regular expression; * stands "
        "for any argument. Can be repeated.",
    ),
]
Sql = Annotated[
    list[str] | None,
    typer.Option(
        "--sql",
        metavar="NAME=DIALECT",
        help="Argument that must be a single read-only SQL statement in this dialect. Can be "
        "repeated.",
    ),
]
Approver = Annotated[
    str,
    typer.Option(
        "--approver",
        metavar="WHO",
        help="Require approval of each call: user (by the caller or an approver) or admin (by "
        "an approver other than the caller).",
    ),
]


@app.command()
async def add(
    tools: Annotated[
        list[str], typer.Argument(metavar="PATTERN...", help="*, SERVER or SERVER:TOOL.")
    ],
    project: Annotated[
        list[str] | None,
        typer.Option(
            "--project", metavar="NAME", help="Only calls in this project. Can be repeated."
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Apply only to read-only tools.")
    ] = False,
    destructive: Destructive = False,
    arguments: Annotated[
        str,
        typer.Option(
            "--arguments",
            metavar="JSON",
            help="JSON Schema for the arguments, in addition to the tool's own.",
        ),
    ] = "",
    deny: Deny = None,
    sql: Sql = None,
    max_argument_bytes: Annotated[
        int,
        typer.Option("--max-argument-bytes", metavar="N", help="Maximum size of the arguments."),
    ] = 0,
    max_result_bytes: Annotated[
        int, typer.Option("--max-result-bytes", metavar="N", help="Maximum size of the result.")
    ] = 0,
    secrets_in_arguments: Annotated[
        str,
        typer.Option(
            "--secrets-in-arguments",
            metavar="MODE",
            help="What to do with secrets in arguments: mask or block.",
        ),
    ] = "",
    secrets_in_results: Annotated[
        str,
        typer.Option(
            "--secrets-in-results",
            metavar="MODE",
            help="What to do with secrets in results: mask or block.",
        ),
    ] = "",
    approver: Approver = "",
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Reason, shown to models and people.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Add a guard for tools, effective from the next call.

    JSON: as `list`
    """
    if read_only and destructive:
        raise ArgumentError(
            "--read-only and --destructive exclude each other.", hint="Use one of them."
        )
    denied = _parse_denied(deny)
    guard: Json = {
        "tools": tools,
        "projects": project,
        "hint": "read_only" if read_only else "destructive" if destructive else "",
        "arguments": _parse_schema(arguments),
        "deny": denied,
        "sql": dict(_parse_pairs("--sql", sql)),
        "max_argument_bytes": max_argument_bytes,
        "max_result_bytes": max_result_bytes,
        "secrets_in_arguments": secrets_in_arguments,
        "secrets_in_results": secrets_in_results,
        "approver": approver,
        "reason": reason,
    }
    guard = {name: value for name, value in guard.items() if value}
    async with open_gateway(connect=()) as gateway:
        created = await gateway.request("POST", "guards", guard)
    print_result(created, f"Added the guard {created['id']}.", as_json=as_json)


@app.command()
async def remove(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, from `list`.")],
) -> None:
    """Remove guards that were added with `guards add`."""
    async with open_gateway(connect=()) as gateway:
        for guard_id in ids:
            await gateway.request("DELETE", path_of("guards", guard_id))
    print_text(f"Removed {plural(len(ids), 'guard')}.")


def _parse_denied(texts: list[str] | None) -> dict[str, list[str]]:
    """Parse denied patterns, by argument."""
    denied: dict[str, list[str]] = {}
    for name, expression in _parse_pairs("--deny", texts):
        denied.setdefault(name, []).append(expression)
    return denied


def _parse_pairs(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ArgumentError(
                f"{option} {text[:60]!r} lacks a name or a value.",
                hint=f"Write {option} NAME=VALUE.",
            )
        pairs.append((name, value))
    return pairs


def _parse_schema(text: str) -> Json:
    if not text:
        return {}
    try:
        schema: object = json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"--arguments is not JSON: {error}.", hint="Correct it.") from error
    if not isinstance(schema, dict):
        raise ArgumentError("--arguments is not an object.", allowed="Allowed: a JSON Schema.")
    return cast("Json", schema)


def _row(guard: Json) -> tuple[str, ...]:
    scope = ", ".join(guard["tools"])
    if guard.get("hint"):
        scope += f" ({str(guard['hint']).replace('_', '-')})"
    if guard.get("projects"):
        scope += f" in {', '.join(guard['projects'])}"
    does = "; ".join(
        f"{name} {value if isinstance(value, str | int) else json.dumps(value)}"
        for name, value in guard.items()
        if name not in _NOT_CHECKS
    )
    return (scope, does, str(guard["id"] or guard["source"]))
