"""Tables about access: authentication, limits, permissions, guards, approvals, projects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolgate.settings.tables.fields import DERIVED, between


@dataclass(frozen=True, kw_only=True)
class CredentialSettings:
    """Table `[credentials]`: storage of server credentials, and logins to servers.

    See [credentials.md](credentials.md).
    """

    key: Literal["file", "keyring"] = "file"
    """Where the key that encrypts credentials is kept: `file`, in the data folder and readable only
    by your user, or `keyring`, the keyring of the system. The environment variable
    `TOOLGATE_CREDENTIALS_KEY` overrides both."""

    client_name: str = "Toolgate"
    """Application name shown by authorization servers on the consent page."""

    client_metadata_url: str = ""
    """`https://` URL of the OAuth client ID metadata document. Default: the gateway's own if
    `authn.resource` is an `https://` URL, otherwise none."""

    login_s: float = between(600.0, 30, 3600)
    """Time limit for a login to a server, in seconds; 30 to 3,600."""


@dataclass(frozen=True, kw_only=True)
class AuthnSettings:
    """Table `[authn]`: how callers authenticate. See [permissions.md](permissions.md)."""

    order: tuple[str, ...] = ("token",)
    """Authentication methods, tried in this order: `token` (tokens from `toolgate tokens create`),
    `jwt` (tokens from an identity provider), or an installed plugin."""

    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[authn.options.NAME]`: options of an authentication method; `jwt` needs `issuer` and
    `audience`."""

    resource: str = ""
    """Public URL of `/mcp`; clients use it to log in (RFC 9728). Default: taken from each request.
    Set it behind a proxy that changes the host name or path."""


@dataclass(frozen=True, kw_only=True)
class ToolLimitTable:
    """Table `[limits.tools."PATTERN"]`: limits per tool, for all callers together."""

    calls_per_minute: int = between(0, 0, 1_000_000)
    """Maximum calls per tool and minute; 0 to 1,000,000, 0: unlimited."""

    concurrent_calls: int = between(0, 0, 100_000)
    """Maximum concurrent calls per tool; 0 to 100,000, 0: unlimited."""


@dataclass(frozen=True, kw_only=True)
class LimitSettings:
    """Table `[limits]`: limits per caller. A project and a token can have their own.

    Day limits are counted in the store. The others are counted in the store with PostgreSQL, and by
    each process with SQLite.
    """

    calls_per_minute: int = between(0, 0, 1_000_000)
    """Maximum tool calls per minute; 0 to 1,000,000, 0: unlimited."""

    concurrent_calls: int = between(0, 0, 100_000)
    """Maximum concurrent tool calls; 0 to 100,000, 0: unlimited."""

    calls_per_day: int = between(0, 0, 1_000_000_000)
    """Maximum tool calls per day (UTC); 0 to 1,000,000,000, 0: unlimited."""

    tokens_per_day: int = between(0, 0, 1_000_000_000_000)
    """Maximum estimated tokens in tool results per day (UTC); 0 to 1,000,000,000,000, 0: unlimited.
    """

    tools: Mapping[str, ToolLimitTable] = field(default_factory=dict[str, ToolLimitTable])
    """Tables by tool pattern, such as `[limits.tools."github:*"]`."""


@dataclass(frozen=True, kw_only=True)
class PermissionTable:
    """A table `[[permission]]`: a permission rule. See [permissions.md](permissions.md).

    Permission rules apply with `auth = "required"`.
    """

    to: tuple[str, ...] = ()
    """Who the rule applies to: `everyone`, `token:NAME`, `role:NAME`, `user:NAME`, `user@jwt:NAME`,
    `group:NAME` or `project:NAME`."""

    allow: tuple[str, ...] = ()
    """Allowed tools, as patterns: `github`, `github:get_*`, `*`."""

    deny: tuple[str, ...] = ()
    """Denied tools, as patterns; deny takes precedence over every allow."""

    hint: Literal["", "read_only", "destructive"] = ""
    """Limits the rule to tools with this annotation."""

    source: str = field(default="", metadata=DERIVED)
    """File and line."""


