"""The Home page: server states, calls of the last hour, what needs attention."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from starlette.responses import Response

from toolgate.base.ids import utc_now, utc_text
from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.gateway.execution import RunningCall
from toolgate.store import MinuteCount
from toolgate.telemetry.cost import CostReport, cost_report
from toolgate.types import ServerStatus

__all__ = ["ROUTES"]

_MINUTES = 60
_SOON_S = 7 * 86_400
_RUNNING = 20


async def _show(visit: Visit) -> Response:
    servers = visit.gateway.servers.statuses(visit.caller)
    states: dict[str, int] = {}
    for server in servers:
        states[server.state] = states.get(server.state, 0) + 1
    troubled = [server for server in servers if server.state in {"down", "degraded", "connecting"}]
    troubled.sort(key=lambda server: ("down", "degraded", "connecting").index(server.state))
    tools = sum(server.tools for server in servers)
    minutes = await _last_hour(visit) if visit.manages else []
    saved = await _saved(visit) if visit.manages else None
    response = visit.page(
        "home.html",
        servers=servers,
        states=states,
        troubled=troubled,
        tools=tools,
        minutes=minutes,
        calls=sum(whole for whole, _ in minutes or ()),
        errors=sum(failed for _, failed in minutes or ()),
        running=await _calls(visit),
        wanted=await _attention(visit, servers),
        saved=saved,
    )
    if visit.manages and (minutes is None or saved is None):
        response.headers["refresh"] = "2"  # without scripts, too
    return response


async def _saved(visit: Visit) -> CostReport | None:
    """The account of today; None: it is being counted."""
    today = f"{utc_now()[:10]}T00:00:00.000Z"
    figures = await visit.figures.get(
        "today", today, lambda: cost_report(visit.app, visit.caller, today)
    )
    return figures.value if figures is not None else None


async def _last_hour(visit: Visit) -> list[tuple[int, int]] | None:
    """Calls and failed ones of each of the last minutes, oldest first; None: being counted."""
    current_time = datetime.now(UTC)
    since = (current_time - timedelta(minutes=_MINUTES - 1)).replace(second=0, microsecond=0)
    text = utc_text(since)
    counted = await visit.figures.get(
        "hour", text, lambda: visit.app.store.audit.minute_counts(text)
    )
    if counted is None:
        return None
    by_minute = {count.minute: count for count in counted.value}
    none = MinuteCount(minute="", calls=0, errors=0)
    counts: list[tuple[int, int]] = []
    for number in range(_MINUTES):
        minute = utc_text(since + timedelta(minutes=number))[:16]
        bucket = by_minute.get(minute, none)
        counts.append((bucket.calls, bucket.errors))
    return counts


async def _attention(visit: Visit, servers: list[ServerStatus]) -> list[tuple[str, str, str]]:
    """What needs attention: text, label of its link, address of its link."""
    if not visit.manages:
        return []
    notices: list[tuple[str, str, str]] = []
    waiting = await visit.gateway.approvals.search(visit.caller, state="waiting")
    if waiting:
        text = f"{len(waiting)} calls await" if len(waiting) > 1 else "1 call awaits"
        notices.append((f"{text} approval.", "Review", visit.url("approvals")))
    by_server = Counter(
        entry.server
        for entry in await visit.gateway.manage.quarantine.entries(visit.caller)
        if entry.state == "held"
    )
    for server, count in by_server.items():
        text = f"{count} definitions" if count > 1 else "1 definition"
        link = visit.url("server", name=server) + "#held"
        notices.append((f"{text} of {server} in quarantine.", "Review", link))
    ended = [login for login in await visit.app.logins.list(visit.caller) if login.state == "ended"]
    if ended:
        names = ", ".join(sorted({login.server for login in ended})[:3])
        text = "Logins have" if len(ended) > 1 else "A login has"
        notices.append((f"{text} expired: {names}.", "Log in", visit.url("logins")))
    down = [server.name for server in servers if server.state == "down"]
    if down:
        names = ", ".join(down[:3]) + (f" and {len(down) - 3} more" if len(down) > 3 else "")
        is_single = len(down) == 1
        link = (
            visit.url("server", name=down[0]) if is_single else visit.url("servers", state="down")
        )
        notices.append((f"{names} {'is' if is_single else 'are'} down.", "Details", link))
    current_time, soon = utc_now(), utc_now(plus_s=_SOON_S)
    tokens = await visit.gateway.admin.tokens(visit.caller)
    notices += [
        (f"The token {token.name} expires soon.", "Rotate", visit.url("token", name=token.name))
        for token in tokens
        if token.revoked_at is None and token.expires_at and current_time < token.expires_at < soon
    ]
    return notices


async def _running(visit: Visit) -> Response:
    """The part of the first page that changes with every call."""
    return visit.page("running.html", running=await _calls(visit))


async def _calls(visit: Visit) -> list[tuple[RunningCall, str]]:
    """The calls that run longest, each with who calls."""
    calls = visit.gateway.calls.running(visit.caller)[:_RUNNING]
    names = await visit.token_names() if calls and visit.manages else {}
    return [(call, names.get(call.caller_id, call.caller_id)) for call in calls]


ROUTES = (Route(path="", show=_show), Route(path="running", show=_running))
