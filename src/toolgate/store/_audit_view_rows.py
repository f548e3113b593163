"""The audit as people look at it, as a store gives it."""

from dataclasses import dataclass
from typing import Protocol

from toolgate.types import AuditRecord

__all__ = ["AuditViews", "MinuteCount"]


@dataclass(frozen=True, kw_only=True)
class MinuteCount:
    """The calls of one minute."""

    minute: str
    """UTC, `2026-07-28T09:30`."""

    calls: int
    """How many ended."""

    errors: int
    """How many of them failed."""


class AuditViews(Protocol):
    """The part of a store that shows the audit to people."""

    async def audit_minutes(self, since: str) -> list[MinuteCount]:
        """Calls of each minute from a moment on, without those that had none."""
        ...

    async def audit_chain(self, record_id: str) -> list[AuditRecord]:
        """A record with all that it belongs to: its search, the calls after it, how they ended.

        Oldest first; empty where there is no such record. Calls are looked for within an hour.
        """
        ...
