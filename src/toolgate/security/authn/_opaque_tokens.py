"""Creates opaque tokens, and derives what is stored of them."""

import hashlib
import secrets

from toolgate.store import StoredToken
from toolgate.types import Identity

__all__ = ["digest_of", "identity_of", "new_prefix", "new_token"]


def new_prefix() -> str:
    """The public part of a new token."""
    return f"tg_{secrets.token_hex(4)}"


def new_token(prefix: str) -> str:
    """A new token with a public part."""
    return f"{prefix}_{secrets.token_urlsafe(32)}"


def digest_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def identity_of(token: StoredToken) -> Identity:
    """Who a token is."""
    return Identity(
        caller_id=f"token:{token.token_id}",
        kind="token",
        token=token.name,
        user=token.user,
        projects=token.projects,
        roles=token.roles,
        groups=token.groups,
        read_only=token.read_only,
        limits=tuple(sorted(token.limits.items())),
        expires_at=token.expires_at,
    )
