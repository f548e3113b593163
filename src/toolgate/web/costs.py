"""What tasks cost in tokens, against listing all tools; and which tools are used."""

from starlette.responses import Response

from toolgate.cost import account
from toolgate.ids import utc_now
from toolgate.web._route import Route
from toolgate.web._visit import Visit

__all__ = ["ROUTES"]

_PERIODS = {"1": "a day", "7": "a week", "30": "a month"}
_SHOWN = 100


async def _show(visit: Visit) -> Response:
    visit.gateway.reach.must_manage(visit.caller)
    days = visit.asked("days") if visit.asked("days") in _PERIODS else "1"
    since = utc_now(plus_s=-86_400.0 * int(days))
    told = await account(visit.app, visit.caller, since, limit=_SHOWN)
    uses = await visit.app.store.tool_uses(since)
    used = {use.tool.partition(":")[0] for use in uses}
    unused = [
        server.name
        for server in visit.gateway.servers(visit.caller)
        if server.state != "disabled" and server.name not in used
    ]
    return visit.page(
        "costs.html",
        told=told,
        uses=uses[:_SHOWN],
        unused=unused,
        days=days,
        periods=_PERIODS,
    )


ROUTES = (Route(path="cost", show=_show),)
