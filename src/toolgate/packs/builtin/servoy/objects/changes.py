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

__all__ = [
    "ENCAPSULATIONS",
    "RenameResult",
    "approval_question",
    "boolean_property",
    "capital",
    "check_properties",
    "choice_property",
    "create_object",
    "delete_objects",
    "describe_object",
    "name_suggestion",
    "new_uuid",
    "object_json",
    "object_outside_target",
    "objects_in_scope",
    "refuse_name",
    "rename_object",
    "save_object",
    "set_property",
    "text_property",
    "unreadable_files",
]

ENCAPSULATIONS: Final[dict[str, Value]] = {"public": 0, "hide": 1, "module": 2}
"""Who sees an object: everybody, no script of others, its module alone."""


def new_uuid() -> str:
    """An identity for a new object, as Servoy writes it."""
    return str(uuids.uuid4()).upper()


def capital(kind: Kind) -> str:
    """The kind as a sentence begins with it: `Value list`."""
    return kind[0].upper() + kind[1:]


def refuse_name(
    call: ServoyCall, kind: Kind, name: str, *, but: StoredObject | None = None
) -> None:
    """Refuse a name that no object can have, or that another one has.

    Args:
        call: Where to look.
        kind: What is to be called so.
        name: The name.
        but: The object that is renamed; it may keep its name in another case.

    Raises:
        ToolRefusedError: With the reason.
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
    """The object if it is not in the solution that is changed; None if one of them is."""
    target = call.target.name
    return None if any(stored.solution == target for stored in objects) else objects[0]


def approval_question(call: ServoyCall, verb: str, kind: Kind, stored: StoredObject) -> str:
    """The question before something outside the present context is changed."""
    context = call.context_of(stored.solution)
    return (
        f"To {verb} this {kind}, I need to switch to {stored.solution}. Do you want to proceed? "
        f'[If yes, I will: setContext({{"context": "{context}"}}) then {verb}]'
    )


def create_object(call: ServoyCall, kind: Kind, fields: Fields) -> Path:
    """Write a new object into the solution that is changed.

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
    """Write an object whose properties were changed.

    Raises:
        ToolRefusedError: Nothing was written.
    """
    assert stored.file is not None
    after = encode_file(stored.file)
    if after != stored.content:
        changes = [FileChange(path=stored.path, before=stored.content, after=after)]
        call.workspace.journal.apply(summary, changes)


def delete_objects(call: ServoyCall, kind: Kind, doomed: Sequence[StoredObject]) -> None:
    """Remove the files of objects, all or none.

    Raises:
        ToolRefusedError: Nothing was removed.
    """
    names = ", ".join(stored.name for stored in doomed)
    changes = [FileChange(path=stored.path, before=stored.content, after=None) for stored in doomed]
    call.workspace.journal.apply(f"{capital(kind)} deleted: {names}", changes)


@dataclass(frozen=True, kw_only=True)
class RenameResult:
    """What a renaming has done."""

    path: Path
    """The new file."""

    references: list[Reference]
    """Lines that use the old name."""


def rename_object(call: ServoyCall, kind: Kind, old: str, new: str) -> RenameResult | str:
    """Rename an object and its file together; or what to ask first, where it is elsewhere.

    Raises:
        ToolRefusedError: There is no such object, or the new name is not allowed.
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
    # On a file system without case the new file would be the old one.
    changes = [gone, here] if path.name.casefold() == stored.path.name.casefold() else [here, gone]
    call.workspace.journal.apply(f"{capital(kind)} '{old}' renamed to '{new}'", changes)
    return RenameResult(path=path, references=references_to(call.workspace, kind, old, "", path))


def name_suggestion(call: ServoyCall, kind: Kind, name: str) -> str:
    """A question for what was perhaps meant; empty where nothing is near."""
    near = call.workspace.find_ignoring_case(kind, name)
    return f"Did you mean '{near.name}'? Names differ by case." if near else ""


def objects_in_scope(call: ServoyCall, kind: Kind, scope: str) -> list[StoredObject]:
    """The objects of a scope: `current` or `all`.

    Raises:
        ToolRefusedError: It is another word.
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
    """What cannot be read of objects; empty where all can."""
    lines = [f"- {stored.problem}" for stored in objects if stored.problem]
    return "\n".join(["These files cannot be read and are left out:", *lines]) if lines else ""


def describe_object(call: ServoyCall, stored: StoredObject) -> str:
    """An object and its path, as text: the file itself is the shortest true description."""
    text = stored.content.decode("utf-8", "replace").lstrip("\ufeff").replace("\r\n", "\n")
    return f"{stored.path} ({call.label_of(stored.solution)})\n{text}"


def object_json(stored: StoredObject) -> dict[str, Any]:
    """An object and its path, for programs."""
    return {
        "name": stored.name,
        "solution": stored.solution,
        "path": str(stored.path),
        "properties": as_json(stored.fields),
    }


def set_property(fields: Fields, key: str, value: Value, default: Value) -> None:
    """Give a property a value; one that is the default is left out, one that is there stays."""
    if fields.get(key, default) == value:
        return
    if value == default:
        fields.pop(key, None)
    else:
        insert_member(fields, key, value)


def boolean_property(name: str, value: object) -> bool:
    """A property that is yes or no.

    Raises:
        ToolRefusedError: It is neither.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise ToolRefusedError(f"The property '{name}' is {value!r}. It has to be true or false.")


def text_property(name: str, value: object) -> str:
    """A property that is a text; null and blanks are none.

    Raises:
        ToolRefusedError: It is something else.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    raise ToolRefusedError(f"The property '{name}' is {value!r}. It has to be a text.")


def choice_property(name: str, value: object, allowed: Mapping[str, Value]) -> Value:
    """A property that is one of some words.

    Raises:
        ToolRefusedError: It is none of them.
    """
    key = value.strip().lower() if isinstance(value, str) else ""
    if key not in allowed:
        raise ToolRefusedError(
            f"The property '{name}' is {value!r}. Allowed: {', '.join(allowed)}."
        )
    return allowed[key]


def check_properties(properties: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Refuse properties that there are not.

    Raises:
        ToolRefusedError: One is unknown.
    """
    for name in properties:
        if name not in allowed:
            raise ToolRefusedError(
                f"There is no property '{name}'. Allowed: {', '.join(allowed)}. "
                "Nothing was changed."
            )
