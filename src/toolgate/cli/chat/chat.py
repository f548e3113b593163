"""`toolgate chat`: chat with a model that can use your tools."""

import sys
from concurrent.futures import CancelledError
from importlib import import_module
from typing import Annotated, Any

import typer
from anyio.from_thread import start_blocking_portal

from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import SUCCESS
from toolgate.cli.terminal._output import note, print_json
from toolgate.errors import ArgumentError, UnknownModelError

app = CommandApp()

_EXIT_WORDS = frozenset({"/exit", "/quit", "exit", "quit"})


@app.command(help="Chat with a model that can use your tools.")
def chat(
    message: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MESSAGE", help="Send this message and exit. Default: an interactive session."
        ),
    ] = None,
    thread: Annotated[
        str, typer.Option("--thread", "-t", metavar="NAME", help="Continue this thread.")
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="Model to use: NAME of a table models.NAME in the settings.",
        ),
    ] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show tool calls.")] = False,
    as_json: AsJson = False,
) -> int:
    """Chat with a model that can use your tools.

    The answer is streamed and tool calls are shown. Ctrl-C stops an answer, or ends the session.
    A message can be piped in. You are asked about calls that need approval.

    JSON: {"id", "object", "created", "model", "choices", "usage", "toolgate": {"run_id",
    "response_metadata"}}
    """
    loaded = load_settings()
    if not loaded.models:
        raise UnknownModelError(
            "No chat model is configured.",
            hint="Add a table [models.NAME]; see docs/chat.md.",
        )
    text = " ".join(message or ()).strip()
    is_piped = not message and not sys.stdin.isatty()
    if is_piped:
        text = sys.stdin.read().strip()
    if not text and (message or is_piped):
        raise ArgumentError("The message is empty.", hint="Type what you want to ask.")
    repl: Any = import_module("toolgate.cli.chat._repl")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            repl.open_chat(loaded, thread=thread, model=model, show_calls=not quiet and not as_json)
        ) as conversation,
    ):
        if text and as_json:
            print_json(portal.call(conversation.complete, text))
            return SUCCESS
        if text:
            return _run_turn(portal, conversation, text)
        note(f"Thread {conversation.thread}. /exit ends the session, Ctrl-C stops an answer.")
        while True:
            try:
                text = input("> ").strip()
            except (EOFError, KeyboardInterrupt):
                note("")
                return SUCCESS
            if text in _EXIT_WORDS:
                return SUCCESS
            if text:
                _run_turn(portal, conversation, text)


def _run_turn(portal: Any, conversation: Any, text: str) -> int:
    """Send a message and print the answer. Ctrl-C stops it; the part received so far is stored."""
    future = portal.start_task_soon(conversation.send, text)
    while True:
        try:
            waits = future.result()
        except KeyboardInterrupt:
            future.cancel()
            note("\n(stopped)")
            return 130
        except CancelledError:
            return 130
        if not waits:
            return SUCCESS
        answer = _confirm(waits)
        future = portal.start_task_soon(conversation.decide, waits, answer)


def _confirm(waits: list[dict[str, Any]]) -> bool:
    """Ask whether calls may run."""
    for approval in waits:
        note(f"{approval['tool']} wants to run with {approval['arguments']}")
    try:
        return typer.confirm("Allow?", default=False, err=True)
    except typer.Abort:
        return False
