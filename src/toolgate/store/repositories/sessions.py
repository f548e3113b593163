"""Sessions of the console, as a store keeps them."""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["SessionRepository", "StoredSession"]


@dataclass(frozen=True, kw_only=True)
class StoredSession:
    """Somebody who has logged in to the console."""

    session_id: str
    """Hash of the cookie, which is kept nowhere."""

    caller_id: str
    """Who."""

    name: str
    """The same for people: the name of the token, or the user."""

    sealed: bytes
    """The credential that was shown, encrypted with a key that only the cookie has."""

    created_at: str
    """When it began; UTC, ISO 8601."""

    seen_at: str
    """Roughly when it was last used; UTC, ISO 8601."""

    expires_at: str
    """From when on it is worth nothing, unless it is used before; UTC, ISO 8601."""

    address: str = ""
    """Where from."""

    agent: str = ""
    """The browser as it says itself."""


class SessionRepository(Protocol):
    """Sessions of the console. Each method is one transaction."""

    async def list_all(self) -> list[StoredSession]:
        """All sessions, the last used first; those that have expired too, until a clean-up."""
        ...

    async def get(self, session_id: str) -> StoredSession | None:
        """A session by its id; None when there is none."""
        ...

    async def save(self, session: StoredSession) -> None:
        """Insert a session, or replace the one with this id."""
        ...

    async def touch(self, session_id: str, *, seen_at: str, expires_at: str) -> bool:
        """Note that a session was used; False: it is gone."""
        ...

    async def delete(self, session_id: str) -> bool:
        """Remove a session; False when there was none."""
        ...
