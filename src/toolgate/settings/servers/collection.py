"""Collects the servers of all files, with notices and errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from toolgate.base.names import fold, server_prefix
from toolgate.errors import SettingError
from toolgate.settings.config_file import (
    ConfigDocument,
    KeyPath,
    read_text,
)
from toolgate.settings.folders import expand_home, home_dir
from toolgate.settings.servers.location import EntryLocation
from toolgate.settings.servers.server_entry import missing_problem, read_server
from toolgate.settings.variables import Missing
from toolgate.settings.variables import replace as fill
from toolgate.types import Json, ServerSpec


@dataclass
class Reading:
    """What has been read so far."""

    environ: Mapping[str, str]
    """Environment variables."""
    cwd: Path
    """The working folder."""
    servers: dict[str, ServerSpec] = field(default_factory=dict[str, ServerSpec])
    """Servers by name."""
    places: dict[str, str] = field(default_factory=dict[str, str])
    """Where each server is configured, by name."""
    shown_as: dict[str, str] = field(default_factory=dict[str, str])
    """Server by its prefix, with characters replaced as clients do."""
    left_out: frozenset[tuple[Path, KeyPath]] = frozenset()
    """Entries that are skipped, by file and key path."""
    errors: list[SettingError] | None = None
    """Collects errors; None raises the first."""
    imported: dict[str, Json] = field(default_factory=dict[str, Json])
    """Imported entries by name."""
    files: list[Path] = field(default_factory=list[Path])
    """Files that were read."""
    notices: list[str] = field(default_factory=list[str])
    """Notices for people."""
    port: int = 7420
    """Port of this gateway, to recognise entries for Toolgate itself."""


def leave_out(document: ConfigDocument, reading: Reading) -> None:
    """Remove entries that were rejected before from a document; in lists, the whole list."""
    for file, path in reading.left_out:
        if file != document.path or path[:1] == ("import",) != path:
            continue  # imports are identified by position, which must not change
        table = document.root
        for at, part in enumerate(path):
            inner: object = table.get(str(part))
            if at == len(path) - 1 or not isinstance(inner, dict):
                table.pop(str(part), None)
                break
            table = cast("Json", inner)


def read_env_file(path: Path) -> dict[str, str]:
    """Read a file of `NAME=VALUE` lines, with support for comments, quotes and `export`.

    Raises:
        SettingError: The file cannot be read.
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


def read_server_table(
    name: str, config: object, location: EntryLocation, reading: Reading
) -> ServerSpec:
    """Read a server from its table, with the variables of its `env_file`."""
    environment: dict[str, str] = {}
    problem = ""
    env_file: object = cast("Json", config).get("env_file") if isinstance(config, dict) else None
    if isinstance(env_file, str) and env_file:
        where = location.document.location((*location.path, "env_file"))
        try:
            path = location.folder / expand_home(fill(env_file, location.scope), reading.environ)
            reading.files.append(path)
            environment = read_env_file(path)
        except Missing as missing:
            problem = missing_problem(name, missing.name, location)
        except SettingError as error:
            problem = (
                f"{where}: server {name!r} cannot use its env_file: {error.failed} Make the file, "
                "correct env_file, or disable the server."
            )
    spec = read_server(name, cast("object", config), location, environment=environment)
    if problem and spec.enabled:
        return replace(spec, options={}, enabled=False, problem=problem)
    return spec


def unusable_server(name: str, problem: str, location: EntryLocation) -> ServerSpec:
    """Create a disabled server in place of one whose table is invalid."""
    spec = read_server(name, {"command": "-", "enabled": False}, location, environment={})
    return replace(spec, options={}, problem=problem)


def add_server(name: str, spec: ServerSpec, location: EntryLocation, reading: Reading) -> None:
    """Add a server to the ones read so far.

    Raises:
        SettingError: The name is taken, or clients cannot tell it from that of another server.
    """
    where = location.document.location(location.path)
    if spec.name in reading.servers:
        error = SettingError(
            f"The server name {spec.name!r} is used twice: in {reading.places[spec.name]}, and in "
            f"{where}.",
            allowed="Each name is allowed once.",
            hint="Rename or remove one; in an imported file "
            f'import = [{{ file = "…", rename = {{ "{name}" = "{name[:28]}-2" }} }}] does that.',
        )
        error.at = (location.document.path, location.path)
        raise error
    prefix = fold(server_prefix(spec.name))
    other = reading.shown_as.setdefault(prefix, spec.name)
    if other != spec.name:
        error = SettingError(
            f"Servers {other!r} and {spec.name!r} have names that clients cannot distinguish: in "
            f"{reading.places[other]}, and in {where}.",
            allowed="Names must differ in more than case, '-', '_' and '.'.",
            hint="Rename one of them; in an imported file "
            f'import = [{{ file = "…", rename = {{ "{name}" = "{name[:28]}-2" }} }}] does that.',
        )
        error.at = (location.document.path, location.path)
        raise error
    reading.servers[spec.name] = spec
    reading.places[spec.name] = where
    if spec.problem:
        reading.notices.append(spec.problem)
    if spec.name != name:
        reading.notices.append(f"{where}: server {name!r} is called {spec.name!r} here.")


def editor_variables(folder: Path, reading: Reading) -> dict[str, str]:
    """Return the variables with which editors refer to a project folder."""
    return {
        "workspaceFolder": str(folder),
        "workspaceFolderBasename": folder.name,
        "userHome": str(home_dir(reading.environ)),
        "CLAUDE_PROJECT_DIR": str(folder),
    }
