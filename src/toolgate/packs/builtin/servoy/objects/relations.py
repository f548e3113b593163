"""Relations: how records of one table refer to records of another."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from toolgate.packs.builtin.servoy._call_context import ServoyCall
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.database.table import DbColumn, DbTable, group_of
from toolgate.packs.builtin.servoy.database.tables import parse_source
from toolgate.packs.builtin.servoy.files.notation import Fields, Items, Value, insert_member
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

RELATION: Final = 22
"""typeid of a relation in Servoy's files."""
ITEM: Final = 23
"""typeid of a key pair of a relation in Servoy's files."""

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
"""Names that `properties` may set."""

_JOINS: Final[dict[str, Value]] = {"inner": 0, "left outer": 1}
_FLAGS: Final[dict[str, bool]] = {
    "allowCreationRelatedRecords": False,
    "allowParentDeleteWhenHavingRelatedRecords": True,
    "deleteRelatedRecords": False,
}
"""Defaults of boolean properties."""

_OPERATORS: Final = ("=", ">", "<", ">=", "<=", "!=", "in", "like", "not in", "not like")
_MODIFIERS: Final = ((0x100, "^||"), (0x200, "#"), (0x1000, "^!"))
_NO_CASE: Final = frozenset({"=", "!=", "like", "not like"})
"""Operators that can ignore case."""
_FOR_RELATIONS: Final = tuple(name for name in _OPERATORS if name != "not in")
_SIDES: Final = ("primaryColumn", "foreignColumn")
_SCOPE_VARIABLE: Final = re.compile(r"(?:globals|scopes\.[\w$]+)\.[\w$]+")


@dataclass(frozen=True, kw_only=True)
class RelationEnds:
    """The tables and columns that a new relation connects."""

    primary: str
    """Primary data source, `db:/server/table`."""

    foreign: str
    """Foreign data source."""

    primary_column: str = ""
    """Primary column; empty: no key pair is created."""

    foreign_column: str = ""
    """Foreign column."""

    operator: int = 0
    """Operator as in files; 0 is `=`."""


@dataclass(frozen=True, kw_only=True)
class KeyPair:
    """Two columns that are compared."""

    primary: str
    """Column of the primary table, or an expression instead of one."""

    foreign: str
    """Column of the foreign table."""

    operator: str = "="
    """Operator as people write it: `>=`, `#=`."""


