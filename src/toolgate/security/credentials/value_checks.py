"""Checks headers, variables and secrets that people store for a server."""

import re
from collections.abc import Mapping

from toolgate.errors import ArgumentError, ForbiddenError
from toolgate.settings import find_secrets
from toolgate.types import ServerSpec

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Characters of a value. Chosen: servers refuse headers beyond 8 to 16 KiB.
_MOST = 16 * 2**10


def check_values(
    spec: ServerSpec,
    headers: Mapping[str, str],
    env: Mapping[str, str],
    secrets: Mapping[str, str],
    *,
    manages: bool,
) -> None:
    """Check what somebody wants to store for a server.

    Args:
        spec: The server.
        headers: Headers by name.
        env: Variables by name.
        secrets: Secrets by name.
        manages: Whether the caller manages servers; others set what the configuration allows.

    Raises:
        ForbiddenError: The settings do not let users set them.
        ArgumentError: They cannot be sent.
    """
    over_http = spec.kind in {"http", "sse"}
    is_empty = not (headers or env or secrets)
    if is_empty or (headers and not over_http) or (env and spec.kind != "stdio"):
        raise ArgumentError(
            f"Server {spec.name!r} takes {'headers' if over_http else 'variables'} and secrets.",
            allowed="Expected: names with values.",
        )
    _check_secrets(spec, secrets, manages=manages)
    allowed = {name.lower() for name in spec.credentials.headers} | set(spec.credentials.env)
    for name, value in {**headers, **env}.items():
        if over_http:  # as for headers in the settings
            fits = _HEADER.fullmatch(name) and value.isprintable()
        else:
            fits = name and "=" not in name and not any(sign in value for sign in "\r\n\0")
        if not fits or len(value) > _MOST:
            raise ArgumentError(f"{name[:60]!r} or its value cannot be sent.")
        # Header names are case-insensitive (RFC 9110 section 5.1), variable names are not.
        normalized = name.lower() if over_http else name
        if not manages and normalized not in allowed:
            raise ForbiddenError(
                f"Users may not set {name[:60]!r} for server {spec.name!r}.",
                allowed=f"Allowed: {', '.join(sorted(allowed)) or 'nothing'}.",
                hint=f"It can be allowed under [server.{spec.name}.credentials].",
            )


def _check_secrets(spec: ServerSpec, secrets: Mapping[str, str], *, manages: bool) -> None:
    for name, value in secrets.items():
        if find_secrets(f"${{secret:{name}}}") != [name]:
            raise ArgumentError(
                f"{name[:60]!r} cannot be the name of a secret.",
                allowed="Allowed: A-Z a-z 0-9 _ . -, starting with a letter or _.",
            )
        if not value or len(value) > _MOST or any(sign in value for sign in "\r\n\0"):
            raise ArgumentError(
                f"The value of the secret {name[:60]!r} cannot be sent.",
                allowed=f"Allowed: a line of at most {_MOST:,} characters.",
            )
    if secrets and not manages:
        raise ForbiddenError(
            f"Users may not set secrets in the configuration of server {spec.name!r}.",
            hint="Ask the administrator of the gateway.",
        )
