"""Keeping what `toolgate eval` measured, for the console."""

from collections.abc import Mapping, Sequence

from toolgate.cli.terminal._output import note
from toolgate.evaluation.results import evaluations_file, note_evaluations

__all__ = ["save_metrics"]


def save_metrics(kind: str, rows: Sequence[tuple[str, str, int, Mapping[str, float]]]) -> None:
    """Keep rows; that it cannot be done is only said."""
    path = evaluations_file()
    try:
        note_evaluations(kind, rows, path=path)
    except OSError as error:
        note(f"Not kept for the console: {path} cannot be written ({error.strerror}).")
