"""Formats the results of the schema tools, as text and as JSON."""

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
    mermaid_diagram,
)
from toolgate.types import Json

_MOST_LISTED: Final = 200
"""Types that a result lists; a database with thousands would fill a model's context."""


def version(latest: SchemaVersion, connection: Connection) -> Json:
    """Format the version of a schema."""
    schema = latest.schema
    counts = _counts(schema)
    lines = [
        f"The schema of {latest.connection} is version {latest.number} ({latest.label}), since "
        f"{_time(latest.at)}.",
        f"It has {_and(counts)}." if counts else "It is empty: there are no tables.",
    ]
    if latest.changes:
        lines.append(
            f"Version {latest.number} made {_number(len(latest.changes), 'change')}; "
            "schema_changelog lists them."
        )
    return _answer(
        [*lines, *_remarks(latest)],
        {
            **_origin(latest, connection),
            "number": latest.number,
            "version": latest.label,
            "digest": latest.digest,
            "since": latest.at,
            "tables": sum(table.kind == "table" for table in schema.tables),
            "views": sum(table.kind != "table" for table in schema.tables),
            "columns": sum(len(table.columns) for table in schema.tables),
            "types": len(schema.types),
            "changes": len(latest.changes),
        },
    )


def changelog(changes: Changelog, connection: Connection, *, period: str) -> Json:
    """Format the changes of a schema."""
    listed = len(changes.entries)
    name = changes.present.connection
    if not changes.entries:
        lines = [f"There are no changes of the schema of {name}{period}."]
    else:
        all_of = "" if listed == changes.total else f"{listed} of "
        count = _number(changes.total, "change")
        lines = [f"{all_of}{count} of the schema of {name}{period}, newest first:"]
    for (at, number), entries in groupby(
        changes.entries, lambda entry: (entry.at, entry.version.number)
    ):
        lines.append(f"{_time(at)}, version {number}:")
        lines += [f"- {entry.change.text}" for entry in entries]
    lines.append(f"It was first read on {_time(changes.since)}; earlier changes are not known.")
    return _answer(
        [*lines, *_remarks(changes.present)],
        {
            **_origin(changes.present, connection),
            "number": changes.present.number,
            "version": changes.present.label,
            "changes": [
                {"at": entry.at, "number": entry.version.number, **_change(entry.change)}
                for entry in changes.entries
            ],
            "total": changes.total,
            "truncated": listed < changes.total,
            "known_since": changes.since,
        },
    )


def changelogs(
    logs: Sequence[tuple[Connection, Changelog]],
    problems: Sequence[str],
    *,
    period: str,
    limit: int,
) -> Json:
    """Format the changes of several databases' schemas, newest first.

    Args:
        logs: The changes of each database.
        problems: Why other databases could not be read.
        period: The period, as part of a sentence.
        limit: Largest total number of changes.
    """
    entries = [
        (entry.at, connection.name, entry) for connection, log in logs for entry in log.entries
    ]
    entries.sort(key=lambda item: item[0], reverse=True)
    listed, total = entries[:limit], sum(log.total for _, log in logs)
    names = _and([connection.name for connection, _ in logs])
    if listed:
        all_of = "" if len(listed) == total else f"{len(listed)} of "
        count = _number(total, "change")
        lines = [f"{all_of}{count} of the schemas of {names}{period}, newest first:"]
    else:
        lines = [f"There are no changes of the schemas of {names}{period}."]
    for (at, name, number), group in groupby(
        listed, lambda item: (item[0], item[1], item[2].version.number)
    ):
        lines.append(f"{_time(at)}, {name} version {number}:")
        lines += [f"- {entry.change.text}" for _, _, entry in group]
    for connection, log in logs:
        lines.append(f"{connection.name} was first read on {_time(log.since)}.")
        lines += _remarks(log.present)
    return _answer(
        [*lines, *problems],
        {
            "connections": [
                {**_origin(log.present, connection), "known_since": log.since}
                for connection, log in logs
            ],
            "changes": [
                {
                    "connection": name,
                    "at": at,
                    "number": entry.version.number,
                    **_change(entry.change),
                }
                for at, name, entry in listed
            ],
            "total": total,
            "truncated": len(listed) < total,
            "problems": list(problems),
        },
    )


