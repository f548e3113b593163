"""Records the files that `init` changes, to undo the changes file by file."""

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from toolgate.base.private_folder import create_private_folder
from toolgate.errors import SettingError
from toolgate.settings import data_dir, read_text, write_text
from toolgate.types import Json, json_array, json_object

_FOLDERS: Final = frozenset({".github", ".cursor", "rules"})
"""Folders created for instruction files, and removed with them."""

_BEGIN: Final = "<!-- toolgate: begin (made by: toolgate init --rules) -->"
_END: Final = "<!-- toolgate: end -->"
_BLOCK: Final = re.compile(
    rf"{re.escape(_BEGIN[:20])}[^\n]*-->\r?\n.*?{re.escape(_END)}(?:\r?\n)?", re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """A file that was written."""

    path: Path
    """Path of the file."""

    backup: Path | None
    """Copy of the previous content; None if the file did not exist."""

    sha256: str
    """Hash of what was written, to detect later changes."""

    gap: str | None = None
    """Separator inserted before our marked block; None if the whole file was written."""

    head: str | None = None
    """First lines of a file that was created for the block; None if it existed before."""


def change_file(path: Path, text: str) -> ChangedFile:
    """Write a file with a backup next to it, and record both.

    Raises:
        SettingError: It cannot be written or backed up.
    """
    backup = back_up(path, ".toolgate-backup") if path.exists() else None
    earlier = read_changed_files()
    write_text(path, text)
    touched = ChangedFile(path=path, backup=backup, sha256=_hash(path))
    _save_manifest([*earlier, touched])
    return touched


def with_block(path: Path, block: str, *, head: str = "") -> str:
    """Return the text of a file with a marked block, replacing an earlier one or at the end.

    Args:
        path: The file; it does not have to exist.
        block: Text between the markers.
        head: First lines of a new file.

    Raises:
        SettingError: The file cannot be read.
    """
    text = read_text(path) if path.exists() else head
    marked = _marked(block, text)
    if _BLOCK.search(text):
        return _BLOCK.sub(lambda _: marked, text, count=1)
    return f"{text}{_gap(text) if path.exists() else ''}{marked}"


def change_block(path: Path, text: str, *, head: str = "") -> ChangedFile:
    """Write a text from `with_block`, in which only a marked block is ours, and record it.

    Raises:
        SettingError: It cannot be read or written.
    """
    earlier = read_changed_files()
    before = next(
        (entry for entry in earlier if entry.path == path and entry.gap is not None), None
    )
    is_new = not path.exists()
    old = head if is_new else read_text(path)
    write_text(path, text)
    if is_new:
        path.chmod(0o644)  # a project file, which others may read
    if before is not None and not is_new:
        touched = replace(before, sha256=_hash(path))
    else:
        has_block = is_new or _BLOCK.search(old) is not None
        touched = ChangedFile(
            path=path,
            backup=None,
            sha256=_hash(path),
            gap="" if has_block else _gap(old),
            head=head if is_new else None,
        )
    _save_manifest([*(entry for entry in earlier if entry is not before), touched])
    return touched


def _marked(block: str, text: str) -> str:
    """Return the block between its markers, with the line endings of a text."""
    marked = f"{_BEGIN}\n{block.strip()}\n{_END}\n"
    return marked.replace("\n", "\r\n") if "\r\n" in text else marked


def _gap(text: str) -> str:
    """Return the separator between a text and the block."""
    end = "\r\n" if "\r\n" in text else "\n"
    return "" if not text else end if text.endswith("\n") else end * 2


def read_credentials() -> list[str]:
    """Return the servers whose secrets were stored when they were imported."""
    return [str(name) for name in json_array(_read_manifest().get("credentials"))]


def record_credentials(servers: Iterable[str]) -> None:
    """Record servers whose secrets are stored, until the changes are undone.

    Raises:
        SettingError: The record cannot be written.
    """
    names = list(dict.fromkeys([*read_credentials(), *servers]))
    if names:
        _save_manifest(read_changed_files(), names)


def _read_manifest() -> Json:
    try:
        body: object = json.loads(_manifest().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return json_object(body)


def read_changed_files() -> list[ChangedFile]:
    """Return all changed files that were not restored, oldest first."""
    changed: list[ChangedFile] = []
    for item in json_array(_read_manifest().get("files")):
        entry = json_object(item)
        backup = entry.get("backup")
        changed.append(
            ChangedFile(
                path=Path(str(entry.get("path", ""))),
                backup=Path(str(backup)) if backup else None,
                sha256=str(entry.get("sha256", "")),
                gap=_text_or_none(entry.get("gap")),
                head=_text_or_none(entry.get("head")),
            )
        )
    return changed


def undo_changes() -> list[str]:
    """Restore all files, newest change first; return a message for each.

    Raises:
        SettingError: A file cannot be written; earlier ones stay restored.
    """
    messages: list[str] = []
    left = read_changed_files()
    while left:
        messages += _restore(left[-1])
        left.pop()
        _save_manifest(left)
    return messages


def _restore(touched: ChangedFile) -> list[str]:
    path, messages = touched.path, list[str]()
    if touched.gap is not None:
        return _remove_block(touched)
    if touched.backup is not None and not touched.backup.is_file():
        return [f"{path} stays as it is: its backup {touched.backup} is gone."]
    if path.exists() and _hash(path) != touched.sha256:
        copy = back_up(path, ".before-undo")
        messages.append(f"{path} was changed since; that version is kept as {copy}.")
    try:
        if touched.backup is None:
            path.unlink(missing_ok=True)
            return [*messages, f"Removed {path}."]
        shutil.copy2(touched.backup, draft := path.with_name(f"{path.name}.toolgate-new"))
        draft.replace(path.resolve())
        touched.backup.unlink()
    except OSError as error:
        raise _restore_error(path, error) from error
    return [*messages, f"Restored {path}."]


def _restore_error(path: Path, error: OSError) -> SettingError:
    return SettingError(
        f"{path} cannot be restored: {error.strerror}.",
        hint="Make it writable, and run: toolgate init --undo",
    )


def back_up(path: Path, suffix: str) -> Path:
    """Copy a file to an unused name in its folder.

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


def _remove_block(touched: ChangedFile) -> list[str]:
    """Remove our block from a file, or the file if it was created for the block."""
    path, gap = touched.path, touched.gap or ""
    if not path.exists():
        return [f"{path} is gone already."]
    text = read_text(path)
    match = _BLOCK.search(text)
    if match is None:
        return [f"{path} has no block of Toolgate any more."]
    before, behind = text[: match.start()], text[match.end() :]
    if touched.head is not None and before + behind == touched.head:
        try:
            path.unlink()
        except OSError as error:
            raise _restore_error(path, error) from error
        for folder in path.parents[:2]:
            if folder.name in _FOLDERS:
                with contextlib.suppress(OSError):  # not empty
                    folder.rmdir()
        return [f"Removed {path}."]
    write_text(path, (before if behind else before.removesuffix(gap)) + behind)
    return [f"Took the block of Toolgate out of {path}."]


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _save_manifest(files: Iterable[ChangedFile], credentials: Sequence[str] | None = None) -> None:
    names = read_credentials() if credentials is None else credentials
    entries = [
        {
            "path": str(entry.path),
            "backup": str(entry.backup) if entry.backup else None,
            "sha256": entry.sha256,
            **({"gap": entry.gap, "head": entry.head} if entry.gap is not None else {}),
        }
        for entry in files
    ]
    if entries or credentials:
        create_private_folder(data_dir())
        body: Json = {"files": entries, "credentials": names}
        write_text(_manifest(), json.dumps(body, indent=2) + "\n")
    else:
        _manifest().unlink(missing_ok=True)


def _manifest() -> Path:
    return data_dir() / "init.json"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
