"""Value lists: the choices of a field, from a list, a table, a relation or a method."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from toolgate.packs.builtin.servoy._answers import as_json
from toolgate.packs.builtin.servoy._call_context import ServoyCall
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.database.table import DbTable
from toolgate.packs.builtin.servoy.database.tables import parse_source
from toolgate.packs.builtin.servoy.files.notation import Fields, Value, insert_member
from toolgate.packs.builtin.servoy.files.workspace import StoredObject, number_of, text_of
from toolgate.packs.builtin.servoy.objects.changes import (
    ENCAPSULATIONS,
    boolean_property,
    check_properties,
    choice_property,
    create_object,
    new_uuid,
    refuse_name,
    save_object,
    set_property,
    text_property,
)
from toolgate.packs.builtin.servoy.objects.relations import ends_of

VALUE_LIST: Final = 34
"""typeid of a value list in Servoy's files."""
CUSTOM: Final = 0
"""Type of a value list with custom values."""
DATABASE: Final = 1
"""Type of a value list with the rows of a table."""
METHOD: Final = 4
"""Type of a value list that a method fills."""

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
"""Names that `properties` may set."""

_MOST_COLUMNS: Final = 3
"""Columns for which Servoy's format has fields."""
_EMPTY: Final[dict[str, Value]] = {"always": 0, "never": 1, "on creation": 2, "oncreation": 2}
_TYPES: Final[dict[str, Value]] = {"text": 12, "integer": 4, "number": 8, "date": 93, "none": 0}
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_METHOD_NAME: Final = re.compile(r"(?:scopes\.)?([\w$]+)\.([\w$]+)")


