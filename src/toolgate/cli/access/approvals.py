"""`toolgate approvals`: calls that wait for a person."""

import json
from pathlib import Path
from typing import Annotated, cast

import anyio
import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._exit import FINE, NOTHING
from toolgate.cli.terminal._output import local_time, note, print_json, print_table, print_text
from toolgate.errors import ArgumentError
from toolgate.types import Json

__all__ = ["app"]

app = typer.Typer(
    help="Show the calls that wait for a person, and say yes or no.",
    no_args_is_help=True,
    add_completion=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Of the approval; its beginning is enough.")]
Comment = Annotated[
    str, typer.Option("--comment", metavar="TEXT", help="What the caller is told about it.")
]
_STATES = ("waiting", "approved", "rejected", "used", "expired", "all")


@app.command("list")
def list_approvals(
    state: Annotated[
        str,
        typer.Option(
            "--state",
            metavar="STATE",
            help="waiting, approved, rejected, used, expired or all.",
        ),
    ] = "waiting",
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1_000, metavar="N", help="At most this many.")
    ] = 100,
    as_json: AsJson = False,
) -> int:
    """List calls that wait, newest first. Exit status 3 when there are none.

    JSON: a list of {"id", "state", "toolKey", "arguments", "reason", "who", "caller", "project",
    "client", "approver", "created_at", "expires_at", "decided_at", "decided_by", "decided_via",
    "comment", "edited", "used_at", "arguments_sha256"}
    """
    if state not in _STATES:
        raise ArgumentError(
            f"--state is {state[:40]!r}.", allowed=f"Allowed: {', '.join(_STATES)}."
        )
    return anyio.run(_list, state, limit, as_json)


@app.command()
def show(approval_id: Id, as_json: AsJson = False) -> int:
    """Show one call with its arguments.

    JSON: as `list`, of one
    """
    return anyio.run(_show, approval_id, as_json)


@app.command()
def approve(
    approval_id: Id,
    arguments: Annotated[
        str,
        typer.Option(
            "--arguments",
            metavar="JSON",
            help="Arguments that run in place of those that came; @FILE reads a file.",
        ),
    ] = "",
    comment: Comment = "",
    as_json: AsJson = False,
) -> int:
    """Let a call run, once: whoever wants it makes it again.

    JSON: as `list`, of one
    """
    return anyio.run(_decide, approval_id, True, comment, _object(arguments), as_json)


@app.command()
def reject(approval_id: Id, comment: Comment = "", as_json: AsJson = False) -> int:
    """Say no to a call.

    JSON: as `list`, of one
    """
    return anyio.run(_decide, approval_id, False, comment, None, as_json)


async def _list(state: str, limit: int, as_json: bool) -> int:
    async with open_gateway(load_settings(), connect=()) as gateway:
        found = await gateway.rows("approvals", state=state, limit=limit)
    if as_json:
        print_json(found)
    elif found:
        print_table(
            ("Id", "State", "Tool", "Arguments", "Who", "Expires"),
            [_row(one) for one in found],
            wrap=3,
            spare=("Expires", "State"),
        )
    else:
        note("No call waits." if state == "waiting" else "There are none.")
    return FINE if found else NOTHING


async def _show(approval_id: str, as_json: bool) -> int:
    async with open_gateway(load_settings(), connect=()) as gateway:
        whole_id = await gateway.complete_approval_id(approval_id)
        found = await gateway.request("GET", path_of("approvals", whole_id))
    if as_json:
        print_json(found)
    else:
        _print(found)
    return FINE


async def _decide(
    approval_id: str, approved: bool, comment: str, arguments: Json | None, as_json: bool
) -> int:
    wanted: Json = {"comment": comment} if comment else {}
    if arguments is not None:
        wanted["arguments"] = arguments
    async with open_gateway(load_settings(), connect="unknown" if arguments else ()) as gateway:
        whole_id = await gateway.complete_approval_id(approval_id)
        action = "approve" if approved else "reject"
        path = path_of("approvals", whole_id, action)
        found = await gateway.request("POST", path, wanted)
    if as_json:
        print_json(found)
    elif approved:
        print_text(
            f"Approved {found['toolKey']} for {found['who']}: the call runs once when it is made"
            f" again, until {local_time(str(found['expires_at']))}."
        )
    else:
        print_text(f"Rejected {found['toolKey']} for {found['who']}.")
    return FINE


def _row(one: Json) -> tuple[str, ...]:
    return (
        str(one["id"]),
        str(one["state"]),
        str(one["toolKey"]),
        _short(str(one["arguments"])),
        str(one["who"]),
        local_time(str(one["expires_at"])),
    )


def _short(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _print(one: Json) -> None:
    lines = [
        ("Tool", one["toolKey"]),
        ("State", one["state"]),
        ("Arguments", one["arguments"]),
        ("Why", one["reason"]),
        ("Who", f"{one['who']} in {one['project'] or 'no project'}"),
        ("Client", one["client"]),
        ("Asked", local_time(str(one["created_at"]))),
        ("Expires", local_time(str(one["expires_at"]))),
        ("Who may decide", one["approver"]),
    ]
    if one["decided_at"]:
        lines.append(("Decided", f"{one['decided_by']}, {local_time(str(one['decided_at']))}"))
    lines += [(name, one[key]) for name, key in (("Comment", "comment"), ("Edited", "edited"))]
    for name, value in lines:
        if value:
            print_text(f"{name}: {value}")


def _object(text: str) -> Json | None:
    """Arguments as they were written, or in a file."""
    if not text:
        return None
    try:
        if text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        found: object = json.loads(text)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"--arguments cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise ArgumentError("--arguments is no JSON object.", allowed='Allowed: {"name": value}.')
    return cast("Json", found)
