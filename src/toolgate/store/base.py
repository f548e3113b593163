"""What a database must be able to keep for Toolgate. Knows no SQL."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from toolgate.store.records.approvals import ApprovalStore
from toolgate.store.records.audit_views import AuditViews
from toolgate.store.records.credentials import CredentialRows
from toolgate.store.records.sessions import SessionRows
from toolgate.store.records.statements import StatementRows
from toolgate.store.records.threads import PromptRows, ThreadRows
from toolgate.types import AuditRecord, Json

__all__ = [
    "AuditAnchor",
    "AuditChainEnds",
    "AuditChainLink",
    "AuditFilter",
    "DetectionCount",
    "DetectionFilter",
    "DetectionOutcome",
    "IntegrityReport",
    "PrunedCounts",
    "Retention",
    "SchemaUpgrade",
    "SqlAccess",
    "Store",
    "StoreMaintenance",
    "StoredDetection",
    "StoredGuard",
    "StoredPermission",
    "StoredProject",
    "StoredResult",
    "StoredSchema",
    "StoredSearch",
    "StoredServer",
    "StoredSnapshot",
    "StoredToken",
    "StoredUse",
    "UsageEntry",
    "UsageFilter",
    "UseOutcome",
]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class StoredServer:
    """A server that was added by command, API or console."""

    server_id: str
    """Opaque, time-sortable; survives a rename."""

    project_id: str
    """The tenant it belongs to."""

    name: str
    """Unique within the project."""

    config: Json
    """The same keys as a `[server.NAME]` table; `${env:NAME}` is kept as written."""

    enabled: bool = True
    """Whether it is connected."""

    alias: str | None = None
    """The name before the last rename; still understood in tool keys."""


@dataclass(frozen=True, kw_only=True)
class StoredSnapshot:
    """The last listing of one server, so that a restart shows its tools at once."""

    project_id: str
    """The tenant."""

    server: str
    """Name of the server."""

    listing: bytes
    """JSON: tools, resources, templates, prompts, capabilities, era. Compressed by the store."""

    digest: str
    """SHA-256 of the listing; an unchanged one is not written again."""

    listed_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """A result that was too large for one answer."""

    handle: str
    """Opaque id."""

    project_id: str
    """The tenant."""

    caller_id: str
    """The only caller who may read it."""

    body: bytes
    """The whole text, UTF-8."""

    expires_at: str
    """UTC, ISO 8601."""


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

    oldest_first: bool = False
    """The order; newest first by default."""

    after: tuple[str, str] | None = None
    """`at` and `record_id` of the last record of the page before, for the next one."""

    limit: int = 100
    """At most this many; 1 to 10,000."""


UseOutcome: TypeAlias = Literal["ok", "error", "right", "wrong"]
"""What became of a tool that a search showed: executed with or without success, or marked by a
person."""


@dataclass(frozen=True, kw_only=True)
class StoredSearch:
    """A request for tools in the usage log, one query of it. No arguments, no results."""

    search_id: str
    """Opaque, time-sortable."""

    at: str
    """UTC, ISO 8601."""

    project_id: str
    """The tenant; nothing is learned across projects."""

    caller_id: str
    """Who asked."""

    conversation: str = ""
    """In which conversation."""

    model: str = ""
    """Identity of the embedder that made `vector`; empty when there is none."""

    vector: bytes = b""
    """The query's vector, float16, little-endian; empty when it had none."""

    shown: tuple[tuple[str, float], ...] = ()
    """Keys of the tools that the answer showed, with their relevance."""

    margin: float | None = None
    """How far the best of them was above the line of "nothing fits", as a cosine."""

    weak: bool = False
    """Whether the answer said that nothing fits."""

    query: str | None = None
    """Its text, where `audit.keep_queries` allows it."""


@dataclass(frozen=True, kw_only=True)
class StoredUse:
    """What became of one tool that a search showed."""

    use_id: str
    """Opaque, time-sortable."""

    search_id: str
    """The search that showed it."""

    at: str
    """UTC, ISO 8601."""

    project_id: str
    """The tenant."""

    tool: str
    """Its key."""

    outcome: UseOutcome
    """How it ended."""


