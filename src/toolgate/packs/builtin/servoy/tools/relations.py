"""Tools for relations."""

from typing import Any

from toolgate import Context, tool
from toolgate.packs.builtin.servoy._answers import (
    Answer,
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
from toolgate.packs.builtin.servoy._relations import (
    Ends,
    create_relation,
    ends_of,
    not_found,
    pairs_of,
    update_relation,
    whole_source,
)
from toolgate.packs.builtin.servoy._workspace import Stored

READS = {"readOnlyHint": True, "openWorldHint": False}
WRITES = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
DELETES = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}


@tool(name="openRelation", annotations=WRITES, required=("name",))
@answering
def open_relation(
    context: Context,
    name: Text = "",
    primaryDataSource: Text = "",
    foreignDataSource: Text = "",
    primaryColumn: Text = "",
    foreignColumn: Text = "",
    properties: Properties = {},
) -> object:
    """Open a relation, or create it when there is none of that name and data sources are given.

    A relation says which records of a foreign table belong to a record of a primary table. It is
    created in the solution or module that is the present context (see setContext), as a left outer
    join that allows creating related records. Answers the relation and its file.

    Args:
        name: Name of the relation, such as orders_to_customers; no blanks.
        primaryDataSource: Where the relation starts, "server_name/table_name" or
            "db:/server_name/table_name". Needed to create one.
        foreignDataSource: The table whose records are found, in the same form; needed as well.
        primaryColumn: Column of the primary table, or a calculation of it, scopes.NAME.VARIABLE, or
            LITERAL: and an expression. The pair of keys is made when both columns are given.
        foreignColumn: Column of the foreign table with the same type.
        properties: joinType ("left outer" or "inner"), allowCreationRelatedRecords,
            allowParentDeleteWhenHavingRelatedRecords, deleteRelatedRecords (true or false),
            initialSort ("name asc, city desc"), encapsulation (public, hide or module), deprecated,
            comment. Those that are given are also changed in a relation that exists.
    """
    needed("The 'name' argument is required.", name)
    name = name.strip()
    desk = desk_of(context)
    if desk.workspace.find("relation", name):
        return _opened(desk, name, properties)
    if not primaryDataSource.strip() or not foreignDataSource.strip():
        raise not_found(desk, name)
    ends = Ends(
        primary=whole_source("primaryDataSource", primaryDataSource),
        foreign=whole_source("foreignDataSource", foreignDataSource),
        primary_column=primaryColumn.strip(),
        foreign_column=foreignColumn.strip(),
    )
    with desk.alone() as alone:
        if alone.workspace.find("relation", name):
            return _opened(alone, name, properties)
        create_relation(alone, name, ends, properties)
    after = desk.again()
    made = after.workspace.find("relation", name)
    text = f"Relation '{name}' created successfully (from {ends.primary} to {ends.foreign})"
    return _shown(after, text, made, _about_keys(desk, ends))


def _about_keys(desk: Desk, ends: Ends) -> str:
    notes: list[str] = []
    if bool(ends.primary_column) != bool(ends.foreign_column):
        missing = "foreignColumn" if ends.primary_column else "primaryColumn"
        notes.append(f"No pair of keys was made, since '{missing}' is missing.")
    elif not ends.primary_column:
        notes.append("No pair of keys was made, since no columns were given.")
    if not desk.databases.names:
        notes.append(
            "The workspace has no table definitions (.dbi), so tables and columns were not checked."
        )
    return " ".join(notes)


def _opened(desk: Desk, name: str, properties: dict[str, Any]) -> Answer:
    found = desk.workspace.find("relation", name)
    note = ""
    if properties:
        if away := elsewhere(desk, found):
            return answer(approval(desk, "update", "relation", away))
        with desk.alone() as alone:
            stored = alone.first(alone.workspace.find("relation", name))
            if stored is None:
                raise RefusedError(f"Relation '{name}' not found.")
            changed = update_relation(alone, stored, properties)
        desk = desk.again()
        found = desk.workspace.find("relation", name)
        note = f"Changed: {', '.join(changed)}." if changed else "Nothing had to be changed."
    return _shown(desk, f"Relation '{name}' opened in editor.", found, note)


def _shown(desk: Desk, text: str, found: list[Stored], note: str) -> Answer:
    for each in found:
        _ = each.fields  # one that cannot be read is not shown as if it were
    note = " ".join(
        each for each in (note, desk.open_editor([stored.path for stored in found])) if each
    )
    described = [_described(each) for each in found]
    return answer(
        text,
        note,
        *(where_is(desk, each) for each in found),
        structured={**described[0], "others": described[1:]} if described else {},
    )


def _listed(stored: Stored) -> dict[str, Any]:
    """One of many: all but the properties."""
    return {key: value for key, value in _described(stored).items() if key != "properties"}


def _described(stored: Stored) -> dict[str, Any]:
    primary, foreign = ends_of(stored.fields)
    return {
        **shown_as(stored),
        "primaryDataSource": primary,
        "foreignDataSource": foreign,
        "keys": pairs_of(stored.fields),
    }


