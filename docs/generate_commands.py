"""Generates `commands.md` from the command line: `python docs/generate_commands.py`."""

import inspect
from pathlib import Path
from typing import Any

from typer.main import get_command

from toolgate.cli.root import COMMANDS, app, load

FOLDER = Path(__file__).parent

INTRODUCTION = """\
# Commands

<!-- Made by docs/generate_commands.py from src/toolgate/cli; change it there. -->

Exit status: 0 success, 1 failure, 2 usage or configuration error, 3 nothing found, 4 permission
denied.
Errors go to standard error: one sentence and a hint. With `--json`, standard output is a single
JSON document. Commands such as `search` and `call` use the running gateway. If none is running,
they start a temporary one.
"""

EVERYWHERE = {"help", "install_completion", "show_completion"}


def commands() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, "## Global options\n", _options(get_command(app))]
    for name in COMMANDS:
        parts += _sections(f"toolgate {name}", load(name), depth=2)
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _sections(title: str, command: Any, *, depth: int) -> list[str]:
    """Describe a command and its subcommands."""
    below = getattr(command, "commands", {}).items()
    inner = [_sections(f"{title} {name}", child, depth=min(depth + 1, 4)) for name, child in below]
    return [_section(title, command, depth=depth), *(part for each in inner for part in each)]


def _section(title: str, command: Any, *, depth: int) -> str:
    names = [_argument(one) for one in command.params if one.param_type_name == "argument"]
    lines = [f"{'#' * depth} `{title}`", "", _text(command.help or command.short_help)]
    if names:
        lines += ["", "```console", f"$ {title} {' '.join(names)}", "```"]
    options = _options(command)
    return "\n".join([*lines, "", options] if options else lines)


def _options(command: Any) -> str:
    rows = [
        f"| `{_spelling(one)}` | {_text(getattr(one, 'help', ''))} |"
        for one in command.params
        if one.name not in EVERYWHERE
    ]
    return "\n".join(["| | |", "|---|---|", *rows]) if rows else ""


def _spelling(one: Any) -> str:
    if one.param_type_name == "argument":
        return _argument(one)
    value = "" if getattr(one, "is_flag", False) else f" {one.metavar or 'VALUE'}"
    return ", ".join([*one.opts, *one.secondary_opts]) + value


def _argument(one: Any) -> str:
    return str(one.metavar or one.name.upper())


def _text(text: str | None) -> str:
    """Join each paragraph into one line."""
    paragraphs = inspect.cleandoc(text or "").replace("\b", "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs).replace("|", "\\|")


if __name__ == "__main__":
    (FOLDER / "commands.md").write_text(commands(), encoding="utf-8")
