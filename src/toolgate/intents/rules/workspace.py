"""Variables for the rules of all packs: project, user, databases, recent files."""

import getpass
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Final

from anyio import to_thread

from toolgate.intents.rules.recent_files import recent_files
from toolgate.types import DEFAULT_PROJECT, Caller

# Minimum number of seconds that the list of files stays valid (chosen).
_FRESH_S: Final = 1.0
# A pause of twenty times the duration: 5 % of the time (chosen).
_PAUSE: Final = 20
"""Pause between two scans of the files, as a multiple of the duration of a scan."""

# Chosen.
_MAX_FOLDERS: Final = 100
"""Largest number of folders whose files are remembered."""


@dataclass(frozen=True, kw_only=True)
class _RecentFiles:
    """The most recently changed files of a folder, and until when they stay valid."""

    files: tuple[str, ...]
    until_s: float


class WorkspaceVariables:
    """Provides the values of variables that the rules of all packs share."""

    def __init__(
        self, folder: Path, *, home: Path, connections: Callable[[], Collection[str]] = tuple
    ) -> None:
        """Set the folder; nothing is read yet.

        Args:
            folder: Where Toolgate runs; used for callers whose folder is unknown.
            home: The user's home folder, which is not a project.
            connections: Names of the configured databases.
        """
        self._folder = folder
        self._home = home
        self._connections = connections
        self._recent: OrderedDict[Path, _RecentFiles] = OrderedDict()
        self._lock = Lock()

    async def __call__(self, caller: Caller, names: Collection[str]) -> Mapping[str, str]:
        """Return the known values; an unknown one is an empty text."""
        databases = ", ".join(self._connections())
        values = {
            "PROJECT_NAME": self._project(caller),
            "DATABASE_SERVERS": databases,
            "AVAILABLE_DATASOURCES": databases,
        }
        if "USER_NAME" in names:
            values["USER_NAME"] = _user() if caller.caller_id == "local" else caller.caller_id
        if "RECENT_FILES" in names:
            files = await to_thread.run_sync(self._files, self._folder_of(caller))
            values["RECENT_FILES"] = "\n".join(f"- {path}" for path in files)
        return values

    def _project(self, caller: Caller) -> str:
        if caller.project_id != DEFAULT_PROJECT:
            return caller.project_id
        folder = self._folder_of(caller)
        return folder.name if self._is_project(folder) else ""

    def _folder_of(self, caller: Caller) -> Path:
        return Path(caller.folder) if caller.folder else self._folder

    def _files(self, folder: Path) -> tuple[str, ...]:
        """Return the most recently changed files; slow folders are read less often."""
        if not self._is_project(folder):
            return ()
        began = monotonic()
        # Called from several threads; two may read one folder at once, which is harmless.
        with self._lock:
            seen = self._recent.get(folder)
        if seen is None or began >= seen.until_s:
            files = recent_files(folder)
            elapsed = monotonic() - began
            # The pause grows with the duration, so that a slow disk is not read all the time.
            seen = _RecentFiles(
                files=files, until_s=began + elapsed + max(_FRESH_S, _PAUSE * elapsed)
            )
            with self._lock:
                self._recent[folder] = seen
                self._recent.move_to_end(folder)
                if len(self._recent) > _MAX_FOLDERS:
                    self._recent.popitem(last=False)
        return seen.files

    def _is_project(self, folder: Path) -> bool:
        return folder != self._home and folder not in self._home.parents


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no entry for this user
        return ""
