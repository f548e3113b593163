"""What relations and value lists have in common: finding, naming, creating, deleting."""

import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from toolgate.packs.builtin.servoy._answers import as_json
from toolgate.packs.builtin.servoy._call_context import Desk
from toolgate.packs.builtin.servoy._errors import RefusedError
from toolgate.packs.builtin.servoy._file_format import Document, Fields, Value, encoded, put
from toolgate.packs.builtin.servoy._names import check_name
from toolgate.packs.builtin.servoy._references import Reference, references_to
from toolgate.packs.builtin.servoy._undo_log import Change
from toolgate.packs.builtin.servoy._workspace import KINDS, Kind, Stored

__all__ = [
    "ENCAPSULATIONS",
    "Renamed",
    "approval",
    "broken",
    "capital",
    "change",
    "check_properties",
    "choice",
    "create",
    "delete",
    "elsewhere",
    "flag",
    "meant",
    "new_uuid",
    "refuse_name",
    "rename",
    "same_or_put",
    "scope_of",
    "shown_as",
    "where_is",
    "words",
]

ENCAPSULATIONS: Final[dict[str, Value]] = {"public": 0, "hide": 1, "module": 2}
"""Who sees an object: everybody, no script of others, its module alone."""


def new_uuid() -> str:
    """An identity for a new object, as Servoy writes it."""
    return str(uuids.uuid4()).upper()


def capital(kind: Kind) -> str:
    """The kind as a sentence begins with it: `Value list`."""
    return kind[0].upper() + kind[1:]


def refuse_name(desk: Desk, kind: Kind, name: str, *, but: Stored | None = None) -> None:
    """Refuse a name that no object can have, or that another one has.

    Args:
        desk: Where to look.
        kind: What is to be called so.
        name: The name.
        but: The object that is renamed; it may keep its name in another case.

    Raises:
        RefusedError: With the reason.
    """
    if reason := check_name(kind, name):
        raise RefusedError(f"A {kind} cannot be called '{name}': {reason}. Nothing was changed.")
    folded = name.casefold()
    for each in desk.workspace.everywhere(kind):
        if each.name.casefold() == folded and (but is None or each.path != but.path):
            case = "" if each.name == name else " (names are compared without case)"
            raise RefusedError(
                f"There is a {kind} '{each.name}' already, in the "
                f"{desk.label_of(each.solution)}{case}. Nothing was changed."
            )
    path = desk.target.file_of(kind, name)
    is_own = but is not None and path.name.casefold() == but.path.name.casefold()
    if path.exists() and not is_own:
        raise RefusedError(
            f"There is a file {desk.workspace.shown(path)} already. Nothing was changed."
        )


def elsewhere(desk: Desk, found: Sequence[Stored]) -> Stored | None:
    """The object if it is not in the solution that is changed; None if one of them is."""
    target = desk.target.name
    return None if any(each.solution == target for each in found) else found[0]


def approval(desk: Desk, verb: str, kind: Kind, found: Stored) -> str:
    """The question before something outside the present context is changed."""
    context = desk.context_of(found.solution)
    return (
        f"To {verb} this {kind}, I need to switch to {found.solution}. Do you want to proceed? "
        f'[If yes, I will: setContext({{"context": "{context}"}}) then {verb}]'
    )


def create(desk: Desk, kind: Kind, fields: Fields) -> Path:
    """Write a new object into the solution that is changed.

    Raises:
        RefusedError: Nothing was written.
    """
    solution = desk.target
    name = str(fields["name"])
    path = solution.file_of(kind, name)
    made = Document(root=fields, style=solution.style)
    changes = [Change(path=path, before=None, after=encoded(made))]
    desk.workspace.journal.make(f"{capital(kind)} '{name}' created", changes)
    return path


def change(desk: Desk, stored: Stored, summary: str) -> None:
    """Write an object whose properties were changed.

    Raises:
        RefusedError: Nothing was written.
    """
    assert stored.read is not None
    after = encoded(stored.read)
    if after != stored.content:
        changes = [Change(path=stored.path, before=stored.content, after=after)]
        desk.workspace.journal.make(summary, changes)


def delete(desk: Desk, kind: Kind, doomed: Sequence[Stored]) -> None:
    """Remove the files of objects, all or none.

    Raises:
        RefusedError: Nothing was removed.
    """
    names = ", ".join(each.name for each in doomed)
    changes = [Change(path=each.path, before=each.content, after=None) for each in doomed]
    desk.workspace.journal.make(f"{capital(kind)} deleted: {names}", changes)


