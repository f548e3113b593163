"""What `init` changed on this machine, so that it can be taken back file by file."""

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from toolgate.errors import SettingError
from toolgate.settings import data_dir, write_text
from toolgate.types import json_array, json_object

__all__ = ["Touched", "change_file", "copy_beside", "read_touched", "take_back"]


@dataclass(frozen=True, kw_only=True)
class Touched:
    """One file that was written."""

    path: Path
    """Which."""

    backup: Path | None
    """A copy of what it was before; None if it did not exist."""

    sha256: str
    """What was written, for telling later changes."""


def change_file(path: Path, text: str) -> Touched:
    """Write a file, keep what it was beside it, and remember both.

    Raises:
        SettingError: It cannot be written or copied.
    """
    backup = copy_beside(path, ".toolgate-backup") if path.exists() else None
    earlier = read_touched()
    write_text(path, text)
    touched = Touched(path=path, backup=backup, sha256=_hash(path))
    _remember([*earlier, touched])
    return touched


def read_touched() -> list[Touched]:
    """Every file that was written and not taken back, oldest first."""
    try:
        body: object = json.loads(_manifest().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    found: list[Touched] = []
    for item in json_array(json_object(body).get("files")):
        entry = json_object(item)
        backup = entry.get("backup")
        found.append(
            Touched(
                path=Path(str(entry.get("path", ""))),
                backup=Path(str(backup)) if backup else None,
                sha256=str(entry.get("sha256", "")),
            )
        )
    return found


def take_back() -> list[str]:
    """Restore every file, newest change first; gives a sentence for each.

    Raises:
        SettingError: A file cannot be written; what was restored before stays restored.
    """
    told: list[str] = []
    left = read_touched()
    while left:
        told += _restore(left[-1])
        left.pop()
        _remember(left)
    return told


def _restore(touched: Touched) -> list[str]:
    path, told = touched.path, list[str]()
    if touched.backup is not None and not touched.backup.is_file():
        return [f"{path} stays as it is: its backup {touched.backup} is gone."]
    if path.exists() and _hash(path) != touched.sha256:
        kept = copy_beside(path, ".before-undo")
        told.append(f"{path} was changed since; that version is kept as {kept}.")
    try:
        if touched.backup is None:
            path.unlink(missing_ok=True)
            return [*told, f"Removed {path}."]
        shutil.copy2(touched.backup, draft := path.with_name(f"{path.name}.toolgate-new"))
        draft.replace(path.resolve())
        touched.backup.unlink()
    except OSError as error:
        raise SettingError(
            f"{path} cannot be restored: {error.strerror}.",
            hint="Make it writable, and run: toolgate init --undo",
        ) from error
    return [*told, f"Restored {path}."]


def copy_beside(path: Path, suffix: str) -> Path:
    """Copy a file to a free name in its folder.

    Raises:
        SettingError: It cannot be copied.
    """
    copy = path.with_name(path.name + suffix)
    number = 2
    while copy.exists():
        copy = path.with_name(f"{path.name}{suffix}-{number}")
        number += 1
    try:
        shutil.copy2(path, copy)
    except OSError as error:
        raise SettingError(
            f"{path} cannot be copied to {copy}: {error.strerror}.",
            hint="Make the folder writable for this user.",
        ) from error
    return copy


def _remember(files: Iterable[Touched]) -> None:
    entries = [
        {
            "path": str(one.path),
            "backup": str(one.backup) if one.backup else None,
            "sha256": one.sha256,
        }
        for one in files
    ]
    if entries:
        data_dir().mkdir(parents=True, exist_ok=True, mode=0o700)
        write_text(_manifest(), json.dumps(cast("Any", {"files": entries}), indent=2) + "\n")
    else:
        _manifest().unlink(missing_ok=True)


def _manifest() -> Path:
    return data_dir() / "init.json"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
