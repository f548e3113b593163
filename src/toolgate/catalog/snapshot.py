"""What all servers offer at one moment: immutable, versioned, ready to send."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any
from urllib.parse import unquote

from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.catalog.exposed_names import exposed_names
from toolgate.catalog.listed_definitions import EntryId
from toolgate.catalog.overrides import OfferedTool, offered_tools
from toolgate.types import Json, ServerSpec, ToolOverride, json_object


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogEntry:
    """A tool, prompt, resource or template of a server.

    Its definition is stored as bytes and parsed on use, since most uses only list it.
    """

    key: str
    """`server:name`; for resources and templates `server:uri`."""

    server: str
    """Name of its server."""

    name: str
    """Its name on that server, or from its override; for resources the URI, for templates the
    URI template."""

    exposed: str
    """The name (or URI) that clients use."""

    raw: bytes
    """The definition as clients see it: as the server sent it, with the changes of its override
    and its exposed name."""

    digest: str
    """SHA-256 of the server's definition and its override; changes when either changes."""

    repeatable: bool = False
    """Whether it is annotated as read-only or idempotent: an interrupted call may be sent again."""

    read_only: bool = False
    """Whether it is annotated as read-only."""

    destructive: bool = True
    """Whether it may destroy data; true unless annotated otherwise."""

    internal: bool = False
    """Whether only other tools use it; hidden from callers without the permission `internal`."""

    mirrors_arguments: bool = False
    """Whether calls repeat arguments in HTTP headers (`x-mcp-header` in the input schema)."""

    override: ToolOverride | None = None
    """The override that changes what clients see and send; None: none."""

    listed: bytes = b""
    """The definition as the server sent it, if an override changes it; else empty."""

    @property
    def own_name(self) -> str:
        """Its name on its server."""
        return self.key.partition(":")[2]

    @property
    def shown_key(self) -> str:
        """`server:name` with the name that clients see. WARNING: permissions use `key`."""
        return self.key if self.override is None else f"{self.server}:{self.name}"

    @property
    def listed_definition(self) -> Json:
        """Parse the definition as the server sent it."""
        if self.listed:
            return json_object(json_text.loads(self.listed))
        return {**self.definition, "name": self.own_name}

    @property
    def definition(self) -> Json:
        """Parse the definition as clients see it."""
        return json_object(json_text.loads(self.raw))


@dataclass(frozen=True, kw_only=True)
class ServerEntries:
    """What one server offers."""

    tools: tuple[CatalogEntry, ...] = ()
    """Tools, in the server's order."""

    prompts: tuple[CatalogEntry, ...] = ()
    """Prompts."""

    resources: tuple[CatalogEntry, ...] = ()
    """Resources."""

    templates: tuple[CatalogEntry, ...] = ()
    """Resource templates."""

    capabilities: Json = field(default_factory=dict[str, Any])
    """Capabilities that the server declared."""

    instructions: str = ""
    """The server's instructions for its use."""

    listed_at: str | None = None
    """When it was listed, UTC, ISO 8601; None: never."""

    left_out: tuple[str, ...] = ()
    """Messages about entries that could not be used."""

    quarantined: Mapping[EntryId, str] = field(default_factory=dict[EntryId, str])
    """Quarantined definitions, each with the reason; not in the lists above."""

    overrides: Mapping[str, ToolOverride] = field(default_factory=dict[str, ToolOverride])
    """The applied overrides, by the tool's own name."""

    override_problems: tuple[str, ...] = ()
    """Messages about overrides that cannot be applied."""

    listed_tools: tuple[bytes, ...] = ()
    """All tools as the server sent them, if there are overrides; else empty."""

    def with_overrides(
        self,
        server: str,
        overrides: Mapping[str, ToolOverride],
        *,
        max_name_chars: int,
        flat: bool,
    ) -> "ServerEntries":
        """Return a copy with other overrides of its tools."""
        tools = _tools(
            server,
            self.listed,
            overrides,
            self.quarantined,
            max_name_chars=max_name_chars,
            flat=flat,
        )
        return replace(self, **tools)

    @property
    def listed(self) -> list[Json]:
        """Parse its tools as the server sent them."""
        if not self.overrides:
            return [tool.listed_definition for tool in self.tools]
        return [json_object(json_text.loads(raw)) for raw in self.listed_tools]

    @cached_property
    def by_key(self) -> Mapping[str, CatalogEntry]:
        """Its tools by key."""
        return {tool.key: tool for tool in self.tools}

    @cached_property
    def renamed(self) -> Mapping[str, CatalogEntry]:
        """Its renamed tools, by `shown_key`."""
        if not self.overrides:
            return {}
        return {tool.shown_key: tool for tool in self.tools if tool.shown_key != tool.key}

    def withholds(self, uri: str) -> bool:
        """Whether a URI of this server belongs to a quarantined resource or template."""
        plain = unquote(uri)  # a server may decode escaped letters
        names = [name for kind, name in self.quarantined if kind == "resource"]
        if any(unquote(name) == plain for name in names):
            return True
        templates = [name for kind, name in self.quarantined if kind == "template"]
        return any(_template_pattern(name).fullmatch(plain) for name in templates) and not any(
            resource.name == uri for resource in self.resources
        )

    @cached_property
    def menu_tokens(self) -> int:
        """Estimated tokens of its tool definitions."""
        return sum(estimate_tokens(tool.raw) + 1 for tool in self.tools)

    @cached_property
    def name_tokens(self) -> int:
        """Estimated tokens of the names of its tools, with the prefix that clients add."""
        return sum(estimate_tokens(_CLIENT_PREFIX + tool.exposed) for tool in self.tools)


