"""`toolgate threads`: list and delete conversations, and change their settings."""

import json
from typing import Annotated, Any

import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import local_time, note, print_json, print_table
from toolgate.errors import ArgumentError
from toolgate.types import Json

app = CommandApp()

Thread = Annotated[str, typer.Argument(metavar="THREAD", help="Name of the thread.")]


@app.command("list")
async def list_threads(
    responses: Annotated[
        bool,
        typer.Option(
            "--responses", help="Also list threads that /v1/responses created without a name."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """List your threads, most recently used first. Exit status 3 if there are none.

    JSON: a list of {"thread_id", "created_at", "used_at", "messages", "running", "waiting"}
    """
    async with open_gateway(connect=()) as gateway:
        threads = await gateway.rows("threads", responses="true" if responses else "")
    if as_json:
        print_json(threads)
    elif threads:
        print_table(
            ("Thread", "Messages", "Last used", "State"),
            [
                (
                    thread["thread_id"],
                    str(thread["messages"]),
                    local_time(thread["used_at"]),
                    "running"
                    if thread["running"]
                    else "awaits approval"
                    if thread["waiting"]
                    else "",
                )
                for thread in threads
            ],
        )
    else:
        note("There are no threads.")
    return SUCCESS if threads else NO_RESULT


@app.command()
async def settings(
    thread: Annotated[
        str,
        typer.Argument(
            metavar="[THREAD]", help="Name of the thread. Omit it for the settings of the project."
        ),
    ] = "",
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a value, such as retrieval=forced or tools_enabled=NL2SQL; KEY= resets it. "
            "Can be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or change the settings of a thread or the project, effective from the next turn.

    JSON: {"set", "active"}
    """
    changes = [_parse_setting(text) for text in change or ()]
    path = path_of("threads", thread, "settings") if thread else "chat/settings"
    async with open_gateway(connect=()) as gateway:
        if changes:
            answer = await gateway.request("PATCH", path, dict(changes))
        else:
            answer = await gateway.request("GET", path)
    if as_json:
        print_json(answer)
    else:
        print_table(
            ("Setting", "Value", ""),
            [
                (name, json.dumps(value), "set here" if name in answer["set"] else "")
                for name, value in answer["active"].items()
            ],
        )


@app.command()
async def delete(thread: Thread, as_json: AsJson = False) -> int:
    """Delete a thread with all its messages. Exit status 3 if there is none.

    JSON: {"deleted"}
    """
    async with open_gateway(connect=()) as gateway:
        answer = await gateway.request("DELETE", path_of("threads", thread))
    if as_json:
        print_json(answer)
    else:
        note(f"Deleted {thread}." if answer["deleted"] else f"There is no thread {thread}.")
    return SUCCESS if answer["deleted"] else NO_RESULT


@app.command()
async def usage(thread: Thread, as_json: AsJson = False) -> int:
    """Show the cost of a thread's model requests. Exit status 3 if there are none.

    JSON: a list of {"turn_id", "purpose", "model", "prompt_tokens", "completion_tokens",
    "cached_tokens", "cost", "is_estimate", "at"}
    """
    async with open_gateway(connect=()) as gateway:
        rows = (await gateway.request("GET", path_of("threads", thread, "usage")))["usage"]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(
            ("Time", "Purpose", "Model", "Prompt", "Cached", "Completion", "Cost"),
            [
                (
                    local_time(row["at"]),
                    row["purpose"],
                    row["model"],
                    f"{row['prompt_tokens']:,}",
                    f"{row['cached_tokens']:,}",
                    f"{row['completion_tokens']:,}",
                    f"{row['cost']:.6g}",
                )
                for row in rows
            ],
        )
    else:
        note("No requests to models.")
    return SUCCESS if rows else NO_RESULT


def _parse_setting(text: str) -> tuple[str, Any]:
    """Parse name and value of a setting: JSON if valid, else a comma-separated list or text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError(f"--set is {text[:60]!r}.", allowed="Expected: KEY=VALUE.")
    if not value:
        return name, None
    if name in {"tools_enabled", "collections"} and not value.startswith("["):
        return name, [tool.strip() for tool in value.split(",") if tool.strip() and tool != "none"]
    try:
        read: Json | Any = json.loads(value)
    except ValueError:
        return name, value
    return name, read
