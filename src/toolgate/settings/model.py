"""What can be configured: one frozen dataclass per table of `toolgate.toml`.

The reference in `docs/configuration.md` is made from the sentences below the fields. A range in
a sentence is repeated by `_between`, which is what `load` checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from toolgate.settings.folders import expand_home
from toolgate.types import ServerSpec

__all__ = [
    "META_TOOLS",
    "ApprovalSettings",
    "AuditSettings",
    "AuthnSettings",
    "CatalogSearchSettings",
    "ChatSettings",
    "ConnectionTable",
    "CredentialSettings",
    "CredentialTable",
    "DiscoverySettings",
    "DocumentModelTable",
    "DocumentSettings",
    "GuardTable",
    "ImportTable",
    "LimitSettings",
    "LogLevel",
    "LogSettings",
    "MetricSettings",
    "ModelTable",
    "OutboundSettings",
    "PackSettings",
    "PermissionTable",
    "ProjectTable",
    "ResultSettings",
    "RuleSettings",
    "SearchSettings",
    "ServeSettings",
    "ServerTable",
    "Settings",
    "StoreSettings",
    "TlsSettings",
    "ToolLimitTable",
    "ToolTable",
    "TraceSettings",
    "UpstreamTlsTable",
    "UsageSettings",
]

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
"""How much is written."""

META_TOOLS = (
    "tool_discovery",
    "tool_describe",
    "tool_execute",
    "result_read",
    "processPrompt",
    "getKnowledge",
)
"""The tools that stand for all others, and those that give rules."""

_DERIVED = {"derived": True}
"""Marks a field that no key sets: it says what was read."""

NumberT = TypeVar("NumberT", int, float, None)


def _between(default: NumberT, low: float, high: float) -> NumberT:
    """A field whose value must lie in [low, high]."""
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Table `[serve]`: where and how the gateway listens."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    port: int = _between(7420, 0, 65_535)
    """Port to listen on, 0 to 65,535; 0 takes a free one."""

    allowed_hosts: tuple[str, ...] = ()
    """Further values of the `Host` header to accept, such as `gateway.example.org:*`."""

    allowed_origins: tuple[str, ...] = ()
    """Further values of the `Origin` header to accept, such as `https://app.example.org`."""

    max_body_bytes: int = _between(64 * 2**20, 1024, 2**31)
    """Largest request body that is read; 1,024 to 2,147,483,648."""

    max_depth: int = _between(200, 10, 900)
    """Deepest nesting of JSON that is accepted; 10 to 900."""

    drain_s: float = _between(20.0, 0, 3600)
    """Seconds that running calls get at shutdown; 0 to 3,600."""

    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of reverse proxies, such as `10.0.0.0/8`, whose `X-Forwarded-For`,
    `X-Forwarded-Proto` and `X-Forwarded-Host` are believed."""

    root_path: str = ""
    """Path under which a reverse proxy offers the gateway, such as `/tools`."""

    console_wait_s: float = _between(10.0, 0.1, 600)
    """Seconds that a page or a form of the console waits for the store, 0.1 to 600; then the page
    says that the store is slow, and whether anything was saved."""


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    """Table `[tls]`: HTTPS without a proxy in front."""

    cert: str = ""
    """File with the certificate and those between it and its authority, PEM; empty: plain HTTP. A
    relative path belongs to the file's folder."""

    key: str = ""
    """File with its key, PEM; empty: it is in the same file."""


@dataclass(frozen=True, kw_only=True)
class OutboundSettings:
    """Table `[outbound]`: where Toolgate may connect to. See [credentials.md](credentials.md)."""

    allow: tuple[str, ...] = ()
    """Hosts and networks on private addresses that may be reached also where no administrator wrote
    the address: `auth.corp.example`, `*.corp.example`, `10.1.0.0/16`."""

    proxy: str = ""
    """Address of the proxy for all that is not on this machine; empty: as `HTTPS_PROXY`,
    `HTTP_PROXY` and `ALL_PROXY` say; `none`: without."""

    no_proxy: tuple[str, ...] = ()
    """Hosts, domains and networks that are reached without it, besides those of `NO_PROXY`."""


@dataclass(frozen=True, kw_only=True)
class CredentialSettings:
    """Table `[credentials]`: how credentials of servers are kept.

    See [credentials.md](credentials.md).
    """

    key: Literal["file", "keyring"] = "file"
    """Where the key is that they are encrypted with: a file in the data folder that only this user
    reads, or the keyring of the system. The variable `TOOLGATE_CREDENTIALS_KEY` comes first."""

    client_name: str = "Toolgate"
    """What authorization servers show to people when they ask for consent."""

    client_metadata_url: str = ""
    """Address of the client id metadata document, `https://…`; empty: the gateway's own, where
    `authn.resource` is an `https` address."""

    login_s: float = _between(600.0, 30, 3600)
    """Seconds that a person has for a login; 30 to 3,600."""