@dataclass(frozen=True, kw_only=True)
class UsageFilter:
    """Which searches of the usage log are wanted."""

    project_id: str
    """The tenant; there is no way to ask for all."""

    caller_id: str | None = None
    """Only of this caller; None: of all."""

    with_uses: bool = False
    """Only those of which a tool was executed or marked."""

    since: str = ""
    """UTC, ISO 8601, inclusive: of the search, or of its last use where uses are wanted."""

    limit: int = 1000
    """At most this many, the newest; 1 to 100,000."""


@dataclass(frozen=True, kw_only=True)
class UsageEntry:
    """A search of the usage log and what became of it."""

    search: StoredSearch
    """What was asked and shown."""

    uses: tuple[StoredUse, ...] = ()
    """Oldest first."""


@dataclass(frozen=True, kw_only=True)
class StoredProject:
    """A tenant."""

    project_id: str
    """Its name, which is its identity."""

    settings: Json = field(default_factory=dict[str, Any])
    """What it sets for itself; empty: nothing."""

    created_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredToken:
    """An opaque token. The token itself is nowhere."""

    token_id: str
    """Opaque; stays when the token is rotated."""

    name: str
    """Unique; what rules and people call it by."""

    prefix: str
    """Its first characters, by which a person recognises it."""

    digest: str
    """SHA-256 of it, hex."""

    user: str = ""
    """Who uses it; empty: nobody in particular."""

    projects: tuple[str, ...] = ()
    """Projects it may act in, its own first; `*` is any."""

    roles: tuple[str, ...] = ()
    """Its roles."""

    groups: tuple[str, ...] = ()
    """Its groups."""

    read_only: bool = False
    """Whether it runs only tools that are marked read-only."""

    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Limits of its own, by name; the others are those of the settings."""

    created_at: str = ""
    """UTC, ISO 8601."""

    expires_at: str | None = None
    """From when on it is refused; None: never."""

    rotated_at: str | None = None
    """When it was last replaced by another secret."""

    old_digest: str | None = None
    """SHA-256 of the secret before that, which is accepted until `old_until`."""

    old_until: str | None = None
    """UTC, ISO 8601."""

    revoked_at: str | None = None
    """When it was revoked; None: it is not."""

    last_used_at: str | None = None
    """Roughly when it was last accepted."""


@dataclass(frozen=True, kw_only=True)
class StoredPermission:
    """A permission rule that was made by command or API."""

    permission_id: str
    """Opaque, time-sortable."""

    effect: Literal["allow", "deny"]
    """What it says."""

    who: str
    """`everyone`, or `token:NAME`, `role:NAME`, `user:NAME`, `group:NAME`, `project:NAME`."""

    kind: str
    """`any`, `server`, `tool`, `resource`, `prompt` or `right`."""

    pattern: str
    """Of the things that it is about; `*` and `?` stand for any text and any character."""

    hint: str = ""
    """`read_only` or `destructive`: only tools that are so; empty: all."""

    created_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredGuard:
    """A guard around calls that was made by command or API."""

    guard_id: str
    """Opaque, time-sortable."""

    settings: Json
    """The keys of a table `[[guard]]`."""

    created_at: str = ""
    """UTC, ISO 8601."""


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

    kind: Literal["end", "cut"]
    """Whether it was the end of the chain, or the last record that a clean-up was to remove."""

    chain: str
    """The hash of the record there, and so all before it."""

    at: str
    """When; UTC, ISO 8601."""

    key_id: str
    """Which key."""

    signature: str
    """HMAC-SHA256 in hex over the fields before."""


@dataclass(frozen=True, kw_only=True)
class ToolFingerprint:
    """A tool of a server as it was seen last, beside what was accepted of it."""

    project_id: str
    """The tenant."""

    server: str
    """Name of its server."""

    tool: str
    """Its name on that server."""

    digest: str
    """Of the definition that was seen last."""

    definition: bytes
    """As the server sent it last, JSON. Compressed by the store."""

    accepted_digest: str = ""
    """Of the definition that callers may see and use; empty: none yet."""

    accepted: bytes = b""
    """That definition, JSON. Compressed by the store."""

    state: Literal["accepted", "held", "rejected"] = "accepted"
    """What holds for the definition that was seen last; `held`: nobody has decided yet."""

    findings: str = "[]"
    """What is suspicious about it, JSON."""

    seen_at: str = ""
    """When this definition was seen first; UTC, ISO 8601."""

    decided_at: str = ""
    """When somebody decided; UTC, ISO 8601; empty: nobody did."""

    decided_by: str = ""
    """Who decided."""


@dataclass(frozen=True, kw_only=True)
class ToolVersion:
    """A definition of a tool that its server has replaced by another."""

    definition: bytes
    """As the server sent it, JSON. Compressed by the store."""

    state: Literal["accepted", "held", "rejected"]
    """What held for it last."""

    seen_at: str
    """When it was seen first; UTC, ISO 8601."""

    replaced_at: str
    """When another one came in its place; UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredSchema:
    """A version of the schema of a connected database."""

    project_id: str
    """The tenant."""

    connection: str
    """Name of the connection."""

    number: int
    """Counts the versions of the connection, from 1."""

    digest: str
    """Hash of the schema; equal schemas have equal ones."""

    at: str
    """When it was seen first; UTC, ISO 8601."""

    seen_at: str
    """When it was seen last; UTC, ISO 8601."""

    content: bytes = b""
    """The schema, JSON. Compressed by the store; empty in lists."""

    changes: bytes = b""
    """What it changed in the version before, JSON. Compressed by the store."""


