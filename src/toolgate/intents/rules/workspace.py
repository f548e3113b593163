"""What rules can be told of the place where Toolgate runs."""

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

__all__ = ["Workspace"]

_FRESH_S: Final = 1.0
_PAUSE: Final = 20
"""Looking at the files takes at most this part of the time."""

_PLACES: Final = 100
"""Folders whose files are remembered."""


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """The files of a folder that changed last, and until when that is believed."""

    files: tuple[str, ...]
    until_s: float


class Workspace:
    """Variables that hold for the rules of all packs: who, where, what was worked on."""

    def __init__(
        self, folder: Path, *, home: Path, connections: Callable[[], Collection[str]] = tuple
    ) -> None:
        """Describe a place.

        Args:
            folder: Where Toolgate runs; it stands for callers of whom no folder is known.
            home: The user's home folder, which is no project.
            connections: Names of the configured databases.
        """
        self._folder = folder
        self._home = home
        self._connections = connections
        self._recent: OrderedDict[Path, _Seen] = OrderedDict()
        self._looking = Lock()

    async def __call__(self, caller: Caller, names: Collection[str]) -> Mapping[str, str]:
        """What is known; an empty text where there is nothing."""
        databases = ", ".join(self._connections())
        found = {
            "PROJECT_NAME": self._project(caller),
            "DATABASE_SERVERS": databases,
            "AVAILABLE_DATASOURCES": databases,
        }
        if "USER_NAME" in names:
            found["USER_NAME"] = _user() if caller.caller_id == "local" else caller.caller_id
        if "RECENT_FILES" in names:
            files = await to_thread.run_sync(self._files, self._place(caller))
            found["RECENT_FILES"] = "\n".join(f"- {path}" for path in files)
        return found

    def _project(self, caller: Caller) -> str:
        if caller.project_id != DEFAULT_PROJECT:
            return caller.project_id
        place = self._place(caller)
        return place.name if self._is_project(place) else ""

    def _place(self, caller: Caller) -> Path:
        return Path(caller.folder) if caller.folder else self._folder

    def _files(self, place: Path) -> tuple[str, ...]:
        """The last changed files; what takes long to find out is looked at less often."""
        if not self._is_project(place):
            return ()
        began = monotonic()
        with self._looking:
            seen = self._recent.get(place)
        if seen is None or began >= seen.until_s:
            files = recent_files(place)
            took = monotonic() - began
            seen = _Seen(files=files, until_s=began + took + max(_FRESH_S, _PAUSE * took))
            with self._looking:
                self._recent[place] = seen
                self._recent.move_to_end(place)
                if len(self._recent) > _PLACES:
                    self._recent.popitem(last=False)
        return seen.files

    def _is_project(self, place: Path) -> bool:
        return place != self._home and place not in self._home.parents


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no entry for this user
        return ""
