"""What rules can be told of the place where Toolgate runs."""

import getpass
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from time import monotonic
from typing import Final

from anyio import to_thread

from toolgate.rules._recent import recent_files
from toolgate.types import DEFAULT_PROJECT, Caller

__all__ = ["Workspace"]

_FRESH_S: Final = 1.0
_PAUSE: Final = 20
"""Looking at the files takes at most this part of the time."""


class Workspace:
    """Variables that hold for the rules of all packs: who, where, what was worked on."""

    def __init__(
        self, folder: Path, *, home: Path, connections: Callable[[], Collection[str]] = tuple
    ) -> None:
        """Describe a place.

        Args:
            folder: Where Toolgate runs; clients start it in the folder of their project.
            home: The user's home folder, which is no project.
            connections: Names of the configured databases.
        """
        self._folder = folder
        self._home = home
        self._connections = connections
        self._seen: tuple[str, ...] = ()
        self._looks_again_s = 0.0

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
            files = await to_thread.run_sync(self._recent)
            found["RECENT_FILES"] = "\n".join(f"- {path}" for path in files)
        return found

    def _project(self, caller: Caller) -> str:
        if caller.project_id != DEFAULT_PROJECT:
            return caller.project_id
        return self._folder.name if self._is_project() else ""

    def _recent(self) -> tuple[str, ...]:
        """The last changed files; what takes long to find out is looked at less often."""
        began = monotonic()
        if self._is_project() and began >= self._looks_again_s:
            self._seen = recent_files(self._folder)
            took = monotonic() - began
            self._looks_again_s = began + took + max(_FRESH_S, _PAUSE * took)
        return self._seen

    def _is_project(self) -> bool:
        return self._folder != self._home and self._folder not in self._home.parents


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no entry for this user
        return ""