def diagram(
    latest: SchemaVersion,
    connection: Connection,
    names: Sequence[str],
    unmatched: Sequence[str],
) -> Json:
    """Format the tables of a schema as a Mermaid diagram, and name the patterns without a table."""
    text = mermaid_diagram(latest.schema, names)
    answer = _answer(
        _remarks(latest),
        {
            **_origin(latest, connection),
            "version": latest.label,
            "mermaid": text,
            "unmatched": list(unmatched),
        },
    )
    remarks = answer["content"][0]["text"]
    if unmatched:
        remarks = f"No table matches {', '.join(map(repr, unmatched))}. {remarks}"
    answer["content"][0]["text"] = f"```mermaid\n{text}\n```\n{remarks}".rstrip()
    return answer


def listing(latest: SchemaVersion, connection: Connection) -> Json:
    """Format a list of all types of a schema."""
    return _listed(
        latest,
        connection,
        (*latest.schema.tables, *latest.schema.types),
        f"The schema of {latest.connection} has {_and(_counts(latest.schema))}:",
        empty=f"The schema of {latest.connection} is empty: there are no tables.",
    )


def choices(
    latest: SchemaVersion,
    connection: Connection,
    name: str,
    matches: Sequence[TableSchema | NamedType],
) -> Json:
    """Format the types that an ambiguous name may refer to."""
    return _listed(
        latest,
        connection,
        matches,
        f"{name!r} names {_number(len(matches), 'type')} of {latest.connection}; ask for one:",
        empty=f"No type of {latest.connection} fits {name!r}.",
    )


def type_details(
    latest: SchemaVersion, connection: Connection, subject: TableSchema | NamedType
) -> Json:
    """Format the description of a type."""
    if isinstance(subject, NamedType):
        return _named_type(latest, connection, subject)
    referring = [
        (table.name, key)
        for table in latest.schema.tables
        for key in table.foreign_keys
        if key.table == subject.name
    ]
    lines = [
        f"{subject.name}: {subject.kind} of {latest.connection}, "
        f"{_number(len(subject.columns), 'column')}."
    ]
    lines += [subject.comment] if subject.comment else []
    lines += [f"- {_column_line(subject, column)}" for column in _columns(subject)]
    lines += (
        [f"Primary key: {', '.join(subject.primary_key)}"] if len(subject.primary_key) > 1 else []
    )
    lines += [
        f"Foreign key: ({', '.join(key.columns)}) to {key.table}({', '.join(key.to)}) {key.rule}"
        for key in subject.foreign_keys
        if len(key.columns) > 1
    ]
    lines += [f"Unique: ({', '.join(key)})" for key in subject.unique_keys if len(key) > 1]
    lines += [f"Check: {check}" for check in subject.checks]
    for index in subject.indexes:
        kind, where = "Unique index" if index.unique else "Index", f" where {index.where}"
        parts = f"{kind} {index.name} on ({', '.join(index.columns)})"
        lines.append(parts + (where if index.where else ""))
    if referring:
        parts = [f"{table}({', '.join(key.columns)})" for table, key in referring]
        lines.append(f"Referred to by: {', '.join(parts)}")
    return _answer(
        [*lines, *_remarks(latest, unread=False)],
        {
            **_origin(latest, connection),
            "version": latest.label,
            "name": subject.name,
            "kind": subject.kind,
            "comment": subject.comment or None,
            "columns": list(_columns(subject)),
            "primary_key": list(subject.primary_key),
            "foreign_keys": [
                {
                    "columns": list(key.columns),
                    "table": key.table,
                    "to": list(key.to),
                    "rule": key.rule or None,
                }
                for key in subject.foreign_keys
            ],
            "unique_keys": [list(key) for key in subject.unique_keys],
            "checks": list(subject.checks),
            "indexes": [
                {
                    "name": index.name,
                    "columns": list(index.columns),
                    "unique": index.unique,
                    "where": index.where or None,
                }
                for index in subject.indexes
            ],
            "referred_to_by": [
                {"table": table, "columns": list(key.columns)} for table, key in referring
            ],
            "definition": subject.definition or None,
        },
    )


