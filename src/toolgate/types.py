"""The words of the domain: frozen values and small contracts that everything else speaks with.

Imports nothing of ours except `errors`, so a newcomer can read this file first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

__all__ = [
    "CALLER_VARIABLES",
    "COMMAND_LINE",
    "CONSOLE",
    "DEFAULT_PROJECT",
    "HANDSHAKE_VERSIONS",
    "LEGACY_VERSION",
    "LOCAL",
    "MODERN_VERSION",
    "AuditRecord",
    "CacheRule",
    "Caller",
    "CallerScope",
    "CredentialSpec",
    "EntryKind",
    "Era",
    "Identity",
    "Json",
    "ParameterOverride",
    "Peer",
    "PluginSpec",
    "ServerSpec",
    "ServerState",
    "ServerStatus",
    "ToolOverride",
    "json_array",
    "json_object",
]

Json: TypeAlias = dict[str, Any]
"""A JSON object as it arrived; passed on as it is, parsed where it is used, never rebuilt."""


def json_object(value: object) -> Json:
    """The value if it is a JSON object, else an empty one: for reading what others sent."""
    return cast("Json", value) if isinstance(value, dict) else {}


def json_array(value: object) -> list[Any]:
    """The value if it is a JSON array, else an empty one: for reading what others sent."""
    return cast("list[Any]", value) if isinstance(value, list) else []


EntryKind: TypeAlias = Literal["tool", "prompt", "resource", "template", "instructions"]
"""What a definition in the listing of a server is one of; a server has `instructions` once."""

Era: TypeAlias = Literal["modern", "handshake"]
"""`modern`: 2026-07-28, stateless. `handshake`: 2024-11-05 to 2025-11-25, with sessions."""

MODERN_VERSION = "2026-07-28"
"""The stateless revision of the protocol. https://modelcontextprotocol.io/specification/2026-07-28"""

LEGACY_VERSION = "2025-11-25"
"""The last revision with a handshake. https://modelcontextprotocol.io/specification/2025-11-25"""

HANDSHAKE_VERSIONS = (LEGACY_VERSION, "2025-06-18", "2025-03-26", "2024-11-05")
"""All revisions with a handshake, the newest first."""

DEFAULT_PROJECT = "default"
"""The project (tenant) that everything belongs to until others are made."""

ServerState: TypeAlias = Literal["connecting", "ready", "degraded", "asleep", "down", "disabled"]
"""`connecting`: has not answered, or its tools are unknown. `ready`: answers, and its tools can be
searched. `degraded`: answers, with recent failures. `asleep`: the next call starts it. `down`: does
not answer, retried in the background. `disabled`: switched off by its settings."""


@dataclass(frozen=True, kw_only=True)
class PluginSpec:
    """One implementation as the settings name it."""

    name: str
    """File name in the seam's folder, or the name of an installed entry point."""

    setting: str
    """Where the name stands in the settings, such as `search.embedder`; messages point there."""

    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Values for the implementation's own `Options`; empty means its defaults."""

    options_at: str = ""
    """Where the options stand in the settings; empty: where the name stands."""


@dataclass(frozen=True, kw_only=True)
class CredentialSpec:
    """What is shown to a server beside the headers and variables of its own configuration."""

    type: Literal["stored", "oauth", "client_credentials", "token_exchange"] = "stored"
    """`stored`: what was given or what somebody logged in with, if there is anything. `oauth`: a
    login, without which nothing is sent. `client_credentials`: a token of the gateway itself.
    `token_exchange`: one that the caller's own token is exchanged for (RFC 8693)."""

    per: Literal["server", "project", "user"] = "server"
    """Whether all calls show the same, those of a project, or those of a user."""

    scopes: tuple[str, ...] = ()
    """What is asked for; empty: as the server says."""

    client_id: str = ""
    """As registered at the authorization server; empty: registered when it is needed."""

    client_secret: str = field(default="", repr=False)
    """The secret of that client; empty: a public one. WARNING: never shown."""

    issuer: str = ""
    """The authorization server; empty: as the server says."""

    token_url: str = ""
    """Its token endpoint; empty: as its metadata says."""

    audience: str = ""
    """Whom a token is for, where the authorization server wants to be told so."""

    headers: tuple[str, ...] = ()
    """Names of headers that each user gives."""

    env: tuple[str, ...] = ()
    """Names of variables that each user gives."""


