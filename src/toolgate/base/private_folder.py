"""Folders that only the user of this process can open."""

from pathlib import Path


def create_private_folder(folder: Path) -> None:
    """Create a folder, and those above it that are missing, with access for this user only.

    Existing folders keep their mode, since they may contain other things. `Path.mkdir` gives its
    mode to the last folder only.
    """
    for path in reversed([folder, *folder.parents]):
        if not path.exists():
            path.mkdir(mode=0o700, exist_ok=True)
