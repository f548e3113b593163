"""The most recently changed files of a workspace."""

import heapq
import os
from pathlib import Path
from typing import Final

# Chosen.
_LOOKED_AT: Final = 20_000
"""Number of files after which the search of a workspace stops."""

_PASSED_OVER: Final = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})


def recent_files(folder: Path, count: int = 10) -> tuple[str, ...]:
    """Return `/` paths below a folder, last changed first, without hidden and generated files.

    Unreadable files are skipped. Blocks: best run in a thread.
    """
    files: list[tuple[float, str]] = []
    looked_at = 0
    for where, folders, names in os.walk(folder):
        # Modified in place: `os.walk` then follows this order, and skips the folders left out.
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _PASSED_OVER
        )
        for name in names:
            if name.startswith("."):
                continue
            looked_at += 1
            path = Path(where, name)
            try:
                changed = path.stat().st_mtime
            except OSError:
                continue
            files.append((changed, path.relative_to(folder).as_posix()))
        # Checked once per folder: a huge workspace must not delay the answer.
        if looked_at >= _LOOKED_AT:
            break
    newest = heapq.nsmallest(count, files, key=lambda entry: (-entry[0], entry[1]))
    return tuple(path for _, path in newest)
