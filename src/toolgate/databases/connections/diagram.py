"""A schema as a Mermaid entity relationship diagram."""

import re
from collections.abc import Sequence
from typing import Final

from toolgate.databases.connections.schema import Schema, TableSchema

_MOST_COLUMNS: Final = 60
"""Columns of a table that are drawn (chosen: more make a box taller than a page)."""


def mermaid_diagram(schema: Schema, names: Sequence[str] = ()) -> str:
    """Tables, columns and foreign keys in Mermaid notation.

    Args:
        schema: The schema; its views are left out.
        names: Only these tables and the keys between them; empty: all.
    """
    chosen = set(names)
    tables = [
        table
        for table in schema.tables
        if table.kind == "table" and (not chosen or table.name in chosen)
    ]
    drawn = {table.name for table in tables}
    lines = ["erDiagram"]
    for table in tables:
        lines += [f"    {_entity(table.name)} {{", *_columns(table), "    }"]
    for table in tables:
        for key in table.foreign_keys:
            if key.table in drawn:
                is_one = key.columns in table.unique_keys or key.columns == table.primary_key
                many = "o|" if is_one else "o{"
                label = ", ".join(key.columns).replace('"', "'")
                ends = f"{_entity(key.table)} ||--{many} {_entity(table.name)}"
                lines.append(f'    {ends} : "{label}"')
    return "\n".join(lines)


def _columns(table: TableSchema) -> list[str]:
    foreign = {column for key in table.foreign_keys for column in key.columns}
    lines: list[str] = []
    for column in table.columns[:_MOST_COLUMNS]:
        marks = ["PK"] if column.name in table.primary_key else []
        marks += ["FK"] if column.name in foreign else []
        marks += ["UK"] if (column.name,) in table.unique_keys else []
        kind = _word(column.type) or "unknown"
        end = f" {', '.join(marks)}" if marks else ""
        lines.append(f"        {kind} {_word(column.name) or 'column'}{end}")
    rest = len(table.columns) - _MOST_COLUMNS
    return [*lines, f"        more columns_{rest}"] if rest > 0 else lines


def _entity(name: str) -> str:
    """A name in Mermaid notation: any text in quotation marks."""
    plain = " ".join(name.replace('"', "'").split())
    return plain if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", plain) else f'"{plain}"'


def _word(text: str) -> str:
    """A type or column in Mermaid notation: letters, digits, underscores and hyphens."""
    word = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")
    return word if not word or word[0].isalpha() else f"c_{word}"
