"""The values and small interfaces that the whole package shares.

Imports only `errors` from the package: a good file to read first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

Json: TypeAlias = dict[str, Any]
"""A JSON object as received: parsed where it is used, passed on unchanged."""


def json_object(value: object) -> Json:
    """The value if it is a JSON object, else an empty object; for reading foreign data."""
    return cast("Json", value) if isinstance(value, dict) else {}


def json_array(value: object) -> list[Any]:
    """The value if it is a JSON array, else an empty list; for reading foreign data."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def relevance_text(relevance: float) -> str:
    """Format a relevance in [0, 1]; below 0.005 it is `<0.01`, since no hit is certain to miss."""
    return f"{relevance:.2f}" if relevance >= 0.005 else "<0.01"


EntryKind: TypeAlias = Literal["tool", "prompt", "resource", "template", "instructions"]
"""Kinds of definitions that a server lists; each server has at most one `instructions`."""

Era: TypeAlias = Literal["modern", "handshake"]
"""`modern`: 2026-07-28, stateless. `handshake`: 2024-11-05 to 2025-11-25, with sessions."""

MODERN_VERSION = "2026-07-28"
"""The stateless revision of the protocol. https://modelcontextprotocol.io/specification/2026-07-28"""

LEGACY_VERSION = "2025-11-25"
"""The last revision with a handshake. https://modelcontextprotocol.io/specification/2025-11-25"""

HANDSHAKE_VERSIONS = (LEGACY_VERSION, "2025-06-18", "2025-03-26", "2024-11-05")
"""All protocol revisions with a handshake, newest first."""

DEFAULT_PROJECT = "default"
"""The project that everything belongs to unless another one is named."""

ServerState: TypeAlias = Literal["connecting", "ready", "degraded", "asleep", "down", "disabled"]
"""`connecting`: has not answered, or its tools are unknown. `ready`: answers, and its tools can be
searched. `degraded`: answers, with recent failures. `asleep`: the next call starts it. `down`: does
not answer, retried in the background. `disabled`: switched off by its settings."""


@dataclass(frozen=True, kw_only=True)
class PluginSpec:
    """An implementation that the settings name."""

    name: str
    """Name of a file in the folder of its kind, or of an installed entry point."""

    setting: str
    """The setting with the name, such as `search.embedder`, for error messages."""

    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Values for its `Options`; empty: defaults."""

    options_at: str = ""
    """The table with the options in the settings; empty: the table of `setting`."""


@dataclass(frozen=True, kw_only=True)
class CredentialSpec:
    """Credentials that a server gets in addition to its configured headers and variables."""

    type: Literal["stored", "oauth", "client_credentials", "token_exchange"] = "stored"
    """`stored`: values or logins that users stored, if any. `oauth`: a login, without which
    nothing is sent. `client_credentials`: a token of the gateway itself. `token_exchange`: a
    token obtained for the caller's own token (RFC 8693)."""

    per: Literal["server", "project", "user"] = "server"
    """Whether credentials are shared by all calls, by a project, or belong to a user."""

    scopes: tuple[str, ...] = ()
    """Requested scopes; empty: those the server names."""

    client_id: str = ""
    """Client id at the authorization server; empty: registered dynamically."""

    client_secret: str = field(default="", repr=False)
    """Client secret; empty: a public client. WARNING: never shown."""

    issuer: str = ""
    """The authorization server; empty: the one the server names."""

    token_url: str = ""
    """Its token endpoint; empty: from its metadata."""

    audience: str = ""
    """Requested audience of the token, if the authorization server needs it."""

    headers: tuple[str, ...] = ()
    """Names of headers whose values each user stores."""

    env: tuple[str, ...] = ()
    """Names of environment variables whose values each user stores."""


CALLER_VARIABLES: Final = ("id", "name", "project", "roles", "groups")
"""Names that `${user.NAME}` in a parameter override can have."""


