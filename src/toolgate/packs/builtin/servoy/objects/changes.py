"""Creates, changes, renames and deletes relations and value lists."""

import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from toolgate.packs.builtin.servoy._answers import as_json
from toolgate.packs.builtin.servoy._call_context import ServoyCall
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.files.notation import (
    Fields,
    ServoyFile,
    Value,
    encode_file,
    insert_member,
)
from toolgate.packs.builtin.servoy.files.references import Reference, references_to
from toolgate.packs.builtin.servoy.files.undo_log import FileChange
from toolgate.packs.builtin.servoy.files.workspace import KINDS, Kind, StoredObject
from toolgate.packs.builtin.servoy.objects.names import check_name

ENCAPSULATIONS: Final[dict[str, Value]] = {"public": 0, "hide": 1, "module": 2}
"""Who sees an object: everyone, no scripts of others, only its module."""


def new_uuid() -> str:
    """Create a UUID for a new object, as Servoy writes it."""
    return str(uuids.uuid4()).upper()


def capital(kind: Kind) -> str:
    """Return the kind with a capital letter: `Value list`."""
    return kind[0].upper() + kind[1:]


def refuse_name(
    call: ServoyCall, kind: Kind, name: str, *, but: StoredObject | None = None
) -> None:
    """Refuse a name that is invalid or taken.

    Args:
        call: The context to search.
        kind: The kind of object.
        name: The name.
        but: The object that is renamed; its own name in another case is allowed.

    Raises:
        ToolRefusedError: The name is invalid or taken.
    """
    if reason := check_name(kind, name):
        raise ToolRefusedError(
            f"A {kind} cannot be called '{name}': {reason}. Nothing was changed."
        )
    folded = name.casefold()
    for stored in call.workspace.objects_in_scope(kind):
        if stored.name.casefold() == folded and (but is None or stored.path != but.path):
            case = "" if stored.name == name else " (names are compared without case)"
            raise ToolRefusedError(
                f"There is a {kind} '{stored.name}' already, in the "
                f"{call.label_of(stored.solution)}{case}. Nothing was changed."
            )
    path = call.target.file_of(kind, name)
    is_own = but is not None and path.name.casefold() == but.path.name.casefold()
    if path.exists() and not is_own:
        raise ToolRefusedError(
            f"There is a file {call.workspace.display_path(path)} already. Nothing was changed."
        )


def object_outside_target(call: ServoyCall, objects: Sequence[StoredObject]) -> StoredObject | None:
    """Return the object if it is outside the solution to change; None if one of them is in it."""
    target = call.target.name
    return None if any(stored.solution == target for stored in objects) else objects[0]


def approval_question(call: ServoyCall, verb: str, kind: Kind, stored: StoredObject) -> str:
    """Return the question to ask before changing something outside the current context."""
    context = call.context_of(stored.solution)
    return (
        f"To {verb} this {kind}, I need to switch to {stored.solution}. Do you want to proceed? "
        f'[If yes, I will: setContext({{"context": "{context}"}}) then {verb}]'
    )


def create_object(call: ServoyCall, kind: Kind, fields: Fields) -> Path:
    """Write a new object into the solution to change.

    Raises:
        ToolRefusedError: Nothing was written.
    """
    solution = call.target
    name = str(fields["name"])
    path = solution.file_of(kind, name)
    file = ServoyFile(root=fields, style=solution.style)
    changes = [FileChange(path=path, before=None, after=encode_file(file))]
    call.workspace.journal.apply(f"{capital(kind)} '{name}' created", changes)
    return path


def save_object(call: ServoyCall, stored: StoredObject, summary: str) -> None:
    """Write an object with changed properties.

    Raises:
        ToolRefusedError: Nothing was written.
    """
    assert stored.file is not None
    after = encode_file(stored.file)
    if after != stored.content:
        changes = [FileChange(path=stored.path, before=stored.content, after=after)]
        call.workspace.journal.apply(summary, changes)


def delete_objects(call: ServoyCall, kind: Kind, doomed: Sequence[StoredObject]) -> None:
    """Delete the files of objects, all or none.

    Raises:
        ToolRefusedError: Nothing was deleted.
    """
    names = ", ".join(stored.name for stored in doomed)
    changes = [FileChange(path=stored.path, before=stored.content, after=None) for stored in doomed]
    call.workspace.journal.apply(f"{capital(kind)} deleted: {names}", changes)


@dataclass(frozen=True, kw_only=True)
class RenameResult:
    """Result of renaming an object."""

    path: Path
    """The new file."""

    references: list[Reference]
    """Lines that use the old name."""


