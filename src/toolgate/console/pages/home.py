"""The Home page: what needs attention, activity over time, busiest tools and servers."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio.to_thread
from starlette.responses import Response

from toolgate.app.failure_causes import cause_of_status
from toolgate.base.ids import utc_now
from toolgate.console.activity import RANGES, activity_of, range_asked
from toolgate.console.known_servers import KNOWN_SERVERS
from toolgate.console.pages.servers import clients_on_this_machine
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import SettingError
from toolgate.gateway.execution import RunningCall
from toolgate.security.addresses import is_loopback
from toolgate.settings import Settings
from toolgate.settings.clients.supported import launch_of_this_program
from toolgate.store import ToolUsage
from toolgate.telemetry.cost import CostReport, cost_report
from toolgate.types import Json, ServerState, ServerStatus

_SOON_S = 7 * 86_400
"""Seconds before a token expires from which it is reported (chosen: enough time to rotate it)."""

_RUNNING = 20
"""Running calls that are shown (chosen: nobody reads more)."""

_BUSIEST = 8
"""Tools and servers that are shown (chosen: both lists fit side by side)."""


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something that needs attention."""

    text: str
    """Description."""

    button: str
    """Label of its link."""

    link: str
    """URL of the page where it can be resolved."""

    is_urgent: bool = False
    """Whether someone is waiting or something does not work."""


@dataclass(frozen=True, kw_only=True)
class ServerUse:
    """Usage of a server."""

    name: str
    """Its name."""

    calls: int
    """Number of calls."""

    failed: int
    """Number of failed calls."""

    mean_ms: float
    """Mean duration of a call."""


async def _show(request: PageRequest) -> Response:
    servers = request.server_statuses()
    span = range_asked(request)
    is_first_run = request.manages and not servers
    has_activity = request.manages and not is_first_run
    activity = await activity_of(request, span) if has_activity else None
    saved = await _saved(request) if has_activity else None
    response = request.page(
        "home.html",
        servers=servers,
        states=Counter(server.state for server in servers),
        tools=sum(server.tools for server in servers),
        ranges=RANGES.values(),
        span=span,
        activity=activity,
        busiest_tools=activity.tools[:_BUSIEST] if activity else (),
        busiest_servers=_by_server(activity.tools)[:_BUSIEST] if activity else (),
        state_of={server.name: server.state for server in servers},
        running=await _calls(request),
        notices=await _notices(request, servers),
        saved=saved,
        gallery=KNOWN_SERVERS,
        known=(),
        clients=await anyio.to_thread.run_sync(clients_on_this_machine) if is_first_run else {},
    )
    if has_activity and (activity is None or saved is None):
        response.headers["refresh"] = "2"  # also works without scripts
    return response


async def _saved(request: PageRequest) -> CostReport | None:
    """Return today's cost report; None while it is being computed."""
    today = f"{utc_now()[:10]}T00:00:00.000Z"
    figures = await request.figures.get(
        "today", today, lambda: cost_report(request.app, request.caller, today)
    )
    return figures.value if figures is not None else None


def _by_server(tools: Sequence[ToolUsage]) -> list[ServerUse]:
    """Return the usage of servers, most used first."""
    by_server: defaultdict[str, list[ToolUsage]] = defaultdict(list)
    for use in tools:
        by_server[use.tool.partition(":")[0]].append(use)
    servers: list[ServerUse] = []
    for name, uses in by_server.items():
        calls = sum(use.calls for use in uses)
        servers.append(
            ServerUse(
                name=name,
                calls=calls,
                failed=sum(use.failed for use in uses),
                mean_ms=sum(use.calls * use.mean_ms for use in uses) / calls,
            )
        )
    return sorted(servers, key=lambda server: -server.calls)


