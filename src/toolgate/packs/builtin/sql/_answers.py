"""Formats the results of the SQL tools, as text and as JSON."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from toolgate.base import json_text
from toolgate.base.tool_results import failed_result
from toolgate.databases.connections import (
    ColumnSchema,
    Connection,
    QueryResult,
    Relation,
    TableSchema,
)
from toolgate.errors import ToolgateError
from toolgate.store import StoredStatement
from toolgate.types import Json

_WIDEST: Final = 1000
"""Characters of a value in a table for people; the JSON has the full value."""

_PADDED: Final = 40
"""Characters to which the columns of such a table are padded; spaces cost tokens too."""


def failure(error: ToolgateError, **more: object) -> Json:
    """Return a result that says why the call failed."""
    content: Json = {"error": error.code, "message": str(error), **more}
    return failed_result(str(error)) | {"structuredContent": content}


def rows(result: QueryResult, connection: Connection, statement: str) -> Json:
    """Format rows, with the statement that returned them."""
    names = [column.name for column in result.columns]
    count = len(result.rows)
    cut = " There is more; ask for less, or for more rows." if result.truncated else ""
    head = f"{_number(count, 'row')} of {connection.name}.{cut}" if names else "No rows."
    text = "\n".join([head, *(_lines(names, result.rows) if count else ())])
    return _answer(
        f"{text}\nExecuted: {_one_line(statement)}",
        {
            "connection": connection.name,
            "dialect": connection.dialect,
            "columns": [{"name": column.name, "type": column.type} for column in result.columns],
            "rows": [dict(zip(names, row, strict=True)) for row in result.rows],
            "row_count": count,
            "truncated": result.truncated,
            "executed_sql": statement,
            "elapsed_ms": result.elapsed_ms,
        },
    )


def plan(
    plan_rows: Sequence[Sequence[Any]], names: Sequence[str], connection: Connection, statement: str
) -> Json:
    """Format the plan of a statement that was not run."""
    is_narrow = len(names) == 1
    values: list[Any] = [
        row[0] if is_narrow else dict(zip(names, row, strict=True)) for row in plan_rows
    ]
    whole = values[0] if is_narrow and len(values) == 1 else values
    lines = [str(value) for value in values] if is_narrow else _lines(names, plan_rows)
    head = f"How {connection.name} would run it; nothing was run:"
    return _answer(
        "\n".join([head, *lines]),
        {
            "connection": connection.name,
            "dialect": connection.dialect,
            "plan": whole,
            "statement": statement,
        },
    )


def table(described: TableSchema, connection: Connection, estimate: int | None) -> Json:
    """Format the description of a table or view."""
    lines = [f"{described.name}: {described.kind} of {connection.name}."]
    lines += [described.comment] if described.comment else []
    lines += [f"- {_column_line(described, column)}" for column in described.columns]
    lines += (
        [f"Primary key: {', '.join(described.primary_key)}"]
        if len(described.primary_key) > 1
        else []
    )
    lines += [
        f"Foreign key: ({', '.join(key.columns)}) to {key.table}({', '.join(key.to)})"
        for key in described.foreign_keys
    ]
    lines += [
        f"{'Unique index' if index.unique else 'Index'} {index.name}: {', '.join(index.columns)}"
        for index in described.indexes
    ]
    lines += [f"About {estimate:,} rows."] if estimate is not None else []
    return _answer(
        "\n".join(_one_line(line) for line in lines),
        {
            "connection": connection.name,
            "dialect": connection.dialect,
            "name": described.name,
            "kind": described.kind,
            "comment": described.comment or None,
            "columns": [
                {
                    "name": column.name,
                    "type": column.type,
                    "nullable": column.nullable,
                    "default": column.default or None,
                    "comment": column.comment or None,
                    "primary_key": column.name in described.primary_key,
                }
                for column in described.columns
            ],
            "primary_key": list(described.primary_key),
            "foreign_keys": [
                {"columns": list(key.columns), "table": key.table, "to": list(key.to)}
                for key in described.foreign_keys
            ],
            "unique_keys": [list(key) for key in described.unique_keys],
            "indexes": [
                {"name": index.name, "columns": list(index.columns), "unique": index.unique}
                for index in described.indexes
            ],
            "row_estimate": estimate,
        },
    )


def tables(
    page: Sequence[Relation], connection: Connection, *, total: int, cursor: str | None
) -> Json:
    """Format a page of tables and views."""
    lines = [f"{_number(total, 'table and view', 'tables and views')} of {connection.name}:"]
    for relation in page:
        comment = f": {relation.comment}" if relation.comment else ""
        lines.append(_one_line(f"- {relation.full_name} ({relation.kind}){comment}"))
    if cursor:
        lines.append(f"There are more: call again with cursor {cursor!r}.")
    return _answer(
        "\n".join(lines) if page else f"No table of {connection.name} fits.",
        {
            "connection": connection.name,
            "dialect": connection.dialect,
            "tables": [
                {
                    "name": relation.full_name,
                    "schema": relation.schema or None,
                    "kind": relation.kind,
                    "comment": relation.comment or None,
                }
                for relation in page
            ],
            "total": total,
            "next_cursor": cursor,
        },
    )


def connections(configured: Iterable[Connection], usual: str) -> Json:
    """Format a list of all databases, without their addresses."""
    listed = [
        {
            "name": connection.name,
            "dialect": connection.dialect,
            "description": connection.description or None,
            "default": connection.name == usual,
        }
        for connection in configured
    ]
    lines = [
        _one_line(f"- {entry['name']} ({entry['dialect']}): {entry['description'] or ''}").rstrip(
            ":"
        )
        for entry in listed
    ]
    return _answer(
        "\n".join([f"{_number(len(listed), 'connection')}:", *lines]), {"connections": listed}
    )


def connected(
    connection: Connection, *, version: str, elapsed_ms: float, privileges: Sequence[str]
) -> Json:
    """Format a successful connection test, with the write privileges of the database user."""
    lines = [f"{connection.name} answers ({connection.dialect} {version}, {elapsed_ms:g} ms)."]
    if privileges:
        lines.append("Its user may still write; Toolgate does not let it. It has:")
        lines += [f"- {privilege}" for privilege in privileges]
    else:
        lines.append("No right to write was found for its user.")
    return _answer(
        "\n".join(lines),
        {
            "ok": True,
            "connection": connection.name,
            "dialect": connection.dialect,
            "server_version": version,
            "elapsed_ms": elapsed_ms,
            "write_privileges": list(privileges),
        },
    )


def session(connection: Connection, facts: Json) -> Json:
    """Format the user and the settings of a session."""
    lines = [f"Session of {connection.name} ({connection.dialect}):"]
    lines += [f"- {key}: {value}" for key, value in facts.items() if value not in (None, "")]
    return _answer(
        "\n".join(_one_line(line) for line in lines),
        {"connection": connection.name, "dialect": connection.dialect, **facts},
    )


def activity(
    statements: Sequence[StoredStatement], other_entries: Sequence[Json], problems: Sequence[str]
) -> Json:
    """Format the log of statements."""
    entries: list[Json] = [
        {
            "source": "toolgate",
            "at": statement.at,
            "caller": statement.caller_id,
            "thread": statement.conversation or None,
            "connection": statement.connection,
            "dialect": statement.dialect,
            "tool": statement.tool,
            "statement": statement.statement,
            "outcome": statement.outcome,
            "reason": statement.reason or None,
            "rows": statement.rows,
            "elapsed_ms": statement.elapsed_ms,
        }
        for statement in statements
    ]
    entries += other_entries
    lines = [f"{_number(len(entries), 'entry', 'entries')}, newest first:"]
    for entry in entries:
        why = f" ({entry['reason']})" if entry.get("reason") else ""
        lines.append(
            _one_line(
                f"- {entry['at']} {entry['connection']} "
                f"{entry.get('outcome', entry['source'])}{why}: "
                f"{entry['statement']}"
            )
        )
    return _answer(
        "\n".join([*(lines if entries else ["Nothing was asked yet."]), *problems]),
        {"entries": entries, "problems": list(problems)},
    )


def _answer(text: str, content: Json) -> Json:
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": content,
        "isError": False,
    }


def _lines(names: Sequence[str], values: Sequence[Sequence[object]]) -> list[str]:
    """Format a table for people."""
    cells = [[_cell(value) for value in row] for row in values]
    widths = [
        max(len(_cell(name)), *(len(row[at]) for row in cells), 3) for at, name in enumerate(names)
    ]

    def line(row: Sequence[str]) -> str:
        padded = (cell.ljust(min(width, _PADDED)) for cell, width in zip(row, widths, strict=True))
        return " | ".join(padded).rstrip()

    return [
        line([_cell(name) for name in names]),
        "-|-".join("-" * min(width, _PADDED) for width in widths),
        *map(line, cells),
    ]


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    is_json = isinstance(value, bool | dict | list)
    text = json_text.dumps(value).decode() if is_json else str(value)
    text = _one_line(text).replace("|", "\\|")
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _column_line(described: TableSchema, column: ColumnSchema) -> str:
    parts = [f"{column.name} {column.type}".strip()]
    parts += ["not null"] if not column.nullable and described.kind == "table" else []
    parts += ["primary key"] if described.primary_key == (column.name,) else []
    parts += [f"default {column.default}"] if column.default else []
    return ", ".join(parts) + (f" ({column.comment})" if column.comment else "")


def _number(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
