"""Tools for value lists."""

from typing import Any

from toolgate import Context, tool
from toolgate.packs.builtin.servoy._answers import (
    Answer,
    Columns,
    Properties,
    Text,
    Texts,
    answer,
    answering,
    needed,
)
from toolgate.packs.builtin.servoy._call_context import Desk, desk_of
from toolgate.packs.builtin.servoy._errors import RefusedError
from toolgate.packs.builtin.servoy._objects import (
    Renamed,
    approval,
    broken,
    delete,
    elsewhere,
    meant,
    rename,
    scope_of,
    shown_as,
    where_is,
)
from toolgate.packs.builtin.servoy._references import references_to, told
from toolgate.packs.builtin.servoy._valuelists import (
    CUSTOM,
    DATABASE,
    METHOD,
    Wanted,
    columns_of,
    create_value_list,
    source_in,
    type_of,
    update_value_list,
    values_of,
    whole_source,
)
from toolgate.packs.builtin.servoy._workspace import Stored, text_of

READS = {"readOnlyHint": True, "openWorldHint": False}
WRITES = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
DELETES = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}

_SHOWN = 5
_TYPE_NAMES = {CUSTOM: "CUSTOM_VALUES", DATABASE: "DATABASE_VALUES", METHOD: "GLOBAL_METHOD"}


@tool(name="openValueList", annotations=WRITES, required=("name",))
@answering
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
    properties: Properties = {},
) -> object:
    r"""Open a value list, or create it when there is none of that name.

    A value list holds the choices of a field. Its values come from the first that is given of
    globalMethod, relationName, dataSource, customValues. It is created in the solution or module
    that is the present context (see setContext). Answers the value list and its file.

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
        properties: addEmptyValue (true, false or "on creation"), separator, sortOptions,
            useTableFilter, realValueType and displayValueType (text, integer, number or date),
            fallbackValueList (a name), lazyLoading, encapsulation (public, hide or module),
            deprecated, comment. Those that are given are also changed in a list that exists.
    """
    needed("The 'name' argument is required.", name)
    name = name.strip()
    desk = desk_of(context)
    if desk.workspace.find("value list", name):
        return _opened(desk, name, properties)
    from_table = not globalMethod.strip() and not relationName.strip() and dataSource.strip()
    wanted = Wanted(
        method=globalMethod.strip(),
        relation=relationName.strip(),
        source=whole_source(dataSource) if from_table else "",
        display=[displayColumn] if isinstance(displayColumn, str) else displayColumn,
        returned=[returnColumn] if isinstance(returnColumn, str) else returnColumn,
        values=customValues or values,
        separator=separator if separator.strip() else "",
        sort=sortOptions,
        properties=properties,
    )
    with desk.alone() as alone:
        if alone.workspace.find("value list", name):
            return _opened(alone, name, properties)
        note = create_value_list(alone, name, wanted)
    after = desk.again()
    made = after.workspace.find("value list", name)
    return _shown(after, f"Value list '{name}' created successfully", made, note)


def _opened(desk: Desk, name: str, properties: dict[str, Any]) -> Answer:
    found = desk.workspace.find("value list", name)
    note = ""
    if properties:
        if away := elsewhere(desk, found):
            return answer(approval(desk, "update", "value list", away))
        with desk.alone() as alone:
            stored = alone.first(alone.workspace.find("value list", name))
            if stored is None:
                raise RefusedError(f"Value list '{name}' not found.")
            changed = update_value_list(alone, stored, properties)
        desk = desk.again()
        found = desk.workspace.find("value list", name)
        note = f"Changed: {', '.join(changed)}." if changed else "Nothing had to be changed."
    return _shown(desk, f"Value list '{name}' opened in editor.", found, note)


def _shown(desk: Desk, text: str, found: list[Stored], note: str) -> Answer:
    for each in found:
        _ = each.fields  # one that cannot be read is not shown as if it were
    failed = desk.open_editor([stored.path for stored in found])
    described = [_described(each) for each in found]
    return answer(
        text,
        " ".join(filter(None, (note, failed))),
        *(where_is(desk, each) for each in found),
        structured={**described[0], "others": described[1:]} if described else {},
    )


def _listed(stored: Stored) -> dict[str, Any]:
    """One of many: all but the properties."""
    return {key: value for key, value in _described(stored).items() if key != "properties"}


def _described(stored: Stored) -> dict[str, Any]:
    fields = stored.fields
    kind = type_of(fields)
    described = {**shown_as(stored), "type": _TYPE_NAMES.get(kind, f"type={kind}")}
    if kind == CUSTOM:
        described["values"] = values_of(fields)
    elif kind == DATABASE:
        described["columns"] = columns_of(fields)
        described["dataSource"] = source_in(fields)
        described["relationName"] = text_of(fields, "relationName")
    return described


@tool(name="listValueLists", annotations=READS)
@answering
def list_value_lists(context: Context) -> object:
    """List the value lists of the active solution, with where their values come from."""
    desk = desk_of(context)
    active = desk.workspace.active
    return _list(desk, list(desk.workspace.objects("value list", active)), active.name)


