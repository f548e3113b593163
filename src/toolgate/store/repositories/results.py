"""Large results, stored until clients have read them."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """A result that is too large for one answer."""

    handle: str
    """Opaque id."""

    project_id: str
    """The project."""

    caller_id: str
    """The only caller who may read it."""

    body: bytes
    """The complete text, UTF-8."""

    expires_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class ResultSummary:
    """A stored result without its text."""

    handle: str
    """Opaque id."""

    project_id: str
    """The project."""

    caller_id: str
    """The only caller who may read it."""

    size_bytes: int
    """Bytes of its text."""

    expires_at: str
    """UTC, ISO 8601."""


class ResultRepository(Protocol):
    """Large results. Each method is one transaction."""

    async def save(self, result: StoredResult) -> None:
        """Insert or replace by handle."""
        ...

    async def get(self, handle: str) -> StoredResult | None:
        """A stored result; None if it does not exist. The caller checks owner and expiry."""
        ...

    async def select(
        self, *, prefix: str, caller_id: str | None, now: str, limit: int
    ) -> list[ResultSummary]:
        """Results whose handle begins so and that have not expired, the last to expire first.

        Args:
            prefix: Beginning of the handles.
            caller_id: Only those of this caller; None: of all.
            now: UTC, ISO 8601.
            limit: Largest number.
        """
        ...

    async def remove(self, handle: str) -> None:
        """Delete a result, if it exists."""
        ...
