"""The Permissions page."""

from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.security.access import BUILT_IN

__all__ = ["ROUTES"]

_PER_PAGE = 200


async def _show(visit: Visit) -> Response:
    rules = await visit.gateway.admin.permissions(visit.caller)
    word = visit.asked("q").strip().lower()
    matching = [rule for rule in rules if word in f"{rule.who} {rule.pattern}".lower()]
    pages = max(1, -(-len(matching) // _PER_PAGE))
    page = min(visit.page_number(), pages)
    return visit.page(
        "permissions.html",
        rules=matching[(page - 1) * _PER_PAGE : page * _PER_PAGE],
        total=len(rules),
        found=len(matching),
        built_in=BUILT_IN,
        word=visit.asked("q"),
        page=page,
        pages=pages,
        required=visit.gateway.admission.required,
    )


async def _act(visit: Visit) -> Response:
    admin = visit.gateway.admin
    if visit.typed("do") == "remove":
        await admin.remove_permissions(visit.caller, [visit.typed("id")])
        return visit.go("permissions", message="Rule removed.")
    added = await admin.add_permissions(
        visit.caller,
        effect=visit.typed("effect"),
        patterns=[line.strip() for line in visit.typed("patterns").splitlines() if line.strip()],
        to=[word.strip() for word in visit.typed("to").split(",") if word.strip()],
        hint=visit.typed("hint"),
    )
    return visit.go("permissions", message=f"{len(added)} rules added.")


ROUTES = (Route(path="permissions", show=_show, act=_act),)
