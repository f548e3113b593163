"""Run files: how commands on the same machine find a running gateway.

There is one file per gateway process, readable only by its user, in the run folder of the data
folder. If the process no longer exists, it was killed, and the file is removed by the next
reader.
"""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from toolgate.base.private_folder import create_private_folder
from toolgate.base.processes.liveness import is_running

_PREFIX = "gateway-"


@dataclass(frozen=True, kw_only=True)
class WorkerState:
    """A worker of a gateway with several processes."""

    number: int
    """Its number, from 1."""

    pid: int
    """Its process id; 0 if it is not running."""

    state: str
    """`starting`, `serving`, or `waiting` before it is restarted."""

    restarts: int
    """How often it crashed and was restarted."""


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """What a running gateway announces."""

    address: str
    """Its address, such as `http://127.0.0.1:7420`."""

    pid: int
    """Its process id."""

    key: str
    """A random key that proves access to this file. WARNING: a credential, never shown."""

    store: str
    """URL of its store, without password."""

    configuration: tuple[str, ...]
    """Absolute paths of its configuration file (empty without one) and of the files of
    `--import`."""

    started_at: str
    """UTC, ISO 8601."""

    version: str
    """Version of Toolgate."""

    runs_in: str = ""
    """Absolute path of its working folder; empty in files of older versions."""

    files: tuple[str, ...] = ()
    """Paths of all files that its settings were read from."""

    digest: str = ""
    """Hash of their contents as it read them; empty in files of older versions."""

    workers: tuple[WorkerState, ...] = ()
    """Its workers; empty for a gateway in one process."""

    path: Path
    """Path of the run file."""

    def is_alive(self) -> bool:
        """Whether a process with this id is running; the id may have been reused."""
        return is_running(self.pid)


def new_key() -> str:
    """A new random key for a run file."""
    return secrets.token_urlsafe(32)


def write(
    folder: Path,
    *,
    address: str,
    store: str,
    configuration: Sequence[str],
    started_at: str,
    version: str,
    runs_in: str = "",
    files: Sequence[str] = (),
    key: str = "",
    workers: Sequence[WorkerState] = (),
) -> RunFile:
    """Announce this process in `folder` atomically, replacing its earlier announcement.

    Args:
        folder: Run folder; created with access for its user only.
        address: Where the gateway listens.
        store: URL of its store; a password in it is not written.
        configuration: Absolute paths of its configuration file (empty without one) and of the
            files imported on the command line.
        started_at: UTC, ISO 8601.
        version: Version of Toolgate.
        runs_in: Absolute path of its working folder.
        files: Paths of all files that its settings were read from.
        key: The key of the file; empty: a new one.
        workers: Its workers; empty for a gateway in one process.
    """
    create_private_folder(folder)
    run = RunFile(
        address=address,
        pid=os.getpid(),
        key=key or new_key(),
        store=without_password(store),
        configuration=tuple(configuration),
        started_at=started_at,
        version=version,
        runs_in=runs_in,
        files=tuple(files),
        digest=digest_of(files),
        workers=tuple(workers),
        path=folder / f"{_PREFIX}{_store_id(store)}-{os.getpid()}.json",
    )
    body = {
        "address": run.address,
        "pid": run.pid,
        "key": run.key,
        "store": run.store,
        "configuration": run.configuration,
        "started_at": run.started_at,
        "version": run.version,
        "runs_in": run.runs_in,
        "files": run.files,
        "digest": run.digest,
        "workers": [asdict(worker) for worker in run.workers],
    }
    draft = run.path.with_suffix(".new")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(body, file, indent=2)
    draft.replace(run.path)
    return run


def remove(run: RunFile) -> None:
    """Delete a run file, if it still exists."""
    with contextlib.suppress(OSError):
        run.path.unlink()


def read_all(folder: Path) -> list[RunFile]:
    """All run files in `folder`, newest first, including those of dead processes."""
    runs = [run for path in sorted(folder.glob(f"{_PREFIX}*.json")) if (run := _read(path))]
    return sorted(runs, key=lambda run: run.started_at, reverse=True)


def find(
    folder: Path, store: str | None, configuration: Sequence[str], *, runs_in: str | None = None
) -> RunFile | None:
    """The newest gateway that uses `store` with this configuration.

    All projects of a user share a store, so the store alone does not identify a gateway.

    Args:
        folder: Run folder.
        store: URL of the store; None: any.
        configuration: As announced.
        runs_in: Absolute path of its working folder; None: any.
    """
    files = tuple(configuration)
    return next(
        (
            run
            for run in find_all(folder, store)
            if run.configuration == files and (runs_in is None or run.runs_in == runs_in)
        ),
        None,
    )


def find_all(folder: Path, store: str | None) -> list[RunFile]:
    """Running gateways that use `store`, newest first; files of dead processes are removed.

    Args:
        folder: Run folder.
        store: URL of the store; None: any.
    """
    prefix = _PREFIX if store is None else f"{_PREFIX}{_store_id(store)}-"
    run_files: list[RunFile] = []
    for run in read_all(folder):
        if not run.path.name.startswith(prefix):
            continue
        if run.is_alive():
            run_files.append(run)
        else:
            remove(run)
    return run_files


def digest_of(files: Sequence[str]) -> str:
    """One for these files with what they contain now; one that cannot be read counts as missing."""
    digest = hashlib.sha256()
    for name in files:
        try:
            content = hashlib.sha256(Path(name).read_bytes()).hexdigest()
        except OSError:
            content = "missing"
        digest.update(f"{name}\0{content}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def without_password(url: str) -> str:
    """The URL of a store without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{host}"))


def _store_id(store: str) -> str:
    """An id of the store that is safe in file names and equal for every process that uses it."""
    return hashlib.sha256(without_password(store).encode()).hexdigest()[:12]


def _read(path: Path) -> RunFile | None:
    """Read a run file; None if it is gone, unreadable or not a run file."""
    try:
        body: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(body, dict):
        return None
    fields = cast("dict[str, Any]", body)
    try:
        return RunFile(
            address=str(fields["address"]),
            pid=int(fields["pid"]),
            key=str(fields["key"]),
            store=str(fields["store"]),
            configuration=tuple(map(str, fields.get("configuration") or ("",))),
            started_at=str(fields["started_at"]),
            version=str(fields.get("version", "")),
            runs_in=str(fields.get("runs_in", "")),
            files=tuple(map(str, fields.get("files", ()))),
            digest=str(fields.get("digest", "")),
            workers=tuple(WorkerState(**worker) for worker in fields.get("workers", ())),
            path=path,
        )
    except (KeyError, TypeError, ValueError):
        return None
