"""Tools for databases: tables, columns, and foreign keys."""

from typing import Any

from toolgate import Context, tool
from toolgate.packs.builtin.servoy._answers import Text, answer, refusals_as_answers, require_text
from toolgate.packs.builtin.servoy._call_context import ServoyCall, servoy_call
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.database.table import DbTable, ReferringColumn
from toolgate.packs.builtin.servoy.database.tables import (
    Server,
    keys_of,
    table_not_found,
)

READS = {"readOnlyHint": True, "openWorldHint": False}

_NO_SERVER_NAME = (
    "The 'serverName' argument is required. Cannot enumerate database servers - please specify the "
    "server name."
)


@tool(name="queryDatabaseSchema", annotations=READS, required=("serverName",))
@refusals_as_answers
def query_database_schema(context: Context, serverName: Text = "", tableName: Text = "") -> object:
    """Show the tables of a database server and what connects them, all in one call.

    Without tableName: all tables, the foreign keys that are declared, and those that are likely
    (columns called like another table's primary key, or like that table, with a type that can be
    compared), the surest first. With it: the table's primary
    key and the columns of other tables that point to it.

    Args:
        serverName: Name of the database server, such as example_data; not the name of the project.
        tableName: One table.
    """
    require_text(_NO_SERVER_NAME, serverName)
    call = servoy_call(context)
    server = call.databases.server(serverName.strip())
    if server is None:
        raise ToolRefusedError(
            f"Database server '{serverName}' not found. Check that the server is configured and "
            "valid.",
            _known_servers(call),
        )
    if tableName.strip():
        return _one_table(server, tableName.strip())
    tables = server.tables()
    lines = [f"Database Server: {server.name}", "", f"Tables ({len(tables)}):"]
    lines += [f"  - {table.name}" for table in tables]
    text, structured = _keys(tables)
    lines += ["", *text]
    return answer(
        "\n".join(lines),
        structured={
            "server": server.name,
            "tables": [table.name for table in tables],
            **structured,
        },
    )


def _keys(tables: list[DbTable]) -> tuple[list[str], dict[str, Any]]:
    keys = keys_of(tables)
    lines = ["=== EXPLICIT FOREIGN KEY RELATIONSHIPS ==="]
    for number, key in enumerate(keys.explicit, 1):
        lines.append(f"{number}. {key.table}.{key.column} → {key.target}")
    if not keys.explicit:
        lines.append("(No explicit FK metadata found)")
    lines += ["", "=== POTENTIAL RELATIONS (PK column name + type matching) ==="]
    for number, key in enumerate(keys.potential, 1):
        target = f"{key.target}.{key.target_column}"
        lines.append(f"{number}. {key.table}.{key.column} → {target} (PK match)")
    if not keys.potential:
        lines.append("(No potential relations found)")
    if keys.left_out:
        lines.append(f"and {keys.left_out} more that are less likely")
    return lines, {
        "explicit": [_key(key) for key in keys.explicit],
        "potential": [_key(key) for key in keys.potential],
    }


def _key(key: ReferringColumn) -> dict[str, str]:
    fields = {"table": key.table, "column": key.column, "target": key.target}
    return {**fields, "targetColumn": key.target_column} if key.target_column else fields


def _one_table(server: Server, name: str) -> object:
    table = server.table(name)
    if table is None:
        raise table_not_found(server, name)
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
        *([f"  - {column.name}" for column in table.keys] or ["  (none)"]),
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
            "primaryKey": [column.name for column in table.keys],
            "incoming": [{"table": other, "column": column} for other, column in incoming],
        },
    )


@tool(name="getTableColumns", annotations=READS, required=("serverName", "tableName"))
@refusals_as_answers
def get_table_columns(context: Context, serverName: Text = "", tableName: Text = "") -> object:
    """Show the columns of a table with their types, and which of them are its primary key.

    Args:
        serverName: Name of the database server.
        tableName: The table or view.
    """
    require_text("The 'serverName' argument is required.", serverName)
    require_text("The 'tableName' argument is required.", tableName)
    call = servoy_call(context)
    server = call.databases.server(serverName.strip())
    if server is None:
        raise ToolRefusedError(f"Database server '{serverName}' not found.", _known_servers(call))
    table = _table(server, tableName)
    return answer("\n".join(_columns(server, table)), structured=_described(server, table))


@tool(name="getTableInfo", annotations=READS, required=("serverName", "tableName"))
@refusals_as_answers
def get_table_info(context: Context, serverName: Text = "", tableName: Text = "") -> object:
    """Show a table: its columns with types and primary key, and the tables that they point to.

    Args:
        serverName: Name of the database server.
        tableName: The table or view.
    """
    require_text("Error: 'serverName' parameter is required", serverName)
    require_text("Error: 'tableName' parameter is required", tableName)
    call = servoy_call(context)
    server = _server(call, serverName)
    table = _table(server, tableName)
    lines = _columns(server, table)
    explicit = [key for key in keys_of([table]).explicit if key.table == table.name]
    lines += ["Foreign Keys:"]
    lines += [f"  - {key.column} → {key.target}" for key in explicit] or ["  (none)"]
    return answer("\n".join(lines), structured=_described(server, table))


@tool(name="listTables", annotations=READS, required=("serverName",))
@refusals_as_answers
def list_tables(context: Context, serverName: Text = "") -> object:
    """List the tables of a database server.

    Args:
        serverName: Name of the database server.
    """
    require_text("Error: 'serverName' parameter is required", serverName)
    server = _server(servoy_call(context), serverName)
    names = server.table_names()
    lines = [f"Database Server: {server.name}", f"Tables ({len(names)}):"]
    lines += [f"  - {name}" for name in names]
    return answer("\n".join(lines), structured={"server": server.name, "tables": names})


@tool(name="discoverDbRelations", annotations=READS, required=("serverName",))
@refusals_as_answers
def discover_db_relations(context: Context, serverName: Text = "") -> object:
    """Find the relations that a database suggests: declared foreign keys, and likely ones.

    Args:
        serverName: Name of the database server.
    """
    require_text("Error: 'serverName' parameter is required", serverName)
    server = _server(servoy_call(context), serverName)
    lines, structured = _keys(server.tables())
    return answer("\n".join([f"Database Server: {server.name}", "", *lines]), structured=structured)


def _server(call: ServoyCall, name: str) -> Server:
    server = call.databases.server(name.strip())
    if server is None:
        raise ToolRefusedError(f"Error: Database server '{name}' not found.", _known_servers(call))
    return server


def _table(server: Server, name: str) -> DbTable:
    table = server.table(name.strip())
    if table is None:
        raise table_not_found(server, name.strip())
    return table


def _known_servers(call: ServoyCall) -> str:
    names = ", ".join(call.databases.names)
    return f"Known: {names}." if names else ""


def _columns(server: Server, table: DbTable) -> list[str]:
    keys = {column.name for column in table.keys}
    lines = [f"Table: {table.name}", f"DataSource: db:/{server.name}/{table.name}", "Columns:"]
    for number, column in enumerate(table.columns, 1):
        lines += [f"{number}. Name: {column.name}", f"   Type: {column.shown_type}"]
        if column.name in keys:
            lines.append("   Primary Key: true")
    return lines


def _described(server: Server, table: DbTable) -> dict[str, Any]:
    keys = {column.name for column in table.keys}
    return {
        "dataSource": f"db:/{server.name}/{table.name}",
        "isView": table.is_view,
        "columns": [
            {
                "name": column.name,
                "type": column.shown_type,
                "primaryKey": column.name in keys,
                **({"references": column.references} if column.references else {}),
            }
            for column in table.columns
        ],
    }
