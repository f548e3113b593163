"""The login and logout pages, and the list of sessions."""

import json

from starlette.responses import Response

from toolgate.base.ids import utc_now
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.console.sessions import COOKIE, ConsoleSessions, cookie_of
from toolgate.errors import ArgumentError, CredentialError
from toolgate.types import json_array

_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
"""What a `User-Agent` contains, and the browser. Most also name browsers further down the list:
https://developer.mozilla.org/en-US/docs/Web/HTTP/Guides/Browser_detection_using_the_user_agent
"""

_SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
"""What a `User-Agent` contains, and the system; Android also names Linux."""


async def _show(request: PageRequest) -> Response:
    if request.is_known:
        return request.go("")
    return request.page(
        "login.html", next=request.repeated(request.value("next")), sent="", has_ended=False
    )


async def _log_in(request: PageRequest) -> Response:
    token = request.value("token").strip()
    if request.is_known:  # perhaps logged in in another tab
        return _unsent_form(request) or request.go("")
    peer = request.http.client
    try:
        cookie = await request.sessions.open(
            token,
            address=peer.host if peer else "",
            agent=request.http.headers.get("user-agent", ""),
        )
    except CredentialError as error:
        request.problem = error
        return request.page(
            "login.html",
            status=401,
            next=request.repeated(request.value("next")),
            sent=request.repeated(request.value("sent")),
            has_ended=bool(request.value("sent")),
        )
    if request.value("sent"):
        request.csrf = await request.sessions.csrf(cookie)
        request.is_known = True
        request.caller = await request.sessions.caller_of(request.http, cookie)
    response = _unsent_form(request) or request.go_within(request.value("next"))
    request.sessions.set_cookie(response, cookie, request.http)
    return response


def _unsent_form(request: PageRequest) -> Response | None:
    """Show the form that was submitted after the session had ended; None if there is none."""
    path, fields = _sent(request.value("sent"))
    if not fields:
        return None
    response = request.page(
        "again.html",
        title="Your input is kept",
        reasons=[
            "Your session had expired, so the form was not submitted. Check it and submit it now."
        ],
        doubtful=False,
        path=path,
        back=path,
        fields=fields,
        is_cut=False,
    )
    response.headers["cache-control"] = "no-store"
    return response


async def _log_out(request: PageRequest) -> Response:
    await request.sessions.end(cookie_of(request.http, COOKIE))
    response = request.go("login")
    request.sessions.set_cookie(response, ConsoleSessions.new_cookie(), request.http)
    return response


async def _sessions(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    cookie = cookie_of(request.http, COOKIE)
    current_time = utc_now()
    sessions = [
        (session, ConsoleSessions.is_of(cookie, session))
        for session in await request.app.store.sessions.list_all()
        if session.expires_at > current_time
    ]
    required = request.gateway.admission.required
    return request.page(
        "sessions.html", sessions=sessions, required=required, browser_of=_browser_of
    )


def _browser_of(agent: str) -> str:
    """Return the browser and the system that a `User-Agent` names; itself if they are unknown."""
    browser = next((name for mark, name in _BROWSERS if mark in agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in agent), "")
    return f"{browser} on {system}" if browser and system else browser or agent


async def _end_session(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    if not await request.app.store.sessions.delete(request.value("session")):
        raise ArgumentError("This login has already ended.")
    return request.go("sessions", message="Logged out.")


def _sent(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Parse a form that was submitted after a session had ended: its path and fields."""
    try:
        typed_pairs = json_array(json.loads(text)) if text else []
    except (ValueError, RecursionError):
        typed_pairs = []
    path, fields = (typed_pairs[0], typed_pairs[1]) if len(typed_pairs) == 2 else ("", None)
    pairs = [json_array(pair) for pair in json_array(fields)]
    return str(path), [(str(pair[0]), str(pair[1])) for pair in pairs if len(pair) == 2]


ROUTES = (
    Route(path="login", show=_show, act=_log_in, is_open=True),
    Route(path="logout", act=_log_out, is_open=True),
    Route(path="sessions", show=_sessions, act=_end_session),
)
