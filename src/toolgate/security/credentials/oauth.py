"""The OAuth client: discovery, registration, and obtaining and renewing tokens.

The rules for discovery, issuers and registration are those of the MCP SDK's own client, whose
functions are used here; requests go through `Outbound`, so that no server can send Toolgate to
an address that is more private than its own.
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_client_registration_request,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    get_client_metadata_scopes,
    handle_registration_response,
    issuers_match,
    should_use_client_metadata_url,
    validate_authorization_response_iss,
    validate_metadata_issuer,
)
from mcp.shared.auth import (
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyUrl, BaseModel, ValidationError

from toolgate.errors import InvalidAnswerError, UnreachableError, UpstreamError
from toolgate.security.outbound import (
    AddressScope,
    ConnectionOptions,
    HttpAnswer,
    Outbound,
    is_this_machine,
)
from toolgate.types import CredentialSpec, Json, ServerSpec

_MetadataT = TypeVar("_MetadataT", bound=BaseModel)

_ACCEPT = {"accept": "application/json"}
_TOKEN = re.compile(r"[\x20-\x7e]+")
_LONGEST_LIFETIME_S = 10 * 365 * 86_400
"""Tokens that are said to be valid for longer are renewed after this (chosen)."""
_WORD = re.compile(r"[A-Za-z0-9_.:/-]{1,60}")
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 -- a name
_GRANTS = ["authorization_code", "refresh_token"]
_SUGGESTED = (400, 401, 403, 404, 405, 410)


class GrantRefusedError(UpstreamError):
    """The authorization server refuses to issue a token."""

    code = "upstream"

    def __init__(self, failed: str, *, reason: str) -> None:
        super().__init__(failed)
        self.reason = reason
        """Its error code, such as `invalid_grant`."""


@dataclass(frozen=True, kw_only=True)
class OAuthTarget:
    """An authorization server, and what is requested from it."""

    metadata: OAuthMetadata
    """Its metadata."""

    issuer: str
    """Its issuer identifier."""

    resource: str
    """The resource that tokens are for (RFC 8707)."""

    scopes: str
    """Scopes to request; empty: the server's default."""

    reach: AddressScope
    """The scope of addresses that it may name."""

    options: ConnectionOptions
    """TLS certificates and proxy of the connection."""


@dataclass(frozen=True, kw_only=True)
class TokenEndpoint:
    """A token endpoint, and the client that requests tokens there."""

    token_url: str
    """URL of the token endpoint."""

    client: Json
    """`client_id`, `client_secret` and `token_endpoint_auth_method`. WARNING: never shown."""

    reach: AddressScope
    """The scope of addresses that the URL may lead to."""

    options: ConnectionOptions
    """TLS certificates and proxy of the connection."""