@dataclass(frozen=True, kw_only=True)
class ValueListSource:
    """Source of the values of a new list; the first given one is used."""

    method: str = ""
    """Name or UUID of a method that returns them."""

    relation: str = ""
    """Name of a relation, `a.b` for a chain of them."""

    source: str = ""
    """Data source, `db:/server/table`."""

    display: Sequence[str] = field(default_factory=list[str])
    """Columns that are shown, at most three."""

    returned: Sequence[str] = field(default_factory=list[str])
    """Columns whose values are stored; by default those that are shown."""

    values: Sequence[str] = field(default_factory=list[str])
    """The values themselves, `display|real` if both differ."""

    separator: str = ""
    """Separator between several shown columns; empty: a space."""

    sort: str = ""
    """Sort order, such as `name asc`; only ASC or DESC sorts by the first shown column."""

    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Other properties to set."""


def create_value_list(call: ServoyCall, name: str, source: ValueListSource) -> str:
    """Write a new value list. Returns a note for the result. Needs an exclusive call.

    Raises:
        ToolRefusedError: It cannot be created like this; nothing was written.
    """
    refuse_name(call, "value list", name)
    check_properties(source.properties, PROPERTIES)
    fields = Fields(name=name, typeid=VALUE_LIST, uuid=new_uuid())
    note = _set_source(call, fields, source)
    set_properties(call, fields, source.properties)
    ordered = Fields((key, fields[key]) for key in sorted(fields))
    create_object(call, "value list", ordered)
    return note


def _set_source(call: ServoyCall, fields: Fields, source: ValueListSource) -> str:
    """Set the source of the values in a file without one. Returns a note."""
    note = ""
    if source.method:
        insert_member(fields, "valueListType", METHOD)
        stored, note = _method(call, source.method)
        insert_member(fields, "customValues", stored)
    elif source.relation:
        insert_member(fields, "valueListType", DATABASE)
        insert_member(fields, "relationName", source.relation)
        _set_columns(fields, source, _table_of_relation(call, source.relation))
    elif source.source:
        insert_member(fields, "valueListType", DATABASE)
        insert_member(fields, "dataSource", source.source)
        _set_columns(fields, source, call.databases.column_table(source.source))
    elif values := _values(source.values):
        insert_member(fields, "customValues", "\n".join(values))
    unused = [name for name, given in _given(source)[1:] if given]
    if unused:
        used = _given(source)[0][0]
        note = f"{note} Not used, since '{used}' was given: {', '.join(unused)}.".strip()
    return note


def _given(source: ValueListSource) -> list[tuple[str, bool]]:
    """Return the possible sources, from the used one on, and whether each was given."""
    order = (
        ("globalMethod", bool(source.method)),
        ("relationName", bool(source.relation)),
        ("dataSource", bool(source.source)),
        ("customValues", bool(source.values)),
        ("displayColumn", bool(source.display) and not (source.relation or source.source)),
        ("returnColumn", bool(source.returned) and not (source.relation or source.source)),
    )
    used = next((at for at, (_, given) in enumerate(order) if given), len(order) - 1)
    return list(order[used:])


def _values(lines: Sequence[str]) -> list[str]:
    """Return the lines of a custom list, trimmed and without blank ones."""
    values: list[str] = []
    for line in lines:
        value = line.strip()
        if not value:
            continue
        if any(sign in value for sign in "\n\r"):
            raise ToolRefusedError(
                f"The value {value!r} holds a line break. Give each value on its own. "
                "Nothing was changed."
            )
        bars = len(re.findall(r"(?<!\\)(?:\\\\)*\|", value))
        if bars > 1:
            raise ToolRefusedError(
                f"The value {value!r} holds more than one '|', which divides what is shown from "
                "what is kept. Write a '|' that belongs to the text as '\\|'. Nothing was changed."
            )
        values.append(value)
    return values


def _set_columns(fields: Fields, source: ValueListSource, table: DbTable | None) -> None:
    """Set the shown and stored columns, as numbered columns and bit masks."""
    display = list(dict.fromkeys(_columns(source.display, table)))
    returned = list(dict.fromkeys(_columns(source.returned, table)))
    columns = list(dict.fromkeys([*display, *returned]))
    if not columns:
        raise ToolRefusedError(
            "A value list from a table needs a 'displayColumn'. Nothing was changed."
        )
    if len(columns) > _MOST_COLUMNS:
        raise ToolRefusedError(
            f"A value list has {_MOST_COLUMNS} columns at most, and these are {len(columns)}: "
            f"{', '.join(columns)}. Nothing was changed."
        )
    for number, column in enumerate(columns, 1):
        insert_member(fields, f"dataProviderID{number}", column)
    mask = _mask(columns, display or returned)
    insert_member(fields, "showDataProviders", mask)
    insert_member(fields, "returnDataProviders", _mask(columns, returned) if returned else mask)
    if source.separator:
        insert_member(fields, "separator", source.separator)
    if sort := _sort(source.sort, columns[0], table):
        insert_member(fields, "sortOptions", sort)


def _mask(columns: Sequence[str], meant: Sequence[str]) -> int:
    return sum(1 << at for at, column in enumerate(columns) if column in meant)


def _columns(columns: Sequence[str], table: DbTable | None) -> list[str]:
    """Return the names of columns as the table spells them."""
    names = [name.strip() for listed in columns for name in listed.split(",") if name.strip()]
    if table is None:
        return names
    exact_names: list[str] = []
    for name in names:
        column = table.column(name)
        if column is None:
            available = ", ".join(candidate.name for candidate in table.columns)
            raise ToolRefusedError(
                f"Column '{name}' not found in table '{table.name}'. Its columns: {available}. "
                "Nothing was changed."
            )
        exact_names.append(column.name)
    return exact_names


def _sort(text: str, column: str, table: DbTable | None) -> str:
    text = text.strip()
    if not text or text.upper() == "NONE":
        return ""
    if text.upper() in {"ASC", "DESC"}:
        return f"{column} {text.lower()}"
    for part in text.split(","):
        name, _, order = part.strip().partition(" ")
        if order.strip().lower() not in {"", "asc", "desc"}:
            raise ToolRefusedError(
                f"The sort {text!r} is none. Write it as 'name asc, city desc'. "
                "Nothing was changed."
            )
        if table is not None and "." not in name:
            _columns([name], table)
    return text


def _table_of_relation(call: ServoyCall, chain: str) -> DbTable | None:
    """Return the foreign table of a relation, or of a chain of relations."""
    source = ""
    for name in chain.split("."):
        relations = call.workspace.find_objects("relation", name)
        if not relations:
            raise ToolRefusedError(f"Relation '{name}' not found. Nothing was changed.")
        primary, foreign = ends_of(relations[0].fields)
        if source and primary != source:
            raise ToolRefusedError(
                f"The relations of '{chain}' do not follow each other: '{name}' begins at "
                f"{primary} and not at {source}. Nothing was changed."
            )
        source = foreign
    return call.databases.column_table(source)


def _method(call: ServoyCall, name: str) -> tuple[str, str]:
    """Return what is stored for a method, its UUID or else its name, and a note."""
    if _UUID.fullmatch(name):
        return name.upper(), ""
    parts = _METHOD_NAME.fullmatch(name)
    if parts is None:
        raise ToolRefusedError(
            f"'{name}' names no method. Write it as 'scopes.globals.getCountries'. "
            "Nothing was changed."
        )
    scope, method = parts[1], parts[2]
    pattern = re.compile(
        rf'uuid:"([0-9A-Fa-f-]{{36}})"[^/]*?\*/\s*function\s+{re.escape(method)}\s*\('
    )
    for solution in call.workspace.scope:
        path = solution.folder / f"{scope}.js"
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if match := pattern.search(text):
            return match[1], ""
    whole = name if name.startswith("scopes.") else f"scopes.{name}"
    return whole, f"No method {whole} was found in the workspace; its name was stored."


def set_properties(call: ServoyCall, fields: Fields, properties: Mapping[str, Any]) -> list[str]:
    """Set the given properties and keep the others. Returns the names of the changed ones.

    Raises:
        ToolRefusedError: A property is unknown or has an invalid value.
    """
    check_properties(properties, PROPERTIES)
    before: dict[str, Any] = as_json(fields)
    for name, value in properties.items():
        _set_property(call, fields, name, value)
    after: dict[str, Any] = as_json(fields)
    return sorted(key for key in {*before, *after} if before.get(key) != after.get(key))


def _set_property(call: ServoyCall, fields: Fields, name: str, value: object) -> None:
    match name:
        case "addEmptyValue":
            set_property(fields, name, _empty_value(value), 0)
        case "useTableFilter":
            set_property(fields, name, boolean_property(name, value), False)
        case "realValueType" | "displayValueType":
            kind = value if type(value) is int else choice_property(name, value, _TYPES)
            set_property(fields, name, kind, 0)
        case "encapsulation":
            set_property(fields, name, choice_property(name, value, ENCAPSULATIONS), 0)
        case "fallbackValueList" | "fallbackValueListID":
            set_property(
                fields, "fallbackValueListID", _fallback(call, text_property(name, value)), ""
            )
        case "lazyLoading":
            _set_lazy(call, fields, on=boolean_property(name, value))
        case _:
            set_property(fields, name, text_property(name, value), "")


def _empty_value(value: object) -> Value:
    """Parse the value: 0 always, 1 never, 2 on creation."""
    if isinstance(value, bool):
        return 0 if value else 1
    if type(value) is int and value in {0, 1, 2}:
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return 0 if value.strip().lower() == "true" else 1
    return choice_property("addEmptyValue", value, _EMPTY)


def _fallback(call: ServoyCall, name: str) -> str:
    """Return the UUID of the named list."""
    if not name or _UUID.fullmatch(name):
        return name
    lists = call.workspace.find_objects("value list", name)
    if not lists:
        raise ToolRefusedError(f"Value list '{name}' not found. Nothing was changed.")
    return lists[0].uuid


def _set_lazy(call: ServoyCall, fields: Fields, *, on: bool) -> None:
    """Set the custom property `lazyLoading`, in a text or an object depending on the dialect."""
    custom = fields.get("customProperties")
    if isinstance(custom, Fields):
        set_property(custom, "lazyLoading", on, None)
        return
    if isinstance(custom, str) and custom.strip():
        other_lines = [
            line for line in custom.split(",\n") if not line.strip().startswith("lazyLoading:")
        ]
        lines = sorted([*other_lines, f"lazyLoading:{str(on).lower()}"])
        set_property(fields, "customProperties", ",\n".join(lines), "")
        return
    if call.target.style.dialect == "json":
        set_property(fields, "customProperties", Fields(lazyLoading=on), None)
    else:
        set_property(fields, "customProperties", f"lazyLoading:{str(on).lower()}", "")


_ORIGIN: Final = (
    *("customValues", "dataSource", "relationName", "serverName", "tableName", "valueListType"),
    *("dataProviderID1", "dataProviderID2", "dataProviderID3"),
    *("showDataProviders", "returnDataProviders"),
)
"""Properties that describe the source of the values."""


def update_value_list(
    call: ServoyCall,
    stored: StoredObject,
    source: ValueListSource,
    *,
    added: Sequence[str] = (),
    removed: Sequence[str] = (),
) -> tuple[list[str], str]:
    """Change a value list. Returns the names of what changed, and a note. Needs an exclusive call.

    The list keeps its UUID and everything that is not given.

    Raises:
        ToolRefusedError: A change is not possible; nothing was written.
    """
    stored = stored.editable()
    fields = stored.fields
    before: dict[str, Any] = as_json(fields)
    note = ""
    if added or removed:
        source, note = _with_values(fields, source, added, removed)
    source = _completed(fields, source)
    # All values may have been removed.
    if source.method or source.relation or source.source or source.values or removed:
        for key in _ORIGIN:
            fields.pop(key, None)
        note = f"{note} {_set_source(call, fields, source)}".strip()
    elif source.display or source.returned:
        raise ToolRefusedError(
            f"Value list '{stored.name}' takes its values from no table, so it has no columns. "
            "Give a 'dataSource' too. Nothing was changed."
        )
    else:
        if source.separator:
            set_property(fields, "separator", source.separator, "")
        if source.sort:
            set_property(fields, "sortOptions", _sort_of(call, fields, source.sort), "")
    set_properties(call, fields, source.properties)
    after: dict[str, Any] = as_json(fields)
    changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    if changed:
        save_object(call, stored, f"Value list '{stored.name}' changed: {', '.join(changed)}")
    return changed, note


def _sort_of(call: ServoyCall, fields: Fields, text: str) -> str:
    table = call.databases.column_table(source_in(fields)) if source_in(fields) else None
    return _sort(text, next(iter(columns_of(fields)), ""), table)


def _with_values(
    fields: Fields, source: ValueListSource, added: Sequence[str], removed: Sequence[str]
) -> tuple[ValueListSource, str]:
    """Return the source with values removed, then added at the end, and a note.

    A value that is removed and added, with another one to store, takes the new one.

    Raises:
        ToolRefusedError: The list has no custom values to add to or remove from, or a value to
            remove does not exist.
    """
    if type_of(fields) != CUSTOM or source.values:
        raise ToolRefusedError(
            "Values can be added to and removed from a list of custom values only, and not "
            "together with 'customValues'. Nothing was changed."
        )
    shown = {_display_key(line): line for line in values_of(fields)}
    missing = [value for value in removed if _display_key(value) not in shown]
    if missing:
        raise ToolRefusedError(
            f"The list has no value {', '.join(map(repr, missing))}. Its values: "
            f"{', '.join(values_of(fields))}. Nothing was changed."
        )
    drop = {_display_key(value) for value in removed}
    kept = [line for line in values_of(fields) if _display_key(line) not in drop]
    kept_keys = {_display_key(line) for line in kept}
    new = [value for value in added if _display_key(value) not in kept_keys]
    present = [shown[_display_key(value)] for value in added if _display_key(value) in kept_keys]
    note = f"Not added, since the list has it already: {', '.join(present)}." if present else ""
    return replace(source, values=[*kept, *new]), note


def _display_key(value: str) -> str:
    """Return the displayed text of a value, ignoring case; an escaped bar belongs to it."""
    return re.split(r"(?<!\\)\|", value, maxsplit=1)[0].strip().casefold()


def _completed(fields: Fields, source: ValueListSource) -> ValueListSource:
    """Complete the given source with the current values of the list if only a part changes."""
    has_origin = source.method or source.relation or source.source or source.values
    if has_origin or not (source.display or source.returned) or type_of(fields) != DATABASE:
        return source
    columns = columns_of(fields)
    shown_mask = number_of(fields, "showDataProviders")
    kept_mask = number_of(fields, "returnDataProviders")
    return replace(
        source,
        relation=text_of(fields, "relationName"),
        source="" if text_of(fields, "relationName") else source_in(fields),
        display=source.display or [c for at, c in enumerate(columns) if shown_mask >> at & 1],
        returned=source.returned or [c for at, c in enumerate(columns) if kept_mask >> at & 1],
        separator=source.separator or text_of(fields, "separator"),
        sort=source.sort or text_of(fields, "sortOptions"),
    )


def source_in(fields: Fields) -> str:
    """Return the data source of a list; older files name server and table separately."""
    server, table = text_of(fields, "serverName"), text_of(fields, "tableName")
    return text_of(fields, "dataSource") or (f"db:/{server}/{table}" if table else "")


def values_of(fields: Fields) -> list[str]:
    """Return the lines of a custom list."""
    text = text_of(fields, "customValues").replace("\r\n", "\n").replace("\r", "\n")
    return [line for line in text.split("\n") if line.strip()]


def type_of(fields: Fields) -> int:
    """Return its type: 0 custom, 1 database, 4 method."""
    return number_of(fields, "valueListType")


def columns_of(fields: Fields) -> list[str]:
    """Return its columns, in the order of their numbers."""
    names = [text_of(fields, f"dataProviderID{n}") for n in range(1, _MOST_COLUMNS + 1)]
    return [name for name in names if name]


def normalized_source(text: str) -> str:
    """Convert a data source to the form in files.

    Raises:
        ToolRefusedError: The text is not a data source.
    """
    source = parse_source(text)
    if not source:
        raise ToolRefusedError(
            f"Invalid dataSource format: '{text}'. Please provide format "
            "'db:/server_name/table_name' or 'server_name/table_name'"
        )
    return source
