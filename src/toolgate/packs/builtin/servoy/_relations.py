"""Relations: which records of one table belong to a record of another."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from toolgate.packs.builtin.servoy._call_context import Desk
from toolgate.packs.builtin.servoy._errors import RefusedError
from toolgate.packs.builtin.servoy._file_format import Fields, Items, Value
from toolgate.packs.builtin.servoy._objects import (
    ENCAPSULATIONS,
    change,
    check_properties,
    choice,
    create,
    flag,
    meant,
    new_uuid,
    refuse_name,
    same_or_put,
    words,
)
from toolgate.packs.builtin.servoy._schema import Column, Table, group_of, source_of
from toolgate.packs.builtin.servoy._workspace import Stored, number_of, text_of

__all__ = [
    "PROPERTIES",
    "Ends",
    "create_relation",
    "ends_of",
    "not_found",
    "pairs_of",
    "set_properties",
    "update_relation",
    "whole_source",
]

RELATION: Final = 22
ITEM: Final = 23

PROPERTIES: Final = (
    "joinType",
    "allowCreationRelatedRecords",
    "allowParentDeleteWhenHavingRelatedRecords",
    "deleteRelatedRecords",
    "initialSort",
    "encapsulation",
    "deprecated",
    "comment",
)
"""What `properties` may set."""

_JOINS: Final[dict[str, Value]] = {"inner": 0, "left outer": 1}
_FLAGS: Final[dict[str, bool]] = {
    "allowCreationRelatedRecords": False,
    "allowParentDeleteWhenHavingRelatedRecords": True,
    "deleteRelatedRecords": False,
}
"""Defaults of what is yes or no."""

_OPERATORS: Final = ("=", ">", "<", ">=", "<=", "!=", "in", "like", "not in", "not like")
_MODIFIERS: Final = ((0x100, "^||"), (0x200, "#"), (0x1000, "^!"))
_SCOPE_VARIABLE: Final = re.compile(r"(?:globals|scopes\.[\w$]+)\.[\w$]+")


@dataclass(frozen=True, kw_only=True)
class Ends:
    """What a new relation connects."""

    primary: str
    """`db:/server/table`."""

    foreign: str
    """The same of the other side."""

    primary_column: str = ""
    """What is compared; empty: no pair of keys is made."""

    foreign_column: str = ""
    """With what it is compared."""


def create_relation(desk: Desk, name: str, ends: Ends, properties: Mapping[str, Any]) -> None:
    """Write a new relation. The desk is alone.

    Raises:
        RefusedError: The name cannot be had, or a table or column is not there or has another
            type; nothing was written.
    """
    refuse_name(desk, "relation", name)
    check_properties(properties, PROPERTIES)
    primary = desk.databases.column_table(ends.primary)
    foreign = desk.databases.column_table(ends.foreign)
    items = Items()
    if ends.primary_column and ends.foreign_column:
        items.append(_item(desk, ends, primary, foreign))
    fields = Fields()
    fields["allowCreationRelatedRecords"] = True
    fields["foreignDataSource"] = ends.foreign
    if items:
        fields["items"] = items
    fields["joinType"] = 1
    fields["name"] = name
    fields["primaryDataSource"] = ends.primary
    fields["typeid"] = RELATION
    fields["uuid"] = new_uuid()
    set_properties(fields, properties)
    create(desk, "relation", fields)


def _item(desk: Desk, ends: Ends, primary: Table | None, foreign: Table | None) -> Fields:
    right = _column(foreign, ends.foreign_column) if foreign else None
    left = None
    is_column = primary is not None and not _is_computed(desk, ends)
    if is_column:
        assert primary is not None
        left = _column(primary, ends.primary_column)
    if left and right and group_of(left) != group_of(right):
        assert primary is not None
        assert foreign is not None
        raise RefusedError(
            f"Column '{left.name}' of table '{primary.name}' is {_kind(left)} and column "
            f"'{right.name}' of table '{foreign.name}' is {_kind(right)}: the two keys of a "
            "relation need the same type. Nothing was changed."
        )
    made = Fields()
    made.inline = desk.target.style.dialect == "plain"
    made["foreignColumnName"] = right.name if right else ends.foreign_column
    made["primaryDataProviderID"] = left.name if left else ends.primary_column
    made["typeid"] = ITEM
    made["uuid"] = new_uuid()
    return made


def _kind(column: Column) -> str:
    return f"{group_of(column)} {column.shown_type}"


def _column(table: Table, name: str) -> Column:
    found = table.column(name)
    if found is None:
        raise RefusedError(
            f"Column '{name}' not found in table '{table.name}'. "
            f"Its columns: {', '.join(each.name for each in table.columns)}. Nothing was changed."
        )
    return found


def _is_computed(desk: Desk, ends: Ends) -> bool:
    """Whether the primary side is a variable, a literal or a calculation, which has no column."""
    name = ends.primary_column
    if name.startswith("LITERAL:") or _SCOPE_VARIABLE.fullmatch(name):
        return True
    server, _, table = ends.primary.removeprefix("db:/").partition("/")
    pattern = re.compile(rf"^\s*function\s+{re.escape(name)}\s*\(", re.MULTILINE)
    for solution in desk.workspace.scope:
        path = solution.folder / "datasources" / server / f"{table}_calculations.js"
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if pattern.search(text):
            return True
    return False


def set_properties(fields: Fields, given: Mapping[str, Any]) -> list[str]:
    """Set what is given and leave the rest; gives the names of what changed.

    Raises:
        RefusedError: A property is unknown or has a value that it cannot have.
    """
    check_properties(given, PROPERTIES)
    before = dict(fields)
    for name, value in given.items():
        match name:
            case "joinType":
                same_or_put(fields, name, choice(name, value, _JOINS), 0)
            case "encapsulation":
                same_or_put(fields, name, choice(name, value, ENCAPSULATIONS), 0)
            case _ if name in _FLAGS:
                same_or_put(fields, name, flag(name, value), _FLAGS[name])
            case _:
                same_or_put(fields, name, words(name, value), "")
    return [name for name in given if before.get(name) != fields.get(name)]


def update_relation(desk: Desk, stored: Stored, properties: Mapping[str, Any]) -> list[str]:
    """Set properties of a relation; gives the names of what changed. The desk is alone.

    Raises:
        RefusedError: One cannot be set; nothing was written.
    """
    stored = stored.own()
    changed = set_properties(stored.fields, properties)
    change(desk, stored, f"Relation '{stored.name}' changed: {', '.join(changed)}")
    return changed


def ends_of(fields: Fields) -> tuple[str, str]:
    """Both data sources; older files name server and table apart."""
    found: list[str] = []
    for side in ("primary", "foreign"):
        source = text_of(fields, f"{side}DataSource")
        server, table = text_of(fields, f"{side}ServerName"), text_of(fields, f"{side}TableName")
        found.append(source or (f"db:/{server}/{table}" if server or table else ""))
    return found[0], found[1]


def pairs_of(fields: Fields) -> list[str]:
    """The pairs of keys as people read them: `orders.customerid #= customerid`."""
    items = fields.get("items")
    found: list[str] = []
    for each in items if isinstance(items, Items) else ():
        if isinstance(each, Fields) and number_of(each, "typeid") == ITEM:
            left = text_of(each, "primaryDataProviderID")
            right = text_of(each, "foreignColumnName")
            found.append(f"{left} {_operator(number_of(each, 'operator'))} {right}")
    return found


def _operator(value: int) -> str:
    marks = "".join(mark for bit, mark in _MODIFIERS if value & bit)
    kind = value & 0xFF
    return marks + (_OPERATORS[kind] if kind < len(_OPERATORS) else f"operator {kind}")


def whole_source(side: str, text: str) -> str:
    """A data source as files have it.

    Raises:
        RefusedError: The text is none.
    """
    found = source_of(text)
    if not found:
        raise RefusedError(
            f"Invalid {side} format: '{text}'. Please provide format 'db:/server_name/table_name' "
            "or 'server_name/table_name'"
        )
    return found


def not_found(desk: Desk, name: str) -> RefusedError:
    """What is said of a relation that is neither there nor described."""
    return RefusedError(
        f"Relation '{name}' not found. To create it, provide 'primaryDataSource' and "
        "'foreignDataSource'.",
        meant(desk, "relation", name),
    )