async def _notices(request: PageRequest, servers: Sequence[ServerStatus]) -> list[Notice]:
    """Return what needs attention, one notice per kind."""
    if not request.manages:
        return []
    notices: list[Notice] = []
    if waiting := await request.count_waiting_approvals():
        text = f"{_counted(waiting, 'call')} await{'s' if waiting == 1 else ''} approval."
        link = request.url("approvals")
        notices.append(Notice(text=text, button="Review", link=link, is_urgent=True))
    not_working: dict[ServerState, str] = {"down": "down", "disabled": "not usable"}
    for state, words in not_working.items():
        causes = {
            server.name: cause_of_status(server).found
            for server in servers
            if server.state == state and (state == "down" or server.last_error)
        }
        if causes:
            notices.append(_of_servers(request, state, words, causes))
    quarantined = [server for server in servers if server.held]
    if quarantined:
        held = _counted(sum(server.held for server in quarantined), "definition")
        names = _names([server.name for server in quarantined])
        link = request.url("servers", state="held")
        if len(quarantined) == 1:
            link = request.url("server", name=quarantined[0].name) + "#held"
        notices.append(Notice(text=f"{held} quarantined: {names}.", button="Review", link=link))
    ended = {
        login.server
        for login in await request.app.logins.list(request.caller)
        if login.state == "ended"
    }
    if ended:
        text = f"Expired logins: {_names(sorted(ended))}."
        notices.append(Notice(text=text, button="Log in", link=request.url("logins")))
    current_time, soon = utc_now(), utc_now(plus_s=_SOON_S)
    expiring = [
        token.name
        for token in await request.gateway.admin.tokens(request.caller)
        if token.revoked_at is None and token.expires_at and current_time < token.expires_at < soon
    ]
    if expiring:
        text = f"Access tokens expiring within a week: {_names(expiring)}."
        link = (
            request.url("token", name=expiring[0]) if len(expiring) == 1 else request.url("tokens")
        )
        notices.append(Notice(text=text, button="Rotate", link=link))
    return notices


def _of_servers(
    request: PageRequest, state: ServerState, words: str, causes: Mapping[str, str]
) -> Notice:
    """Return a notice of servers that do not work; for a single one, with the reason.

    Args:
        request: The request for the page.
        state: Their state. Nobody disabled those that are `disabled`: their configuration cannot be
            used, as where a variable is missing.
        words: What they are, for people.
        causes: Why, by name.
    """
    if len(causes) > 1:
        text = f"{len(causes)} servers are {words}: {_names(list(causes))}."
        link = request.url("servers", state=state)
    else:
        [(name, cause)] = causes.items()
        text = f"{name} is {words}. {cause}"
        link = request.url("server", name=name)
    return Notice(text=text, button="Show", link=link, is_urgent=True)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _names(names: Sequence[str]) -> str:
    """Return the first names, and the number of further ones."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


async def _running(request: PageRequest) -> Response:
    """Render the part of the Home page that changes with every call."""
    return request.page("running.html", running=await _calls(request))


async def _calls(request: PageRequest) -> list[tuple[RunningCall, str]]:
    """Return the longest running calls, each with its caller."""
    calls = request.gateway.calls.running(request.caller)[:_RUNNING]
    names = await request.token_names() if calls and request.manages else {}
    return [(call, names.get(call.caller_id, call.caller_id)) for call in calls]


async def _connect(request: PageRequest) -> Response:
    """Show how to connect clients to this gateway."""
    named = request.app.settings.authn.resource
    address = named or f"{str(request.http.base_url).rstrip('/')}/mcp"
    requires_token = request.gateway.admission.required
    is_here = is_loopback(urlsplit(address).hostname or "")
    if is_here:
        entry = _entry_here(request.app.settings, requires_token=requires_token)
    else:
        entry = _entry_elsewhere(address, requires_token=requires_token)
    return request.page(
        "connect.html",
        address=address,
        requires_token=requires_token,
        is_here=is_here,
        stdio=json.dumps({"mcpServers": {"toolgate": entry}}, indent=2),
    )


def _entry_here(settings: Settings, *, requires_token: bool) -> Json:
    """Return the entry with which a client on this machine starts Toolgate."""
    token = {"TOOLGATE_TOKEN": "TOKEN"} if requires_token else {}
    try:
        launch = launch_of_this_program(settings.config_file, settings.imports)
    except SettingError:  # from a temporary environment whose source is unknown
        return {"command": "toolgate", "args": ["stdio"], "env": token}
    variables = {"PATH": launch.search_path, **token}
    return {"command": launch.command, "args": list(launch.args), "env": variables}


def _entry_elsewhere(address: str, *, requires_token: bool) -> Json:
    """Return the entry with which a client on another machine starts a bridge to this gateway."""
    args = ["-y", "mcp-remote", address]
    if address.startswith("http:"):
        args.append("--allow-http")
    if not requires_token:
        return {"command": "npx", "args": args}
    # On Windows, Claude Desktop splits arguments with spaces.
    args += ["--header", "Authorization:${AUTHORIZATION}"]
    return {"command": "npx", "args": args, "env": {"AUTHORIZATION": "Bearer TOKEN"}}


ROUTES = (
    Route(path="", show=_show),
    Route(path="running", show=_running),
    Route(path="connect", show=_connect),
)
