"""What the rules of the pack are told of the workspace: `{{PROJECT_NAME}}` and its like."""

import time
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from toolgate import Context
from toolgate.packs.builtin.servoy._call_context import Desk, desk_of
from toolgate.packs.builtin.servoy._errors import RefusedError
from toolgate.packs.builtin.servoy._workspace import walk

__all__ = ["variables"]

_FILES = frozenset({".rel", ".val", ".frm", ".js", ".obj", ".tbl", ".dbi", ".less", ".css", ".mnu"})
_RECENT = 10
_MOST_SOURCES = 200
_FRESH_S = 1.0
_PLACES = 16
_PAUSE = 20
"""A large workspace that takes long to look at is looked at less often, by this factor."""


class _Kept:
    """What was found last: several prompts in a moment look at the disk once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[tuple[str, ...], tuple[float, dict[str, str]]] = OrderedDict()

    def values(self, context: Context) -> dict[str, str]:
        place = context.caller.folder or str(Path.cwd())
        key = (str(dict(context.settings)), place, *sorted(context.connections))
        with self._lock:
            began = time.monotonic()
            until, values = self._known.get(key, (0.0, {}))
            if began >= until:
                values = _values(context)
                took = time.monotonic() - began
                until = time.monotonic() + max(_FRESH_S, _PAUSE * took)
                self._known[key] = until, values
                self._known.move_to_end(key)
                if len(self._known) > _PLACES:
                    self._known.popitem(last=False)
            return dict(values)


_kept = _Kept()


def variables(context: Context) -> dict[str, str]:
    """The values of variables for the workspace of a call."""
    return _kept.values(context)


def _values(context: Context) -> dict[str, str]:
    try:
        desk = desk_of(context)
        solution = desk.workspace.active
    except RefusedError:
        return {"PROJECT_NAME": "UNKNOWN", "ACTIVE_SOLUTION": "UNKNOWN"}
    sources = desk.databases.sources()
    more = len(sources) - _MOST_SOURCES
    shown = sources[:_MOST_SOURCES] + ([f"and {more} more"] if more > 0 else [])
    return {
        "PROJECT_NAME": solution.folder.name,
        "ACTIVE_SOLUTION": solution.name,
        "DATABASE_SERVERS": ", ".join(desk.databases.names) or "none",
        "AVAILABLE_DATASOURCES": ", ".join(shown) or "none",
        "RECENT_FILES": "\n".join(f"- {each}" for each in _recent(desk)) or "none",
    }


def _recent(desk: Desk) -> list[str]:
    """The workspace's files that changed last, the latest first."""
    found: list[tuple[float, Path]] = []
    for path in walk(desk.workspace.folder, _FILES):
        try:
            found.append((-path.stat().st_mtime, path))
        except OSError:
            continue
    return [desk.workspace.shown(path) for _, path in sorted(found)[:_RECENT]]