def _named_type(latest: SchemaVersion, connection: Connection, named_type: NamedType) -> Json:
    used = [
        f"{table.name}.{column.name}"
        for table in latest.schema.tables
        for column in table.columns
        if column.type.removesuffix("[]") == named_type.name
    ]
    definition = (
        ", ".join(named_type.values) if named_type.kind == "enum" else named_type.definition
    )
    lines = [f"{named_type.name}: {named_type.kind} of {latest.connection}: {definition}."]
    lines += [f"Used by: {', '.join(used)}"] if used else []
    return _answer(
        [*lines, *_remarks(latest, unread=False)],
        {
            **_origin(latest, connection),
            "version": latest.label,
            "name": named_type.name,
            "kind": named_type.kind,
            "values": list(named_type.values),
            "definition": named_type.definition or None,
            "used_by": used,
        },
    )


def _listed(
    latest: SchemaVersion,
    connection: Connection,
    types: Sequence[TableSchema | NamedType],
    head: str,
    *,
    empty: str,
) -> Json:
    listed = types[:_MOST_LISTED]
    lines = [head if types else empty, *(f"- {_type_line(listed_type)}" for listed_type in listed)]
    if len(types) > len(listed):
        lines.append(
            f"… and {len(types) - len(listed):,} more: "
            "give a part of the name with *, as in order*."
        )
    return _answer(
        [*lines, *_remarks(latest)],
        {
            **_origin(latest, connection),
            "version": latest.label,
            "types": [
                {"name": listed_type.name, "kind": listed_type.kind} for listed_type in listed
            ],
            "total": len(types),
            "truncated": len(types) > len(listed),
        },
    )


def _answer(lines: Iterable[str], content: Json) -> Json:
    # Names and comments may contain anything, including line breaks; keep each on its line.
    text = "\n".join(" ".join(line.split()) for line in lines)
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": content,
        "isError": False,
    }


def _origin(latest: SchemaVersion, connection: Connection) -> Json:
    """Return the source of the data, which is part of every result."""
    return {
        "connection": latest.connection,
        "dialect": connection.dialect,
        "seen_at": latest.seen_at,
        "problem": latest.problem or None,
        "unread": dict(latest.schema.unread),
    }


def _remarks(latest: SchemaVersion, *, unread: bool = True) -> list[str]:
    """Return caveats; `unread=False` leaves out types that could not be read."""
    lines: list[str] = []
    if latest.problem:
        lines.append(f"This is how it was on {_time(latest.seen_at)}. {latest.problem}")
    if unread and latest.schema.unread:
        reasons = [f"{name} ({reason})" for name, reason in sorted(latest.schema.unread.items())]
        more = f" and {len(reasons) - 5} more" if len(reasons) > 5 else ""
        lines.append(f"Not readable: {', '.join(reasons[:5])}{more}.")
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
    parts = [f"{column['name']} {column['type']}".strip()]
    parts += ["not null"] if not column["nullable"] and table.kind == "table" else []
    parts += ["primary key"] if table.primary_key == (column["name"],) else []
    parts += ["unique"] if column["unique"] else []
    parts += [f"default {column['default']}"] if column["default"] else []
    parts += [f"computed: {column['computed']}"] if column["computed"] else []
    parts += [f"refers to {column['references']}"] if column["references"] else []
    comment = f" ({column['comment']})" if column["comment"] else ""
    return f"{', '.join(parts)}{comment}"


def _type_line(listed_type: TableSchema | NamedType) -> str:
    if isinstance(listed_type, NamedType):
        return f"{listed_type.name} ({listed_type.kind})"
    return f"{listed_type.name} ({listed_type.kind}, {_number(len(listed_type.columns), 'column')})"


def _change(change: SchemaChange) -> dict[str, Any]:
    return {
        "action": change.action,
        "subject": change.subject,
        "table": change.table,
        "name": change.name or None,
        "before": change.before or None,
        "after": change.after or None,
        "perhaps_renamed": change.perhaps or None,
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
    return [_number(count, noun) for count, noun in counted if count]


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def _time(text: str) -> str:
    moment = datetime.fromisoformat(text)
    return moment.strftime("%Y-%m-%d %H:%M UTC")
