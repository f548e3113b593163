"""Tokens of an identity provider: a provider of our own on loopback, with real keys."""

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import jwt as pyjwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from toolgate.errors import CredentialError, OptionError
from toolgate.security.authn import jwt as module
from toolgate.security.authn.jwt import JwtAuthenticator, Options, build
from toolgate.testing.contracts.authn import AuthenticatorContract
from toolgate.testing.web_server import serve_application

AUDIENCE = "https://gateway.example.org/mcp"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


def published(key: Any, kid: str) -> dict[str, Any]:
    algorithm = RSAAlgorithm if key is not EC else ECAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}


class Provider:
    """An identity provider."""

    def __init__(self) -> None:
        self.keys = [published(RSA, "one")]
        self.issuer = ""
        self.asked = 0
        self.is_down = False

    async def metadata(self, _request: web.Request) -> web.Response:
        return web.json_response({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"})

    async def jwks(self, _request: web.Request) -> web.Response:
        self.asked += 1
        if self.is_down:
            return web.Response(status=503)
        return web.json_response({"keys": self.keys})

    def token(
        self, key: Any = RSA, *, kid: str = "one", algorithm: str = "RS256", **claims: Any
    ) -> str:
        now = int(time.time())
        body = {"iss": self.issuer, "aud": AUDIENCE, "sub": "u1", "exp": now + 300, **claims}
        body = {name: value for name, value in body.items() if value is not None}
        return pyjwt.encode(body, key, algorithm=algorithm, headers={"kid": kid})


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", found.metadata)
    app.router.add_get("/keys", found.jwks)
    async with serve_application(app) as found.issuer:
        yield found


@pytest.fixture
async def authenticator(provider: Provider) -> AsyncIterator[JwtAuthenticator]:
    made = build(Options(issuer=provider.issuer, audience=(AUDIENCE,)))
    yield made
    await made.aclose()


def encoded(header: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()


def signed_with_the_public_key(body: str) -> str:
    """As if what everybody may know were a secret; libraries refuse to make one."""
    key = RSA.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head = encoded({"alg": "HS256", "kid": "one"})
    digest = hmac.digest(key, f"{head}.{body}".encode(), "sha256")
    return f"{head}.{body}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


class TestJwt(AuthenticatorContract):
    @pytest.fixture
    def valid(self, provider: Provider) -> str:
        return provider.token()

    @pytest.fixture
    def bad(self, provider: Provider) -> tuple[str, ...]:
        now = int(time.time())
        good = provider.token()
        head, body, _ = good.split(".")
        return (
            provider.token(exp=now - 120),
            provider.token(exp=None),
            provider.token(exp="soon"),
            provider.token(sub=None),
            provider.token(sub=""),
            provider.token(sub="half of a pair: \ud800"),
            provider.token(sub="anna\0"),
            provider.token(sub=None, client_id="robot"),
            provider.token(aud="https://other.example.org"),
            provider.token(aud=None),
            provider.token(nbf=now + 600),
            provider.token(OTHER),
            provider.token(OTHER, kid="two"),
            signed_with_the_public_key(body),
            provider.token(None, algorithm="none"),
            f"{head}.{body}.",
            f"{head}.{body}.{'A' * 342}",
        )


async def test_a_token_of_another_issuer_is_left_to_others(
    provider: Provider, authenticator: JwtAuthenticator
) -> None:
    assert await authenticator.identify(provider.token(iss="https://other.example.org")) is None
    assert provider.asked == 0


async def test_claims_become_user_projects_roles_and_groups(provider: Provider) -> None:
    made = build(
        Options(
            issuer=provider.issuer,
            audience=(AUDIENCE,),
            user_claim="email",
            projects_claim="https://example.org/projects",
            roles_claim="realm_access.roles",
            groups_claim="groups",
            projects={"4711": "web"},
            roles={"gateway-admins": "admin", "member": "member"},
        )
    )
    more: Any = {"https://example.org/projects": ["4711", "data", "*"]}
    token = provider.token(
        email="anna@example.org",
        groups="ops dev",
        **more,
        realm_access={"roles": ["admin", "gateway-admins", "dev", "member", 7]},
    )
    found = await made.identify(token)
    await made.aclose()

    assert found is not None
    assert found.user == "anna@example.org"
    assert found.projects == ("web", "data")
    assert found.groups == ("ops", "dev")
    # Their own "admin" is none of ours; what the settings name is.
    assert found.roles == ("admin", "dev", "member")
    assert found.caller_id.startswith("jwt:")


async def test_a_role_of_ours_is_not_given_by_a_claim_of_its_name(provider: Provider) -> None:
    made = build(Options(issuer=provider.issuer, audience=(AUDIENCE,), roles_claim="roles"))
    found = await made.identify(provider.token(roles=["admin", "reader", "dev"]))
    await made.aclose()

    assert found is not None
    assert found.roles == ("dev",)


async def test_a_new_key_is_fetched_when_a_token_names_it(
    provider: Provider, authenticator: JwtAuthenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await authenticator.identify(provider.token())
    assert provider.asked == 1
    provider.keys = [published(OTHER, "two"), published(EC, "three")]

    with pytest.raises(CredentialError):  # keys are not fetched again for every wrong token
        await authenticator.identify(provider.token(OTHER, kid="two"))
    monkeypatch.setattr(module, "_AGAIN_S", -1.0)
    assert await authenticator.identify(provider.token(OTHER, kid="two")) is not None
    assert await authenticator.identify(provider.token(EC, kid="three", algorithm="ES256"))
    assert provider.asked == 2


async def test_a_key_that_was_taken_back_takes_its_tokens_along(
    provider: Provider, authenticator: JwtAuthenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = provider.token()
    assert await authenticator.identify(token) is not None
    provider.keys = [published(OTHER, "two")]
    monkeypatch.setattr(module, "_AGAIN_S", -1.0)
    await authenticator.identify(provider.token(OTHER, kid="two"))

    with pytest.raises(CredentialError):
        await authenticator.identify(token)


async def test_known_keys_go_on_while_the_provider_is_away(
    provider: Provider, authenticator: JwtAuthenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await authenticator.identify(provider.token())
    provider.is_down = True
    monkeypatch.setattr(module, "_AGAIN_S", -1.0)
    monkeypatch.setattr(authenticator, "_fetched_at", -1e9)

    assert await authenticator.identify(provider.token(sub="u2")) is not None
    assert provider.asked == 2


async def test_a_provider_that_cannot_be_reached_is_said_so(provider: Provider) -> None:
    provider.is_down = True
    made = build(Options(issuer=provider.issuer, audience=(AUDIENCE,)))

    with pytest.raises(CredentialError, match="cannot be read now"):
        await made.identify(provider.token())
    await made.aclose()


async def test_keys_that_arrive_in_many_pieces_are_read_to_the_end(
    provider: Provider, authenticator: JwtAuthenticator
) -> None:
    """Only what had arrived at first was read: nobody got in."""
    provider.keys = [{"kty": "RSA", "kid": "long", "x5c": ["A" * 900_000]}, *provider.keys]

    assert await authenticator.identify(provider.token()) is not None


async def test_too_many_keys_are_not_read_to_the_end(
    provider: Provider, authenticator: JwtAuthenticator
) -> None:
    provider.keys = [{"kty": "RSA", "kid": "long", "x5c": ["A" * 2**20]}, *provider.keys]

    with pytest.raises(CredentialError, match="cannot be read now"):
        await authenticator.identify(provider.token())


@pytest.mark.parametrize(
    "headers",
    [
        {"crit": ["unknown"], "unknown": 1},
        {"jwk": published(OTHER, "one")},
        {"jku": "http://127.0.0.1:9/keys"},
        {"kid": "../one"},
        {"kid": ["one"]},
        {"alg": "ES256"},
        {"alg": ["RS256"]},
    ],
    ids=lambda headers: "-".join(headers),
)
async def test_headers_of_a_token_choose_no_other_key_and_no_other_check(
    provider: Provider, authenticator: JwtAuthenticator, headers: dict[str, Any]
) -> None:
    """RFC 8725 section 3; `crit` names what must be understood (RFC 7515 section 4.1.11)."""
    body = provider.token().split(".")[1]
    head = encoded({"alg": "RS256", "kid": "one", **headers})
    signature = OTHER.sign(f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256())
    if "crit" in headers:
        signature = RSA.sign(f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256())
    token = f"{head}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"

    with pytest.raises(CredentialError):
        await authenticator.identify(token)


async def test_many_tokens_at_once_fetch_the_keys_once(
    provider: Provider, authenticator: JwtAuthenticator
) -> None:
    tokens = [provider.token(sub=f"u{number}") for number in range(20)]
    found = await asyncio.gather(*map(authenticator.identify, tokens))

    assert len({one.caller_id for one in found if one is not None}) == 20
    assert provider.asked == 1


async def test_a_checked_token_ends_when_it_expires(
    provider: Provider, authenticator: JwtAuthenticator
) -> None:
    """Within the skew of the clocks a token may be checked; kept, it must still end."""
    token = provider.token(exp=int(time.time()) - 59)
    assert await authenticator.identify(token) is not None
    (mark,) = authenticator._checked
    at, identity = authenticator._checked[mark]
    authenticator._checked[mark] = (at, replace(identity, expires_at="2020-01-01T00:00:00.000Z"))

    with pytest.raises(CredentialError, match="expired"):
        await authenticator.identify(token)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"issuer": "http://login.example.org"}, "issuer"),
        ({"issuer": ""}, "issuer"),
        ({"audience": ()}, "audience"),
        ({"jwks_url": "ftp://x"}, "jwks_url"),
        ({"algorithms": ("HS256",)}, "algorithms"),
        ({"algorithms": ("none",)}, "algorithms"),
        ({"algorithms": ()}, "algorithms"),
        ({"skew_s": 601.0}, "skew_s"),
        ({"jwks_ttl_s": 1.0}, "jwks_ttl_s"),
    ],
)
def test_options_that_are_not_safe_are_refused(changes: dict[str, Any], text: str) -> None:
    given = {"issuer": "https://login.example.org", "audience": (AUDIENCE,), **changes}

    with pytest.raises(OptionError, match=f"Option '{text}' of authn 'jwt'"):
        Options(**given)
