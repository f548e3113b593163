"""Differences between two schemas, including unambiguous renames."""

import re
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias, TypeVar

from toolgate.databases.connections.schema import (
    ColumnSchema,
    ForeignKey,
    Index,
    NamedType,
    Schema,
    TableSchema,
)
from toolgate.databases.connections.table_names import is_alike

Action: TypeAlias = Literal["added", "removed", "changed", "renamed"]
"""The kind of change."""

Subject: TypeAlias = Literal[
    "table",
    "view",
    "materialized view",
    "column",
    "primary key",
    "foreign key",
    "unique key",
    "check",
    "index",
    "type",
]
"""The kind of object that changed."""

_T = TypeVar("_T")

_TELLING_COLUMNS: Final = 3
"""Equal columns from which two tables count as the same, whatever their names (chosen)."""


_MOST_PAIRS: Final = 2_500
"""Largest number of table pairs that are compared column by column (chosen)."""

_LONGEST: Final = 200
"""Characters of the old and new value shown in a sentence (chosen)."""

_MOSTLY: Final = 2 / 3
"""Share of equal columns in a table that was changed and renamed at once (chosen)."""


@dataclass(frozen=True, kw_only=True)
class SchemaChange:
    """A difference."""

    action: Action
    """The kind of change."""

    subject: Subject
    """The kind of object."""

    table: str
    """Name of the table, view or type; for a rename, the old name."""

    name: str = ""
    """Name of the column, index or key in it; empty for the table itself."""

    before: str = ""
    """The old value for people; empty if the object is new."""

    after: str = ""
    """The new value for people; empty if the object was removed."""

    perhaps: str = ""
    """The possible new name of a removed table, or old name of an added one; they look the same
    but are too small to be certain."""

    @property
    def text(self) -> str:
        """The change as a sentence without full stop."""
        subject = f"{self.subject} {self._where}"
        match self.action:
            case "added":
                doubt = f", perhaps {self.perhaps} before" if self.perhaps else ""
                return f"{subject} added{_in_brackets(self.after)}{doubt}"
            case "removed":
                doubt = f", perhaps renamed to {self.perhaps}" if self.perhaps else ""
                return f"{subject} removed{_in_brackets(self.before)}{doubt}"
            case "renamed":
                return f"{subject} renamed to {self.after}"
            case "changed":
                before, after = _short(self.before or "nothing"), _short(self.after or "nothing")
                return f"{subject} changed: {before} → {after}"

    @property
    def _where(self) -> str:
        if not self.name:
            return f"of {self.table}" if self.subject == "primary key" else self.table
        if self.subject == "column":
            return f"{self.table}.{self.name}"
        if self.subject == "check":
            return f"of {self.table}"
        return f"{self.name} of {self.table}"


def with_unread(before: Schema, after: Schema) -> Schema:
    """The schema with the old state of tables that could not be read: they are not removed."""
    unread_tables = [before.by_name[name] for name in after.unread if name in before.by_name]
    if not unread_tables:
        return after
    return Schema.of([*after.tables, *unread_tables], after.types, after.unread)


def without(schema: Schema, exclude: Sequence[str]) -> Schema:
    """The schema without tables that match patterns."""
    tables = [
        table
        for table in schema.tables
        if not any(fnmatchcase(table.name, pattern) for pattern in exclude)
    ]
    return schema if len(tables) == len(schema.tables) else Schema.of(tables, schema.types)


def changes_between(before: Schema, after: Schema) -> tuple[SchemaChange, ...]:
    """All differences; empty for equal schemas only."""
    changes: list[SchemaChange] = []
    tables = _renamed_tables(before, after)
    for old, new in tables.items():
        kind = before.by_name[old].kind
        changes.append(
            SchemaChange(action="renamed", subject=kind, table=old, before=old, after=new)
        )
    moved = _with_names(before, tables, {})
    columns: dict[str, dict[str, str]] = {}
    seen: set[tuple[str, str]] = set()
    # Tables first: a renamed table is renamed in its views as well.
    for table in sorted(moved.tables, key=lambda item: item.kind != "table"):
        successor = after.by_name.get(table.name)
        if successor is not None and (renames := _renamed_columns(table, successor, seen)):
            columns[table.name] = renames
            seen.update(renames.items())
    for name, renames in columns.items():
        changes += [
            SchemaChange(
                action="renamed", subject="column", table=name, name=old, before=old, after=new
            )
            for old, new in renames.items()
        ]
    moved = _with_names(moved, {}, columns)
    if changes:
        renamed = [tables, *columns.values()]
        names = {old: new for item in renamed for old, new in item.items()}
        moved = _with_statements(moved, after, names)
    doubtful = _perhaps_renamed(before, after, tables)
    came = {new: old for old, new in doubtful.items()}
    for change in _table_changes(moved, after):
        is_whole = change.subject in {"table", "view", "materialized view"} and not change.name
        names = {"removed": doubtful, "added": came}.get(change.action, {}) if is_whole else {}
        changes.append(replace(change, perhaps=names.get(change.table, "")))
    changes += _type_changes(moved.type_by_name, after.type_by_name)
    return tuple(sorted(changes, key=lambda change: (change.table, _ORDER[change.subject])))


