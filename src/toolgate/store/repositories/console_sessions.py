"""Stored sessions of the console."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class StoredSession:
    """A login to the console."""

    session_id: str
    """Hash of the cookie, which is not stored."""

    caller_id: str
    """The caller."""

    name: str
    """The caller for people: name of the token or user."""

    sealed: bytes
    """The token, encrypted with a key derived from the cookie."""

    created_at: str
    """Time of the login; UTC, ISO 8601."""

    seen_at: str
    """Approximate time of last use; UTC, ISO 8601."""

    expires_at: str
    """Expiry, postponed with each use; UTC, ISO 8601."""

    address: str = ""
    """IP address of the browser."""

    agent: str = ""
    """User agent of the browser."""


class SessionRepository(Protocol):
    """Sessions of the console. Each method is one transaction."""

    async def list_all(self) -> list[StoredSession]:
        """All sessions, most recently used first; expired ones until the next clean-up."""
        ...

    async def get(self, session_id: str) -> StoredSession | None:
        """A session; None if it does not exist."""
        ...

    async def save(self, session: StoredSession) -> None:
        """Insert or replace by id."""
        ...

    async def touch(self, session_id: str, *, seen_at: str, expires_at: str) -> bool:
        """Update time of last use and expiry. False if the session does not exist."""
        ...

    async def delete(self, session_id: str) -> bool:
        """Delete a session. False if it does not exist."""
        ...
