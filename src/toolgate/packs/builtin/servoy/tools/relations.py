"""Tools for relations."""

from typing import Any

from toolgate import Context, tool
from toolgate.packs.builtin.servoy._answers import (
    Answer,
    Keys,
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
from toolgate.packs.builtin.servoy.files.workspace import StoredObject
from toolgate.packs.builtin.servoy.objects.changes import (
    object_json,
    objects_in_scope,
)
from toolgate.packs.builtin.servoy.objects.relations import (
    KeyPair,
    RelationChange,
    RelationEnds,
    create_relation,
    ends_of,
    normalized_source,
    pairs_of,
    read_keys,
    relation_not_found,
    update_relation,
)

READS = {"readOnlyHint": True, "openWorldHint": False}
WRITES = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
DELETES = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}


@tool(name="openRelation", annotations=WRITES, required=("name",))
@refusals_as_answers
def open_relation(
    context: Context,
    name: Text = "",
    primaryDataSource: Text = "",
    foreignDataSource: Text = "",
    primaryColumn: Text = "",
    foreignColumn: Text = "",
    keys: Keys = [],
    properties: Properties = {},
) -> object:
    """Open a relation, create it, or change it; it keeps its identity when it is changed.

    One that is not there is created when data sources are given. Of one that exists, only the name
    is needed to see it; whatever else is given becomes its data source, keys or properties.

    A relation says which records of a foreign table belong to a record of a primary table. It is
    created in the solution or module that is the present context (see setContext), as a left outer
    join that allows creating related records. Answers the relation and its file.

    Args:
        name: Name of the relation, such as orders_to_customers; no blanks.
        primaryDataSource: Where the relation starts, "server_name/table_name" or
            "db:/server_name/table_name", or the table alone where only one server has it. Needed
            to create one.
        foreignDataSource: The table whose records are found, in the same form; needed as well.
        primaryColumn: Column of the primary table, or a calculation of it, scopes.NAME.VARIABLE, or
            LITERAL: and an expression. The pair of keys is made when both columns are given.
        foreignColumn: Column of the foreign table with the same type.
        keys: Several pairs, or one with an operator, instead of the two columns: objects with
            primaryColumn, foreignColumn and operator (=, >, <, >=, <=, !=, in, like, not like; "#"
            before it ignores case). All pairs that the relation is to have.
        properties: joinType ("left outer" or "inner"), allowCreationRelatedRecords,
            allowParentDeleteWhenHavingRelatedRecords, deleteRelatedRecords (true or false),
            initialSort ("name asc, city desc"), encapsulation (public, hide or module), deprecated,
            comment. Those that are given are also changed in a relation that exists.
    """
    require_text("The 'name' argument is required.", name)
    name = name.strip()
    call = servoy_call(context)
    pairs = read_keys(keys)
    change = RelationChange(
        primary=_source(call, "primaryDataSource", primaryDataSource),
        foreign=_source(call, "foreignDataSource", foreignDataSource),
        keys=pairs or None,
        pair=_one_pair(primaryColumn, foreignColumn, has_keys=bool(pairs)),
        properties=properties,
    )
    missing = "" if pairs else _about_missing_column(primaryColumn, foreignColumn)
    if call.workspace.find_objects("relation", name):
        return _opened(call, name, change, missing)
    if not primaryDataSource.strip() or not foreignDataSource.strip():
        raise relation_not_found(call, name)
    ends = RelationEnds(
        primary=change.primary,
        foreign=change.foreign,
        primary_column=primaryColumn.strip(),
        foreign_column=foreignColumn.strip(),
    )
    with call.exclusive() as alone:
        if alone.workspace.find_objects("relation", name):
            return _opened(alone, name, change, missing)
        create_relation(alone, name, ends, properties, pairs)
    after = call.reloaded()
    created = after.workspace.find_objects("relation", name)
    text = f"Relation '{name}' created successfully (from {ends.primary} to {ends.foreign})"
    return show_objects(after, text, created, _described, _about_keys(call, ends, pairs))


def _source(call: ServoyCall, side: str, text: str) -> str:
    """Return a data source; a table that only one server has needs no server."""
    if not text.strip():
        return ""
    whole = call.databases.source_of(text.strip())
    return normalized_source(side, whole or text)


