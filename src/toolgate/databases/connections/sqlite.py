"""Reads a schema from SQLite with its own functions.

SQLAlchemy parses statements with regular expressions that miss keys after a type with a length,
and takes 5 ms per table; the functions of SQLite miss nothing and take 0.1 ms. Only what they do
not return is parsed from statements: check constraints, and the expressions of computed columns
and indexes.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from toolgate.databases.connections.schema import (
    ColumnSchema,
    ForeignKey,
    Index,
    Schema,
    TableKind,
    TableSchema,
)

_COLUMNS: Final = """
SELECT m.name, x.name, x.type, x."notnull", x.dflt_value, x.pk, x.hidden
FROM sqlite_master m JOIN pragma_table_xinfo(m.name) x
WHERE m.type IN ('table', 'view') AND {} ORDER BY m.name, x.cid
"""
_FOREIGN_KEYS: Final = """
SELECT m.name, k.id, k."table", k."from", k."to", k.on_update, k.on_delete
FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) k
WHERE m.type = 'table' AND {} ORDER BY m.name, k.id, k.seq
"""
_INDEXES: Final = """
SELECT m.name, l.name, l."unique", l.origin, i.name, s.sql
FROM sqlite_master m JOIN pragma_index_list(m.name) l JOIN pragma_index_info(l.name) i
LEFT JOIN sqlite_master s ON s.type = 'index' AND s.name = l.name
WHERE m.type = 'table' AND {} ORDER BY m.name, l.name, i.seqno
"""
_SAFE: Final = "m.type = 'table' AND m.sql NOT LIKE 'CREATE VIRTUAL%'"
"""Excludes broken views and tables whose module is missing, which would fail the query."""

_ONE: Final = "m.name = :name"

_HIDDEN: Final = 1
"""Hidden column of a virtual table in `PRAGMA table_xinfo`."""
_GENERATED: Final = frozenset({2, 3})
"""Kinds of columns: https://sqlite.org/pragma.html#pragma_table_xinfo"""

_PIECE: Final = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|\w+|\S",
    re.DOTALL,
)


@dataclass
class _Known:
    """The parts of a table that were read so far."""

    kind: TableKind
    sql: str
    columns: list[Any] = field(default_factory=list[Any])
    foreign_keys: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])
    indexes: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])


def read_sqlite_schema(connection: sqlite3.Connection, *, exclude: Sequence[str] = ()) -> Schema:
    """The current schema of the main file.

    Raises:
        sqlite3.Error: The database did not answer.
    """
    rows = connection.execute(
        "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    details = {
        name: _Known(kind, sql or "")
        for name, kind, sql in rows
        if not any(fnmatchcase(name, pattern) for pattern in exclude)
    }
    unread: dict[str, str] = {}

    def read(statement: str, take: Callable[[_Known, Any], None]) -> None:
        for row in connection.execute(statement.format(_SAFE)):
            if row[0] in details:
                take(details[row[0]], row)
        for name, item in details.items():
            if name in unread or (item.kind == "table" and not _is_virtual(item.sql)):
                continue
            try:
                for row in connection.execute(statement.format(_ONE), {"name": name}):
                    take(item, row)
            except sqlite3.DatabaseError as error:
                unread[name] = str(error)

    read(_COLUMNS, lambda item, row: item.columns.append(row[1:]))
    read(_FOREIGN_KEYS, lambda item, row: item.foreign_keys.setdefault(row[1], []).append(row[2:]))
    read(_INDEXES, lambda item, row: item.indexes.setdefault(row[1], []).append(row[2:]))
    keys = {name: _primary_key(item) for name, item in details.items()}
    return Schema.of(
        (_table(name, item, keys) for name, item in details.items() if name not in unread),
        unread=unread,
    )


def _is_virtual(sql: str) -> bool:
    return sql[:15].upper().startswith("CREATE VIRTUAL")