CALLER_VARIABLES: Final = ("id", "name", "project", "roles", "groups")
"""What `${user.NAME}` in the override of a parameter may name."""


@dataclass(frozen=True, kw_only=True)
class ParameterOverride:
    """What differs for one parameter of a tool. `${user.NAME}` in texts stands for the caller."""

    value: object = None
    """Always sent, and then no caller sees or sends the parameter; None: nothing."""

    default: object = None
    """Sent when the caller sends nothing; None: nothing."""

    hide: bool = False
    """Whether no caller sees or sends it."""

    description: str = ""
    """In place of what the server says about it; empty: that stays."""

    @property
    def is_hidden(self) -> bool:
        """Whether callers neither see nor send it."""
        return self.hide or self.value is not None


@dataclass(frozen=True, kw_only=True)
class ToolOverride:
    """How a tool is offered in place of how its server offers it."""

    name: str = ""
    """Its name for clients; empty: its own. Its key stays `server:own name`."""

    description: str = ""
    """In place of what the server says about it; empty: that stays."""

    hide: bool = False
    """Whether nobody sees or runs it."""

    tags: tuple[str, ...] = ()
    """Words by which it is found besides its texts."""

    parameters: Mapping[str, ParameterOverride] = field(
        default_factory=dict[str, ParameterOverride]
    )
    """By the name of the parameter."""


CallerScope: TypeAlias = Literal["caller", "project", "all"]
"""Who shares something: one caller, all callers of a project, or everybody."""


@dataclass(frozen=True, kw_only=True)
class CacheRule:
    """How long results of a read-only tool are kept, and for whom."""

    ttl_s: float
    """Seconds."""

    scope: CallerScope = "caller"
    """Who gets a result that is kept."""


@dataclass(frozen=True, kw_only=True)
class ServerSpec:
    """One upstream server as it is configured."""

    name: str
    """1 to 32 characters of `[A-Za-z0-9_.-]`, without `__`; unique within a project."""

    kind: str
    """Name of its transport: a file in `upstream/transports`, or the entry point of a plugin."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """What its kind needs, variables already replaced: `command args env cwd` for stdio, `url
    headers` for http and sse, `target` for inprocess, its own for a plugin. WARNING: may hold
    secrets; never shown."""

    title: str = ""
    """The name as its owner wrote it when that had to be changed to fit; empty otherwise."""

    enabled: bool = True
    """Whether it is connected at all."""

    start: Literal["always", "on-demand"] = "always"
    """Whether it is connected all the time, or when somebody needs it."""

    idle_s: float = 300.0
    """Seconds without use after which a server that starts on demand is stopped."""

    timeout_s: float = 60.0
    """Seconds a call may take without progress."""

    max_timeout_s: float = 600.0
    """Seconds a call may take in all, however often it reports progress."""

    tool_timeouts_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds by upstream tool name; they replace `timeout_s` for that tool."""

    pinned: tuple[str, ...] = ()
    """Upstream tool names that are always listed."""

    forward_headers: tuple[str, ...] = ()
    """Names of headers of clients that go on to it, in lower case."""

    trust: bool = True
    """Whether its tool annotations (read-only, idempotent) are believed for repeating calls."""

    max_message_bytes: int = 64 * 2**20
    """Largest message that is read from it; a larger one fails its call."""

    era: Literal["auto", "modern", "handshake"] = "auto"
    """Protocol era to use; `auto` probes."""

    source: str = "store"
    """Where it is configured: the path of a file, or `store`."""

    project_id: str = DEFAULT_PROJECT
    """The project it belongs to; the default one is nobody's and shared by all."""

    tool_permissions: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """By upstream tool name or pattern: false takes tools away from everybody."""

    tool_overrides: Mapping[str, ToolOverride] = field(default_factory=dict[str, ToolOverride])
    """By upstream tool name: how the tool is offered in place of how the server offers it."""

    tool_caches: Mapping[str, CacheRule] = field(default_factory=dict[str, CacheRule])
    """By upstream tool name: results that are kept for the same question."""

    credentials: CredentialSpec = CredentialSpec()
    """What is shown to it beside what stands in `options`."""

    subject: str = ""
    """Whose connection it is, where each has one; filled in while running. Empty: the one by which
    the server tells what it offers."""

    audit: Literal["hashes", "full"] = "hashes"
    """What the audit keeps of arguments and results."""

    server_id: str = ""
    """Opaque identity of a stored server; empty for servers from files, whose name identifies."""

    overridden: tuple[str, ...] = ()
    """Keys of a file or a pack that the store overrides: `enabled`, `tool_permissions`."""

    problem: str = ""
    """Why it cannot be used as it is configured, such as a missing variable, for people; then
    `enabled` is false and the other servers work. Empty when all is well."""

    def forwarded(self, caller: "Caller") -> dict[str, str]:
        """The headers of a caller's request that go on to the server."""
        headers = caller.headers
        return {name: headers[name] for name in self.forward_headers if name in headers}


