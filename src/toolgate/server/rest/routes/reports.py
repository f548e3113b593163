"""Routes for figures about the gateway: status, comparison of searches, token cost, tool usage."""

from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from pydantic import Field

import toolgate
from toolgate.audit import compare_searches
from toolgate.base.ids import utc_text
from toolgate.server.rest.models import MAX_DAYS, Query
from toolgate.server.rest.routing import Call, Routes
from toolgate.telemetry.cost import cost_report, usage_report
from toolgate.types import Json

routes = Routes()


@routes.get("status")
async def status(call: Call) -> Json:
    """Show the gateway in a few numbers."""
    servers = call.gateway.servers.statuses(call.caller)
    return {
        "version": toolgate.__version__,
        "servers": len(servers),
        "states": Counter(server.state for server in servers),
        "tools": len(call.gateway.listing.tool_views(call.caller)),
        "mode": call.app.settings.mode,
        "optimization": _or_null(call.app.settings.optimization),
    }


@routes.get("diagnostics")
async def diagnostics(call: Call) -> Json:
    """Show how late the event loop of this process is, and where it stood when it was latest."""
    call.must_manage()
    monitor = call.app.loop_monitor
    worst = monitor.worst
    return {
        "event_loop": {
            "lag_s": monitor.lag_s,
            "stalls": monitor.stalls,
            "worst_stall": None if worst is None else asdict(worst),
        }
    }


class WeekQuery(Query):
    """How far back."""

    days: float = Field(7.0, gt=0, le=MAX_DAYS, description="How far back; 7 by default.")


@routes.get("optimization")
async def optimization(call: Call, query: WeekQuery) -> Json:
    """Show which search is used, and how each does."""
    call.must_manage()
    since, settings = _since(query.days), call.app.settings
    await call.app.recorder.flush()
    reports = await compare_searches(call.app.store, since=since, project_id=call.caller.project_id)
    return {
        "optimization": _or_null(settings.optimization),
        "share_percent": settings.experiment_percent,
        "control": _or_null(settings.control) if settings.experiment_percent < 100 else None,
        "since": since,
        "is_recorded": settings.audit.enabled,
        "searches": [report.as_json() for report in reports],
    }


class DayQuery(Query):
    """How far back."""

    days: float = Field(1.0, gt=0, le=MAX_DAYS, description="How far back; 1 by default.")


@routes.get("cost")
async def cost(call: Call, query: DayQuery) -> Json:
    """Show the tokens of each conversation, against listing all tools."""
    await call.app.recorder.flush()
    return (await cost_report(call.app, call.caller, _since(query.days))).as_json()


@routes.get("tools/usage")
async def tool_usage(call: Call, query: DayQuery) -> Json:
    """Show calls, success and last use by tool and project."""
    await call.app.recorder.flush()
    return (await usage_report(call.app, call.caller, _since(query.days))).as_json()


def _since(days: float) -> str:
    return utc_text(datetime.now(UTC) - timedelta(days=days))


def _or_null(name: str) -> str | None:
    """Return the JSON value for a search: null for none."""
    return None if name == "off" else name