def _one_pair(primary: str, foreign: str, *, has_keys: bool) -> KeyPair | None:
    if (primary.strip() or foreign.strip()) and has_keys:
        raise ToolRefusedError(
            "Give either 'keys' or 'primaryColumn' and 'foreignColumn'. Nothing was changed."
        )
    if not primary.strip() or not foreign.strip():
        return None
    return KeyPair(primary=primary.strip(), foreign=foreign.strip())


def _about_missing_column(primary: str, foreign: str) -> str:
    if bool(primary.strip()) == bool(foreign.strip()):
        return ""
    missing = "foreignColumn" if primary.strip() else "primaryColumn"
    return f"No pair of keys was made, since '{missing}' is missing."


def _about_keys(call: ServoyCall, ends: RelationEnds, keys: list[KeyPair]) -> str:
    notes: list[str] = []
    missing = _about_missing_column(ends.primary_column, ends.foreign_column)
    if not keys and missing:
        notes.append(missing)
    elif not keys and not ends.primary_column:
        notes.append("No pair of keys was made, since no columns were given.")
    if not call.databases.names:
        notes.append(
            "The workspace has no table definitions (.dbi), so tables and columns were not checked."
        )
    return " ".join(notes)


def _opened(call: ServoyCall, name: str, change: RelationChange, note: str) -> Answer:
    def update(alone: ServoyCall, stored: StoredObject) -> str:
        return change_note(update_relation(alone, stored, change))

    has_changes = change != RelationChange()
    return open_existing(call, "relation", name, _described, update if has_changes else None, note)


def _described(stored: StoredObject) -> dict[str, Any]:
    primary, foreign = ends_of(stored.fields)
    return {
        **object_json(stored),
        "primaryDataSource": primary,
        "foreignDataSource": foreign,
        "keys": pairs_of(stored.fields),
    }


@tool(name="listRelations", annotations=READS)
@refusals_as_answers
def list_relations(context: Context) -> object:
    """List the relations of the active solution, with the data sources that they connect."""
    call = servoy_call(context)
    active = call.workspace.active
    relations = list(call.workspace.objects("relation", active))
    return list_objects(call, "relation", relations, active.name, _lines, _described)


@tool(name="getRelations", annotations=READS)
@refusals_as_answers
def get_relations(context: Context, scope: Text = "all") -> object:
    """List relations with the data sources and keys that they connect.

    Args:
        scope: "current" for those of the present context alone, "all" for those of the active
            solution and its modules.
    """
    call = servoy_call(context)
    relations = objects_in_scope(call, "relation", scope)
    name = call.target.name if scope.strip() == "current" else call.workspace.active.name
    return list_objects(call, "relation", relations, name, _lines_with_keys, _described)


def _lines(stored: StoredObject) -> list[str]:
    primary, foreign = ends_of(stored.fields)
    return [stored.name, f"Primary: {primary}", f"Foreign: {foreign}"]


def _lines_with_keys(stored: StoredObject) -> list[str]:
    return [*_lines(stored), f"Keys: {' and '.join(pairs_of(stored.fields)) or 'none'}"]


@tool(name="deleteRelation", annotations=DELETES, required=("name",))
@refusals_as_answers
def delete_relation(context: Context, name: Text = "") -> object:
    """Delete one relation of the present context. `undo` brings it back.

    Args:
        name: Name of the relation.
    """
    return delete_one(context, "relation", name)


@tool(name="deleteRelations", annotations=DELETES, required=("names",))
@refusals_as_answers
def delete_relations(context: Context, names: Texts = []) -> object:
    """Delete relations of the present context: all that are found, or none.

    `undo` brings them back.

    Args:
        names: Names of the relations.
    """
    return delete_several(context, "relation", names)


@tool(name="renameRelation", annotations=WRITES, required=("oldName", "newName"))
@refusals_as_answers
def rename_relation(context: Context, oldName: Text = "", newName: Text = "") -> object:
    """Rename a relation and its file together, and tell what still uses the old name.

    Scripts and forms are not changed: the answer lists each line that uses the old name.

    Args:
        oldName: Present name of the relation.
        newName: Its new name; no blanks, and no relation of the solution or a module has it.
    """
    return rename(context, "relation", oldName, newName)