class OAuthClient:
    """The OAuth client for all authorization servers."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound

    async def discover(self, spec: ServerSpec, challenge: str = "") -> OAuthTarget:
        """Discover the authorization server of a server.

        Args:
            spec: The server.
            challenge: `WWW-Authenticate` header of the response that asked for a login.

        Raises:
            UnreachableError: The authorization server does not answer, or must not be reached.
            InvalidAnswerError: Its metadata is not valid.
        """
        url, options = address_of(spec), way_of(spec)
        reach = await self._outbound.reach_from(url, options)
        resource = await self._resource(url, reach, options, challenge)
        settings = spec.credentials
        # Its name may have resolved to another address before the answer than for the answer.
        reach = await self._outbound.reach_from(url, options)
        issuer = settings.issuer or (
            str(resource.authorization_servers[0]) if resource is not None else ""
        )
        if settings.issuer:
            reach = await self._outbound.reach_from(settings.issuer, options)
        metadata = await self._metadata(issuer, url, reach, options)
        if settings.issuer and not issuers_match(str(metadata.issuer), settings.issuer):
            raise _odd(
                f"The authorization server {settings.issuer} calls itself {metadata.issuer}."
            )
        asked = " ".join(settings.scopes) or get_client_metadata_scopes(
            extract_scope_from_www_auth(_refused(challenge)), resource, metadata, _GRANTS
        )
        expected = resource_url_from_server_url(url)
        if resource is not None:
            expected = str(resource.resource)
        return OAuthTarget(
            metadata=metadata,
            issuer=str(metadata.issuer),
            resource=expected,
            scopes=asked or "",
            reach=reach,
            options=options.elsewhere,
        )

    async def _resource(
        self, url: str, reach: AddressScope, options: ConnectionOptions, challenge: str
    ) -> ProtectedResourceMetadata | None:
        """Fetch the protected resource metadata of a server (RFC 9728); None if it has none."""
        named = extract_resource_metadata_from_www_auth(_refused(challenge))
        for metadata_url in build_protected_resource_metadata_discovery_urls(named, url):
            metadata = await self._document(
                ProtectedResourceMetadata, metadata_url, reach, _way_to(metadata_url, url, options)
            )
            if metadata is None:
                continue
            expected = resource_url_from_server_url(url)
            # RFC 9728 section 3.3: metadata for another resource would send tokens elsewhere.
            if not check_resource_allowed(expected, str(metadata.resource)):
                raise _odd(f"The server at {_without_query(url)} calls itself {metadata.resource}.")
            return metadata
        return None

    async def _document(
        self,
        model: type[_MetadataT],
        metadata_url: str,
        reach: AddressScope,
        options: ConnectionOptions,
    ) -> _MetadataT | None:
        """Fetch metadata from one of its well-known URLs; None if there is none that can be read.

        Raises:
            UnreachableError: The server has a problem that may pass.
        """
        answer = await self._outbound.fetch(
            "GET", metadata_url, reach=reach, headers=_ACCEPT, options=options
        )
        if answer.status >= 500 or answer.status == 429:
            raise UnreachableError(
                f"{metadata_url} answered {answer.status}.", hint="Try again later."
            )
        try:
            return model.model_validate_json(answer.body) if answer.status == 200 else None
        except ValidationError:
            return None

    async def _metadata(
        self, issuer: str, url: str, reach: AddressScope, options: ConnectionOptions
    ) -> OAuthMetadata:
        """Fetch the metadata of an authorization server (RFC 8414)."""
        for metadata_url in build_oauth_authorization_server_metadata_discovery_urls(
            issuer or None, url
        ):
            metadata = await self._document(
                OAuthMetadata, metadata_url, reach, _way_to(metadata_url, url, options)
            )
            if metadata is None:
                continue
            expected = issuer or _origin(url)
            # Some issuers differ only in a trailing slash; the SDK's check below is exact.
            if issuers_match(str(metadata.issuer), expected):
                expected = str(metadata.issuer)
            try:
                validate_metadata_issuer(metadata, expected)
            except OAuthFlowError as error:
                raise _odd(f"{error}.") from error
            for endpoint in (
                metadata.authorization_endpoint,
                metadata.token_endpoint,
                metadata.registration_endpoint,  # answers with a client secret
                metadata.revocation_endpoint,  # receives refresh tokens
            ):
                if endpoint is not None:
                    _check_scheme(str(endpoint), metadata_url)
            return metadata
        raise _odd(
            f"There is no authorization server to log in to the server at {_without_query(url)}."
            if not issuer
            else f"The authorization server {issuer} says nothing about itself."
        )

    async def client(
        self,
        settings: CredentialSpec,
        target: OAuthTarget,
        *,
        redirects: Sequence[str],
        name: str,
        document: str,
    ) -> tuple[Json, bool]:
        """Return the client to log in as, and whether it was registered just now.

        Args:
            settings: The configured credentials.
            target: The authorization server.
            redirects: Redirect addresses of the client.
            name: The client name that people are shown.
            document: URL of the client ID metadata document; empty if there is none.

        Raises:
            InvalidAnswerError: The authorization server accepts no registration, or refuses this
                one.
        """
        if settings.client_id:
            return _client(settings.client_id, settings.client_secret, target.metadata), False
        if document and should_use_client_metadata_url(target.metadata, document):
            return {"client_id": document, "token_endpoint_auth_method": "none"}, False
        if target.metadata.registration_endpoint is None:
            raise InvalidAnswerError(
                f"The authorization server {target.issuer} does not register clients"
                " automatically.",
                hint="Register Toolgate there yourself, with the address"
                f" {redirects[0]}, and set client_id (and client_secret) under [server.NAME"
                ".credentials].",
            )
        client_metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(redirect) for redirect in redirects],
            client_name=name,
            grant_types=list(_GRANTS),
            token_endpoint_auth_method=_method(target.metadata),
            scope=target.scopes or None,
            # OpenID Connect Dynamic Registration section 2: `web` allows no http and no localhost.
            application_type="native" if _is_local(redirects[0]) else "web",
        )
        request = create_client_registration_request(
            target.metadata, client_metadata, target.issuer
        )
        answer = await self._outbound.fetch(
            "POST",
            str(request.url),
            reach=target.reach,
            headers={"content-type": "application/json", **_ACCEPT},
            body=request.content,
            options=target.options,
        )
        try:
            registered = await handle_registration_response(
                httpx2.Response(answer.status, content=answer.body)
            )
            check_registration_usable(registered)
        except OAuthRegistrationError as error:
            # The response is not shown: it may contain a secret.
            raise InvalidAnswerError(
                f"The authorization server {target.issuer} did not register Toolgate"
                f" ({answer.status}{_named(answer)}).",
                hint="Register it there yourself, and set client_id under [server.NAME"
                ".credentials].",
            ) from error
        return {
            "client_id": registered.client_id,
            "client_secret": registered.client_secret or "",
            "token_endpoint_auth_method": registered.token_endpoint_auth_method
            or ("client_secret_basic" if registered.client_secret else "none"),
        }, True

    async def exchange_code(
        self, endpoint: TokenEndpoint, *, code: str, verifier: str, redirect: str, resource: str
    ) -> OAuthToken:
        """Exchange the authorization code of a login for tokens.

        Raises:
            GrantRefusedError: The code is refused.
            UnreachableError: The authorization server does not answer.
        """
        return await self._token(
            endpoint,
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": redirect,
                "code_verifier": verifier,
                "resource": resource,
            },
        )

    async def refresh(
        self, endpoint: TokenEndpoint, *, refresh_token: str, resource: str, scopes: str
    ) -> OAuthToken:
        """Return renewed tokens; raises the same errors as `exchange_code`."""
        del scopes  # if omitted, it stays as granted (RFC 6749, section 6)
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        return await self._token(endpoint, form | {"resource": resource})

    async def of_client(
        self, endpoint: TokenEndpoint, *, resource: str, scopes: str, audience: str
    ) -> OAuthToken:
        """Return a token of the client itself; raises the same errors as `exchange_code`."""
        form = {"grant_type": "client_credentials", "resource": resource}
        return await self._token(endpoint, {**form, "scope": scopes, "audience": audience})

    async def exchange_token(
        self,
        endpoint: TokenEndpoint,
        *,
        subject_token: str,
        resource: str,
        scopes: str,
        audience: str,
    ) -> OAuthToken:
        """Exchange a caller's token (RFC 8693); raises the same errors as `exchange_code`."""
        form = {
            "grant_type": _EXCHANGE,
            "subject_token": subject_token,
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
        }
        # RFC 8693 section 2.1: either parameter names the target; the settings choose.
        if audience:
            form["audience"] = audience
        else:
            form["resource"] = resource
        return await self._token(endpoint, {**form, "scope": scopes})

    async def revoke(self, url: str, endpoint: TokenEndpoint, token: str) -> None:
        """Revoke a token at the authorization server (RFC 7009)."""
        form, headers = _as_client(endpoint.client, {"token": token})
        await self._outbound.fetch(
            "POST", url, reach=endpoint.reach, form=form, headers=headers, options=endpoint.options
        )

    async def _token(self, endpoint: TokenEndpoint, form: Mapping[str, str]) -> OAuthToken:
        asked = {name: value for name, value in form.items() if value}
        sent, headers = _as_client(endpoint.client, asked)
        answer = await self._outbound.fetch(
            "POST",
            endpoint.token_url,
            reach=endpoint.reach,
            form=sent,
            headers={**_ACCEPT, **headers},
            options=endpoint.options,
        )
        where = _without_query(endpoint.token_url)
        if answer.status >= 500 or answer.status == 429:
            raise UnreachableError(
                f"The token endpoint {where} answered {answer.status}.", hint="Try again later."
            )
        if answer.status in _SUGGESTED or answer.status >= 300:
            raise GrantRefusedError(
                f"The token endpoint {where} answered {answer.status}{_named(answer)}.",
                reason=_error_of(answer) or str(answer.status),
            )
        try:
            token = OAuthToken.model_validate_json(answer.body)
        except ValidationError as error:
            raise _no_token(where) from error
        # RFC 6749 appendix A.12; others cannot be sent in a header.
        if not _TOKEN.fullmatch(token.access_token):
            raise _no_token(where)
        if token.expires_in is not None:
            token.expires_in = min(token.expires_in, _LONGEST_LIFETIME_S)
        return token


