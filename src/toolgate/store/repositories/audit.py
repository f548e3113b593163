"""The stored audit log: records, their signed chain, and statistics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from toolgate.types import AuditRecord


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Criteria for audit records; None matches any."""

    project_id: str | None = None
    """The project."""

    action: str | None = None
    """Such as `call`."""

    server: str | None = None
    """Name of a server."""

    status: str | None = None
    """Such as `ok` or an error code."""

    failed: bool = False
    """Only failures, whatever their status."""

    since: str | None = None
    """UTC, ISO 8601, inclusive."""

    until: str | None = None
    """UTC, ISO 8601, exclusive."""

    caller_id: str | None = None
    """The caller."""

    target: str | None = None
    """Key of a tool or other target."""

    phase: str | None = None
    """`intent` or `outcome`."""

    conversation: str | None = None
    """The conversation."""

    text: str = ""
    """Words that all occur in a record: in target, query, caller, client, action, status or
    detail, ignoring case; empty: any."""

    oldest_first: bool = False
    """The order; the default is newest first."""

    after: tuple[str, str] | None = None
    """`at` and `record_id` of the last record of the previous page."""

    limit: int = 100
    """Largest number; 1 to 10,000."""


@dataclass(frozen=True, kw_only=True)
class AuditChainLink:
    """A record as part of the audit chain."""

    seq: int
    """Its position, from 1, without gaps."""

    chain: str
    """Its stored hash."""

    record_id: str
    """Its id."""

    at: str
    """UTC, ISO 8601."""

    content: bytes
    """The content that the hash covers, together with the previous hash."""


@dataclass(frozen=True, kw_only=True)
class AuditChainEnds:
    """Start and end of the audit chain."""

    removed_through: int
    """Position of the last record deleted for age or size; 0: none."""

    removed_chain: str
    """Its hash."""

    last: int
    """Position of the last record; 0: none was written yet."""

    last_chain: str
    """Its hash."""

    unchained: int
    """Number of records from before the chain existed."""

    added: tuple[tuple[str, str], ...] = ()
    """Ids and times of records that no gateway has written: they are younger than the chain, but
    not in it. At most 100."""


@dataclass(frozen=True, kw_only=True)
class AuditAnchor:
    """A position of the chain, signed with the installation key."""

    seq: int
    """The position."""

    kind: Literal["end", "cut", "restored"]
    """Whether it was the end of the chain, the last record that a clean-up was about to delete,
    or the end of the chain after a restore."""

    chain: str
    """The hash of that record, which covers all earlier ones."""

    at: str
    """Time of signing; UTC, ISO 8601."""

    key_id: str
    """Id of the key."""

    signature: str
    """HMAC-SHA256 in hex over the other fields except `key_id`."""

    detail: str = ""
    """For a restore: the backup file and the end of the restored chain, as JSON."""


@dataclass(frozen=True, kw_only=True)
class AuditWriterRow:
    """A process that writes the audit log."""

    writer_id: str
    """Opaque id, which its intents contain as `process`."""

    started_at: str
    """UTC, ISO 8601."""

    seen_at: str
    """Last renewal; UTC, ISO 8601."""


DURATION_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
"""Upper bounds in ms of the classes that durations are counted in; the last class has none.

Chosen: each is about twice the previous, which bounds the error of percentiles.
"""


@dataclass(frozen=True, kw_only=True)
class CallCount:
    """Calls and searches of a period whose durations fall into one class."""

    period: str
    """Start of the period, UTC, such as `2026-07-28T09:30`."""

    duration_class: int
    """Index of the first of `DURATION_BOUNDS_MS` that the calls do not exceed, or the number of
    bounds. Searches are in class 0."""

    calls: int
    """Number of completed calls."""

    errors: int
    """Number of failed calls."""

    searches: int
    """Number of searches and descriptions."""

    search_tokens: int
    """Estimated tokens of their answers."""

    call_bytes: int
    """Bytes of arguments and results of the calls."""


@dataclass(frozen=True, kw_only=True)
class ConversationCost:
    """Requests and responses of a conversation."""

    project_id: str
    """The project."""

    caller_id: str
    """The caller."""

    client: str
    """The client program."""

    conversation: str
    """The conversation."""

    calls: int
    """Completed tool calls."""

    failed: int
    """Failed tool calls."""

    repeats: int
    """Calls of a tool with the same arguments as an earlier call."""

    searches: int
    """Answered searches and descriptions."""

    search_tokens: int
    """Estimated tokens of these answers."""

    request_bytes: int
    """Bytes of the arguments of calls."""

    response_bytes: int
    """Bytes of the results of calls."""

    last_at: str
    """Last activity; UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class ToolUsage:
    """Usage of a tool."""

    project_id: str
    """The project."""

    tool: str
    """Its key."""

    calls: int
    """Number of calls."""

    failed: int
    """Number of failed calls."""

    mean_ms: float
    """Mean duration of a call in milliseconds."""

    last_at: str
    """Last use; UTC, ISO 8601."""

    total_bytes: int = 0
    """Bytes of all arguments and results."""


class AuditRepository(Protocol):
    """The audit log. Each method is one transaction."""

    async def append(self, records: Sequence[AuditRecord]) -> None:
        """Write records, all or none; existing records are skipped."""
        ...

    async def select(self, query: AuditFilter) -> list[AuditRecord]:
        """Records that match, in the order of the filter."""
        ...

    async def chain_ends(self) -> AuditChainEnds:
        """Start and end of the audit chain."""
        ...

    async def chain_links(self, after: int, *, limit: int) -> list[AuditChainLink]:
        """Records in the order of the chain, after a position."""
        ...

    async def anchors(self) -> list[AuditAnchor]:
        """The signed positions, in the order of the chain."""
        ...

    async def save_anchor(self, anchor: AuditAnchor) -> None:
        """Insert a signed position; existing ones are not changed."""
        ...

    async def writers(self) -> list[AuditWriterRow]:
        """The processes that write the audit log, including killed ones."""
        ...

    async def save_writer(self, row: AuditWriterRow) -> None:
        """Insert or replace a process."""
        ...

    async def remove_writer(self, writer_id: str) -> None:
        """Delete a process, if it exists."""
        ...

    async def open_intents(self, since: str) -> list[AuditRecord]:
        """Intents without an outcome since a time, at most 1,000."""
        ...

    async def call_counts(
        self, since: str, *, period_chars: int = 16, server: str | None = None
    ) -> list[CallCount]:
        """Calls and searches by period since a time, without empty periods.

        Args:
            since: UTC, ISO 8601, inclusive.
            period_chars: Characters of a time that name its period: 16 for minutes, 15 for ten
                minutes, 13 for hours, 10 for days.
            server: Only calls of this server; None: all.
        """
        ...

    async def related(self, record_id: str) -> list[AuditRecord]:
        """A record with its search, the calls after it, and their outcomes.

        Oldest first; empty if the record does not exist. Calls are searched within an hour.
        """
        ...

    async def count(self, since: str, *, limit: int) -> int:
        """Number of records since a time, counting up to `limit`, which is fast."""
        ...

    async def conversation_costs(
        self, since: str, *, project_id: str | None = None, limit: int = 200
    ) -> list[ConversationCost]:
        """Costs of conversations since a time, most recent first; None: of all projects.

        Without chats, whose model requests are recorded elsewhere.
        """
        ...

    async def tool_usage(
        self, since: str, *, project_id: str | None = None, tool: str | None = None
    ) -> list[ToolUsage]:
        """Usage of tools since a time, most used first; None: all projects or tools."""
        ...
