"""Tools for value lists."""

from dataclasses import replace
from typing import Any

from toolgate import Context, tool
from toolgate.packs.builtin.servoy._answers import (
    Answer,
    Columns,
    Properties,
    Text,
    Texts,
    refusals_as_answers,
    require_text,
)
from toolgate.packs.builtin.servoy._call_context import ServoyCall, servoy_call
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy._object_answers import (
    change_note,
    delete_one,
    delete_several,
    list_objects,
    open_existing,
    rename,
    show_objects,
)
from toolgate.packs.builtin.servoy.files.workspace import StoredObject, text_of
from toolgate.packs.builtin.servoy.objects.changes import (
    object_json,
    objects_in_scope,
)
from toolgate.packs.builtin.servoy.objects.value_lists import (
    CUSTOM,
    DATABASE,
    METHOD,
    ValueListSource,
    columns_of,
    create_value_list,
    normalized_source,
    source_in,
    type_of,
    update_value_list,
    values_of,
)

READS = {"readOnlyHint": True, "openWorldHint": False}
WRITES = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
DELETES = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}

_SHOWN = 5
"""Values that are shown (chosen: one line)."""
_TYPE_NAMES = {CUSTOM: "CUSTOM_VALUES", DATABASE: "DATABASE_VALUES", METHOD: "GLOBAL_METHOD"}


@tool(name="openValueList", annotations=WRITES, required=("name",))
@refusals_as_answers
def open_value_list(
    context: Context,
    name: Text = "",
    customValues: Texts = [],
    values: Texts = [],
    dataSource: Text = "",
    relationName: Text = "",
    globalMethod: Text = "",
    displayColumn: Columns = "",
    returnColumn: Columns = "",
    separator: Text = "",
    sortOptions: Text = "",
    addValues: Texts = [],
    removeValues: Texts = [],
    properties: Properties = {},
) -> object:
    r"""Open a value list, create it, or change it; it keeps its identity when it is changed.

    One that is not there is created. Of one that exists, only the name is needed to see it;
    whatever else is given replaces what it has. A value list holds the choices of a field. Its
    values come from the first that is given of globalMethod, relationName, dataSource,
    customValues. It is created in the solution or module that is the present context (see
    setContext). Answers the value list and its file.

    Args:
        name: Name of the value list, such as order_status; no blanks.
        customValues: The values themselves, in their order. "display|real" shows one text and keeps
            another; a "|" that belongs to the text is written "\|".
        values: Older name of customValues.
        dataSource: The table with the values, "server_name/table_name" or
            "db:/server_name/table_name".
        relationName: A relation whose records are the values, "a.b" for a chain.
        globalMethod: A method that gives the values, "scopes.globals.getCountries", or its UUID.
        displayColumn: The column that is shown, or up to three.
        returnColumn: The column whose value is kept; the same as displayColumn when not given.
        separator: Between several columns that are shown; a blank when not given.
        sortOptions: "name asc, city desc".
        addValues: Values to put at the end of a list of custom values that exists.
        removeValues: Values to take out of one.
        properties: addEmptyValue (true, false or "on creation"), separator, sortOptions,
            useTableFilter, realValueType and displayValueType (text, integer, number or date),
            fallbackValueList (a name), lazyLoading, encapsulation (public, hide or module),
            deprecated, comment. Those that are given are also changed in a list that exists.
    """
    require_text("The 'name' argument is required.", name)
    name = name.strip()
    call = servoy_call(context)
    from_table = not globalMethod.strip() and not relationName.strip() and dataSource.strip()
    source = ValueListSource(
        method=globalMethod.strip(),
        relation=relationName.strip(),
        source=normalized_source(call.databases.source_of(dataSource.strip()) or dataSource)
        if from_table
        else "",
        display=_columns(displayColumn),
        returned=_columns(returnColumn),
        values=customValues or values,
        separator=separator if separator.strip() else "",
        sort=sortOptions,
        properties=properties,
    )
    ignored = _about_values(customValues, values)
    if call.workspace.find_objects("value list", name):
        return _opened(call, name, source, addValues, removeValues, ignored)
    if removeValues:
        raise ToolRefusedError(f"Value list '{name}' not found. Nothing was changed.")
    source = replace(source, values=[*source.values, *addValues])
    with call.exclusive() as alone:
        if alone.workspace.find_objects("value list", name):
            return _opened(alone, name, source, [], [], ignored)
        note = f"{create_value_list(alone, name, source)} {ignored}".strip()
    after = call.reloaded()
    created = after.workspace.find_objects("value list", name)
    text = f"Value list '{name}' created successfully"
    return show_objects(after, text, created, _described, note)