@dataclass(frozen=True, kw_only=True)
class ParameterOverride:
    """Changes to a parameter of a tool. `${user.NAME}` in texts stands for the caller."""

    value: object = None
    """Fixed value; callers neither see nor send the parameter. None: not fixed."""

    default: object = None
    """Sent if the caller sends no value; None: no default."""

    hide: bool = False
    """Whether to hide the parameter from callers."""

    description: str = ""
    """Replaces the server's description; empty: unchanged."""

    @property
    def is_hidden(self) -> bool:
        """Whether callers neither see nor send the parameter."""
        return self.hide or self.value is not None


@dataclass(frozen=True, kw_only=True)
class ToolOverride:
    """Changes to how a tool is offered."""

    name: str = ""
    """Name for clients; empty: unchanged. The tool's key stays `server:original_name`."""

    description: str = ""
    """Replaces the server's description; empty: unchanged."""

    hide: bool = False
    """Whether to hide the tool from everyone."""

    tags: tuple[str, ...] = ()
    """Extra words for the search."""

    parameters: Mapping[str, ParameterOverride] = field(
        default_factory=dict[str, ParameterOverride]
    )
    """Changes by parameter name."""


CallerScope: TypeAlias = Literal["caller", "project", "all"]
"""Who shares something: one caller, all callers of a project, or everyone."""


@dataclass(frozen=True, kw_only=True)
class CacheRule:
    """How long results of a read-only tool are cached, and for whom."""

    ttl_s: float
    """Lifetime in seconds."""

    scope: CallerScope = "caller"
    """Who shares a cached result."""


@dataclass(frozen=True, kw_only=True)
class ServerSpec:
    """The configuration of an upstream server."""

    name: str
    """1 to 32 characters of `[A-Za-z0-9_.-]`, without `__`; unique within a project."""

    kind: str
    """Name of its transport: a file in `upstream/transports`, or the entry point of a plugin."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of its transport, variables already replaced: `command args env cwd` for stdio,
    `url headers` for http and sse, `target` for inprocess. WARNING: may contain secrets."""

    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values from the encrypted store that are sent to it, which no text may show; set at run
    time."""

    title: str = ""
    """The original name if it had to be changed to be valid; empty otherwise."""

    enabled: bool = True
    """Whether it is used at all."""

    start: Literal["always", "on-demand"] = "always"
    """Whether it is always connected, or only while it is used."""

    idle_s: float = 300.0
    """Seconds without calls after which an on-demand server is stopped."""

    timeout_s: float = 60.0
    """Seconds a call may take without progress."""

    max_timeout_s: float = 600.0
    """Seconds a call may take in total, even with progress."""

    tool_timeouts_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """Replacements of `timeout_s` by upstream tool name."""

    asking_tools: frozenset[str] = frozenset()
    """Upstream names of tools that ask modern clients in results, on a handshake-era server."""

    pinned: tuple[str, ...] = ()
    """Upstream names of tools that are always listed."""

    forward_headers: tuple[str, ...] = ()
    """Names of client headers that are forwarded to it, in lower case."""

    trust: bool = True
    """Whether its annotations (read-only, idempotent) are trusted when a call could be retried."""

    max_message_bytes: int = 64 * 2**20
    """Largest message accepted from it; a larger message fails its call."""

    era: Literal["auto", "modern", "handshake"] = "auto"
    """Protocol era to use; `auto`: detected."""

    source: str = "store"
    """Where it is configured: the path of a file, or `store`."""

    project_id: str = DEFAULT_PROJECT
    """The project it belongs to; servers of the default project are shared by all."""

    tool_permissions: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """By upstream tool name or pattern; false disables tools for everyone."""

    tool_overrides: Mapping[str, ToolOverride] = field(default_factory=dict[str, ToolOverride])
    """Changes to how tools are offered, by upstream tool name."""

    tool_caches: Mapping[str, CacheRule] = field(default_factory=dict[str, CacheRule])
    """Caching of results, by upstream tool name."""

    credentials: CredentialSpec = CredentialSpec()
    """Credentials in addition to those in `options`."""

    subject: str = ""
    """Owner of the connection, set at run time; empty: the shared one, which lists the tools."""

    audit: Literal["hashes", "full"] = "hashes"
    """Whether the audit log stores arguments and results, or only hashes."""

    server_id: str = ""
    """Opaque id of a stored server; empty for servers from files, which are identified by name."""

    overridden: tuple[str, ...] = ()
    """Keys whose value in a file or pack the store overrides: `enabled`, `tool_permissions`."""

    problem: str = ""
    """Why its configuration is unusable, for people, with `enabled` false; empty: it is valid."""

    def forwarded(self, caller: "Caller") -> dict[str, str]:
        """The headers of a caller's request that are forwarded to the server."""
        headers = caller.headers
        return {name: headers[name] for name in self.forward_headers if name in headers}


