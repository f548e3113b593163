"""The top of `toolgate.toml`, with all tables below it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolgate.settings.tables.access import (
    ApprovalSettings,
    AuthnSettings,
    CredentialSettings,
    GuardTable,
    LimitSettings,
    PermissionTable,
    ProjectTable,
)
from toolgate.settings.tables.chat import ChatSettings, DocumentSettings, ModelTable
from toolgate.settings.tables.fields import DERIVED, between
from toolgate.settings.tables.operations import (
    AuditSettings,
    LogSettings,
    MetricSettings,
    StoreSettings,
    TraceSettings,
)
from toolgate.settings.tables.packs import PackSettings, RuleSettings
from toolgate.settings.tables.programs import ProgramSettings
from toolgate.settings.tables.search import (
    CatalogSearchSettings,
    DiscoverySettings,
    ResultSettings,
    SearchSettings,
    UsageSettings,
)
from toolgate.settings.tables.servers import ConnectionTable
from toolgate.settings.tables.serving import OutboundSettings, ServeSettings, TlsSettings
from toolgate.types import ServerSpec

META_TOOLS = (
    "tool_discovery",
    "tool_describe",
    "tool_execute",
    "tool_read",
    "tool_program",
    "result_read",
    "processPrompt",
    "getKnowledge",
)
"""The tools that stand for all others, and those that give rules."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that can be configured."""

    version: int = 1
    """Version of the configuration format; always 1."""

    mode: Literal["auto", "meta", "all"] = "auto"
    """What `tools/list` returns: `all` the servers' tools, `meta` the meta-tools, `auto` the
    servers' tools while their definitions fit into `discovery.auto_tokens`, otherwise the
    meta-tools, except for some [clients that search tools
    themselves](clients.md#clients-that-search-tools-themselves)."""

    tool_names: Literal["prefixed", "flat"] = "prefixed"
    """`prefixed`: tool names start with the server's name. `flat`: exactly one server, under its
    own tool names and without meta-tools."""

    meta_tools: tuple[str, ...] = META_TOOLS
    """Meta-tools to list. Some appear only when they are useful: `tool_read` if there are read-only
    tools, `result_read` once a result has been split into pages, `tool_program` according to
    `programs.offer`, `processPrompt` and `getKnowledge` if a pack with rules is loaded (in every
    `mode`)."""

    pinned: tuple[str, ...] = ()
    """Tool keys (`server:tool`) that are always listed in addition to the meta-tools."""

    optimization: str = "hybrid"
    """Search strategy of `tool_discovery`: `bm25` (keywords), `hybrid` (keywords and vectors),
    `cloud` (a search service), `off`, or the name of an installed search plugin. With `off`, the
    servers' tools are listed as with `mode = "all"`."""

    experiment_percent: float = between(100.0, 0, 100)
    """A/B test: percentage of conversations that use `optimization`, 0 to 100. The others use
    `bm25`, or no search if `optimization` is `bm25`. Compare them with `toolgate audit compare`."""

    quarantine: Literal["off", "suspicious", "changed", "new"] = "suspicious"
    """Which tools, prompts, resources and resource templates stay hidden until `toolgate servers
    approve`. `off`: none. `suspicious`: those that the scanner flags. `changed`: also every changed
    definition. `new`: also every new definition. Server instructions always need approval, except
    with `off`."""

    max_name_chars: int = between(48, 24, 64)
    """Maximum length of an exposed tool name in characters; 24 to 64."""

    servers: tuple[ServerSpec, ...] = field(default=(), metadata=DERIVED)
    """Servers from files, in the order of the files."""

    auth: Literal["local", "required"] = "local"
    """`local`: no token is needed, every caller may use everything, and the gateway accepts
    connections from this machine only. `required`: callers need a token and may use only what a
    permission rule allows."""

    allow_other_users: bool | None = None
    """With `auth = "local"`: whether other users of this machine may use the gateway. Default: only
    if the machine has no other user accounts (system accounts do not count). See
    [security.md](security.md)."""

    authn: AuthnSettings = AuthnSettings()
    """Table `[authn]`: how callers authenticate."""

    credentials: CredentialSettings = CredentialSettings()
    """Table `[credentials]`: storage of server credentials, and logins to servers."""

    outbound: OutboundSettings = OutboundSettings()
    """Table `[outbound]`: outgoing connections."""

    tls: TlsSettings = TlsSettings()
    """Table `[tls]`: HTTPS without a reverse proxy."""

    permission: tuple[PermissionTable, ...] = ()
    """Tables `[[permission]]`: permission rules."""

    guard: tuple[GuardTable, ...] = ()
    """Tables `[[guard]]`: checks on tool calls."""

    approvals: ApprovalSettings = ApprovalSettings()
    """Table `[approvals]`: calls that need approval."""

    project: Mapping[str, ProjectTable] = field(default_factory=dict[str, ProjectTable])
    """Tables `[project.NAME]`: projects and their settings."""

    limits: LimitSettings = LimitSettings()
    """Table `[limits]`: limits per caller."""

    serve: ServeSettings = ServeSettings()
    """Table `[serve]`."""

    search: SearchSettings = SearchSettings()
    """Table `[search]`."""

    catalog_search: CatalogSearchSettings = CatalogSearchSettings()
    """Table `[catalog_search]`: tool search for other programs at `POST /catalog/search`."""

    discovery: DiscoverySettings = DiscoverySettings()
    """Table `[discovery]`."""

    programs: ProgramSettings = ProgramSettings()
    """Table `[programs]`: programs that models write to call several tools."""

    results: ResultSettings = ResultSettings()
    """Table `[results]`."""

    store: StoreSettings = StoreSettings()
    """Table `[store]`."""

    audit: AuditSettings = AuditSettings()
    """Table `[audit]`: the audit log of searches and calls."""

    usage: UsageSettings = UsageSettings()
    """Table `[usage]`: search learns from which tools are called."""

    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Table `[groups]`: capability groups, each a name with servers and tool patterns, such as
    `files = ["filesystem", "drive:*_file"]`. A server in no group is a group of its own."""

    packs: PackSettings = PackSettings()
    """Table `[packs]`: which packs are loaded, and their options."""

    rules: RuleSettings = RuleSettings()
    """Table `[rules]`: the rules that models get for a request."""

    connections: Mapping[str, ConnectionTable] = field(default_factory=dict[str, ConnectionTable])
    """Tables `[connections.NAME]`: databases that pack tools may read."""

    models: Mapping[str, ModelTable] = field(default_factory=dict[str, ModelTable])
    """Tables `[models.NAME]`: chat models for `/v1`."""

    chat: ChatSettings = ChatSettings()
    """Table `[chat]`: chat turns at `/v1`."""

    documents: DocumentSettings = DocumentSettings()
    """Table `[documents]`: storing and searching documents."""

    log: LogSettings = LogSettings()
    """Table `[log]`."""

    metrics: MetricSettings = MetricSettings()
    """Table `[metrics]`: Prometheus metrics at `/metrics`, and their export."""

    traces: TraceSettings = TraceSettings()
    """Table `[traces]`: OpenTelemetry traces."""

    config_file: Path | None = field(default=None, metadata=DERIVED)
    """The `toolgate.toml` that was read; None if there is none."""

    new_config_file: Path | None = field(default=None, metadata=DERIVED)
    """The `toolgate.toml` that the first saved change creates, if `load` found none; None for
    settings that a program made."""

    imports: tuple[str, ...] = field(default=(), metadata=DERIVED)
    """Files named by `--import`, for reading the same again."""

    overrides: Mapping[str, object] = field(default_factory=dict[str, object], metadata=DERIVED)
    """Values that the command line put in place of those of the file."""

    files: tuple[Path, ...] = field(default=(), metadata=DERIVED)
    """The files that this was read from, imports included; watched while running."""

    notices: tuple[str, ...] = field(default=(), metadata=DERIVED)
    """What a person should know although it stops nothing: names that were changed, entries that
    were left out, variables that are missing, keys that have a new name."""

    project_optimizations: tuple[str, ...] = field(default=(), metadata=DERIVED)
    """What projects set as `optimization`, those of the store too; filled in while running."""

    @property
    def control(self) -> str:
        """What the conversations get that `experiment_percent` leaves out."""
        return "off" if self.optimization == "bm25" else "bm25"

    @property
    def optimizations(self) -> frozenset[str]:
        """What conversations may get: `optimization`, the control, or both."""
        names = {self.optimization} if self.experiment_percent > 0 else set[str]()
        return frozenset(names | ({self.control} if self.experiment_percent < 100 else set()))
