"""Tables about servers: `[server.NAME]`, `[connections.NAME]`, and files to import."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolgate.settings.tables.fields import between


@dataclass(frozen=True, kw_only=True)
class CredentialTable:
    """Table `[server.NAME.credentials]`: credentials for a server.

    See [credentials.md](credentials.md). Most servers need no such table: for a server with a
    login, run `toolgate servers login NAME`.
    """

    type: Literal["stored", "oauth", "client_credentials", "token_exchange"] = "stored"
    """Which credentials are sent. `stored`: those from `toolgate credentials set` or `toolgate
    servers login`, if there are any. `oauth`: an OAuth login; without one, calls fail.
    `client_credentials`: an access token for the gateway itself. `token_exchange`: a token obtained
    in exchange for the caller's own (RFC 8693)."""

    per: Literal["server", "project", "user"] = "server"
    """Whether there is one set of credentials for the `server`, for each `project`, or for each
    `user`."""

    scopes: tuple[str, ...] = ()
    """OAuth scopes to request; empty: those that the server asks for."""

    client_id: str = ""
    """OAuth client ID; empty: Toolgate registers itself when needed."""

    client_secret: str = field(default="", repr=False)
    """OAuth client secret, preferably `${env:NAME}`; empty: a public client."""

    issuer: str = ""
    """URL of the authorization server; empty: discovered from the server. With `client_secret` or
    `token_exchange`, this or `token_url` is required, so that no server can name who receives the
    secret or the callers' tokens."""

    token_url: str = ""
    """URL of the token endpoint; empty: from the metadata of the authorization server."""

    audience: str = ""
    """Audience to request tokens for, if the authorization server needs it."""

    headers: tuple[str, ...] = ()
    """Names of headers to send, such as `Authorization`; set their values with `toolgate
    credentials set`."""

    env: tuple[str, ...] = ()
    """Names of environment variables to set; set their values with `toolgate credentials set`."""


@dataclass(frozen=True, kw_only=True)
class UpstreamTlsTable:
    """Table `[server.NAME.tls]`: certificates for HTTPS connections to a server."""

    ca: str = ""
    """PEM file with the trusted CA certificates; empty: those of the system. Relative paths are
    resolved against the folder of `toolgate.toml`."""

    cert: str = ""
    """PEM file with the client certificate."""

    key: str = ""
    """PEM file with the key of the client certificate; empty: it is in the same file."""


@dataclass(frozen=True, kw_only=True)
class ParameterTable:
    """Table `[server.NAME.tools.TOOL.parameters.PARAMETER]`: changes to one parameter.

    Values may contain `${user.id}`, `${user.name}`, `${user.project}`, `${user.roles}` and
    `${user.groups}` of the caller; see [overrides.md](overrides.md).
    """

    value: object = None
    """Fixed value; callers neither see nor set the parameter."""

    default: object = None
    """Default value; callers see the parameter and may set it."""

    hide: bool = False
    """Whether the parameter is hidden from callers; its `default`, if any, is always sent."""

    description: str = ""
    """Replaces the server's description; empty: not replaced."""


@dataclass(frozen=True, kw_only=True)
class ToolTable:
    """Table `[server.NAME.tools.TOOL]`: changes to one tool of a server.

    See [overrides.md](overrides.md). `TOOL` is the server's own name for the tool.
    """

    name: str = ""
    """Name shown to clients, 1 to 64 characters of `A-Z a-z 0-9 _ . -`; empty: the tool's own.
    Permissions and guards still use the tool's own name."""

    description: str = ""
    """Replaces the server's description; empty: not replaced."""

    hide: bool = False
    """Whether to hide the tool, so that nobody can see or call it."""

    tags: tuple[str, ...] = ()
    """Extra search keywords for the tool."""

    parameters: Mapping[str, ParameterTable] = field(default_factory=dict[str, ParameterTable])
    """Tables `[server.NAME.tools.TOOL.parameters.PARAMETER]` by parameter name."""

    cache_s: float | None = between(None, 0.1, 86_400)
    """How long a result is cached for the same arguments, in seconds, 0.1 to 86,400; default: not
    at all. Only for tools marked read-only, on trusted servers. See [cached
    results](concepts.md#cached-results)."""

    cache_for: Literal["caller", "project", "all"] = "caller"
    """Who shares a cached result: the same `caller`, all callers in its `project`, or `all`.
    WARNING: with `project` and `all`, other callers may get results that only the first caller is
    allowed to see."""

    timeout_s: float | None = between(None, 0.001, 86_400)
    """How long a call may go without reporting progress, in seconds, 0.001 to 86,400; default:
    `timeout_s` of the server."""