@dataclass(frozen=True, kw_only=True)
class ServerStatus:
    """The current status of an upstream server."""

    name: str
    """Its name."""

    kind: str
    """Its transport."""

    state: ServerState
    """Its state."""

    era: Era | None = None
    """Protocol era of its main connection; None before the first connection."""

    version: str | None = None
    """Negotiated protocol version."""

    tools: int = 0
    """Tools in the catalog, from the last successful listing."""

    held: int = 0
    """Quarantined tools, prompts, resources, templates and instructions."""

    override_problems: tuple[str, ...] = ()
    """Problems of tool overrides that cannot be applied, as sentences."""

    resources: int = 0
    """Resources in the catalog."""

    prompts: int = 0
    """Prompts in the catalog."""

    listed_at: str | None = None
    """Time of the last tool listing, UTC, ISO 8601; None if never."""

    last_error: str | None = None
    """The last failure in one sentence; None if there was none."""

    login_hint: str = ""
    """How to log in, if it is down for lack of a login; empty otherwise."""

    stderr_tail: tuple[str, ...] = ()
    """The last lines that a stdio server wrote to stderr."""

    started_at: str | None = None
    """Start of the current connection, UTC, ISO 8601."""

    restarts: int = 0
    """Number of reconnections."""

    latency_ms: float | None = None
    """Median latency of recent calls in milliseconds; None before the first call."""

    pid: int | None = None
    """Process id of a stdio server."""

    source: str = "store"
    """Where it is configured."""

    overridden: tuple[str, ...] = ()
    """Keys whose value in a file or pack the store overrides: `enabled`, `tool_permissions`."""

    projects: tuple[str, ...] = ()
    """The projects it belongs to; empty: visible to all."""

    retry_in_s: float | None = None
    """Seconds until the next connection attempt, if it is down."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """An authenticated identity. The default is the user of this machine."""

    caller_id: str = "local"
    """Opaque and stable; results, usage and audit records are stored under it."""

    kind: str = "local"
    """The authenticator, a file name in `security/authn/`. WARNING: `local` may do everything."""

    token: str = ""
    """Name of the opaque token, which permission rules can refer to."""

    user: str = ""
    """The user, if known."""

    projects: tuple[str, ...] = ("*",)
    """Projects it may use; the first is its default, `*` means all, empty means none."""

    roles: tuple[str, ...] = ()
    """Its roles."""

    groups: tuple[str, ...] = ()
    """Its groups."""

    read_only: bool = False
    """Whether it may run only tools marked read-only."""

    limits: tuple[tuple[str, int], ...] = ()
    """Individual limits by name, which replace those of the settings."""

    expires_at: str | None = None
    """Expiry, UTC, ISO 8601."""

    @property
    def user_subject(self) -> str:
        """The user as permission rules name it; empty if unknown.

        Users of opaque tokens are `user:NAME`, since only administrators choose their names.
        Other identity providers may let users choose their names, so the authenticator is part
        of it: `user@jwt:NAME`.
        """
        if not self.user:
            return ""
        return f"user:{self.user}" if self.kind == "token" else f"user@{self.kind}:{self.user}"


LOCAL = Identity()
"""The user of this machine, or a program that embeds Toolgate."""

COMMAND_LINE = "toolgate-cli"
"""Client name of the command line, followed by a slash and the version."""

CONSOLE = "console"
"""Client name of the console."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The sender of a request, after authentication."""

    caller_id: str
    """Opaque and stable id."""

    project_id: str = DEFAULT_PROJECT
    """The project of the request."""

    client: str = ""
    """Self-declared name of the client program, for the audit log and for how tools are listed;
    never used for decisions about access."""

    client_version: str = ""
    """Self-declared version of the client program; see `client`."""

    conversation: str = ""
    """The conversation of the request: thread, session, or empty if unknown."""

    entry_point: str = "python"
    """The entry point: `mcp`, `stdio`, `rest`, `cli`, `console`, `openai`, `metrics`, or
    `python` for a program that embeds Toolgate and for Toolgate itself."""

    identity: Identity
    """The authenticated identity."""

    credential: str = field(default="", repr=False)
    """The caller's token, if it comes from an identity provider and can be exchanged. WARNING:
    never shown, and never sent to a server."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    """Request headers that a server may receive, by name in lower case. WARNING: may contain
    secrets; never shown or recorded, and only for servers whose `forward_headers` lists them."""

    folder: str = ""
    """Working folder of a client program of the same user; empty: Toolgate's own."""

    @classmethod
    def local(
        cls,
        *,
        caller_id: str = "local",
        project_id: str = DEFAULT_PROJECT,
        client: str = "",
        conversation: str = "",
        folder: str = "",
    ) -> "Caller":
        """The user of this machine, or a program that embeds Toolgate.

        WARNING: this caller may do everything.
        """
        return cls(
            caller_id=caller_id,
            project_id=project_id,
            client=client,
            conversation=conversation,
            identity=LOCAL,
            folder=folder,
        )

    @cached_property
    def thread(self) -> tuple[str, str, str]:
        """Key of the conversation, unique across callers and projects."""
        return self.project_id, self.caller_id, self.conversation

    @property
    def is_guess(self) -> bool:
        """Whether only the client's name identifies the conversation."""
        return self.conversation == self.client