@tool(name="getValueLists", annotations=READS)
@answering
def get_value_lists(context: Context, scope: Text = "all") -> object:
    """List value lists with where their values come from.

    Args:
        scope: "current" for those of the present context alone, "all" for those of the active
            solution and its modules.
    """
    desk = desk_of(context)
    found = scope_of(desk, "value list", scope)
    name = desk.target.name if scope.strip() == "current" else desk.workspace.active.name
    return _list(desk, found, name)


def _list(desk: Desk, found: list[Stored], solution: str) -> Answer:
    good = sorted((each for each in found if each.read), key=lambda each: each.name)
    lines = [f"Value lists in solution '{solution}':", ""]
    for number, each in enumerate(good, 1):
        lines += _lines(number, each)
        if each.solution != solution:
            lines.append(f"   In: {desk.label_of(each.solution)}")
    if not good:
        lines.append("No value lists found.")
    structured = {"valueLists": [_listed(each) for each in good]}
    return answer("\n".join(lines), broken(found), structured=structured)


def _lines(number: int, stored: Stored) -> list[str]:
    fields = stored.fields
    kind = type_of(fields)
    head = f"{number}. {stored.name} ({_TYPE_NAMES.get(kind, f'type={kind}')})"
    match kind:
        case 0:
            values = values_of(fields)
            rest = len(values) - _SHOWN
            more = f" (and {rest} more...)" if rest > 0 else ""
            return [head, f"   Values: {', '.join(values[:_SHOWN])}{more}"]
        case 1:
            relation = text_of(fields, "relationName")
            origin = f"Relation: {relation}" if relation else f"DataSource: {source_in(fields)}"
            return [head, f"   {origin}", f"   Column: {', '.join(columns_of(fields))}"]
        case _:
            return [head]


@tool(name="deleteValueList", annotations=DELETES, required=("name",))
@answering
def delete_value_list(context: Context, name: Text = "") -> object:
    """Delete one value list of the present context. `undo` brings it back.

    Args:
        name: Name of the value list.
    """
    needed("The 'name' argument is required.", name)
    name = name.strip()
    with desk_of(context).alone() as desk:
        found = desk.workspace.find("value list", name)
        if not found:
            raise RefusedError(f"Value list '{name}' not found.", meant(desk, "value list", name))
        if away := elsewhere(desk, found):
            return answer(approval(desk, "delete", "value list", away))
        stored = desk.first(found)
        assert stored is not None
        delete(desk, "value list", [stored])
    return answer(f"Value list '{name}' deleted successfully.", _left_behind(desk, [stored]))


@tool(name="deleteValueLists", annotations=DELETES, required=("names",))
@answering
def delete_value_lists(context: Context, names: Texts = []) -> object:
    """Delete value lists of the present context: all that are found, or none.

    `undo` brings them back.

    Args:
        names: Names of the value lists.
    """
    wanted = list(dict.fromkeys(each.strip() for each in names if each.strip()))
    needed("Error: 'names' parameter is required", *(wanted or [""]))
    with desk_of(context).alone() as desk:
        doomed: list[Stored] = []
        for name in wanted:
            found = desk.workspace.find("value list", name)
            if found and (away := elsewhere(desk, found)):
                return answer(approval(desk, "delete", "value list", away))
            stored = desk.first(found)
            doomed += [stored] if stored else []
        if doomed:
            delete(desk, "value list", doomed)
    gone = [each.name for each in doomed]
    missing = [name for name in wanted if name not in gone]
    lines = [f"Successfully deleted {len(gone)} value list(s): {', '.join(gone)}"] if gone else []
    lines += [f"Value lists not found ({len(missing)}): {', '.join(missing)}"] if missing else []
    return answer("\n".join(lines), _left_behind(desk, doomed), is_error=not gone)


def _left_behind(desk: Desk, gone: list[Stored]) -> str:
    reports: list[str] = []
    for each in gone:
        uuid = each.uuid if each.read else ""
        found = references_to(desk.workspace, "value list", each.name, uuid, each.path)
        reports.append(told(found, each.name))
    return "\n".join(filter(None, reports))


@tool(name="renameValueList", annotations=WRITES, required=("oldName", "newName"))
@answering
def rename_value_list(context: Context, oldName: Text = "", newName: Text = "") -> object:
    """Rename a value list and its file together, and tell what still uses the old name.

    Forms refer to value lists by their identity and need no change. Scripts use the name: the
    answer lists each line that has the old one.

    Args:
        oldName: Present name of the value list.
        newName: Its new name; no blanks, and no value list of the solution or a module has it.
    """
    needed("Both oldName and newName are required", oldName, newName)
    old, new = oldName.strip(), newName.strip()
    with desk_of(context).alone() as desk:
        renamed = rename(desk, "value list", old, new)
    if not isinstance(renamed, Renamed):
        return answer(renamed)
    return answer(
        f"Value list renamed successfully: '{old}' is now '{new}'.",
        told(renamed.references, old) or "Nothing else uses the old name.",
        structured={
            "path": str(renamed.path),
            "references": [
                {"path": each.path, "line": each.line, "text": each.text}
                for each in renamed.references
            ],
        },
    )
