"""The command `toolgate`: lists all commands and imports only the one that runs."""

import inspect
import sys
from dataclasses import dataclass
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

GET_STARTED = "Get started"
RUN = "Run the gateway"
USE = "Use tools"
ACCESS = "Access control"
ADMINISTRATION = "Administration"


@dataclass(frozen=True)
class CommandEntry:
    """What the help shows of a command before its module is imported."""

    panel: str
    """Heading of the help under which it is listed."""

    package: str
    """Package in `toolgate.cli` that has its module; the module is named like the command."""

    summary: str
    """One sentence."""


COMMANDS: dict[str, CommandEntry] = {
    "init": CommandEntry(
        GET_STARTED,
        "setup",
        "Import the MCP servers of your other clients and write toolgate.toml.",
    ),
    "demo": CommandEntry(
        GET_STARTED, "demo", "Try Toolgate with real MCP servers: search, call, recovery."
    ),
    "doctor": CommandEntry(
        GET_STARTED, "setup", "Check configuration, servers, store and port, and suggest fixes."
    ),
    "serve": CommandEntry(RUN, "serving", "Serve the gateway over HTTP."),
    "stdio": CommandEntry(
        RUN,
        "serving",
        "Serve the gateway on standard input and output, for a client that starts it.",
    ),
    "tools": CommandEntry(USE, "tools", "List the tools of all servers."),
    "search": CommandEntry(USE, "tools", "Search for tools."),
    "describe": CommandEntry(USE, "tools", "Show what tools do and which arguments they take."),
    "call": CommandEntry(USE, "tools", "Call a tool."),
    "chat": CommandEntry(USE, "chat", "Chat with a model that can use your tools."),
    "threads": CommandEntry(
        USE, "chat", "List and delete conversations, and change their settings."
    ),
    "prompts": CommandEntry(USE, "chat", "Show and replace the prompts that models receive."),
    "detect": CommandEntry(
        USE, "intents", "Detect the intent of a message and read its arguments."
    ),
    "enrich": CommandEntry(
        USE, "intents", "Show the rules and tools that are added to a message for a model."
    ),
    "docs": CommandEntry(
        USE, "chat", "Import, list, search and remove documents that models answer from."
    ),
    "servers": CommandEntry(ADMINISTRATION, "tools", "List, add, change, test and remove servers."),
    "credentials": CommandEntry(
        ACCESS, "access", "List, store and remove credentials for servers."
    ),
    "keys": CommandEntry(
        ADMINISTRATION, "access", "Show and rotate the key that encrypts stored credentials."
    ),
    "pack": CommandEntry(
        ADMINISTRATION,
        "intents",
        "Create, check, list and enable packs of intents, rules and tools.",
    ),
    "tokens": CommandEntry(
        ACCESS, "access", "Create, list, rotate and revoke tokens for a shared gateway."
    ),
    "projects": CommandEntry(
        ACCESS, "access", "Create and change projects, which group servers and settings."
    ),
    "permissions": CommandEntry(
        ACCESS, "access", "Allow and deny servers, tools, resources and prompts."
    ),
    "guards": CommandEntry(
        ACCESS, "access", "Add call policies: argument rules, secrets, size limits, approval."
    ),
    "explain": CommandEntry(ACCESS, "access", "Explain why a caller can or cannot see a tool."),
    "approvals": CommandEntry(
        ACCESS, "access", "List calls that await approval, and approve or reject them."
    ),
    "index": CommandEntry(
        ADMINISTRATION, "tools", "Show, recompute and remove the vectors of the tool search."
    ),
    "config": CommandEntry(ADMINISTRATION, "setup", "Check and migrate the configuration."),
    "paths": CommandEntry(ADMINISTRATION, "setup", "Show where Toolgate stores its files."),
    "db": CommandEntry(
        ADMINISTRATION,
        "setup",
        "Upgrade, check, back up and restore the store while a gateway runs.",
    ),
    "audit": CommandEntry(ADMINISTRATION, "reports", "Show, export and verify the audit log."),
    "embedder": CommandEntry(
        ADMINISTRATION,
        "tools",
        "Test the configured embedder, or export a model for the embedder `onnx`.",
    ),
    "cost": CommandEntry(
        ADMINISTRATION,
        "reports",
        "Show what conversations cost in tokens, compared with listing every tool.",
    ),
    "profile": CommandEntry(
        ADMINISTRATION,
        "reports",
        "Replay past searches with other settings and show the differences.",
    ),
    "usage": CommandEntry(ADMINISTRATION, "reports", "Show and delete what was learned from use."),
    "eval": CommandEntry(
        ADMINISTRATION, "evaluation", "Measure the quality of search and intent detection."
    ),
    "uninstall": CommandEntry(
        ADMINISTRATION,
        "setup",
        "Show or remove everything that Toolgate installed on this machine.",
    ),
}
"""Every command, in the order of the help."""


class Commands(TyperGroup):
    """A command group that imports a command when it runs, not when it is listed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the names do not depend on it
        """All command names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """A placeholder with what the help needs."""
        if cmd_name not in COMMANDS:
            return None
        entry = COMMANDS[cmd_name]
        return TyperCommand(
            cmd_name, help=entry.summary, short_help=entry.summary, rich_help_panel=entry.panel
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The real command, to run it or complete its options."""
        name = args[0]
        if name in COMMANDS:
            return name, load(name), args[1:]
        if name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(name, COMMANDS, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise typer.TyperException(f"Unknown command {name!r}.{guess} See: toolgate --help")


app = typer.Typer(
    name="toolgate",
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback(epilog="--config, --import and --verbose can also follow a command.")
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
    # `split_globals` has read the global options already; declared here for the help.
    del ctx, config, imports, verbose
    if version:
        typer.echo(f"toolgate {__version__}")
        raise typer.Exit


def load(name: str) -> Any:
    """The command `name`, imported, with the settings that all commands share."""
    module = import_module(f"toolgate.cli.{COMMANDS[name].package}.{name}")
    plain: object = getattr(module, "command", None)
    command: Any = get_command(_typer_of(plain) if isinstance(plain, PlainCommand) else module.app)
    command.name = name
    command.context_settings.setdefault("help_option_names", ["--help", "-h"])
    return command


def run(argv: list[str]) -> int:
    """Run a command line without its global options; the exit status."""
    try:
        result = get_command(app).main(argv, prog_name="toolgate", standalone_mode=False)
    except typer.TyperException as problem:
        path = getattr(getattr(problem, "ctx", None), "command_path", None)
        see = f" See: {path} --help" if path else ""
        text = problem.format_message().rstrip()
        if not text:  # no message: the help was printed
            return 2
        text = text if not see or text.endswith((".", "?", "!", ")")) else f"{text}."
        print(f"toolgate: {sanitize(text)}{see}", file=sys.stderr)
        return int(problem.exit_code) if path else 2
    except typer.Abort:
        return 1
    return result if type(result) is int else 0


def _typer_of(command: PlainCommand) -> typer.Typer:
    """A Typer app with the options of a `PlainCommand`, for help and completion."""

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
