"""`GET /api/v1/cost` and `GET /api/v1/tools/usage`: what was paid, and what was used."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from toolgate.app import App
from toolgate.cost import account
from toolgate.errors import ArgumentError
from toolgate.ids import utc_text
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
    return (await account(app, caller, since)).as_json()


async def tool_usage(app: App, caller: Caller, query: Mapping[str, str]) -> Json:
    """How tools were used within the last `days` (1), and what follows from it.

    Raises:
        ArgumentError: `days` is no number in range.
        ForbiddenError: The caller may not manage.
    """
    app.gateway.reach.must_manage(caller)
    since = _since(query.get("days"))
    await app.recorder.flush()
    uses = await app.store.tool_uses(since)
    used = {use.tool.partition(":")[0] for use in uses}
    servers = [one for one in app.gateway.servers(caller) if one.state != "disabled"]
    pinned = app.gateway.manage.pinned
    return {
        "since": since,
        "tools": [
            {**asdict(use), "success_share": round(1 - use.failed / use.calls, 4)} for use in uses
        ],
        "never_used_servers": [one.name for one in servers if one.name not in used],
        "pins": [
            use.tool
            for use in uses[:_PINS]
            if use.tool not in pinned and use.calls >= _OFTEN and 2 * use.failed < use.calls
        ],
    }


_PINS = 5
_OFTEN = 20
"""Calls from which on a tool is worth listing always."""


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
