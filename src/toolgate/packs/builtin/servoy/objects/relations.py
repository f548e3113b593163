"""Relations: how records of one table refer to records of another."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from toolgate.packs.builtin.servoy._call_context import ServoyCall
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.database.tables import DbColumn, DbTable, group_of, parse_source
from toolgate.packs.builtin.servoy.files.notation import Fields, Items, Value
from toolgate.packs.builtin.servoy.files.workspace import StoredObject, number_of, text_of
from toolgate.packs.builtin.servoy.objects.changes import (
    ENCAPSULATIONS,
    boolean_property,
    check_properties,
    choice_property,
    create_object,
    name_suggestion,
    new_uuid,
    refuse_name,
    save_object,
    set_property,
    text_property,
)

__all__ = [
    "PROPERTIES",
    "RelationEnds",
    "create_relation",
    "ends_of",
    "normalized_source",
    "pairs_of",
    "relation_not_found",
    "set_properties",
    "update_relation",
]

RELATION: Final = 22
"""Type of a relation in Servoy's files."""
ITEM: Final = 23
"""Type of a key pair of a relation in Servoy's files."""

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
class RelationEnds:
    """What a new relation connects."""

    primary: str
    """`db:/server/table`."""

    foreign: str
    """The same of the other side."""

    primary_column: str = ""
    """What is compared; empty: no pair of keys is made."""

    foreign_column: str = ""
    """With what it is compared."""


def create_relation(
    call: ServoyCall, name: str, ends: RelationEnds, properties: Mapping[str, Any]
) -> None:
    """Write a new relation. Needs an exclusive call.

    Raises:
        ToolRefusedError: The name cannot be had, or a table or column is not there or has another
            type; nothing was written.
    """
    refuse_name(call, "relation", name)
    check_properties(properties, PROPERTIES)
    primary = call.databases.column_table(ends.primary)
    foreign = call.databases.column_table(ends.foreign)
    items = Items()
    if ends.primary_column and ends.foreign_column:
        items.append(_item(call, ends, primary, foreign))
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
    create_object(call, "relation", fields)


def _item(
    call: ServoyCall, ends: RelationEnds, primary: DbTable | None, foreign: DbTable | None
) -> Fields:
    right = _column(foreign, ends.foreign_column) if foreign else None
    left = None
    is_column = primary is not None and not _is_computed(call, ends)
    if is_column:
        assert primary is not None
        left = _column(primary, ends.primary_column)
    if left and right and group_of(left) != group_of(right):
        assert primary is not None
        assert foreign is not None
        raise ToolRefusedError(
            f"Column '{left.name}' of table '{primary.name}' is {_kind(left)} and column "
            f"'{right.name}' of table '{foreign.name}' is {_kind(right)}: the two keys of a "
            "relation need the same type. Nothing was changed."
        )
    item = Fields()
    item.inline = call.target.style.dialect == "plain"
    item["foreignColumnName"] = right.name if right else ends.foreign_column
    item["primaryDataProviderID"] = left.name if left else ends.primary_column
    item["typeid"] = ITEM
    item["uuid"] = new_uuid()
    return item


def _kind(column: DbColumn) -> str:
    return f"{group_of(column)} {column.shown_type}"


def _column(table: DbTable, name: str) -> DbColumn:
    column = table.column(name)
    if column is None:
        raise ToolRefusedError(
            f"Column '{name}' not found in table '{table.name}'. "
            f"Its columns: {', '.join(c.name for c in table.columns)}. Nothing was changed."
        )
    return column


def _is_computed(call: ServoyCall, ends: RelationEnds) -> bool:
    """Whether the primary side is a variable, a literal or a calculation, which has no column."""
    name = ends.primary_column
    if name.startswith("LITERAL:") or _SCOPE_VARIABLE.fullmatch(name):
        return True
    server, _, table = ends.primary.removeprefix("db:/").partition("/")
    pattern = re.compile(rf"^\s*function\s+{re.escape(name)}\s*\(", re.MULTILINE)
    for solution in call.workspace.scope:
        path = solution.folder / "datasources" / server / f"{table}_calculations.js"
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if pattern.search(text):
            return True
    return False


def set_properties(fields: Fields, properties: Mapping[str, Any]) -> list[str]:
    """Set what is given and leave the rest; gives the names of what changed.

    Raises:
        ToolRefusedError: A property is unknown or has a value that it cannot have.
    """
    check_properties(properties, PROPERTIES)
    before = dict(fields)
    for name, value in properties.items():
        match name:
            case "joinType":
                set_property(fields, name, choice_property(name, value, _JOINS), 0)
            case "encapsulation":
                set_property(fields, name, choice_property(name, value, ENCAPSULATIONS), 0)
            case _ if name in _FLAGS:
                set_property(fields, name, boolean_property(name, value), _FLAGS[name])
            case _:
                set_property(fields, name, text_property(name, value), "")
    return [name for name in properties if before.get(name) != fields.get(name)]


def update_relation(
    call: ServoyCall, stored: StoredObject, properties: Mapping[str, Any]
) -> list[str]:
    """Set properties of a relation; gives the names of what changed. Needs an exclusive call.

    Raises:
        ToolRefusedError: One cannot be set; nothing was written.
    """
    stored = stored.editable()
    changed = set_properties(stored.fields, properties)
    save_object(call, stored, f"Relation '{stored.name}' changed: {', '.join(changed)}")
    return changed


def ends_of(fields: Fields) -> tuple[str, str]:
    """Both data sources; older files name server and table apart."""
    sources: list[str] = []
    for side in ("primary", "foreign"):
        source = text_of(fields, f"{side}DataSource")
        server, table = text_of(fields, f"{side}ServerName"), text_of(fields, f"{side}TableName")
        sources.append(source or (f"db:/{server}/{table}" if server or table else ""))
    return sources[0], sources[1]


def pairs_of(fields: Fields) -> list[str]:
    """The pairs of keys as people read them: `orders.customerid #= customerid`."""
    items = fields.get("items")
    pairs: list[str] = []
    for item in items if isinstance(items, Items) else ():
        if isinstance(item, Fields) and number_of(item, "typeid") == ITEM:
            left = text_of(item, "primaryDataProviderID")
            right = text_of(item, "foreignColumnName")
            pairs.append(f"{left} {_operator(number_of(item, 'operator'))} {right}")
    return pairs


def _operator(value: int) -> str:
    marks = "".join(mark for bit, mark in _MODIFIERS if value & bit)
    kind = value & 0xFF
    return marks + (_OPERATORS[kind] if kind < len(_OPERATORS) else f"operator {kind}")


def normalized_source(side: str, text: str) -> str:
    """A data source as files have it.

    Raises:
        ToolRefusedError: The text is none.
    """
    source = parse_source(text)
    if not source:
        raise ToolRefusedError(
            f"Invalid {side} format: '{text}'. Please provide format 'db:/server_name/table_name' "
            "or 'server_name/table_name'"
        )
    return source


def relation_not_found(call: ServoyCall, name: str) -> ToolRefusedError:
    """What is said of a relation that is neither there nor described."""
    return ToolRefusedError(
        f"Relation '{name}' not found. To create it, provide 'primaryDataSource' and "
        "'foreignDataSource'.",
        name_suggestion(call, "relation", name),
    )