_ORDER: Final[Mapping[Subject, int]] = {
    "type": 0,
    "table": 1,
    "view": 1,
    "materialized view": 1,
    "column": 2,
    "primary key": 3,
    "foreign key": 4,
    "unique key": 5,
    "check": 6,
    "index": 7,
}


# Renames


def _renamed_tables(before: Schema, after: Schema) -> dict[str, str]:
    """Removed and added tables that differ in their names only."""
    gone = [table for table in before.tables if table.name not in after.by_name]
    added = [table for table in after.tables if table.name not in before.by_name]

    def is_same(old: TableSchema, new: TableSchema) -> bool:
        return len(old.columns) >= _TELLING_COLUMNS or is_alike(old.name, new.name)

    pairs = _pairs(gone, added, _looks, is_same)
    new_names = {old.name: new.name for old, new in pairs}
    left = [table for table in gone if table.name not in new_names]
    fresh = [table for table in added if table.name not in new_names.values()]
    if len(left) * len(fresh) > _MOST_PAIRS:  # another database: nothing was renamed
        return new_names
    nearly = [(old, new) for old in left for new in fresh if _is_nearly(old, new)]
    olds = Counter(old.name for old, _ in nearly)
    news = Counter(new.name for _, new in nearly)
    for old, new in nearly:
        if olds[old.name] == news[new.name] == 1 and is_same(old, new):
            new_names[old.name] = new.name
    return new_names


def _perhaps_renamed(before: Schema, after: Schema, renamed: Mapping[str, str]) -> dict[str, str]:
    """Small removed tables with a single added table that looks the same."""
    gone = [
        table
        for table in before.tables
        if table.name not in after.by_name and table.name not in renamed
    ]
    added = [
        table
        for table in after.tables
        if table.name not in before.by_name and table.name not in renamed.values()
    ]
    pairs = _pairs(gone, added, _looks, lambda old, _: bool(old.columns))
    return {old.name: new.name for old, new in pairs}


def _is_nearly(old: TableSchema, new: TableSchema) -> bool:
    """Whether most columns are equal, as after renaming a table and one of its columns."""
    if old.kind != new.kind:
        return False
    columns = {(column.name, column.type) for column in old.columns}
    same = sum((column.name, column.type) in columns for column in new.columns)
    return same >= _MOSTLY * max(len(old.columns), len(new.columns), 1)


def _looks(table: TableSchema) -> Hashable:
    columns = tuple((column.name, column.type, column.nullable) for column in table.columns)
    return table.kind, columns, table.primary_key


def _renamed_columns(
    before: TableSchema, after: TableSchema, seen: Container[tuple[str, str]]
) -> dict[str, str]:
    """Columns that take the place of a removed column and look the same.

    If both are the last columns of their table, one may have been dropped and another added.
    Then the names must be similar, or a key, constraint or index must have changed with them, or
    a view must contain a column that is known to be renamed.
    """
    there = {column.name for column in before.columns}
    here = {column.name for column in after.columns}

    def placed(table: TableSchema, neighbours: set[str]) -> dict[str, tuple[int, bool]]:
        """For each column, how many unchanged columns precede it, and whether all do."""
        stayed = sum(column.name in neighbours for column in table.columns)
        positions: dict[str, tuple[int, bool]] = {}
        count = 0
        for column in table.columns:
            count += column.name in neighbours
            positions[column.name] = (count, count == stayed)
        return positions

    old_places, new_places = placed(before, here), placed(after, there)

    def old_looks(column: ColumnSchema) -> Hashable:
        return old_places[column.name], _plain(column), column.name in before.primary_key

    def new_looks(column: ColumnSchema) -> Hashable:
        return new_places[column.name], _plain(column), column.name in after.primary_key

    def is_same(old: ColumnSchema, new: ColumnSchema) -> bool:
        return (
            not old_places[old.name][1]
            or is_alike(old.name, new.name)
            or (before.kind != "table" and (old.name, new.name) in seen)
            or _goes_along(before, after, old.name, new.name)
        )

    gone = [column for column in before.columns if column.name not in here]
    added = [column for column in after.columns if column.name not in there]
    pairs = _pairs(gone, added, old_looks, is_same, new_looks)
    return {old.name: new.name for old, new in pairs}


