"""The Tokens pages: create, show once, renew, revoke."""

from collections.abc import Sequence

from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.security.access import AccessRule, NewToken
from toolgate.store import StoredToken

_ROLES = ("member", "reader", "admin")
_LIFETIMES = (
    ("", "Never"),
    ("86400", "In a day"),
    ("2592000", "In 30 days"),
    ("7776000", "In 90 days"),
    ("31536000", "In a year"),
)
_GRACES = (("0", "Immediately"), ("3600", "After an hour"), ("86400", "After a day"))


async def _list(request: PageRequest) -> Response:
    tokens = await request.gateway.admin.tokens(request.caller, with_use=True)
    word = request.query_value("q").strip().casefold()
    return request.page(
        "tokens.html",
        tokens=[
            (token, _state(request, token))
            for token in tokens
            if word
            in " ".join((token.name, *token.roles, *token.projects, *token.groups)).casefold()
        ],
        total=len(tokens),
        word=request.query_value("q"),
        required=request.gateway.admission.required,
        roles=_ROLES,
        lifetimes=_LIFETIMES,
        projects=[project.name for project in await request.gateway.admin.projects(request.caller)],
    )


def _state(request: PageRequest, token: StoredToken) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if request.gateway.admin.problem_of(token) else "valid"


async def _create(request: PageRequest) -> Response:
    allow, deny = _patterns(request.value("allow")), _patterns(request.value("deny"))
    lifetime = request.value("expires")
    created = await request.gateway.admin.create_token(
        request.caller,
        request.value("name").strip(),
        projects=request.form_values("projects"),
        roles=request.form_values("roles"),
        groups=_words(request.value("groups")),
        user=request.value("user").strip(),
        read_only=request.value("read_only") == "true",
        expires_in_s=float(lifetime) if lifetime.isdecimal() else None,
        allow=allow,
        deny=deny,
    )
    return await _created_page(request, created)


async def _created_page(request: PageRequest, created: NewToken) -> Response:
    """Show a new token; no other page shows it, and it is not stored."""
    response = request.page(
        "token_made.html",
        made=created,
        resource=_resource(request),
        has_rights=_has_rights(created.row, await _rules_of(request, created.row)),
    )
    response.headers["cache-control"] = "no-store"
    return response


def _resource(request: PageRequest) -> str:
    """Return the URL of the gateway that clients use."""
    named = request.app.settings.authn.resource
    return named or f"{str(request.http.base_url).rstrip('/')}/mcp"


def _patterns(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


async def _show(request: PageRequest) -> Response:
    token = await request.gateway.admin.token_named(request.caller, request.value("name"))
    rules = await _rules_of(request, token)
    return request.page(
        "token.html",
        token=token,
        state=_state(request, token),
        rules=rules,
        has_rights=_has_rights(token, rules),
        graces=_GRACES,
    )


async def _rules_of(request: PageRequest, token: StoredToken) -> list[AccessRule]:
    """Return the rules that apply to a token, without those of built-in roles."""
    subjects = {f"token:{token.name}"}
    subjects |= {f"role:{role}" for role in token.roles} | {
        f"group:{group}" for group in token.groups
    }
    subjects |= {f"user:{token.user}"} if token.user else set()
    subjects |= {f"project:{project}" for project in token.projects} | {"everyone"}
    return [
        rule
        for rule in await request.gateway.admin.permissions(request.caller)
        if rule.who in subjects
    ]


def _has_rights(token: StoredToken, rules: Sequence[AccessRule]) -> bool:
    """Whether anything is allowed to a token, by a built-in role or a rule."""
    return not {*_ROLES}.isdisjoint(token.roles) or any(rule.effect == "allow" for rule in rules)


async def _act(request: PageRequest) -> Response:
    admin, name = request.gateway.admin, request.value("name")
    match request.value("do"):
        case "rotate":
            grace = request.value("grace")
            renewed = await admin.rotate_token(
                request.caller, name, grace_s=float(grace) if grace.isdecimal() else 0.0
            )
            return await _created_page(request, renewed)
        case "revoke":
            await admin.revoke_token(request.caller, name)
            return request.go("token", message=f"{name} is revoked.", name=name)
        case "remove":
            await admin.delete_token(request.caller, name)
            return request.go("tokens", message=f"{name} and its own rules were removed.")
        case "allow" | "deny" as effect:
            await admin.add_permissions(
                request.caller,
                effect=effect,
                patterns=_patterns(request.value("patterns")),
                to=[f"token:{name}"],
                hint=request.value("hint"),
            )
            return request.go("token", message=f"Rule for {name} added.", name=name)
        case word:
            raise ArgumentError(f"Unknown action {word[:40]!r}.")


ROUTES = (
    Route(path="tokens", show=_list, act=_create),
    Route(path="token", show=_show, act=_act),
)