def rename_object(call: ServoyCall, kind: Kind, old: str, new: str) -> RenameResult | str:
    """Rename an object and its file; or return the question to ask if it is in another solution.

    Raises:
        ToolRefusedError: The object does not exist, or the new name is not allowed.
    """
    objects = call.workspace.find_objects(kind, old)
    if not objects:
        raise ToolRefusedError(
            f"{capital(kind)} '{old}' not found.", name_suggestion(call, kind, old)
        )
    if outside := object_outside_target(call, objects):
        return approval_question(call, "rename", kind, outside)
    stored = call.preferred(objects)
    assert stored is not None
    stored = stored.editable()
    fields = stored.fields
    if old == new:
        raise ToolRefusedError(
            f"{capital(kind)} '{old}' has that name already. Nothing was changed."
        )
    refuse_name(call, kind, new, but=stored)
    fields["name"] = new
    path = stored.path.with_name(f"{new}{KINDS[kind][1]}")
    assert stored.file is not None
    gone = FileChange(path=stored.path, before=stored.content, after=None)
    here = FileChange(path=path, before=None, after=encode_file(stored.file))
    # On a case-insensitive file system the new file would be the old one.
    changes = [gone, here] if path.name.casefold() == stored.path.name.casefold() else [here, gone]
    call.workspace.journal.apply(f"{capital(kind)} '{old}' renamed to '{new}'", changes)
    return RenameResult(path=path, references=references_to(call.workspace, kind, old, "", path))


def name_suggestion(call: ServoyCall, kind: Kind, name: str) -> str:
    """Return a question with the name that was perhaps meant; empty if no name is similar."""
    near = call.workspace.find_ignoring_case(kind, name)
    return f"Did you mean '{near.name}'? Names differ by case." if near else ""


def objects_in_scope(call: ServoyCall, kind: Kind, scope: str) -> list[StoredObject]:
    """Return the objects of a scope: `current` or `all`.

    Raises:
        ToolRefusedError: The scope is unknown.
    """
    match scope.strip() or "all":
        case "current":
            return list(call.workspace.objects(kind, call.target))
        case "all":
            return call.workspace.objects_in_scope(kind)
        case _:
            raise ToolRefusedError(
                f"Error: Invalid scope value: '{scope}'. Must be one of: current, all"
            )


def unreadable_files(objects: Sequence[StoredObject]) -> str:
    """Return a list of the unreadable files of objects; empty if there are none."""
    lines = [f"- {stored.problem}" for stored in objects if stored.problem]
    return "\n".join(["These files cannot be read and are left out:", *lines]) if lines else ""


def describe_object(call: ServoyCall, stored: StoredObject) -> str:
    """Return an object's path and file as text, the shortest accurate description."""
    text = stored.content.decode("utf-8", "replace").lstrip("\ufeff").replace("\r\n", "\n")
    return f"{stored.path} ({call.label_of(stored.solution)})\n{text}"


def object_json(stored: StoredObject) -> dict[str, Any]:
    """Return an object and its path as JSON."""
    return {
        "name": stored.name,
        "solution": stored.solution,
        "path": str(stored.path),
        "properties": as_json(stored.fields),
    }


def set_property(fields: Fields, key: str, value: Value, default: Value) -> None:
    """Set a property. A changed value is deleted if it is the default; an equal one is kept."""
    if fields.get(key, default) == value:
        return
    if value == default:
        fields.pop(key, None)
    else:
        insert_member(fields, key, value)


def boolean_property(name: str, value: object) -> bool:
    """Parse a boolean property.

    Raises:
        ToolRefusedError: The value is not a boolean.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise ToolRefusedError(f"The property '{name}' is {value!r}. It has to be true or false.")


def text_property(name: str, value: object) -> str:
    """Parse a text property; null and blanks count as empty.

    Raises:
        ToolRefusedError: The value is not a text.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    raise ToolRefusedError(f"The property '{name}' is {value!r}. It has to be a text.")


def choice_property(name: str, value: object, allowed: Mapping[str, Value]) -> Value:
    """Parse a property with a fixed set of values.

    Raises:
        ToolRefusedError: The value is not one of them.
    """
    key = value.strip().lower() if isinstance(value, str) else ""
    if key not in allowed:
        raise ToolRefusedError(
            f"The property '{name}' is {value!r}. Allowed: {', '.join(allowed)}."
        )
    return allowed[key]


def check_properties(properties: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Refuse unknown properties.

    Raises:
        ToolRefusedError: A property is unknown.
    """
    for name in properties:
        if name not in allowed:
            raise ToolRefusedError(
                f"There is no property '{name}'. Allowed: {', '.join(allowed)}. "
                "Nothing was changed."
            )
