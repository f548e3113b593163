"""The login and logout pages, and the list of sessions."""

import json

from starlette.responses import Response

from toolgate.base.ids import utc_now
from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.console.sessions import COOKIE, ConsoleSessions
from toolgate.errors import ArgumentError, CredentialError
from toolgate.types import json_array

__all__ = ["ROUTES"]


async def _show(visit: Visit) -> Response:
    if visit.is_known:
        return visit.go("")
    return visit.page("login.html", next=visit.typed("next"), sent="", has_ended=False)


async def _log_in(visit: Visit) -> Response:
    token = visit.typed("token").strip()
    if visit.is_known:  # perhaps logged in in another tab
        return _unsent_form(visit) or visit.go("")
    peer = visit.request.client
    try:
        cookie = await visit.sessions.open(
            token,
            address=peer.host if peer else "",
            agent=visit.request.headers.get("user-agent", ""),
        )
    except CredentialError as error:
        visit.problem = error
        return visit.page(
            "login.html",
            status=401,
            next=visit.typed("next"),
            sent=visit.typed("sent"),
            has_ended=bool(visit.typed("sent")),
        )
    if visit.typed("sent"):
        visit.csrf = await visit.sessions.csrf(cookie)
        visit.is_known = True
        visit.caller = await visit.sessions.caller_of(visit.request, cookie)
    response = _unsent_form(visit) or visit.go_within(visit.typed("next"))
    visit.sessions.set_cookie(response, cookie, visit.request)
    return response


def _unsent_form(visit: Visit) -> Response | None:
    """Show the form that was submitted after the session had ended; None if there is none."""
    path, fields = _sent(visit.typed("sent"))
    if not fields:
        return None
    response = visit.page(
        "again.html",
        title="Your input is saved",
        reasons=["Your login had expired, so the form was not sent. Check it and send it now."],
        doubtful=False,
        path=path,
        back=path,
        fields=fields,
    )
    response.headers["cache-control"] = "no-store"
    return response


async def _log_out(visit: Visit) -> Response:
    await visit.sessions.end(visit.request.cookies.get(COOKIE, ""))
    response = visit.go("login")
    visit.sessions.set_cookie(response, ConsoleSessions.new_cookie(), visit.request)
    return response


async def _sessions(visit: Visit) -> Response:
    visit.gateway.visible.must_manage(visit.caller)
    cookie = visit.request.cookies.get(COOKIE, "")
    current_time = utc_now()
    sessions = [
        (session, ConsoleSessions.is_of(cookie, session))
        for session in await visit.app.store.sessions.list_all()
        if session.expires_at > current_time
    ]
    required = visit.gateway.admission.required
    return visit.page("sessions.html", sessions=sessions, required=required)


async def _end_session(visit: Visit) -> Response:
    visit.gateway.visible.must_manage(visit.caller)
    if not await visit.app.store.sessions.delete(visit.typed("session")):
        raise ArgumentError("This login has already ended.")
    return visit.go("sessions", message="Logged out.")


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