@dataclass(frozen=True, kw_only=True)
class ServerTable:
    """Table `[server.NAME]`: an MCP server; the keys are those of `mcpServers` entries.

    Needs exactly one of `command`, `url` and `python`, or the `type` of a plugin with `options`.
    """

    command: str = ""
    """Program of a stdio server. A path that starts with `./` is resolved against the folder of
    `toolgate.toml`."""

    args: tuple[float | str, ...] = ()
    """Arguments of the program; a leading `~/` is the home folder."""

    env: Mapping[str, bool | float | str] = field(default_factory=dict[str, bool | float | str])
    """Environment variables for the program, in addition to a safe minimum; it inherits nothing
    else. A value `${NAME:-}` is omitted if `NAME` is not set."""

    env_file: str = ""
    """File with more variables, one `NAME=VALUE` per line; `env` takes precedence."""

    cwd: str = ""
    """Working directory of the program; a relative path is resolved against the folder of
    `toolgate.toml`. Default: Toolgate's own."""

    url: str = ""
    """URL of an HTTP server, `http://` or `https://`."""

    headers: Mapping[str, float | str] = field(default_factory=dict[str, float | str])
    """HTTP headers for every request to the server, such as `Authorization`."""

    forward_headers: tuple[str, ...] = ()
    """Client headers to forward to the server with calls, resource reads and prompts, such as
    `X-Tenant`; default: none. See [forwarded headers](credentials.md#headers-of-the-client).
    WARNING: forwarding `Authorization` gives the server the caller's gateway credential."""

    credentials: CredentialTable = CredentialTable()
    """Table `[server.NAME.credentials]`: logins and other credentials."""

    tls: UpstreamTlsTable = UpstreamTlsTable()
    """Table `[server.NAME.tls]`: certificates for HTTPS."""

    proxy: str = ""
    """Proxy URL for this server, instead of `outbound.proxy`; `none`: no proxy."""

    type: str = ""
    """Transport: `stdio`, `http`, `sse`, or one added by a [plugin](plugins.md). Default: `stdio`
    with `command`; with `url`, `sse` if its path ends in `/sse`, otherwise `http`."""

    transport: str = ""
    """Synonym of `type`, used by some clients."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Table `[server.NAME.options]`: options of a plugin's transport."""

    python: str = ""
    """Python code that runs inside Toolgate: `FILE.py` or `MODULE` with functions marked with
    `@tool`, or one object in it, `FILE.py:NAME` or `MODULE:NAME`: a function, a list of functions
    or a FastMCP server. Files are relative to the folder of the configuration."""

    timeout_s: float = between(60.0, 0.001, 86_400)
    """How long a call may go without reporting progress, in seconds; 0.001 to 86,400."""

    max_timeout_s: float = between(600.0, 0.001, 86_400)
    """Total timeout of a call, even if it reports progress, in seconds; 0.001 to 86,400. Default:
    600, or `timeout_s` if that is more."""

    tools: Mapping[str, ToolTable] = field(default_factory=dict[str, ToolTable])
    """Tables `[server.NAME.tools.TOOL]` by the tool's own name."""

    enabled: bool = True
    """Whether Toolgate connects to the server."""

    disabled: bool = False
    """Inverse of `enabled`, for compatibility with some clients."""

    start: Literal["always", "on-demand"] = "always"
    """`always`: connected while the gateway runs. `on-demand`: started by the first call and
    stopped after `idle_s` without use. See [servers that start on
    demand](concepts.md#servers-that-start-on-demand)."""

    idle_s: float = between(300.0, 0.1, 604_800)
    """With `start = "on-demand"`: idle time in seconds after which the server is stopped; 0.1 to
    604,800."""

    pinned: tuple[str, ...] = ()
    """Names of its tools that are always listed in addition to the meta-tools."""

    trust: bool = True
    """Whether to trust the server's annotations (read-only, idempotent). If so, interrupted calls
    of tools marked this way are retried automatically. Defaults to `false` for servers that
    somebody with a token or a login adds through the API or the console. WARNING: if the
    annotations are wrong, a call may run twice; use `false` for servers that you do not know."""

    max_message_bytes: int = between(64 * 2**20, 1024, 2**31)
    """Maximum size of a message from the server in bytes, 1,024 to 2,147,483,648; a larger message
    fails its call."""

    era: Literal["auto", "modern", "handshake"] = "auto"
    """MCP protocol version: `modern` (2026-07-28), `handshake` (all earlier ones) or `auto`
    (negotiated)."""

    title: str = ""
    """Display name; set automatically if the server's name had to be changed."""

    project: str = ""
    """Project the server belongs to; empty: visible in all projects."""

    tool_permissions: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Tools to disable for everyone, as `NAME = false`; other rules cannot enable them. Names may
    contain `*` and `?`; an exact name takes precedence over patterns, and a longer pattern over a
    shorter one: `{ "*" = false, search = true }` leaves one tool."""

    audit: Literal["hashes", "full"] = "hashes"
    """What the audit log stores of arguments and results: `hashes` (with sizes and shapes) or
    `full` (up to 32 kB each, secrets masked)."""


@dataclass(frozen=True, kw_only=True)
class ImportTable:
    """An element of `import` with more than a path."""

    file: str
    """JSON file with `mcpServers`, or the configuration file of a client that `toolgate init`
    supports."""

    skip: tuple[str, ...] = ()
    """Servers to skip."""

    only: tuple[str, ...] = ()
    """Servers to import; empty: all."""

    rename: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps names in the file to new names."""

    project: str = ""
    """For `~/.claude.json`: folder of the project whose servers are imported."""


@dataclass(frozen=True, kw_only=True)
class ConnectionTable:
    """Table `[connections.NAME]`: a database that [tools of packs](schema.md) may read."""

    url: str = field(default="", repr=False)
    """SQLAlchemy URL of the database: `sqlite:///shop.db`,
    `postgresql://reader:${env:SHOP_PASSWORD}@db.example.org/shop`. It is never shown. Relative
    SQLite paths are resolved against the folder of `toolgate.toml`."""

    description: str = ""
    """What the database contains, for users and models."""

    schemas: tuple[str, ...] = ()
    """Database schemas to read; empty: the default schema; `*`: all but system schemas."""

    exclude: tuple[str, ...] = ()
    """Tables to exclude; `*` matches any text: `tmp_*`, `archive.*`."""

    snapshot_every_minutes: float = between(60.0, 0, 525_600)
    """How often the schema is read, in minutes, 0 to 525,600; 0: only when a tool needs it."""

    timeout_s: float = between(20.0, 0.1, 3600)
    """Timeout for connecting and for reading, in seconds; 0.1 to 3,600."""
