"""Reads `toolgate.toml`, what it imports, and the files named on the command line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from toolgate.base.names import fold, is_project_name, server_prefix
from toolgate.errors import SettingError
from toolgate.settings.client_files import project_folder, server_tables, translate
from toolgate.settings.config_file import (
    Document,
    KeyPath,
    parse_document,
    read_document,
    read_text,
)
from toolgate.settings.folders import config_dir, current_environment, expand_home, home_dir
from toolgate.settings.jsonc import Repeated
from toolgate.settings.server_entries import Place, is_toolgate, missing_problem, read_server
from toolgate.settings.table_reader import dotted, read_table
from toolgate.settings.tables import META_TOOLS, GuardTable, ImportTable, Settings
from toolgate.settings.variables import Missing, Scope
from toolgate.settings.variables import replace as fill
from toolgate.types import Json, ServerSpec, json_object

__all__ = [
    "CONFIG_NAME",
    "RENAMED",
    "Renamed",
    "find_config",
    "guard_table",
    "load",
    "load_errors",
    "matches",
    "read_env_file",
    "server_spec",
]

CONFIG_NAME = "toolgate.toml"
"""File name of the configuration."""


@dataclass(frozen=True, kw_only=True)
class Renamed:
    """A key that has a new name; the old one works for one minor version, with a warning."""

    old: tuple[str, ...]
    """Its path; `*` stands for any name."""

    new: str
    """What its last part is called now."""

    until: str
    """The first version that does not know the old name."""

    table: tuple[str, ...] | None = None
    """The table that it moved to, `()` for the top of the file; None: it stays in its own."""

    def place(self, old: tuple[str, ...]) -> tuple[str, ...]:
        """Where a key that was found under its old name belongs."""
        return (*(old[:-1] if self.table is None else self.table), self.new)


_COMMAND_LINE = Path("the command line")

RENAMED: tuple[Renamed, ...] = (
    Renamed(old=("search", "strategy"), new="optimization", table=(), until="0.2.0"),
)
"""Every key that was renamed and is still understood."""


@dataclass
class _Reading:
    """What has been read so far."""

    environ: Mapping[str, str]
    cwd: Path
    servers: dict[str, ServerSpec] = field(default_factory=dict[str, ServerSpec])
    places: dict[str, str] = field(default_factory=dict[str, str])
    shown_as: dict[str, str] = field(default_factory=dict[str, str])
    left_out: frozenset[tuple[Path, KeyPath]] = frozenset()
    errors: list[SettingError] | None = None
    imported: dict[str, Json] = field(default_factory=dict[str, Json])
    files: list[Path] = field(default_factory=list[Path])
    notices: list[str] = field(default_factory=list[str])
    port: int = 7420


def load(
    config: Path | None = None,
    imports: Sequence[str | Path] = (),
    *,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Settings:
    """Everything that is configured, from files and the environment.

    Args:
        config: The `toolgate.toml`; None looks for `TOOLGATE_CONFIG`, then in the current folder,
            then in the user's configuration folder. Without any, the defaults hold.
        imports: Further files with servers, as written after `--import`.
        overrides: Tables and keys as in the file that go before it: `{"serve": {"port": 0}}`.
        environ: Values of variables; None means those of this process.
        cwd: The current folder; None means that of this process.

    Raises:
        SettingError: A file is missing or malformed, a key is unknown, a value is wrong or out of
            range, or a server name stands twice. A server whose variable is missing, or whose
            entry in an imported file is wrong, stops nothing: it has a `problem`.
    """
    environ = dict(current_environment()) if environ is None else environ
    reading = _Reading(environ=environ, cwd=Path.cwd() if cwd is None else cwd)
    settings = _load(config, imports, _overrides(overrides or {}), reading)
    for error in _whole_errors(settings):
        raise error
    return settings


def load_errors(
    config: Path | None = None,
    imports: Sequence[str | Path] = (),
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> list[SettingError]:
    """Everything that `load` refuses, where `load` stops at the first.

    Each key that is refused is left out, and the rest is read again. What only follows from a key
    that was left out is not reported.

    Args:
        config: As for `load`.
        imports: As for `load`.
        environ: As for `load`.
        cwd: As for `load`.
    """
    environ = dict(current_environment()) if environ is None else environ
    cwd = Path.cwd() if cwd is None else cwd
    found: list[SettingError] = []
    left_out: set[tuple[Path, KeyPath]] = set()
    while True:
        others: list[SettingError] = []
        reading = _Reading(environ=environ, cwd=cwd, left_out=frozenset(left_out), errors=others)
        try:
            settings = _load(config, imports, {}, reading)
        except SettingError as error:
            if error.at is None or not error.at[1] or error.at in left_out:
                return [*found, *others, *([] if error.at in left_out else [error])]
            if not _follows(error.at, left_out):
                found.append(error)
            left_out.add(error.at)
        else:
            return [*found, *others, *_whole_errors(settings)]


def _load(
    config: Path | None, imports: Sequence[str | Path], given: Json, reading: _Reading
) -> Settings:
    path = find_config(config, environ=reading.environ, cwd=reading.cwd)
    document = Document(path=_COMMAND_LINE, text="", root={}, is_toml=True)
    if path is not None:
        reading.files.append(path)
        document = _config_document(path)
        _leave_out(document, reading)
    settings, wanted = _read_config(document, given, reading)
    wanted += [(ImportTable(file=str(name)), reading.cwd, "--import") for name in imports]
    for table, folder, place in wanted:
        try:
            _read_import(table, folder, place, reading)
        except SettingError as error:
            if reading.errors is None or error.at is not None:
                raise
            reading.errors.append(error)
    return replace(
        settings,
        servers=tuple(reading.servers.values()),
        config_file=path,
        imports=tuple(map(str, imports)),
        overrides=given,
        files=tuple(dict.fromkeys(reading.files)),
        notices=tuple(dict.fromkeys(reading.notices)),
    )


def _follows(at: tuple[Path, KeyPath], left_out: set[tuple[Path, KeyPath]]) -> bool:
    """Whether a table may be refused only because one of its keys was left out."""
    file, path = at
    return any(file == other and path == key[: len(path)] for other, key in left_out)


def _leave_out(document: Document, reading: _Reading) -> None:
    """Take out of a document what was refused before; of a list, all of it."""
    for file, path in reading.left_out:
        if file != document.path or path[:1] == ("import",) != path:
            continue  # imports are told apart by their position, which has to stay
        table = document.root
        for at, part in enumerate(path):
            inner: object = table.get(str(part))
            if at == len(path) - 1 or not isinstance(inner, dict):
                table.pop(str(part), None)
                break
            table = cast("Json", inner)


def find_config(
    config: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Path | None:
    """The `toolgate.toml` that `load` would read; None when there is none.

    Raises:
        SettingError: A file was named, and it does not exist.
    """
    environ = current_environment() if environ is None else environ
    cwd = Path.cwd() if cwd is None else cwd
    named = str(config) if config else environ.get("TOOLGATE_CONFIG", "")
    if named:
        path = cwd / expand_home(named, environ)
        if _is_file(path):
            return path
        source = "" if config else " (from TOOLGATE_CONFIG)"
        raise SettingError(
            f"The configuration file {str(path)!r}{source} does not exist.",
            hint="Correct the path, or make the file with: toolgate init",
        )
    places = (cwd / CONFIG_NAME, config_dir(environ) / CONFIG_NAME)
    return next((path for path in places if _is_file(path)), None)


def server_spec(
    name: str,
    config: Mapping[str, Any],
    *,
    source: str = "store",
    server_id: str = "",
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> ServerSpec:
    """The server that a stored configuration describes; same keys and rules as `[server.NAME]`.

    Args:
        name: Its name.
        config: Keys of `[server.NAME]`.
        source: Where it is configured, for people.
        server_id: Its identity in the store.
        environ: Values of variables; None means those of this process.
        folder: What relative paths belong to; None means the current folder.

    Raises:
        SettingError: A key is unknown, or a value is wrong or out of range.
    """
    environ = current_environment() if environ is None else environ
    document = Document(path=Path(source), text="", root={}, is_toml=False)
    place = Place(
        document=document,
        path=("server", name),
        folder=Path.cwd() if folder is None else folder,
        scope=Scope(environ=environ, known={}),
    )
    spec = _server(name, dict(config), place, _Reading(environ=environ, cwd=place.folder))
    return replace(spec, source=source, server_id=server_id)


def guard_table(config: Mapping[str, Any], *, source: str) -> GuardTable:
    """The guard that a stored configuration describes; same keys and rules as `[[guard]]`.

    Raises:
        SettingError: A key is unknown, or a value is wrong or out of range.
    """
    document = Document(path=Path(source), text="", root={}, is_toml=False)
    return replace(read_table(GuardTable, dict(config), document), source=source)


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file of `NAME=VALUE` lines; comments, quotes and `export` are understood.

    Raises:
        SettingError: It cannot be read.
    """
    values: dict[str, str] = {}
    for line in read_text(path).splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or name.startswith("#") or not name:
            continue
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        else:
            value = value.partition(" #")[0].rstrip()
        values[name] = value
    return values


