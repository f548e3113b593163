"""The Evaluation pages: results of `toolgate eval` over time, answers, and ratings to export."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import anyio.to_thread
from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError, StoreError
from toolgate.evaluation.logged_requests import read_labelled_requests
from toolgate.evaluation.results import Evaluation, evaluations_file, read_evaluations
from toolgate.evaluation.saved_answer_runs import SavedRun, read_run, recent_runs, runs_folder
from toolgate.types import Json, json_array, json_object

_T = TypeVar("_T")

_RUNS = 30
"""Runs that are listed (chosen)."""
_TREND = 40
"""Runs in a chart (chosen: more points cannot be told apart)."""


@dataclass(frozen=True, kw_only=True)
class Trend:
    """Repeated measurements of the same thing."""

    last: Evaluation
    """The most recent measurement."""

    share: str
    """Name of the metric in the chart."""

    values: Sequence[float]
    """Values of the metric, oldest first."""

    @property
    def value(self) -> float:
        """The most recent value."""
        return self.values[-1]

    @property
    def change(self) -> float | None:
        """Change from the previous value; None if there is none."""
        return self.values[-1] - self.values[-2] if len(self.values) > 1 else None


async def _show(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    rows = await _from_disk(read_evaluations, evaluations_file())
    answers = await _from_disk(recent_runs)
    return request.page(
        "evaluation.html", trends=_trends(rows), runs=rows[::-1][:_RUNS], answers=answers
    )


def _trends(rows: Sequence[Evaluation]) -> list[Trend]:
    """Return a trend for each measured thing, most recently measured first."""

    def series_of(row: Evaluation) -> tuple[str, str, str]:
        return row.kind, row.subject, row.by

    trends: list[Trend] = []
    for _, group in groupby(sorted(rows, key=series_of), key=series_of):
        same = list(group)
        share = next(iter(same[-1].shares), "")
        values = [row.shares[share] for row in same if share in row.shares]
        if values:
            trends.append(Trend(last=same[-1], share=share, values=values[-_TREND:]))
    return sorted(trends, key=lambda trend: trend.last.at, reverse=True)


async def _answers(request: PageRequest) -> Response:
    """Show a comparison of settings, question by question."""
    request.gateway.visible.must_manage(request.caller)
    run = await _from_disk(partial(read_run, run_id=request.query_value("run")))
    if run is None:
        raise ArgumentError("No such evaluation.", hint="It may have been removed for newer ones.")
    return request.page(
        "answers.html", run=run, metrics=_metrics_of(run), questions=_by_question(run)
    )


def _metrics_of(run: SavedRun) -> list[str]:
    """Return the names of the metrics of all variants, in the order of measurement."""
    return list(dict.fromkeys(name for variant in run.variants for name in variant["shares"]))


def _by_question(run: SavedRun) -> list[list[tuple[str, Json]]]:
    """Return for each question the answers of all variants, with the names of the variants."""
    answers = [
        [(str(variant["name"]), json_object(answer)) for answer in json_array(variant["answers"])]
        for variant in run.variants
    ]
    return [list(row) for row in zip(*answers, strict=False)]


async def _from_disk(read: Callable[[Path], _T], path: Path | None = None) -> _T:
    """Read a file or folder of evaluations in a thread."""
    path = path or runs_folder()
    try:
        return await anyio.to_thread.run_sync(read, path)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}.",
            hint="Make it readable for the user that runs the gateway.",
        ) from error


async def _marks(request: PageRequest) -> Response:
    """Export requests whose tools worked or were rated correct, as test data."""
    request.gateway.visible.must_manage(request.caller)
    marks = await read_labelled_requests(request.app.store, request.caller.project_id)
    return Response(
        await anyio.to_thread.run_sync(marks.zipped, "marks"),
        media_type="application/zip",
        headers={"content-disposition": 'attachment; filename="marks.zip"'},
    )


ROUTES = (
    Route(path="evaluation", show=_show),
    Route(path="evaluation/answers", show=_answers),
    Route(path="evaluation/marks", show=_marks, is_long=True),
)
