"""Reads, replaces and locks files of a workspace: atomically, and only if they are writable."""

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from toolgate.packs.builtin.servoy._errors import ToolRefusedError

if os.name == "nt":  # pragma: no cover -- the other branch is the one that is tested
    import msvcrt
else:
    import fcntl

LOCK_WAIT_S = 10.0
"""Seconds that a change waits for the previous one."""

_STEP_S = 0.02
"""Seconds between two attempts to lock (chosen: not noticeable)."""


def content_of(path: Path) -> bytes | None:
    """Read a file; None if it does not exist.

    Raises:
        ToolRefusedError: The file cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolRefusedError(f"{path} cannot be read: {error.strerror or error}.") from error


def why_not_writable(path: Path) -> str:
    """Return why a file must not be written or deleted; empty if it may.

    Replacing a file only needs a writable folder, even if the file is protected; so both are
    checked.
    """
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    for checked in (path, folder):
        try:
            mode = checked.stat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{checked} cannot be reached: {error.strerror or error}"
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(
            checked, os.W_OK
        ):
            return f"{checked} is read-only"
    if path.is_symlink():
        return f"{path} is a link to another file"
    return ""


def replace(path: Path, content: bytes) -> None:
    """Replace a file's content atomically: readers see the old or the new content, never a part.

    Raises:
        OSError: The file could not be written; it is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".toolgate")
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        beside.chmod(0o666 & ~_umask() if mode is None else mode)
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    _settle(path.parent)


def remove(path: Path) -> None:
    """Delete a file, if it exists.

    Raises:
        OSError: The file still exists.
    """
    path.unlink(missing_ok=True)
    _settle(path.parent)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold an exclusive lock, between processes, on what the lock file stands for.

    Raises:
        ToolRefusedError: Another process holds the lock, or the lock file cannot be created.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a+b")
    except OSError as error:
        raise ToolRefusedError(
            f"The lock {path} cannot be taken: {error.strerror or error}. Nothing was changed."
        ) from error
    with opened:
        deadline = time.monotonic() + LOCK_WAIT_S
        while not _take(opened):
            if time.monotonic() > deadline:
                raise ToolRefusedError(
                    f"Another process is changing the workspace and holds {path} since more than "
                    f"{LOCK_WAIT_S:.0f} s. Nothing was changed. Try again later."
                )
            time.sleep(_STEP_S)
        try:
            yield
        finally:
            _give_back(opened)


def _take(opened: IO[bytes]) -> bool:
    try:
        if os.name == "nt":  # pragma: no cover
            opened.seek(0)
            msvcrt.locking(opened.fileno(), msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
        else:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _give_back(opened: IO[bytes]) -> None:
    if os.name == "nt":  # pragma: no cover
        opened.seek(0)
        msvcrt.locking(opened.fileno(), msvcrt.LK_UNLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
    else:
        fcntl.flock(opened, fcntl.LOCK_UN)


def _settle(folder: Path) -> None:
    """Make a rename survive a loss of power, if the system supports that."""
    if os.name == "nt":  # pragma: no cover
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