def _overrides(overrides: Mapping[str, object]) -> Json:
    document = Document(path=_COMMAND_LINE, text="", root={}, is_toml=True)
    read_table(Settings, dict(overrides), document)
    return dict(overrides)


def _config_document(path: Path) -> Document:
    if path.suffix.lower() in {".json", ".jsonc"}:
        raise SettingError(
            f"{path} is JSON; the configuration of Toolgate is TOML.",
            hint=f"Take its servers over with: --import {path}",
        )
    return parse_document(read_text(path), path, is_toml=True)


def _read_config(
    document: Document, overrides: Json, reading: _Reading
) -> tuple[Settings, list[tuple[ImportTable, Path, str]]]:
    folder = document.path.parent
    root = _with_new_names(document, reading)
    _check_version(document, root)
    scope = Scope(environ=reading.environ, known=_known(folder, reading))
    settings = read_table(
        Settings, root, document, scope=scope, apart=frozenset({"server", "import"})
    )
    settings = _with_paths(settings, folder, reading)
    rules, guards = enumerate(settings.permission), enumerate(settings.guard)
    settings = replace(
        settings,
        permission=tuple(
            replace(rule, source=document.place(("permission", at))) for at, rule in rules
        ),
        guard=tuple(replace(guard, source=document.place(("guard", at))) for at, guard in guards),
    )
    if overrides:
        # Read again: a whole table of the file goes under the keys of the command line.
        merged = _merged({name: root[name] for name in overrides if name in root}, overrides)
        changed = read_table(Settings, merged, document, scope=scope)
        settings = replace(
            settings,
            **{name: getattr(_with_paths(changed, folder, reading), name) for name in overrides},
        )
    reading.port = settings.serve.port
    servers: object = root.get("server", {})
    if not isinstance(servers, dict):
        raise document.error(("server",), "server is no table.", allowed="Expected: [server.NAME].")
    for name, config in cast("Json", servers).items():
        place = Place(document=document, path=("server", name), folder=folder, scope=scope)
        if isinstance(config, dict) and is_toolgate(cast("Json", config), port=reading.port):
            reading.notices.append(
                f"{document.place(place.path)}: server {name!r} is Toolgate itself and is left out."
            )
            continue
        _add(name, _server(name, cast("object", config), place, reading), place, reading)
    return settings, _imports(document, root, scope, reading)


