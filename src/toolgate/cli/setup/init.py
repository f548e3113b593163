"""`toolgate init`: import the servers of other clients, and connect the clients to Toolgate."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import typer

from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.setup.importing._configuration_text import (
    text_with_copies,
    text_with_references,
)
from toolgate.cli.setup.importing._readiness import (
    check_servers,
    known_readiness,
    summary_of,
)
from toolgate.cli.setup.importing._secrets import (
    forget_secrets,
    may_show_secret,
    names_of,
    store_secrets,
    take_secrets,
)
from toolgate.cli.setup.importing._undo import (
    ChangedFile,
    change_block,
    change_file,
    read_changed_files,
    read_credentials,
    record_credentials,
    undo_changes,
    with_block,
)
from toolgate.cli.terminal._context import shared_options
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS, USAGE_ERROR
from toolgate.cli.terminal._output import (
    note,
    plural,
    print_json,
    print_table,
    print_text,
    spinner,
)
from toolgate.errors import ArgumentError, SettingError
from toolgate.settings import (
    CONFIG_NAME,
    Settings,
    config_dir,
    find_config,
    load,
    parse_document,
    read_text,
    redact,
)
from toolgate.settings.clients import supported
from toolgate.settings.clients.choices import Choice, choose_servers
from toolgate.settings.clients.supported import ClientFile, Machine
from toolgate.settings.clients.write_back import with_toolgate
from toolgate.types import Json, json_array, json_object

app = typer.Typer(add_completion=False)

_HEADER = """\
# Configuration of Toolgate. Every key: docs/configuration.md; check it with: toolgate config check
version = 1
"""

_RULE_FILES: Final[Mapping[str, str]] = {
    ".github/copilot-instructions.md": "",
    "CLAUDE.md": "",
    "AGENTS.md": "",
    ".cursor/rules/toolgate.mdc": (
        "---\ndescription: Ask Toolgate for rules first\nalwaysApply: true\n---\n\n"
    ),
}
"""Instruction files for models in a project, and the first lines of a new one."""


@dataclass(frozen=True, kw_only=True)
class _InitOptions:
    """Options of the command."""

    by_reference: bool
    write_back: bool
    project_files: bool
    every_project: bool
    here: bool
    force: bool
    yes: bool
    dry_run: bool
    check: bool
    as_json: bool


@app.command()
def init(
    by_reference: Annotated[
        bool,
        typer.Option(
            "--by-reference",
            help="Add references to the clients' files to toolgate.toml instead of copying the "
            "servers.",
        ),
    ] = False,
    write_back: Annotated[
        bool,
        typer.Option(
            "--write-back",
            help="Also replace the servers in the clients' files with Toolgate. Backups are kept.",
        ),
    ] = False,
    project_files: Annotated[
        bool,
        typer.Option(
            "--project-files",
            help="With --write-back: also change project files, which may be shared with other "
            "people.",
        ),
    ] = False,
    every_project: Annotated[
        bool,
        typer.Option(
            "--all-projects", help="Also import servers from your other Claude Code projects."
        ),
    ] = False,
    here: Annotated[
        bool,
        typer.Option("--here", help="Write toolgate.toml into the current folder."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace toolgate.toml, with a backup, instead of merging."),
    ] = False,
    rules: Annotated[
        bool,
        typer.Option(
            "--rules",
            help="Only add a note to the project's instruction files (such as AGENTS.md) that "
            "tells the model to call processPrompt first.",
        ),
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore all files changed by init.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be written.")
    ] = False,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not start the imported servers to test them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Import MCP servers from your clients and write toolgate.toml.

    Looks in your home folder and the current project for the configuration files of these clients:
    Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Zed, Cline, Gemini CLI, Codex, Continue,
    OpenCode, LM Studio, Kiro, Roo Code, Amp, Antigravity, Trae, Goose, JetBrains AI Assistant,
    Junie, Copilot in JetBrains.
    """
    wish = _InitOptions(
        by_reference=by_reference,
        write_back=write_back,
        project_files=project_files,
        every_project=every_project,
        here=here,
        force=force,
        yes=yes,
        dry_run=dry_run,
        check=not no_check,
        as_json=as_json,
    )
    if undo:
        return _undo(wish)
    if rules:
        return _write_rules(wish, Machine.this())
    if by_reference and write_back:
        note(
            "--by-reference and --write-back exclude each other: servers that are replaced in a "
            "client's file cannot be imported from it. Use one of them."
        )
        return USAGE_ERROR
    return _init(wish, Machine.this())