@dataclass(frozen=True, kw_only=True)
class GuardTable:
    """A table `[[guard]]`: checks on calls of some tools. See [guards](guards.md).

    All guards that match a call apply, in their order.
    """

    tools: tuple[str, ...] = ("*",)
    """Tools to check, as patterns: `*`, `SERVER` or `SERVER:TOOL`; `*` matches any text, `?` one
    character."""

    projects: tuple[str, ...] = ()
    """Only check calls in these projects; empty: in all."""

    hint: Literal["", "read_only", "destructive"] = ""
    """Only check tools with this annotation."""

    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    """JSON Schema for the arguments, in addition to the tool's own."""

    deny: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Regular expressions by argument name (`*`: all arguments) that no text in the argument may
    match: `{ path = ["^/etc/"], "*" = ["rm -rf"] }`. Lookaround and backreferences are not
    supported."""

    sql: Mapping[str, str] = field(default_factory=dict[str, str])
    """Arguments that contain SQL, with their dialect: `{ sql = "postgres" }`. Only a single
    read-only statement passes, as in the tool `query` of the [pack `sql`](sql.md). Dialects:
    `postgres`, `sqlite`, `oracle`, `mysql`, `duckdb`; any other word: only what is harmless in all
    of them."""

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Columns by table of the database behind `sql`, for PostgreSQL: `{ orders = ["id"] }`. If set,
    `t.f` passes only if it is one of them, because it can also call a function `f`."""

    max_argument_bytes: int = between(0, 0, 2**31)
    """Maximum size of the arguments as JSON, in bytes; 0 to 2,147,483,648, 0: unlimited."""

    max_result_bytes: int = between(0, 0, 2**31)
    """Maximum size of the result as JSON, in bytes; 0 to 2,147,483,648, 0: unlimited."""

    secrets_in_arguments: Literal["", "mask", "block"] = ""
    """If arguments contain secrets: `mask` them, or `block` the call; empty: no check."""

    secrets_in_results: Literal["", "mask", "block"] = ""
    """If the result contains secrets: `mask` them, or `block` the result; empty: no check."""

    approver: Literal["", "user", "admin"] = ""
    """Who has to approve each call: `user` (the user of the client, or anyone with the right
    `approve`) or `admin` (someone else with the right `approve`, never the caller); empty: nobody.
    """

    reason: str = ""
    """Reason, shown to models and users."""

    source: str = field(default="", metadata=DERIVED)
    """File and line."""


@dataclass(frozen=True, kw_only=True)
class ApprovalSettings:
    """Table `[approvals]`: calls that need approval. See [guards](guards.md)."""

    expire_s: float = between(3600.0, 10, 604_800)
    """Lifetime of an approval request in seconds: within it, the call must be approved and made; 10
    to 604,800."""

    wait_s: float = between(0.0, 0, 600)
    """How long a call waits for the decision before the client is told to retry, in seconds; 0 to
    600."""

    max_waiting: int = between(100, 1, 10_000)
    """Maximum number of calls waiting for approval, per caller; 1 to 10,000."""


@dataclass(frozen=True, kw_only=True)
class ProjectTable:
    """Table `[project.NAME]`: servers of a project, and its own values of settings."""

    servers: tuple[str, ...] = ()
    """Names of the project's servers, which are invisible in other projects. A server can be in
    several projects; the key `project` of a server has the same effect for that server."""

    optimization: str = ""
    """Search strategy: `off`, `bm25`, `hybrid`, `cloud` or a plugin; empty: the top-level
    `optimization`."""

    mode: Literal["", "auto", "meta", "all"] = ""
    """What `tools/list` returns; empty: the top-level `mode`."""

    pinned: tuple[str, ...] = ()
    """Additional tools that are always listed."""

    budget_tokens: int = between(0, 0, 100_000)
    """Replaces `discovery.budget_tokens`; 0 to 100,000, 0: not set."""

    read_only: bool = False
    """Whether only tools that are marked read-only may run."""

    read_only_allow: tuple[str, ...] = ()
    """Tools that this project treats as read-only even if they are not marked read-only, as
    patterns: `SERVER`, `SERVER:TOOL`."""

    shared_servers: bool = True
    """Whether servers that belong to no project are visible too."""

    audit: Literal["", "open", "closed"] = ""
    """Replaces `audit.on_failure`; empty: not set."""

    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Limits for each caller in the project; they replace those of `[limits]`."""
