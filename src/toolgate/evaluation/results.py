"""Results of `toolgate eval`, one JSON line each, in a file of the data folder.

A file and no table: measuring needs no store, and happens where the labelled requests are.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import toolgate
from toolgate.base import json_text
from toolgate.base.ids import utc_now
from toolgate.settings import data_dir
from toolgate.types import json_object

__all__ = ["MOST_KEPT", "Evaluation", "evaluations_file", "note_evaluations", "read_evaluations"]

MOST_KEPT = 1_000
"""Rows in the file; older ones are dropped; chosen."""

_LONGEST_BYTES = 4 * 2**20
"""Bytes of the file that are read; chosen."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A row of what was measured."""

    at: str
    """When; UTC, ISO 8601."""

    version: str
    """Of Toolgate."""

    kind: str
    """`tools` or `intents`."""

    subject: str
    """The set of labelled requests, or the pack."""

    by: str
    """What was measured: a search, or an embedder."""

    requests: int
    """Of how many."""

    shares: Mapping[str, float]
    """Shares of 1 by name, the one that a trend is drawn of first."""


def evaluations_file() -> Path:
    """Where they are kept."""
    return data_dir() / "evaluations.jsonl"


def note_evaluations(
    kind: str, rows: Sequence[tuple[str, str, int, Mapping[str, float]]], *, path: Path
) -> None:
    """Keep what was measured just now: of each row subject, by what, requests and shares.

    Raises:
        OSError: The file cannot be written; what was in it stays.
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
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(b"".join(json_text.dumps(asdict(row)) + b"\n" for row in rows_kept))
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def read_evaluations(path: Path) -> list[Evaluation]:
    """All that are kept, oldest first; lines that are none are left out.

    Raises:
        OSError: The file is there and cannot be read.
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
