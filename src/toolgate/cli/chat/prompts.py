"""`toolgate prompts`: show and replace the prompts that models receive."""

import json
from pathlib import Path
from typing import Annotated

import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import local_time, note, print_data, print_json, print_table
from toolgate.errors import ArgumentError
from toolgate.types import Json, json_array

app = CommandApp()

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the prompt, from `list`.")]


@app.command("list")
async def list_prompts(as_json: AsJson = False) -> None:
    """List all prompts from Toolgate, packs and servers.

    JSON: a list of {"name", "mcp_name", "title", "role", "needs", "is_default", "version",
    "changed_at", "changed_by"}
    """
    async with open_gateway() as gateway:
        prompts = await gateway.rows("prompts")
    if as_json:
        print_json(prompts)
    else:
        print_table(
            ("Name", "Title", "Text"),
            [
                (
                    prompt["name"],
                    prompt["title"],
                    "default" if prompt["is_default"] else _since(prompt),
                )
                for prompt in prompts
            ],
            wrap=1,
        )


@app.command("get")
async def get(name: Name, as_json: AsJson = False) -> None:
    """Print the current text of a prompt.

    JSON: as `list`, with "text"
    """
    async with open_gateway() as gateway:
        prompt = await gateway.request("GET", path_of("prompts", name))
    if as_json:
        print_json(prompt)
    elif prompt["text"] is None:
        note("The server provides its text; read it with an MCP client.")
    else:
        print_data(f"{prompt['text']}\n")


@app.command("set")
async def set_prompt(
    name: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The new text; @FILE reads a file.")],
    as_json: AsJson = False,
) -> None:
    """Replace the text of a prompt, effective from the next request.

    JSON: as `get`
    """
    body: Json = {"instructions": _text(text)}
    async with open_gateway() as gateway:
        prompt = await gateway.request("PATCH", path_of("prompts", name), body)
    if as_json:
        print_json(prompt)
    else:
        note(f"{prompt['name']} is now at version {prompt['version']}.")


@app.command()
async def clear(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the prompt.")] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Restore the default text of all replaced prompts.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Restore the default text. Exit status 3 if the prompt was not replaced.

    JSON: {"cleared"}
    """
    if bool(name) == everything:
        raise ArgumentError("Either NAME or --all must be given.", hint="Use one of them.")
    path = path_of("prompts", name) if name else "prompts"
    async with open_gateway() as gateway:
        answer = await gateway.request("DELETE", path)
    if as_json:
        print_json(answer)
    elif answer["cleared"]:
        names = [str(cleared) for cleared in json_array(answer["cleared"])] or [name]
        note(f"Restored the default of {', '.join(names)}.")
    else:
        note("No prompt was replaced.")
    return SUCCESS if answer["cleared"] else NO_RESULT


@app.command("test")
async def try_out(
    name: Name,
    text: Annotated[
        str,
        typer.Option("--text", metavar="TEXT", help="Test this text instead; @FILE reads a file."),
    ] = "",
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value", metavar="FIELD=TEXT", help="Value of a placeholder. Can be repeated."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Render a prompt without changing it.

    JSON: {"name", "text", "fields"}
    """
    values: dict[str, str] = {}
    for pair in value or ():
        field, equals, content = pair.partition("=")
        if not equals:
            raise ArgumentError(f"--value is {pair[:60]!r}.", allowed="Expected: FIELD=TEXT.")
        values[field] = content
    body: Json = {"values": values, "text": _text(text)} if text else {"values": values}
    async with open_gateway() as gateway:
        answer = await gateway.request("POST", path_of("prompts", name, "test"), body)
    if as_json:
        print_json(answer)
    else:
        print_data(f"{answer['text']}\n")


@app.command()
async def versions(name: Name, as_json: AsJson = False) -> int:
    """List the versions of a prompt, oldest first. Exit status 3 if it was never replaced.

    JSON: a list of {"project_id", "name", "version", "text", "changed_at", "changed_by"}; text is
    null where the default was restored
    """
    async with open_gateway() as gateway:
        rows = (await gateway.request("GET", path_of("prompts", name, "versions")))["versions"]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(
            ("Version", "Since", "By", "Text"),
            [
                (
                    str(version["version"]),
                    local_time(version["changed_at"]),
                    version["changed_by"],
                    "default" if version["text"] is None else json.dumps(version["text"][:60]),
                )
                for version in rows
            ],
            wrap=3,
        )
    else:
        note("Never replaced.")
    return SUCCESS if rows else NO_RESULT


def _since(prompt: Json) -> str:
    return f"replaced {local_time(prompt['changed_at'])}"


def _text(argument: str) -> str:
    """Return the argument, or the content of the file that it names with @."""
    if not argument.startswith("@"):
        return argument
    try:
        return Path(argument[1:]).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"The file {argument[1:]!r} cannot be read: {error}.") from error
