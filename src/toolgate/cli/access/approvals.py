"""`toolgate approvals`: list, approve and reject calls that await approval."""

import json
from pathlib import Path
from typing import Annotated, cast

import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import (
    local_time,
    print_json,
    print_rows,
    print_text,
)
from toolgate.errors import ArgumentError
from toolgate.types import Json

app = CommandApp()

Id = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the approval, or its first characters.")
]
Comment = Annotated[str, typer.Option("--comment", metavar="TEXT", help="Message to the caller.")]
_STATES = ("waiting", "approved", "rejected", "used", "expired", "all")


@app.command("list")
async def list_approvals(
    state: Annotated[
        str,
        typer.Option(
            "--state",
            metavar="STATE",
            help="waiting, approved, rejected, used, expired or all.",
        ),
    ] = "waiting",
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, max=1_000, metavar="N", help="Maximum number of approvals."),
    ] = 100,
    as_json: AsJson = False,
) -> int:
    """List approvals, newest first. Exit status 3 if there are none.

    JSON: a list of {"id", "state", "toolKey", "arguments", "reason", "who", "caller", "project",
    "client", "approver", "created_at", "expires_at", "decided_at", "decided_by", "decided_via",
    "comment", "edited", "used_at", "arguments_sha256"}
    """
    if state not in _STATES:
        raise ArgumentError(
            f"--state is {state[:40]!r}.", allowed=f"Allowed: {', '.join(_STATES)}."
        )
    async with open_gateway(connect=()) as gateway:
        approvals = await gateway.rows("approvals", state=state, limit=limit)
    print_rows(
        approvals,
        ("Id", "State", "Tool", "Arguments", "Who", "Expires"),
        _row,
        empty="No call awaits approval." if state == "waiting" else "There are no such approvals.",
        as_json=as_json,
        wrap=3,
        spare=("Expires", "State"),
    )
    return SUCCESS if approvals else NO_RESULT


@app.command()
async def show(approval_id: Id, as_json: AsJson = False) -> None:
    """Show an approval with the arguments of the call.

    JSON: one item from `list`
    """
    async with open_gateway(connect=()) as gateway:
        whole_id = await gateway.complete_approval_id(approval_id)
        approval = await gateway.request("GET", path_of("approvals", whole_id))
    if as_json:
        print_json(approval)
    else:
        _print(approval)


@app.command()
async def approve(
    approval_id: Id,
    code: Annotated[
        str,
        typer.Option(
            "--code",
            metavar="CODE",
            help="One-time approval code, shown in the console. Required to approve your own "
            "calls.",
        ),
    ] = "",
    arguments: Annotated[
        str,
        typer.Option(
            "--arguments",
            metavar="JSON",
            help="Arguments to use instead of the original ones; @FILE reads a file.",
        ),
    ] = "",
    comment: Comment = "",
    as_json: AsJson = False,
) -> int:
    """Approve a call. The caller can then make it once.

    JSON: one item from `list`
    """
    body: Json = {"comment": comment} if comment else {}
    if code:
        body["code"] = code
    if (replacement := _parse_arguments(arguments)) is not None:
        body["arguments"] = replacement
    return await _decide(approval_id, "approve", body, as_json)


@app.command()
async def reject(approval_id: Id, comment: Comment = "", as_json: AsJson = False) -> int:
    """Reject a call.

    JSON: one item from `list`
    """
    body: Json = {"comment": comment} if comment else {}
    return await _decide(approval_id, "reject", body, as_json)


async def _decide(approval_id: str, action: str, body: Json, as_json: bool) -> int:
    connect = "unknown" if "arguments" in body else ()
    async with open_gateway(connect=connect) as gateway:
        whole_id = await gateway.complete_approval_id(approval_id)
        path = path_of("approvals", whole_id, action)
        approval = await gateway.request("POST", path, body)
    if as_json:
        print_json(approval)
    elif action == "approve":
        print_text(
            f"Approved {approval['toolKey']} for {approval['who']}. The caller can repeat the call"
            f" once, until {local_time(str(approval['expires_at']))}."
        )
    else:
        print_text(f"Rejected {approval['toolKey']} for {approval['who']}.")
    return SUCCESS


def _row(approval: Json) -> tuple[str, ...]:
    return (
        str(approval["id"]),
        str(approval["state"]),
        str(approval["toolKey"]),
        _truncate(str(approval["arguments"])),
        str(approval["who"]),
        local_time(str(approval["expires_at"])),
    )


def _truncate(text: str, max_chars: int = 120) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _print(approval: Json) -> None:
    lines = [
        ("Tool", approval["toolKey"]),
        ("State", approval["state"]),
        ("Arguments", approval["arguments"]),
        ("Why", approval["reason"]),
        ("Who", f"{approval['who']} in {approval['project'] or 'no project'}"),
        ("Client", approval["client"]),
        ("Requested", local_time(str(approval["created_at"]))),
        ("Expires", local_time(str(approval["expires_at"]))),
        ("Approver", approval["approver"]),
        ("Code", approval.get("code")),
    ]
    if approval["decided_at"]:
        lines.append(
            ("Decided", f"{approval['decided_by']}, {local_time(str(approval['decided_at']))}")
        )
    lines += [(name, approval[key]) for name, key in (("Comment", "comment"), ("Edited", "edited"))]
    for name, value in lines:
        if value:
            print_text(f"{name}: {value}")


def _parse_arguments(text: str) -> Json | None:
    """Parse a JSON object given on the command line or in a file; None if there is none."""
    if not text:
        return None
    try:
        if text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        value: object = json.loads(text)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"--arguments cannot be read: {error}.") from error
    if not isinstance(value, dict):
        raise ArgumentError(
            "--arguments is not a JSON object.", allowed='Allowed: {"name": value}.'
        )
    return cast("Json", value)