def _table(name: str, details: _Known, keys: dict[str, tuple[str, ...]]) -> TableSchema:
    conditions, computed = _expressions(details.sql) if details.kind == "table" else ([], iter(()))
    return TableSchema(
        name=name,
        kind=details.kind,
        columns=tuple(
            ColumnSchema(
                name=column,
                type=type_,
                # In SQLite, a primary key may be null unless it is the rowid.
                nullable=not (not_null or _is_rowid(details, type_, at)),
                default=_one_line(default or ""),
                computed=next(computed, "generated") if hidden in _GENERATED else "",
            )
            for column, type_, not_null, default, at, hidden in details.columns
            if hidden != _HIDDEN
        ),
        primary_key=_primary_key(details),
        foreign_keys=tuple(
            sorted(
                (_foreign_key(rows, keys) for rows in details.foreign_keys.values()),
                key=lambda key: (key.columns, key.table, key.to),
            )
        ),
        unique_keys=tuple(sorted(_unique_keys(details))),
        checks=tuple(sorted(conditions)),
        indexes=tuple(_indexes(details)),
        definition=_one_line(details.sql) if details.kind == "view" else "",
    )


def _primary_key(details: _Known) -> tuple[str, ...]:
    parts = sorted((at, column) for column, _, _, _, at, _ in details.columns if at)
    return tuple(column for _, column in parts)


def _is_rowid(details: _Known, type_: str, at: int) -> bool:
    return at == 1 and type_.upper() == "INTEGER" and len(_primary_key(details)) == 1


def _foreign_key(rows: Sequence[Any], keys: dict[str, tuple[str, ...]]) -> ForeignKey:
    table, _, _, on_update, on_delete = rows[0]
    to = tuple(row[2] for row in rows if row[2] is not None)
    rules = [("ON DELETE", on_delete), ("ON UPDATE", on_update)]
    return ForeignKey(
        columns=tuple(row[1] for row in rows),
        table=table,
        to=to or keys.get(table, ()),  # without columns the primary key is meant
        rule=" ".join(f"{words} {rule}" for words, rule in rules if rule != "NO ACTION"),
    )


def _unique_keys(details: _Known) -> Iterator[tuple[str, ...]]:
    for rows in details.indexes.values():
        if rows[0][1] == "u":
            yield tuple(row[2] for row in rows)


def _indexes(details: _Known) -> Iterator[Index]:
    for name, rows in details.indexes.items():
        unique, origin, _, sql = rows[0]
        if origin != "c":
            continue
        columns: tuple[str | None, ...] = tuple(row[2] for row in rows)
        statement = _one_line(sql or "")
        inside, where = _inside_and_behind(statement)
        yield Index(
            name=name,
            columns=(inside,) if None in columns else tuple(map(str, columns)),
            unique=bool(unique),
            where=re.sub(r"(?i)^where ", "", where),
        )


def _inside_and_behind(statement: str) -> tuple[str, str]:
    """The text inside the first brackets of a statement, and after them."""
    depth, start = 0, 0
    for piece in _PIECE.finditer(statement):
        if piece[0] == "(":
            depth += 1
            start = start or piece.end()
        elif piece[0] == ")":
            depth -= 1
            if not depth:
                return statement[start : piece.start()].strip(), statement[piece.end() :].strip()
    return statement, ""


def _expressions(sql: str) -> tuple[list[str], Iterator[str]]:
    """The check constraints of a table, and the expressions of its computed columns in order."""
    pieces = [piece for piece in _PIECE.finditer(sql) if not piece[0].startswith(("--", "/*"))]
    conditions: list[str] = []
    computed: list[str] = []
    depth = 0
    at = 0
    while at < len(pieces):
        word = pieces[at][0].upper()
        follows = at + 1 < len(pieces) and pieces[at + 1][0] == "("
        if depth == 1 and follows and word in {"CHECK", "AS"}:
            end = _closing(pieces, at + 1)
            inside = _one_line(sql[pieces[at + 1].end() : pieces[end].start()])
            (conditions if word == "CHECK" else computed).append(inside)
            at = end
        elif word == "(":
            depth += 1
        elif word == ")":
            depth -= 1
        at += 1
    return conditions, iter(computed)


def _closing(pieces: Sequence[re.Match[str]], opening: int) -> int:
    """The bracket that closes the one at `opening`; the last piece if none does."""
    depth = 0
    for at in range(opening, len(pieces)):
        depth += (pieces[at][0] == "(") - (pieces[at][0] == ")")
        if not depth:
            return at
    return len(pieces) - 1


def _one_line(text: str) -> str:
    return " ".join(text.split())
