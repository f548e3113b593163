"""What the tools of the pack answer: a text for models and people, and the same as JSON."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from toolgate.databases.connections import (
    Changelog,
    Connection,
    NamedType,
    Schema,
    SchemaChange,
    SchemaVersion,
    TableSchema,
)
from toolgate.types import Json

__all__ = ["changelog", "choices", "failure", "listing", "type_details", "version"]

_MOST_LISTED: Final = 200
"""Types that one answer names; a database with thousands would fill a model's memory."""


def failure(text: str) -> Json:
    """An answer that says why there is none."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def version(found: SchemaVersion, connection: Connection) -> Json:
    """What version the schema has."""
    schema = found.schema
    counts = _counts(schema)
    lines = [
        f"The schema of {found.connection} is version {found.number} ({found.label}), since "
        f"{_time(found.at)}.",
        f"It has {_and(counts)}." if counts else "It is empty: there are no tables.",
    ]
    if found.changes:
        lines.append(
            f"Version {found.number} made {_number(len(found.changes), 'change')}; "
            "schema_changelog lists them."
        )
    return _answer(
        [*lines, *_remarks(found)],
        {
            **_about(found, connection),
            "number": found.number,
            "version": found.label,
            "digest": found.digest,
            "since": found.at,
            "tables": sum(table.kind == "table" for table in schema.tables),
            "views": sum(table.kind != "table" for table in schema.tables),
            "columns": sum(len(table.columns) for table in schema.tables),
            "types": len(schema.types),
            "changes": len(found.changes),
        },
    )


def changelog(found: Changelog, connection: Connection, *, period: str) -> Json:
    """What changed in the schema."""
    shown = len(found.entries)
    name = found.present.connection
    if not found.entries:
        lines = [f"There are no changes of the schema of {name}{period}."]
    else:
        all_of = "" if shown == found.total else f"{shown} of "
        count = _number(found.total, "change")
        lines = [f"{all_of}{count} of the schema of {name}{period}, newest first:"]
    for (at, number), entries in groupby(
        found.entries, lambda entry: (entry.at, entry.version.number)
    ):
        lines.append(f"{_time(at)}, version {number}:")
        lines += [f"- {entry.change.text}" for entry in entries]
    lines.append(
        f"It was looked at first on {_time(found.since)}; what changed before is not known."
    )
    return _answer(
        [*lines, *_remarks(found.present)],
        {
            **_about(found.present, connection),
            "number": found.present.number,
            "version": found.present.label,
            "changes": [
                {"at": entry.at, "number": entry.version.number, **_change(entry.change)}
                for entry in found.entries
            ],
            "total": found.total,
            "truncated": shown < found.total,
            "known_since": found.since,
        },
    )


def listing(found: SchemaVersion, connection: Connection) -> Json:
    """All types of the schema."""
    return _listed(
        found,
        connection,
        (*found.schema.tables, *found.schema.types),
        f"The schema of {found.connection} has {_and(_counts(found.schema))}:",
        empty=f"The schema of {found.connection} is empty: there are no tables.",
    )


def choices(
    found: SchemaVersion,
    connection: Connection,
    name: str,
    matches: Sequence[TableSchema | NamedType],
) -> Json:
    """The types that a name may mean."""
    return _listed(
        found,
        connection,
        matches,
        f"{name!r} names {_number(len(matches), 'type')} of {found.connection}; ask for one:",
        empty=f"No type of {found.connection} fits {name!r}.",
    )


def type_details(
    found: SchemaVersion, connection: Connection, each: TableSchema | NamedType
) -> Json:
    """One type."""
    if isinstance(each, NamedType):
        return _named_type(found, connection, each)
    referring = [
        (table.name, key)
        for table in found.schema.tables
        for key in table.foreign_keys
        if key.table == each.name
    ]
    lines = [
        f"{each.name}: {each.kind} of {found.connection}, {_number(len(each.columns), 'column')}."
    ]
    lines += [each.comment] if each.comment else []
    lines += [f"- {_column_line(each, column)}" for column in _columns(each)]
    lines += [f"Primary key: {', '.join(each.primary_key)}"] if len(each.primary_key) > 1 else []
    lines += [
        f"Foreign key: ({', '.join(key.columns)}) to {key.table}({', '.join(key.to)}) {key.rule}"
        for key in each.foreign_keys
        if len(key.columns) > 1
    ]
    lines += [f"Unique: ({', '.join(key)})" for key in each.unique_keys if len(key) > 1]
    lines += [f"Check: {check}" for check in each.checks]
    for index in each.indexes:
        kind, where = "Unique index" if index.unique else "Index", f" where {index.where}"
        said = f"{kind} {index.name} on ({', '.join(index.columns)})"
        lines.append(said + (where if index.where else ""))
    if referring:
        said = [f"{table}({', '.join(key.columns)})" for table, key in referring]
        lines.append(f"Referred to by: {', '.join(said)}")
    return _answer(
        [*lines, *_remarks(found, unread=False)],
        {
            **_about(found, connection),
            "version": found.label,
            "name": each.name,
            "kind": each.kind,
            "comment": each.comment or None,
            "columns": list(_columns(each)),
            "primary_key": list(each.primary_key),
            "foreign_keys": [
                {
                    "columns": list(key.columns),
                    "table": key.table,
                    "to": list(key.to),
                    "rule": key.rule or None,
                }
                for key in each.foreign_keys
            ],
            "unique_keys": [list(key) for key in each.unique_keys],
            "checks": list(each.checks),
            "indexes": [
                {
                    "name": index.name,
                    "columns": list(index.columns),
                    "unique": index.unique,
                    "where": index.where or None,
                }
                for index in each.indexes
            ],
            "referred_to_by": [
                {"table": table, "columns": list(key.columns)} for table, key in referring
            ],
            "definition": each.definition or None,
        },
    )


def _named_type(found: SchemaVersion, connection: Connection, each: NamedType) -> Json:
    used = [
        f"{table.name}.{column.name}"
        for table in found.schema.tables
        for column in table.columns
        if column.type.removesuffix("[]") == each.name
    ]
    said = ", ".join(each.values) if each.kind == "enum" else each.definition
    lines = [f"{each.name}: {each.kind} of {found.connection}: {said}."]
    lines += [f"Used by: {', '.join(used)}"] if used else []
    return _answer(
        [*lines, *_remarks(found, unread=False)],
        {
            **_about(found, connection),
            "version": found.label,
            "name": each.name,
            "kind": each.kind,
            "values": list(each.values),
            "definition": each.definition or None,
            "used_by": used,
        },
    )


def _listed(
    found: SchemaVersion,
    connection: Connection,
    each: Sequence[TableSchema | NamedType],
    head: str,
    *,
    empty: str,
) -> Json:
    shown = each[:_MOST_LISTED]
    lines = [head if each else empty, *(f"- {_type_line(one)}" for one in shown)]
    if len(each) > len(shown):
        lines.append(
            f"… and {len(each) - len(shown):,} more: give a part of the name with *, as in order*."
        )
    return _answer(
        [*lines, *_remarks(found)],
        {
            **_about(found, connection),
            "version": found.label,
            "types": [{"name": one.name, "kind": one.kind} for one in shown],
            "total": len(each),
            "truncated": len(each) > len(shown),
        },
    )


def _answer(lines: Iterable[str], content: Json) -> Json:
    # A name or a comment may hold anything; in the text each stays in its line.
    text = "\n".join(" ".join(line.split()) for line in lines)
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": content,
        "isError": False,
    }


def _about(found: SchemaVersion, connection: Connection) -> Json:
    """What every answer says about where it comes from."""
    return {
        "connection": found.connection,
        "dialect": connection.dialect,
        "seen_at": found.seen_at,
        "problem": found.problem or None,
        "unread": dict(found.schema.unread),
    }


def _remarks(found: SchemaVersion, *, unread: bool = True) -> list[str]:
    """What makes an answer less than sure; of one type, other types do not."""
    lines: list[str] = []
    if found.problem:
        lines.append(f"This is how it was on {_time(found.seen_at)}. {found.problem}")
    if unread and found.schema.unread:
        said = [f"{name} ({reason})" for name, reason in sorted(found.schema.unread.items())]
        more = f" and {len(said) - 5} more" if len(said) > 5 else ""
        lines.append(f"Not readable: {', '.join(said[:5])}{more}.")
    return lines


def _columns(table: TableSchema) -> Iterable[dict[str, Any]]:
    refers = {key.columns[0]: key for key in table.foreign_keys if len(key.columns) == 1}
    for column in table.columns:
        key = refers.get(column.name)
        yield {
            "name": column.name,
            "type": column.type,
            "nullable": column.nullable,
            "default": column.default or None,
            "computed": column.computed or None,
            "primary_key": column.name in table.primary_key,
            "unique": (column.name,) in table.unique_keys,
            "references": f"{key.table}({', '.join(key.to)})" if key else None,
            "comment": column.comment or None,
        }


def _column_line(table: TableSchema, column: dict[str, Any]) -> str:
    said = [f"{column['name']} {column['type']}".strip()]
    said += ["not null"] if not column["nullable"] and table.kind == "table" else []
    said += ["primary key"] if table.primary_key == (column["name"],) else []
    said += ["unique"] if column["unique"] else []
    said += [f"default {column['default']}"] if column["default"] else []
    said += [f"computed: {column['computed']}"] if column["computed"] else []
    said += [f"refers to {column['references']}"] if column["references"] else []
    comment = f" ({column['comment']})" if column["comment"] else ""
    return f"{', '.join(said)}{comment}"


def _type_line(each: TableSchema | NamedType) -> str:
    if isinstance(each, NamedType):
        return f"{each.name} ({each.kind})"
    return f"{each.name} ({each.kind}, {_number(len(each.columns), 'column')})"


def _change(change: SchemaChange) -> dict[str, Any]:
    return {
        "action": change.action,
        "subject": change.subject,
        "table": change.table,
        "name": change.name or None,
        "before": change.before or None,
        "after": change.after or None,
        "text": change.text,
    }


def _counts(schema: Schema) -> list[str]:
    tables = sum(table.kind == "table" for table in schema.tables)
    counted = [
        (tables, "table"),
        (len(schema.tables) - tables, "view"),
        (len(schema.types), "type"),
        (sum(len(table.columns) for table in schema.tables), "column"),
    ]
    return [_number(count, what) for count, what in counted if count]


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def _time(text: str) -> str:
    moment = datetime.fromisoformat(text)
    return moment.strftime("%Y-%m-%d %H:%M UTC")