def _about_values(custom: list[str], older: list[str]) -> str:
    is_ignored = custom and older and custom != older
    return "Not used, since 'customValues' was given: values." if is_ignored else ""


def _columns(given: str | list[str]) -> list[str]:
    columns = [given] if isinstance(given, str) else given
    return [column for column in columns if column.strip()]


def _opened(
    call: ServoyCall,
    name: str,
    source: ValueListSource,
    added: list[str],
    removed: list[str],
    ignored: str,
) -> Answer:
    def update(alone: ServoyCall, stored: StoredObject) -> str:
        changed, note = update_value_list(alone, stored, source, added=added, removed=removed)
        return f"{change_note(changed)} {note}".strip()

    has_changes = source != ValueListSource(properties={}) or added or removed
    return open_existing(
        call, "value list", name, _described, update if has_changes else None, ignored
    )


def _described(stored: StoredObject) -> dict[str, Any]:
    fields = stored.fields
    kind = type_of(fields)
    described = {**object_json(stored), "type": _TYPE_NAMES.get(kind, f"type={kind}")}
    if kind == CUSTOM:
        described["values"] = values_of(fields)
    elif kind == DATABASE:
        described["columns"] = columns_of(fields)
        described["dataSource"] = source_in(fields)
        described["relationName"] = text_of(fields, "relationName")
    return described


@tool(name="listValueLists", annotations=READS)
@refusals_as_answers
def list_value_lists(context: Context) -> object:
    """List the value lists of the active solution, with where their values come from."""
    call = servoy_call(context)
    active = call.workspace.active
    lists = list(call.workspace.objects("value list", active))
    return list_objects(call, "value list", lists, active.name, _lines, _described)


@tool(name="getValueLists", annotations=READS)
@refusals_as_answers
def get_value_lists(context: Context, scope: Text = "all") -> object:
    """List value lists with where their values come from.

    Args:
        scope: "current" for those of the present context alone, "all" for those of the active
            solution and its modules.
    """
    call = servoy_call(context)
    lists = objects_in_scope(call, "value list", scope)
    name = call.target.name if scope.strip() == "current" else call.workspace.active.name
    return list_objects(call, "value list", lists, name, _lines, _described)


def _lines(stored: StoredObject) -> list[str]:
    fields = stored.fields
    kind = type_of(fields)
    head = f"{stored.name} ({_TYPE_NAMES.get(kind, f'type={kind}')})"
    match kind:
        case 0:
            values = values_of(fields)
            rest = len(values) - _SHOWN
            more = f" (and {rest} more...)" if rest > 0 else ""
            return [head, f"Values: {', '.join(values[:_SHOWN])}{more}"]
        case 1:
            relation = text_of(fields, "relationName")
            origin = f"Relation: {relation}" if relation else f"DataSource: {source_in(fields)}"
            return [head, origin, f"Column: {', '.join(columns_of(fields))}"]
        case _:
            return [head]


@tool(name="deleteValueList", annotations=DELETES, required=("name",))
@refusals_as_answers
def delete_value_list(context: Context, name: Text = "") -> object:
    """Delete one value list of the present context. `undo` brings it back.

    Args:
        name: Name of the value list.
    """
    return delete_one(context, "value list", name)


@tool(name="deleteValueLists", annotations=DELETES, required=("names",))
@refusals_as_answers
def delete_value_lists(context: Context, names: Texts = []) -> object:
    """Delete value lists of the present context: all that are found, or none.

    `undo` brings them back.

    Args:
        names: Names of the value lists.
    """
    return delete_several(context, "value list", names)


@tool(name="renameValueList", annotations=WRITES, required=("oldName", "newName"))
@refusals_as_answers
def rename_value_list(context: Context, oldName: Text = "", newName: Text = "") -> object:
    """Rename a value list and its file together, and tell what still uses the old name.

    Forms refer to value lists by their identity and need no change. Scripts use the name: the
    answer lists each line that has the old one.

    Args:
        oldName: Present name of the value list.
        newName: Its new name; no blanks, and no value list of the solution or a module has it.
    """
    return rename(context, "value list", oldName, newName)
