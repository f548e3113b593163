"""Encrypted server credentials and their wrapped keys. Contains no SQL."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class CredentialKey:
    """Identifies a credential: its owner and its server."""

    project_id: str
    """The project."""

    server: str
    """Name of the server."""

    subject: str
    """The owner: empty if shared, or `user:NAME`; for a client registration, its redirect URI."""

    kind: str
    """`login` for what is sent to the server, `client` for a registration at its authorization
    server, `pending` for a login in progress, `config` for a secret of its configuration."""


@dataclass(frozen=True, kw_only=True)
class StoredCredential:
    """A stored credential."""

    key: CredentialKey
    """Its owner and server."""

    key_id: str
    """Id of the encryption key."""

    sealed: bytes
    """The encrypted credential."""

    shown: str = "{}"
    """Public details as JSON: how it was obtained, expiry, scopes."""

    version: int = 1
    """Incremented with each change."""

    lease_by: str = ""
    """The process that is renewing it; empty: none."""

    lease_until: str = ""
    """End of that process's exclusive right; UTC, ISO 8601."""

    updated_at: str = ""
    """Time of the last change; UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class WrappedKey:
    """A key that encrypts credentials, itself encrypted with the installation key."""

    key_id: str
    """Opaque id, sortable by time: the greatest is the current key."""

    wrapped_by: str
    """Id of the installation key that decrypts it."""

    wrapped: bytes
    """The encrypted key."""

    created_at: str
    """Time of creation; UTC, ISO 8601."""


class CredentialRepository(Protocol):
    """Credentials and their encryption keys. Each method is one transaction."""

    async def select(
        self, server: str | None = None, *, kind: str | None = None
    ) -> list[StoredCredential]:
        """Credentials of a server or of all, by project, server, subject and kind."""
        ...

    async def get(self, key: CredentialKey) -> StoredCredential | None:
        """A credential; None if it does not exist."""
        ...

    async def save(
        self, credential: StoredCredential, *, over: int | None = None, quietly: bool = False
    ) -> bool:
        """Insert or replace a credential. False if the condition `over` was not met.

        Args:
            credential: The credential; its `version` is set here.
            over: Only if this is the stored version; 0: only if there is none.
            quietly: Whether not to count it as a change for other processes.
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
        """Delete credentials that match all arguments. Returns how many existed.

        Args:
            server: Of this server.
            subject: Of this owner.
            kind: Of this kind.
            project_id: Of this project.
            before: Last changed before this time; UTC, ISO 8601.
        """
        ...

    async def lease(self, key: CredentialKey, by: str, until: str, now: str) -> bool:
        """Take the exclusive right to renew a credential. False if another process has it."""
        ...

    async def keys(self) -> list[WrappedKey]:
        """All keys, oldest first."""
        ...

    async def save_keys(self, keys: tuple[WrappedKey, ...], *, only_first: bool = False) -> bool:
        """Insert or replace keys, all or none; with `only_first`, only if there are none yet."""
        ...

    async def delete_keys(self, key_ids: tuple[str, ...]) -> int:
        """Delete keys that no credential uses. Returns how many existed."""
        ...
