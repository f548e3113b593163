"""The interface of an authenticator."""

from typing import Protocol, runtime_checkable

from toolgate.types import Identity

__all__ = ["Authenticator"]


@runtime_checkable
class Authenticator(Protocol):
    """Tells who a credential belongs to. Three answers: not mine, valid, mine but bad.

    Duties, checked by `toolgate.testing.contracts.authn`:

    * What it does not recognise is None, quickly and without asking anybody.
    * What looks like one of its own and is worth nothing raises: another way must not accept it.
    * No error shows the credential, or more of it than its public part.
    * Comparing takes the same time, however much of a guess is right.
    """

    @property
    def issuers(self) -> tuple[str, ...]:
        """Addresses of servers at which clients get credentials for it (RFC 9728); may be empty."""
        ...

    async def identify(self, credential: str) -> Identity | None:
        """Who this is; None: the credential is none of its kind.

        Raises:
            CredentialError: It is of its kind, and unknown, expired, revoked, forged or for others.
        """
        ...

    async def aclose(self) -> None:
        """Close connections; may be called twice."""
        ...