@dataclass(frozen=True, kw_only=True)
class ServerStatus:
    """What is known of one upstream server right now."""

    name: str
    """Its name."""

    kind: str
    """How it is reached."""

    state: ServerState
    """Where its state machine stands."""

    era: Era | None = None
    """The era of its main connection; None before the first connection."""

    version: str | None = None
    """The protocol revision that was agreed on."""

    tools: int = 0
    """Tools in the catalog, from the last listing that worked."""

    held: int = 0
    """Tools, prompts, resources, templates and instructions that await approval."""

    override_problems: tuple[str, ...] = ()
    """Sentences about overrides of its tools that cannot be applied."""

    resources: int = 0
    """Resources in the catalog."""

    prompts: int = 0
    """Prompts in the catalog."""

    listed_at: str | None = None
    """When its tools were last listed, UTC, ISO 8601; None if never."""

    last_error: str | None = None
    """One sentence about the last failure; None if there was none."""

    login_hint: str = ""
    """How to log in at it, while it is down because nobody has; empty otherwise."""

    stderr_tail: tuple[str, ...] = ()
    """The last lines a stdio server wrote to its standard error."""

    started_at: str | None = None
    """When the present connection was made, UTC, ISO 8601."""

    restarts: int = 0
    """Connections made after the first."""

    latency_ms: float | None = None
    """Median of the last calls, milliseconds; None before the first call."""

    pid: int | None = None
    """Process id of a stdio server."""

    source: str = "store"
    """Where it is configured."""

    overridden: tuple[str, ...] = ()
    """Settings of that file or pack that the store overrides: `enabled`, `tool_permissions`."""

    projects: tuple[str, ...] = ()
    """The projects it belongs to; none: all see it."""

    retry_in_s: float | None = None
    """Seconds until the next attempt to connect, when down."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who somebody is: what a credential proves. Without any: the person at this machine."""

    caller_id: str = "local"
    """Opaque, stable; what its results, usage and audit records are kept under."""

    kind: str = "local"
    """File name in `authn/`: what proved it. WARNING: `local` may do everything."""

    token: str = ""
    """Name of the opaque token that proved it; rules can be made for it."""

    user: str = ""
    """Who the person is, where that is known."""

    projects: tuple[str, ...] = ("*",)
    """Projects it may act in; the first is its own, `*` is any, none is no project at all."""

    roles: tuple[str, ...] = ()
    """Its roles."""

    groups: tuple[str, ...] = ()
    """Its groups."""

    read_only: bool = False
    """Whether it runs only tools that are marked read-only."""

    limits: tuple[tuple[str, int], ...] = ()
    """Limits of its own, by name, in place of those of the settings."""

    expires_at: str | None = None
    """From when on it is worth nothing, UTC, ISO 8601."""

    @property
    def user_subject(self) -> str:
        """The user as access rules name them; empty where none is known.

        Only administrators name the users of opaque tokens, `user:NAME`. Elsewhere users may choose
        their names themselves, so those have the authenticator in front: `user@jwt:NAME`.
        """
        if not self.user:
            return ""
        return f"user:{self.user}" if self.kind == "token" else f"user@{self.kind}:{self.user}"


LOCAL = Identity()
"""The person at this machine, or a program that embeds Toolgate."""

COMMAND_LINE = "toolgate-cli"
"""What commands call themselves as a client, before a slash and their version."""

