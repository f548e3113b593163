"""Routes for access tokens and the caller's identity.

Responses identify a token by its name and public part; only the response that creates a token
contains it.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from toolgate.security.access import AccessAdmin, NewToken
from toolgate.server.rest.models import Answer, Body, NamedProject, PageOf, TextOrNull
from toolgate.server.rest.routing import Call, Routes
from toolgate.store import StoredToken

routes = Routes()


class CallerIdentity(Answer):
    """Who the gateway takes the caller for."""

    caller: str = Field(validation_alias="caller_id")
    kind: str
    token: TextOrNull
    user: TextOrNull
    project: NamedProject
    projects: list[str]
    roles: list[str]
    groups: list[str]
    read_only: bool
    expires_at: str | None


@routes.get("me")
async def me(call: Call) -> CallerIdentity:
    """Tell who the gateway takes the caller for."""
    identity = asdict(call.caller.identity)
    return CallerIdentity.model_validate({**identity, "project": call.caller.project_id})


class Token(Answer):
    """An access token, without the token itself."""

    name: str
    id: str = Field(validation_alias="token_id")
    prefix: str = Field(description="Its first characters.")
    state: Literal["valid", "expired", "revoked"]
    user: TextOrNull
    projects: list[str]
    roles: list[str]
    groups: list[str]
    read_only: bool
    limits: dict[str, int]
    created_at: str
    expires_at: str | None
    rotated_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class IssuedToken(Token):
    """A token that was just made, this once with the token itself."""

    token: str


class TokenList(PageOf):
    """Access tokens."""

    tokens: list[Token]


def _token(row: StoredToken) -> Token:
    return Token.model_validate(_values(row))


def _issued(token: NewToken) -> IssuedToken:
    return IssuedToken.model_validate({**_values(token.row), "token": token.secret})


def _values(row: StoredToken) -> dict[str, Any]:
    state = "revoked" if row.revoked_at else "expired" if AccessAdmin.problem_of(row) else "valid"
    return {**asdict(row), "state": state}


@routes.get("tokens", pages="tokens")
async def tokens(call: Call) -> TokenList:
    """List the tokens."""
    rows = await call.gateway.admin.tokens(call.caller, with_use=True)
    return TokenList(tokens=[_token(row) for row in rows])


class CreateToken(Body):
    """What a new token may do."""

    name: str
    projects: Sequence[str] = ()
    roles: Sequence[str] = ()
    groups: Sequence[str] = ()
    user: str = ""
    read_only: bool = False
    expires_in_s: float | None = None
    limits: dict[str, Any] = Field({})
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()


@routes.post(
    "tokens",
    status=201,
    example={"name": "anna", "projects": ["team-web"], "roles": ["member"]},
)
async def create_token(call: Call, body: CreateToken) -> IssuedToken:
    """Make a token; the answer is the only one that has it."""
    return _issued(await call.gateway.admin.create_token(call.caller, **body.members()))


class RotateToken(Body):
    """How a token is replaced."""

    grace_s: float = Field(0.0, description="Seconds in which the old secret is still accepted.")
    expires_in_s: float | None = None


@routes.post("tokens/{name}/rotate", example={"grace_s": 3600})
async def rotate_token(call: Call, name: str, body: RotateToken) -> IssuedToken:
    """Make another secret under the same name."""
    return _issued(await call.gateway.admin.rotate_token(call.caller, name, **body.members()))


@routes.post("tokens/{name}/revoke")
async def revoke_token(call: Call, name: str) -> Token:
    """Refuse a token from the next request on."""
    return _token(await call.gateway.admin.revoke_token(call.caller, name))


@routes.delete("tokens/{name}")
async def delete_token(call: Call, name: str) -> Token:
    """Delete a token with the rules for it alone."""
    return _token(await call.gateway.admin.delete_token(call.caller, name))
