"""Authenticates requests, and builds responses to those without valid credentials."""

import re
from contextvars import ContextVar

from toolgate.base.logs import REQUEST_ID
from toolgate.errors import AccessError, CredentialError, ForbiddenError
from toolgate.security.access import PresentedCredentials
from toolgate.server.asgi.parsing.headers import HEADERS, header
from toolgate.server.asgi.parsing.messages import Scope
from toolgate.settings import Settings
from toolgate.types import COMMAND_LINE, Caller, Identity, Json

IS_RELAYED: ContextVar[bool] = ContextVar("relayed", default=False)
"""Whether the request came through a `toolgate stdio` of the same user, which mirrors no
parameters in headers."""

CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""The caller of the current request; None before authentication."""

ANONYMOUS = Identity(caller_id="", kind="nobody", projects=())
"""A client without credentials so far: may open a session or send a notification, nothing else."""

METADATA_PATH = "/.well-known/oauth-protected-resource"
"""Path of the metadata that tells clients how to log in (RFC 9728)."""

_PROJECT_PATH = "/mcp/p/"
# Names of entry points in the audit log, by the first segment of the path.
_ENTRY_POINTS = {
    "mcp": "mcp",
    "api": "rest",
    "v1": "openai",
    "catalog": "catalog",
    "metrics": "metrics",
}


def path_project(path: str) -> str | None:
    """Return the project named in a path of `/mcp`; empty: none; None: another path."""
    if path == "/mcp":
        return ""
    if path.startswith(_PROJECT_PATH) and "/" not in (name := path.removeprefix(_PROJECT_PATH)):
        return name or None
    return None


def presented_credentials(
    scope: Scope,
    meta: Json,
    *,
    client: str = "",
    client_version: str = "",
    is_relay: bool = False,
) -> PresentedCredentials:
    """Return the credentials and client details in an HTTP request.

    Args:
        scope: The request (ASGI).
        meta: `_meta` of its parameters.
        client: The client program's name for itself.
        client_version: The client program's version.
        is_relay: Whether the client is a `toolgate stdio`, whose Authorization header proves
            that it may relay.
    """
    peer = scope.get("client")
    headers = {
        name.decode("latin-1"): value.decode("latin-1") for name, value in scope[HEADERS].items()
    }
    return PresentedCredentials(
        authorization=None if is_relay else headers.get("authorization"),
        meta_token=meta.get("token") or (headers.get("x-toolgate-token") if is_relay else None),
        path_project=path_project(scope["path"]),
        header_project=headers.get("x-toolgate-project"),
        meta_project=meta.get("projectId"),
        local_key=headers.get("x-toolgate-key"),
        client=client,
        client_version=client_version,
        conversation=headers.get("x-toolgate-thread")
        or headers.get("mcp-session-id", "").rpartition(".")[2],
        address=str(peer[0]) if peer else "",
        entry_point=_entry_point(scope["path"], client, is_relay=is_relay),
        folder=headers.get("x-toolgate-folder", ""),
        headers={} if is_relay else headers,
        is_relay=is_relay,
    )


def _entry_point(path: str, client: str, *, is_relay: bool) -> str:
    if is_relay:
        return "stdio"
    name = _ENTRY_POINTS.get(path[1:].partition("/")[0], "")
    return "cli" if name == "rest" and client.startswith(COMMAND_LINE) else name


def refusal_status(error: AccessError) -> int:
    """Return the HTTP status for a refused caller."""
    if isinstance(error, CredentialError):
        return 429 if error.wait_s else 401
    return 403 if isinstance(error, ForbiddenError) else 429


def challenge_headers(
    error: AccessError, scope: Scope, resource: str
) -> tuple[tuple[bytes, bytes], ...]:
    """Return headers that tell a client how to authenticate (RFC 6750, RFC 9728)."""
    if isinstance(error, CredentialError) and error.wait_s:
        return ((b"retry-after", str(max(1, round(error.wait_s))).encode()),)
    parts = ['Bearer realm="toolgate"']
    if isinstance(error, CredentialError):
        if error.was_presented:
            parts.append('error="invalid_token"')
            parts.append(f'error_description="{_quotable(error.failed)}"')
    elif isinstance(error, ForbiddenError):
        parts.append('error="insufficient_scope"')
    parts.append(f'resource_metadata="{_quotable(metadata_path(scope, resource))}"')
    return ((b"www-authenticate", ", ".join(parts).encode("latin-1", "replace")),)


def metadata_path(scope: Scope, resource: str) -> str:
    """Return the address of the metadata for the requested resource."""
    base = _address(scope, resource)
    path: str = scope["path"]
    return f"{base}{METADATA_PATH}{path if path_project(path) is not None else '/mcp'}"


def resource_metadata(scope: Scope, resource: str, issuers: tuple[str, ...]) -> Json | None:
    """Return the metadata document (RFC 9728); None if the resource does not exist."""
    path = (
        scope["path"].removeprefix(METADATA_PATH).removeprefix(scope.get("root_path", "")) or "/mcp"
    )
    if path_project(path) is None:
        return None
    metadata: Json = {
        "resource": resource if resource and path == "/mcp" else _address(scope, resource) + path,
        "bearer_methods_supported": ["header"],
        "resource_name": "Toolgate",
    }
    if issuers:
        metadata["authorization_servers"] = list(issuers)
    return metadata


def public_address(settings: Settings, address: str) -> str:
    """Return the base URL of the gateway for browsers, without a trailing slash."""
    if settings.authn.resource:
        return settings.authn.resource.removesuffix("/").removesuffix("/mcp")
    # Clients cannot connect to a wildcard address.
    here = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    return f"{here}{settings.serve.root_path}"


def refusal_data(error: AccessError) -> Json:
    """Return the `data` of a JSON-RPC error for a refused caller."""
    return {"code": error.code, "retryable": error.retryable, "requestId": REQUEST_ID.get()}


def _address(scope: Scope, resource: str) -> str:
    """Return the scheme, host and path prefix of the gateway as the client sees them."""
    if resource:
        return resource.removesuffix("/").removesuffix("/mcp")
    host = header(scope, b"host") or "localhost"
    return f"{scope.get('scheme', 'http')}://{host}{scope.get('root_path', '')}"


def _quotable(text: str) -> str:
    return re.sub(r'[^\x20-\x7e]|["\\]', "'", text)