@dataclass(frozen=True, kw_only=True)
class Renamed:
    """What a renaming has done."""

    path: Path
    """The new file."""

    references: list[Reference]
    """Lines that use the old name."""


def rename(desk: Desk, kind: Kind, old: str, new: str) -> Renamed | str:
    """Rename an object and its file together; or what to ask first, where it is elsewhere.

    Raises:
        RefusedError: There is no such object, or the new name cannot be had; nothing was changed.
    """
    found = desk.workspace.find(kind, old)
    if not found:
        raise RefusedError(f"{capital(kind)} '{old}' not found.", meant(desk, kind, old))
    if away := elsewhere(desk, found):
        return approval(desk, "rename", kind, away)
    stored = desk.first(found)
    assert stored is not None
    stored = stored.own()
    fields = stored.fields
    if old == new:
        raise RefusedError(f"{capital(kind)} '{old}' has that name already. Nothing was changed.")
    refuse_name(desk, kind, new, but=stored)
    fields["name"] = new
    path = stored.path.with_name(f"{new}{KINDS[kind][1]}")
    assert stored.read is not None
    gone = Change(path=stored.path, before=stored.content, after=None)
    here = Change(path=path, before=None, after=encoded(stored.read))
    # On a file system without case the new file would be the old one.
    changes = [gone, here] if path.name.casefold() == stored.path.name.casefold() else [here, gone]
    desk.workspace.journal.make(f"{capital(kind)} '{old}' renamed to '{new}'", changes)
    return Renamed(path=path, references=references_to(desk.workspace, kind, old, "", path))


def meant(desk: Desk, kind: Kind, name: str) -> str:
    """A question for what was perhaps meant; empty where nothing is near."""
    near = desk.workspace.near(kind, name)
    return f"Did you mean '{near.name}'? Names differ by case." if near else ""


def scope_of(desk: Desk, kind: Kind, scope: str) -> list[Stored]:
    """The objects of a scope: `current` or `all`.

    Raises:
        RefusedError: It is another word.
    """
    match scope.strip() or "all":
        case "current":
            return list(desk.workspace.objects(kind, desk.target))
        case "all":
            return desk.workspace.everywhere(kind)
        case _:
            raise RefusedError(
                f"Error: Invalid scope value: '{scope}'. Must be one of: current, all"
            )


def broken(found: Sequence[Stored]) -> str:
    """What cannot be read of objects; empty where all can."""
    lines = [f"- {each.problem}" for each in found if each.problem]
    return "\n".join(["These files cannot be read and are left out:", *lines]) if lines else ""


def where_is(desk: Desk, stored: Stored) -> str:
    """An object and its path, as text: the file itself is the shortest true description."""
    text = stored.content.decode("utf-8", "replace").lstrip("\ufeff").replace("\r\n", "\n")
    return f"{stored.path} ({desk.label_of(stored.solution)})\n{text}"


def shown_as(stored: Stored) -> dict[str, Any]:
    """An object and its path, for programs."""
    return {
        "name": stored.name,
        "solution": stored.solution,
        "path": str(stored.path),
        "properties": as_json(stored.fields),
    }


def same_or_put(fields: Fields, key: str, value: Value, default: Value) -> None:
    """Give a property a value; one that is the default is left out, one that is there stays."""
    if fields.get(key, default) == value:
        return
    if value == default:
        fields.pop(key, None)
    else:
        put(fields, key, value)


def flag(name: str, value: object) -> bool:
    """A property that is yes or no.

    Raises:
        RefusedError: It is neither.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise RefusedError(f"The property '{name}' is {value!r}. It has to be true or false.")


def words(name: str, value: object) -> str:
    """A property that is a text; null and blanks are none.

    Raises:
        RefusedError: It is something else.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    raise RefusedError(f"The property '{name}' is {value!r}. It has to be a text.")


def choice(name: str, value: object, allowed: Mapping[str, Value]) -> Value:
    """A property that is one of some words.

    Raises:
        RefusedError: It is none of them.
    """
    key = value.strip().lower() if isinstance(value, str) else ""
    if key not in allowed:
        raise RefusedError(f"The property '{name}' is {value!r}. Allowed: {', '.join(allowed)}.")
    return allowed[key]


def check_properties(given: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Refuse properties that there are not.

    Raises:
        RefusedError: One is unknown.
    """
    for name in given:
        if name not in allowed:
            raise RefusedError(
                f"There is no property '{name}'. Allowed: {', '.join(allowed)}. "
                "Nothing was changed."
            )
