"""The interface of an authenticator."""

from typing import Protocol, runtime_checkable

from toolgate.types import Identity


@runtime_checkable
class Authenticator(Protocol):
    """Identifies the owner of a credential: not mine, valid, or mine but invalid.

    Requirements, checked by `toolgate.testing.contracts.authn`:

    * Returns None for credentials that it does not recognize, quickly and without any request.
    * Raises for an invalid credential of its own kind: no other authenticator may accept it.
    * No error shows the credential, or more than its public part.
    * Comparisons take the same time, however much of a guess is correct.
    """

    @property
    def issuers(self) -> tuple[str, ...]:
        """Addresses of servers that issue its credentials (RFC 9728); may be empty."""
        ...

    async def identify(self, credential: str) -> Identity | None:
        """Return the identity of a credential; None if it is of another kind.

        Raises:
            CredentialError: It is of this kind, but unknown, expired, revoked, forged or for
                others.
        """
        ...

    async def aclose(self) -> None:
        """Close connections; may be called twice."""
        ...
