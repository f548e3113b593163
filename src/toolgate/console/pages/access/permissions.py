"""The Permissions page."""

from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.console.rule_preview import matches_of, typed_patterns
from toolgate.security.access import BUILT_IN

_PER_PAGE = 200
"""Rules per page (chosen)."""


async def _show(request: PageRequest) -> Response:
    rules = await request.gateway.admin.permissions(request.caller)
    word = request.query_value("q").strip().lower()
    matching = [rule for rule in rules if word in f"{rule.who} {rule.pattern}".lower()]
    pages = max(1, -(-len(matching) // _PER_PAGE))
    page = min(request.page_number(), pages)
    return request.page(
        "permissions.html",
        rules=matching[(page - 1) * _PER_PAGE : page * _PER_PAGE],
        total=len(rules),
        found=len(matching),
        built_in=BUILT_IN,
        word=request.query_value("q"),
        page=page,
        pages=pages,
        required=request.gateway.admission.required,
        subjects=await _subjects(request),
        matches=matches_of(request, typed_patterns(request), hint=request.value("hint"))
        if request.was_sent
        else (),
    )


async def _subjects(request: PageRequest) -> list[str]:
    """Return the known subjects that rules can apply to."""
    admin = request.gateway.admin
    tokens = await admin.tokens(request.caller)
    roles = {role for token in tokens for role in token.roles}
    groups = {group for token in tokens for group in token.groups}
    return [
        "everyone",
        *(f"token:{token.name}" for token in tokens),
        *(f"role:{role}" for role in sorted({"member", "reader", "admin"} | roles)),
        *(f"group:{group}" for group in sorted(groups)),
        *(f"project:{name}" for name in sorted(admin.project_names())),
    ]


async def _act(request: PageRequest) -> Response:
    admin = request.gateway.admin
    if request.value("do") == "remove":
        await admin.remove_permissions(request.caller, [request.value("id")])
        return request.go("permissions", message="Rule removed.")
    if request.value("do") == "preview":
        return await _show(request)
    added = await admin.add_permissions(
        request.caller,
        effect=request.value("effect"),
        patterns=typed_patterns(request),
        to=[word.strip() for word in request.value("to").split(",") if word.strip()],
        hint=request.value("hint"),
    )
    return request.go(
        "permissions", message=f"{len(added)} rule{'s' if len(added) != 1 else ''} added."
    )


ROUTES = (Route(path="permissions", show=_show, act=_act),)
