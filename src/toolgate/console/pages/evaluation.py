"""The Evaluation page: results of `toolgate eval` over time, and ratings to export."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import anyio.to_thread
from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.errors import StoreError
from toolgate.evaluation.labelled_requests import read_labelled_requests
from toolgate.evaluation.results import Evaluation, evaluations_file, read_evaluations

__all__ = ["ROUTES"]

_RUNS = 30
_TREND = 40


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The same thing measured again and again."""

    last: Evaluation
    """The newest."""

    share: str
    """Name of the share that is drawn."""

    values: Sequence[float]
    """It, oldest first."""

    @property
    def value(self) -> float:
        """Of the newest."""
        return self.values[-1]

    @property
    def change(self) -> float | None:
        """Against the one before; None: there is none."""
        return self.values[-1] - self.values[-2] if len(self.values) > 1 else None


async def _show(visit: Visit) -> Response:
    visit.gateway.visible.must_manage(visit.caller)
    path = evaluations_file()
    try:
        rows = await anyio.to_thread.run_sync(read_evaluations, path)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}.",
            hint="Let the user that runs the gateway read it.",
        ) from error
    return visit.page("evaluation.html", trends=_trends(rows), runs=rows[::-1][:_RUNS])


def _trends(rows: Sequence[Evaluation]) -> list[Trend]:
    """One for each thing that was measured, the last measured first."""

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


async def _marks(visit: Visit) -> Response:
    """The requests whose tools worked or were marked right, to measure with."""
    visit.gateway.visible.must_manage(visit.caller)
    marks = await read_labelled_requests(visit.app.store, visit.caller.project_id)
    return Response(
        await anyio.to_thread.run_sync(marks.zipped, "marks"),
        media_type="application/zip",
        headers={"content-disposition": 'attachment; filename="marks.zip"'},
    )


ROUTES = (
    Route(path="evaluation", show=_show),
    Route(path="evaluation/marks", show=_marks, is_long=True),
)