def _goes_along(before: TableSchema, after: TableSchema, old: str, new: str) -> bool:
    """Whether a key, constraint or index is equal except for the name of the column."""
    renamed = _with_name(before, {}, {before.name: {old: new}})

    def parts(table: TableSchema) -> set[Hashable]:
        return {*table.foreign_keys, *table.unique_keys, *table.checks, *table.indexes}

    return bool((parts(renamed) - parts(before)) & parts(after))


def _plain(column: ColumnSchema) -> Hashable:
    return column.type, column.nullable, column.default, bool(column.computed)


def _pairs(
    gone: Sequence[_T],
    added_items: Sequence[_T],
    looks: Callable[[_T], Hashable],
    is_same: Callable[[_T, _T], bool],
    new_looks: Callable[[_T], Hashable] | None = None,
) -> list[tuple[_T, _T]]:
    """Pairs of removed and added items that look the same, if no others look like them."""
    olds = Counter(map(looks, gone))
    news = Counter(map(new_looks or looks, added_items))
    fresh = {(new_looks or looks)(added): added for added in added_items}
    return [
        (removed, fresh[key])
        for removed in gone
        if olds[key := looks(removed)] == news[key] == 1 and is_same(removed, fresh[key])
    ]


def _with_names(
    schema: Schema, tables: Mapping[str, str], columns: Mapping[str, Mapping[str, str]]
) -> Schema:
    """The schema with renamed tables and columns, in keys and references too."""
    if not tables and not columns:
        return schema
    return Schema.of([_with_name(table, tables, columns) for table in schema.tables], schema.types)


def _with_name(
    table: TableSchema, tables: Mapping[str, str], columns: Mapping[str, Mapping[str, str]]
) -> TableSchema:
    new_names = columns.get(table.name, {})

    def named(names: Iterable[str], renames: Mapping[str, str] = new_names) -> tuple[str, ...]:
        return tuple(renames.get(name, name) for name in names)

    def inside(text: str) -> str:
        for old, new in new_names.items():
            text = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _, new=new: new, text)
        return text

    return replace(
        table,
        name=tables.get(table.name, table.name),
        columns=tuple(
            replace(
                column,
                name=new_names.get(column.name, column.name),
                computed=inside(column.computed),
            )
            for column in table.columns
        ),
        primary_key=named(table.primary_key),
        foreign_keys=tuple(
            replace(
                key,
                columns=named(key.columns),
                table=tables.get(key.table, key.table),
                to=named(key.to, columns.get(key.table, {})),
            )
            for key in table.foreign_keys
        ),
        unique_keys=tuple(sorted(map(named, table.unique_keys))),
        checks=tuple(sorted(map(inside, table.checks))),
        indexes=tuple(
            replace(
                index_entry,
                columns=tuple(map(inside, index_entry.columns)),
                where=inside(index_entry.where),
            )
            for index_entry in table.indexes
        ),
    )


def _with_statements(schema: Schema, after: Schema, names: Mapping[str, str]) -> Schema:
    """The schema with the current definition of views that only got the new names."""

    def plain(statement: str) -> str:
        for old, new in names.items():
            statement = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _, new=new: new, statement)
        return re.sub(r"[\"'`\s]", "", statement)

    def settled(table: TableSchema) -> TableSchema:
        successor = after.by_name.get(table.name)
        if (
            successor is None
            or not table.definition
            or plain(table.definition) != plain(successor.definition)
        ):
            return table
        return replace(table, definition=successor.definition)

    return Schema.of(map(settled, schema.tables), schema.types)


# Differences


def _table_changes(before: Schema, after: Schema) -> Iterator[SchemaChange]:
    for table in before.tables:
        if table.name not in after.by_name:
            yield SchemaChange(
                action="removed", subject=table.kind, table=table.name, before=_size(table)
            )
    for table in after.tables:
        old = before.by_name.get(table.name)
        if old is None:
            yield SchemaChange(
                action="added", subject=table.kind, table=table.name, after=_size(table)
            )
        else:
            yield from _inner_changes(old, table)


def _inner_changes(old: TableSchema, new: TableSchema) -> Iterator[SchemaChange]:
    """Differences within a table that still exists."""
    name = new.name
    differs = [
        (f"a {old.kind}", f"a {new.kind}", old.kind != new.kind),
        (old.definition, new.definition, old.definition != new.definition),
        (f"comment {old.comment!r}", f"comment {new.comment!r}", old.comment != new.comment),
        (_order(old, new), _order(new, old), _order(old, new) != _order(new, old)),
    ]
    for before, after, different in differs:
        if different:
            yield SchemaChange(
                action="changed", subject=new.kind, table=name, before=before, after=after
            )
    yield from _differences(
        name,
        "column",
        {column.name: column for column in old.columns},
        {column.name: column for column in new.columns},
        _column_text,
    )
    if old.primary_key != new.primary_key:
        before, after = _list(old.primary_key), _list(new.primary_key)
        action: Action = "changed" if before and after else "added" if after else "removed"
        yield SchemaChange(
            action=action, subject="primary key", table=name, before=before, after=after
        )
    yield from _differences(
        name,
        "foreign key",
        _keyed(old.foreign_keys, lambda key: _list(key.columns)),
        _keyed(new.foreign_keys, lambda key: _list(key.columns)),
        _foreign_key_text,
    )
    yield from _differences(
        name,
        "unique key",
        {_list(key): key for key in old.unique_keys},
        {_list(key): key for key in new.unique_keys},
        lambda _: "",
    )
    yield from _differences(
        name,
        "check",
        {check: check for check in old.checks},
        {check: check for check in new.checks},
        lambda check: check,
    )
    yield from _index_changes(name, old.indexes, new.indexes)


