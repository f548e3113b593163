"""Users of an identity provider are never taken for users of tokens."""

import time
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.server.http_gateway import headers_for, modern, post
from tests.serving import serving
from toolgate.settings import AuthnSettings, PermissionTable, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.testing.web_server import serve_application
from toolgate.types import Caller

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
AUDIENCE = "https://gateway.example.org/mcp"
LIST = modern("tools/list")


@pytest.fixture
async def issuer() -> AsyncIterator[str]:
    """An identity provider that publishes a key."""
    keys = {"keys": [{**RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "one"}]}

    async def published(_request: web.Request) -> web.Response:
        return web.json_response(keys)

    provider = web.Application()
    provider.router.add_get("/keys", published)
    async with serve_application(provider) as url:
        yield url


def settings_with(issuer: str, *rules: PermissionTable) -> Settings:
    options = {"issuer": issuer, "jwks_url": f"{issuer}/keys", "audience": [AUDIENCE]}
    options |= {"user_claim": "preferred_username", "projects_claim": "projects"}
    authn = AuthnSettings(order=("token", "jwt"), options={"jwt": options})
    return Settings(auth="required", mode="all", authn=authn, permission=rules)


def signed(issuer: str, **claims: Any) -> str:
    body = {"iss": issuer, "aud": AUDIENCE, "sub": "u1", "exp": int(time.time()) + 300, **claims}
    return jwt.encode(body, KEY, algorithm="RS256", headers={"kid": "one"})


async def names_for(url: str, credential: str) -> list[str]:
    """The tools of servers that a credential shows."""
    headers = {**headers_for(LIST), "Authorization": f"Bearer {credential}"}
    answer = await post(url, LIST, headers)
    assert answer.status == 200, answer
    return [tool["name"] for tool in answer.result["tools"] if "__" in tool["name"]]


@pytest.mark.parametrize("chosen_name", ["anna", "@jwt:anna", "*"])
async def test_a_name_chosen_at_a_provider_opens_nothing_that_a_token_user_may(
    issuer: str, chosen_name: str
) -> None:
    rules = PermissionTable(to=("user:anna",), allow=("notes",))
    servers = {"notes": FakeUpstream({"read": lambda _: text_result("private")})}
    async with (
        memory_app(servers, settings_with(issuer, rules)) as app,
        serving(app) as url,
    ):
        created = await app.gateway.admin.create_token(Caller.local(), "cli", user="anna")
        credential = signed(issuer, preferred_username=chosen_name, projects=["*"])
        of_token = await names_for(url, created.secret)
        of_jwt = await names_for(url, credential)

    assert of_token == ["notes__read"]
    assert of_jwt == []


@pytest.mark.parametrize("name", ["anna\nby: root", "\x1b[2J", "a\ud800", "\u202etoor"])
async def test_a_name_that_shows_approvers_something_else_is_refused(
    issuer: str, name: str
) -> None:
    async with memory_app({}, settings_with(issuer)) as app, serving(app) as url:
        credential = signed(issuer, preferred_username=name)
        headers = {**headers_for(LIST), "Authorization": f"Bearer {credential}"}
        answer = await post(url, LIST, headers)
        readable = signed(issuer, preferred_username="می‌نا é", projects=["*"])
        assert await names_for(url, readable) == []

    assert answer.status == 401
    assert b"its user (preferred_username) contains characters that control or hide text" in (
        answer.body
    )


async def test_a_rule_for_a_user_of_a_provider_is_for_no_token(issuer: str) -> None:
    rules = (
        PermissionTable(to=("user@jwt:anna",), allow=("notes",)),
        PermissionTable(to=("user:anna",), allow=("files",)),
    )
    servers = {
        name: FakeUpstream({"read": lambda _: text_result("private")})
        for name in ("notes", "files")
    }
    async with (
        memory_app(servers, settings_with(issuer, *rules)) as app,
        serving(app) as url,
    ):
        created = await app.gateway.admin.create_token(Caller.local(), "cli", user="anna")
        odd = await app.gateway.admin.create_token(Caller.local(), "odd", user="@jwt:anna")
        credential = signed(issuer, preferred_username="anna", projects=["*"])
        of_tokens = [await names_for(url, token.secret) for token in (created, odd)]
        of_jwt = await names_for(url, credential)

    assert of_tokens == [["files__read"], []]
    assert of_jwt == ["notes__read"]
