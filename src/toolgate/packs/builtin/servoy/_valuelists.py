"""Value lists: the choices of a field, written down, from a table, a relation or a method."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from toolgate.packs.builtin.servoy._answers import as_json
from toolgate.packs.builtin.servoy._call_context import Desk
from toolgate.packs.builtin.servoy._errors import RefusedError
from toolgate.packs.builtin.servoy._file_format import Fields, Value
from toolgate.packs.builtin.servoy._objects import (
    ENCAPSULATIONS,
    change,
    check_properties,
    choice,
    create,
    flag,
    new_uuid,
    refuse_name,
    same_or_put,
    words,
)
from toolgate.packs.builtin.servoy._relations import ends_of
from toolgate.packs.builtin.servoy._schema import Table, source_of
from toolgate.packs.builtin.servoy._workspace import Stored, number_of, text_of

__all__ = [
    "CUSTOM",
    "DATABASE",
    "METHOD",
    "PROPERTIES",
    "Wanted",
    "columns_of",
    "create_value_list",
    "set_properties",
    "source_in",
    "type_of",
    "update_value_list",
    "values_of",
    "whole_source",
]

VALUE_LIST: Final = 34
CUSTOM: Final = 0
DATABASE: Final = 1
METHOD: Final = 4

PROPERTIES: Final = (
    "addEmptyValue",
    "separator",
    "sortOptions",
    "useTableFilter",
    "realValueType",
    "displayValueType",
    "fallbackValueList",
    "fallbackValueListID",
    "lazyLoading",
    "encapsulation",
    "deprecated",
    "comment",
)
"""What `properties` may set."""

_MOST_COLUMNS: Final = 3
_EMPTY: Final[dict[str, Value]] = {"always": 0, "never": 1, "on creation": 2, "oncreation": 2}
_TYPES: Final[dict[str, Value]] = {"text": 12, "integer": 4, "number": 8, "date": 93, "none": 0}
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_METHOD_NAME: Final = re.compile(r"(?:scopes\.)?([\w$]+)\.([\w$]+)")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Where the values of a new list come from; the first that is given decides."""

    method: str = ""
    """Name or UUID of a method that gives them."""

    relation: str = ""
    """Name of a relation, `a.b` for a chain of them."""

    source: str = ""
    """`db:/server/table`."""

    display: Sequence[str] = ()
    """Columns that are shown, three at most."""

    returned: Sequence[str] = ()
    """Columns whose values are kept; those that are shown where none is named."""

    values: Sequence[str] = ()
    """The values themselves, `display|real` where both differ."""

    separator: str = ""
    """Between several columns that are shown; empty: a blank."""

    sort: str = ""
    """`name asc`; ASC or DESC alone sorts by the first column that is shown."""

    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else to set."""


def create_value_list(desk: Desk, name: str, wanted: Wanted) -> str:
    """Write a new value list; gives what is worth saying about it. The desk is alone.

    Raises:
        RefusedError: It cannot be made like this; nothing was written.
    """
    refuse_name(desk, "value list", name)
    check_properties(wanted.properties, PROPERTIES)
    note = ""
    fields = Fields(name=name, typeid=VALUE_LIST, uuid=new_uuid())
    if wanted.method:
        fields["valueListType"] = METHOD
        fields["customValues"], note = _method(desk, wanted.method)
    elif wanted.relation:
        fields["valueListType"] = DATABASE
        fields["relationName"] = wanted.relation
        _set_columns(fields, wanted, _table_of_relation(desk, wanted.relation))
    elif wanted.source:
        fields["valueListType"] = DATABASE
        fields["dataSource"] = wanted.source
        _set_columns(fields, wanted, desk.databases.column_table(wanted.source))
    elif values := _values(wanted.values):
        fields["customValues"] = "\n".join(values)
    set_properties(desk, fields, wanted.properties)
    ordered = Fields((key, fields[key]) for key in sorted(fields))
    create(desk, "value list", ordered)
    return note


def _values(given: Sequence[str]) -> list[str]:
    """The lines of a custom list: trimmed, blank ones dropped."""
    found: list[str] = []
    for each in given:
        value = each.strip()
        if not value:
            continue
        if any(sign in value for sign in "\n\r"):
            raise RefusedError(
                f"The value {value!r} holds a line break. Give each value on its own. "
                "Nothing was changed."
            )
        bars = len(re.findall(r"(?<!\\)(?:\\\\)*\|", value))
        if bars > 1:
            raise RefusedError(
                f"The value {value!r} holds more than one '|', which divides what is shown from "
                "what is kept. Write a '|' that belongs to the text as '\\|'. Nothing was changed."
            )
        found.append(value)
    return found


def _set_columns(fields: Fields, wanted: Wanted, table: Table | None) -> None:
    """Which columns are shown and kept, as numbered columns and masks of them."""
    display = list(dict.fromkeys(_columns(wanted.display, table)))
    returned = list(dict.fromkeys(_columns(wanted.returned, table)))
    columns = list(dict.fromkeys([*display, *returned]))
    if not columns:
        raise RefusedError(
            "A value list from a table needs a 'displayColumn'. Nothing was changed."
        )
    if len(columns) > _MOST_COLUMNS:
        raise RefusedError(
            f"A value list has {_MOST_COLUMNS} columns at most, and these are {len(columns)}: "
            f"{', '.join(columns)}. Nothing was changed."
        )
    for number, column in enumerate(columns, 1):
        fields[f"dataProviderID{number}"] = column
    shown = _mask(columns, display or returned)
    fields["showDataProviders"] = shown
    fields["returnDataProviders"] = _mask(columns, returned) if returned else shown
    if wanted.separator:
        fields["separator"] = wanted.separator
    if sort := _sort(wanted.sort, columns[0], table):
        fields["sortOptions"] = sort


def _mask(columns: Sequence[str], meant: Sequence[str]) -> int:
    return sum(1 << at for at, column in enumerate(columns) if column in meant)


def _columns(given: Sequence[str], table: Table | None) -> list[str]:
    """The columns that are meant, as the table writes them."""
    names = [name.strip() for each in given for name in each.split(",") if name.strip()]
    if table is None:
        return names
    found: list[str] = []
    for name in names:
        column = table.column(name)
        if column is None:
            known = ", ".join(each.name for each in table.columns)
            raise RefusedError(
                f"Column '{name}' not found in table '{table.name}'. Its columns: {known}. "
                "Nothing was changed."
            )
        found.append(column.name)
    return found


def _sort(text: str, column: str, table: Table | None) -> str:
    text = text.strip()
    if not text or text.upper() == "NONE":
        return ""
    if text.upper() in {"ASC", "DESC"}:
        return f"{column} {text.lower()}"
    for part in text.split(","):
        name, _, order = part.strip().partition(" ")
        if order.strip().lower() not in {"", "asc", "desc"}:
            raise RefusedError(
                f"The sort {text!r} is none. Write it as 'name asc, city desc'. "
                "Nothing was changed."
            )
        if table is not None and "." not in name:
            _columns([name], table)
    return text


def _table_of_relation(desk: Desk, chain: str) -> Table | None:
    """The table that a relation, or a chain of them, ends in."""
    source = ""
    for name in chain.split("."):
        found = desk.workspace.find("relation", name)
        if not found:
            raise RefusedError(f"Relation '{name}' not found. Nothing was changed.")
        primary, foreign = ends_of(found[0].fields)
        if source and primary != source:
            raise RefusedError(
                f"The relations of '{chain}' do not follow each other: '{name}' begins at "
                f"{primary} and not at {source}. Nothing was changed."
            )
        source = foreign
    return desk.databases.column_table(source)


def _method(desk: Desk, name: str) -> tuple[str, str]:
    """What is kept of a method: its UUID, else its name; and what is worth saying."""
    if _UUID.fullmatch(name):
        return name.upper(), ""
    parts = _METHOD_NAME.fullmatch(name)
    if parts is None:
        raise RefusedError(
            f"'{name}' names no method. Write it as 'scopes.globals.getCountries'. "
            "Nothing was changed."
        )
    scope, method = parts[1], parts[2]
    pattern = re.compile(
        rf'uuid:"([0-9A-Fa-f-]{{36}})"[^/]*?\*/\s*function\s+{re.escape(method)}\s*\('
    )
    for solution in desk.workspace.scope:
        path = solution.folder / f"{scope}.js"
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if found := pattern.search(text):
            return found[1], ""
    whole = name if name.startswith("scopes.") else f"scopes.{name}"
    return whole, f"No method {whole} was found in the workspace; its name was stored."


def set_properties(desk: Desk, fields: Fields, given: Mapping[str, Any]) -> list[str]:
    """Set what is given and leave the rest; gives the names of what changed.

    Raises:
        RefusedError: A property is unknown or has a value that it cannot have.
    """
    check_properties(given, PROPERTIES)
    before: dict[str, Any] = as_json(fields)
    for name, value in given.items():
        _set_property(desk, fields, name, value)
    after: dict[str, Any] = as_json(fields)
    return sorted(key for key in {*before, *after} if before.get(key) != after.get(key))


def _set_property(desk: Desk, fields: Fields, name: str, value: object) -> None:
    match name:
        case "addEmptyValue":
            same_or_put(fields, name, _empty_value(value), 0)
        case "useTableFilter":
            same_or_put(fields, name, flag(name, value), False)
        case "realValueType" | "displayValueType":
            kind = value if type(value) is int else choice(name, value, _TYPES)
            same_or_put(fields, name, kind, 0)
        case "encapsulation":
            same_or_put(fields, name, choice(name, value, ENCAPSULATIONS), 0)
        case "fallbackValueList" | "fallbackValueListID":
            same_or_put(fields, "fallbackValueListID", _fallback(desk, words(name, value)), "")
        case "lazyLoading":
            _set_lazy(desk, fields, on=flag(name, value))
        case _:
            same_or_put(fields, name, words(name, value), "")


def _empty_value(value: object) -> Value:
    """0 always, 1 never, 2 on creation."""
    if isinstance(value, bool):
        return 0 if value else 1
    if type(value) is int and value in {0, 1, 2}:
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return 0 if value.strip().lower() == "true" else 1
    return choice("addEmptyValue", value, _EMPTY)


def _fallback(desk: Desk, name: str) -> str:
    """The UUID of the list that is named."""
    if not name or _UUID.fullmatch(name):
        return name
    found = desk.workspace.find("value list", name)
    if not found:
        raise RefusedError(f"Value list '{name}' not found. Nothing was changed.")
    return found[0].uuid


def _set_lazy(desk: Desk, fields: Fields, *, on: bool) -> None:
    """`lazyLoading` among the custom properties: a text in one dialect, an object in the other."""
    custom = fields.get("customProperties")
    if isinstance(custom, Fields):
        same_or_put(custom, "lazyLoading", on, None)
        return
    if isinstance(custom, str) and custom.strip():
        others = [
            each for each in custom.split(",\n") if not each.strip().startswith("lazyLoading:")
        ]
        lines = sorted([*others, f"lazyLoading:{str(on).lower()}"])
        same_or_put(fields, "customProperties", ",\n".join(lines), "")
        return
    if desk.target.style.dialect == "json":
        same_or_put(fields, "customProperties", Fields(lazyLoading=on), None)
    else:
        same_or_put(fields, "customProperties", f"lazyLoading:{str(on).lower()}", "")


def update_value_list(desk: Desk, stored: Stored, properties: Mapping[str, Any]) -> list[str]:
    """Set properties of a value list; gives the names of what changed. The desk is alone.

    Raises:
        RefusedError: One cannot be set; nothing was written.
    """
    stored = stored.own()
    changed = set_properties(desk, stored.fields, properties)
    change(desk, stored, f"Value list '{stored.name}' changed: {', '.join(changed)}")
    return changed


def source_in(fields: Fields) -> str:
    """The data source of a list; older files name server and table apart."""
    server, table = text_of(fields, "serverName"), text_of(fields, "tableName")
    return text_of(fields, "dataSource") or (f"db:/{server}/{table}" if table else "")


def values_of(fields: Fields) -> list[str]:
    """The lines of a custom list."""
    text = text_of(fields, "customValues").replace("\r\n", "\n").replace("\r", "\n")
    return [line for line in text.split("\n") if line.strip()]


def type_of(fields: Fields) -> int:
    """0 custom, 1 database, 4 method."""
    return number_of(fields, "valueListType")


def columns_of(fields: Fields) -> list[str]:
    """Its columns, in their numbers' order."""
    found = [text_of(fields, f"dataProviderID{n}") for n in range(1, _MOST_COLUMNS + 1)]
    return [each for each in found if each]


def whole_source(text: str) -> str:
    """A data source as files have it.

    Raises:
        RefusedError: The text is none.
    """
    found = source_of(text)
    if not found:
        raise RefusedError(
            f"Invalid dataSource format: '{text}'. Please provide format "
            "'db:/server_name/table_name' or 'server_name/table_name'"
        )
    return found