@runtime_checkable
class Peer(Protocol):
    """The way back to the client while its call is running; every entry point implements it."""

    @property
    def era(self) -> Era:
        """Protocol era of the client; modern ones get `input_required` results instead of `ask`."""
        ...

    @property
    def capabilities(self) -> Json:
        """The client's declared capabilities, such as `elicitation` and `sampling`."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether the client sent a progress token."""
        ...

    @property
    def log_level(self) -> str | None:
        """The minimum log level that the client requested; None: it requested none."""
        ...

    async def progress(self, params: Json) -> None:
        """Forward a progress notification with the client's own token."""
        ...

    async def log(self, params: Json) -> None:
        """Forward a `notifications/message` unchanged, unless the client does not want it."""
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """Send `elicitation/create`, `sampling/createMessage` or `roots/list` to an older client.

        Raises:
            CannotAskError: The client does not support it.
            RpcError: The client answered with an error.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """A record of the audit log. Arguments and results are hashes, unless `audit` is `full`."""

    record_id: str
    """Opaque, sortable by time."""

    at: str
    """UTC, ISO 8601 with milliseconds."""

    action: str
    """`discover`, `describe`, `call`, `read`, `prompt`, `complete`, `catalog_search` and others."""

    phase: Literal["intent", "outcome"] = "outcome"
    """Whether it was written before or after the action."""

    parent_id: str | None = None
    """The preceding record: the discovery before a call, the intent of an outcome."""

    project_id: str = DEFAULT_PROJECT
    """The project."""

    caller_id: str = "local"
    """The caller."""

    client: str = ""
    """Self-declared name of the client program."""

    conversation: str = ""
    """The conversation, if known."""

    request_id: str = ""
    """Id that also appears in log lines, errors and responses of the request."""

    server: str | None = None
    """The server involved."""

    target: str | None = None
    """Tool key, resource URI or prompt name."""

    digest: str | None = None
    """Digest of the tool's definition at that time."""

    query: str | None = None
    """The query of a discovery, if the settings allow storing it."""

    status: str = "ok"
    """`ok`, `tool_error` (reported by the tool), or the `code` of the error."""

    duration_ms: float | None = None
    """Milliseconds from request to response."""

    request_bytes: int | None = None
    """Size of the arguments as JSON."""

    response_bytes: int | None = None
    """Size of the result as JSON."""

    arguments_sha256: str | None = None
    """Hash of the arguments as JSON, for comparison without storing them."""

    response_sha256: str | None = None
    """Hash of the result as JSON."""

    detail: Json = field(default_factory=dict[str, Any])
    """Further fields of the action, such as tools shown with their relevance, notices, tokens."""