CONSOLE = "console"
"""The client of what people do on the pages of the console."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who asks: the result of authentication."""

    caller_id: str
    """Opaque, stable."""

    project_id: str = DEFAULT_PROJECT
    """The tenant it acts in."""

    client: str = ""
    """Name of the client program as it says itself, for the audit; never used for decisions."""

    conversation: str = ""
    """What its requests belong together by: thread, session, or empty when nothing is known."""

    entry_point: str = "python"
    """What it used: `mcp`, `stdio`, `rest`, `cli`, `console`, `openai`, `metrics`, or `python` for
    a program that embeds Toolgate and for Toolgate itself."""

    identity: Identity
    """What was proved of it."""

    credential: str = field(default="", repr=False)
    """The caller's own token, where it is one of an identity provider that can be exchanged for
    others. WARNING: never shown, and never sent to a server."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    """Headers of its request that some server is to get, by name in lower case. WARNING: may hold
    secrets; never shown or recorded, and only for servers whose `forward_headers` names them."""

    folder: str = ""
    """Where its client works, told by a program of the same user; empty: where Toolgate runs."""

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
        """The person at this machine, or a program that embeds Toolgate.

        WARNING: it may do everything.
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
        """Its conversation, told from those of other callers and projects."""
        return self.project_id, self.caller_id, self.conversation

    @property
    def is_guess(self) -> bool:
        """Whether its conversation is known by nothing but the name of its client program."""
        return self.conversation == self.client


@runtime_checkable
class Peer(Protocol):
    """The way back to whoever made a call, while it runs: implemented by every surface."""

    @property
    def era(self) -> Era:
        """Era of the client; a modern one is asked by an `input_required` result, not by `ask`."""
        ...

    @property
    def capabilities(self) -> Json:
        """What the client can be asked, as it declared: keys such as `elicitation`, `sampling`."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether the client sent a progress token."""
        ...

    @property
    def log_level(self) -> str | None:
        """Lowest level of log messages that the client asked for; None: it asked for none."""
        ...

    async def progress(self, params: Json) -> None:
        """Pass a progress notification on; its token is replaced by the client's own."""
        ...

    async def log(self, params: Json) -> None:
        """Pass a `notifications/message` on, unchanged, unless the client does not want it."""
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """Ask a handshake-era client: `elicitation/create`, `sampling/createMessage`, `roots/list`.

        Raises:
            CannotAskError: The client cannot be asked this.
            RpcError: The client answered with an error.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """One line of the audit: what was asked, decided or answered. Never arguments or results."""

    record_id: str
    """Opaque, sortable by time."""

    at: str
    """UTC, ISO 8601 with milliseconds."""

    action: str
    """`discover`, `describe`, `call`, `read`, `prompt`, `complete`, `catalog_search` and others."""

    phase: Literal["intent", "outcome"] = "outcome"
    """Whether it was written before the work or after."""

    parent_id: str | None = None
    """The record this one follows: a call its discovery, an outcome its intent."""

    project_id: str = DEFAULT_PROJECT
    """The tenant."""

    caller_id: str = "local"
    """Who asked."""

    client: str = ""
    """The client program's own name."""

    conversation: str = ""
    """What it belongs to, when known."""

    request_id: str = ""
    """The id that log lines, errors and answers of this request carry."""

    server: str | None = None
    """The server that was reached."""

    target: str | None = None
    """Tool key, resource URI or prompt name."""

    digest: str | None = None
    """Digest of the tool's definition at that moment."""

    query: str | None = None
    """The request of a discovery, when the settings allow keeping it."""

    status: str = "ok"
    """`ok`, `tool_error` (the tool said so), or the `code` of the error."""

    duration_ms: float | None = None
    """Milliseconds from request to answer."""

    request_bytes: int | None = None
    """Size of the arguments as JSON."""

    response_bytes: int | None = None
    """Size of the result as JSON."""

    arguments_sha256: str | None = None
    """Hash of the arguments as JSON, for comparing without keeping them."""

    response_sha256: str | None = None
    """Hash of the result as JSON."""

    detail: Json = field(default_factory=dict[str, Any])
    """Further fields of an action: tools shown with their relevance, notices, tokens."""
