"""The command `toolgate` itself: it knows the names of commands, and loads the one that is used."""

import inspect
import sys
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from toolgate import __version__
from toolgate.cli.terminal._plain_command import SHARED_OPTIONS, Option, PlainCommand
from toolgate.cli.terminal._sanitize import sanitize

__all__ = ["COMMANDS", "app", "load", "run"]

START = "Start"
SERVE = "Serve"
USE = "Use tools"
SHARE = "Share"
LOOK_AFTER = "Look after"

COMMANDS: dict[str, tuple[str, str, str]] = {
    "init": (
        START,
        "setup",
        "Find the MCP servers that your clients know and set Toolgate up with them.",
    ),
    "demo": (START, "demo", "Show the main job on real MCP servers, from search to executed call."),
    "doctor": (START, "setup", "Check configuration, servers, store and port, and say what to do."),
    "serve": (SERVE, "serving", "Serve the gateway over HTTP."),
    "stdio": (
        SERVE,
        "serving",
        "Serve the gateway on standard input and output, for a client that starts it.",
    ),
    "tools": (USE, "tools", "List the tools of all servers."),
    "search": (USE, "tools", "Find the tools that fit a request."),
    "describe": (USE, "tools", "Show what tools do and which arguments they take."),
    "call": (USE, "tools", "Run a tool."),
    "chat": (USE, "chat", "Talk to a model that has your tools."),
    "threads": (USE, "chat", "List conversations, and set what their turns go by."),
    "prompts": (
        USE,
        "chat",
        "Show the prompts that models are given, and put others in their place.",
    ),
    "detect": (USE, "intents", "Tell what a message asks for, and read its arguments."),
    "enrich": (USE, "intents", "Show a message with the rules and tools that a model gets for it."),
    "docs": (
        USE,
        "chat",
        "Take documents in, list, search and remove them: what models answer from.",
    ),
    "servers": (LOOK_AFTER, "tools", "List, add, change, test and remove servers."),
    "credentials": (SHARE, "access", "Show, give and remove what servers are shown."),
    "keys": (
        LOOK_AFTER,
        "access",
        "Show and exchange the key that credentials of servers are encrypted with.",
    ),
    "pack": (
        LOOK_AFTER,
        "intents",
        "Make, check, list and switch packs: intents, rules and tools in files.",
    ),
    "tokens": (SHARE, "access", "Make, list, renew and revoke tokens for a shared gateway."),
    "projects": (
        SHARE,
        "access",
        "Make projects: which servers belong together, and what differs there.",
    ),
    "permissions": (SHARE, "access", "Allow and deny servers, tools, resources and prompts."),
    "guards": (SHARE, "access", "Have calls looked at: arguments, secrets, sizes, approval."),
    "explain": (SHARE, "access", "Say why somebody sees a tool, or does not."),
    "approvals": (SHARE, "access", "Show the calls that wait for a person, and say yes or no."),
    "index": (LOOK_AFTER, "tools", "Show, renew or remove the vectors by which tools are found."),
    "config": (LOOK_AFTER, "setup", "Check the configuration, or bring an old one up to date."),
    "paths": (
        LOOK_AFTER,
        "setup",
        "Show where Toolgate keeps its files; none of them has to exist.",
    ),
    "db": (
        LOOK_AFTER,
        "setup",
        "Upgrade, check, back up and restore the store; all of it while a gateway runs.",
    ),
    "audit": (LOOK_AFTER, "reports", "Show and export what was searched and called."),
    "embedder": (
        LOOK_AFTER,
        "tools",
        "Try the embedder that is configured, or make a model for the embedder `onnx`.",
    ),
    "cost": (LOOK_AFTER, "reports", "Show what tasks cost in tokens, against listing every tool."),
    "profile": (
        LOOK_AFTER,
        "reports",
        "Replay past searches with other settings, and show what would be different.",
    ),
    "usage": (LOOK_AFTER, "reports", "Show and forget what was learned from use."),
    "eval": (LOOK_AFTER, "evaluation", "Measure how good search and intents are."),
    "uninstall": (
        LOOK_AFTER,
        "setup",
        "Show or remove everything that Toolgate put on this machine.",
    ),
}
"""Every command: its panel in the help, the folder with its module, and its summary."""


class Commands(TyperGroup):
    """A group whose commands are imported when they are used, not to list their names."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the names never depend on it
        """All names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """A stand-in that knows what the help needs."""
        if cmd_name not in COMMANDS:
            return None
        panel, _, text = COMMANDS[cmd_name]
        return TyperCommand(cmd_name, help=text, short_help=text, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself, for running it or completing its options."""
        name = args[0]
        if name in COMMANDS:
            return name, load(name), args[1:]
        if name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(name, COMMANDS, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise typer.TyperException(f"There is no command {name!r}.{guess} See: toolgate --help")


app = typer.Typer(
    name="toolgate",
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback(epilog="The options --config, --import and --verbose may stand after a command too.")
def root(
    ctx: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help=SHARED_OPTIONS[0].help)
    ] = None,
    imports: Annotated[
        list[Path] | None, typer.Option("--import", metavar="FILE", help=SHARED_OPTIONS[1].help)
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help=SHARED_OPTIONS[2].help)] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """One MCP endpoint in front of all your MCP servers."""
    # `split_globals` has read the shared options before; they stand here for help and completion.
    del ctx, config, imports, verbose
    if version:
        typer.echo(f"toolgate {__version__}")
        raise typer.Exit


def load(name: str) -> Any:
    """The command `name`, imported and with the shared ways of the command line."""
    module = import_module(f"toolgate.cli.{COMMANDS[name][1]}.{name}")
    plain: object = getattr(module, "command", None)
    command: Any = get_command(_typer_of(plain) if isinstance(plain, PlainCommand) else module.app)
    command.name = name
    command.context_settings.setdefault("help_option_names", ["--help", "-h"])
    return command


def run(argv: list[str]) -> int:
    """Run a command line without its shared options; gives the exit status."""
    try:
        result = get_command(app).main(argv, prog_name="toolgate", standalone_mode=False)
    except typer.TyperException as problem:
        path = getattr(getattr(problem, "ctx", None), "command_path", None)
        see = f" See: {path} --help" if path else ""
        text = problem.format_message().rstrip()
        if not text:  # no words at all: the help was shown
            return 2
        text = text if not see or text.endswith((".", "?", "!", ")")) else f"{text}."
        print(f"toolgate: {sanitize(text)}{see}", file=sys.stderr)
        return int(problem.exit_code) if path else 2
    except typer.Abort:
        return 1
    return result if type(result) is int else 0


def _typer_of(command: PlainCommand) -> typer.Typer:
    """Help and completion for a command whose options are data."""

    def call(**values: Any) -> int:
        return command.call(**{name: value for name, value in values.items() if value})

    parameters = [_parameter(option) for option in command.options]
    call.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    typer_app = typer.Typer(add_completion=False)
    typer_app.command(name=command.name, help=command.help)(call)
    return typer_app


def _parameter(option: Option) -> inspect.Parameter:
    default: object = None
    kind: Any = option.kind | None
    if option.kind is bool:
        kind, default = bool, False
    elif option.repeated:
        kind = list[option.kind] | None
    details = typer.Option(*option.flags, help=option.help, metavar=option.metavar or None)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, details],
    )
