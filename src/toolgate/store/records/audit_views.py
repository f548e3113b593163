"""The audit as people look at it, as a store gives it."""

from dataclasses import dataclass
from typing import Protocol

from toolgate.types import AuditRecord

__all__ = ["AuditViews", "ConversationCost", "MinuteCount", "ToolUsage"]


@dataclass(frozen=True, kw_only=True)
class MinuteCount:
    """The calls of one minute."""

    minute: str
    """UTC, `2026-07-28T09:30`."""

    calls: int
    """How many ended."""

    errors: int
    """How many of them failed."""


@dataclass(frozen=True, kw_only=True)
class ConversationCost:
    """What one conversation asked for, and what came back."""

    project_id: str
    """The tenant."""

    caller_id: str
    """Who."""

    client: str
    """The client program."""

    conversation: str
    """Which."""

    calls: int
    """Calls of tools that ended."""

    failed: int
    """Of these, how many failed."""

    repeats: int
    """Calls of the same tool with the same arguments as one before."""

    searches: int
    """Answers of searches, and of descriptions."""

    search_tokens: int
    """Estimated tokens of these answers."""

    request_bytes: int
    """Of the arguments of calls."""

    response_bytes: int
    """Of the results of calls."""

    last_at: str
    """When it was last heard of; UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class ToolUsage:
    """How much a tool was used."""

    project_id: str
    """In which project."""

    tool: str
    """Its key."""

    calls: int
    """How often."""

    failed: int
    """Of these, how often it failed."""

    mean_ms: float
    """How long a call took, on average."""

    last_at: str
    """When last; UTC, ISO 8601."""


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

    async def audit_size(self, since: str, *, most: int) -> int:
        """How many records there are from a moment on; counted up to `most`, which is quick."""
        ...

    async def conversation_costs(
        self, since: str, *, project_id: str | None = None, limit: int = 200
    ) -> list[ConversationCost]:
        """What conversations cost from a moment on, the last heard of first; None: all projects.

        Without those of chats, of which it is known what their models were sent.
        """
        ...

    async def tool_uses(
        self, since: str, *, project_id: str | None = None, tool: str | None = None
    ) -> list[ToolUsage]:
        """How much tools were used from a moment on, the most used first; None: all of them."""
        ...