DetectionOutcome: TypeAlias = Literal["found", "unsure", "none", "outside", "arguments"]
"""What became of a message: an intent was found; one was found, and asked back for; none was. Or an
intent turned out to be wrong afterwards: the model called a tool that is none of its (`outside`),
or gave arguments that did not fit (`arguments`)."""


@dataclass(frozen=True, kw_only=True)
class StoredDetection:
    """What a message was taken for. No arguments, no results."""

    detection_id: str
    """Opaque, time-sortable."""

    at: str
    """UTC, ISO 8601."""

    project_id: str
    """The tenant."""

    caller_id: str
    """Whose message it was."""

    conversation: str = ""
    """In which conversation."""

    door: str = ""
    """What asked: `detect`, `enrich`, `knowledge`; for what turned out wrong `recovery`."""

    outcome: DetectionOutcome
    """What became of it."""

    stage: str = ""
    """What decided: `keyword` or `semantic`."""

    intent: str = ""
    """What it was taken for; empty: nothing."""

    confidence: float = 0.0
    """How sure that was, in [0, 1]."""

    rival: str = ""
    """The next best intent; where none was found, the nearest one. Empty: there is none."""

    rival_confidence: float = 0.0
    """How sure that would have been."""

    called: str = ""
    """Key of the tool that was called instead, where it turned out wrong."""

    remembered: bool = False
    """Whether the answer was known from an equal message before."""

    message: str | None = None
    """Its text, where `audit.keep_queries` allows it."""


@dataclass(frozen=True, kw_only=True)
class DetectionFilter:
    """Which detections are wanted."""

    project_id: str | None = None
    """The tenant; None: all."""

    outcomes: tuple[DetectionOutcome, ...] = ()
    """What became of them; empty: anything."""

    since: str = ""
    """UTC, ISO 8601, inclusive."""

    below: float | None = None
    """Only those less sure than this."""

    limit: int = 100
    """At most this many, the newest; 1 to 10,000. Counts have no limit."""


