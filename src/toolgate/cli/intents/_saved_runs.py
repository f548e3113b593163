"""Save results of `toolgate detect` for `--stats`, in a small file until moved to the store.

Opening the store takes half a second, too long for a command about one message.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from anyio import to_thread

from toolgate.base.private_folder import create_private_folder
from toolgate.intents import Detection, detection_row
from toolgate.settings import Settings, data_dir
from toolgate.store import Store, StoredDetection
from toolgate.types import Caller

_MAX_BYTES: Final = 1_000_000
"""Size of the file beyond which nothing is added (chosen)."""


def save_detection(settings: Settings, message: str, detection: Detection) -> None:
    """Save the result for a message if the settings allow it; errors are ignored."""
    if not settings.audit.detections:
        return
    row = detection_row(
        Caller.local(),
        message if settings.audit.keep_queries else None,
        detection,
        asked="detect",
        remembered=False,
    )
    path = _file()
    try:
        create_private_folder(path.parent)
        if not path.exists() or path.stat().st_size < _MAX_BYTES:
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as opened:
                opened.write(json.dumps(asdict(row)) + "\n")
    except OSError:
        return


async def move_to_store(store: Store) -> None:
    """Move the saved results to the store."""
    taken = await to_thread.run_sync(_rename_for_reading)
    rows = await to_thread.run_sync(_read, taken)
    if rows:
        await store.detections.append(rows)
    await to_thread.run_sync(partial(taken.unlink, missing_ok=True))


def _rename_for_reading() -> Path:
    """Rename the file for reading, so that results added in the meantime are not lost."""
    taken = _file().with_suffix(".taken")
    if not taken.exists():  # otherwise an earlier move was interrupted
        with suppress(OSError):
            _file().replace(taken)
    return taken


def _read(path: Path) -> list[StoredDetection]:
    rows: list[StoredDetection] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return rows
    for line in lines:
        try:
            rows.append(StoredDetection(**json.loads(line)))
        except (ValueError, TypeError):
            continue  # truncated, or from another version
    return rows


def _file() -> Path:
    return data_dir() / "detections.jsonl"
