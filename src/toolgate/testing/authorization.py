"""An authorization server for tests, and an MCP server that requires its tokens.

Both are small and strict: PKCE is checked, codes and refresh tokens work once, reuse of a
refresh token revokes its whole family, clients are bound to their redirect URIs, and tokens to a
resource.
"""

import base64
import hashlib
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from aiohttp import web

from toolgate.testing.web_server import serve_application
from toolgate.types import Json


@dataclass(kw_only=True)
class Grant:
    """A user's consent."""

    user: str
    """The user."""

    client_id: str
    """The client that may act for the user."""

    scope: str = ""
    """The granted scopes."""

    resource: str = ""
    """The resource it is valid for."""

    family: str = field(default_factory=lambda: secrets.token_hex(4))
    """Id shared by all tokens issued for it."""


class AuthorizationServer:
    """An authorization server. Use it as `async with server.running():`."""

    def __init__(self) -> None:
        self.url = ""
        self.user = "anna"
        """The user in front of the browser, who consents."""
        self.denies = False
        """Whether the user refuses instead."""
        self.offers_registration = True
        self.offers_documents = False
        """Whether a client may use the URL of a metadata document as its id."""
        self.documents: set[str] = set()
        """Known URLs of client metadata documents."""
        self.says_iss: str | None = ""
        """The `iss` of authorization responses; empty: the real issuer, None: missing."""
        self.auth_methods = ["none", "client_secret_basic", "client_secret_post"]
        self.lifetime_s: int | None = 3600
        self.rotates = True
        """Whether each refresh issues a new refresh token."""
        self.refuses_refresh = ""
        """The error that rejects refreshes; empty: they are accepted."""
        self.fails: list[int] = []
        """HTTP statuses of the next responses of the token endpoint."""
        self.before_token: Callable[[str], Any] | None = None
        """Awaited with the grant type before the token endpoint answers."""
        self.clients: dict[str, Json] = {}
        """Registered clients by id."""
        self.codes: dict[str, tuple[Grant, Json]] = {}
        self.tokens: dict[str, Grant] = {}
        """Valid access tokens."""
        self.refresh: dict[str, Grant] = {}
        """Valid refresh tokens."""
        self.used_refresh: dict[str, Grant] = {}
        self.asked: list[Json] = []
        """Forms received by the token endpoint."""
        self.revoked: list[str] = []
        self.subject_tokens: dict[str, str] = {}
        """Users by the tokens that may be exchanged."""
        self.metadata_extra: Json = {}
        self.token_extra: Json = {}
        """Fields that replace those of token responses."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["AuthorizationServer"]:
        """Serve on a free port of this machine."""
        async with _serving(
            [
                web.get("/.well-known/oauth-authorization-server", self._metadata),
                web.post("/register", self._register),
                web.get("/authorize", self._authorize),
                web.post("/token", self._token),
                web.post("/revoke", self._revoke),
            ]
        ) as url:
            self.url = url
            yield self

    def add_client(self, client_id: str, secret: str = "", **extra: Any) -> None:
        """Register a client directly."""
        method = "client_secret_basic" if secret else "none"
        self.clients[client_id] = {
            "client_secret": secret,
            "token_endpoint_auth_method": method,
            "redirect_uris": None,
            **extra,
        }

    def expire_tokens(self) -> None:
        """Expire all access tokens, but not the refresh tokens."""
        self.tokens.clear()

    async def _metadata(self, request: web.Request) -> web.Response:
        del request
        metadata: Json = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "revocation_endpoint": f"{self.url}/revoke",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": self.auth_methods,
            "authorization_response_iss_parameter_supported": self.says_iss is not None,
        }
        if self.offers_registration:
            metadata["registration_endpoint"] = f"{self.url}/register"
        if self.offers_documents:
            metadata["client_id_metadata_document_supported"] = True
        return web.json_response({**metadata, **self.metadata_extra})

    async def _register(self, request: web.Request) -> web.Response:
        if not self.offers_registration:
            return _error(404, "not_found")
        request_body: Json = await request.json()
        if not request_body.get("redirect_uris"):
            return _error(400, "invalid_redirect_uri")
        client_id = f"client-{secrets.token_hex(6)}"
        client = {**request_body, "client_id": client_id}
        if request_body.get("token_endpoint_auth_method", "client_secret_basic") != "none":
            client["client_secret"] = f"secret-{secrets.token_hex(12)}"
        self.clients[client_id] = client
        return web.json_response(client, status=201)

    async def _authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        client = self._client(asked.get("client_id", ""))
        if client is None:
            return _error(400, "unauthorized_client")
        redirect = asked.get("redirect_uri", "")
        redirect_uris = client.get("redirect_uris")
        if redirect_uris is not None and redirect not in redirect_uris:
            return _error(400, "invalid_redirect_uri")
        if asked.get("response_type") != "code" or asked.get("code_challenge_method") != "S256":
            return _error(400, "invalid_request")
        answer = {"state": asked.get("state", "")}
        if self.says_iss is not None:
            answer["iss"] = self.says_iss or self.url
        if self.denies:
            answer["error"] = "access_denied"
        else:
            grant = Grant(
                user=self.user,
                client_id=asked["client_id"],
                scope=asked.get("scope", ""),
                resource=asked.get("resource", ""),
            )
            code = f"code-{secrets.token_urlsafe(12)}"
            self.codes[code] = (grant, asked)
            answer["code"] = code
        sign = "&" if urlsplit(redirect).query else "?"
        raise web.HTTPFound(f"{redirect}{sign}{urlencode(answer)}")

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append(dict(form))
        grant_type = form.get("grant_type", "")
        if self.before_token is not None:
            await self.before_token(grant_type)
        if self.fails:
            return _error(self.fails.pop(0), "temporarily_unavailable")
        client_id = self._authenticated(request, form)
        if client_id is None:
            return _error(401, "invalid_client")
        match grant_type:
            case "authorization_code":
                return self._for_code(form, client_id)
            case "refresh_token":
                return self._for_refresh(form, client_id)
            case "client_credentials":
                grant = Grant(
                    user=f"client:{client_id}",
                    client_id=client_id,
                    scope=form.get("scope", ""),
                    resource=form.get("resource", ""),
                )
                return self._give(grant, renews=False)
            case "urn:ietf:params:oauth:grant-type:token-exchange":
                user = self.subject_tokens.get(form.get("subject_token", ""))
                if user is None:
                    return _error(400, "invalid_grant")
                grant = Grant(user=user, client_id=client_id, resource=form.get("resource", ""))
                return self._give(grant, renews=False)
            case _:
                return _error(400, "unsupported_grant_type")

    def _for_code(self, form: dict[str, str], client_id: str) -> web.Response:
        code_grant = self.codes.pop(form.get("code", ""), None)
        if code_grant is None:
            return _error(400, "invalid_grant")
        grant, asked = code_grant
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        fits = (
            grant.client_id == client_id
            and asked["code_challenge"] == challenge
            and asked["redirect_uri"] == form.get("redirect_uri")
        )
        if not fits:
            return _error(400, "invalid_grant")
        return self._give(grant, renews=True)

    def _for_refresh(self, form: dict[str, str], client_id: str) -> web.Response:
        refresh_token = form.get("refresh_token", "")
        if self.refuses_refresh:
            return _error(400, self.refuses_refresh)
        if again := self.used_refresh.get(refresh_token):
            # RFC 9700, section 4.14.2: someone has a copy, so the whole family is revoked.
            self._end_family(again.family)
            return _error(400, "invalid_grant")
        grant = self.refresh.get(refresh_token)
        if grant is None or grant.client_id != client_id:
            return _error(400, "invalid_grant")
        if self.rotates:
            self.used_refresh[refresh_token] = self.refresh.pop(refresh_token)
        return self._give(grant, renews=self.rotates)

    def _give(self, grant: Grant, *, renews: bool) -> web.Response:
        access = f"access-{grant.user}-{secrets.token_urlsafe(12)}"
        self.tokens[access] = grant
        answer: Json = {"access_token": access, "token_type": "bearer"}
        if self.lifetime_s is not None:
            answer["expires_in"] = self.lifetime_s
        if grant.scope:
            answer["scope"] = grant.scope
        if renews:
            answer["refresh_token"] = f"refresh-{secrets.token_urlsafe(12)}"
            self.refresh[answer["refresh_token"]] = grant
        return web.json_response(
            {**answer, **self.token_extra}, headers={"cache-control": "no-store"}
        )

    async def _revoke(self, request: web.Request) -> web.Response:
        token = str((await request.post()).get("token", ""))
        self.revoked.append(token)
        grant = self.refresh.get(token) or self.tokens.get(token)
        if grant is not None:
            self._end_family(grant.family)
        return web.Response()

    def _end_family(self, family: str) -> None:
        for grants in (self.tokens, self.refresh):
            for token in [token for token, grant in grants.items() if grant.family == family]:
                del grants[token]

    def _client(self, client_id: str) -> Json | None:
        if self.offers_documents and client_id in self.documents:
            return {"client_secret": "", "token_endpoint_auth_method": "none"}
        return self.clients.get(client_id)

    def _authenticated(self, request: web.Request, form: dict[str, str]) -> str | None:
        """The client of a request, if it authenticates with its registered method."""
        header = request.headers.get("authorization", "")
        if header.startswith("Basic "):
            both = base64.b64decode(header.removeprefix("Basic ")).decode()
            client_id, secret = map(unquote, both.partition(":")[::2])
            method = "client_secret_basic"
        else:
            client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
            method = "client_secret_post" if secret else "none"
        client = self._client(client_id)
        if client is None or client.get("token_endpoint_auth_method", method) != method:
            return None
        return client_id if (client.get("client_secret") or "") == secret else None


class ProtectedServer:
    """An MCP server over HTTP whose tool `whoami` returns the user of the token."""

    def __init__(self, authorization: AuthorizationServer) -> None:
        self._authorization = authorization
        self.url = ""
        """Its endpoint."""
        self.needs_scope = ""
        """A scope without which calls get status 403."""
        self.names_resource = ""
        """The resource in its metadata; empty: its address."""
        self.names_issuer = ""
        """The authorization server in its metadata; empty: the one it trusts."""
        self.describes_itself = True
        """Whether it publishes metadata (RFC 9728)."""
        self.requests: list[tuple[dict[str, str], Json]] = []
        """Received headers and messages."""
        self.accepts: set[str] = set()
        """Further accepted values of `Authorization`."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["ProtectedServer"]:
        """Serve on a free port of this machine."""
        async with _serving(
            [
                web.get("/.well-known/oauth-protected-resource/mcp", self._resource_metadata),
                web.post("/mcp", self._mcp),
                web.get("/mcp", _no_stream),
                web.delete("/mcp", _no_stream),
            ]
        ) as url:
            self.url = f"{url}/mcp"
            yield self

    @property
    def callers(self) -> list[str]:
        """The users of the calls, in order."""
        return [
            self._user_of(headers) or ""
            for headers, message in self.requests
            if message.get("method") == "tools/call"
        ]

    def _user_of(self, headers: dict[str, str]) -> str | None:
        authorization = headers.get("authorization", "")
        if authorization in self.accepts:
            return authorization
        grant = self._authorization.tokens.get(authorization.removeprefix("Bearer "))
        if grant is None or (grant.resource and grant.resource != self.url):
            return None
        return grant.user

    async def _resource_metadata(self, request: web.Request) -> web.Response:
        del request
        if not self.describes_itself:
            return _error(404, "not_found")
        return web.json_response(
            {
                "resource": self.names_resource or self.url,
                "authorization_servers": [self.names_issuer or self._authorization.url],
                "scopes_supported": ["read"],
            }
        )

    async def _mcp(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        message: Json = await request.json()
        self.requests.append((headers, message))
        user = self._user_of(headers)
        if user is None:
            metadata_url = self.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
            challenge = 'Bearer realm="test"'
            if self.describes_itself:
                challenge += f', resource_metadata="{metadata_url}"'
            return web.json_response(
                {"error": "unauthorized"}, status=401, headers={"www-authenticate": challenge}
            )
        method = message.get("method")
        grant = self._authorization.tokens.get(
            headers.get("authorization", "").removeprefix("Bearer ")
        )
        has = [] if grant is None else grant.scope.split()
        if self.needs_scope and method == "tools/call" and self.needs_scope not in has:
            challenge = f'Bearer error="insufficient_scope", scope="{self.needs_scope}"'
            return web.json_response({}, status=403, headers={"www-authenticate": challenge})
        if "id" not in message:
            return web.Response(status=202)
        answer: Json = {"jsonrpc": "2.0", "id": message["id"]}
        match method:
            case "initialize":
                answer["result"] = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "protected", "version": "1"},
                }
            case "tools/list":
                answer["result"] = {
                    "tools": [
                        {
                            "name": "whoami",
                            "description": "Says for whom it runs.",
                            "inputSchema": {"type": "object"},
                            "annotations": {"readOnlyHint": True},
                        }
                    ]
                }
            case "tools/call":
                answer["result"] = {"content": [{"type": "text", "text": user}]}
            case "ping":
                answer["result"] = {}
            case _:
                answer["error"] = {"code": -32601, "message": "Method not found"}
        return web.json_response(answer)


async def _no_stream(request: web.Request) -> web.Response:
    del request
    return web.Response(status=405)


def _error(status: int, word: str) -> web.Response:
    return web.json_response({"error": word, "error_description": "Not today."}, status=status)


@asynccontextmanager
async def _serving(routes: list[web.RouteDef]) -> AsyncGenerator[str]:
    app = web.Application()
    app.add_routes(routes)
    async with serve_application(app) as url:
        yield url
