"""Tables about access: authentication, limits, permissions, guards, approvals, projects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolgate.settings.tables.fields import DERIVED, between

__all__ = [
    "ApprovalSettings",
    "AuthnSettings",
    "CredentialSettings",
    "GuardTable",
    "LimitSettings",
    "PermissionTable",
    "ProjectTable",
    "ToolLimitTable",
]


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

    login_s: float = between(600.0, 30, 3600)
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

    calls_per_minute: int = between(0, 0, 1_000_000)
    """Calls of one tool within a minute; 0 to 1,000,000, 0: as many as come."""

    concurrent_calls: int = between(0, 0, 100_000)
    """Calls of one tool at the same time; 0 to 100,000, 0: as many as come."""


@dataclass(frozen=True, kw_only=True)
class LimitSettings:
    """Table `[limits]`: how much one caller may do. A project and a token can have their own.

    Each process counts for itself, from its start.
    """

    calls_per_minute: int = between(0, 0, 1_000_000)
    """Calls of tools within a minute; 0 to 1,000,000, 0: as many as come."""

    concurrent_calls: int = between(0, 0, 100_000)
    """Calls of tools at the same time; 0 to 100,000, 0: as many as come."""

    calls_per_day: int = between(0, 0, 1_000_000_000)
    """Calls of tools within a day (UTC); 0 to 1,000,000,000, 0: as many as come."""

    tokens_per_day: int = between(0, 0, 1_000_000_000_000)
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
    """For whom: `everyone`, `token:NAME`, `role:NAME`, `user:NAME`, `user@jwt:NAME`, `group:NAME`
    or `project:NAME`."""

    allow: tuple[str, ...] = ()
    """What they may do: patterns such as `github`, `github:get_*`, `*`."""

    deny: tuple[str, ...] = ()
    """What they may not do, whatever is allowed elsewhere."""

    hint: Literal["", "read_only", "destructive"] = ""
    """Only tools that are marked so."""

    source: str = field(default="", metadata=DERIVED)
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

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Columns by table of the database behind `sql`, for PostgreSQL: `{ orders = ["id"] }`. If any
    are given, `t.f` is let through only if it is one of them: it can also call a function `f`."""

    max_argument_bytes: int = between(0, 0, 2**31)
    """Most bytes of the arguments as JSON; 0 to 2,147,483,648, 0: as many as come."""

    max_result_bytes: int = between(0, 0, 2**31)
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

    source: str = field(default="", metadata=DERIVED)
    """File and line."""


@dataclass(frozen=True, kw_only=True)
class ApprovalSettings:
    """Table `[approvals]`: calls that wait for a person. See [guards](guards.md)."""

    expire_s: float = between(3600.0, 10, 604_800)
    """Seconds in which somebody can decide, and in which the call can then be made; 10 to 604,800.
    """

    wait_s: float = between(0.0, 0, 600)
    """Seconds that a call waits for the decision before it is answered that it waits; 0 to 600.
    """

    max_waiting: int = between(100, 1, 10_000)
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

    budget_tokens: int = between(0, 0, 100_000)
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
