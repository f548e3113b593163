"""`toolgate config`: check and migrate the configuration."""

from collections.abc import Sequence
from typing import Annotated

import typer

from toolgate.app.factories.plugin_checks import plugin_problems
from toolgate.cli.setup.importing._undo import back_up
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._context import shared_options
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS, USAGE_ERROR
from toolgate.cli.terminal._output import note, plural, print_json, print_text
from toolgate.errors import SettingError
from toolgate.security.guards import CallGuards
from toolgate.settings import (
    Settings,
    find_config,
    load,
    load_errors,
    migrate_text,
    read_text,
    write_text,
)

app = CommandApp()


@app.command()
def check(
    as_json: AsJson = False,
) -> int:
    """Load the configuration the way `serve` does, and report errors and warnings.

    Exit status 2 if a file is invalid, or if a server, a search strategy or another plugin cannot
    be used.
    """
    options = shared_options()
    try:
        settings = load(options.config, options.imports)
        CallGuards.check(settings.guard)
    except SettingError as error:
        errors = load_errors(options.config, options.imports) or [error]
        if as_json:
            texts = [str(problem) for problem in errors]
            print_json(
                {"ok": False, "error": texts[0], "errors": texts, "files": [], "problems": []}
            )
            return USAGE_ERROR
        for problem in errors[:-1]:
            note(f"toolgate: {problem}")
        raise errors[-1] from None
    problems = [server.problem for server in settings.servers if server.problem]
    problems += map(str, plugin_problems(settings))
    notices = [notice for notice in settings.notices if notice not in problems]
    if as_json:
        print_json(
            {
                "ok": not problems,
                "error": None,
                "errors": [],
                "files": [str(path) for path in settings.files],
                "servers": [
                    {
                        "name": server.name,
                        "title": server.title or None,
                        "kind": server.kind,
                        "enabled": server.enabled,
                        "source": server.source,
                        "problem": server.problem or None,
                    }
                    for server in settings.servers
                ],
                "problems": problems,
                "notices": notices,
            }
        )
    else:
        _show(settings, problems, notices)
    return USAGE_ERROR if problems else SUCCESS


@app.command()
def migrate(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
) -> int:
    """Rename outdated keys in toolgate.toml; the previous file is kept as a backup."""
    path = find_config(shared_options().config)
    if path is None:
        note("There is no toolgate.toml here or in your configuration folder.")
        return NO_RESULT
    text, changes = migrate_text(read_text(path), path)
    if not changes:
        print_text(f"{path} is up to date.")
        return SUCCESS
    for change in changes:
        print_text(f"{path}, {change}")
    if not dry_run:
        backup = back_up(path, ".toolgate-backup")
        write_text(path, text)
        note(f"Wrote {path} (backup: {backup.name})")
    return SUCCESS


def _show(settings: Settings, problems: Sequence[str], notices: Sequence[str]) -> None:
    for sentence in (*notices, *problems):
        note(sentence)
    for path in settings.files:
        print_text(f"Read {path}")
    if not settings.files:
        print_text("There is no configuration file; defaults apply.")
    usable = sum(server.enabled for server in settings.servers)
    print_text(f"{plural(len(settings.servers), 'server')}, {usable} enabled.")
    if problems:
        note(f"{plural(len(problems), 'problem')} found.")
