"""`toolgate run`: run a program over tools."""

import re
import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._open_gateway import Connect, open_gateway
from toolgate.cli.terminal._command_app import CommandApp
from toolgate.cli.terminal._exit import FAILED, SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_table, print_text, spinner
from toolgate.cli.tools.call import pair_of, read_arguments, read_json_object, show
from toolgate.errors import ArgumentError
from toolgate.types import Json, json_array, json_object

app = CommandApp()

_WHOLE_RESULT_TOKENS = 1_000_000
"""Limit for results; so high that output for the terminal is not truncated."""


@app.command(help="Run a Python program that calls tools (code mode).")
async def run(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Python file; - reads standard input.")
    ] = "",
    entry: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=VALUE", help="One input. Can be repeated."),
    ] = None,
    inputs: Annotated[
        str,
        typer.Option(
            "--inputs",
            metavar="JSON",
            help="All inputs as a JSON object; @FILE reads them from a file, - from standard "
            "input.",
        ),
    ] = "",
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", help="Time limit in seconds, including tool calls."
        ),
    ] = 0.0,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check the program and list its tools; do not run it."),
    ] = False,
    resume: Annotated[
        str, typer.Option("--resume", metavar="ID", help="Resume a parked program.")
    ] = "",
    kept: Annotated[
        bool, typer.Option("--kept", help="List stored values and parked programs.")
    ] = False,
    forget: Annotated[
        str, typer.Option("--forget", metavar="ID", help="Delete a stored value or parked program.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the full result as JSON.")] = False,
) -> int:
    """Run a Python program that calls tools (code mode)."""
    if forget:
        return await _forget(forget, as_json)
    if kept:
        return await _list_kept(as_json)
    if bool(file) == bool(resume):
        raise ArgumentError(
            "toolgate run needs either FILE or --resume.",
            allowed="Allowed: FILE, or --resume with the id of a program that is parked.",
        )
    body: Json = {"maxResultTokens": _WHOLE_RESULT_TOKENS}
    if timeout_s:
        body["timeout_s"] = timeout_s
    if resume:
        return await _run({**body, "resume": resume}, "all", as_json)
    code = _read(file)
    body |= {"code": code, "inputs": read_json_object(inputs, "--inputs")}
    body["inputs"] |= read_arguments([pair_of(text, "--input") for text in entry or []], {})
    if dry_run:
        body["dryRun"] = True
    return await _run(body, _servers_in(code), as_json)


async def _run(body: Json, connect: Connect, as_json: bool) -> int:
    with spinner("Running the program"):
        async with open_gateway(connect=connect) as gateway:
            result = await gateway.request("POST", "program", body)
    waiting = json_object(result.get("waiting"))
    if as_json:
        print_json(result)
    elif waiting:
        _show_waiting(waiting)
    else:
        show({**result, "structuredContent": None})  # the text says the same
    return FAILED if waiting or result.get("isError") else SUCCESS


async def _list_kept(as_json: bool) -> int:
    async with open_gateway(connect=()) as gateway:
        kept = await gateway.request("GET", "programs")
    if as_json:
        print_json(kept)
        return SUCCESS
    values, programs = json_array(kept.get("values")), json_array(kept.get("programs"))
    rows = [
        ("value", one["name"], f"{one['size_bytes']:,} bytes", one["expires_at"], one["id"])
        for one in values
    ]
    rows += [("program", "", one["state"], one["expires_at"], one["id"]) for one in programs]
    print_table(("Kind", "Name", "State", "Expires", "Id"), rows)
    if not rows:
        note("There are no stored values and no parked programs.")
    return SUCCESS


async def _forget(kept_id: str, as_json: bool) -> int:
    async with open_gateway(connect=()) as gateway:
        done = await gateway.request("DELETE", path_of("programs", kept_id))
    print_json(done) if as_json else print_text(f"Deleted {kept_id}.")
    return SUCCESS


def _show_waiting(waiting: Json) -> None:
    calls = cast("list[Json]", waiting.get("calls") or [])
    note(f"The program is parked: a person has to approve {len(calls)} of its calls.")
    for call in calls:
        note(f"  {call.get('approval_id')}  {call.get('text')}")
    note(f"Decide on {waiting.get('page')}, or with: toolgate approvals approve ID")
    note(f"Then resume it: toolgate run --resume {waiting.get('id')}")


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(
            f"The program {file!r} cannot be read: {error}.", hint="Use a Python file in UTF-8."
        ) from error


def _servers_in(code: str) -> frozenset[str]:
    """Guess the servers that a program uses, from the words in its code."""
    words = set(re.findall(r"[^\W\d]\w*", code))
    words |= {word.removesuffix("_") for word in words}
    return frozenset(words | {word.replace("_", mark) for word in words for mark in "-."})