_TOOLS = attrgetter("tools")

_CLIENT_PREFIX = "mcp__toolgate__"
"""What clients put before the names of tools; this is how Claude Code and Codex do it."""


@dataclass(frozen=True)
class Snapshot:
    """All servers at one moment. Snapshots share the entries of unchanged servers."""

    version: int = 0
    """Grows with every change."""

    servers: Mapping[str, ServerEntries] = field(default_factory=dict[str, ServerEntries])
    """Enabled servers by name, in order."""

    @property
    def tools(self) -> tuple[CatalogEntry, ...]:
        """All tools, in the order of the servers and their lists."""
        return self._tools

    @cached_property
    def _tools(self) -> tuple[CatalogEntry, ...]:
        return tuple(chain.from_iterable(map(_TOOLS, self.servers.values())))

    def span(self, server: str) -> slice:
        """Return the positions of a server's tools in `tools`; empty for an unknown server."""
        end = self._ends.get(server)
        return slice(0, 0) if end is None else slice(end - len(self.servers[server].tools), end)

    @cached_property
    def _ends(self) -> Mapping[str, int]:
        """End of each server's tools in `tools`. Only numbers: there may be 200,000 tools."""
        counts = map(len, map(_TOOLS, self.servers.values()))
        return dict(zip(self.servers, accumulate(counts), strict=True))

    @cached_property
    def quarantined(self) -> Mapping[str, str]:
        """Quarantined tools: reason by key."""
        return {
            f"{server}:{name}": why
            for server, entries in self.servers.items()
            if entries.quarantined
            for (kind, name), why in entries.quarantined.items()
            if kind == "tool"
        }

    def tool(self, key: str) -> CatalogEntry | None:
        """Return a tool by its key, without building an index of all tools.

        The key with its overridden name works, too; no other tool of the server has that name.
        """
        entries = self.servers.get(key.partition(":")[0])
        if entries is None:
            return None
        return entries.by_key.get(key) or entries.renamed.get(key)

    def shown_key(self, key: str) -> str:
        """Return `server:name` of a tool with the name that clients see."""
        entry = self.tool(key)
        return key if entry is None else entry.shown_key

    def own_key(self, key: str) -> str:
        """Return the key of a tool from its `shown_key`."""
        entry = self.tool(key)
        return key if entry is None else entry.key

    @cached_property
    def has_renamed(self) -> bool:
        """Whether any tool is renamed."""
        return any(entries.renamed for entries in self.servers.values() if entries.overrides)

    @cached_property
    def by_key(self) -> Mapping[str, CatalogEntry]:
        """Tools by key."""
        return {tool.key: tool for tool in self.tools}

    @cached_property
    def by_exposed(self) -> Mapping[str, CatalogEntry]:
        """Tools by exposed name."""
        return {tool.exposed: tool for tool in self.tools}

    @cached_property
    def prompts(self) -> Mapping[str, CatalogEntry]:
        """Prompts by exposed name."""
        return {p.exposed: p for entries in self.servers.values() for p in entries.prompts}

    @cached_property
    def resources(self) -> Mapping[str, CatalogEntry]:
        """Resources by the URI that clients use.

        If two servers offer the same URI, the first one keeps it; the other's is
        `toolgate://SERVER/URI`.
        """
        by_uri: dict[str, CatalogEntry] = {}
        for entries in self.servers.values():
            for entry in entries.resources:
                by_uri[_free_uri(entry, by_uri)] = entry
        return {
            uri: entry if entry.exposed == uri else _renamed(entry, "uri", uri)
            for uri, entry in by_uri.items()
        }

    @cached_property
    def templates(self) -> Mapping[str, CatalogEntry]:
        """Resource templates by the URI template that clients use; see `resources`."""
        by_uri: dict[str, CatalogEntry] = {}
        for entries in self.servers.values():
            for entry in entries.templates:
                by_uri[_free_uri(entry, by_uri)] = entry
        return {
            uri: entry if entry.exposed == uri else _renamed(entry, "uriTemplate", uri)
            for uri, entry in by_uri.items()
        }

    @cached_property
    def menu_tokens(self) -> int:
        """Estimated tokens of all tool definitions."""
        return sum(entries.menu_tokens for entries in self.servers.values())

    @cached_property
    def name_tokens(self) -> int:
        """Estimated tokens of the names of all tools, with the prefix that clients add."""
        return sum(entries.name_tokens for entries in self.servers.values())

    def resource_of(
        self, uri: str, *, allowed: Callable[[str, str], bool] | None = None
    ) -> tuple[str, str] | None:
        """Return server and its own URI for a URI that a client reads; None: no server offers it.

        Listed resources first, then templates that match, then the explicit form
        `toolgate://SERVER/URI`.

        Args:
            uri: The URI from the client.
            allowed: Whether a resource (server and its own URI) may be used; None: all may.
        """
        for server, server_uri in self._offers(uri):
            if allowed is None or allowed(server, server_uri):
                return server, server_uri
        return None

    def template_variables(self, server: str, uri: str) -> Mapping[str, str]:
        """Return the values of a server's template variables in a URI, percent-decoded, by name."""
        entries = self.servers.get(server)
        variables: dict[str, str] = {}
        for template in entries.templates if entries is not None else ():
            if match := _template_pattern(template.name).fullmatch(uri):
                for names, value in zip(_variables_in(template.name), match.groups(), strict=True):
                    variables |= dict.fromkeys(names, unquote(value))
        return variables

    def _offers(self, uri: str) -> Iterator[tuple[str, str]]:
        listed = self.resources.get(uri)
        if listed is not None:
            yield listed.server, listed.name
        explicit = re.fullmatch(r"toolgate://([A-Za-z0-9_.-]{1,32})/(.+)", uri, re.DOTALL)
        if (
            explicit
            and explicit[1] in self.servers
            and not self.servers[explicit[1]].withholds(explicit[2])
        ):
            yield explicit[1], explicit[2]
        for server, entries in self.servers.items():
            is_offered = any(_template_pattern(t.name).fullmatch(uri) for t in entries.templates)
            if is_offered and not entries.withholds(uri):
                yield server, uri