def _init(wish: _InitOptions, machine: Machine) -> int:
    files = supported.find(machine)
    target = _target(wish, machine)
    exists = target.is_file()
    text = _HEADER if wish.force or not exists else read_text(target)
    present = Settings() if wish.force or not exists else load(target)
    root = parse_document(text, target, is_toml=True).root
    complete = anyio.run(_server_check().configured_servers, present)
    choices = choose_servers(
        files,
        [*present.servers, *complete.values()],
        json_object(root.get("server")),
        cwd=machine.cwd,
        every_project=wish.every_project,
        home=machine.home,
    )
    new = [choice for choice in choices if choice.state == "new"]
    written = _text(text, target, root, choices, machine, by_reference=wish.by_reference)
    changes = {target: written} if written != text or not exists else {}
    if wish.write_back:
        changes |= _client_texts(files, choices, target, wish)
    if not wish.as_json:
        _show(files, choices, machine)
    if not any(file.servers for file in files) or not changes:
        return _report_no_changes(wish, files, choices, target, machine)
    if not wish.dry_run and not _is_confirmed(wish, list(changes), exists, machine):
        return SUCCESS
    touched: list[ChangedFile] = []
    if not wish.dry_run:
        if not wish.by_reference:
            _store_secrets(new, present)
        touched = [change_file(path, text) for path, text in changes.items()]
    if wish.as_json:
        print_json(_answer(files, choices, target, changes, wish))
        return SUCCESS
    if wish.dry_run:
        _note_untouched(choices, wish)
        note(f"Would write: {', '.join(_display_path(path, machine) for path in changes)}")
        return SUCCESS
    for changed in touched:
        backup = f" (backup: {changed.backup.name})" if changed.backup else ""
        print_text(f"Wrote {_display_path(changed.path, machine)}{backup}")
    _note_untouched(choices, wish)
    _note_secrets(new, target, wish)
    if new:
        _show_readiness(new, wish)
    if any(path != target for path in changes):
        note("Restart these clients to use Toolgate. To undo: toolgate init --undo")
    else:
        note("Next: toolgate start (or connect a client to toolgate stdio).")
    return SUCCESS


def _server_check() -> Any:
    """Import the module that reads servers from the store, which is rarely needed."""
    return import_module("toolgate.cli.client._server_check")


def _store_secrets(new: Sequence[Choice], present: Settings) -> None:
    """Save the secrets of the new servers, and record this for `--undo`."""
    configs = {choice.name: choice.server.config for choice in new}
    secret = [name for name, config in configs.items() if take_secrets(config)[1]]
    store = store_url(present)
    if not secret and _server_check().is_absent(store):
        return
    anyio.run(store_secrets, present, configs)
    record_credentials(secret)


def _write_rules(wish: _InitOptions, machine: Machine) -> int:
    """Add the block about rules to the instruction files for models."""
    instructions: str = import_module("toolgate.intents.rules").INSTRUCTIONS
    texts: dict[Path, str] = {}
    seen: set[Path] = set()
    for name, head in _RULE_FILES.items():
        path = machine.cwd / name
        if path.resolve() in seen:
            continue  # a link to a file that was handled already
        seen.add(path.resolve())
        text = with_block(path, instructions, head=head)
        if not path.exists() or text != read_text(path):
            texts[path] = text
    if not texts:
        if wish.as_json:
            print_json(_rules_answer([], []))
        else:
            note("Nothing to do: the files already contain the text.")
        return SUCCESS
    if wish.dry_run:
        if wish.as_json:
            print_json(_rules_answer([], texts))
        else:
            note(f"Would write: {', '.join(_display_path(path, machine) for path in texts)}")
        return SUCCESS
    if not _is_confirmed(wish, list(texts), exists=False, machine=machine):
        return SUCCESS
    for path, text in texts.items():
        change_block(path, text, head=_RULE_FILES[path.relative_to(machine.cwd).as_posix()])
    if wish.as_json:
        print_json(_rules_answer(texts, []))
        return SUCCESS
    for path in texts:
        print_text(f"Wrote {_display_path(path, machine)}")
    note("To undo: toolgate init --undo. Rules come from packs; see: toolgate pack list")
    return SUCCESS


