"""Detects changes of the configuration by checking the files once a second.

Polling is used instead of file system notifications: it works on every file system, follows
links, works with editors that replace a file, and costs 50 µs a second.
"""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import anyio
import anyio.to_thread

from toolgate.errors import SettingError
from toolgate.settings.folders import CONFIG_NAME, config_dir
from toolgate.settings.loader import load
from toolgate.settings.tables.root import Settings

_Stamps = dict[Path, tuple[int, int, int] | None]


async def watch(
    settings: Settings,
    *,
    stop: anyio.Event,
    interval_s: float = 1.0,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> AsyncIterator[Settings | SettingError]:
    """Yield the new settings after each change, or the error because of which the old ones stay.

    A change is read once the files have not changed for one interval, so that no half-written
    file is read. A deleted `toolgate.toml` is an error, not an empty file.

    Args:
        settings: The current settings; their files, imports and overrides are read again.
        stop: Ends the iteration.
        interval_s: Seconds between two checks.
        environ: As for `load`.
        cwd: As for `load`.
    """
    cwd = Path.cwd() if cwd is None else cwd

    def again() -> Settings | SettingError:
        try:
            return load(
                active.config_file,
                settings.imports,
                overrides=settings.overrides,
                environ=environ,
                cwd=cwd,
            )
        except SettingError as error:
            return error

    active = settings
    current: Settings | SettingError = settings
    places = (cwd / CONFIG_NAME, config_dir(environ) / CONFIG_NAME)
    files = {*settings.files, *places}
    last_stamps: _Stamps | None = None  # always read at first: a file may have changed since `load`
    before: _Stamps = {}
    while not stop.is_set():
        stamps = await anyio.to_thread.run_sync(_stamps_of, files)
        if last_stamps is None or (stamps != last_stamps and stamps == before):
            last_stamps = stamps
            loaded = await anyio.to_thread.run_sync(again)
            if isinstance(loaded, Settings):
                active = loaded
                files = {*loaded.files, *places}
            if not _is_same(loaded, current):
                current = loaded
                yield loaded
        before = stamps
        with anyio.move_on_after(interval_s):
            await stop.wait()


def _is_same(left: Settings | SettingError, right: Settings | SettingError) -> bool:
    if isinstance(left, SettingError) and isinstance(right, SettingError):
        return str(left) == str(right)
    return left == right


def _stamps_of(files: set[Path]) -> _Stamps:
    return {path: _stamp(path) for path in files}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)