def _no_token(where: str) -> InvalidAnswerError:
    return InvalidAnswerError(
        f"The token endpoint {where} answered with something that is not a token.",
        hint="Report it to the operator of that server.",
    )


def check_pkce(target: OAuthTarget) -> None:
    """Refuse to log people in if the authorization server does not declare PKCE.

    MCP: clients refuse an authorization server that names no challenge method, even if OpenID
    Connect Discovery leaves it optional.
    https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization

    Raises:
        InvalidAnswerError: The metadata does not name S256.
    """
    if "S256" not in (target.metadata.code_challenge_methods_supported or ()):
        raise _odd(
            f"The authorization server {target.issuer} does not say that it supports PKCE"
            " (S256 in code_challenge_methods_supported)."
        )


def new_proof() -> tuple[str, str]:
    """Create a verifier and its challenge (RFC 7636, S256)."""
    verifier = secrets.token_urlsafe(64)
    digest = hashlib.sha256(verifier.encode()).digest()
    return verifier, base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def authorize_url(
    target: OAuthTarget, *, client: Json, redirect: str, state: str, challenge: str
) -> str:
    """Return the URL at which a person consents."""
    values = {
        "response_type": "code",
        "client_id": str(client["client_id"]),
        "redirect_uri": redirect,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": target.resource,
    }
    if target.scopes:
        values["scope"] = target.scopes
        # OpenID Connect Core section 11: offline_access is ignored without this prompt.
        if "offline_access" in target.scopes.split():
            values["prompt"] = "consent"
    endpoint = str(target.metadata.authorization_endpoint)
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(values)}"


