"""Tools for databases: tables, columns, and what connects them."""

from typing import Any

from toolgate import Context, tool
from toolgate.packs.builtin.servoy._answers import Text, answer, answering, needed
from toolgate.packs.builtin.servoy._call_context import Desk, desk_of
from toolgate.packs.builtin.servoy._errors import RefusedError
from toolgate.packs.builtin.servoy._schema import Key, Server, Table, keys_of, no_table

READS = {"readOnlyHint": True, "openWorldHint": False}

_NO_SERVER_NAME = (
    "The 'serverName' argument is required. Cannot enumerate database servers - please specify the "
    "server name."
)


@tool(name="queryDatabaseSchema", annotations=READS, required=("serverName",))
@answering
def query_database_schema(context: Context, serverName: Text = "", tableName: Text = "") -> object:
    """Show the tables of a database server and what connects them, all in one call.

    Without tableName: all tables, the foreign keys that are declared, and those that are likely
    (columns with the name and type of another table's primary key). With it: the table's primary
    key and the columns of other tables that point to it.

    Args:
        serverName: Name of the database server, such as example_data; not the name of the project.
        tableName: One table.
    """
    needed(_NO_SERVER_NAME, serverName)
    desk = desk_of(context)
    server = desk.databases.server(serverName.strip())
    if server is None:
        raise RefusedError(
            f"Database server '{serverName}' not found. Check that the server is configured and "
            "valid.",
            _known(desk),
        )
    if tableName.strip():
        return _one_table(server, tableName.strip())
    tables = server.tables()
    lines = [f"Database Server: {server.name}", "", f"Tables ({len(tables)}):"]
    lines += [f"  - {each.name}" for each in tables]
    text, structured = _keys(tables)
    lines += ["", *text]
    return answer(
        "\n".join(lines),
        structured={
            "server": server.name,
            "tables": [each.name for each in tables],
            **structured,
        },
    )


def _keys(tables: list[Table]) -> tuple[list[str], dict[str, Any]]:
    keys = keys_of(tables)
    lines = ["=== EXPLICIT FOREIGN KEY RELATIONSHIPS ==="]
    for number, each in enumerate(keys.explicit, 1):
        lines.append(f"{number}. {each.table}.{each.column} → {each.target}")
    if not keys.explicit:
        lines.append("(No explicit FK metadata found)")
    lines += ["", "=== POTENTIAL RELATIONS (PK column name + type matching) ==="]
    for number, each in enumerate(keys.potential, 1):
        target = f"{each.target}.{each.target_column}"
        lines.append(f"{number}. {each.table}.{each.column} → {target} (PK match)")
    if not keys.potential:
        lines.append("(No potential relations found)")
    return lines, {
        "explicit": [_key(each) for each in keys.explicit],
        "potential": [_key(each) for each in keys.potential],
    }


def _key(key: Key) -> dict[str, str]:
    found = {"table": key.table, "column": key.column, "target": key.target}
    return {**found, "targetColumn": key.target_column} if key.target_column else found


def _one_table(server: Server, name: str) -> object:
    table = server.table(name)
    if table is None:
        raise no_table(server, name)
    incoming = [
        (other.name, column.name)
        for other in server.tables()
        for column in other.columns
        if column.references.casefold() == table.name.casefold()
    ]
    lines = [
        f"Table: {table.name}",
        f"DataSource: db:/{server.name}/{table.name}",
        "",
        "Primary Key Columns:",
        *([f"  - {each.name}" for each in table.keys] or ["  (none)"]),
        "",
        "Incoming Foreign Keys (tables referencing this table):",
    ]
    for number, (other, column) in enumerate(incoming, 1):
        lines.append(f"{number}. Table: {other} → Column: {column} (FK to this table)")
    if not incoming:
        lines.append("  (none)")
    return answer(
        "\n".join(lines),
        structured={
            "dataSource": f"db:/{server.name}/{table.name}",
            "primaryKey": [each.name for each in table.keys],
            "incoming": [{"table": other, "column": column} for other, column in incoming],
        },
    )


