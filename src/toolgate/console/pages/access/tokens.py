"""The Tokens pages: create, show once, renew, revoke."""

from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.security.access import NewToken
from toolgate.store import StoredToken

__all__ = ["ROUTES"]

_ROLES = ("member", "reader", "admin")
_LIFETIMES = (
    ("", "Never"),
    ("86400", "In a day"),
    ("2592000", "In 30 days"),
    ("7776000", "In 90 days"),
    ("31536000", "In a year"),
)
_GRACES = (("0", "Immediately"), ("3600", "After an hour"), ("86400", "After a day"))


async def _list(visit: Visit) -> Response:
    tokens = await visit.gateway.admin.tokens(visit.caller)
    return visit.page(
        "tokens.html",
        tokens=[(token, _state(visit, token)) for token in tokens],
        required=visit.gateway.admission.required,
        roles=_ROLES,
        lifetimes=_LIFETIMES,
        projects=[project.name for project in await visit.gateway.admin.projects(visit.caller)],
    )


def _state(visit: Visit, token: StoredToken) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if visit.gateway.admin.problem_of(token) else "valid"


async def _create(visit: Visit) -> Response:
    allow, deny = _patterns(visit.typed("allow")), _patterns(visit.typed("deny"))
    lifetime = visit.typed("expires")
    created = await visit.gateway.admin.create_token(
        visit.caller,
        visit.typed("name").strip(),
        projects=visit.all_typed("projects"),
        roles=visit.all_typed("roles"),
        groups=_words(visit.typed("groups")),
        user=visit.typed("user").strip(),
        read_only=visit.typed("read_only") == "true",
        expires_in_s=float(lifetime) if lifetime.isdecimal() else None,
        allow=allow,
        deny=deny,
    )
    return _created_page(visit, created)


def _created_page(visit: Visit, created: NewToken) -> Response:
    """Show a new token; no other page shows it, and it is not stored."""
    response = visit.page("token_made.html", made=created, resource=_resource(visit))
    response.headers["cache-control"] = "no-store"
    return response


def _resource(visit: Visit) -> str:
    """Return the URL of the gateway that clients use."""
    named = visit.app.settings.authn.resource
    return named or f"{str(visit.request.base_url).rstrip('/')}/mcp"


def _patterns(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


async def _show(visit: Visit) -> Response:
    token = await visit.gateway.admin.token_named(visit.caller, visit.typed("name"))
    subjects = {f"token:{token.name}"}
    subjects |= {f"role:{role}" for role in token.roles} | {
        f"group:{group}" for group in token.groups
    }
    subjects |= {f"user:{token.user}"} if token.user else set()
    subjects |= {f"project:{project}" for project in token.projects} | {"everyone"}
    rules = [
        rule for rule in await visit.gateway.admin.permissions(visit.caller) if rule.who in subjects
    ]
    return visit.page(
        "token.html",
        token=token,
        state=_state(visit, token),
        rules=rules,
        graces=_GRACES,
    )


async def _act(visit: Visit) -> Response:
    admin, name = visit.gateway.admin, visit.typed("name")
    match visit.typed("do"):
        case "rotate":
            grace = visit.typed("grace")
            renewed = await admin.rotate_token(
                visit.caller, name, grace_s=float(grace) if grace.isdecimal() else 0.0
            )
            return _created_page(visit, renewed)
        case "revoke":
            await admin.revoke_token(visit.caller, name)
            return visit.go("token", message=f"{name} is revoked.", name=name)
        case "remove":
            await admin.delete_token(visit.caller, name)
            return visit.go("tokens", message=f"{name} and its own rules were removed.")
        case "allow" | "deny" as effect:
            await admin.add_permissions(
                visit.caller,
                effect=effect,
                patterns=_patterns(visit.typed("patterns")),
                to=[f"token:{name}"],
                hint=visit.typed("hint"),
            )
            return visit.go("token", message=f"Rule for {name} added.", name=name)
        case word:
            raise ArgumentError(f"Unknown action {word[:40]!r}.")


ROUTES = (
    Route(path="tokens", show=_list, act=_create),
    Route(path="token", show=_show, act=_act),
)
