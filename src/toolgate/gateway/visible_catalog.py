"""What a caller may see and use: tools, prompts, resources and servers.

Denied and absent look the same here, so the code above need not care.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from weakref import ref

import numpy as np

from toolgate.base.names import server_prefix
from toolgate.base.processes.error_line import failure_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.catalog import Catalog, CatalogEntry, ServerEntries, Snapshot
from toolgate.errors import (
    ForbiddenError,
    ServerDownError,
    UnknownPromptError,
    UnknownResourceError,
    UnknownServerError,
    UnknownToolError,
)
from toolgate.gateway.execution import nearest
from toolgate.search import SearchAnswer, ToolIndex
from toolgate.security.access import Access, Mask, uri_readings
from toolgate.settings import CurrentSettings
from toolgate.types import Caller, Json

_MAX_NAMED = 20
"""Withheld tools that a receipt names."""
_MAX_SERVERS_NAMED = 8
"""Servers that a notice names (chosen)."""
_FIRST_LISTING_S = 30.0
"""Seconds a call waits for a server that is starting (chosen): most local servers need 1 to 5 s,
those that `npx` or `uvx` downloads first need 20; clients give up after 60."""
_MAX_CALLERS = 1_000
"""Callers for which withheld tools are remembered."""


@dataclass(frozen=True, slots=True)
class Authorized:
    """A tool that a caller may use, and the rule that allows it."""

    entry: CatalogEntry
    """The tool."""

    rule: str
    """The rule that allows it, for the audit."""

    given: Json | None = None
    """The caller's arguments, if an override changes them; None if they are sent unchanged."""


