"""Where the table of a server stands."""

from dataclasses import dataclass
from pathlib import Path

from toolgate.settings.config_file import ConfigDocument, KeyPath
from toolgate.settings.variables import Scope

__all__ = ["EntryLocation"]


@dataclass(frozen=True, kw_only=True)
class EntryLocation:
    """Where servers are written, and what their values are relative to."""

    document: ConfigDocument
    """Named in errors, with the line."""

    path: KeyPath
    """The table of the server."""

    folder: Path
    """What relative paths belong to."""

    scope: Scope
    """What variables stand for."""
