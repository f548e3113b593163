"""The Permissions page."""

from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.console.rule_preview import matches_of, typed_patterns
from toolgate.security.access import BUILT_IN

__all__ = ["ROUTES"]

_PER_PAGE = 200
"""Rules per page (chosen)."""


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
        subjects=await _subjects(visit),
        matches=matches_of(visit, typed_patterns(visit), hint=visit.typed("hint"))
        if visit.was_sent
        else (),
    )


async def _subjects(visit: Visit) -> list[str]:
    """Return the known subjects that rules can apply to."""
    admin = visit.gateway.admin
    tokens = await admin.tokens(visit.caller)
    roles = {role for token in tokens for role in token.roles}
    groups = {group for token in tokens for group in token.groups}
    return [
        "everyone",
        *(f"token:{token.name}" for token in tokens),
        *(f"role:{role}" for role in sorted({"member", "reader", "admin"} | roles)),
        *(f"group:{group}" for group in sorted(groups)),
        *(f"project:{name}" for name in sorted(admin.project_names())),
    ]


async def _act(visit: Visit) -> Response:
    admin = visit.gateway.admin
    if visit.typed("do") == "remove":
        await admin.remove_permissions(visit.caller, [visit.typed("id")])
        return visit.go("permissions", message="Rule removed.")
    if visit.typed("do") == "preview":
        return await _show(visit)
    added = await admin.add_permissions(
        visit.caller,
        effect=visit.typed("effect"),
        patterns=typed_patterns(visit),
        to=[word.strip() for word in visit.typed("to").split(",") if word.strip()],
        hint=visit.typed("hint"),
    )
    return visit.go("permissions", message=f"{len(added)} rules added.")


ROUTES = (Route(path="permissions", show=_show, act=_act),)
