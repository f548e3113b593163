"""Tables, columns and foreign keys, from `.dbi` files or a connected database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.database.likely_keys import potential_keys
from toolgate.packs.builtin.servoy.database.table import DbColumn, DbTable, ReferringColumn
from toolgate.packs.builtin.servoy.files.notation import Fields, Items
from toolgate.packs.builtin.servoy.files.workspace import Workspace, number_of, read_file, text_of


class Server(Protocol):
    """A database server, by its name in data sources."""

    @property
    def name(self) -> str:
        """Its name: the first part of `db:/name/table`."""
        ...

    def table_names(self) -> list[str]:
        """Return the names of its tables, sorted, without views."""
        ...

    def table(self, name: str) -> DbTable | None:
        """Return a table or view; None if it does not exist."""
        ...

    def tables(self) -> list[DbTable]:
        """Return all its tables, sorted, without views."""
        ...


MOST_POTENTIAL: Final = 500
"""Likely keys in a result (chosen: 20 kB of text)."""


@dataclass(frozen=True, kw_only=True)
class TableKeys:
    """The foreign keys between the tables of a server."""

    explicit: tuple[ReferringColumn, ...]
    """Declared in the definitions."""

    potential: tuple[ReferringColumn, ...]
    """Guessed from names and types, at most `MOST_POTENTIAL`, most likely first."""

    left_out: int = 0
    """Number of further guesses."""


def keys_of(tables: Sequence[DbTable]) -> TableKeys:
    """Return how tables refer to each other."""
    explicit = [
        ReferringColumn(table=table.name, column=column.name, target=column.references)
        for table in tables
        for column in table.columns
        if column.references
    ]
    potential = potential_keys(tables)
    return TableKeys(
        explicit=tuple(explicit),
        potential=tuple(potential[:MOST_POTENTIAL]),
        left_out=max(0, len(potential) - MOST_POTENTIAL),
    )


def parse_source(text: str) -> str:
    """Convert a data source to the form in files, `db:/server/table`; empty if it is invalid."""
    text = text.strip()
    for kind in ("mem:", "view:"):
        if text.startswith(kind):
            name = text.removeprefix(kind)
            return text if name and not set(name) & set("/\\: \t\n") else ""
    parts = text.removeprefix("db:/").split("/")
    if len(parts) != 2 or not all(parts) or not all(_is_plain(part) for part in parts):
        return ""
    return "db:/" + "/".join(parts)


def _is_plain(part: str) -> bool:
    return part.strip() == part and part not in {".", ".."} and not set(part) & set('\\:"\n\r\t')


class Databases:
    """The servers that a workspace defines, and the connected databases."""

    def __init__(self, workspace: Workspace, live: Mapping[str, Server]) -> None:
        """Create the set of servers.

        Args:
            workspace: The workspace with the definitions.
            live: Connected databases by name; each replaces the definitions with the same name.
        """
        self._workspace = workspace
        self._live = live

    @cached_property
    def names(self) -> list[str]:
        """Names of the known servers, sorted."""
        names = set(self._live)
        for folder in self._workspace.resources:
            try:
                inside = list(folder.iterdir())
            except OSError:
                continue
            names |= {
                entry.name
                for entry in inside
                if entry.is_dir() and entry.name[0] != "." and any(entry.glob("*.dbi"))
            }
            names |= {entry.stem for entry in inside if entry.suffix == ".dbi"}
        return sorted(names)

    def server(self, name: str) -> Server | None:
        """Return a server by its exact name; None if it is unknown."""
        if name in self._live:
            return self._live[name]
        if name not in self.names:
            return None
        return _Definitions(name, self._workspace)

    def column_table(self, source: str) -> DbTable | None:
        """Return the table of a data source; None if nothing is known about its server.

        Raises:
            ToolRefusedError: The server is unknown, or does not have the table.
        """
        if not source.startswith("db:/") or not self.names:
            return None
        server_name, _, table_name = source.removeprefix("db:/").partition("/")
        server = self.server(server_name)
        if server is None:
            raise ToolRefusedError(
                f"Database server '{server_name}' not found. Check that the server is configured "
                "and valid.",
                f"Known: {', '.join(self.names)}.",
            )
        table = server.table(table_name)
        if table is None:
            raise table_not_found(server, table_name)
        return table

    def source_of(self, table: str) -> str:
        """Return the data source of a table that only one known server has; otherwise empty."""
        if not _is_plain(table) or "/" in table:
            return ""
        folded = table.casefold()
        sources = [
            source for source in self.sources() if source.rpartition("/")[2].casefold() == folded
        ]
        return sources[0] if len(sources) == 1 else ""

    def sources(self) -> list[str]:
        """Return the data sources of the definitions, `db:/server/table`, without reading them."""
        return [
            f"db:/{name}/{path.stem}"
            for name in self.names
            if name not in self._live
            for folder in self._workspace.resources
            for path in sorted((folder / name).glob("*.dbi"))
        ]


def table_not_found(server: Server, name: str) -> ToolRefusedError:
    """Create the error for a missing table, with the table that was perhaps meant."""
    folded = name.casefold()
    near = next(
        (candidate for candidate in server.table_names() if candidate.casefold() == folded), ""
    )
    return ToolRefusedError(
        f"Table '{name}' not found in server '{server.name}'.",
        f"Did you mean '{near}'?" if near else "",
    )


class _Definitions:
    """A server as defined by the `.dbi` files of a workspace."""

    def __init__(self, name: str, workspace: Workspace) -> None:
        self.name = name
        self._workspace = workspace

    def table_names(self) -> list[str]:
        return sorted(table.name for table in self._all.values() if not table.is_view)

    def table(self, name: str) -> DbTable | None:
        return self._all.get(name)

    def tables(self) -> list[DbTable]:
        return sorted(
            (table for table in self._all.values() if not table.is_view),
            key=lambda table: table.name,
        )

    @cached_property
    def _all(self) -> dict[str, DbTable]:
        tables: dict[str, DbTable] = {}
        for folder in self._workspace.resources:
            for path in sorted((folder / self.name).glob("*.dbi")):
                table = _table(read_file(path)[1].root, path.stem)
                if table is None:
                    raise ToolRefusedError(
                        f"{path}: the file cannot be read: it describes no table."
                    )
                tables[table.name] = table
        return tables


def _table(root: Fields | Items, stem: str) -> DbTable | None:
    if not isinstance(root, Fields):
        return None
    columns = root.get("columns")
    described = columns if isinstance(columns, Items) else Items()
    return DbTable(
        name=text_of(root, "name") or stem,
        columns=tuple(_column(column) for column in described if isinstance(column, Fields)),
        is_view=number_of(root, "tableType") == 1,
    )


def _column(fields: Fields) -> DbColumn:
    return DbColumn(
        name=text_of(fields, "name"),
        sql_type=number_of(fields, "dataType"),
        length=number_of(fields, "length"),
        scale=number_of(fields, "scale"),
        subtype=number_of(fields, "subType"),
        flags=number_of(fields, "flags"),
        references=text_of(fields, "foreignType").strip(),
    )
