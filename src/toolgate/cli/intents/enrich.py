"""`toolgate enrich`: the rules and tools that are added to a message for a model."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

import typer

from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_data, print_json, spinner
from toolgate.errors import ArgumentError
from toolgate.types import Json

app = CommandApp()


@app.command(help="Show the rules and tools that Toolgate adds to a message for a model.")
async def enrich(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="The message; - reads it from standard input."),
    ] = None,
    queries: Annotated[
        list[str] | None,
        typer.Option(
            "--query",
            metavar="STEP",
            help="Show the rules that getKnowledge returns for this step. Can be repeated.",
        ),
    ] = None,
    packs: Annotated[
        list[Path] | None,
        typer.Option(
            "--pack",
            metavar="DIR",
            help="Also use this pack, or the packs in DIR. Can be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show the rules and tools that Toolgate adds to a message for a model."""
    if queries and text:
        raise ArgumentError("A message and --query exclude each other.", hint="Use one of them.")
    body: Json = {"queries": queries} if queries else {"prompt": _message(text or [])}
    loaded = load_settings()
    if packs:
        paths = (*loaded.packs.paths, *(str(folder.absolute()) for folder in packs))
        loaded = replace(loaded, packs=replace(loaded.packs, paths=paths))
    with spinner("Finding rules"):
        async with open_gateway(loaded, force_local=bool(packs)) as gateway:
            answer = await gateway.enrich(body)
    rules = cast("list[Json]", answer["rules"])
    if as_json:
        print_json(answer)
        return SUCCESS if rules else NO_RESULT
    print_data(str(answer["text"]))
    if not rules:
        reason = answer.get("reason")
        note(str(reason) if reason else "There are no rules for these steps.")
        return NO_RESULT
    for entry in rules:
        note(_rules_line(entry))
    for entry in cast("list[Json]", answer["left_out"]):
        note(
            f"{entry['intent']}: omitted: its {entry['tokens']} tokens exceed rules.budget_tokens."
        )
    if answer.get("question"):
        note(str(answer["question"]))
    return SUCCESS


def _rules_line(rules: Json) -> str:
    """Describe the rules of an intent in one line."""
    cut = ", shortened to rules.budget_tokens" if rules["shortened"] else ""
    unknown = cast("list[str]", rules["unknown_variables"])
    left = f"; unknown: {', '.join(f'{{{{{name}}}}}' for name in unknown)}" if unknown else ""
    return (
        f"{rules['intent']} {rules['confidence']:.2f}: rules of the pack {rules['pack']}, "
        f"{rules['tokens']} tokens{cut}{left}."
    )


def _message(words: list[str]) -> str:
    if words == ["-"]:
        return sys.stdin.read()
    if not words:
        raise ArgumentError(
            "There is no message.", hint='Run: toolgate enrich "text of the message"'
        )
    return " ".join(words)