@dataclass(frozen=True, kw_only=True)
class DetectionCount:
    """How often something was detected."""

    project_id: str
    """The tenant."""

    outcome: DetectionOutcome
    """What became of the messages."""

    stage: str
    """What decided."""

    intent: str
    """What they were taken for; empty: nothing."""

    count: int
    """How many."""

    remembered: int
    """How many of these were known from equal messages before."""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long and how much is kept on disk."""

    audit_days: float = 90.0
    """Days of audit records."""

    audit_max_bytes: int = 512 * 2**20
    """Estimated bytes of audit records; the oldest go first."""

    results_max_bytes: int = 256 * 2**20
    """Bytes of stored results; the oldest go first. Expired ones always go."""

    snapshot_days: float = 30.0
    """Days that the last listing of a removed server is kept."""

    usage_days: float = 180.0
    """Days of the usage log."""

    usage_max_bytes: int = 64 * 2**20
    """Estimated bytes of the usage log; the oldest go first."""

    detection_days: float = 180.0
    """Days that it is kept what messages were taken for."""

    detection_max_bytes: int = 64 * 2**20
    """Estimated bytes of that; the oldest go first."""

    schema_days: float = 730.0
    """Days of versions of schemas; the last one of each connection stays."""

    schema_max_bytes: int = 256 * 2**20
    """Bytes of versions of schemas; the oldest go first, the last one of each connection stays."""

    tool_version_days: float = 365.0
    """Days that definitions of tools are kept after others came in their place."""

    tool_version_max_bytes: int = 64 * 2**20
    """Bytes of such definitions; the oldest go first."""

    approval_days: float = 30.0
    """Days that approvals are kept after they have expired."""

    thread_days: float = 365.0
    """Days that threads are kept after their last turn."""

    thread_max_bytes: int = 1024 * 2**20
    """Estimated bytes of threads; those that were not used for longest go first."""

    statement_days: float = 90.0
    """Days that it is kept what was asked of connected databases."""

    statement_max_bytes: int = 64 * 2**20
    """Estimated bytes of that; the oldest go first."""


@dataclass(frozen=True, kw_only=True)
class PrunedCounts:
    """What a clean-up removed."""

    audit_records: int = 0
    """Audit records."""

    results: int = 0
    """Stored results."""

    snapshots: int = 0
    """Listings of servers that are gone."""

    usage: int = 0
    """Searches of the usage log, and uses whose search is gone."""

    schemas: int = 0
    """Versions of schemas."""

    tool_versions: int = 0
    """Definitions of tools that were replaced."""

    detections: int = 0
    """Notes of what messages were taken for."""

    approvals: int = 0
    """Approvals that expired long ago."""

    threads: int = 0
    """Threads that were not used for long."""

    statements: int = 0
    """Notes of what was asked of databases."""


@dataclass(frozen=True, kw_only=True)
class IntegrityReport:
    """What an examination of the database showed."""

    schema: str | None
    """Revision of its schema; None when it has none of our tables."""

    problems: tuple[str, ...]
    """One sentence each; empty when all is well."""


@dataclass(frozen=True, kw_only=True)
class SchemaUpgrade:
    """What bringing the schema up to date did."""

    before: str | None
    """Revision before; None when the database was new."""

    after: str
    """Revision now."""

    copy: Path | None = None
    """Where the database was copied to before it was changed."""


@runtime_checkable
class Store(
    ApprovalStore,
    AuditViews,
    CredentialRows,
    SessionRows,
    StatementRows,
    ThreadRows,
    PromptRows,
    Protocol,
):
    """Everything relational that Toolgate keeps.

    Duties, all checked by `toolgate.testing.contracts.store` on SQLite and PostgreSQL:

    * Methods never block the event loop.
    * Each is one transaction: all or nothing, also after a kill; `prune` is several.
    * A failure of the database raises `StoreError` with its reason and leaves the store usable.
    * Two processes may use one store at the same time.
    * Within `patience` nobody waits longer than that says; what they were told is not saved is
      never saved afterwards.
    """

    @property
    def url(self) -> str:
        """Where it is, without password."""
        ...

    async def open(self) -> None:
        """Connect, and bring the schema up to date where that is allowed.

        SQLite: the file is copied beside itself, then migrated. PostgreSQL: a new, empty database
        is migrated; an old one is refused until `toolgate db upgrade` ran.

        Raises:
            StoreVersionError: The schema is newer than this program, or old and not upgraded.
            StoreError: The database cannot be reached or written.
        """
        ...

    async def close(self) -> None:
        """Close connections; may be called twice."""
        ...

    async def add_project(self, project_id: str) -> None:
        """Make a project; nothing happens when it exists. The default one always does."""
        ...

    async def projects(self) -> list[StoredProject]:
        """All projects by name, the default one too."""
        ...

    async def save_project(self, project: StoredProject) -> None:
        """Insert, or replace the settings of the one of this name."""
        ...

    async def delete_project(self, project_id: str) -> bool:
        """Remove a project with all that belongs to it; False when there was none."""
        ...

    async def tokens(self) -> list[StoredToken]:
        """All tokens by name, revoked and expired ones too."""
        ...

    async def save_token(self, token: StoredToken) -> None:
        """Insert, or replace the one with this `token_id`.

        Raises:
            StoreError: Another token has this name.
        """
        ...

    async def delete_token(self, token_id: str) -> bool:
        """Remove a token; False when there was none."""
        ...

    async def touch_tokens(self, used: Mapping[str, str]) -> None:
        """Note when tokens were last used, by `token_id`; does not count as a change."""
        ...

    async def permissions(self) -> list[StoredPermission]:
        """All permission rules, oldest first."""
        ...

    async def save_permissions(self, rules: Sequence[StoredPermission]) -> None:
        """Add rules; all or none."""
        ...

    async def delete_permissions(self, permission_ids: Collection[str]) -> int:
        """Remove rules; gives how many there were."""
        ...

    async def guards(self) -> list[StoredGuard]:
        """All guards, oldest first."""
        ...

    async def save_guard(self, guard: StoredGuard) -> None:
        """Add one."""
        ...

    async def delete_guards(self, guard_ids: Collection[str]) -> int:
        """Remove guards; gives how many there were."""
        ...

    async def access_version(self) -> int:
        """A number that grows with each change of projects, servers, tokens, rules and guards."""
        ...

    async def servers(self, project_id: str | None) -> list[StoredServer]:
        """Servers of a project by name; None: of all projects, by project and name."""
        ...

    async def save_server(self, server: StoredServer) -> None:
        """Insert, or replace the one with this `server_id`."""
        ...

    async def delete_server(self, server_id: str) -> bool:
        """Remove a server; False when there was none."""
        ...

    async def snapshots(self, project_id: str) -> list[StoredSnapshot]:
        """The last listing of every server of a project."""
        ...

    async def save_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Insert or replace by project and server; skipped when the digest is the stored one."""
        ...

    async def delete_snapshot(self, project_id: str, server: str) -> None:
        """Remove the listing of a server."""
        ...

    async def append_audit(self, records: Sequence[AuditRecord]) -> None:
        """Write records; all or none of them. A record that is there already is left alone."""
        ...

    async def audit(self, wanted: AuditFilter) -> list[AuditRecord]:
        """Records that fit, in the order asked for."""
        ...

    async def audit_ends(self) -> AuditChainEnds:
        """Where the chain of the audit begins and ends."""
        ...

    async def audit_links(self, after: int, *, limit: int) -> list[AuditChainLink]:
        """Records in the order of the chain, those after a place."""
        ...

    async def audit_anchors(self) -> list[AuditAnchor]:
        """The signed places of the chain, in its order."""
        ...

    async def save_audit_anchor(self, anchor: AuditAnchor) -> None:
        """Keep a signed place; one that is there stays."""
        ...

    async def append_usage(
        self, searches: Sequence[StoredSearch], uses: Sequence[StoredUse]
    ) -> None:
        """Write to the usage log; all or nothing. What is there already is left alone.

        A use may come before its search, or when that is gone: it is kept and found with it only.
        """
        ...

    async def usage(self, wanted: UsageFilter) -> list[UsageEntry]:
        """Searches that fit, newest first, each with all that became of it."""
        ...

    async def clear_usage(self, project_id: str) -> int:
        """Forget what a project searched and used; gives the number of searches."""
        ...

    async def append_detections(self, detections: Sequence[StoredDetection]) -> None:
        """Note what messages were taken for; all or nothing. What is there is left alone."""
        ...

    async def detections(self, wanted: DetectionFilter) -> list[StoredDetection]:
        """Detections that fit, newest first."""
        ...

    async def detection_counts(self, wanted: DetectionFilter) -> list[DetectionCount]:
        """How many fit, of each project, outcome, stage and intent, in this order."""
        ...

    async def clear_detections(self, project_id: str) -> int:
        """Forget what messages of a project were taken for; gives their number."""
        ...

    async def schema(self, project_id: str, connection: str) -> StoredSchema | None:
        """The last version of the schema of a connection, with its content."""
        ...

    async def schema_versions(
        self, project_id: str, connection: str, *, limit: int
    ) -> list[StoredSchema]:
        """Versions of the schema of a connection without their content, newest first."""
        ...

    async def save_schema(self, schema: StoredSchema) -> bool:
        """Add a version; False when there is one of this number: another process was faster."""
        ...

    async def see_schema(self, project_id: str, connection: str, number: int, at: str) -> None:
        """Note that a version was seen again; an earlier moment changes nothing."""
        ...

    async def seen_tools(self, project_id: str, server: str | None = None) -> list[ToolFingerprint]:
        """Tools as they were seen, of a server or of all, by server and name."""
        ...

    async def save_seen_tools(
        self, tools: Sequence[ToolFingerprint], *, changed: Collection[str] = ()
    ) -> None:
        """Write tools as they were seen, over what is there; all or nothing.

        Args:
            tools: The tools.
            changed: Names of those of one server that may have had another definition: it is kept
                as a version, the newest 20 of each tool.
        """
        ...

    async def tool_versions(self, project_id: str, server: str, tool: str) -> list[ToolVersion]:
        """Definitions of a tool that were replaced, the last replaced first."""
        ...

    async def forget_seen_tools(self, project_id: str, server: str) -> None:
        """Forget the tools of a server."""
        ...

    async def save_result(self, result: StoredResult) -> None:
        """Keep a large result."""
        ...

    async def result(self, handle: str) -> StoredResult | None:
        """A stored result; None when there is none. The caller checks owner and expiry."""
        ...

    async def secret(self, name: str) -> bytes:
        """32 random bytes by name, made on first use; the same for every process of this store."""
        ...

    async def prune(
        self,
        retention: Retention,
        *,
        now: str,
        configured: Collection[tuple[str, str]] = (),
        sign: Callable[[int, str], AuditAnchor] | None = None,
    ) -> PrunedCounts:
        """Remove what is older or larger than allowed, in small transactions one after another.

        Args:
            retention: The limits.
            now: UTC, ISO 8601.
            configured: Project and name of servers that exist although the store has no row of
                them, such as those from files; their listings stay.
            sign: Signs the place and hash of the last record of the audit that is to be removed,
                before any is; without it nobody can tell a clean-up from a theft.
        """
        ...

    def waiting(self) -> Mapping[str, int]:
        """How many wait for their turn to `read` and to `write`."""
        ...

    async def sizes(self) -> dict[str, int]:
        """Bytes in all (`total`) and rows by table, for `doctor`."""
        ...


