"""The Credentials page: stored credentials, and logins to servers."""

from secrets import token_urlsafe

from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.security.credentials import (
    LOGIN_COOKIE,
    PAGE,
    describe_subject,
    is_browser_mark,
    subject_of,
)
from toolgate.types import ServerSpec

__all__ = ["ROUTES", "may_log_in"]


async def _list(visit: Visit) -> Response:
    logins = visit.app.logins
    stored = await logins.list(visit.caller)
    servers = [spec for spec in logins.specs(visit.caller) if may_log_in(visit, spec)]
    addresses: list[tuple[ServerSpec, str]] = []
    if logins.links.base:
        addresses = [(spec, await _address(visit, spec.name)) for spec in servers]
    return visit.page(
        "logins.html",
        kept=stored,
        addresses=addresses,
        mine=_servers_to_log_in(visit),
        has_page=bool(logins.links.base),
    )


async def _address(visit: Visit, server: str) -> str:
    """Return the URL to start a login: a console page, where the session identifies the caller."""
    url = (await visit.app.logins.begin(visit.caller, server)).url
    if not visit.gateway.admission.required:
        return url
    ticket = url.rpartition(PAGE)[2]
    return visit.url("logins/begin", ticket=ticket, project=visit.project)


async def _ask(visit: Visit) -> Response:
    """Ask for confirmation, so that no login starts just because someone opened a link."""
    page = visit.app.logins.links.read(visit.asked("ticket"))
    return visit.page(
        "begin.html", server=page.server, subject=describe_subject(page.subject), address=""
    )


async def _begin(visit: Visit) -> Response:
    logins = visit.app.logins
    page = logins.links.read(visit.asked("ticket"))
    mark = visit.request.cookies.get(LOGIN_COOKIE, "")
    mark = mark if is_browser_mark(mark) else token_urlsafe(32)
    begun = await logins.begin_at(visit.caller, page, browser=mark)
    # A link, since the content security policy does not allow forms to lead to other sites.
    response = visit.page(
        "begin.html", server=page.server, subject=describe_subject(page.subject), address=begun.url
    )
    response.set_cookie(
        LOGIN_COOKIE,
        mark,
        max_age=3600,
        path="/",
        httponly=True,
        samesite="lax",
        secure=logins.links.is_https,
    )
    return response


def may_log_in(visit: Visit, spec: ServerSpec) -> bool:
    """Whether the caller can log in to a server, for themselves or for everyone."""
    over_http = spec.kind in {"http", "sse"} and bool(spec.options)
    by_itself = spec.credentials.type in {"client_credentials", "token_exchange"}
    return over_http and not by_itself and (spec.credentials.per == "user" or visit.manages)


def _servers_to_log_in(visit: Visit) -> set[str]:
    """Return the credential subjects of the caller."""
    specs = visit.app.logins.specs(visit.caller)
    return {subject_of(spec, visit.caller) for spec in specs} - {""}


async def _forget(visit: Visit) -> Response:
    server, subject = visit.typed("server"), visit.typed("subject")
    kind, _, name = subject.partition(":")
    await visit.app.logins.remove(
        visit.caller,
        server,
        user=subject if kind == "caller" else name if kind == "user" else "",
        project=name if kind == "project" else "",
    )
    return visit.go("logins", message=f"Credentials of {server} removed.")


ROUTES = (
    Route(path="logins", show=_list, act=_forget),
    Route(path="logins/begin", show=_ask, act=_begin),
)
