"""Applies changes to a workspace atomically, and records them for undo.

The records are in the folder `toolgate` of `.git`; for a workspace without version control, in
Toolgate's own data folder. Nothing is added to the workspace's files.
"""

import base64
import hashlib
import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.files import disk
from toolgate.settings import data_dir

MOST: Final = 20
"""Number of changes that can be undone."""


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """Change of one file."""

    path: Path
    """Path of the file."""

    before: bytes | None
    """Previous content; None if the file did not exist."""

    after: bytes | None
    """New content; None if the file is deleted."""


@dataclass(frozen=True, kw_only=True)
class UndoRecord:
    """Changes that are made together."""

    summary: str
    """Description, for people and models."""

    at: str
    """Time; UTC, ISO 8601."""

    changes: tuple[FileChange, ...]
    """Changes of the files."""

    is_done: bool = True
    """False while the files are being written, so that they can be repaired after a crash."""


def state_folder(workspace: Path) -> Path:
    """Return the folder for the records of a workspace's changes."""
    for folder in (workspace, *workspace.parents):
        git = folder / ".git"
        if git.is_dir():
            return git / "toolgate"
        if git.is_file():
            linked = _linked(git)
            if linked is not None:
                return linked / "toolgate"
    return data_dir() / "servoy"


def _linked(pointer: Path) -> Path | None:
    """Return the folder that the file `.git` of a work tree or submodule points to."""
    try:
        text = pointer.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    name = text.strip().removeprefix("gitdir:").strip()
    target = (pointer.parent / name).resolve()
    return target if text.startswith("gitdir:") and target.is_dir() else None