@runtime_checkable
class StoreMaintenance(Protocol):
    """What the commands `toolgate db` need of a store; all of it works while others use it.

    A backup is a SQLite file, whatever the database, so that one kind of store can become another.
    """

    async def exists(self) -> bool:
        """Whether there is anything to look after; makes nothing.

        Raises:
            StoreError: The database cannot be reached.
        """
        ...

    async def upgrade(self) -> SchemaUpgrade:
        """Bring the schema up to date; processes that try it together do it once.

        Raises:
            StoreVersionError: The schema is newer than this program.
            StoreError: The database cannot be reached or written.
        """
        ...

    async def check(self) -> IntegrityReport:
        """Examine the database; changes nothing.

        Raises:
            StoreError: It does not exist or cannot be read.
        """
        ...

    async def backup(self, target: Path) -> None:
        """Write everything to a file as it is at one moment; the file is whole or not there.

        Raises:
            StoreError: The database or the file cannot be used.
            StoreVersionError: The schema is newer than this program.
        """
        ...

    async def restore(self, source: Path) -> dict[str, int]:
        """Replace everything by what a backup holds, all or nothing; gives rows by table.

        Raises:
            StoreError: The file is no backup, or the database cannot be used.
            StoreVersionError: The backup is newer than this program.
        """
        ...


@runtime_checkable
class SqlAccess(Protocol):
    """The way into the database for seams that keep much in it, such as vectors.

    Work gets the connection of the driver (`sqlite3`, `psycopg`) in a thread, within a transaction
    that is committed when it returns. Whatever the database refuses is a `StoreError`.
    """

    async def reading(self, work: Callable[[Any], T]) -> T:
        """Read. Cancelling does not wait for it; the thread then ends by itself."""
        ...

    async def writing(self, work: Callable[[Any], T]) -> T:
        """Read and write, all or nothing."""
        ...

    async def maintaining(self, work: Callable[[Any], T]) -> T:
        """Run what no transaction allows, such as `CREATE INDEX CONCURRENTLY`."""
        ...