def _imports(
    document: Document, root: Json, scope: Scope, reading: _Reading
) -> list[tuple[ImportTable, Path, str]]:
    value: object = root.get("import", [])
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise document.error(
            ("import",), "import is no list.", allowed='Expected: import = ["~/.cursor/mcp.json"].'
        )
    tables: list[tuple[ImportTable, Path, str]] = []
    for at, item in enumerate(cast("list[object]", value)):
        path: KeyPath = ("import", at)
        if any(key[:2] == path for file, key in reading.left_out if file == document.path):
            continue
        table = read_table(
            ImportTable,
            {"file": item} if isinstance(item, str) else item,
            document,
            path,
            scope=scope,
        )
        tables.append((table, document.path.parent, document.place(path)))
    return tables


def _read_import(table: ImportTable, folder: Path, place: str, reading: _Reading) -> None:
    path = folder / expand_home(table.file, reading.environ)
    if not _is_file(path):
        raise SettingError(
            f"{place}: the file {str(path)!r} does not exist.",
            hint="Correct the path, or take it out of the imports.",
        )
    reading.files.append(path)
    document = read_document(path)
    _leave_out(document, reading)
    home = home_dir(reading.environ)
    project = Path(table.project) if table.project else project_folder(path, home)
    known = _known(project, reading) if project else {"userHome": str(home)}
    scope = Scope(environ=reading.environ, known=known)
    names: set[str] = set()
    own: object = document.root.get("server") if document.is_toml else None
    for name, config in json_object(own).items():
        names.add(name)
        if _is_wanted(name, table):
            at = Place(document=document, path=("server", name), folder=path.parent, scope=scope)
            taken = table.rename.get(name, name)
            _add(taken, _server(taken, cast("object", config), at, reading), at, reading)
    for key, servers in server_tables(document, project=table.project):
        if isinstance(servers, Repeated):
            raise document.error(
                (*key, servers.names[0]),
                f"the server {servers.names[0]!r} stands twice in this file.",
                hint="Rename or remove one of them.",
            )
        names |= servers.keys()
        for name, entry in servers.items():
            if not _is_wanted(name, table):
                continue
            at = Place(
                document=document, path=(*key, name), folder=project or path.parent, scope=scope
            )
            _import_entry(table.rename.get(name, name), entry, at, project, reading)
    if not names:
        reading.notices.append(f"{path} contains no servers.")
    for name in [*table.skip, *table.only, *table.rename]:
        if name not in names:
            reading.notices.append(f"{place}: {path} has no server {name!r}.")


