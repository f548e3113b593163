"""Finds the lines of a workspace that use the name or UUID of an object."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolgate.packs.builtin.servoy.files.workspace import Kind, Workspace

__all__ = ["Reference", "format_references", "references_to"]

_FILES: Final = frozenset(
    {".frm", ".js", ".val", ".rel", ".tbl", ".obj", ".mnu", ".less", ".css", ".html", ".ts"}
)
_MOST_BYTES: Final = 4_000_000
"""Bytes of a script; chosen: larger ones are bundled libraries."""
_MOST: Final = 200
"""References; chosen: more than anybody reads."""
_WIDEST: Final = 120
"""Characters of a line that are shown; chosen: fits a terminal."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A line that names an object."""

    path: str
    """Its file, from the workspace on."""

    line: int
    """Counted from 1."""

    text: str
    """The line, cut where it is long."""


def references_to(
    workspace: Workspace, kind: Kind, name: str, uuid: str, own_path: Path
) -> list[Reference]:
    """The lines of all solutions that name an object.

    Relations are identifiers in scripts, so any occurrence as a whole word counts. Value lists are
    named in quotes or by UUID alone; `status` as a word of a script is no value list.

    Args:
        workspace: Where to look.
        kind: What the object is.
        name: Its name.
        uuid: Its identity, for value lists; empty: references by name alone are wanted.
        own_path: Its own file, which is left out.
    """
    word = rf"(?<![\w$]){re.escape(name)}(?![\w$])"
    expression = word if kind == "relation" else rf"([\"']){re.escape(name)}\1"
    if uuid:
        expression = f"{expression}|{re.escape(uuid)}"
    pattern = re.compile(expression)
    needles = [needle for needle in (name, uuid) if needle]
    references: list[Reference] = []
    for path in workspace.files(_FILES):
        if path == own_path or len(references) >= _MOST:
            continue
        try:
            if path.stat().st_size > _MOST_BYTES:
                continue
            text = path.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if any(needle in text for needle in needles):
            references += _lines(text, pattern, workspace.display_path(path))
    return references[:_MOST]


def format_references(references: list[Reference], name: str) -> str:
    """The report of references; empty where there are none."""
    if not references:
        return ""
    count = "at least " if len(references) == _MOST else ""
    lines = [f"{count}{len(references)} line(s) still use '{name}':"]
    lines += [f"- {reference.path}:{reference.line}: {reference.text}" for reference in references]
    return "\n".join(lines)


def _lines(text: str, pattern: "re.Pattern[str]", path: str) -> list[Reference]:
    return [
        Reference(path=path, line=number, text=line.strip()[:_WIDEST])
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