@dataclass(frozen=True, kw_only=True)
class AuthnSettings:
    """Table `[authn]`: how clients prove who they are. See [permissions.md](permissions.md)."""

    order: tuple[str, ...] = ("token",)
    """File names in `authn/`, asked one after another: `token` for tokens that
    `toolgate tokens create` makes, `jwt` for those of an identity provider."""

    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[authn.options.NAME]`; `jwt` needs `issuer` and `audience`."""

    resource: str = ""
    """Address of `/mcp` as clients know it, for their login (RFC 9728); empty: as they ask for
    it. Set it behind a proxy that changes the address."""


@dataclass(frozen=True, kw_only=True)
class ToolLimitTable:
    """Table `[limits.tools."PATTERN"]`: what all callers together may do with tools."""

    calls_per_minute: int = _between(0, 0, 1_000_000)
    """Calls of one tool within a minute; 0 to 1,000,000, 0: as many as come."""

    concurrent_calls: int = _between(0, 0, 100_000)
    """Calls of one tool at the same time; 0 to 100,000, 0: as many as come."""


@dataclass(frozen=True, kw_only=True)
class LimitSettings:
    """Table `[limits]`: how much one caller may do. A project and a token can have their own.

    Each process counts for itself, from its start.
    """

    calls_per_minute: int = _between(0, 0, 1_000_000)
    """Calls of tools within a minute; 0 to 1,000,000, 0: as many as come."""

    concurrent_calls: int = _between(0, 0, 100_000)
    """Calls of tools at the same time; 0 to 100,000, 0: as many as come."""

    calls_per_day: int = _between(0, 0, 1_000_000_000)
    """Calls of tools within a day (UTC); 0 to 1,000,000,000, 0: as many as come."""

    tokens_per_day: int = _between(0, 0, 1_000_000_000_000)
    """Estimated tokens of results of tools within a day (UTC); 0 to 1,000,000,000,000, 0: as many
    as come."""

    tools: Mapping[str, ToolLimitTable] = field(default_factory=dict[str, ToolLimitTable])
    """Tables by pattern of tool keys, such as `[limits.tools."github:*"]`."""


@dataclass(frozen=True, kw_only=True)
class PermissionTable:
    """A table `[[permission]]`: a rule about who may do what. See [permissions.md](permissions.md).

    It holds with `auth = "required"`.
    """

    to: tuple[str, ...] = ()
    """For whom: `everyone`, `token:NAME`, `role:NAME`, `user:NAME`, `group:NAME` or
    `project:NAME`."""

    allow: tuple[str, ...] = ()
    """What they may do: patterns such as `github`, `github:get_*`, `*`."""

    deny: tuple[str, ...] = ()
    """What they may not do, whatever is allowed elsewhere."""

    hint: Literal["", "read_only", "destructive"] = ""
    """Only tools that are marked so."""

    source: str = field(default="", metadata=_DERIVED)
    """File and line."""


@dataclass(frozen=True, kw_only=True)
class GuardTable:
    """A table `[[guard]]`: what is looked at around calls of some tools. See [guards](guards.md).

    All that fit a call hold for it, in their order.
    """

    tools: tuple[str, ...] = ("*",)
    """Which tools: `*`, `SERVER` or `SERVER:TOOL`; `*` stands for any text, `?` for a character."""

    projects: tuple[str, ...] = ()
    """Only requests of these projects; empty: all."""

    hint: Literal["", "read_only", "destructive"] = ""
    """Only tools that are marked so."""

    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    """A JSON Schema that the arguments have to fit beside the tool's own."""

    deny: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Expressions by name of an argument (`*`: all) that nothing in it may fit:
    `{ path = ["^/etc/"], "*" = ["rm -rf"] }`. They cannot look back or ahead, so they are quick."""

    sql: Mapping[str, str] = field(default_factory=dict[str, str])
    """Arguments that hold SQL, by name, and whose it is: `{ sql = "postgres" }`. Only one statement
    that reads is let through, as by the tool `query` of the [pack `sql`](sql.md). `postgres`,
    `sqlite`, `oracle`, `mysql`, `duckdb`; any other word: what is harmless in all of them."""

    max_argument_bytes: int = _between(0, 0, 2**31)
    """Most bytes of the arguments as JSON; 0 to 2,147,483,648, 0: as many as come."""

    max_result_bytes: int = _between(0, 0, 2**31)
    """Most bytes of the result as JSON; 0 to 2,147,483,648, 0: as many as come."""

    secrets_in_arguments: Literal["", "mask", "block"] = ""
    """What becomes of secrets in arguments: they are masked, or the call is refused."""

    secrets_in_results: Literal["", "mask", "block"] = ""
    """What becomes of secrets in results: they are masked, or the result is withheld."""

    approver: Literal["", "user", "admin"] = ""
    """Whether a person has to approve each call: `user` whoever sits at the client or may approve,
    `admin` only who has the right `approve`, and never who asks."""

    reason: str = ""
    """Why, for models and people."""

    source: str = field(default="", metadata=_DERIVED)
    """File and line."""


@dataclass(frozen=True, kw_only=True)
class ApprovalSettings:
    """Table `[approvals]`: calls that wait for a person. See [guards](guards.md)."""

    expire_s: float = _between(3600.0, 10, 604_800)
    """Seconds in which somebody can decide, and in which the call can then be made; 10 to 604,800.
    """

    wait_s: float = _between(0.0, 0, 600)
    """Seconds that a call waits for the decision before it is answered that it waits; 0 to 600.
    """

    max_waiting: int = _between(100, 1, 10_000)
    """Calls of one caller that may wait at the same time; 1 to 10,000."""


@dataclass(frozen=True, kw_only=True)
class ProjectTable:
    """Table `[project.NAME]`: its servers, and what differs. Keys left out are as for all."""

    servers: tuple[str, ...] = ()
    """Names of its servers, which requests of other projects do not see. A server can be in
    several; `project` in the table of a server does the same for that one."""

    optimization: str = ""
    """As at the top of the file: `off`, `bm25`, `hybrid`, `cloud` or another search; empty: as
    there."""

    mode: Literal["", "auto", "meta", "all"] = ""
    """As at the top of the file; empty: as there."""

    pinned: tuple[str, ...] = ()
    """Further tools that are always listed."""

    budget_tokens: int = _between(0, 0, 100_000)
    """As in `[discovery]`; 0 to 100,000, 0: as there."""

    read_only: bool = False
    """Whether only tools run that are marked read-only."""

    read_only_allow: tuple[str, ...] = ()
    """Patterns of tools that count as read-only in it, although nothing marks them so: `SERVER`,
    `SERVER:TOOL`."""

    shared_servers: bool = True
    """Whether servers without a project are seen beside the project's own."""

    audit: Literal["", "open", "closed"] = ""
    """As `on_failure` in `[audit]`; empty: as there."""

    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Limits of each of its callers in place of those of `[limits]`."""


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Table `[search]`: how tools are found."""

    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[search.options.NAME]`: options of the search NAME, such as `hybrid` or `cloud`,
    wherever it is used."""

    selector: str = ""
    """What picks from the best that `optimization` finds: `llm` asks a chat model, which
    `[search.options.llm]` describes. Empty: nothing does, and the order is that of the search."""

    embedder: str = "bundled"
    """File name in `embed/`: what gives texts their vectors, where the strategy uses them."""

    embedder_options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of the embedder."""

    vectors: str = "auto"
    """File name in `vectors/`: where vectors of tools are kept, so that a start computes none anew.
    `auto`: in the store, `sqlite` or `pgvector`. `off`: in memory only."""

    vector_options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of that place; `pgvector` has `m`, `ef_construction`, `ef_search`, `extension`."""


@dataclass(frozen=True, kw_only=True)
class CatalogSearchSettings:
    """Table `[catalog_search]`: answering `POST /catalog/search`, the tool search for others.

    It is off until `tokens` names a project.
    """

    tokens: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], repr=False
    )
    """Bearer tokens by project: `{ team-a = ["${env:TEAM_A_TOKEN}"] }`; several while one is being
    replaced. At least 16 characters each, or `sha256:` and the hash of one in hex."""

    strategy: str = "hybrid"
    """How the tools of a request are searched: `bm25`, `hybrid` or another search."""

    selector: str = ""
    """As in `[search]`."""

    max_body_bytes: int = _between(8 * 2**20, 1024, 2**28)
    """Largest request that is read; 1,024 to 268,435,456."""

    max_tools: int = _between(10_000, 1, 200_000)
    """Most tools of a request; 1 to 200,000."""

    kept_lists: int = _between(64, 1, 10_000)
    """Lists of tools whose index is kept for the next request; 1 to 10,000."""

    kept_mb: int = _between(256, 1, 65_536)
    """Estimated megabytes of kept indexes at most; 1 to 65,536."""


@dataclass(frozen=True, kw_only=True)
class DiscoverySettings:
    """Table `[discovery]`: what the meta-tools answer."""

    budget_tokens: int = _between(1000, 200, 100_000)
    """Most estimated tokens of one `tool_discovery` answer; 200 to 100,000."""

    describe_budget_tokens: int = _between(8000, 200, 1_000_000)
    """Most estimated tokens of one `tool_describe` answer; 200 to 1,000,000."""

    max_results: int = _between(5, 1, 50)
    """Hits when the caller does not say; 1 to 50."""

    show_down: bool = False
    """Whether tools of servers that are down appear, ranked last and marked."""

    auto_tokens: int = _between(4000, 0, 1_000_000)
    """With `mode = "auto"`: menus up to this many estimated tokens are listed as they are; 0 to
    1,000,000."""


@dataclass(frozen=True, kw_only=True)
class ResultSettings:
    """Table `[results]`: large results of `tool_execute`."""

    paging: bool = True
    """Whether large results are stored and answered in pages."""

    page_tokens: int = _between(25_000, 200, 10_000_000)
    """Estimated tokens of a page, 200 to 10,000,000; larger results are paged."""

    ttl_s: float = _between(3600.0, 1, 604_800)
    """Seconds a stored result lives; 1 to 604,800."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Table `[store]`: what is kept, and how long."""

    url: str = ""
    """`sqlite:///PATH` or `postgresql://…`; empty: `toolgate.db` in the user's data folder."""

    audit_days: float = _between(90.0, 0, 36_500)
    """Days that audit records are kept; 0 to 36,500."""

    audit_max_mb: int = _between(512, 1, 1_048_576)
    """Megabytes of audit records at most; 1 to 1,048,576."""

    results_max_mb: int = _between(256, 1, 1_048_576)
    """Megabytes of stored results at most; 1 to 1,048,576."""

    usage_days: float = _between(180.0, 0, 36_500)
    """Days that the usage log is kept; 0 to 36,500."""

    usage_max_mb: int = _between(64, 1, 1_048_576)
    """Megabytes of the usage log at most; 1 to 1,048,576."""

    detection_days: float = _between(180.0, 0, 36_500)
    """Days that it is kept what messages were taken for, for `toolgate detect --stats`; 0 to
    36,500."""

    detection_max_mb: int = _between(64, 1, 1_048_576)
    """Megabytes of that at most; 1 to 1,048,576."""

    schema_days: float = _between(730.0, 0, 36_500)
    """Days that versions of the schemas of `[connections]` are kept; 0 to 36,500. The present one
    of each always stays."""

    schema_max_mb: int = _between(256, 1, 1_048_576)
    """Megabytes of such versions at most; 1 to 1,048,576."""

    tool_version_days: float = _between(365.0, 0, 36_500)
    """Days that definitions of tools are kept after their servers replaced them; 0 to 36,500. Of
    each tool the last 20 are."""

    tool_version_max_mb: int = _between(64, 1, 1_048_576)
    """Megabytes of such definitions at most; 1 to 1,048,576."""

    statement_days: float = _between(90.0, 0, 36_500)
    """Days that it is kept what was asked of the databases in `[connections]`; 0 to 36,500."""

    statement_max_mb: int = _between(64, 1, 1_048_576)
    """Megabytes of that at most; 1 to 1,048,576."""

    thread_days: float = _between(365.0, 0, 36_500)
    """Days that threads of `/v1` are kept after their last turn; 0 to 36,500."""

    thread_max_mb: int = _between(1024, 1, 1_048_576)
    """Megabytes of threads at most; 1 to 1,048,576."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Table `[audit]`: whether it is recorded what was searched and called."""

    enabled: bool = True
    """Whether discoveries and calls are recorded."""

    keep_queries: bool = True
    """Whether the texts of discoveries and messages are kept."""

    detections: bool = True
    """Whether it is noted what messages were taken for; `toolgate detect --stats` counts that."""

    on_failure: Literal["open", "closed"] = "open"
    """What happens while it cannot be written: `open` goes on and writes it later, `closed` answers
    nothing that was not recorded. A project can have its own."""

    sinks: tuple[Literal["store", "file", "syslog", "otel"], ...] = ("store",)
    """Where it is written: only what is in the store can be listed and proved."""

    file: str = ""
    """Path of the file of the sink `file`, a line for each record."""

    file_format: Literal["jsonl", "csv", "ocsf"] = "jsonl"
    """What its lines are."""

    file_max_mb: int = _between(100, 1, 1_048_576)
    """Megabytes after which the file is put aside; 1 to 1,048,576."""

    file_kept: int = _between(10, 1, 1_000)
    """Files put aside that are kept; 1 to 1,000."""

    syslog: str = "unix:/dev/log"
    """Where the sink `syslog` is: `unix:/dev/log`, `udp://HOST:PORT`, `tcp://HOST:PORT`."""

    otel_endpoint: str = ""
    """Where the sink `otel` sends logs (OTLP over HTTP), such as `http://127.0.0.1:4318/v1/logs`;
    empty: as the variables of OpenTelemetry say."""

    signed_max_mb: int = _between(16, 1, 1_024)
    """Megabytes of `audit.signed`, the second copy of signed places; 1 to 1,024. When it is full
    only every second one of the older half stays."""