def _is_wanted(name: str, table: ImportTable) -> bool:
    return name not in table.skip and (not table.only or name in table.only)


def _import_entry(
    name: str, entry: object, place: Place, project: Path | None, reading: _Reading
) -> None:
    where = place.document.place(place.path)
    if not isinstance(entry, dict):
        reading.notices.append(f"{where}: {name!r} is no server and is left out.")
        return
    if is_toolgate(cast("Json", entry), port=reading.port):
        reading.notices.append(f"{where}: server {name!r} is Toolgate itself and is left out.")
        return
    translation = translate(cast("Json", entry), place.document.path)
    config = translation.config
    if name != place.path[-1]:
        config["title"] = str(place.path[-1])
    if project is not None and "command" in config and "cwd" not in config:
        config["cwd"] = str(project)
    try:
        spec = _server(name, config, place, reading)
    except SettingError as error:
        # The file belongs to another client; what is wrong in one entry stops no other.
        spec = _unusable(name, str(error), place)
    if name in reading.imported and reading.imported[name] == config:
        reading.notices.append(
            f"{where}: server {name!r} equals the one in {reading.places[name]}."
        )
        return
    _add(name, spec, place, reading)
    reading.imported[name] = config
    reading.notices += [f"{where}: server {name!r}: {notice}." for notice in translation.notices]


def _server(name: str, config: object, place: Place, reading: _Reading) -> ServerSpec:
    environment: dict[str, str] = {}
    problem = ""
    env_file: object = cast("Json", config).get("env_file") if isinstance(config, dict) else None
    if isinstance(env_file, str) and env_file:
        where = place.document.place((*place.path, "env_file"))
        try:
            path = place.folder / expand_home(fill(env_file, place.scope), reading.environ)
            reading.files.append(path)
            environment = read_env_file(path)
        except Missing as missing:
            problem = missing_problem(name, missing.name, place)
        except SettingError as error:
            problem = (
                f"{where}: server {name!r} cannot use its env_file: {error.failed} Make the file, "
                "correct env_file, or disable the server."
            )
    spec = read_server(name, cast("object", config), place, environment=environment)
    if problem and spec.enabled:
        return replace(spec, options={}, enabled=False, problem=problem)
    return spec


def _unusable(name: str, problem: str, place: Place) -> ServerSpec:
    spec = read_server(name, {"command": "-", "enabled": False}, place, environment={})
    return replace(spec, options={}, problem=problem)


def _add(name: str, spec: ServerSpec, place: Place, reading: _Reading) -> None:
    where = place.document.place(place.path)
    if spec.name in reading.servers:
        error = SettingError(
            f"The server name {spec.name!r} stands twice: in {reading.places[spec.name]}, and in "
            f"{where}.",
            allowed="Each name is allowed once.",
            hint="Rename or remove one; in an imported file "
            f'import = [{{ file = "…", rename = {{ "{name}" = "{name[:28]}-2" }} }}] does it.',
        )
        error.at = (place.document.path, place.path)
        raise error
    shown = fold(server_prefix(spec.name))
    other = reading.shown_as.setdefault(shown, spec.name)
    if other != spec.name:
        error = SettingError(
            f"Servers {other!r} and {spec.name!r} have names that clients cannot tell apart: in "
            f"{reading.places[other]}, and in {where}.",
            allowed="Names must differ in more than case, '-', '_' and '.'.",
            hint="Rename one of them; in an imported file "
            f'import = [{{ file = "…", rename = {{ "{name}" = "{name[:28]}-2" }} }}] does it.',
        )
        error.at = (place.document.path, place.path)
        raise error
    reading.servers[spec.name] = spec
    reading.places[spec.name] = where
    if spec.problem:
        reading.notices.append(spec.problem)
    if spec.name != name:
        reading.notices.append(f"{where}: server {name!r} is called {spec.name!r} here.")


