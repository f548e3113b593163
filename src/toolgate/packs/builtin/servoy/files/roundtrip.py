"""Checks that every file in a folder is written exactly as it was read."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolgate.packs.builtin.servoy.files.notation import NotationError, decode_file, encode_file
from toolgate.packs.builtin.servoy.files.workspace import walk

SUFFIXES: Final = (".rel", ".val", ".dbi", ".obj", ".tbl")
"""Files that are checked; forms are read but never written."""


@dataclass(frozen=True, kw_only=True)
class RoundtripResult:
    """Result for one file."""

    path: Path
    """Path of the file."""

    problem: str = ""
    """Why it failed: it cannot be read, or is written differently; else empty."""


def check_roundtrip(folder: Path) -> Iterable[RoundtripResult]:
    """Parse and write each file of a folder in memory; nothing on disk is changed."""
    paths = [folder] if folder.is_file() else walk(folder, frozenset(SUFFIXES))
    for path in paths:
        yield RoundtripResult(path=path, problem=_problem(path))


def _problem(path: Path) -> str:
    try:
        content = path.read_bytes()
        read = decode_file(content)
    except OSError as error:
        return error.strerror or str(error)
    except NotationError as error:
        return str(error)
    return "" if encode_file(read) == content else "it is written otherwise"