@tool(name="listRelations", annotations=READS)
@answering
def list_relations(context: Context) -> object:
    """List the relations of the active solution, with the data sources that they connect."""
    desk = desk_of(context)
    active = desk.workspace.active
    return _list(desk, list(desk.workspace.objects("relation", active)), active.name)


@tool(name="getRelations", annotations=READS)
@answering
def get_relations(context: Context, scope: Text = "all") -> object:
    """List relations with the data sources and keys that they connect.

    Args:
        scope: "current" for those of the present context alone, "all" for those of the active
            solution and its modules.
    """
    desk = desk_of(context)
    found = scope_of(desk, "relation", scope)
    name = desk.target.name if scope.strip() == "current" else desk.workspace.active.name
    return _list(desk, found, name, detailed=True)


def _list(desk: Desk, found: list[Stored], solution: str, *, detailed: bool = False) -> Answer:
    good = sorted((each for each in found if each.read), key=lambda each: each.name)
    lines = [f"Relations in solution '{solution}':", ""]
    for number, each in enumerate(good, 1):
        primary, foreign = ends_of(each.fields)
        lines += [f"{number}. {each.name}", f"   Primary: {primary}", f"   Foreign: {foreign}"]
        if detailed:
            lines += [f"   Keys: {' and '.join(pairs_of(each.fields)) or 'none'}"]
        if each.solution != solution:
            lines.append(f"   In: {desk.label_of(each.solution)}")
    if not good:
        lines.append("No relations found.")
    structured = {"relations": [_listed(each) for each in good]}
    return answer("\n".join(lines), broken(found), structured=structured)


@tool(name="deleteRelation", annotations=DELETES, required=("name",))
@answering
def delete_relation(context: Context, name: Text = "") -> object:
    """Delete one relation of the present context. `undo` brings it back.

    Args:
        name: Name of the relation.
    """
    needed("The 'name' argument is required.", name)
    name = name.strip()
    with desk_of(context).alone() as desk:
        found = desk.workspace.find("relation", name)
        if not found:
            raise RefusedError(f"Relation '{name}' not found.", meant(desk, "relation", name))
        if away := elsewhere(desk, found):
            return answer(approval(desk, "delete", "relation", away))
        stored = desk.first(found)
        assert stored is not None
        delete(desk, "relation", [stored])
    return answer(f"Relation '{name}' deleted successfully.", _left_behind(desk, [stored]))


@tool(name="deleteRelations", annotations=DELETES, required=("names",))
@answering
def delete_relations(context: Context, names: Texts = []) -> object:
    """Delete relations of the present context: all that are found, or none.

    `undo` brings them back.

    Args:
        names: Names of the relations.
    """
    wanted = list(dict.fromkeys(each.strip() for each in names if each.strip()))
    needed("Error: 'names' parameter is required", *(wanted or [""]))
    with desk_of(context).alone() as desk:
        doomed: list[Stored] = []
        for name in wanted:
            found = desk.workspace.find("relation", name)
            if found and (away := elsewhere(desk, found)):
                return answer(approval(desk, "delete", "relation", away))
            stored = desk.first(found)
            doomed += [stored] if stored else []
        if doomed:
            delete(desk, "relation", doomed)
    gone = [each.name for each in doomed]
    missing = [name for name in wanted if name not in gone]
    lines = [f"Successfully deleted {len(gone)} relation(s): {', '.join(gone)}"] if gone else []
    lines += [f"Relations not found ({len(missing)}): {', '.join(missing)}"] if missing else []
    return answer("\n".join(lines), _left_behind(desk, doomed), is_error=not gone)


def _left_behind(desk: Desk, gone: list[Stored]) -> str:
    reports = (
        told(references_to(desk.workspace, "relation", each.name, "", each.path), each.name)
        for each in gone
    )
    return "\n".join(filter(None, reports))


@tool(name="renameRelation", annotations=WRITES, required=("oldName", "newName"))
@answering
def rename_relation(context: Context, oldName: Text = "", newName: Text = "") -> object:
    """Rename a relation and its file together, and tell what still uses the old name.

    Scripts and forms are not changed: the answer lists each line that uses the old name.

    Args:
        oldName: Present name of the relation.
        newName: Its new name; no blanks, and no relation of the solution or a module has it.
    """
    needed("Both oldName and newName are required", oldName, newName)
    old, new = oldName.strip(), newName.strip()
    with desk_of(context).alone() as desk:
        renamed = rename(desk, "relation", old, new)
    if not isinstance(renamed, Renamed):
        return answer(renamed)
    return answer(
        f"Relation renamed successfully: '{old}' is now '{new}'.",
        told(renamed.references, old) or "Nothing else uses the old name.",
        structured={
            "path": str(renamed.path),
            "references": [
                {"path": each.path, "line": each.line, "text": each.text}
                for each in renamed.references
            ],
        },
    )
