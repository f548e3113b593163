"""The command `toolgate`: lists all commands and imports only the one that runs."""

import inspect
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from toolgate import __version__
from toolgate.cli.terminal._plain_command import SHARED_OPTIONS, Option, PlainCommand, Positional
from toolgate.cli.terminal._sanitize import sanitize

GET_STARTED = "Get started"
RUN = "Run the gateway"
USE = "Use tools"
SETUP = "Servers and configuration"
ACCESS = "Access control"
UNDERSTAND = "Intents, documents and chat"
ADMINISTRATION = "Administration"

EVERYDAY = frozenset({GET_STARTED, RUN, USE, SETUP})
"""Groups that `--help` shows; `--help-all` shows the others too."""


@dataclass(frozen=True)
class CommandEntry:
    """What the help shows about a command before its module is imported."""

    panel: str
    """Heading in the help under which it is listed."""

    package: str
    """Package in `toolgate.cli` that contains its module, which is named like the command."""

    summary: str
    """Description in one sentence."""


COMMANDS: dict[str, CommandEntry] = {
    "init": CommandEntry(
        GET_STARTED,
        "setup",
        "Import MCP servers from your clients and write toolgate.toml.",
    ),
    "add": CommandEntry(
        GET_STARTED, "tools", "Add a server: a command line, a JSON snippet or a URL."
    ),
    "doctor": CommandEntry(
        GET_STARTED, "setup", "Check configuration, servers, store and port, and suggest fixes."
    ),
    "demo": CommandEntry(
        GET_STARTED,
        "demo",
        "Try Toolgate with real MCP servers: find tools, call them, recover from a crash.",
    ),
    "start": CommandEntry(RUN, "serving", "Start the gateway in the background."),
    "stop": CommandEntry(RUN, "serving", "Stop the gateway once active calls have finished."),
    "status": CommandEntry(
        RUN, "serving", "Show whether the gateway is running, and the state of its servers."
    ),
    "logs": CommandEntry(RUN, "serving", "Show the background gateway's log; -f follows it."),
    "open": CommandEntry(RUN, "serving", "Open the web console in the browser."),
    "serve": CommandEntry(RUN, "serving", "Serve the gateway over HTTP."),
    "stdio": CommandEntry(
        RUN,
        "serving",
        "Serve the gateway over stdio, for clients that start it themselves.",
    ),
    "service": CommandEntry(
        RUN, "serving", "Run the gateway as a service that starts when you log in."
    ),
    "tools": CommandEntry(USE, "tools", "List the tools of all servers."),
    "search": CommandEntry(USE, "tools", "Search for tools."),
    "describe": CommandEntry(USE, "tools", "Show what tools do and which arguments they take."),
    "call": CommandEntry(USE, "tools", "Call a tool."),
    "run": CommandEntry(USE, "tools", "Run a Python program that calls tools (code mode)."),
    "chat": CommandEntry(USE, "chat", "Chat with a model that can use your tools."),
    "servers": CommandEntry(SETUP, "tools", "List, add, change, test and remove servers."),
    "config": CommandEntry(SETUP, "setup", "Check and migrate the configuration."),
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
        ACCESS,
        "access",
        "Add, list and remove guards: rules for arguments, secrets, sizes, approval.",
    ),
    "approvals": CommandEntry(
        ACCESS, "access", "List calls waiting for approval; approve or reject them."
    ),
    "explain": CommandEntry(ACCESS, "access", "Explain why a caller can or cannot see a tool."),
    "credentials": CommandEntry(
        ACCESS, "access", "List, store and remove credentials for servers."
    ),
    "keys": CommandEntry(
        ACCESS, "access", "Show and rotate the key that encrypts stored credentials."
    ),
    "pack": CommandEntry(
        UNDERSTAND, "intents", "Create, check, list and enable packs of intents, rules and tools."
    ),
    "detect": CommandEntry(
        UNDERSTAND, "intents", "Detect the intent of a message and extract its arguments."
    ),
    "enrich": CommandEntry(
        UNDERSTAND,
        "intents",
        "Show the rules and tools that Toolgate adds to a message for a model.",
    ),
    "docs": CommandEntry(
        UNDERSTAND,
        "chat",
        "Import, list, search and remove documents that models use to answer questions.",
    ),
    "threads": CommandEntry(
        UNDERSTAND, "chat", "List and delete chat threads, and change their settings."
    ),
    "prompts": CommandEntry(
        UNDERSTAND, "chat", "Show and replace the prompts that models receive."
    ),
    "audit": CommandEntry(ADMINISTRATION, "reports", "Show, export and verify the audit log."),
    "cost": CommandEntry(
        ADMINISTRATION,
        "reports",
        "Show what conversations cost in tokens, compared with listing every tool.",
    ),
    "usage": CommandEntry(
        ADMINISTRATION, "reports", "Show or delete what search has learned from tool usage."
    ),
    "profile": CommandEntry(
        ADMINISTRATION,
        "reports",
        "Replay past searches with different settings and show the differences.",
    ),
    "eval": CommandEntry(
        ADMINISTRATION, "evaluation", "Measure the quality of search, intent detection and answers."
    ),
    "index": CommandEntry(
        ADMINISTRATION, "tools", "Show, recompute and remove the vectors used by tool search."
    ),
    "embedder": CommandEntry(
        ADMINISTRATION,
        "tools",
        "Test the configured embedder, or export a model for the embedder `onnx`.",
    ),
    "db": CommandEntry(
        ADMINISTRATION,
        "setup",
        "Upgrade, check, back up and restore the store, even while a gateway is running.",
    ),
    "paths": CommandEntry(ADMINISTRATION, "setup", "Show where Toolgate stores its files."),
    "uninstall": CommandEntry(
        ADMINISTRATION,
        "setup",
        "Show or remove everything that Toolgate installed on this machine.",
    ),
}
"""Every command, in the order of the help."""


