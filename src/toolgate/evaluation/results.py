"""Results of `toolgate eval`, one JSON object per line, in a file of the data folder.

A file instead of a table: evaluation needs no store, and runs where the labelled requests are.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import toolgate
from toolgate.base import json_text
from toolgate.base.ids import utc_now
from toolgate.base.private_folder import create_private_folder
from toolgate.settings import data_dir
from toolgate.types import json_object

MOST_KEPT = 1_000
"""Rows in the file; older ones are dropped (chosen)."""

_LONGEST_BYTES = 4 * 2**20
"""Bytes read from the file (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A row of results."""

    at: str
    """Time; UTC, ISO 8601."""

    version: str
    """Version of Toolgate."""

    kind: str
    """`tools` or `intents`."""

    subject: str
    """The set of labelled requests, or the pack."""

    by: str
    """What was evaluated: a search strategy or an embedder."""

    requests: int
    """Number of requests."""

    shares: Mapping[str, float]
    """Metrics in [0, 1] by name; trends show the first one."""


def evaluations_file() -> Path:
    """The file of results."""
    return data_dir() / "evaluations.jsonl"


def note_evaluations(
    kind: str, rows: Sequence[tuple[str, str, int, Mapping[str, float]]], *, path: Path
) -> None:
    """Append rows of results: subject, what was evaluated, number of requests, metrics.

    Raises:
        OSError: The file cannot be written; its content stays.
    """
    at = utc_now()
    fresh = [
        Evaluation(
            at=at,
            version=toolgate.__version__,
            kind=kind,
            subject=subject,
            by=by,
            requests=requests,
            shares=shares,
        )
        for subject, by, requests, shares in rows
    ]
    rows_kept = [*read_evaluations(path), *fresh][-MOST_KEPT:]
    create_private_folder(path.parent)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(b"".join(json_text.dumps(asdict(row)) + b"\n" for row in rows_kept))
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def read_evaluations(path: Path) -> list[Evaluation]:
    """All rows, oldest first; malformed lines are ignored.

    Raises:
        OSError: The file exists and cannot be read.
    """
    try:
        with path.open("rb") as file:
            lines = file.read(_LONGEST_BYTES).split(b"\n")
    except FileNotFoundError:
        return []
    return [row for line in lines if (row := _row(line)) is not None]


def _row(line: bytes) -> Evaluation | None:
    try:
        fields = json_object(json_text.loads(line))
        return Evaluation(
            at=str(fields["at"]),
            version=str(fields["version"]),
            kind=str(fields["kind"]),
            subject=str(fields["subject"]),
            by=str(fields["by"]),
            requests=int(fields["requests"]),
            shares={
                str(name): float(share) for name, share in json_object(fields["shares"]).items()
            },
        )
    except (ValueError, KeyError, TypeError):
        return None
