"""Reads forms, their buttons and labels, and the style sheets of a solution."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from toolgate.packs.builtin.servoy._answers import as_json
from toolgate.packs.builtin.servoy.files.notation import Fields, Items
from toolgate.packs.builtin.servoy.files.workspace import (
    Solution,
    StoredObject,
    Workspace,
    number_of,
    text_of,
    walk,
)

ElementKind: TypeAlias = Literal["button", "label"]

_LABEL: Final = 7
"""typeid of a label, or of a button if it has an action on click."""

_COMPONENT: Final = 47
"""typeid of a web component in Servoy's files."""
_MOST_STYLE_BYTES: Final = 4_000_000
"""Bytes of a style sheet (chosen: larger ones are generated)."""


@dataclass(frozen=True, kw_only=True)
class Element:
    """An element of a form."""

    kind: ElementKind
    """Kind of element."""

    name: str
    """Its name; empty if it has none."""

    text: str
    """The text that it shows."""

    fields: Fields
    """All its properties."""

    @property
    def uuid(self) -> str:
        """Its UUID."""
        return text_of(self.fields, "uuid")

    @property
    def described(self) -> dict[str, Any]:
        """The element as plain JSON."""
        return {
            "name": self.name,
            "uuid": self.uuid,
            "text": self.text,
            "properties": as_json(self.fields),
        }


def elements_of(form: Fields, kind: ElementKind) -> list[Element]:
    """Return the buttons or labels of a form, including those in containers, in file order."""
    return [
        element
        for element in (_element(part) for part in _parts(form))
        if element and element.kind == kind
    ]


def _parts(holder: Fields) -> Iterator[Fields]:
    items = holder.get("items")
    for item in items if isinstance(items, Items) else ():
        if isinstance(item, Fields):
            yield item
            yield from _parts(item)


def _element(fields: Fields) -> Element | None:
    typeid = number_of(fields, "typeid")
    properties = fields.get("json")
    inner = properties if isinstance(properties, Fields) else Fields()
    kind: ElementKind
    if typeid == _LABEL:
        kind = "button" if text_of(fields, "onActionMethodID") else "label"
    elif typeid == _COMPONENT:
        component = text_of(fields, "typeName").rpartition("-")[2].lower()
        if "button" in component:
            kind = "button"
        elif "label" in component:
            kind = "label"
        else:
            return None
    else:
        return None
    return Element(
        kind=kind,
        name=text_of(fields, "name"),
        text=text_of(fields, "text") or text_of(inner, "text"),
        fields=fields,
    )


def summary_of(workspace: Workspace, form: StoredObject) -> dict[str, Any]:
    """Return the main facts of a form, such as size, table and parent, and all properties."""
    fields = form.fields
    width, _, height = text_of(fields, "size").partition(",")
    parent = text_of(fields, "extendsID")
    forms = {
        stored.uuid: stored.name for stored in workspace.objects_in_scope("form") if stored.file
    }
    properties = {key: value for key, value in as_json(fields).items() if key != "items"}
    return {
        "name": form.name,
        "solution": form.solution,
        "path": str(form.path),
        "dataSource": text_of(fields, "dataSource"),
        "width": int(width) if width.isdecimal() else None,
        "height": int(height) if height.isdecimal() else None,
        "extends": forms.get(parent, parent),
        "isMainForm": form.uuid == workspace.active.main_form,
        "buttons": len(elements_of(fields, "button")),
        "labels": len(elements_of(fields, "label")),
        "properties": properties,
    }


@dataclass(frozen=True, kw_only=True)
class StyleRule:
    """A rule of a style sheet."""

    classes: tuple[str, ...]
    """Classes in its selector."""

    selector: str
    """Its selector, as written."""

    body: str
    """The text between its braces."""

    path: str
    """Its file, relative to the workspace."""

    line: int
    """Line number of its start, from 1."""


_COMMENT: Final = re.compile(r"/\*.*?\*/|(?<![:\"'(])//[^\n]*", re.DOTALL)
_CLASS: Final = re.compile(r"\.(-?[A-Za-z_][\w-]*)")


def styles_of(workspace: Workspace, solution: Solution) -> list[StyleRule]:
    """Return the rules of a solution's style sheets, including nested ones."""
    rules: list[StyleRule] = []
    for path in walk(solution.folder / "medias", frozenset({".less", ".css"})):
        try:
            if path.stat().st_size > _MOST_STYLE_BYTES:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        blank = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
        rules += _rules(blank, workspace.display_path(path))
    return rules


def _rules(text: str, path: str) -> Iterator[StyleRule]:
    """Yield each selector with its block; an unclosed block ends with the file."""
    opened: list[tuple[str, int, int]] = []
    start = 0
    for match in re.finditer(r"[{};]", text):
        at = match.start()
        if match[0] == "{":
            selector = text[start:at]
            lead = len(selector) - len(selector.lstrip())
            opened.append((selector.strip(), start + lead, at + 1))
        elif match[0] == "}" and opened:
            selector, begin, inside = opened.pop()
            if classes := tuple(dict.fromkeys(_CLASS.findall(selector))):
                yield StyleRule(
                    classes=classes,
                    selector=selector,
                    body=text[inside:at].strip(),
                    path=path,
                    line=text.count("\n", 0, begin) + 1,
                )
        start = at + 1
