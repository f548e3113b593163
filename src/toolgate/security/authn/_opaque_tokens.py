"""Creates opaque tokens, and derives what is stored of them."""

import hashlib
import secrets

from toolgate.store import StoredToken
from toolgate.types import Identity


def new_prefix() -> str:
    """Create the public part of a new token."""
    return f"tg_{secrets.token_hex(4)}"


def new_token(prefix: str) -> str:
    """Create a token with a public part."""
    return f"{prefix}_{secrets.token_urlsafe(32)}"


def digest_of(token: str) -> str:
    """Return the digest of a token, which is all that is stored of it."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def identity_of(token: StoredToken) -> Identity:
    """Return the identity of a token."""
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
