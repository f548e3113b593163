"""Authenticates the local user, by the key in the run file that only this user can read."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from toolgate.types import LOCAL, Identity

__all__ = ["LocalAuthenticator", "Options", "build"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Nothing to choose."""


def build(options: Options, *, local_key: Callable[[], str]) -> "LocalAuthenticator":
    """An authenticator for the key of this process; an empty key is nobody's."""
    del options
    return LocalAuthenticator(local_key)


class LocalAuthenticator:
    """Knows the key of the run file, which a fresh process makes anew."""

    def __init__(self, local_key: Callable[[], str]) -> None:
        self._local_key = local_key

    @property
    def issuers(self) -> tuple[str, ...]:
        """None."""
        return ()

    async def identify(self, credential: str) -> Identity | None:
        """The local user, for the key; a wrong one may be that of another process: not mine."""
        key = self._local_key()
        presented = credential.encode(errors="surrogatepass")
        return LOCAL if key and hmac.compare_digest(presented, key.encode()) else None

    async def aclose(self) -> None:
        """Nothing to close."""