@dataclass(frozen=True, kw_only=True)
class UsageSettings:
    """Table `[usage]`: learning from what was found and executed. See [learning.md](learning.md).

    How much it counts is set in `[search.options.hybrid.usage]`.
    """

    enabled: bool = True
    """Whether it is logged which tools a search showed and which were executed, and learned from.
    Arguments and results are never in it; the text of a search is as `audit.keep_queries` says."""

    adapt_line: bool = True
    """Whether the line below which "nothing fits" is said follows what a caller executes and
    marks."""

    alternatives: bool = True
    """Whether an answer names tools that do nearly the same as a hit."""

    together: bool = True
    """Whether an answer names tools that were often used together with a hit."""

    half_life_days: float = _between(60.0, 0.1, 3_650)
    """Days after which an earlier use counts half; 0.1 to 3,650."""

    max_requests: int = _between(4_000, 10, 100_000)
    """Earlier requests that have a say, the last used ones; 10 to 100,000. Each costs 1 kB of
    memory."""


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Table `[log]`."""

    level: LogLevel = "info"
    """Lowest level that is written."""

    format: Literal["text", "json"] = "text"
    """For people or for machines."""

    file: str = ""
    """Path of a log file, rotated at 10 MB, 5 kept; empty: standard error."""

    requests: Literal["auto", "on", "off"] = "auto"
    """Whether each request is a line: with its id, trace, caller, status and time, without what
    it asked. `auto`: with `format = "json"`."""

    servers: Mapping[str, LogLevel] = field(default_factory=dict[str, LogLevel])
    """Level by server name: `debug`, `info`, `warning` or `error`."""

    @property
    def path(self) -> Path | None:
        """The log file; None for standard error."""
        return Path(expand_home(self.file)) if self.file else None

    @property
    def names_requests(self) -> bool:
        """Whether each request is a line."""
        return self.requests == "on" or (self.requests == "auto" and self.format == "json")


@dataclass(frozen=True, kw_only=True)
class MetricSettings:
    """Table `[metrics]`: numbers for operators at `/metrics`.

    See [operations.md](operations.md).
    """

    enabled: bool = True
    """Whether anything is counted, and `/metrics` answered."""

    open: bool = False
    """Whether `/metrics` is answered without a token where `auth = "required"`; otherwise a token
    with the right `manage` is needed. Names of servers are in it."""

    endpoint: str = ""
    """Where the same numbers are sent by OpenTelemetry (OTLP over HTTP), such as
    `http://127.0.0.1:4318/v1/metrics`; empty: nowhere. Needs the extra `otel`."""

    every_s: float = _between(30.0, 1, 3_600)
    """Seconds from one time to the next; 1 to 3,600."""


@dataclass(frozen=True, kw_only=True)
class TraceSettings:
    """Table `[traces]`: where requests spent their time. See [operations.md](operations.md)."""

    endpoint: str = ""
    """Where spans are sent as OpenTelemetry has them (OTLP over HTTP, in JSON), such as
    `http://127.0.0.1:4318/v1/traces`; empty: none are made."""

    share: float = _between(10.0, 0, 100)
    """Per cent of the traces that begin here that are recorded; 0 to 100. One that comes with a
    request is recorded where its traceparent says so."""

    arguments: bool = False
    """Whether spans of calls hold the arguments. WARNING: they then stand in another system."""


@dataclass(frozen=True, kw_only=True)
class CredentialTable:
    """Table `[server.NAME.credentials]`: what is shown to it. See [credentials.md](credentials.md).

    Without it, `toolgate servers login NAME` is all that a server with a login needs.
    """

    type: Literal["stored", "oauth", "client_credentials", "token_exchange"] = "stored"
    """`stored`: what was given or what somebody logged in with, if there is anything; `oauth`: a
    login, without which nothing is sent; `client_credentials`: a token of the gateway itself;
    `token_exchange`: one that the caller's own token is exchanged for (RFC 8693)."""

    per: Literal["server", "project", "user"] = "server"
    """Whether all calls show the same, those of a project, or those of a user."""

    scopes: tuple[str, ...] = ()
    """What is asked for; empty: as the server says."""

    client_id: str = ""
    """As registered at the authorization server; empty: registered when it is needed."""

    client_secret: str = field(default="", repr=False)
    """The secret of that client, best as `${env:NAME}`; empty: a public one."""

    issuer: str = ""
    """Address of the authorization server; empty: as the server says."""

    token_url: str = ""
    """Address of its token endpoint; empty: as its metadata says."""

    audience: str = ""
    """Whom tokens are for, where the authorization server wants to be told so."""

    headers: tuple[str, ...] = ()
    """Names of headers that are to be given, such as `Authorization`, with
    `toolgate credentials set`."""

    env: tuple[str, ...] = ()
    """Names of variables that are to be given."""


