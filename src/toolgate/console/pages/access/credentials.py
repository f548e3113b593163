"""The Credentials page: stored credentials, and logins to servers."""

from secrets import token_urlsafe

from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.security.credentials import (
    PAGE,
    describe_subject,
    is_browser_mark,
    subject_of,
)
from toolgate.types import ServerSpec


async def _list(request: PageRequest) -> Response:
    logins = request.app.logins
    stored = await logins.list(request.caller)
    servers = [spec for spec in logins.specs(request.caller) if may_log_in(request, spec)]
    addresses: list[tuple[ServerSpec, str]] = []
    if logins.links.base:
        addresses = [(spec, await _address(request, spec.name)) for spec in servers]
    return request.page(
        "logins.html",
        kept=stored,
        addresses=addresses,
        mine=_servers_to_log_in(request),
        has_page=bool(logins.links.base),
    )


async def _address(request: PageRequest, server: str) -> str:
    """Return the URL to start a login: a console page, where the session identifies the caller."""
    url = (await request.app.logins.begin(request.caller, server)).url
    if not request.gateway.admission.required:
        return url
    ticket = url.rpartition(PAGE)[2]
    return request.url("logins/begin", ticket=ticket, project=request.project)


async def _ask(request: PageRequest) -> Response:
    """Ask for confirmation, so that no login starts just because someone opened a link."""
    page = request.app.logins.links.read(request.query_value("ticket"))
    return request.page(
        "begin.html", server=page.server, subject=describe_subject(page.subject), address=""
    )


async def _begin(request: PageRequest) -> Response:
    logins = request.app.logins
    page = logins.links.read(request.query_value("ticket"))
    mark = request.http.cookies.get(logins.links.cookie, "")
    mark = mark if is_browser_mark(mark) else token_urlsafe(32)
    begun = await logins.begin_at(request.caller, page, browser=mark)
    # A link, since the content security policy does not allow forms to lead to other sites.
    response = request.page(
        "begin.html", server=page.server, subject=describe_subject(page.subject), address=begun.url
    )
    response.set_cookie(
        logins.links.cookie,
        mark,
        max_age=3600,
        path="/",
        httponly=True,
        samesite="lax",
        secure=logins.links.is_https,
    )
    return response


def may_log_in(request: PageRequest, spec: ServerSpec) -> bool:
    """Whether the caller can log in to a server, for themselves or for everyone."""
    over_http = spec.kind in {"http", "sse"} and bool(spec.options)
    by_itself = spec.credentials.type in {"client_credentials", "token_exchange"}
    return over_http and not by_itself and (spec.credentials.per == "user" or request.manages)


def _servers_to_log_in(request: PageRequest) -> set[str]:
    """Return the credential subjects of the caller."""
    specs = request.app.logins.specs(request.caller)
    return {subject_of(spec, request.caller) for spec in specs} - {""}


async def _forget(request: PageRequest) -> Response:
    server, subject = request.value("server"), request.value("subject")
    kind, _, name = subject.partition(":")
    await request.app.logins.remove(
        request.caller,
        server,
        user=subject if kind == "caller" else name if kind == "user" else "",
        project=name if kind == "project" else "",
        kind="secrets" if request.value("kind") == "secrets" else "login",
    )
    return request.go("logins", message=f"Credentials of {server} removed.")


ROUTES = (
    Route(path="logins", show=_list, act=_forget),
    Route(path="logins/begin", show=_ask, act=_begin),
)