@tool(name="getTableColumns", annotations=READS, required=("serverName", "tableName"))
@answering
def get_table_columns(context: Context, serverName: Text = "", tableName: Text = "") -> object:
    """Show the columns of a table with their types, and which of them are its primary key.

    Args:
        serverName: Name of the database server.
        tableName: The table or view.
    """
    needed("The 'serverName' argument is required.", serverName)
    needed("The 'tableName' argument is required.", tableName)
    desk = desk_of(context)
    server = desk.databases.server(serverName.strip())
    if server is None:
        raise RefusedError(f"Database server '{serverName}' not found.", _known(desk))
    table = _table(server, tableName)
    return answer("\n".join(_columns(server, table)), structured=_described(server, table))


@tool(name="getTableInfo", annotations=READS, required=("serverName", "tableName"))
@answering
def get_table_info(context: Context, serverName: Text = "", tableName: Text = "") -> object:
    """Show a table: its columns with types and primary key, and the tables that they point to.

    Args:
        serverName: Name of the database server.
        tableName: The table or view.
    """
    needed("Error: 'serverName' parameter is required", serverName)
    needed("Error: 'tableName' parameter is required", tableName)
    desk = desk_of(context)
    server = _server(desk, serverName)
    table = _table(server, tableName)
    lines = _columns(server, table)
    explicit = [each for each in keys_of([table]).explicit if each.table == table.name]
    lines += ["Foreign Keys:"]
    lines += [f"  - {each.column} → {each.target}" for each in explicit] or ["  (none)"]
    return answer("\n".join(lines), structured=_described(server, table))


@tool(name="listTables", annotations=READS, required=("serverName",))
@answering
def list_tables(context: Context, serverName: Text = "") -> object:
    """List the tables of a database server.

    Args:
        serverName: Name of the database server.
    """
    needed("Error: 'serverName' parameter is required", serverName)
    server = _server(desk_of(context), serverName)
    names = server.table_names()
    lines = [f"Database Server: {server.name}", f"Tables ({len(names)}):"]
    lines += [f"  - {name}" for name in names]
    return answer("\n".join(lines), structured={"server": server.name, "tables": names})


@tool(name="discoverDbRelations", annotations=READS, required=("serverName",))
@answering
def discover_db_relations(context: Context, serverName: Text = "") -> object:
    """Find the relations that a database suggests: declared foreign keys, and likely ones.

    Args:
        serverName: Name of the database server.
    """
    needed("Error: 'serverName' parameter is required", serverName)
    server = _server(desk_of(context), serverName)
    lines, structured = _keys(server.tables())
    return answer("\n".join([f"Database Server: {server.name}", "", *lines]), structured=structured)


def _server(desk: Desk, name: str) -> Server:
    server = desk.databases.server(name.strip())
    if server is None:
        raise RefusedError(f"Error: Database server '{name}' not found.", _known(desk))
    return server


def _table(server: Server, name: str) -> Table:
    table = server.table(name.strip())
    if table is None:
        raise no_table(server, name.strip())
    return table


def _known(desk: Desk) -> str:
    names = ", ".join(desk.databases.names)
    return f"Known: {names}." if names else ""


def _columns(server: Server, table: Table) -> list[str]:
    keys = {each.name for each in table.keys}
    lines = [f"Table: {table.name}", f"DataSource: db:/{server.name}/{table.name}", "Columns:"]
    for number, each in enumerate(table.columns, 1):
        lines += [f"{number}. Name: {each.name}", f"   Type: {each.shown_type}"]
        if each.name in keys:
            lines.append("   Primary Key: true")
    return lines


def _described(server: Server, table: Table) -> dict[str, Any]:
    keys = {each.name for each in table.keys}
    return {
        "dataSource": f"db:/{server.name}/{table.name}",
        "isView": table.is_view,
        "columns": [
            {
                "name": each.name,
                "type": each.shown_type,
                "primaryKey": each.name in keys,
                **({"references": each.references} if each.references else {}),
            }
            for each in table.columns
        ],
    }
