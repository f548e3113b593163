"""Tables about servers: `[server.NAME]`, `[connections.NAME]`, and files to import."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolgate.settings.tables.fields import between

__all__ = [
    "ConnectionTable",
    "CredentialTable",
    "ImportTable",
    "ParameterTable",
    "ServerTable",
    "ToolTable",
    "UpstreamTlsTable",
]


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
class ParameterTable:
    """Table `[server.NAME.tools.TOOL.parameters.PARAMETER]`: what differs for one parameter.

    `${user.id}`, `${user.name}`, `${user.project}`, `${user.roles}` and `${user.groups}` in values
    stand for the caller; see [overrides.md](overrides.md).
    """

    value: object = None
    """Always sent; callers neither see the parameter nor send it."""

    default: object = None
    """Sent when the caller sends nothing; callers see it."""

    hide: bool = False
    """Whether callers neither see the parameter nor send it; its `default`, if there is one, is
    sent always."""

    description: str = ""
    """In place of what the server says about it; empty: that stays."""


@dataclass(frozen=True, kw_only=True)
class ToolTable:
    """Table `[server.NAME.tools.TOOL]`: what differs for one tool of a server.

    See [overrides.md](overrides.md). `TOOL` is the name that the server uses.
    """

    name: str = ""
    """The name for clients, 1 to 64 characters of `A-Z a-z 0-9 _ . -`; empty: the tool's own.
    Permissions and guards go on naming the tool by its own name."""

    description: str = ""
    """In place of what the server says about the tool; empty: that stays."""

    hide: bool = False
    """Whether nobody sees or runs it."""

    tags: tuple[str, ...] = ()
    """Words by which the search finds it besides its texts."""

    parameters: Mapping[str, ParameterTable] = field(default_factory=dict[str, ParameterTable])
    """Tables `[server.NAME.tools.TOOL.parameters.PARAMETER]` by the name of the parameter."""

    cache_s: float | None = between(None, 0.1, 86_400)
    """Seconds for which a result is kept and given for the same arguments, 0.1 to 86,400; absent:
    none is. Only for tools that are marked read-only, of servers that are trusted. See
    [kept results](concepts.md#kept-results)."""

    cache_for: Literal["caller", "project", "all"] = "caller"
    """Who gets a result that is kept: the same `caller`, all of its `project`, or `all`. WARNING:
    others than the caller may see what only it was allowed to see at the server."""

    timeout_s: float | None = between(None, 0.001, 86_400)
    """Seconds a call of this tool may take without progress, 0.001 to 86,400; the server's
    `timeout_s` when it is absent."""


@dataclass(frozen=True, kw_only=True)
class ServerTable:
    """Table `[server.NAME]`: one server behind the gateway, with the keys of a `mcpServers` entry.

    It has exactly one of `command`, `url` and `python`, or the `type` of a plugin and `options`.
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
    """Headers of each request to it, such as `Authorization`."""

    forward_headers: tuple[str, ...] = ()
    """Names of headers of clients that go on to it with calls, reads and prompts, such as
    `X-Tenant`; by default none do. See
    [forwarded headers](credentials.md#headers-of-the-client). WARNING: with `Authorization` it gets
    the credential that the caller showed to the gateway."""

    credentials: CredentialTable = CredentialTable()
    """Table `[server.NAME.credentials]`: what else is shown to it."""

    tls: UpstreamTlsTable = UpstreamTlsTable()
    """Table `[server.NAME.tls]`: certificates."""

    proxy: str = ""
    """Address of the proxy for it, in place of what `[outbound]` says; `none`: without."""

    type: str = ""
    """`stdio`, `http`, `sse`, or the transport of a [plugin](plugins.md). Default: `stdio` with a
    `command`; with a `url` `sse` when its path ends in `/sse`, else `http`."""

    transport: str = ""
    """Another name for `type`, as some clients write it."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Table `[server.NAME.options]`: options of a plugin's transport."""

    python: str = ""
    """`module:attribute` of a FastMCP server that runs inside Toolgate."""

    timeout_s: float = between(60.0, 0.001, 86_400)
    """Seconds a call may take without progress; 0.001 to 86,400."""

    max_timeout_s: float = between(600.0, 0.001, 86_400)
    """Seconds a call may take in all, however often it reports progress; 0.001 to 86,400. Default:
    600, or `timeout_s` if that is more."""

    tools: Mapping[str, ToolTable] = field(default_factory=dict[str, ToolTable])
    """Tables `[server.NAME.tools.TOOL]` by the tool's own name."""

    enabled: bool = True
    """Whether it is connected."""

    disabled: bool = False
    """The opposite of `enabled`, as some clients write it."""

    start: Literal["always", "on-demand"] = "always"
    """`always`: it is connected while the gateway runs; `on-demand`: the first call starts it, and
    it is stopped when nobody has used it for `idle_s`. See
    [servers that start on demand](concepts.md#servers-that-start-on-demand)."""

    idle_s: float = between(300.0, 0.1, 604_800)
    """Seconds without use after which a server with `start = "on-demand"` is stopped; 0.1 to
    604,800."""

    pinned: tuple[str, ...] = ()
    """Names of its tools that are always listed beside the meta-tools."""

    trust: bool = True
    """Whether its annotations (read-only, idempotent) are believed: an interrupted call of such a
    tool is then repeated by itself. WARNING: a server that lies makes a call run twice; set it to
    false for servers that you do not know."""

    max_message_bytes: int = between(64 * 2**20, 1024, 2**31)
    """Largest message that is read from it, 1,024 to 2,147,483,648; a larger one fails its call."""

    era: Literal["auto", "modern", "handshake"] = "auto"
    """Protocol era: `modern` is 2026-07-28, `handshake` everything before; `auto` finds out."""

    title: str = ""
    """A name for people; filled in by itself when the server's name had to be changed."""

    project: str = ""
    """The project it belongs to; empty: to none, and all see it."""

    tool_permissions: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Names of its tools with false: nobody sees or runs them, whatever else is allowed. Names may
    be patterns with `*` and `?`; the name itself counts before patterns, and of those the longest:
    `{ "*" = false, search = true }` leaves one tool."""

    audit: Literal["hashes", "full"] = "hashes"
    """What the audit log keeps of arguments and results of its tools: hashes, sizes and shapes, or
    all of them up to 32 kB each, secrets masked."""


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

    snapshot_every_minutes: float = between(60.0, 0, 525_600)
    """Minutes from one look at its schema to the next, 0 to 525,600; 0: only when a tool asks."""

    timeout_s: float = between(20.0, 0.1, 3600)
    """Seconds that connecting and reading may take; 0.1 to 3,600."""
