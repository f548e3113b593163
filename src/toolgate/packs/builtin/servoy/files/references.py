"""Finds the lines of a workspace that use the name or UUID of an object."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolgate.packs.builtin.servoy.files.workspace import Kind, Workspace

_FILES: Final = frozenset(
    {".frm", ".js", ".val", ".rel", ".tbl", ".obj", ".mnu", ".less", ".css", ".html", ".ts"}
)
_MOST_BYTES: Final = 4_000_000
"""Bytes of a script (chosen: larger ones are bundled libraries)."""
_MOST: Final = 200
"""References in a result (chosen: nobody reads more)."""
_WIDEST: Final = 120
"""Characters of a line that are shown (chosen: fits a terminal)."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A line that uses an object."""

    path: str
    """Its file, relative to the workspace."""

    line: int
    """Line number, from 1."""

    text: str
    """The line, shortened if it is long."""


def references_to(
    workspace: Workspace, kind: Kind, name: str, uuid: str, own_path: Path
) -> list[Reference]:
    """Return the lines of all solutions that use an object.

    Relations are identifiers in scripts, so any occurrence as a whole word counts. Value lists
    are only named in quotes or by UUID; the word `status` in a script is not a value list.

    Args:
        workspace: The workspace to search.
        kind: The kind of object.
        name: Name of the object.
        uuid: UUID of the object, for value lists; empty: only search for the name.
        own_path: The object's own file, which is left out.
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
    """Format references as text; empty if there are none."""
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
