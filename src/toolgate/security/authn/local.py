"""Authenticates the local user, by the key in the run file that only this user can read."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from toolgate.types import LOCAL, Identity


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options, of which there are none."""


def build(options: Options, *, local_key: Callable[[], str]) -> "LocalAuthenticator":
    """Create an authenticator for the key of this process; an empty key is never accepted."""
    del options
    return LocalAuthenticator(local_key)


class LocalAuthenticator:
    """Recognizes the key of the run file, which each process creates anew."""

    def __init__(self, local_key: Callable[[], str]) -> None:
        self._local_key = local_key

    @property
    def issuers(self) -> tuple[str, ...]:
        """No addresses."""
        return ()

    async def identify(self, credential: str) -> Identity | None:
        """Return the local user for the key; None for others, which may be of another process."""
        key = self._local_key()
        presented = credential.encode(errors="surrogatepass")
        return LOCAL if key and hmac.compare_digest(presented, key.encode()) else None

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""