def _rules_answer(written: Iterable[Path], would_write: Iterable[Path]) -> Json:
    return {
        "written": [str(path) for path in written],
        "would_write": [str(path) for path in would_write],
    }


def _target(wish: _InitOptions, machine: Machine) -> Path:
    """Return the `toolgate.toml` to write: the given one, an existing one, or the user's."""
    named = shared_options().config
    if named is not None:
        return machine.cwd / named
    if wish.here:
        return machine.cwd / CONFIG_NAME
    return find_config(cwd=machine.cwd) or config_dir() / CONFIG_NAME


def _text(
    text: str,
    target: Path,
    root: Json,
    choices: Sequence[Choice],
    machine: Machine,
    *,
    by_reference: bool,
) -> str:
    new = [choice for choice in choices if choice.state == "new"]
    if not new:
        return text
    if by_reference:
        imports = root.get("import", [])
        listed = [imports] if isinstance(imports, str) else json_array(imports)
        return text_with_references(text, target, listed, choices, machine.home)
    display_paths = {choice.file.path: _display_path(choice.file.path, machine) for choice in new}
    written = text_with_copies(text, new, display_paths)
    parse_document(written, target, is_toml=True)
    return written


def _client_texts(
    files: Sequence[ClientFile], choices: Sequence[Choice], target: Path, wish: _InitOptions
) -> dict[Path, str]:
    """Return new texts of the clients' files; all are ready before the first one is written."""
    launch: supported.Launch | None = None
    texts: dict[Path, str] = {}
    for file in files:
        if file.error or (file.scope == "project" and not wish.project_files):
            continue
        taken = [
            choice.server
            for choice in choices
            if choice.file is file and choice.state in {"new", "same"} and not choice.stays
        ]
        if taken:
            launch = launch or supported.launch_of_this_program(target)
            texts[file.path] = with_toolgate(file, launch, taken)
    return texts


def _show(files: Sequence[ClientFile], choices: Sequence[Choice], machine: Machine) -> None:
    for file in files:
        if file.error:
            note(file.error)
    rows = [(choice.file, _row(choice, machine)) for choice in choices]
    if not sys.stdout.isatty():
        print_table(("Client", "File", "Server", "Starts", "Remark"), [row for _, row in rows])
        return
    for file in files:
        here = [row[2:] for owner, row in rows if owner is file]
        if here:
            print_text(f"{file.client.title}: {_display_path(file.path, machine)}")
            print_table(("Server", "Starts", "Remark"), here, wrap=1)
            print_text()


def _row(choice: Choice, machine: Machine) -> tuple[str, ...]:
    verdict = {
        "new": "",
        "same": "skipped" if choice.is_twin else "exists",
        "broken": "invalid",
    }.get(choice.state, "skipped")
    remarks = [word for word in (verdict, *choice.remarks) if word]
    return (
        choice.file.client.title,
        _display_path(choice.file.path, machine),
        choice.server.name,
        _launch_text(choice.server.config),
        "; ".join(remarks),
    )


def _launch_text(config: Mapping[str, Any]) -> str:
    """Return command or URL of a server, without secrets."""
    redacted = redact(config)
    if "url" in redacted:
        return str(redacted["url"])
    args = json_array(redacted.get("args"))
    return " ".join(str(part) for part in (redacted.get("command", ""), *args))


def _report_no_changes(
    wish: _InitOptions,
    files: Sequence[ClientFile],
    choices: Sequence[Choice],
    target: Path,
    machine: Machine,
) -> int:
    if wish.as_json:
        print_json(_answer(files, choices, target, {}, wish))
    elif choices:
        _note_untouched(choices, wish)
        note(f"Nothing to do: {_display_path(target, machine)} contains all of them.")
        return SUCCESS
    else:
        whose = (
            "the readable files of other clients"
            if any(file.error for file in files)
            else "the files of other clients"
        )
        note(f"No MCP servers were found in {whose}. Add one: toolgate add NAME -- COMMAND")
    return SUCCESS if choices else NO_RESULT


def _is_confirmed(wish: _InitOptions, paths: list[Path], exists: bool, machine: Machine) -> bool:
    if wish.yes:
        return True
    names = ", ".join(_display_path(path, machine) for path in paths)
    if wish.as_json or not sys.stdin.isatty():
        raise ArgumentError(
            f"This would write {names}.", hint="Add --yes to do it, or --dry-run for a preview."
        )
    word = "Add to" if exists and not wish.force and len(paths) == 1 else "Write"
    return typer.confirm(f"{word} {names}?", default=True, err=True)