def _with_new_names(document: Document, reading: _Reading) -> Json:
    """The root with renamed keys under their new names."""
    root = document.root
    for renamed in RENAMED:
        for path in list(matches(root, renamed.old)):
            place = renamed.place(path)
            name = renamed.new if renamed.table is None else dotted(place)
            parent = root
            for part in place[:-1]:
                parent = parent[part]
            if renamed.new in parent:
                raise document.error(
                    path,
                    f"{dotted(path)} is the old name of {name!r}, and both are there.",
                    hint="Remove the old one.",
                )
            before = root
            for part in path[:-1]:
                before = before[part]
            parent[renamed.new] = before.pop(path[-1])
            where = " at the top of the file" if len(place) == 1 < len(path) else ""
            reading.notices.append(
                f"{document.place(path)}: {dotted(path)} is called {name!r} now{where}; the old "
                f"name works until {renamed.until}. Run: toolgate config migrate"
            )
    return root


def _merged(one: Json, other: Json) -> Json:
    """Two tables as one; `other` goes before."""
    merged = {**one, **other}
    for name in one.keys() & other.keys():
        if isinstance(one[name], dict) and isinstance(other[name], dict):
            merged[name] = _merged(one[name], other[name])
    return merged


def matches(table: object, pattern: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The paths in a table that a pattern with `*` means."""
    if not isinstance(table, dict) or not pattern:
        return []
    found: list[tuple[str, ...]] = []
    for name, value in cast("Json", table).items():
        if pattern[0] in {"*", name}:
            found += [(name,)] if len(pattern) == 1 else []
            found += [(name, *rest) for rest in matches(value, pattern[1:])]
    return found


def _check_version(document: Document, root: Json) -> None:
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


def _whole_errors(settings: Settings) -> Iterator[SettingError]:
    """What is wrong with settings that are right one by one."""
    where = str(settings.config_file or "The configuration")
    unknown = [name for name in settings.meta_tools if name not in META_TOOLS]
    if unknown:
        yield SettingError(
            f"{where}: meta_tools contains {unknown[0][:40]!r}.",
            allowed=f"Allowed: {', '.join(META_TOOLS)}.",
            hint="Correct or remove it.",
        )
    for key in settings.pinned:
        server, colon, tool = key.partition(":")
        if not (server and colon and tool):
            yield SettingError(
                f"{where}: pinned contains {key[:80]!r}.",
                allowed='Expected: "server:tool".',
                hint="Correct or remove it.",
            )
    enabled = [server.name for server in settings.servers if server.enabled]
    if settings.tool_names == "flat" and len(enabled) > 1:
        yield SettingError(
            f'{where}: tool_names is "flat", and these servers are enabled: {", ".join(enabled)}.',
            allowed="Allowed: one enabled server.",
            hint='Disable the others, or set tool_names = "prefixed".',
        )
    yield from _search_errors(settings, where)
    scheme = settings.store.url.partition(":")[0]
    if settings.store.url and scheme.partition("+")[0] not in {"sqlite", "postgresql", "postgres"}:
        yield SettingError(
            f"{where}: store.url starts with {scheme[:20]!r}.",
            allowed="Allowed: sqlite:///PATH, postgresql://USER@HOST/DATABASE.",
            hint="Correct it, or remove it to use the default.",
        )

    yield from _access_errors(settings, where)
    yield from _chat_errors(settings, where)
    yield from _network_errors(settings, where)
    for name, connection in settings.connections.items():
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
            yield SettingError(
                f"{where}: [connections] has a connection that is called {name!r:.80}.",
                allowed="Allowed: up to 64 characters of A-Z a-z 0-9 _ . -, the first no sign.",
                hint="Name it by what is in the database.",
            )
        if "://" not in connection.url:
            # What came is not shown: it may be a password in the wrong place.
            yield SettingError(
                f"{where}: connections.{name[:80]}.url is no address of a database.",
                allowed="Allowed: sqlite:///PATH, postgresql://USER@HOST/DATABASE, and others that "
                "SQLAlchemy knows.",
                hint="Correct it, or remove the table.",
            )


def _network_errors(settings: Settings, where: str) -> Iterator[SettingError]:
    """What is wrong with how it listens and where it connects to."""
    for key, values in (
        ("serve.trusted_proxies", settings.serve.trusted_proxies),
        ("outbound.allow", settings.outbound.allow),
    ):
        for value in values:
            if not _is_network(value) and (key == "serve.trusted_proxies" or "/" in value):
                yield SettingError(
                    f"{where}: {key} contains {value[:60]!r}.",
                    allowed="Expected: an address such as 10.1.2.3 or a network such as"
                    " 10.1.0.0/16.",
                    hint="Correct or remove it.",
                )
    path = settings.serve.root_path
    if path and not re.fullmatch(r"(?:/[A-Za-z0-9._~-]+)+", path):
        yield SettingError(
            f"{where}: serve.root_path is {path[:60]!r}.",
            allowed='Expected: a path such as "/tools", without a slash at its end.',
            hint="Correct or remove it.",
        )
    proxy = settings.outbound.proxy
    if proxy and proxy != "none" and not re.match(r"https?://[^/@\s]", proxy):
        yield SettingError(
            f"{where}: outbound.proxy is no address of a proxy.",
            allowed='Expected: "http://HOST:PORT", or "none".',
            hint="Correct or remove it.",
        )
    for key, endpoint in (
        ("traces.endpoint", settings.traces.endpoint),
        ("metrics.endpoint", settings.metrics.endpoint),
        ("audit.otel_endpoint", settings.audit.otel_endpoint),
    ):
        if endpoint and not re.fullmatch(r"https?://[^/:\s]\S*", endpoint):
            # What came is not shown: it may have a password in it.
            yield SettingError(
                f"{where}: {key} is no address of a collector.",
                allowed="Expected: http://HOST:PORT/PATH or https://…",
                hint="Correct or remove it.",
            )
    document = settings.credentials.client_metadata_url
    if document and not re.match(r"https://[^/\s]+/[^\s]+", document):
        yield SettingError(
            f"{where}: credentials.client_metadata_url is {document[:80]!r}.",
            allowed="Expected: an https address with a path.",
            hint="Correct or remove it.",
        )


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


_WHO = re.compile(r"everyone|(?:token|role|user|group|project):.+", re.DOTALL)


def _access_errors(settings: Settings, where: str) -> Iterator[SettingError]:
    """What is wrong with projects and permission rules."""
    closed = [name for name, project in settings.project.items() if project.audit == "closed"]
    is_kept = settings.audit.enabled and settings.audit.sinks
    if not is_kept and (closed or settings.audit.on_failure == "closed"):
        yield SettingError(
            f"{where}: nothing is recorded, and nothing may happen that is not recorded.",
            hint='Set audit.enabled = true and audit.sinks = ["store"], or on_failure = "open".',
        )
    for name in settings.project:
        if not is_project_name(name):
            yield SettingError(
                f"{where}: [project] has a project that is called {name!r:.80}.",
                allowed="Allowed: up to 64 characters of A-Z a-z 0-9 _ . -, the first no sign;"
                " not default, not UNASSIGNED.",
                hint="Give it another name.",
            )
    for rule in settings.permission:
        if not rule.to or not (rule.allow or rule.deny):
            yield SettingError(
                f"{rule.source or where}: a rule in [[permission]] says nothing.",
                allowed='Expected: to = ["role:dev"] and allow = ["github:*"] or deny = [...].',
                hint="Complete or remove it.",
            )
        for who in rule.to:
            if not _WHO.fullmatch(who):
                yield SettingError(
                    f"{rule.source or where}: a rule in [[permission]] is for {who!r:.80}.",
                    allowed="Allowed: everyone, token:NAME, role:NAME, user:NAME, group:NAME,"
                    " project:NAME.",
                    hint="Correct it.",
                )


_POLICIES = ("keep", "stub", "drop_pair")
_TOOL_KINDS = ("Vector Search", "NL2SQL")


def _chat_errors(settings: Settings, where: str) -> Iterator[SettingError]:
    """What is wrong with models and turns."""
    names = {alias for table in settings.models.values() for alias in table.aliases}
    names |= set(settings.models)
    asked = [
        ("chat.model", settings.chat.model),
        ("chat.helper_model", settings.chat.helper_model),
        *(
            (f"models.{name}.fallbacks", other)
            for name, table in settings.models.items()
            for other in table.fallbacks
        ),
    ]
    for key, name in asked:
        if name and name not in names:
            yield SettingError(
                f"{where}: {key} names the model {name!r:.80}, which [models] does not have.",
                allowed=f"Allowed: {', '.join(sorted(names)) or 'none'}.",
                hint="Correct it, or write a table for it.",
            )
    for kind in settings.chat.tools_enabled:
        if kind not in _TOOL_KINDS:
            yield SettingError(
                f"{where}: chat.tools_enabled contains {kind!r:.60}.",
                allowed=f"Allowed: {', '.join(_TOOL_KINDS)}.",
                hint="Correct or remove it.",
            )
    for pattern, policy in settings.chat.results.items():
        if policy not in _POLICIES:
            yield SettingError(
                f"{where}: chat.results of {pattern[:80]!r} is {policy!r:.60}.",
                allowed=f"Allowed: {', '.join(_POLICIES)}.",
                hint="Set it to one of these.",
            )


def _search_errors(settings: Settings, where: str) -> Iterator[SettingError]:
    """What is wrong with the keys of the search."""
    if (
        "off" in settings.optimizations
        and settings.mode == "meta"
        and settings.tool_names != "flat"
    ):
        some = "" if settings.experiment_percent in {0, 100} else " for a part of the conversations"
        yield SettingError(
            f'{where}: mode is "meta", and the search is off{some}: clients could reach no tool.',
            allowed='Allowed with the search off: mode = "auto" or "all".',
            hint=f'Set mode = "auto", or change optimization ({settings.optimization!r}) or '
            f"experiment_percent ({settings.experiment_percent:g}).",
        )
    for name in settings.groups:
        if name != name.strip() or not name.isprintable() or not name:
            yield SettingError(
                f"{where}: [groups] has a group that is called {name!r:.60}.",
                allowed="Allowed: printable names without spaces at their ends.",
                hint="Name it by what its tools are for.",
            )
    table = settings.catalog_search
    if table.strategy in {"off", "cloud"}:
        yield SettingError(
            f"{where}: catalog_search.strategy is {table.strategy!r}.",
            allowed="Allowed: bm25, hybrid, or another search that runs here.",
            hint="Set it to one of these.",
        )
    owners: dict[str, str] = {}
    for project, tokens in table.tokens.items():
        for token in tokens:
            problem = _token_problem(project, token)
            if owners.setdefault(token, project) != project:
                problem = f"is also a token of {owners[token]!r}"
            if problem:
                # The token itself is never shown.
                yield SettingError(
                    f"{where}: a token of catalog_search.tokens.{project[:40]} {problem}.",
                    allowed="Allowed: 16 characters or more, or sha256: and 64 hexadecimal digits.",
                    hint="Make one with: python -c 'import secrets; "
                    "print(secrets.token_urlsafe(32))'",
                )


def _token_problem(project: str, token: str) -> str:
    if not project.strip():
        return "has no project"
    if token.startswith("sha256:"):
        digits = token.removeprefix("sha256:")
        is_hash = len(digits) == 64 and set(digits.lower()) <= set("0123456789abcdef")
        return "" if is_hash else "has a hash that is none"
    if len(token) < 16:
        return f"has {len(token)} characters"
    # Such a token cannot be sent in a header.
    return "" if token.isascii() and token.isprintable() and " " not in token else "has odd signs"


def _with_paths(settings: Settings, folder: Path, reading: _Reading) -> Settings:
    """Paths as this process can use them, whatever its current folder is."""

    def whole(url: str) -> str:
        prefix, found, path = url.partition(":///")
        if not found or not urlsplit(f"{prefix}:").scheme.startswith("sqlite"):
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


def _known(folder: Path, reading: _Reading) -> dict[str, str]:
    """What editors call the folder of a project."""
    return {
        "workspaceFolder": str(folder),
        "workspaceFolderBasename": folder.name,
        "userHome": str(home_dir(reading.environ)),
        "CLAUDE_PROJECT_DIR": str(folder),
    }


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
