"""Sessions of the console, as a store keeps them."""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["SessionRows", "StoredSession"]


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


class SessionRows(Protocol):
    """The part of a store that keeps sessions. Each method is one transaction."""

    async def sessions(self) -> list[StoredSession]:
        """All sessions, the last used first; those that have expired too, until a clean-up."""
        ...

    async def session(self, session_id: str) -> StoredSession | None:
        """One of them; None when there is none."""
        ...

    async def save_session(self, session: StoredSession) -> None:
        """Insert one, or replace the one with this id."""
        ...

    async def touch_session(self, session_id: str, *, seen_at: str, expires_at: str) -> bool:
        """Note that one was used; False: it is gone."""
        ...

    async def delete_session(self, session_id: str) -> bool:
        """Remove one; False when there was none."""
        ...