@dataclass(frozen=True, kw_only=True)
class RelationChange:
    """Changes of a relation; empty and None: unchanged."""

    primary: str = ""
    """New primary data source."""

    foreign: str = ""
    """New foreign data source."""

    keys: Sequence[KeyPair] | None = None
    """All new key pairs."""

    pair: KeyPair | None = None
    """The only new key pair; refused if the relation has several."""

    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Properties to set."""


def read_keys(raw: Sequence[Mapping[str, Any]]) -> list[KeyPair]:
    """Parse the key pairs in an argument.

    Raises:
        ToolRefusedError: A pair is incomplete, or has an unknown member.
    """
    pairs: list[KeyPair] = []
    for entry in raw:
        unknown = entry.keys() - {"primaryColumn", "foreignColumn", "operator"}
        left, right = (str(entry.get(side) or "").strip() for side in _SIDES)
        if unknown or not left or not right:
            raise ToolRefusedError(
                f"The key {dict(entry)!r} cannot be used. Each needs primaryColumn and "
                "foreignColumn, and may have an operator. Nothing was changed."
            )
        operator = str(entry.get("operator") or "=").strip()
        _operator_number(operator)
        pairs.append(KeyPair(primary=left, foreign=right, operator=operator))
    return pairs


def _operator_number(text: str) -> int:
    """Convert an operator to its number in files.

    Raises:
        ToolRefusedError: Relations do not have this operator.
    """
    bits, rest = 0, text
    for bit, mark in (*_MODIFIERS[:1], *_MODIFIERS[2:], _MODIFIERS[1]):
        if mark in rest:
            bits, rest = bits | bit, rest.replace(mark, "", 1)
    rest = " ".join(rest.lower().split()) or "="
    if rest not in _FOR_RELATIONS or (bits & _MODIFIERS[1][0] and rest not in _NO_CASE):
        raise ToolRefusedError(
            f"There is no operator {text!r} for relations. Allowed: {', '.join(_FOR_RELATIONS)}; "
            "'#' before =, !=, like and not like ignores case, '^||' adds \"or null\", '^!' leaves "
            "the key out when its value is null. Nothing was changed."
        )
    return bits | _OPERATORS.index(rest)


def _with_pair(ends: RelationEnds, pair: KeyPair) -> RelationEnds:
    return replace(
        ends,
        primary_column=pair.primary,
        foreign_column=pair.foreign,
        operator=_operator_number(pair.operator),
    )


def create_relation(
    call: ServoyCall,
    name: str,
    ends: RelationEnds,
    properties: Mapping[str, Any],
    keys: Sequence[KeyPair] = (),
) -> None:
    """Write a new relation. Needs an exclusive call.

    Raises:
        ToolRefusedError: The name is not allowed, or a table or column does not exist or has
            another type; nothing was written.
    """
    refuse_name(call, "relation", name)
    check_properties(properties, PROPERTIES)
    primary = call.databases.column_table(ends.primary)
    foreign = call.databases.column_table(ends.foreign)
    items = Items()
    pairs = keys or (
        [KeyPair(primary=ends.primary_column, foreign=ends.foreign_column)]
        if ends.primary_column and ends.foreign_column
        else []
    )
    for pair in pairs:
        items.append(_item(call, _with_pair(ends, pair), primary, foreign))
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
    set_properties(fields, properties, foreign)
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
    if ends.operator:
        item["operator"] = ends.operator
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


def set_properties(
    fields: Fields, properties: Mapping[str, Any], foreign: DbTable | None = None
) -> list[str]:
    """Set the given properties and keep the others. Returns the names of the changed ones.

    Raises:
        ToolRefusedError: A property is unknown or has an invalid value.
    """
    check_properties(properties, PROPERTIES)
    before = dict(fields)
    for name, value in properties.items():
        match name:
            case "joinType":
                set_property(fields, name, choice_property(name, value, _JOINS), 0)
            case "encapsulation":
                set_property(fields, name, choice_property(name, value, ENCAPSULATIONS), 0)
            case "initialSort":
                set_property(fields, name, _sort(text_property(name, value), foreign), "")
            case _ if name in _FLAGS:
                set_property(fields, name, boolean_property(name, value), _FLAGS[name])
            case _:
                set_property(fields, name, text_property(name, value), "")
    return [name for name in properties if before.get(name) != fields.get(name)]


def _sort(text: str, foreign: DbTable | None) -> str:
    """Check an initial sort against the sorted table, and return it.

    Raises:
        ToolRefusedError: It is not a list of columns, or a column is not in the table.
    """
    for part in text.split(",") if text else ():
        name, _, order = part.strip().partition(" ")
        if not name or order.strip().lower() not in {"", "asc", "desc"}:
            raise ToolRefusedError(
                f"The sort {text!r} is none. Write it as 'name asc, city desc'. "
                "Nothing was changed."
            )
        # `a_to_b.name` sorts by a column of a related table.
        if foreign is not None and "." not in name:
            _column(foreign, name)
    return text


def update_relation(call: ServoyCall, stored: StoredObject, change: RelationChange) -> list[str]:
    """Change a relation. Returns the names of what changed. Needs an exclusive call.

    The relation keeps its UUID, and so does each key pair that remains.

    Raises:
        ToolRefusedError: A change is not possible; nothing was written.
    """
    stored = stored.editable()
    fields = stored.fields
    before_ends, before_pairs = ends_of(fields), pairs_of(fields)
    for side, source in (("primary", change.primary), ("foreign", change.foreign)):
        if source and source != before_ends[side == "foreign"]:
            _set_source(fields, side, source)
    ends = RelationEnds(primary=ends_of(fields)[0], foreign=ends_of(fields)[1])
    is_moved = ends_of(fields) != before_ends
    needs_tables = is_moved or change.keys is not None or change.pair is not None
    needs_tables = needs_tables or "initialSort" in change.properties
    primary = call.databases.column_table(ends.primary) if needs_tables else None
    foreign = call.databases.column_table(ends.foreign) if needs_tables else None
    keys = _keys_after(fields, change, is_moved=is_moved)
    if keys is not None:
        _set_keys(call, fields, ends, keys, (primary, foreign))
    changed = set_properties(fields, change.properties, foreign)
    if is_moved:
        changed = ["data sources", *changed]
    if pairs_of(fields) != before_pairs:
        changed = ["keys", *changed]
    save_object(call, stored, f"Relation '{stored.name}' changed: {', '.join(changed)}")
    return changed


def _set_source(fields: Fields, side: str, source: str) -> None:
    """Set a data source; separate server and table names of older files are merged into it."""
    for old in (f"{side}ServerName", f"{side}TableName"):
        fields.pop(old, None)
    set_property(fields, f"{side}DataSource", source, "")


def _keys_after(
    fields: Fields, change: RelationChange, *, is_moved: bool
) -> Sequence[KeyPair] | None:
    """Return the new key pairs; None if they do not change.

    Raises:
        ToolRefusedError: One pair is given, and the relation has several others.
    """
    present = _present_keys(fields)
    if change.keys is not None:
        return change.keys
    if change.pair is None:
        # Other tables may have other columns: check the current pairs against them.
        return present if is_moved else None
    pair = change.pair
    same = [key for key in present if (key.primary, key.foreign) == (pair.primary, pair.foreign)]
    if same:
        return None
    if len(present) > 1:
        raise ToolRefusedError(
            f"The relation has {len(present)} pairs of keys: {', '.join(pairs_of(fields))}. Give "
            "all that it is to have in 'keys'. Nothing was changed."
        )
    return [replace(pair, operator=present[0].operator) if present else pair]


def _present_keys(fields: Fields) -> list[KeyPair]:
    return [
        KeyPair(
            primary=text_of(item, "primaryDataProviderID"),
            foreign=text_of(item, "foreignColumnName"),
            operator=_operator(number_of(item, "operator")),
        )
        for item in _items_of(fields)
    ]


def _items_of(fields: Fields) -> list[Fields]:
    items = fields.get("items")
    return [
        item
        for item in (items if isinstance(items, Items) else ())
        if isinstance(item, Fields) and number_of(item, "typeid") == ITEM
    ]


def _set_keys(
    call: ServoyCall,
    fields: Fields,
    ends: RelationEnds,
    keys: Sequence[KeyPair],
    tables: tuple[DbTable | None, DbTable | None],
) -> None:
    """Replace the key pairs; remaining items keep their UUIDs and other properties."""
    left = _items_of(fields)
    items = Items()
    fresh = [_item(call, _with_pair(ends, pair), *tables) for pair in keys]
    for item in fresh:
        columns = ("primaryDataProviderID", "foreignColumnName")
        same = next(
            (old for old in left if all(text_of(old, c) == text_of(item, c) for c in columns)), None
        )
        # If a single pair is changed, its item is kept with other columns.
        old = same or (left[0] if len(left) == len(fresh) == 1 else None)
        if old is None:
            items.append(item)
            continue
        left.remove(old)
        for column in columns:
            set_property(old, column, text_of(item, column), "")
        set_property(old, "operator", number_of(item, "operator"), 0)
        items.append(old)
    if items:
        insert_member(fields, "items", Items(sorted(items, key=_uuid_of)))
    else:
        fields.pop("items", None)


def _uuid_of(item: Value) -> str:
    return text_of(item, "uuid") if isinstance(item, Fields) else ""


def ends_of(fields: Fields) -> tuple[str, str]:
    """Return both data sources; older files name server and table separately."""
    sources: list[str] = []
    for side in ("primary", "foreign"):
        source = text_of(fields, f"{side}DataSource")
        server, table = text_of(fields, f"{side}ServerName"), text_of(fields, f"{side}TableName")
        sources.append(source or (f"db:/{server}/{table}" if server or table else ""))
    return sources[0], sources[1]


def pairs_of(fields: Fields) -> list[str]:
    """Return the key pairs for display: `orders.customerid #= customerid`."""
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
    """Convert a data source to the form in files.

    Raises:
        ToolRefusedError: The text is not a data source.
    """
    source = parse_source(text)
    if not source:
        raise ToolRefusedError(
            f"Invalid {side} format: '{text}'. Please provide format 'db:/server_name/table_name' "
            "or 'server_name/table_name'"
        )
    return source


def relation_not_found(call: ServoyCall, name: str) -> ToolRefusedError:
    """Create the error for a missing relation that is given no data sources to create it with."""
    return ToolRefusedError(
        f"Relation '{name}' not found. To create it, provide 'primaryDataSource' and "
        "'foreignDataSource'.",
        name_suggestion(call, "relation", name),
    )
