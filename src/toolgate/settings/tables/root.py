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

__all__ = ["META_TOOLS", "Settings"]

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
    """Version of the configuration format; 1 is the only one so far."""

    mode: Literal["auto", "meta", "all"] = "auto"
    """What `tools/list` shows: `all` the real tools, `meta` the meta-tools, `auto` by size."""

    tool_names: Literal["prefixed", "flat"] = "prefixed"
    """`flat` serves exactly one server under its own names, without meta-tools."""

    meta_tools: tuple[str, ...] = META_TOOLS
    """Which meta-tools are listed; `tool_read` appears only while there are read-only tools,
    `result_read` only once a result was paged, `tool_program` as `programs.offer` says,
    `processPrompt` and `getKnowledge` while a pack with rules is loaded, whatever `mode` says."""

    pinned: tuple[str, ...] = ()
    """Tool keys (`server:tool`) that are always listed beside the meta-tools."""

    optimization: str = "hybrid"
    """How `tool_discovery` finds tools: `bm25` by words, `hybrid` by words and meaning, `cloud` by
    a search service, `off` not at all, or the name of another search that is installed. With `off`
    the real tools are listed, as with `mode = "all"`."""

    experiment_percent: float = between(100.0, 0, 100)
    """Per cent of the conversations that get `optimization`; the others get `bm25`, or `off` where
    it is `bm25`. 0 to 100. `toolgate audit compare` shows both side by side."""

    quarantine: Literal["off", "suspicious", "changed", "new"] = "suspicious"
    """Which tools, prompts, resources and templates are held back until `toolgate servers approve`:
    those that the scanner finds `suspicious`, new or changed; every one that has `changed`, too;
    every `new` one, too; or none (`off`). Instructions of servers always wait, but with `off`."""

    max_name_chars: int = between(48, 24, 64)
    """Most characters of an exposed name; 24 to 64."""

    servers: tuple[ServerSpec, ...] = field(default=(), metadata=DERIVED)
    """Servers from files, in the order of the files."""

    auth: Literal["local", "required"] = "local"
    """`local`: whoever reaches the gateway may use all of it, and it listens on this machine only.
    `required`: a token is needed, and what no rule allows is denied."""

    allow_other_users: bool | None = None
    """With `auth = "local"`: whether other users of this machine may use the gateway, too. Left
    out: they may where the machine has one human user. See [security.md](security.md)."""

    authn: AuthnSettings = AuthnSettings()
    """Table `[authn]`: how clients prove who they are."""

    credentials: CredentialSettings = CredentialSettings()
    """Table `[credentials]`: how credentials of servers are kept."""

    outbound: OutboundSettings = OutboundSettings()
    """Table `[outbound]`: where Toolgate may connect to."""

    tls: TlsSettings = TlsSettings()
    """Table `[tls]`: HTTPS without a proxy in front."""

    permission: tuple[PermissionTable, ...] = ()
    """Tables `[[permission]]`: who may do what."""

    guard: tuple[GuardTable, ...] = ()
    """Tables `[[guard]]`: what is looked at around calls."""

    approvals: ApprovalSettings = ApprovalSettings()
    """Table `[approvals]`: calls that wait for a person."""

    project: Mapping[str, ProjectTable] = field(default_factory=dict[str, ProjectTable])
    """Tables `[project.NAME]`: projects, and what differs for them."""

    limits: LimitSettings = LimitSettings()
    """Table `[limits]`: how much one caller may do."""

    serve: ServeSettings = ServeSettings()
    """Table `[serve]`."""

    search: SearchSettings = SearchSettings()
    """Table `[search]`."""

    catalog_search: CatalogSearchSettings = CatalogSearchSettings()
    """Table `[catalog_search]`: answering `POST /catalog/search` for others."""

    discovery: DiscoverySettings = DiscoverySettings()
    """Table `[discovery]`."""

    programs: ProgramSettings = ProgramSettings()
    """Table `[programs]`: programs of models that call several tools."""

    results: ResultSettings = ResultSettings()
    """Table `[results]`."""

    store: StoreSettings = StoreSettings()
    """Table `[store]`."""

    audit: AuditSettings = AuditSettings()
    """Table `[audit]`: whether it is recorded what was searched and called."""

    usage: UsageSettings = UsageSettings()
    """Table `[usage]`: learning from what was found and executed."""

    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Table `[groups]`: names of capability groups, each with servers and patterns of tool keys,
    such as `files = ["filesystem", "drive:*_file"]`. Servers in none are grouped by themselves."""

    packs: PackSettings = PackSettings()
    """Table `[packs]`: which packs are read, and what they are told."""

    rules: RuleSettings = RuleSettings()
    """Table `[rules]`: what models are told when they ask for the rules of a request."""

    connections: Mapping[str, ConnectionTable] = field(default_factory=dict[str, ConnectionTable])
    """Tables `[connections.NAME]`: databases that tools of packs may read."""

    models: Mapping[str, ModelTable] = field(default_factory=dict[str, ModelTable])
    """Tables `[models.NAME]`: chat models that turns can use."""

    chat: ChatSettings = ChatSettings()
    """Table `[chat]`: whole turns behind `/v1`."""

    documents: DocumentSettings = DocumentSettings()
    """Table `[documents]`: how documents are kept and found."""

    log: LogSettings = LogSettings()
    """Table `[log]`."""

    metrics: MetricSettings = MetricSettings()
    """Table `[metrics]`: numbers for operators at `/metrics`."""

    traces: TraceSettings = TraceSettings()
    """Table `[traces]`: where requests spent their time."""

    config_file: Path | None = field(default=None, metadata=DERIVED)
    """The `toolgate.toml` that was read; None when there is none."""

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
