"""`GET /api/v1/cost` and `GET /api/v1/tools/usage`: token cost of tasks, and tool usage."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from toolgate.app.app import App
from toolgate.base.ids import utc_text
from toolgate.errors import ArgumentError
from toolgate.telemetry.cost import cost_report, usage_report
from toolgate.types import Caller, Json

__all__ = ["cost", "tool_usage"]

_DAYS = 1.0
_MOST_DAYS = 36_500.0


async def cost(app: App, caller: Caller, query: Mapping[str, str]) -> Json:
    """What conversations of the last `days` (1) cost against listing all tools.

    Raises:
        ArgumentError: `days` is no number in range.
    """
    since = _since(query.get("days"))
    await app.recorder.flush()
    return (await cost_report(app, caller, since)).as_json()


async def tool_usage(app: App, caller: Caller, query: Mapping[str, str]) -> Json:
    """How tools were used within the last `days` (1), and what follows from it.

    Raises:
        ArgumentError: `days` is no number in range.
        ForbiddenError: The caller may not manage.
    """
    since = _since(query.get("days"))
    await app.recorder.flush()
    return (await usage_report(app, caller, since)).as_json()


def _since(text: str | None) -> str:
    try:
        days = _DAYS if text is None else float(text)
    except ValueError:
        days = -1.0
    if not 0 < days <= _MOST_DAYS:
        raise ArgumentError(
            f"days is {text!r:.40}.",
            allowed=f"Allowed: numbers above 0, up to {_MOST_DAYS:,.0f}.",
        )
    return utc_text(datetime.now(UTC) - timedelta(days=days))