@dataclass(frozen=True, kw_only=True)
class UpstreamTlsTable:
    """Table `[server.NAME.tls]`: certificates towards a server over HTTPS."""

    ca: str = ""
    """File with the certificates of authorities that are believed, PEM; empty: those of the
    system. A relative path belongs to the file's folder, here and below."""

    cert: str = ""
    """File with a certificate that is shown to it, PEM."""

    key: str = ""
    """File with the key of that certificate; empty: it is in the same file."""


@dataclass(frozen=True, kw_only=True)
class ToolTable:
    """Table `[server.NAME.tools.TOOL]`: what differs for one tool of a server."""

    timeout_s: float | None = _between(None, 0.001, 86_400)
    """Seconds a call of this tool may take without progress, 0.001 to 86,400; the server's
    `timeout_s` when it is absent."""


@dataclass(frozen=True, kw_only=True)
class ServerTable:
    """Table `[server.NAME]`: one server behind the gateway, with the keys of a `mcpServers` entry.

    It has exactly one of `command`, `url` and `python`.
    """

    command: str = ""
    """Program of a stdio server. A path that starts with `./` belongs to the file's folder."""

    args: tuple[float | str, ...] = ()
    """Arguments of the program; a leading `~/` is the home folder."""

    env: Mapping[str, bool | float | str] = field(default_factory=dict[str, bool | float | str])
    """Variables the program gets beside a safe minimum; nothing else is inherited. A value that is
    `${NAME:-}` is left out when `NAME` is not set."""

    env_file: str = ""
    """A file of `NAME=VALUE` lines with more variables; `env` wins."""

    cwd: str = ""
    """Folder the program runs in; a relative one belongs to the file's folder. Default: the folder
    in which Toolgate runs."""

    url: str = ""
    """Address of a server over HTTP, `http://` or `https://`."""

    headers: Mapping[str, float | str] = field(default_factory=dict[str, float | str])
    """Headers of each request to it, such as `Authorization`. Nothing of a caller is added."""

    credentials: CredentialTable = CredentialTable()
    """Table `[server.NAME.credentials]`: what else is shown to it."""

    tls: UpstreamTlsTable = UpstreamTlsTable()
    """Table `[server.NAME.tls]`: certificates."""

    proxy: str = ""
    """Address of the proxy for it, in place of what `[outbound]` says; `none`: without."""

    type: str = ""
    """`stdio`, `http` or `sse`. Default: `stdio` with a `command`; with a `url` `sse` when its path
    ends in `/sse`, else `http`."""

    transport: str = ""
    """Another name for `type`, as some clients write it."""

    python: str = ""
    """`module:attribute` of a FastMCP server that runs inside Toolgate."""

    timeout_s: float = _between(60.0, 0.001, 86_400)
    """Seconds a call may take without progress; 0.001 to 86,400."""

    max_timeout_s: float = _between(600.0, 0.001, 86_400)
    """Seconds a call may take in all, however often it reports progress; 0.001 to 86,400. Default:
    600, or `timeout_s` if that is more."""

    tools: Mapping[str, ToolTable] = field(default_factory=dict[str, ToolTable])
    """Tables `[server.NAME.tools.TOOL]` by the tool's own name."""

    enabled: bool = True
    """Whether it is connected."""

    disabled: bool = False
    """The opposite of `enabled`, as some clients write it."""

    pinned: tuple[str, ...] = ()
    """Names of its tools that are always listed beside the meta-tools."""

    trust: bool = True
    """Whether its annotations (read-only, idempotent) are believed: an interrupted call of such a
    tool is then repeated by itself. WARNING: a server that lies makes a call run twice; set it to
    false for servers that you do not know."""

    max_message_bytes: int = _between(64 * 2**20, 1024, 2**31)
    """Largest message that is read from it, 1,024 to 2,147,483,648; a larger one fails its call."""

    era: Literal["auto", "modern", "handshake"] = "auto"
    """Protocol era: `modern` is 2026-07-28, `handshake` everything before; `auto` finds out."""

    title: str = ""
    """A name for people; filled in by itself when the server's name had to be changed."""

    project: str = ""
    """The project it belongs to; empty: to none, and all see it."""

    tool_permissions: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Names of its tools with false: nobody sees or runs them, whatever else is allowed."""

    audit: Literal["hashes", "full"] = "hashes"
    """What the audit keeps of arguments and results of its tools: hashes, sizes and shapes, or all
    of them up to 32 kB each, secrets masked."""


@dataclass(frozen=True, kw_only=True)
class ImportTable:
    """An element of `import` that is more than a path."""

    file: str
    """The file: `mcpServers` JSON, or one of a client that `toolgate init` knows."""

    skip: tuple[str, ...] = ()
    """Servers of it that are left out."""

    only: tuple[str, ...] = ()
    """Servers of it that are taken; empty means all."""

    rename: Mapping[str, str] = field(default_factory=dict[str, str])
    """New names by the names in the file."""

    project: str = ""
    """For `~/.claude.json`: the folder of the project whose servers are meant."""


@dataclass(frozen=True, kw_only=True)
class ConnectionTable:
    """Table `[connections.NAME]`: a database that [tools of packs](schema.md) may read."""

    url: str = field(default="", repr=False)
    """Where it is, as SQLAlchemy writes it: `sqlite:///shop.db`,
    `postgresql://reader:${env:SHOP_PASSWORD}@db.example.org/shop`. Never shown. The path of a
    SQLite file belongs to the file's folder."""

    description: str = ""
    """What is in it, for people and models."""

    schemas: tuple[str, ...] = ()
    """Schemas of the database that are looked at; empty: the one that is used when none is named.
    `*` is all but those of the database itself."""

    exclude: tuple[str, ...] = ()
    """Tables that are left out, with `*` for any text: `tmp_*`, `archive.*`."""

    snapshot_every_minutes: float = _between(60.0, 0, 525_600)
    """Minutes from one look at its schema to the next, 0 to 525,600; 0: only when a tool asks."""

    timeout_s: float = _between(20.0, 0.1, 3600)
    """Seconds that connecting and reading may take; 0.1 to 3,600."""


