"""Location of a server's table."""

from dataclasses import dataclass
from pathlib import Path

from toolgate.settings.config_file import ConfigDocument, KeyPath
from toolgate.settings.variables import Scope


@dataclass(frozen=True, kw_only=True)
class EntryLocation:
    """Location of a server's table, and the base of its values."""

    document: ConfigDocument
    """Named in errors, with the line."""

    path: KeyPath
    """Path of the server's table."""

    folder: Path
    """Base of relative paths."""

    scope: Scope
    """Values of variables."""