def _note_secrets(new: Sequence[Choice], target: Path, wish: _InitOptions) -> None:
    """Report how many secrets are stored outside the file, and where it may still show some."""
    if wish.by_reference:
        return
    split = {choice.name: take_secrets(choice.server.config) for choice in new}
    count = sum(len(names_of(secrets)) for _, secrets in split.values())
    if count:
        print_text(
            f"Stored {plural(count, 'secret')} encrypted, outside {target.name}: "
            "toolgate credentials list"
        )
    open_names = [name for name, (left, _) in split.items() if may_show_secret(left)]
    if open_names:
        note(
            f"{target.name} may show keys or passwords in the arguments or URLs of"
            f" {', '.join(open_names)}. Only you can read it; to keep one out of the file, write"
            " ${secret:NAME} and run: toolgate credentials set SERVER --secret NAME"
        )


def _show_readiness(new: Sequence[Choice], wish: _InitOptions) -> None:
    """Report how many servers work, and the next command for each that does not."""
    if wish.check:
        with spinner(f"Starting {plural(len(new), 'server')} to see them work"):
            servers = anyio.run(check_servers, new)
    else:
        servers = [known_readiness(choice) for choice in new]
    print_text(summary_of(servers))
    for server in servers:
        if server.next_step or server.found:
            print_text(f"  {server.name}: {server.found or f'{server.state}.'}")
        if server.next_step:
            print_text(f"    -> {server.next_step}")


def _note_untouched(choices: Sequence[Choice], wish: _InitOptions) -> None:
    """List servers that stay in the clients' files because Toolgate cannot serve them."""
    if not wish.write_back:
        return
    for choice in choices:
        is_changed = choice.file.scope == "user" or wish.project_files
        if is_changed and choice.stays and choice.state in {"new", "same"}:
            note(f"{choice.server.name!r} stays in {choice.file.client.title}: {choice.stays}.")


def _answer(
    files: Sequence[ClientFile],
    choices: Sequence[Choice],
    target: Path,
    changes: Mapping[Path, str],
    wish: _InitOptions,
) -> Json:
    return {
        "config": str(target),
        "written": [] if wish.dry_run else [str(path) for path in changes],
        "would_write": [str(path) for path in changes] if wish.dry_run else [],
        "files": [
            {
                "client": file.client.name,
                "path": str(file.path),
                "scope": file.scope,
                "error": file.error or None,
            }
            for file in files
        ],
        "servers": [
            {
                "client": choice.file.client.name,
                "path": str(choice.file.path),
                "project": choice.server.project or None,
                "found_as": choice.server.name,
                "name": choice.name or None,
                "state": choice.state,
                "remarks": list(choice.remarks),
                "stays": choice.stays or None,
                "stored_secrets": names_of(take_secrets(choice.server.config)[1])
                if choice.state == "new" and not wish.by_reference
                else [],
                "config": redact(choice.server.config),
            }
            for choice in choices
        ],
    }


def _undo(wish: _InitOptions) -> int:
    touched = read_changed_files()
    if not touched:
        note("There is nothing to undo.")
        return NO_RESULT
    paths = list(dict.fromkeys(changed.path for changed in touched))
    if wish.dry_run:
        note(f"Would restore: {', '.join(map(str, paths))}")
        return SUCCESS
    if not _is_confirmed(wish, paths, exists=True, machine=Machine.this()):
        return SUCCESS
    names, store = read_credentials(), _settings_with_store()
    messages = undo_changes()
    if names:
        anyio.run(forget_secrets, store, names)
        messages.append(f"Removed the stored secrets of {', '.join(names)}.")
    if wish.as_json:
        print_json({"restored": [str(path) for path in paths], "messages": messages})
    else:
        for sentence in messages:
            print_text(sentence)
    return SUCCESS


def _settings_with_store() -> Settings:
    try:
        return load_settings()
    except SettingError:  # a broken file is restored too
        return Settings()


def _display_path(path: Path, machine: Machine) -> str:
    """Return a path with `~` for the home folder."""
    if path.is_relative_to(machine.home):
        return f"~/{path.relative_to(machine.home).as_posix()}"
    return str(path)
