"""Tells when the configuration has changed, by looking at the files once a second.

Looking is used instead of notifications of the system: it works on every file system, follows
links, survives editors that replace a file, and costs 50 µs a second.
"""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import anyio
import anyio.to_thread

from toolgate.errors import SettingError
from toolgate.settings.folders import config_dir
from toolgate.settings.loader import CONFIG_NAME, load
from toolgate.settings.tables import Settings

__all__ = ["watch"]

_Stamps = dict[Path, tuple[int, int, int] | None]


async def watch(
    settings: Settings,
    *,
    stop: anyio.Event,
    interval_s: float = 1.0,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> AsyncIterator[Settings | SettingError]:
    """The new settings whenever they change, or the error that keeps the old ones in place.

    A change is read once the files have been still for one interval, so that a file which is being
    written is not read half. A `toolgate.toml` that goes away is an error, not an empty one.

    Args:
        settings: What is in force; its files, imports and overrides are read again.
        stop: Ends the iteration.
        interval_s: Seconds between two looks.
        environ: As for `load`.
        cwd: As for `load`.
    """
    cwd = Path.cwd() if cwd is None else cwd

    def again() -> Settings | SettingError:
        try:
            return load(
                in_force.config_file,
                settings.imports,
                overrides=settings.overrides,
                environ=environ,
                cwd=cwd,
            )
        except SettingError as error:
            return error

    in_force = settings
    current: Settings | SettingError = settings
    places = (cwd / CONFIG_NAME, config_dir(environ) / CONFIG_NAME)
    files = {*settings.files, *places}
    known: _Stamps | None = None  # the first look reads: a file may have changed since `load`
    before: _Stamps = {}
    while not stop.is_set():
        stamps = await anyio.to_thread.run_sync(_look, files)
        if known is None or (stamps != known and stamps == before):
            known = stamps
            found = await anyio.to_thread.run_sync(again)
            if isinstance(found, Settings):
                in_force = found
                files = {*found.files, *places}
            if not _is_same(found, current):
                current = found
                yield found
        before = stamps
        with anyio.move_on_after(interval_s):
            await stop.wait()


def _is_same(one: Settings | SettingError, other: Settings | SettingError) -> bool:
    if isinstance(one, SettingError) and isinstance(other, SettingError):
        return str(one) == str(other)
    return one == other


def _look(files: set[Path]) -> _Stamps:
    return {path: _stamp(path) for path in files}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
