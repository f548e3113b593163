"""Logins at servers: what is kept, and where to log in."""

from starlette.responses import Response

from toolgate.credentials import subject_of
from toolgate.types import ServerSpec
from toolgate.web._route import Route
from toolgate.web._visit import Visit

__all__ = ["ROUTES"]


async def _list(visit: Visit) -> Response:
    logins = visit.app.logins
    kept = await logins.list(visit.caller)
    servers = [spec for spec in logins.specs(visit.caller) if _may_log_in(visit, spec)]
    addresses: list[tuple[ServerSpec, str]] = []
    if logins.base:
        addresses = [(spec, (await logins.begin(visit.caller, spec.name)).url) for spec in servers]
    return visit.page(
        "logins.html", kept=kept, addresses=addresses, mine=_mine(visit), has_page=bool(logins.base)
    )


def _may_log_in(visit: Visit, spec: ServerSpec) -> bool:
    """Whether the caller can log in there, for themselves or for all."""
    over_http = spec.kind in {"http", "sse"} and bool(spec.options)
    by_itself = spec.credentials.type in {"client_credentials", "token_exchange"}
    return over_http and not by_itself and (spec.credentials.per == "user" or visit.manages)


def _mine(visit: Visit) -> set[str]:
    """The subjects that stand for the caller."""
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
    return visit.go("logins", said=f"What was shown to {server} is forgotten.")


ROUTES = (Route(path="logins", show=_list, act=_forget),)