def cache_problem(entry: CatalogEntry | None, spec: ServerSpec) -> str:
    """Return why results of a tool are not cached although its settings say so; empty: they are."""
    if entry is None:
        return "The server has no such tool."
    if not spec.trust:
        return "Its results are not cached: the server is not trusted (trust = false)."
    if not entry.read_only:
        return "Its results are not cached: the tool is not marked read-only."
    return ""


def build_entries(
    server: str,
    *,
    tools: Sequence[Json] = (),
    prompts: Sequence[Json] = (),
    resources: Sequence[Json] = (),
    templates: Sequence[Json] = (),
    capabilities: Json | None = None,
    instructions: str = "",
    listed_at: str | None = None,
    left_out: tuple[str, ...] = (),
    quarantined: Mapping[EntryId, str] | None = None,
    max_name_chars: int = 48,
    flat: bool = False,
    overrides: Mapping[str, ToolOverride] | None = None,
) -> ServerEntries:
    """Build entries from definitions as the server sent them, all with a valid `name` or `uri`."""
    withheld = quarantined or {}
    return ServerEntries(
        **_tools(
            server, tools, overrides or {}, withheld, max_name_chars=max_name_chars, flat=flat
        ),
        prompts=_named_entries(server, prompts, max_name_chars=max_name_chars, flat=flat),
        resources=tuple(_uri_entry(server, item, "uri") for item in resources),
        templates=tuple(_uri_entry(server, item, "uriTemplate") for item in templates),
        capabilities=capabilities or {},
        instructions=instructions,
        listed_at=listed_at,
        left_out=left_out,
        quarantined=withheld,
    )


def _tools(
    server: str,
    listed: Sequence[Json],
    overrides: Mapping[str, ToolOverride],
    quarantined: Mapping[EntryId, str],
    *,
    max_name_chars: int,
    flat: bool,
) -> Json:
    """Return the fields of `ServerEntries` about tools."""
    if not overrides:
        tools = _named_entries(server, listed, max_name_chars=max_name_chars, flat=flat)
        return {"tools": tools, "overrides": {}, "override_problems": (), "listed_tools": ()}
    withheld = frozenset(name for kind, name in quarantined if kind == "tool")
    offered, problems = offered_tools(server, listed, overrides, withheld)
    names = [str(tool.definition["name"]) for tool in offered]
    keys = [f"{server}:{tool.own_name}" for tool in offered]
    exposed = names if flat else exposed_names(server, names, limit=max_name_chars, keys=keys)
    raw_by_name = {str(item["name"]): json_text.dumps_to_keep(item) for item in listed}
    tools = tuple(
        _overridden(server, tool, name, raw_by_name[tool.own_name])
        for tool, name in zip(offered, exposed, strict=True)
    )
    return {
        "tools": tools,
        "overrides": overrides,
        "override_problems": tuple(problems),
        "listed_tools": tuple(raw_by_name.values()),
    }