@dataclass(frozen=True, kw_only=True)
class PackSettings:
    """Table `[packs]`: which [packs](packs.md) are read, and what they are told."""

    paths: tuple[str, ...] = ()
    """Folders: each is a pack, or holds packs. A relative path belongs to the file's folder. The
    folder `packs` where Toolgate runs and packs that were installed are found without."""

    enable: tuple[str, ...] = ()
    """Packs of Toolgate itself that are used; `schema` is without."""

    disable: tuple[str, ...] = ()
    """Packs that are found and not used."""

    dev: bool = False
    """Whether intents that are marked `dev = true` are used too."""

    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[packs.options.NAME]`: what the tools of the pack NAME are told. See the pack."""


@dataclass(frozen=True, kw_only=True)
class RuleSettings:
    """Table `[rules]`: what models are told when they ask for the rules of a request.

    See [rules](enrich.md).
    """

    budget_tokens: int = _between(8_000, 200, 1_000_000)
    """Most estimated tokens of the rules in one answer; 200 to 1,000,000."""

    show_detection: bool = False
    """Whether an enriched prompt has a line that says how sure its intent is, and what else it
    could be."""

    recovery: bool = True
    """Whether a call that does not go with the last request, or whose arguments do not fit, is
    answered with the right rules and tools."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values of variables in rules, such as `PROJECT_NAME = "shop"`, in place of what packs say."""


@dataclass(frozen=True, kw_only=True)
class ModelTable:
    """Table `[models.NAME]`: a chat model that [turns](chat.md) can use, under a name of yours."""

    provider: str = "openai"
    """File name in `llm/`: `openai` for OpenAI and every service that speaks like it, `anthropic`,
    `google`, or `scripted` for demonstrations and tests."""

    model: str = ""
    """What the service calls it; empty: NAME."""

    url: str = ""
    """Address of the service, such as `http://127.0.0.1:11434/v1`; empty: the provider's own."""

    key: str = field(default="", repr=False)
    """Key of the service; write `${env:NAME}` and not the key itself."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Further options of the provider. See [chat](chat.md)."""

    aliases: tuple[str, ...] = ()
    """Other names under which clients may ask for it, such as `gpt-4o`."""

    fallbacks: tuple[str, ...] = ()
    """Names of other models that are asked in its place, in this order, when it cannot be reached
    or has no time, as long as nothing of an answer has come."""

    retries: int = _between(2, 0, 10)
    """How often a request is repeated that failed before anything of the answer came; 0 to 10."""

    retry_within_s: float = _between(20.0, 0, 600)
    """Seconds that pauses before repeated requests may take in all; 0 to 600."""

    first_token_s: float = _between(60.0, 0.1, 3600)
    """Seconds until the first piece of an answer; 0.1 to 3,600."""

    silence_s: float = _between(60.0, 0.1, 3600)
    """Seconds between two pieces of an answer; 0.1 to 3,600."""

    timeouts_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds of a whole answer by its purpose: `answer` (600), `rephrase` (60), `grade` (30),
    `classify` (15), `select` (30), `summary` (120)."""

    context_tokens: int = _between(128_000, 500, 100_000_000)
    """Estimated tokens that a request may have; 500 to 100,000,000. Threads are made shorter for
    it."""

    images: bool = True
    """Whether it can be sent images."""

    tool_messages: bool = True
    """Whether it understands calls and their results as messages; otherwise these are written into
    a message of the user."""

    price_input: float = _between(0.0, 0, 1_000_000)
    """Price of 1,000,000 tokens that are sent; 0 to 1,000,000."""

    price_cached: float | None = _between(None, 0, 1_000_000)
    """The same for tokens that the service has in its cache, 0 to 1,000,000; none: as
    `price_input`."""

    price_output: float = _between(0.0, 0, 1_000_000)
    """Price of 1,000,000 tokens of answers; 0 to 1,000,000."""


@dataclass(frozen=True, kw_only=True)
class ChatSettings:
    """Table `[chat]`: whole turns behind `/v1`. See [chat](chat.md).

    It answers as soon as there is a `[models.NAME]`.
    """

    model: str = ""
    """Name of the model that answers when a request asks for none; empty: the first one."""

    helper_model: str = ""
    """Name of the model that rephrases, grades, classifies and sums up; empty: the one that
    answers."""

    engine: str = "langgraph"
    """File name in `flow/`: what goes from step to step, `langgraph` or `plain`, which needs no
    library and does the same."""

    tools_enabled: tuple[str, ...] = ("Vector Search", "NL2SQL")
    """Which kinds of tools of the packs `documents` and `sql` a turn has; tools of other servers
    are not touched by it."""

    retrieval: Literal["auto", "forced", "classifier"] = "auto"
    """Who decides that documents are looked up: the model (`auto`), nobody since it always happens
    (`forced`), or a look at the question before (`classifier`)."""

    history: bool = True
    """Whether the model sees earlier turns of the thread."""

    rephrase: bool = True
    """Whether a question that refers to earlier ones is made one that stands alone, before
    documents are searched."""

    grade: bool = True
    """Whether a model looks if the documents that were found help."""

    top_k: int = _between(8, 1, 100)
    """Documents of a turn; 1 to 100."""

    search_type: Literal["similarity", "similarity_score_threshold", "mmr", "hybrid"] = "hybrid"
    """How documents are searched."""

    inject: Literal["tail", "system"] = "tail"
    """Where documents are put: at the end of the conversation, so that what was sent before is
    sent the same again and services have it in their cache, or in the system message."""

    call_before_model: Literal["exact", "any", "off"] = "exact"
    """Whether the tool of an intent is called before the model is asked: when an exact keyword and
    all arguments are in the message, for `any` intent with a tool, or never."""

    max_tools: int = _between(10, 1, 128)
    """Most tools that a turn begins with, pinned ones included; 1 to 128."""

    thread_tools: int = _between(32, 1, 512)
    """Most tools that a thread collects in its turns; 1 to 512. Further ones are reached through
    the meta-tools."""

    meta_tools: bool = True
    """Whether the model gets `tool_discovery` and `tool_execute` too, to find more."""

    max_steps: int = _between(50, 1, 1_000)
    """Answers of the model in one turn; 1 to 1,000."""

    max_tool_calls: int = _between(100, 0, 10_000)
    """Calls of tools in one turn; 0 to 10,000."""

    max_sql_calls: int = _between(10, 0, 10_000)
    """Calls of tools of the pack `sql` in one turn; 0 to 10,000."""

    max_tokens: int = _between(1_000_000, 100, 1_000_000_000)
    """Tokens of all requests and answers of one turn; 100 to 1,000,000,000."""

    max_cost: float = _between(0.0, 0, 1_000_000)
    """What one turn may cost, by the prices of its models; 0 to 1,000,000, 0: as much as it
    does."""

    max_seconds: float = _between(600.0, 1, 86_400)
    """Seconds of one turn; 1 to 86,400."""

    parallel_calls: int = _between(4, 1, 64)
    """Calls of one answer that run at the same time; 1 to 64. Tools that may destroy run one after
    another."""

    thread_policy: Literal["reject", "enqueue", "interrupt", "rollback"] = "enqueue"
    """What happens to a turn when its thread has one that runs: it is refused, waits, or ends the
    other, of which what was said stays (`interrupt`) or goes (`rollback`)."""

    results: Mapping[str, str] = field(default_factory=dict[str, str])
    """What later requests have of the results of tools, by pattern of their keys: `keep` all,
    `stub` a line in place of the result, `drop_pair` neither call nor result."""

    result_tokens: int = _between(25_000, 100, 10_000_000)
    """Most estimated tokens of one result of a tool; 100 to 10,000,000. What is longer is cut."""

    injected: tuple[str, ...] = ("thread_id",)
    """Parameters of tools that no model sees or sets: `thread_id`, `project_id`, `caller_id`,
    `turn_id`. They are taken out of schemas and filled in with what is true."""

    compact_share: float = _between(0.8, 0.1, 1.0)
    """Part of the model's `context_tokens` from which on a thread is made shorter; 0.1 to 1.0."""

    keep_turns: int = _between(4, 1, 1_000)
    """Latest turns of which nothing is taken away then; 1 to 1,000."""

    approval_wait_s: float = _between(0.0, 0, 86_400)
    """Seconds that a streamed turn waits for an approval before it ends and is taken up later; 0
    to 86,400."""

    heartbeat_s: float = _between(15.0, 0.05, 600)
    """Seconds of silence after which a stream says that it is alive; 0.05 to 600."""

    issue_url: str = ""
    """Address that error messages to users name for reports; empty: none is named."""


