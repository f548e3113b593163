"""Reads `toolgate.toml`, what it imports, and the files named on the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from toolgate.errors import SettingError
from toolgate.settings.clients.imports import import_tables, read_import
from toolgate.settings.config_file import (
    ConfigDocument,
    KeyPath,
    parse_document,
    read_text,
)
from toolgate.settings.folders import (
    CONFIG_NAME,
    config_dir,
    current_environment,
    expand_home,
    find_config,
)
from toolgate.settings.renamed_keys import with_new_names
from toolgate.settings.servers.collection import (
    Reading,
    add_server,
    editor_variables,
    leave_out,
    read_server_table,
)
from toolgate.settings.servers.location import EntryLocation
from toolgate.settings.servers.own_entry import is_toolgate
from toolgate.settings.table_reader import read_table
from toolgate.settings.tables.access import GuardTable
from toolgate.settings.tables.root import Settings
from toolgate.settings.tables.servers import ImportTable
from toolgate.settings.validation import whole_errors
from toolgate.settings.variables import Scope
from toolgate.types import Json, ServerSpec, ToolOverride

_COMMAND_LINE = Path("the command line")


def load(
    config: Path | None = None,
    imports: Sequence[str | Path] = (),
    *,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Settings:
    """Load all settings from files and the environment.

    Args:
        config: The `toolgate.toml`; None looks for `TOOLGATE_CONFIG`, then in the current
            folder, then in the user's configuration folder. If there is none, the defaults
            apply.
        imports: Further files with servers, as given with `--import`.
        overrides: Tables and keys as in the file, with precedence over it:
            `{"serve": {"port": 0}}`.
        environ: Values of variables; None means those of this process.
        cwd: The current folder; None means that of this process.

    Raises:
        SettingError: A file is missing or malformed, a key is unknown, a value is wrong or out
            of range, or a server name is used twice. A server whose variable is missing, or
            whose entry in an imported file is wrong, does not raise: it has a `problem`.
    """
    environ = dict(current_environment()) if environ is None else environ
    reading = Reading(environ=environ, cwd=Path.cwd() if cwd is None else cwd)
    settings = _load(config, imports, _overrides(overrides or {}), reading)
    for error in whole_errors(settings):
        raise error
    return settings


def load_errors(config: Path | None, imports: Sequence[str | Path]) -> list[SettingError]:
    """Return all errors that `load` would raise, where `load` stops at the first.

    Each wrong key is left out, and the rest is read again. Errors that only follow from a key
    that was left out are not reported.

    Args:
        config: As for `load`.
        imports: As for `load`.
    """
    environ, cwd = dict(current_environment()), Path.cwd()
    errors: list[SettingError] = []
    left_out: set[tuple[Path, KeyPath]] = set()
    while True:
        later: list[SettingError] = []
        reading = Reading(environ=environ, cwd=cwd, left_out=frozenset(left_out), errors=later)
        try:
            settings = _load(config, imports, {}, reading)
        except SettingError as error:
            if error.at is None or not error.at[1] or error.at in left_out:
                return [*errors, *later, *([] if error.at in left_out else [error])]
            if not _follows(error.at, left_out):
                errors.append(error)
            left_out.add(error.at)
        else:
            return [*errors, *later, *whole_errors(settings)]


def _load(
    config: Path | None, imports: Sequence[str | Path], overrides: Json, reading: Reading
) -> Settings:
    path = find_config(config, environ=reading.environ, cwd=reading.cwd)
    document = ConfigDocument(path=_COMMAND_LINE, text="", root={}, is_toml=True)
    if path is not None:
        reading.files.append(path)
        document = _config_document(path)
        leave_out(document, reading)
    settings, imported = _read_config(document, overrides, reading)
    imported += [(ImportTable(file=str(name)), reading.cwd, "--import") for name in imports]
    for table, folder, origin in imported:
        try:
            read_import(table, folder, origin, reading)
        except SettingError as error:
            if reading.errors is None or error.at is not None:
                raise
            reading.errors.append(error)
    return replace(
        settings,
        servers=tuple(reading.servers.values()),
        config_file=path,
        new_config_file=None if path else config_dir(reading.environ) / CONFIG_NAME,
        imports=tuple(map(str, imports)),
        overrides=overrides,
        files=tuple(dict.fromkeys(reading.files)),
        notices=tuple(dict.fromkeys(reading.notices)),
    )


def _follows(at: tuple[Path, KeyPath], left_out: set[tuple[Path, KeyPath]]) -> bool:
    """Whether the error of a table may only be caused by one of its keys having been left out."""
    file, path = at
    return any(file == other and path == key[: len(path)] for other, key in left_out)


def server_spec(
    name: str,
    config: Mapping[str, Any],
    *,
    source: str = "store",
    server_id: str = "",
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> ServerSpec:
    """Create a server from a stored configuration; same keys and rules as `[server.NAME]`.

    Args:
        name: Name of the server.
        config: Keys of `[server.NAME]`.
        source: Where it is configured, for people.
        server_id: Id of the server in the store.
        environ: Values of variables; None means those of this process.
        folder: Base of relative paths; None means the current folder.

    Raises:
        SettingError: A key is unknown, or a value is wrong or out of range.
    """
    environ = current_environment() if environ is None else environ
    document = ConfigDocument(path=Path(source), text="", root={}, is_toml=False)
    location = EntryLocation(
        document=document,
        path=("server", name),
        folder=Path.cwd() if folder is None else folder,
        scope=Scope(environ=environ, values={}),
    )
    spec = read_server_table(
        name, dict(config), location, Reading(environ=environ, cwd=location.folder)
    )
    return replace(spec, source=source, server_id=server_id)


def tool_overrides(
    server: str, tools: Mapping[str, Any], *, source: str = "store"
) -> Mapping[str, ToolOverride]:
    """Create the overrides from stored tables of tools, by the tool's own name.

    Args:
        server: Name of their server, for messages.
        tools: Tables with the same keys and rules as `[server.NAME.tools.TOOL]`.
        source: Where they are configured, for people.

    Raises:
        SettingError: A key is unknown, a value is wrong, or a variable is not set.
    """
    # A server needs a command; its value does not matter here.
    spec = server_spec(server, {"command": "-", "tools": dict(tools)}, source=source)
    if spec.problem:
        raise SettingError(spec.problem, hint="Set the variable, or name another one.")
    return spec.tool_overrides


def guard_table(config: Mapping[str, Any], *, source: str) -> GuardTable:
    """Create a guard from a stored configuration; same keys and rules as `[[guard]]`.

    Raises:
        SettingError: A key is unknown, or a value is wrong or out of range.
    """
    document = ConfigDocument(path=Path(source), text="", root={}, is_toml=False)
    return replace(read_table(GuardTable, dict(config), document), source=source)


def _overrides(overrides: Mapping[str, object]) -> Json:
    document = ConfigDocument(path=_COMMAND_LINE, text="", root={}, is_toml=True)
    read_table(Settings, dict(overrides), document)
    return dict(overrides)


def _config_document(path: Path) -> ConfigDocument:
    if path.suffix.lower() in {".json", ".jsonc"}:
        raise SettingError(
            f"{path} is JSON; the configuration of Toolgate is TOML.",
            hint=f"Import its servers with: --import {path}",
        )
    return parse_document(read_text(path), path, is_toml=True)


def _read_config(
    document: ConfigDocument, overrides: Json, reading: Reading
) -> tuple[Settings, list[tuple[ImportTable, Path, str]]]:
    folder = document.path.parent
    root = with_new_names(document, reading.notices)
    _check_version(document, root)
    scope = Scope(environ=reading.environ, values=editor_variables(folder, reading))
    settings = read_table(
        Settings, root, document, scope=scope, apart=frozenset({"server", "import"})
    )
    settings = _with_paths(settings, folder, reading)
    rules, guards = enumerate(settings.permission), enumerate(settings.guard)
    settings = replace(
        settings,
        permission=tuple(
            replace(rule, source=document.location(("permission", at))) for at, rule in rules
        ),
        guard=tuple(
            replace(guard, source=document.location(("guard", at))) for at, guard in guards
        ),
    )
    if overrides:
        # Read again: tables of the file are merged with the overrides of the command line.
        merged = _merged({name: root[name] for name in overrides if name in root}, overrides)
        changed = read_table(Settings, merged, document, scope=scope)
        settings = replace(
            settings,
            **{name: getattr(_with_paths(changed, folder, reading), name) for name in overrides},
        )
    reading.port = settings.serve.port
    servers: object = root.get("server", {})
    if not isinstance(servers, dict):
        raise document.error(
            ("server",), "server is not a table.", allowed="Expected: [server.NAME]."
        )
    for name, config in cast("Json", servers).items():
        location = EntryLocation(
            document=document, path=("server", name), folder=folder, scope=scope
        )
        if isinstance(config, dict) and is_toolgate(cast("Json", config), port=reading.port):
            reading.notices.append(
                f"{document.location(location.path)}: server {name!r} is Toolgate itself and is"
                " left out."
            )
            continue
        add_server(
            name,
            read_server_table(name, cast("object", config), location, reading),
            location,
            reading,
        )
    return settings, import_tables(document, root, scope, reading)


def _merged(left: Json, right: Json) -> Json:
    """Merge two tables; `right` has precedence."""
    merged = {**left, **right}
    for name in left.keys() & right.keys():
        if isinstance(left[name], dict) and isinstance(right[name], dict):
            merged[name] = _merged(left[name], right[name])
    return merged


def _check_version(document: ConfigDocument, root: Json) -> None:
    version: object = root.get("version", 1)
    if version == 1 and not isinstance(version, bool):
        return
    newer = isinstance(version, int) and not isinstance(version, bool) and version > 1
    raise document.error(
        ("version",),
        "version is one that this Toolgate does not know.",
        allowed="Allowed: 1.",
        hint="Install a newer Toolgate." if newer else "Write version = 1, or remove the key.",
    )


def _with_paths(settings: Settings, folder: Path, reading: Reading) -> Settings:
    """Make paths independent of the current folder."""

    def whole(url: str) -> str:
        prefix, separator, path = url.partition(":///")
        if not separator or not urlsplit(f"{prefix}:").scheme.startswith("sqlite"):
            return url
        if not path or path.startswith((":memory:", "file:")):
            return url
        return f"{prefix}:///{(folder / expand_home(path, reading.environ)).as_posix()}"

    def there(path: str) -> str:
        return str(folder / expand_home(path, reading.environ)) if path else ""

    file = there(settings.log.file)
    return replace(
        settings,
        store=replace(settings.store, url=whole(settings.store.url)),
        connections={
            name: replace(connection, url=whole(connection.url))
            for name, connection in settings.connections.items()
        },
        packs=replace(
            settings.packs,
            paths=tuple(
                str(folder / expand_home(path, reading.environ)) for path in settings.packs.paths
            ),
        ),
        log=replace(settings.log, file=file),
        tls=replace(settings.tls, cert=there(settings.tls.cert), key=there(settings.tls.key)),
    )
