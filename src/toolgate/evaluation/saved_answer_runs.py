"""Saved runs of `toolgate eval answers` with all answers, in the data folder.

The metrics of each run are also in the file of all evaluations, for trends.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from toolgate.base import json_text
from toolgate.base.ids import new_id, utc_now
from toolgate.base.private_folder import create_private_folder
from toolgate.evaluation.answers import AnswerRun
from toolgate.settings import data_dir
from toolgate.types import Json, json_array, json_object

RUNS_KEPT = 50
"""Number of saved runs; older ones are deleted (chosen)."""

_LONGEST_BYTES = 16 * 2**20
"""Largest size in bytes of a run that is read (chosen)."""


@dataclass(frozen=True, kw_only=True)
class SavedRun:
    """A comparison of variants on a set of questions."""

    run_id: str
    """Opaque id, sortable by time."""

    at: str
    """Time; UTC, ISO 8601."""

    subject: str
    """The set of questions."""

    judge: str
    """The model that judged."""

    questions: int
    """Number of questions."""

    variants: tuple[Json, ...]
    """For each variant `name`, `choices`, `shares`, `means` and `answers` (see `JudgedAnswer`)."""


def runs_folder() -> Path:
    """The folder of saved runs."""
    return data_dir() / "answers"


def save_run(folder: Path, subject: str, judge: str, runs: Sequence[AnswerRun]) -> str:
    """Save a comparison. Returns its id.

    Raises:
        OSError: The folder cannot be written.
    """
    run_id = new_id()
    body: Json = {
        "at": utc_now(),
        "subject": subject,
        "judge": judge,
        "questions": max(len(run.answers) for run in runs),
        "variants": [
            {
                "name": run.variant.name,
                "choices": run.variant.choices,
                "shares": run.shares(),
                "means": run.means(),
                "answers": [asdict(answer) for answer in run.answers],
            }
            for run in runs
        ],
    }
    create_private_folder(folder)
    temporary = folder / f"{run_id}.{os.getpid()}"
    try:
        temporary.write_bytes(json_text.dumps(body))
        temporary.replace(folder / f"{run_id}.json")
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    for path in sorted(folder.glob("*.json"))[:-RUNS_KEPT]:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    return run_id


def recent_runs(folder: Path) -> list[SavedRun]:
    """All saved runs, newest first; other files are ignored.

    Raises:
        OSError: The folder exists and cannot be read.
    """
    if not folder.is_dir():
        return []
    names = sorted((path.stem for path in folder.glob("*.json")), reverse=True)
    return [run for name in names[:RUNS_KEPT] if (run := read_run(folder, name)) is not None]


def read_run(folder: Path, run_id: str) -> SavedRun | None:
    """A saved run; None if it does not exist.

    Raises:
        OSError: It exists and cannot be read.
    """
    if not run_id.isalnum():
        return None
    try:
        with (folder / f"{run_id}.json").open("rb") as file:
            body = json_object(json_text.loads(file.read(_LONGEST_BYTES)))
        return SavedRun(
            run_id=run_id,
            at=str(body["at"]),
            subject=str(body["subject"]),
            judge=str(body["judge"]),
            questions=int(body["questions"]),
            variants=tuple(map(json_object, json_array(body["variants"]))),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return None