class Commands(TyperGroup):
    """A command group that imports a command when it runs, not when it is listed."""

    hidden_panels: frozenset[str] = frozenset()
    """Groups that are left out while the help is printed."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: the everyday commands, or all of them after `--help-all`."""
        if not ctx.meta.get(_HELP_ALL):
            self.hidden_panels = frozenset(
                entry.panel for entry in COMMANDS.values() if entry.panel not in EVERYDAY
            )
            self.epilog = _epilog()
        try:
            with _without_markdown():
                super().format_help(ctx, formatter)
        finally:
            self.hidden_panels = frozenset()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the names do not depend on it
        """Return all command names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return a placeholder with what the help needs."""
        if cmd_name not in COMMANDS:
            return None
        entry = COMMANDS[cmd_name]
        return TyperCommand(
            cmd_name,
            help=entry.summary,
            short_help=entry.summary,
            rich_help_panel=entry.panel,
            hidden=entry.panel in self.hidden_panels,
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the real command, to run it or complete its options."""
        name = args[0]
        if name in COMMANDS:
            return name, load(name), args[1:]
        if name.startswith("-"):
            return super().resolve_command(ctx, args)
        # At the default of 0.6, "demo" is the guess for "remove".
        near = get_close_matches(name, COMMANDS, n=1, cutoff=0.7)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise typer.TyperException(f"Unknown command {name!r}.{guess} See: toolgate --help")


app = typer.Typer(
    name="toolgate",
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


_HELP_ALL = "toolgate.help_all"
"""Key in click's context; set if all commands are to be shown."""


def _show_all(ctx: typer.Context, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_HELP_ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


@app.callback(epilog="--config, --import and --verbose can also be given after the command.")
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
    help_all: Annotated[
        bool,
        typer.Option(
            "--help-all", is_eager=True, callback=_show_all, help="Show all commands and exit."
        ),
    ] = False,
) -> None:
    """One MCP endpoint in front of all your MCP servers."""
    # `split_globals` has already read the global options; they are declared here for the help.
    del ctx, config, imports, verbose, help_all
    if version:
        typer.echo(f"toolgate {__version__}")
        raise typer.Exit


def program() -> Any:
    """Create the program with its global options; commands are loaded when they run."""
    command = get_command(app)
    _prepare_help(command)
    return command


def load(name: str) -> Any:
    """Import the command `name`, and set what all commands share."""
    module = import_module(f"toolgate.cli.{COMMANDS[name].package}.{name}")
    plain: object = getattr(module, "command", None)
    command: Any = get_command(_typer_of(plain) if isinstance(plain, PlainCommand) else module.app)
    command.name = name
    command.help = command.help or COMMANDS[name].summary
    command.context_settings.setdefault("help_option_names", ["--help", "-h"])
    _prepare_help(command)
    return command


@contextmanager
def _without_markdown() -> Generator[None]:
    """Let Typer import its help without Rich's Markdown and tracebacks, which are not used.

    They take a quarter of the time of `toolgate --help` (typer 0.29, rich 15).
    """
    stubs = {
        "rich.markdown": ("Markdown", ModuleType("rich.markdown")),
        "rich.traceback": ("Traceback", ModuleType("rich.traceback")),
    }
    added = [name for name in stubs if name not in sys.modules]
    for name in added:
        member, stub = stubs[name]
        setattr(stub, member, type(member, (), {}))
        sys.modules[name] = stub
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


def _epilog() -> str:
    """Return what `--help` says about the commands that it leaves out."""
    panels: dict[str, list[str]] = {}
    for name, entry in COMMANDS.items():
        if entry.panel not in EVERYDAY:
            panels.setdefault(entry.panel, []).append(name)
    groups = "\n\n".join(f"{panel}: {', '.join(names)}" for panel, names in panels.items())
    return (
        f"More commands (toolgate --help-all describes them):\n\n{groups}\n\n"
        "--config, --import and --verbose can also be given after the command."
    )


def _prepare_help(command: Any) -> None:
    """Unwrap the paragraphs of the help, and hide types that nobody needs.

    Typer 0.29 breaks lines where the source does, in all paragraphs but the first. Flags need no
    `<bool>`, arguments no type, and a number is an `N`.
    """
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    context = typer.Context(command)
    for parameter in [*command.params, command.get_help_option(context)]:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.display_type_rich = _no_type
        elif parameter.metavar is None and _is_number(parameter, context):
            parameter.metavar = "N"
    for child in getattr(command, "commands", {}).values():
        _prepare_help(child)


def _is_number(parameter: Any, ctx: typer.Context) -> bool:
    return str(parameter.display_type(ctx)).startswith(("<int", "<float"))


def _no_type(ctx: typer.Context) -> None:
    """Hide the type of an argument, whose name makes it clear."""
    del ctx


_EXTRA = "Got unexpected extra argument(s) "
"""Start of the message for words after a command that takes none (typer 0.29)."""


def run(argv: list[str]) -> int:
    """Run a command line without its global options; return the exit status."""
    try:
        result = program().main(argv, prog_name="toolgate", standalone_mode=False)
    except typer.TyperException as problem:
        path = getattr(getattr(problem, "ctx", None), "command_path", None)
        see = f" See: {path} --help" if path else ""
        text = problem.format_message().rstrip()
        if not text:  # no message: the help was printed
            return 2
        if _takes_no_arguments(problem) and text.startswith(_EXTRA):
            text = f"{path} has no command or argument {text.removeprefix(_EXTRA)}. Run: {path}"
        text = text if not see or text.endswith((".", "?", "!", ")")) else f"{text}."
        print(f"toolgate: {sanitize(text)}{see}", file=sys.stderr)
        return int(problem.exit_code) if path else 2
    except typer.Abort:
        return 1
    return result if type(result) is int else 0


def _takes_no_arguments(problem: Any) -> bool:
    parameters = getattr(getattr(getattr(problem, "ctx", None), "command", None), "params", ())
    return all(parameter.param_type_name != "argument" for parameter in parameters)


def _typer_of(command: PlainCommand) -> typer.Typer:
    """Create a Typer app with the options of a `PlainCommand`, for help and completion."""

    def call(**values: Any) -> int:
        return command.call(**{name: value for name, value in values.items() if value})

    parameters = [_parameter(option) for option in command.options]
    if command.argument is not None:
        parameters.insert(0, _positional(command.argument))
    if command.optional_argument is not None:
        parameters.insert(1, _positional(command.optional_argument, default=""))
    call.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    typer_app = typer.Typer(add_completion=False)
    typer_app.command(name=command.name, help=command.help)(call)
    return typer_app


def _positional(
    argument: Positional, *, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    kind: Any = list[str] if argument.repeated else str
    details = typer.Argument(metavar=argument.metavar, help=argument.help)
    return inspect.Parameter(
        argument.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, details],
    )


def _parameter(option: Option) -> inspect.Parameter:
    default = option.default
    kind: Any = Literal[option.choices] if option.choices else option.kind
    if option.kind is bool:
        default = default or False
    elif option.repeated:
        kind = list[option.kind] | None
    elif default is None:
        kind = kind | None
    is_limited = option.maximum is not None and (default is not None or option.minimum > 0)
    details = typer.Option(
        *option.flags,
        help=option.help,
        metavar=option.metavar or None,
        min=option.minimum if is_limited else None,
        max=option.maximum if is_limited else None,
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, details],
    )
