"""Shows, lists, deletes and renames relations and value lists, and answers what was done."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from toolgate import Context
from toolgate.packs.builtin.servoy._answers import Answer, answer, require_text
from toolgate.packs.builtin.servoy._call_context import ServoyCall, servoy_call
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.files.references import format_references, references_to
from toolgate.packs.builtin.servoy.files.workspace import Kind, StoredObject
from toolgate.packs.builtin.servoy.objects.changes import (
    RenameResult,
    approval_question,
    capital,
    delete_objects,
    describe_object,
    name_suggestion,
    object_outside_target,
    rename_object,
    unreadable_files,
)

Described = Callable[[StoredObject], dict[str, Any]]
"""Returns an object as JSON."""

_LISTS: Final[dict[Kind, str]] = {"relation": "relations", "value list": "valueLists"}
"""The names of lists in structured content."""


def open_existing(
    call: ServoyCall,
    kind: Kind,
    name: str,
    described: Described,
    update: Callable[[ServoyCall, StoredObject], str] | None,
    note: str = "",
) -> Answer:
    """Answer an object that exists, after a change if there is one.

    Args:
        call: The context.
        kind: The kind of object.
        name: Its name.
        described: Describes it.
        update: Changes it in an exclusive call, and returns a note; None: nothing is changed.
        note: What of the request was not used; empty: all of it was.

    Raises:
        ToolRefusedError: It cannot be changed like this; nothing was changed.
    """
    objects = call.workspace.find_objects(kind, name)
    if update is not None:
        if outside := object_outside_target(call, objects):
            return answer(approval_question(call, "update", kind, outside))
        with call.exclusive() as alone:
            stored = alone.preferred(alone.workspace.find_objects(kind, name))
            if stored is None:
                raise ToolRefusedError(f"{capital(kind)} '{name}' not found.")
            note = f"{update(alone, stored)} {note}".strip()
        call = call.reloaded()
        objects = call.workspace.find_objects(kind, name)
    return show_objects(
        call, f"{capital(kind)} '{name}' opened in editor.", objects, described, note
    )


def change_note(changed: Sequence[str]) -> str:
    """Return a sentence about what was changed."""
    return f"Changed: {', '.join(changed)}." if changed else "Nothing had to be changed."


def show_objects(
    call: ServoyCall, text: str, objects: list[StoredObject], described: Described, note: str
) -> Answer:
    """Open objects in the editor, and answer them with their files."""
    for stored in objects:
        _ = stored.fields  # raises if it cannot be read
    failed = call.open_editor([stored.path for stored in objects])
    first, *others = [described(stored) for stored in objects] or [{}]
    return answer(
        text,
        " ".join(filter(None, (note, failed))),
        *(describe_object(call, stored) for stored in objects),
        structured={**first, "others": others} if first else {},
    )


def list_objects(
    call: ServoyCall,
    kind: Kind,
    objects: list[StoredObject],
    solution: str,
    lines_of: Callable[[StoredObject], Sequence[str]],
    described: Described,
) -> Answer:
    """Answer a numbered list of objects.

    Args:
        call: The context.
        kind: The kind of object.
        objects: The objects; those whose file is unreadable are named below the list.
        solution: Name of the solution whose objects are listed.
        lines_of: Returns the name of an object and what the list says about it.
        described: Describes it.
    """
    readable = sorted((stored for stored in objects if stored.file), key=lambda stored: stored.name)
    lines = [f"{capital(kind)}s in solution '{solution}':", ""]
    for number, stored in enumerate(readable, 1):
        name, *details = lines_of(stored)
        lines += [f"{number}. {name}", *(f"   {detail}" for detail in details)]
        if stored.solution != solution:
            lines.append(f"   In: {call.label_of(stored.solution)}")
    if not readable:
        lines.append(f"No {kind}s found.")
    entries = [described(stored) for stored in readable]
    for entry in entries:
        del entry["properties"]  # too many for a list
    structured = {_LISTS[kind]: entries}
    return answer("\n".join(lines), unreadable_files(objects), structured=structured)


def delete_one(context: Context, kind: Kind, name: str) -> Answer:
    """Delete an object, and answer what still refers to it.

    Raises:
        ToolRefusedError: It does not exist; nothing was deleted.
    """
    require_text("The 'name' argument is required.", name)
    name = name.strip()
    with servoy_call(context).exclusive() as call:
        objects = call.workspace.find_objects(kind, name)
        if not objects:
            raise ToolRefusedError(
                f"{capital(kind)} '{name}' not found.", name_suggestion(call, kind, name)
            )
        if outside := object_outside_target(call, objects):
            return answer(approval_question(call, "delete", kind, outside))
        stored = call.preferred(objects)
        assert stored is not None
        delete_objects(call, kind, [stored])
    text = f"{capital(kind)} '{name}' deleted successfully."
    return answer(text, _left_behind(call, kind, [stored]))


def delete_several(context: Context, kind: Kind, names: Sequence[str]) -> Answer:
    """Delete all objects that are found, or none, and answer what still refers to them."""
    wanted = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    require_text("Error: 'names' parameter is required", *(wanted or [""]))
    with servoy_call(context).exclusive() as call:
        doomed: list[StoredObject] = []
        for name in wanted:
            objects = call.workspace.find_objects(kind, name)
            if objects and (outside := object_outside_target(call, objects)):
                return answer(approval_question(call, "delete", kind, outside))
            stored = call.preferred(objects)
            doomed += [stored] if stored else []
        if doomed:
            delete_objects(call, kind, doomed)
    gone = [stored.name for stored in doomed]
    missing = [name for name in wanted if name not in gone]
    lines = [f"Successfully deleted {len(gone)} {kind}(s): {', '.join(gone)}"] if gone else []
    if missing:
        lines.append(f"{capital(kind)}s not found ({len(missing)}): {', '.join(missing)}")
    return answer("\n".join(lines), _left_behind(call, kind, doomed), is_error=not gone)


def _left_behind(call: ServoyCall, kind: Kind, gone: Sequence[StoredObject]) -> str:
    reports: list[str] = []
    for stored in gone:
        # Forms refer to value lists by UUID, and to relations by name.
        uuid = stored.uuid if kind == "value list" and stored.file else ""
        references = references_to(call.workspace, kind, stored.name, uuid, stored.path)
        reports.append(format_references(references, stored.name))
    return "\n".join(filter(None, reports))


def rename(context: Context, kind: Kind, old_name: str, new_name: str) -> Answer:
    """Rename an object and its file, and answer the lines that use the old name."""
    require_text("Both oldName and newName are required", old_name, new_name)
    old, new = old_name.strip(), new_name.strip()
    with servoy_call(context).exclusive() as call:
        renamed = rename_object(call, kind, old, new)
    if not isinstance(renamed, RenameResult):
        return answer(renamed)
    return answer(
        f"{capital(kind)} renamed successfully: '{old}' is now '{new}'.",
        format_references(renamed.references, old) or "Nothing else uses the old name.",
        structured={
            "path": str(renamed.path),
            "references": [
                {"path": reference.path, "line": reference.line, "text": reference.text}
                for reference in renamed.references
            ],
        },
    )