@dataclass(frozen=True, kw_only=True)
class DocumentModelTable:
    """Table `[documents.models.NAME]`: an embedding model that collections may have."""

    embedder: str = "bundled"
    """File name in `embed/`: `bundled`, `onnx`, `openai`."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of the embedder; see [embedders](embedders.md)."""

    enabled: bool = True
    """Whether it is used; collections of a model that is not are left out."""


@dataclass(frozen=True, kw_only=True)
class DocumentSettings:
    """Table `[documents]`: how documents are kept and found. See [documents](documents.md)."""

    model: str = "bundled"
    """Embedding model of new collections: a name of `[documents.models]`, or a file name in
    `embed/` that needs no options."""

    models: Mapping[str, DocumentModelTable] = field(default_factory=dict[str, DocumentModelTable])
    """Tables `[documents.models.NAME]`: embedding models by name."""

    metric: Literal["cosine", "euclidean", "dot"] = "cosine"
    """How vectors of new collections are compared."""

    place: str = "auto"
    """File name in `passages/`: where vectors of new collections are kept, `sqlite`, `pgvector`,
    `milvus` or `qdrant`. `auto`: in the store."""

    place_options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[documents.place_options.NAME]`: options of a place."""

    search_type: Literal["similarity", "similarity_score_threshold", "mmr", "hybrid"] = "hybrid"
    """How passages are found: `similarity`, the nearest; `similarity_score_threshold`, those of
    them that are near enough; `mmr`, near ones that differ; `hybrid`, by meaning and by words."""

    top_k: int = _between(4, 1, 100)
    """Passages that a question gets; 1 to 100."""

    score_threshold: float = _between(0.65, 0, 1)
    """Least similarity with `similarity_score_threshold`, 0 to 1; 0: none."""

    fetch_k: int = _between(20, 1, 1000)
    """Passages that `mmr` and `hybrid` choose from; 1 to 1,000."""

    lambda_mult: float = _between(0.5, 0, 1)
    """With `mmr`, how much nearness counts against variety; 0 to 1."""

    max_collections: int = _between(3, 1, 20)
    """Collections that a chat model may choose for a question; 1 to 20."""

    rephrase: bool = True
    """Whether a question that refers back is made whole by its conversation first."""

    grade: bool = True
    """Whether a chat model says if passages help, so that those which do not are left out."""

    rephrase_timeout_s: float = _between(60.0, 0.1, 3600)
    """Seconds that rephrasing and choosing collections may take; 0.1 to 3,600."""

    grade_timeout_s: float = _between(30.0, 0.1, 3600)
    """Seconds that grading may take; 0.1 to 3,600."""

    timeout_s: float = _between(15.0, 0.1, 3600)
    """Seconds that a collection may take to answer; 0.1 to 3,600."""

    cooldown_s: float = _between(30.0, 0, 3600)
    """Seconds for which a collection that failed three times in a row is not asked; 0 to 3,600."""

    passage_tokens: int = _between(300, 32, 8000)
    """Estimated tokens of a passage at most; 32 to 8,000. Documents that were cut otherwise are
    cut anew when they are added again."""

    max_file_mb: int = _between(64, 1, 2048)
    """Megabytes of a file at most; 1 to 2,048."""

    max_text_mb: int = _between(16, 1, 1024)
    """Megabytes of the text in a file at most; 1 to 1,024."""

    convert_timeout_s: float = _between(120.0, 1, 3600)
    """Seconds that reading one file may take; 1 to 3,600."""


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
    """Which meta-tools are listed; `result_read` appears only once a result was paged,
    `processPrompt` and `getKnowledge` while a pack with rules is loaded, whatever `mode` says."""

    pinned: tuple[str, ...] = ()
    """Tool keys (`server:tool`) that are always listed beside the meta-tools."""

    optimization: str = "hybrid"
    """How `tool_discovery` finds tools: `bm25` by words, `hybrid` by words and meaning, `cloud` by
    a search service, `off` not at all, or the name of another search that is installed. With `off`
    the real tools are listed, as with `mode = "all"`."""

    experiment_percent: float = _between(100.0, 0, 100)
    """Per cent of the conversations that get `optimization`; the others get `bm25`, or `off` where
    it is `bm25`. 0 to 100. `toolgate audit compare` shows both side by side."""

    quarantine: Literal["off", "suspicious", "changed", "new"] = "suspicious"
    """Which tools are held back until `toolgate servers approve`: those that the scanner finds
    `suspicious`, new or changed; every tool that has `changed`, too; every `new` one, too; or none
    (`off`)."""

    max_name_chars: int = _between(48, 24, 64)
    """Most characters of an exposed name; 24 to 64."""

    servers: tuple[ServerSpec, ...] = field(default=(), metadata=_DERIVED)
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

    config_file: Path | None = field(default=None, metadata=_DERIVED)
    """The `toolgate.toml` that was read; None when there is none."""

    imports: tuple[str, ...] = field(default=(), metadata=_DERIVED)
    """Files named by `--import`, for reading the same again."""

    overrides: Mapping[str, object] = field(default_factory=dict[str, object], metadata=_DERIVED)
    """Values that the command line put in place of those of the file."""

    files: tuple[Path, ...] = field(default=(), metadata=_DERIVED)
    """The files that this was read from, imports included; watched while running."""

    notices: tuple[str, ...] = field(default=(), metadata=_DERIVED)
    """What a person should know although it stops nothing: names that were changed, entries that
    were left out, variables that are missing, keys that have a new name."""

    project_optimizations: tuple[str, ...] = field(default=(), metadata=_DERIVED)
    """What projects set as `optimization`, those of the store too; filled in while running."""

    @property
    def control(self) -> str:
        """What the conversations get that `experiment_percent` leaves out."""
        return "off" if self.optimization == "bm25" else "bm25"

    @property
    def optimizations(self) -> frozenset[str]:
        """What conversations may get: `optimization`, the control, or both."""
        given = {self.optimization} if self.experiment_percent > 0 else set[str]()
        return frozenset(given | ({self.control} if self.experiment_percent < 100 else set()))
