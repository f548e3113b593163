"""The audit: its records, their signed chain and what people read in it, as a store keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from toolgate.types import AuditRecord

__all__ = [
    "DURATION_BOUNDS_MS",
    "AuditAnchor",
    "AuditChainEnds",
    "AuditChainLink",
    "AuditFilter",
    "AuditRepository",
    "AuditWriterRow",
    "CallCount",
    "ConversationCost",
    "ToolUsage",
]


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Which audit records are wanted; None means any."""

    project_id: str | None = None
    """The tenant."""

    action: str | None = None
    """Such as `call`."""

    server: str | None = None
    """Name of a server."""

    status: str | None = None
    """Such as `ok` or an error code."""

    failed: bool = False
    """Only what did not end well, whatever the status says."""

    since: str | None = None
    """UTC, ISO 8601, inclusive."""

    until: str | None = None
    """UTC, ISO 8601, exclusive."""

    caller_id: str | None = None
    """Who asked."""

    target: str | None = None
    """Key of a tool, and the like."""

    phase: str | None = None
    """`intent` or `outcome`."""

    conversation: str | None = None
    """What it belongs to."""

    text: str = ""
    """Words of which each stands somewhere in a record: its target, query, caller, client, action,
    status or detail, whatever the case; empty: any."""

    oldest_first: bool = False
    """The order; newest first by default."""

    after: tuple[str, str] | None = None
    """`at` and `record_id` of the last record of the page before, for the next one."""

    limit: int = 100
    """At most this many; 1 to 10,000."""


@dataclass(frozen=True, kw_only=True)
class AuditChainLink:
    """A record as the chain of the audit sees it."""

    seq: int
    """Its place, from 1, without gaps."""

    chain: str
    """Its hash, as it is kept."""

    record_id: str
    """Its id."""

    at: str
    """UTC, ISO 8601."""

    content: bytes
    """What the hash covers, beside the hash before it."""


@dataclass(frozen=True, kw_only=True)
class AuditChainEnds:
    """Where the chain of the audit begins and ends."""

    removed_through: int
    """Place of the last record that was removed for its age or the size of the audit; 0: none."""

    removed_chain: str
    """Its hash."""

    last: int
    """Place of the last record; 0: none was written yet."""

    last_chain: str
    """Its hash."""

    unchained: int
    """Records from before there was a chain."""


@dataclass(frozen=True, kw_only=True)
class AuditAnchor:
    """A place of the chain that somebody with the key of the installation has signed."""

    seq: int
    """The place."""

    kind: Literal["end", "cut", "restored"]
    """Whether it was the end of the chain, the last record that a cleanup was to remove, or the end
    of the chain after a restore."""

    chain: str
    """The hash of the record there, and so all before it."""

    at: str
    """When; UTC, ISO 8601."""

    key_id: str
    """Which key."""

    signature: str
    """HMAC-SHA256 in hex over the other fields but `key_id`."""

    detail: str = ""
    """Of a restore: from which file, and where the restored chain ended, as JSON."""


@dataclass(frozen=True, kw_only=True)
class AuditWriterRow:
    """A process that writes the audit."""

    writer_id: str
    """Opaque; its intents have it as `process` in their detail."""

    started_at: str
    """UTC, ISO 8601."""

    seen_at: str
    """When it was last known to run; UTC, ISO 8601."""


DURATION_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
"""Upper bounds of the classes in which durations of calls are counted; the last class has none.

Chosen: each is about twice the one before, so that a percentile is off by less than that.
"""


@dataclass(frozen=True, kw_only=True)
class CallCount:
    """The calls and searches of one period whose durations are of one class."""

    period: str
    """UTC, the beginning of its times, such as `2026-07-28T09:30`."""

    duration_class: int
    """Number of the first of `DURATION_BOUNDS_MS` that the calls do not exceed; as many as there
    are bounds where they exceed all. Searches are in class 0."""

    calls: int
    """Calls that ended."""

    errors: int
    """How many of them failed."""

    searches: int
    """Searches and descriptions."""

    search_tokens: int
    """Estimated tokens of their answers."""

    call_bytes: int
    """Of arguments and results of the calls."""


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

    total_bytes: int = 0
    """Of all arguments and results."""


class AuditRepository(Protocol):
    """The audit. Each method is one transaction."""

    async def append(self, records: Sequence[AuditRecord]) -> None:
        """Write records; all or none of them. A record that is there already is left alone."""
        ...

    async def select(self, query: AuditFilter) -> list[AuditRecord]:
        """Records that match, in the order of the filter."""
        ...

    async def chain_ends(self) -> AuditChainEnds:
        """Where the chain of the audit begins and ends."""
        ...

    async def chain_links(self, after: int, *, limit: int) -> list[AuditChainLink]:
        """Records in the order of the chain, from the one after a position."""
        ...

    async def anchors(self) -> list[AuditAnchor]:
        """The signed positions of the chain, in its order."""
        ...

    async def save_anchor(self, anchor: AuditAnchor) -> None:
        """Insert a signed position; an existing one is left as it is."""
        ...

    async def writers(self) -> list[AuditWriterRow]:
        """The processes that write the audit, or did when they were killed."""
        ...

    async def save_writer(self, row: AuditWriterRow) -> None:
        """Insert or replace a process."""
        ...

    async def remove_writer(self, writer_id: str) -> None:
        """Delete a process; one that does not exist is no error."""
        ...

    async def open_intents(self, since: str) -> list[AuditRecord]:
        """Intents since a time that no outcome follows, at most 1,000."""
        ...

    async def call_counts(
        self, since: str, *, period_chars: int = 16, server: str | None = None
    ) -> list[CallCount]:
        """Calls and searches of each period since a time, without periods that had none.

        Args:
            since: UTC, ISO 8601, inclusive.
            period_chars: How many characters of a time name its period: 16 are minutes, 15 ten
                minutes, 13 hours, 10 days.
            server: Only calls of this server; None: all.
        """
        ...

    async def related(self, record_id: str) -> list[AuditRecord]:
        """A record with all that it belongs to: its search, the calls after it, how they ended.

        Oldest first; empty where there is no such record. Calls are looked for within an hour.
        """
        ...

    async def count(self, since: str, *, limit: int) -> int:
        """How many records there are since a time; counting stops at `limit`, which is quick."""
        ...

    async def conversation_costs(
        self, since: str, *, project_id: str | None = None, limit: int = 200
    ) -> list[ConversationCost]:
        """What conversations cost since a time, the most recent first; None: of all projects.

        Without chats: what their models were sent is recorded exactly elsewhere.
        """
        ...

    async def tool_usage(
        self, since: str, *, project_id: str | None = None, tool: str | None = None
    ) -> list[ToolUsage]:
        """How much tools were used since a time, the most used first; None: all of them."""
        ...
