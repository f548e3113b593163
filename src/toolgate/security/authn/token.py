"""Authenticates tokens created by `toolgate tokens create`: `tg_1a2b3c4d_` and 32 random bytes.

The first part is public: it finds the row and lets a person recognize the token. Only the
SHA-256 of the whole is stored; for 256 random bits that is enough, and fast.
"""

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass

from toolgate.base.ids import utc_now
from toolgate.errors import CredentialError
from toolgate.security.authn._opaque_tokens import digest_of, identity_of
from toolgate.store import StoredToken
from toolgate.types import Identity

_FORM = re.compile(r"(tg_[0-9a-f]{8})_[A-Za-z0-9_-]{43}")
_NOBODY = "0" * 64


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options, of which there are none."""


def build(
    options: Options,
    *,
    find_token: Callable[[str], StoredToken | None],
    note_use: Callable[[str], None],
) -> "TokenAuthenticator":
    """Create an authenticator for the tokens that `find_token` finds by prefix."""
    del options
    return TokenAuthenticator(find_token, note_use)


class TokenAuthenticator:
    """Recognizes the tokens of the store."""

    def __init__(
        self, find_token: Callable[[str], StoredToken | None], note_use: Callable[[str], None]
    ) -> None:
        self._find_token = find_token
        self._note_use = note_use
        self._identities: dict[str, tuple[StoredToken, Identity]] = {}

    @property
    def issuers(self) -> tuple[str, ...]:
        """No addresses: people hand out these tokens."""
        return ()

    async def identify(self, credential: str) -> Identity | None:
        """Return the identity of a token.

        Raises:
            CredentialError: The token is unknown, revoked or expired.
        """
        if not credential.startswith("tg_"):
            return None
        form = _FORM.fullmatch(credential)
        token = self._find_token(form[1]) if form else None
        if token is None or not _is(token, credential):
            # Unknown and wrong tokens take the same path: a comparison is always made.
            hmac.compare_digest(digest_of(credential), _NOBODY)
            raise CredentialError(
                "The token is unknown.",
                hint="Send the whole token, or create a new one: toolgate tokens create NAME",
            )
        if token.revoked_at is not None:
            raise CredentialError(
                f"The token {token.prefix}… was revoked.",
                was_issued=True,
                caller_id=identity_of(token).caller_id,
                hint="Ask for a new one, or create it: toolgate tokens create NAME",
            )
        if token.expires_at is not None and token.expires_at <= utc_now():
            raise CredentialError(
                f"The token {token.prefix}… has expired, at {token.expires_at}.",
                was_issued=True,
                caller_id=identity_of(token).caller_id,
                hint=f"Rotate it: toolgate tokens rotate {token.name}",
            )
        self._note_use(token.token_id)
        cached = self._identities.get(token.prefix)
        if cached is None or cached[0] is not token:
            cached = self._identities[token.prefix] = (token, identity_of(token))
        return cached[1]

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


def _is(token: StoredToken, credential: str) -> bool:
    """Return whether this is the token's secret, or the previous one while still accepted."""
    digest = digest_of(credential)
    # Both are always compared, so that the time does not reveal which one matched.
    is_present = hmac.compare_digest(digest, token.digest)
    was_before = hmac.compare_digest(digest, token.old_digest or _NOBODY)
    return is_present or (was_before and (token.old_until or "") > utc_now())
