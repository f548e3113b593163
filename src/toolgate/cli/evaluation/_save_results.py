"""Save the metrics of `toolgate eval` for the console."""

from collections.abc import Mapping, Sequence

from toolgate.cli.terminal._output import note
from toolgate.evaluation.results import evaluations_file, note_evaluations


def save_metrics(kind: str, rows: Sequence[tuple[str, str, int, Mapping[str, float]]]) -> None:
    """Save metrics; a failure is reported but not raised."""
    path = evaluations_file()
    try:
        note_evaluations(kind, rows, path=path)
    except OSError as error:
        note(f"Not saved for the console: {path} cannot be written ({error.strerror}).")
