"""Reads the files that `import` and `--import` name."""

from pathlib import Path
from typing import cast

from toolgate.errors import SettingError
from toolgate.settings.clients.denials import rule_files, with_denials
from toolgate.settings.clients.files import project_folder, server_tables, translate
from toolgate.settings.config_file import (
    ConfigDocument,
    KeyPath,
    read_document,
)
from toolgate.settings.folders import expand_home, home_dir, is_file
from toolgate.settings.notations.jsonc import Repeated
from toolgate.settings.servers.collection import (
    Reading,
    add_server,
    editor_variables,
    leave_out,
    read_server_table,
    unusable_server,
)
from toolgate.settings.servers.location import EntryLocation
from toolgate.settings.servers.own_entry import is_toolgate
from toolgate.settings.table_reader import read_table
from toolgate.settings.tables.servers import ImportTable
from toolgate.settings.variables import Scope
from toolgate.types import Json, json_object


def import_tables(
    document: ConfigDocument, root: Json, scope: Scope, reading: Reading
) -> list[tuple[ImportTable, Path, str]]:
    """Return the elements of the key `import`, with their folder and location."""
    value: object = root.get("import", [])
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise document.error(
            ("import",),
            "import is not a list.",
            allowed='Expected: import = ["~/.cursor/mcp.json"].',
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
        tables.append((table, document.path.parent, document.location(path)))
    return tables


def read_import(table: ImportTable, folder: Path, origin: str, reading: Reading) -> None:
    """Add the servers of a file to the ones read so far."""
    path = folder / expand_home(table.file, reading.environ)
    if not is_file(path):
        raise SettingError(
            f"{origin}: the file {str(path)!r} does not exist.",
            hint="Correct the path, or remove it from the imports.",
        )
    reading.files.append(path)
    document = read_document(path)
    leave_out(document, reading)
    home = home_dir(reading.environ)
    project = Path(table.project) if table.project else project_folder(path, home)
    values = editor_variables(project, reading) if project else {"userHome": str(home)}
    scope = Scope(environ=reading.environ, values=values)
    names: set[str] = set()
    own_servers: object = document.root.get("server") if document.is_toml else None
    for name, config in json_object(own_servers).items():
        names.add(name)
        if _is_selected(name, table):
            at = EntryLocation(
                document=document, path=("server", name), folder=path.parent, scope=scope
            )
            taken = table.rename.get(name, name)
            add_server(
                taken, read_server_table(taken, cast("object", config), at, reading), at, reading
            )
    for key, servers in server_tables(document, project=table.project):
        if isinstance(servers, Repeated):
            raise document.error(
                (*key, servers.names[0]),
                f"the server {servers.names[0]!r} is defined twice in this file.",
                hint="Rename or remove one of them.",
            )
        names |= servers.keys()
        for name, entry in servers.items():
            if not _is_selected(name, table):
                continue
            at = EntryLocation(
                document=document, path=(*key, name), folder=project or path.parent, scope=scope
            )
            _import_entry(table.rename.get(name, name), entry, at, project, reading)
    if not names:
        reading.notices.append(f"{path} contains no servers.")
    for name in [*table.skip, *table.only, *table.rename]:
        if name not in names:
            reading.notices.append(f"{origin}: {path} has no server {name!r}.")


def _is_selected(name: str, table: ImportTable) -> bool:
    return name not in table.skip and (not table.only or name in table.only)


def _import_entry(
    name: str, entry: object, location: EntryLocation, project: Path | None, reading: Reading
) -> None:
    where = location.document.location(location.path)
    if not isinstance(entry, dict):
        reading.notices.append(f"{where}: {name!r} is not a server and is left out.")
        return
    if is_toolgate(cast("Json", entry), port=reading.port):
        reading.notices.append(f"{where}: server {name!r} is Toolgate itself and is left out.")
        return
    path = location.document.path
    home = home_dir(reading.environ)
    rules = rule_files(path, project=project, home=home, environ=reading.environ)
    reading.files += [file for file in rules if file not in reading.files and is_file(file)]
    translation = translate(cast("Json", entry), path)
    if translation.client_only:
        reading.notices.append(f"{where}: server {name!r} is left out: {translation.client_only}.")
        return
    config = with_denials(
        translation.config, str(location.path[-1]), location.document, rules, project=project
    )
    if name != location.path[-1]:
        config["title"] = str(location.path[-1])
    if project is not None and "command" in config and "cwd" not in config:
        config["cwd"] = str(project)
    try:
        spec = read_server_table(name, config, location, reading)
    except SettingError as error:
        # The file belongs to another client; an error in one entry does not affect the others.
        spec = unusable_server(name, str(error), location)
    if name in reading.imported and reading.imported[name] == config:
        reading.notices.append(
            f"{where}: server {name!r} equals the one in {reading.places[name]}."
        )
        return
    add_server(name, spec, location, reading)
    reading.imported[name] = config
    reading.notices += [f"{where}: server {name!r}: {notice}." for notice in translation.notices]