class VisibleCatalog:
    """Looks up catalog entries for a caller, and checks access each time."""

    def __init__(
        self,
        *,
        settings: CurrentSettings,
        catalog: Catalog,
        access: Access,
        index: ToolIndex,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._access = access
        self._index = index
        self._known_denied: dict[tuple[str, str], tuple[ref[Mask], int, Json]] = {}

    def tool(self, caller: Caller, key: str) -> CatalogEntry:
        """Return a tool by key or exposed name; raises the errors of `authorize`."""
        return self.authorize(caller, key).entry

    def authorize(self, caller: Caller, key: str) -> Authorized:
        """Return a tool by key or exposed name, with the access decision.

        Raises:
            UnknownToolError: The caller has no such tool; the most similar ones are named. Callers
                who may approve a quarantined tool are told that it is one.
            ServerDownError: Its server is off, down or starting, and has never been listed.
        """
        snapshot = self._catalog.snapshot
        entry = snapshot.tool(key) or snapshot.by_exposed.get(key)
        if entry is not None:
            verdict = self._access.decide(caller, "call", entry.key)
            if verdict.allowed:
                return Authorized(entry, verdict.rule)
        server = key.partition(":")[0]
        if not self._access.decide(caller, "reach", server).allowed:
            raise self._unknown(
                caller, key, f"There is no tool {key!r}.", lambda tool: tool.shown_key
            )
        disabled = {spec.name: spec.problem for spec in self._catalog.specs if not spec.enabled}
        if server in disabled:
            raise ServerDownError.disabled(server, disabled[server])
        state = next((s for s in self._catalog.statuses() if s.name == server), None)
        if state is not None and state.state == "down" and not state.tools:
            failure = failure_text(state.last_error or "", state.stderr_tail)
            raise ServerDownError(
                f"Server {server!r} is down, and its tools were never listed.",
                allowed=state.login_hint,
                detail="" if state.login_hint else f"Last error: {failure}",
                hint="Toolgate is retrying. See: toolgate doctor",
            )
        if server in self._catalog.never_listed():
            raise _starting(server)
        raise self._unknown(caller, key, f"There is no tool {key!r}.", lambda tool: tool.shown_key)

    async def wait_first_listing(self, caller: Caller, name: str) -> None:
        """Wait a moment if a tool's server is starting and its tools have never been listed.

        Args:
            caller: The caller; servers that it cannot reach are not waited for.
            name: The key of a tool, or its exposed name.
        """
        starting = self._catalog.never_listed()
        if not starting or self._catalog.snapshot.by_exposed.get(name) is not None:
            return
        server = self._starting_server(caller, name) or name.partition(":")[0]
        if server in starting and self._access.decide(caller, "reach", server).allowed:
            await self._catalog.wait_first_listing(server, _FIRST_LISTING_S)

    def authorize_name(self, caller: Caller, name: str) -> Authorized | None:
        """A tool by exposed name only, with the access decision; None if the caller has none."""
        entry = self._catalog.snapshot.by_exposed.get(name)
        if entry is None:
            return None
        verdict = self._access.decide(caller, "call", entry.key)
        return Authorized(entry, verdict.rule) if verdict.allowed else None

    def unknown_name(self, caller: Caller, name: str) -> UnknownToolError | ServerDownError:
        """The error for an exposed name that names nothing, or nothing yet."""
        if server := self._starting_server(caller, name):
            return _starting(server)
        return self._unknown(caller, name, f"Unknown tool: {name}.", lambda tool: tool.exposed)

    def _starting_server(self, caller: Caller, name: str) -> str | None:
        """The starting server whose tools will have exposed names like this."""
        if self._settings.current.tool_names == "flat":
            return None
        prefix = name.partition("__")[0]
        for server in sorted(self._catalog.never_listed()):
            if server_prefix(server) != prefix:
                continue
            if self._access.decide(caller, "reach", server).allowed:
                return server
        return None

    def _unknown(
        self, caller: Caller, key: str, failed: str, shown: Callable[[CatalogEntry], str]
    ) -> UnknownToolError:
        quarantined = self._quarantined_key(key)
        if quarantined and self.manages(caller):
            server = quarantined.partition(":")[0]
            # A model reads this too, so it names no command that a shell of its own could run.
            return UnknownToolError(
                f"The tool {quarantined!r} is quarantined.",
                hint=f"An administrator sees why, and decides, on the page of {server!r} in the"
                " console.",
            )
        tools = [
            tool
            for tool in self._catalog.snapshot.tools
            if self._access.decide(caller, "list", tool.key).allowed
        ]
        # A name with a server means that server: its own tools come first.
        own = [shown(tool) for tool in tools if key.startswith(f"{tool.server}:")]
        near = nearest(key[:200], own)
        near += [n for n in nearest(key[:200], [shown(t) for t in tools]) if n not in near]
        near = near[:3]
        is_flat = self._settings.current.tool_names == "flat"
        return UnknownToolError(
            failed,
            allowed=f"Nearest: {', '.join(near)}." if near else "",
            hint="" if is_flat else "Find tools with tool_discovery.",
        )

    def _quarantined_key(self, name: str) -> str:
        """The quarantined tool with this key or exposed name; empty if there is none."""
        for key in self._catalog.snapshot.quarantined:
            server, _, own_name = key.partition(":")
            if name in (key, f"{server_prefix(server)}__{own_name}"):
                return key
        return ""

    def find_tool(self, caller: Caller, key: str) -> CatalogEntry | None:
        """A tool by key or exposed name; None if the caller may not use it."""
        return self.tool_or_none(caller, key) or self.by_exposed_name(caller, key)

    def reads_only(self, caller: Caller, entry: CatalogEntry) -> bool:
        """Whether a tool is trusted to change nothing, or treated so in the caller's project."""
        return self._access.reads_only(caller, entry)

    def tool_or_none(self, caller: Caller, key: str) -> CatalogEntry | None:
        """A tool by key; None if the caller may not use it."""
        entry = self._catalog.snapshot.tool(key)
        if entry is None or not self._access.decide(caller, "call", entry.key).allowed:
            return None
        return entry

    def by_exposed_name(self, caller: Caller, name: str) -> CatalogEntry | None:
        """A tool by exposed name; None if the caller may not know of it."""
        entry = self._catalog.snapshot.by_exposed.get(name)
        if entry is None or not self._access.decide(caller, "call", entry.key).allowed:
            return None
        return entry

    def prompt(self, caller: Caller, name: str) -> CatalogEntry:
        """A prompt by exposed name.

        Raises:
            UnknownPromptError: The caller has no such prompt.
        """
        entry = self._catalog.snapshot.prompts.get(name)
        if entry is None or not self._access.decide(caller, "prompt", entry.key).allowed:
            raise UnknownPromptError(
                f"There is no prompt {name[:100]!r}.",
                hint="See the list of prompts for the available ones.",
            )
        return entry

    def resource(self, caller: Caller, uri: str) -> tuple[str, str]:
        """The server of a resource, and the resource's URI there.

        Raises:
            UnknownResourceError: No server offers it to this caller.
        """
        found = self._catalog.snapshot.resource_of(
            uri,
            allowed=lambda server, own: self._may_read(caller, server, own),
        )
        if found is None:
            raise UnknownResourceError(
                f"No server offers the resource {uri[:200]!r}.",
                hint="See resources/list and resources/templates/list for the available ones.",
            )
        return found

    def _may_read(self, caller: Caller, server: str, uri: str) -> bool:
        """Whether a caller may read a URI of a server, in whatever way the server reads it."""
        readings = uri_readings(uri)
        return bool(readings) and all(
            self._access.decide(caller, "read", f"{server}:{reading}").allowed
            for reading in readings
        )

    def may_read(self, caller: Caller, uri: str) -> bool:
        """Whether a caller may be notified of changes of a resource."""
        try:
            self.resource(caller, uri)
        except UnknownResourceError:
            return False
        return True

    def servers(self, caller: Caller, snapshot: Snapshot) -> dict[str, ServerEntries]:
        """The servers on which a caller may use anything."""
        return {
            name: entries
            for name, entries in snapshot.servers.items()
            if self._access.decide(caller, "reach", name).allowed
        }

    def check_servers(self, caller: Caller, names: Sequence[str], snapshot: Snapshot) -> None:
        """Refuse names of servers that do not exist for a caller.

        Raises:
            UnknownServerError: One does not exist; the most similar is named.
        """
        servers = self.servers(caller, snapshot) if names else {}
        for name in names:
            if name not in servers:
                near = nearest(name, list(servers))
                raise UnknownServerError(
                    f"There is no server {name[:60]!r}.",
                    allowed=f"Servers: {', '.join(servers) or 'none'}.",
                    hint=f"Did you mean {near[0]!r}?" if near else "Leave `server` out.",
                )

    def tools(self, caller: Caller) -> Sequence[CatalogEntry]:
        """All tools that the caller may use, listed or not, in the order of the catalog."""
        snapshot = self._catalog.snapshot
        mask = self._access.mask(caller, snapshot)
        if mask is None:
            return snapshot.tools
        return [snapshot.tools[place] for place in mask.nonzero()[0]]

    def menu_tokens(self, caller: Caller) -> int:
        """Estimated tokens of the definitions of all tools that the caller may use."""
        snapshot = self._catalog.snapshot
        mask = self._access.mask(caller, snapshot)
        if mask is None or mask.all():
            return snapshot.menu_tokens
        mine = (snapshot.tools[place] for place in mask.nonzero()[0])
        return sum(estimate_tokens(tool.raw) + 1 for tool in mine)

    def tools_of(self, caller: Caller, server: str) -> Sequence[CatalogEntry]:
        """The tools of a server that the caller may use, in the server's order."""
        entries = self._catalog.snapshot.servers.get(server)
        return [
            entry
            for entry in (entries.tools if entries is not None else ())
            if self._access.decide(caller, "call", entry.key).allowed
        ]

    def manages(self, caller: Caller) -> bool:
        """Whether a caller may manage the gateway."""
        return self._access.decide(caller, "right", "manage").allowed

    def must_manage(self, caller: Caller) -> None:
        """Refuse callers that may not manage the gateway.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
        """
        if not self.manages(caller):
            raise ForbiddenError(
                f"{caller.caller_id!r} may not manage this gateway.",
                hint="Ask an administrator, or for the role admin.",
            )

    def withheld(
        self, caller: Caller, snapshot: Snapshot, allowed: Mask | None, hidden: Collection[str]
    ) -> Json:
        """What a search withheld from this caller, and why: for the audit, never for the caller.

        Args:
            caller: The caller.
            snapshot: The catalog.
            allowed: Which of its tools the caller may see; None for all.
            hidden: Servers that are down, whose tools were not searched.
        """
        withheld = dict(self._denied(caller, snapshot, allowed))
        if hidden:
            withheld["down"] = sorted(hidden)
        if snapshot.quarantined:
            withheld["held"] = len(snapshot.quarantined)
            withheld["held_tools"] = dict(islice(snapshot.quarantined.items(), _MAX_NAMED))
        return withheld

    def _denied(self, caller: Caller, snapshot: Snapshot, allowed: Mask | None) -> Json:
        """What a caller has no right to; computed once for each mask."""
        if allowed is None:
            return {}
        who = caller.project_id, caller.caller_id
        known = self._known_denied.get(who)
        if known is not None and known[0]() is allowed and known[1] == snapshot.version:
            return known[2]
        found: Json = {}
        if denied := len(snapshot.tools) - int(np.count_nonzero(allowed)):
            places: list[int] = np.flatnonzero(~allowed)[:_MAX_NAMED].tolist()
            keys = [snapshot.tools[at].key for at in places]
            found["denied"] = denied
            found["denied_tools"] = {
                key: self._access.decide(caller, "list", key).rule for key in keys
            }
        if len(self._known_denied) >= _MAX_CALLERS:
            self._known_denied.clear()
        self._known_denied[who] = ref(allowed), snapshot.version, found
        return found

    def mask(
        self,
        caller: Caller,
        keys: Sequence[str],
        snapshot: Snapshot,
        allowed: Mask | None,
        servers: Sequence[str],
        hidden: Collection[str],
        notices: list[str],
    ) -> Mask | None:
        """Which of `keys` a search may find: one flag each, or None for all.

        Args:
            caller: The caller.
            keys: The tools of the index, in its order.
            snapshot: The catalog.
            allowed: Which of its tools the caller may see; None for all.
            servers: The requested servers; empty for all.
            hidden: Servers that are down, whose tools are not searched.
            notices: Sentences for the caller about what is left out are added here.
        """
        unusable = {*hidden, *(spec.name for spec in self._catalog.specs if spec.problem)}
        withheld = {
            name: self.tool_count(snapshot, name, allowed)
            for name in sorted(unusable)
            if not servers or name in servers
            if self._access.decide(caller, "reach", name).allowed
        }
        notices += _down_notice(withheld)
        starting = [
            name
            for name in sorted(self._catalog.never_listed())
            if not servers or name in servers
            if self._access.decide(caller, "reach", name).allowed
        ]
        notices += _starting_notice(starting)
        if self._index.has_version(snapshot.version) and len(keys) == len(snapshot.tools):
            if not hidden:
                return allowed
            shown = np.ones(len(keys), np.bool_) if allowed is None else allowed.copy()
            for name in hidden:
                shown[snapshot.span(name)] = False
            return shown
        # Another request has meanwhile updated the index to a newer version of the catalog.
        return np.fromiter(
            (
                snapshot.tool(key) is not None
                and key.partition(":")[0] not in hidden
                and self._access.decide(caller, "list", key).allowed
                for key in keys
            ),
            dtype=np.bool_,
            count=len(keys),
        )

    @staticmethod
    def tool_count(snapshot: Snapshot, server: str, allowed: Mask | None) -> int:
        """Number of a server's tools that a caller may see."""
        span = snapshot.span(server)
        return span.stop - span.start if allowed is None else int(allowed[span].sum())

    @staticmethod
    def siblings(
        snapshot: Snapshot, allowed: Mask | None, answer: SearchAnswer
    ) -> Mapping[str, Sequence[str]]:
        """Names of all tools that a caller may see of the servers in an answer, by server."""
        found: dict[str, list[str]] = {}
        for name in dict.fromkeys([hit.key.partition(":")[0] for hit in answer.hits]):
            entries = snapshot.servers.get(name)
            if entries is None:
                continue
            names = [tool.name for tool in entries.tools]
            if allowed is not None:
                names = list(compress(names, allowed[snapshot.span(name)].tolist()))
            found[name] = names
        return found

    def json_array(self, caller: Caller, action: str, entries: Collection[CatalogEntry]) -> bytes:
        """The entries that the caller may see, as a JSON array."""
        shown = [e.raw for e in entries if self._access.decide(caller, action, e.key).allowed]
        return b"[" + b",".join(shown) + b"]"


def _down_notice(tools: Mapping[str, int]) -> list[str]:
    """A sentence about all servers that are down, by the number of tools this withholds."""
    if not tools:
        return []
    count = sum(tools.values())
    if len(tools) == 1:
        known = "its one tool is" if count == 1 else f"its {count} tools are"
        what = f"{known} hidden" if count else "its tools are not known"
        return [f"Server {next(iter(tools))} is down; {what}."]
    what = f"; {count} tool{'' if count == 1 else 's'} hidden" if count else ""
    return [f"{len(tools)} servers are down{what}: {_names(tools)}."]


def _starting_notice(servers: Sequence[str]) -> list[str]:
    if not servers:
        return []
    if len(servers) == 1:
        return [f"Server {servers[0]} is still starting; its tools are not known yet."]
    names = _names(servers)
    return [f"{len(servers)} servers are still starting; their tools are not known yet: {names}."]


def _names(servers: Collection[str]) -> str:
    """Names of servers, cut to the first few if there are many."""
    more = len(servers) - _MAX_SERVERS_NAMED
    names = ", ".join(islice(servers, _MAX_SERVERS_NAMED))
    return f"{names} and {more} more" if more > 0 else names


def _starting(server: str) -> ServerDownError:
    """The error for a tool of a server that has never been listed."""
    return ServerDownError(
        f"Server {server!r} is still starting; its tools are not known yet.",
        hint="Try again in a moment.",
    )