def _overridden(server: str, tool: OfferedTool, exposed: str, listed: bytes) -> CatalogEntry:
    """Return the entry of a tool of a server with overrides; the tool itself may have none."""
    entry = _named_entry(server, tool.definition, tool.own_name, exposed)
    if tool.override is None:
        return entry
    change = repr(tool.override).encode("utf-8", "surrogatepass")
    return replace(
        entry,
        name=str(tool.definition["name"]),
        digest=hashlib.sha256(_digest(json_text.loads(listed)).encode() + change).hexdigest(),
        override=tool.override,
        listed=listed,
    )


def _named_entries(
    server: str, definitions: Sequence[Json], *, max_name_chars: int, flat: bool
) -> tuple[CatalogEntry, ...]:
    names = [str(definition["name"]) for definition in definitions]
    exposed = names if flat else exposed_names(server, names, limit=max_name_chars)
    return tuple(
        _named_entry(server, definition, name, exposed)
        for definition, name, exposed in zip(definitions, names, exposed, strict=True)
    )


def _named_entry(server: str, definition: Json, name: str, exposed: str) -> CatalogEntry:
    raw = json_text.dumps_to_keep({**definition, "name": exposed})
    return CatalogEntry(
        key=f"{server}:{name}",
        server=server,
        name=name,
        exposed=exposed,
        raw=raw,
        digest=_digest(definition),
        mirrors_arguments=b'"x-mcp-header"' in raw,
        override=None,
        listed=b"",
        **_hints(definition),
    )


def _uri_entry(server: str, definition: Json, member: str) -> CatalogEntry:
    uri = str(definition[member])
    return CatalogEntry(
        key=f"{server}:{uri}",
        server=server,
        name=uri,
        exposed=uri,
        raw=json_text.dumps_to_keep(definition),
        digest=_digest(definition),
    )


def _free_uri(entry: CatalogEntry, taken: Mapping[str, CatalogEntry]) -> str:
    return entry.name if entry.name not in taken else f"toolgate://{entry.server}/{entry.name}"


def _renamed(entry: CatalogEntry, member: str, uri: str) -> CatalogEntry:
    return CatalogEntry(
        key=entry.key,
        server=entry.server,
        name=entry.name,
        exposed=uri,
        raw=json_text.dumps_to_keep({**entry.definition, member: uri}),
        digest=entry.digest,
    )


def _digest(definition: Json) -> str:
    # Some servers send the members of an object in another order each time.
    return hashlib.sha256(json_text.dumps_sorted(definition)).hexdigest()


def _hints(definition: Json) -> dict[str, bool]:
    """Return the annotations of a definition, and whether it is internal."""
    hints = json_object(definition.get("annotations"))
    read_only = hints.get("readOnlyHint") is True
    return {
        "repeatable": read_only or hints.get("idempotentHint") is True,
        "read_only": read_only,
        "destructive": not read_only and hints.get("destructiveHint") is not False,
        "internal": json_object(definition.get("_meta")).get("toolgate/internal") is True,
    }


def _template_pattern(template: str) -> re.Pattern[str]:
    """Compile a URI template (RFC 6570) to a lenient pattern with a group for each expression.

    An expression matches anything non-empty without `/`, or anything at all if it starts with an
    operator or explodes.
    """
    parts = _EXPRESSION.split(template[:_LONGEST_TEMPLATE])
    return re.compile(
        "".join(
            ("(.*)" if part[1:2] in _OPERATORS or "*" in part else "([^/]+)")
            if part.startswith("{") and part.endswith("}")
            else re.escape(part)
            for part in parts
        ),
        re.DOTALL,
    )


def _variables_in(template: str) -> list[list[str]]:
    """Return the names of the variables of each expression."""
    return [
        [re.sub(r":\d+$|\*$", "", name) for name in part.strip("{}+#/?&;.").split(",")]
        for part in _EXPRESSION.findall(template[:_LONGEST_TEMPLATE])
    ]


_EXPRESSION = re.compile(r"(\{[^{}]*\})")
_OPERATORS = ("+", "#", "/", "?", "&", ";", ".")
_LONGEST_TEMPLATE = 2_000
"""Characters of a URI template that are parsed: bounds the work that a server can cause
(chosen)."""
