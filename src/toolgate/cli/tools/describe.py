"""`toolgate describe`: show what tools do and which arguments they take."""

import json
from typing import Annotated, cast

import typer

from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_text, spinner
from toolgate.cli.terminal._sanitize import one_line
from toolgate.types import Json, json_object

app = CommandApp()


@app.command(help="Show what tools do and which arguments they take.")
async def describe(
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="Tool keys, such as github:get_issue.")
    ],
    indexed: Annotated[
        bool,
        typer.Option(
            "--indexed", help="Also show the texts that are embedded for semantic search."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show what tools do and which arguments they take."""
    with spinner("Looking up"):
        async with open_gateway() as gateway:
            answer = await gateway.describe(keys, indexed=indexed)
    tools = cast("list[Json]", answer.get("tools") or [])
    if as_json:
        print_json(answer)
    else:
        for position, tool in enumerate(tools):
            if position:
                print_text()
            show(tool)
        if answer.get("notice"):
            note(str(answer["notice"]))
    return SUCCESS if tools else NO_RESULT


def show(tool: Json) -> None:
    """Print key, description and arguments of a tool."""
    print_text(one_line(str(tool["toolKey"])))
    if tool.get("description"):
        print_text(_indented(str(tool["description"]), 4))
    schema = json_object(tool.get("inputSchema"))
    required = set(cast("list[str]", schema.get("required") or []))
    for name, property_schema in json_object(schema.get("properties")).items():
        details = json_object(property_schema)
        kind = details.get("type") or ("one of" if "enum" in details else "any")
        words = [" or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)]  # pyright: ignore[reportUnknownArgumentType] - a list of JSON
        if "enum" in details:
            words.append(
                ", ".join(json.dumps(choice, ensure_ascii=False) for choice in details["enum"])
            )
        if name in required:
            words.append("required")
        if "default" in details:
            words.append(f"default {json.dumps(details['default'], ensure_ascii=False)}")
        print_text(f"    {one_line(name)} ({one_line('; '.join(words))})")
        if details.get("description"):
            print_text(_indented(str(details["description"]), 8))
    for text in cast("list[str]", tool.get("indexed") or []):
        print_text(f"    indexed: {one_line(text)}")
    if tool.get("capabilities"):
        print_text(f"    capabilities: {', '.join(cast('list[str]', tool['capabilities']))}")


def _indented(text: str, columns: int) -> str:
    return "\n".join(f"{' ' * columns}{line}" for line in text.strip().splitlines())
