"""Encrypted server credentials and their wrapped keys. Knows no SQL."""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["CredentialKey", "CredentialRepository", "StoredCredential", "WrappedKey"]


@dataclass(frozen=True, kw_only=True)
class CredentialKey:
    """Which credential: of whom, towards what."""

    project_id: str
    """The tenant."""

    server: str
    """Name of the server."""

    subject: str
    """Whose: empty for that of everybody, `user:NAME`; of a registration the address that answers
    come back to."""

    kind: str
    """`login` for what is shown to the server, `client` for a registration at its authorization
    server, `pending` for a login that has begun, `config` for what stands in its configuration."""


@dataclass(frozen=True, kw_only=True)
class StoredCredential:
    """A credential as it is kept."""

    key: CredentialKey
    """Which."""

    key_id: str
    """The key that it is encrypted with."""

    sealed: bytes
    """The credential, encrypted."""

    shown: str = "{}"
    """What may be shown of it, JSON: how it was got, when it ends, scopes."""

    version: int = 1
    """Counts up with each change."""

    lease_by: str = ""
    """Who renews it; empty: nobody."""

    lease_until: str = ""
    """Until when others leave that to them; UTC, ISO 8601."""

    updated_at: str = ""
    """When it was written last; UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class WrappedKey:
    """A key that credentials are encrypted with, encrypted with the key of the installation."""

    key_id: str
    """Opaque, time-sortable: the greatest is the present one."""

    wrapped_by: str
    """Names the key of the installation that opens it."""

    wrapped: bytes
    """The key, encrypted."""

    created_at: str
    """When it was made; UTC, ISO 8601."""


class CredentialRepository(Protocol):
    """Credentials, and the keys that they are encrypted with. Each method is one transaction."""

    async def select(
        self, server: str | None = None, *, kind: str | None = None
    ) -> list[StoredCredential]:
        """Credentials, of a server or of all, by project, server, subject and kind."""
        ...

    async def get(self, key: CredentialKey) -> StoredCredential | None:
        """A credential by its key; None when there is none."""
        ...

    async def save(
        self, credential: StoredCredential, *, over: int | None = None, quietly: bool = False
    ) -> bool:
        """Insert or replace a credential; False when that was not done.

        Args:
            credential: Its `version` is set here.
            over: Only if the stored version is this one; 0: only if there is none.
            quietly: Do not count it as a change that other processes look for.
        """
        ...

    async def delete(
        self,
        server: str | None = None,
        *,
        subject: str | None = None,
        kind: str | None = None,
        project_id: str | None = None,
        before: str | None = None,
    ) -> int:
        """Remove those that match all arguments; gives how many there were.

        Args:
            server: Of this server.
            subject: Of this subject.
            kind: Of this kind.
            project_id: Of this tenant.
            before: Written last before then; UTC, ISO 8601.
        """
        ...

    async def lease(self, key: CredentialKey, by: str, until: str, now: str) -> bool:
        """Take the right to renew one, unless somebody else has it; whether it was taken."""
        ...

    async def keys(self) -> list[WrappedKey]:
        """All keys, oldest first."""
        ...

    async def save_keys(self, keys: tuple[WrappedKey, ...], *, only_first: bool = False) -> bool:
        """Insert or replace keys, all or none; with `only_first`, only where there is none yet."""
        ...

    async def delete_keys(self, key_ids: tuple[str, ...]) -> int:
        """Remove keys that no credential is encrypted with; gives how many there were."""
        ...
