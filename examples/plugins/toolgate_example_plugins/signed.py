"""The authenticator `signed`: tokens that another program signs with a shared secret (HMAC-SHA256).

A token is `sig_PAYLOAD.SIGNATURE`: base64 of a JSON object with `user`, `roles`, `projects` and
`expires` (Unix seconds), and the signature in hexadecimal. Nothing is stored; anyone who has the
secret can make tokens with any role.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolgate.errors import CredentialError, OptionError
from toolgate.security.authn import Authenticator
from toolgate.types import Identity

_PREFIX = "sig_"

_MIN_SECRET_CHARACTERS = 32
"""Shortest secret, in characters: 128 bits in hexadecimal."""

_MAX_TOKEN_CHARACTERS = 4_096
"""Longest token that is read, in characters (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[authn.options.signed]`."""

    secret: str = field(repr=False)
    """Shared with the program that signs; write `${env:NAME}` and not the secret itself."""

    def __post_init__(self) -> None:
        """Check the length.

        Raises:
            OptionError: The secret is too short.
        """
        if len(self.secret) < _MIN_SECRET_CHARACTERS:
            raise OptionError(
                "secret is too short.",
                allowed=f"Allowed: {_MIN_SECRET_CHARACTERS} characters or more.",
                hint="Make one: openssl rand -hex 32",
            )


def build(options: Options) -> "SignedAuthenticator":
    """Return an authenticator for tokens that are signed with this secret."""
    return SignedAuthenticator(options.secret)


def sign(
    secret: str,
    user: str,
    *,
    expires: float,
    roles: Sequence[str] = (),
    projects: Sequence[str] = (),
) -> str:
    """Return a token; for the program that issues them."""
    claims = {"user": user, "roles": roles, "projects": projects, "expires": expires}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"{_PREFIX}{payload}.{_signature(secret, payload)}"


class _Claims(BaseModel):
    """The content of a payload."""

    model_config = ConfigDict(extra="forbid", strict=True)

    user: str = Field(min_length=1, max_length=200)
    roles: list[str] = []
    projects: list[str] = []
    expires: float


class SignedAuthenticator:
    """Accepts tokens that are signed with its secret."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    @property
    def issuers(self) -> tuple[str, ...]:
        """None: there is no login."""
        return ()

    async def identify(self, credential: str) -> Identity | None:
        """Return the user for whom a token was signed.

        Raises:
            CredentialError: Its signature is wrong, or it has expired.
        """
        if not credential.startswith(_PREFIX):
            return None
        claims = self._verified(credential)
        try:
            expires = datetime.fromtimestamp(claims.expires, UTC)
        except (ValueError, OverflowError, OSError):
            raise _refused() from None
        if expires <= datetime.now(UTC):
            raise CredentialError(
                "The signed token has expired.", hint="Ask for another one where it came from."
            )
        return Identity(
            caller_id=f"signed:{claims.user}",
            kind="signed",
            user=claims.user,
            roles=tuple(claims.roles),
            projects=tuple(claims.projects),
            expires_at=expires.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )

    async def aclose(self) -> None:
        """Nothing has to be closed."""

    def _verified(self, credential: str) -> _Claims:
        payload, _, signature = credential.removeprefix(_PREFIX).partition(".")
        expected = _signature(self._secret, payload)
        # Bytes, since compare_digest refuses text beyond ASCII.
        is_signed = hmac.compare_digest(_encoded(signature), expected.encode())
        if not is_signed or len(credential) > _MAX_TOKEN_CHARACTERS:
            raise _refused()
        try:
            claims: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            return _Claims.model_validate(claims)
        except (binascii.Error, ValidationError, ValueError):
            raise _refused() from None


def _refused() -> CredentialError:
    return CredentialError(
        "The signature of the token is wrong, or its contents are.",
        hint="Ask for another one where it came from.",
    )


def _signature(secret: str, payload: str) -> str:
    return hmac.new(_encoded(secret), _encoded(payload), hashlib.sha256).hexdigest()


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


_: type[Authenticator] = SignedAuthenticator
