"""The Cost page: token cost of tasks, and tools by use."""

from starlette.responses import Response

from toolgate.base.ids import utc_now
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.telemetry.cost import (
    UNUSED_S,
    CostReport,
    UsageReport,
    cost_report,
    usage_report,
)

_PERIODS = {"1": "day", "7": "week", "30": "month"}
_SHOWN = 50
"""Rows of the table (chosen)."""


async def _show(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    days = request.query_value("days") if request.query_value("days") in _PERIODS else "1"
    since = utc_now(plus_s=-86_400.0 * int(days))

    async def count() -> tuple[CostReport, UsageReport]:
        report = await cost_report(request.app, request.caller, since)
        return report, await usage_report(request.app, request.caller, since)

    names = await request.token_names()
    # The usage report reads at least this long a period, to find servers that were never used.
    read_since = min(since, utc_now(plus_s=-UNUSED_S))
    figures = await request.figures.get(f"cost {days}", read_since, count)
    response = request.page(
        "costs.html", found=figures, names=names, most=_SHOWN, days=days, periods=_PERIODS
    )
    if figures is None:
        response.headers["refresh"] = "2"  # also works without scripts
    return response


ROUTES = (Route(path="cost", show=_show),)
