"""Variables for the rules of the pack, such as `{{PROJECT_NAME}}`, from the workspace."""

import time
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from toolgate import Context
from toolgate.packs.builtin.servoy._call_context import ServoyCall, servoy_call
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.files.workspace import walk

_FILES = frozenset({".rel", ".val", ".frm", ".js", ".obj", ".tbl", ".dbi", ".less", ".css", ".mnu"})
_RECENT = 10
"""Files that are listed as recent (chosen)."""

_MOST_SOURCES = 200
"""Data sources that are listed (chosen: bounds the prompt)."""

_FRESH_S = 1.0
"""Seconds for which values are cached at least (chosen)."""

_PLACES = 16
"""Workspaces in the cache (chosen)."""

_PAUSE = 20
"""Values are cached for this multiple of the time that reading took (chosen: 5 % of the time)."""


class _CachedValues:
    """Caches the values, so that several prompts in a short time read the disk once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: OrderedDict[tuple[str, ...], tuple[float, dict[str, str]]] = OrderedDict()

    def values(self, context: Context) -> dict[str, str]:
        folder = context.caller.folder or str(Path.cwd())
        key = (str(dict(context.settings)), folder, *sorted(context.connections))
        with self._lock:
            began = time.monotonic()
            until, values = self._entries.get(key, (0.0, {}))
            if began >= until:
                values = _values(context)
                elapsed = time.monotonic() - began
                until = time.monotonic() + max(_FRESH_S, _PAUSE * elapsed)
                self._entries[key] = until, values
                self._entries.move_to_end(key)
                if len(self._entries) > _PLACES:
                    self._entries.popitem(last=False)
            return dict(values)


_cache = _CachedValues()


def variables(context: Context) -> dict[str, str]:
    """Return the values of variables for the workspace of a call."""
    return _cache.values(context)


def _values(context: Context) -> dict[str, str]:
    try:
        call = servoy_call(context)
        solution = call.workspace.active
    except ToolRefusedError:
        return {"PROJECT_NAME": "UNKNOWN", "ACTIVE_SOLUTION": "UNKNOWN"}
    sources = call.databases.sources()
    more = len(sources) - _MOST_SOURCES
    listed = sources[:_MOST_SOURCES] + ([f"and {more} more"] if more > 0 else [])
    return {
        "PROJECT_NAME": solution.folder.name,
        "ACTIVE_SOLUTION": solution.name,
        "DATABASE_SERVERS": ", ".join(call.databases.names) or "none",
        "AVAILABLE_DATASOURCES": ", ".join(listed) or "none",
        "RECENT_FILES": "\n".join(f"- {path}" for path in _recent(call)) or "none",
    }


def _recent(call: ServoyCall) -> list[str]:
    """Return the workspace's most recently changed files, most recent first."""
    files: list[tuple[float, Path]] = []
    for path in walk(call.workspace.folder, _FILES):
        try:
            files.append((-path.stat().st_mtime, path))
        except OSError:
            continue
    return [call.workspace.display_path(path) for _, path in sorted(files)[:_RECENT]]