def check_iss(iss: str | None, metadata: Json) -> None:
    """Check the issuer of a login response (RFC 9207).

    Raises:
        InvalidAnswerError: The response comes from another issuer.
    """
    try:
        validate_authorization_response_iss(iss, OAuthMetadata.model_validate(metadata))
    except OAuthFlowError as error:
        raise InvalidAnswerError(
            "The login was answered by a different authorization server than expected.",
            hint="Start again; if it happens again, do not trust the server.",
        ) from error


def _client(client_id: str, secret: str, metadata: OAuthMetadata | None) -> Json:
    offered = metadata.token_endpoint_auth_methods_supported if metadata is not None else None
    method = "none"
    if secret:
        basic = offered is None or "client_secret_basic" in offered
        method = "client_secret_basic" if basic else "client_secret_post"
    return {
        "client_id": client_id,
        "client_secret": secret,
        "token_endpoint_auth_method": method,
    }


def client_of(settings: CredentialSpec) -> Json:
    """Return the configured client."""
    return _client(settings.client_id, settings.client_secret, None)


def _method(metadata: OAuthMetadata) -> Any:
    """Choose how a registered client authenticates: `none` if that is allowed."""
    offered = metadata.token_endpoint_auth_methods_supported
    if offered is None or "none" in offered:
        return "none"
    supported = [
        method for method in ("client_secret_basic", "client_secret_post") if method in offered
    ]
    return supported[0] if supported else None


def _as_client(client: Json, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return a form and headers with the client's authentication (RFC 6749, section 2.3)."""
    client_id, secret = str(client["client_id"]), str(client.get("client_secret") or "")
    method = client.get("token_endpoint_auth_method")
    if secret and method == "client_secret_basic":
        # Both are form-encoded before base64 (RFC 6749 section 2.3.1).
        both = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
        return dict(form), {"authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}
    sent = {**form, "client_id": client_id}
    if secret and method == "client_secret_post":
        sent["client_secret"] = secret
    return sent, {}


def address_of(spec: ServerSpec) -> str:
    """Return the address of a server without user and password, which stay private."""
    parts = urlsplit(str(spec.options["url"]))
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


def way_of(spec: ServerSpec) -> ConnectionOptions:
    """Return the TLS certificates and proxy of a server."""
    values = {name: str(spec.options.get(name) or "") for name in ("ca", "cert", "key", "proxy")}
    return ConnectionOptions(**values)


def _way_to(target_url: str, url: str, options: ConnectionOptions) -> ConnectionOptions:
    return options if _origin(target_url) == _origin(url) else options.elsewhere


def _refused(challenge: str) -> httpx2.Response:
    """Return the response that asked for a login in the form that the SDK expects."""
    headers = {"www-authenticate": challenge} if challenge else {}
    return httpx2.Response(401, headers=headers)


def _error_of(answer: HttpAnswer) -> str:
    """Return the error code of a refusal; the rest is not shown, since it may contain secrets."""
    try:
        word = json.loads(answer.body).get("error")
    except (ValueError, AttributeError):
        return ""
    return word if isinstance(word, str) and _WORD.fullmatch(word) else ""


def _named(answer: HttpAnswer) -> str:
    word = _error_of(answer)
    return f": {word}" if word else ""


def _check_scheme(url: str, name: str) -> None:
    if urlsplit(url).scheme != "https" and not _is_local(url):
        raise _odd(f"{name} names {url}, which is not https.")


def _is_local(url: str) -> bool:
    return is_this_machine(urlsplit(url).hostname or "")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _without_query(url: str) -> str:
    parts = urlsplit(url)
    return f"{_origin(url)}{parts.path}"


def _odd(failed: str) -> InvalidAnswerError:
    return InvalidAnswerError(
        failed, hint="Ask whoever runs that server, or set issuer under [server.NAME.credentials]."
    )