class UndoLog:
    """The recorded changes of a workspace."""

    def __init__(self, workspace: Path) -> None:
        """Create the log; nothing is read or written yet."""
        self._workspace = workspace.resolve()
        folder = state_folder(self._workspace)
        mark = hashlib.sha256(str(self._workspace).encode()).hexdigest()[:8]
        self._file = folder / f"servoy-{mark}.json"
        self._lock = folder / f"servoy-{mark}.lock"

    @contextmanager
    def locked(self) -> Generator[None]:
        """Lock the workspace against other writers.

        Raises:
            ToolRefusedError: Another process holds the lock, or no records can be written.
        """
        if reason := disk.why_not_writable(self._lock):
            raise ToolRefusedError(f"{reason}. Nothing was changed.")
        with disk.locked(self._lock):
            self._put_right()
            yield

    def records(self) -> list[UndoRecord]:
        """Return the recorded changes, most recent last.

        Raises:
            ToolRefusedError: The file of the records is damaged.
        """
        content = disk.content_of(self._file)
        if content is None:
            return []
        try:
            rows = json.loads(content)["changes"]
            return [self._record(row) for row in rows]
        except (ValueError, KeyError, TypeError) as error:
            raise ToolRefusedError(
                f"{self._file} is damaged ({error}); nothing was changed. Remove it to go on; "
                "what was done before can then not be undone."
            ) from error

    def apply(self, summary: str, changes: Sequence[FileChange]) -> None:
        """Make changes, all or none. The lock must be held.

        Raises:
            ToolRefusedError: A file has changed in the meantime, is protected, or cannot be
                written; all files are unchanged.
        """
        self._check(changes)
        records = self.records()
        at = datetime.now(UTC).isoformat(timespec="seconds")
        record = UndoRecord(summary=summary, at=at, changes=tuple(changes), is_done=False)
        self._save([*records, record])
        try:
            for change in changes:
                _write(change.path, change.after)
        except OSError as error:
            self._take_back(record)
            self._save(records)
            raise ToolRefusedError(
                f"{error.filename or 'A file'} cannot be written: {error.strerror or error}. "
                "Nothing was changed."
            ) from error
        self._save([*records, replace(record, is_done=True)])

    def undo(self, count: int) -> list[UndoRecord]:
        """Undo up to `count` of the most recent changes. The lock must be held.

        Raises:
            ToolRefusedError: A file has been changed since; nothing of that change was undone.
        """
        undone: list[UndoRecord] = []
        while len(undone) < count and (records := self.records()):
            last = records[-1]
            backwards = [
                FileChange(path=change.path, before=change.after, after=change.before)
                for change in reversed(last.changes)
            ]
            try:
                self._check(backwards)
            except ToolRefusedError as error:
                if not undone:
                    raise
                names = "; ".join(record.summary for record in undone)
                raise ToolRefusedError(f"{error} Before that was undone: {names}.") from error
            self._save([*records[:-1], replace(last, is_done=False)])
            try:
                for change in backwards:
                    _write(change.path, change.after)
            except OSError as error:
                self._put_back(last)
                self._save(records)
                raise ToolRefusedError(
                    f"{error.filename or 'A file'} cannot be written: {error.strerror or error}. "
                    "Nothing was undone."
                ) from error
            self._save(records[:-1])
            undone.append(last)
        return undone

    def _check(self, changes: Sequence[FileChange]) -> None:
        for change in changes:
            if not change.path.parent.resolve().is_relative_to(self._workspace):
                raise ToolRefusedError(
                    f"{change.path} leads out of the workspace {self._workspace}. "
                    "Nothing was changed."
                )
            if reason := disk.why_not_writable(change.path):
                raise ToolRefusedError(f"{reason}. Nothing was changed.")
            if disk.content_of(change.path) != change.before:
                raise ToolRefusedError(
                    f"{change.path} was changed by somebody else in the meantime. "
                    "Nothing was changed; look at it again."
                )

    def _put_right(self) -> None:
        """Undo a change that a crash left incomplete."""
        records = self.records()
        if not records or records[-1].is_done:
            return
        last = records[-1]
        is_unchanged = all(
            disk.content_of(change.path) in (change.before, change.after) for change in last.changes
        )
        if is_unchanged:
            self._take_back(last)
            self._save(records[:-1])
        else:  # changed since then: keep what is written
            self._save([*records[:-1], replace(last, is_done=True)])

    def _take_back(self, record: UndoRecord) -> None:
        for change in reversed(record.changes):
            if disk.content_of(change.path) != change.before:
                _write(change.path, change.before)

    def _put_back(self, record: UndoRecord) -> None:
        for change in record.changes:
            if disk.content_of(change.path) != change.after:
                _write(change.path, change.after)

    def _save(self, records: Sequence[UndoRecord]) -> None:
        rows = [self._row(record) for record in records[-MOST:]]
        text = json.dumps({"version": 1, "changes": rows}, indent=1)
        try:
            disk.replace(self._file, text.encode())
        except OSError as error:
            raise ToolRefusedError(
                f"{self._file}, where changes are remembered so that they can be undone, cannot be "
                f"written: {error.strerror or error}. Nothing was changed."
            ) from error

    def _row(self, record: UndoRecord) -> dict[str, Any]:
        return {
            "summary": record.summary,
            "at": record.at,
            "done": record.is_done,
            "files": [
                {
                    "path": self._relative_path(change.path),
                    "before": _coded(change.before),
                    "after": _coded(change.after),
                }
                for change in record.changes
            ],
        }

    def _record(self, row: dict[str, Any]) -> UndoRecord:
        files = cast("list[dict[str, Any]]", row["files"])
        return UndoRecord(
            summary=str(row["summary"]),
            at=str(row["at"]),
            is_done=bool(row["done"]),
            changes=tuple(
                FileChange(
                    path=self._workspace / file["path"],
                    before=_decoded(file["before"]),
                    after=_decoded(file["after"]),
                )
                for file in files
            ),
        )

    def _relative_path(self, path: Path) -> str:
        return path.relative_to(self._workspace).as_posix()


def _write(path: Path, content: bytes | None) -> None:
    if content is None:
        disk.remove(path)
    else:
        disk.replace(path, content)


def _coded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
