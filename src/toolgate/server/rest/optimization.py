"""`GET /api/v1/optimization`: which search strategy is used, how often, and how well it does."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from toolgate.app.app import App
from toolgate.audit import compare_searches
from toolgate.base.ids import utc_text
from toolgate.errors import ArgumentError
from toolgate.types import Caller, Json

__all__ = ["optimization", "or_null"]

_DAYS = 7.0
_MOST_DAYS = 36_500.0


async def optimization(app: App, caller: Caller, query: Mapping[str, str]) -> Json:
    """The settings, and the searches of the last `days` (7) side by side; no search is null.

    Raises:
        ArgumentError: `days` is no number in range.
    """
    days = _days(query.get("days"))
    since = utc_text(datetime.now(UTC) - timedelta(days=days))
    settings = app.settings
    await app.recorder.flush()
    reports = await compare_searches(app.store, since=since, project_id=caller.project_id)
    return {
        "optimization": or_null(settings.optimization),
        "share_percent": settings.experiment_percent,
        "control": or_null(settings.control) if settings.experiment_percent < 100 else None,
        "since": since,
        "is_recorded": settings.audit.enabled,
        "searches": [report.as_json() for report in reports],
    }


def or_null(name: str) -> str | None:
    """What JSON says for a search: null for none."""
    return None if name == "off" else name


def _days(text: str | None) -> float:
    try:
        days = _DAYS if text is None else float(text)
    except ValueError:
        days = -1.0
    if not 0 < days <= _MOST_DAYS:
        raise ArgumentError(
            f"days is {text!r:.40}.",
            allowed=f"Allowed: numbers above 0, up to {_MOST_DAYS:,.0f}.",
        )
    return days
