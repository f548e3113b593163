"""The contents of stored credentials: headers, variables, secrets; details that may be shown."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from toolgate.base.ids import new_id, utc_text_of
from toolgate.security.credentials.vault import DecryptedCredential
from toolgate.settings import fill_secrets
from toolgate.types import Json, ServerSpec, json_object

SECRETS = "secrets"
"""The kind of the row with a server's secrets, by which its configuration names them."""


def origin_of(spec: ServerSpec) -> str | None:
    """Return the origin that a credential is bound to; it is not sent to any other."""
    url = spec.options.get("url")
    if not isinstance(url, str):
        return None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def current_values(
    credential: DecryptedCredential | None, spec: ServerSpec
) -> dict[str, dict[str, str]]:
    """Return the headers and variables of a credential as stored, without renewing it."""
    if credential is None or credential.secret.get("origin") not in {None, origin_of(spec)}:
        return {}
    if credential.secret.get("form") == "static":
        values = {"headers": credential.secret["headers"], "env": credential.secret["env"]}
        return {name: dict(values) for name, values in values.items() if values}
    token = credential.secret.get("access_token")
    return {"headers": bearer_header(str(token))} if token else {}


def static_credential(
    spec: ServerSpec, headers: Mapping[str, str], env: Mapping[str, str], *, by: str
) -> tuple[Json, Json]:
    """Return headers and variables for a server in stored form: the secret and public details.

    Args:
        spec: The server that they are for.
        headers: Headers of each request to it.
        env: Variables of its process.
        by: Who set them.
    """
    secret: Json = {
        "form": "static",
        "headers": {name.lower(): value for name, value in headers.items()},
        "env": dict(env),
        "origin": origin_of(spec),
    }
    names = [*headers, *env]
    details: Json = {"form": "static", "state": "good", "names": names, "by": by}
    return secret, {**details, "epoch": new_id()}


def secrets_credential(
    spec: ServerSpec, secrets: Mapping[str, str], *, by: str
) -> tuple[Json, Json]:
    """Return what `${secret:NAME}` stands for in stored form: the secret and public details.

    Args:
        spec: The server that they are for.
        secrets: Values by name.
        by: Who set them.
    """
    secret: Json = {"form": SECRETS, "values": dict(secrets), "origin": origin_of(spec)}
    details: Json = {"form": SECRETS, "state": "good", "names": list(secrets), "by": by}
    return secret, {**details, "epoch": new_id()}


def stored_secrets(credential: DecryptedCredential | None, spec: ServerSpec) -> dict[str, str]:
    """Return the secrets in a stored credential, by name; none if they are for another origin."""
    if credential is None or credential.secret.get("origin") not in {None, origin_of(spec)}:
        return {}
    return dict(credential.secret["values"])


def with_values(
    spec: ServerSpec, values: Mapping[str, Mapping[str, str]], secrets: Mapping[str, str]
) -> ServerSpec:
    """Return a server with what is stored for it in its options.

    Args:
        spec: The server.
        values: Headers and variables, under `headers` and `env`.
        secrets: What `${secret:NAME}` stands for.
    """
    options = json_object(fill_secrets(spec.options, secrets))
    for name, added in values.items():
        options[name] = {**json_object(options.get(name)), **added}
    hidden = spec.secrets.union(secrets.values(), values.get("headers", {}).values())
    return replace(spec, options=options, secrets=hidden)


def with_tokens(secret: Json, tokens: Any, obtained_at: float) -> Json:
    """Return a login with new tokens."""
    renewed = {
        **secret,
        "access_token": tokens.access_token,
        "refresh_token": tokens.refresh_token or secret.get("refresh_token"),
        "scope": tokens.scope or secret.get("scope") or "",
        "expires_at": None,
        "lifetime_s": None,
    }
    if tokens.expires_in is not None:
        renewed |= {"expires_at": obtained_at + tokens.expires_in, "lifetime_s": tokens.expires_in}
    renewed.pop("ended", None)
    return renewed


def public_details(secret: Json, before: Json) -> Json:
    """Return the details of a login that may be shown."""
    expires_at = secret.get("expires_at")
    return {
        **{name: value for name, value in before.items() if name not in {"reason", "updated_at"}},
        "form": "oauth",
        "state": "good",
        "issuer": secret.get("issuer") or "",
        "scopes": str(secret.get("scope") or "").split(),
        "expires_at": utc_text_of(expires_at) if expires_at is not None else None,
        "renews": bool(secret.get("refresh_token")),
    }


def bearer_header(token: str) -> dict[str, str]:
    """Return the header with an access token (RFC 6750)."""
    return {"authorization": f"Bearer {token}"}
