"""`toolgate permissions`: list, add and remove permission rules."""

from typing import Annotated

import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import SUCCESS
from toolgate.cli.terminal._output import (
    note,
    plural,
    print_json,
    print_result,
    print_table,
    print_text,
)
from toolgate.errors import ArgumentError
from toolgate.types import Json

app = CommandApp()

Patterns = Annotated[
    list[str],
    typer.Argument(
        metavar="PATTERN...",
        help="*, SERVER, SERVER:TOOL, resource=SERVER:URI, prompt=SERVER:NAME, right=manage,"
        " right=internal, right=approve. * matches any text, ? any character.",
    ),
]
To = Annotated[
    list[str],
    typer.Option(
        "--to",
        metavar="WHO",
        help="Who the rule applies to: everyone, token:NAME, role:NAME, user:NAME, user@jwt:NAME, "
        "group:NAME, project:NAME."
        " Can be repeated.",
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Apply only to read-only tools.")]
Destructive = Annotated[
    bool,
    typer.Option(
        "--destructive",
        help="Apply only to destructive tools, including tools without annotations.",
    ),
]


@app.command("list")
async def list_permissions(as_json: AsJson = False) -> None:
    """List all rules, including those in toolgate.toml.

    JSON: a list of {"id", "effect", "to", "kind", "pattern", "hint", "source"}
    """
    loaded = load_settings()
    async with open_gateway(loaded, connect=()) as gateway:
        rules = await gateway.rows("permissions")
    if as_json:
        print_json(rules)
        return
    if rules:
        print_table(
            ("Rule", "Target", "To", "Id or source"), [_row(rule) for rule in rules], wrap=1
        )
    else:
        note("There are no rules. Add one: toolgate permissions allow PATTERN --to WHO")
    if loaded.auth == "local":
        note('With auth = "local" everything is allowed; rules apply with auth = "required".')


@app.command()
async def allow(
    patterns: Patterns,
    to: To,
    read_only: ReadOnly = False,
    destructive: Destructive = False,
    as_json: AsJson = False,
) -> int:
    """Add allow rules.

    JSON: a list of the new rules
    """
    return await _add("allow", patterns, to, _hint(read_only, destructive), as_json)


@app.command()
async def deny(
    patterns: Patterns,
    to: To,
    read_only: ReadOnly = False,
    destructive: Destructive = False,
    as_json: AsJson = False,
) -> int:
    """Add deny rules, which take precedence over allow rules.

    JSON: a list of the new rules
    """
    return await _add("deny", patterns, to, _hint(read_only, destructive), as_json)


@app.command()
async def remove(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, from `list`.")],
) -> None:
    """Remove rules that were added with `permissions allow` or `deny`."""
    async with open_gateway(connect=()) as gateway:
        for rule_id in ids:
            await gateway.request("DELETE", path_of("permissions", rule_id))
    print_text(f"Removed {plural(len(ids), 'rule')}.")


def _hint(read_only: bool, destructive: bool) -> str:
    if read_only and destructive:
        raise ArgumentError(
            "--read-only and --destructive exclude each other.", hint="Use one of them."
        )
    return "read_only" if read_only else "destructive" if destructive else ""


def _row(rule: Json) -> tuple[str, ...]:
    subject = str(rule["pattern"])
    if rule["kind"] not in {"any", "tool", "server"}:
        subject = f"{rule['kind']}={subject}"
    if rule["hint"]:
        subject += f" ({str(rule['hint']).replace('_', '-')})"
    return (str(rule["effect"]), subject, str(rule["to"]), str(rule["id"] or rule["source"]))


async def _add(effect: str, patterns: list[str], to: list[str], hint: str, as_json: bool) -> int:
    body: Json = {"effect": effect, "patterns": patterns, "to": to, "hint": hint}
    async with open_gateway(connect=()) as gateway:
        rules = (await gateway.request("POST", "permissions", body))["permissions"]
    print_result(rules, f"Added {plural(len(rules), 'rule')}.", as_json=as_json)
    return SUCCESS