def _index_changes(
    table: str, before: Sequence[Index], after: Sequence[Index]
) -> Iterator[SchemaChange]:
    olds, news = (
        {previous.name: previous for previous in before},
        {previous.name: previous for previous in after},
    )
    pairs = _pairs(
        [previous for previous in before if previous.name not in news],
        [current for current in after if current.name not in olds],
        lambda index: (index.columns, index.unique, index.where),
        lambda _old, _new: True,
    )
    for old, new in pairs:
        yield SchemaChange(
            action="renamed",
            subject="index",
            table=table,
            name=old.name,
            before=old.name,
            after=new.name,
        )
        del olds[old.name], news[new.name]
    yield from _differences(table, "index", olds, news, _index_text)


def _type_changes(
    before: Mapping[str, NamedType], after: Mapping[str, NamedType]
) -> Iterator[SchemaChange]:
    pairs = _pairs(
        [previous for name, previous in before.items() if name not in after],
        [current for name, current in after.items() if name not in before],
        lambda item: (item.kind, item.values, item.definition),
        lambda _old, _new: True,
    )
    renamed = {old.name: new.name for old, new in pairs}
    for old, new in renamed.items():
        yield SchemaChange(action="renamed", subject="type", table=old, before=old, after=new)
    olds = {name: previous for name, previous in before.items() if name not in renamed}
    news = {name: current for name, current in after.items() if name not in renamed.values()}
    for change in _differences("", "type", olds, news, _type_text):
        yield replace(change, table=change.name, name="")


def _differences(
    table: str,
    subject: Subject,
    before: Mapping[str, _T],
    after: Mapping[str, _T],
    text_of: Callable[[_T], str],
) -> Iterator[SchemaChange]:
    """Named items that were added, removed or changed."""
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        action: Action = "added" if old is None else "removed" if new is None else "changed"
        yield SchemaChange(
            action=action,
            subject=subject,
            table=table,
            name=name,
            before="" if old is None else text_of(old),
            after="" if new is None else text_of(new),
        )


def _keyed(values: Iterable[_T], key: Callable[[_T], str]) -> dict[str, _T]:
    """Items by a unique text: two keys may have the same columns."""
    by_key: dict[str, _T] = {}
    for value in values:
        name, number = key(value), 2
        while name in by_key:
            name, number = f"{key(value)} #{number}", number + 1
        by_key[name] = value
    return by_key


# Words


def _size(table: TableSchema) -> str:
    count = len(table.columns)
    return f"{count} column{'' if count == 1 else 's'}"


def _order(table: TableSchema, other: TableSchema) -> str:
    """The common columns of both tables, in the order of the first."""
    names = {column.name for column in other.columns}
    shared = [column.name for column in table.columns if column.name in names]
    return f"columns in the order {', '.join(shared)}"


def _column_text(column: ColumnSchema) -> str:
    parts = [column.type or "no type", *(["not null"] if not column.nullable else [])]
    parts += [f"default {column.default}"] if column.default else []
    parts += [f"computed {column.computed}"] if column.computed else []
    parts += [f"comment {column.comment!r}"] if column.comment else []
    return ", ".join(parts)


def _foreign_key_text(key: ForeignKey) -> str:
    rule = f" {key.rule}" if key.rule else ""
    return f"to {key.table}{_list(key.to)}{rule}"


def _index_text(index: Index) -> str:
    where = f" where {index.where}" if index.where else ""
    return f"{'unique ' if index.unique else ''}on {_list(index.columns)}{where}"


def _type_text(type_entry: NamedType) -> str:
    if type_entry.kind == "enum":
        return f"enum {_list(type_entry.values)}"
    return f"domain {type_entry.definition}"


def _list(names: Sequence[str]) -> str:
    return f"({', '.join(names)})" if names else ""


def _in_brackets(text: str) -> str:
    text = _short(text)
    return f" ({text})" if text and not text.startswith("(") else f" {text}" if text else ""


def _short(text: str) -> str:
    """Shorten a text: the statement of a view can fill pages."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
