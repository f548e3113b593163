"""Administrative operations: servers, quarantined tools, the index, learning, approvals.

`gateway.Gateway` has them as `manage`; each asks for the right to it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

from toolgate.audit import Receipts
from toolgate.catalog import CatalogEntry
from toolgate.catalog.scanner import QuarantinedTool, ReplacedDefinition
from toolgate.errors import (
    ArgumentError,
    ForbiddenError,
    SettingError,
    StoreError,
    UnknownApprovalError,
)
from toolgate.gateway.execution import check_arguments, nearest
from toolgate.gateway.listing_policy import ListingPolicy
from toolgate.gateway.parts import AccessControl, SearchParts, ServerParts
from toolgate.gateway.visible_catalog import VisibleCatalog
from toolgate.search import (
    IndexedTexts,
    LearningStatus,
    SearchRequest,
    VectorIndex,
    indexed_texts,
)
from toolgate.security.access import AccessDecision, PresentedCredentials
from toolgate.security.guards import CallGuardChain
from toolgate.settings import Settings
from toolgate.store import ApprovalFilter, ApprovalState, StoredApproval
from toolgate.types import (
    DEFAULT_PROJECT,
    LOCAL,
    Caller,
    Identity,
    Json,
    ServerSpec,
    ServerStatus,
    json_object,
)

__all__ = ["Management"]

log = logging.getLogger(__name__)

_RANKED = 50
"""Places of a search among which `explain` looks for a tool."""


class Management:
    """What whoever has the right `manage` can do; `mark` and `usage` are for everybody."""

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        access: AccessControl,
        servers: ServerParts,
        search: SearchParts,
        receipts: Receipts,
        visible: VisibleCatalog,
        listing: ListingPolicy,
        guards: CallGuardChain,
    ) -> None:
        self._settings = settings
        self._project = access.project
        self._catalog = servers.catalog
        self._access = access.policy
        self._admission = access.admission
        self._admin = access.admin
        self._index = search.index
        self._receipts = receipts
        self._registry = servers.registry
        self._learning = search.learning
        self._quarantine = servers.quarantine
        self._visible = visible
        self._menu = listing
        self._guards = guards.guards
        self._approvals = guards.approvals

    async def mark(self, caller: Caller, key: str, *, right: bool) -> None:
        """Say that a tool which a search showed was right, or wrong.

        Raises:
            ArgumentError: No search of this caller showed it.
        """
        with self._receipts.refusals(caller, "mark", key):
            if not await self._learning.mark(caller, key, right=right):
                raise ArgumentError(
                    f"No search of yours showed the tool {key[:100]!r} lately.",
                    hint="Search for it first; the mark belongs to that search."
                    if self._settings().usage.enabled
                    else "Learning from use is off: set usage.enabled = true.",
                )
        detail: Json = {"key": key, "mark": "right" if right else "wrong"}
        await self._receipts.note(caller, "mark", detail)

    async def usage(self, caller: Caller) -> LearningStatus:
        """What was learned from use in the caller's project."""
        return await self._learning.status(caller)

    async def forget_usage(self, caller: Caller) -> int:
        """Forget what was searched and used in the caller's project; gives the searches.

        Raises:
            ForbiddenError: The caller may not.
        """
        self._visible.must_manage(caller)
        forgotten = await self._learning.clear(caller.project_id)
        detail: Json = {"searches": forgotten}
        await self._receipts.note(caller, "forget", detail)
        return forgotten

    def indexed(self, caller: Caller, keys: Sequence[str]) -> dict[str, IndexedTexts]:
        """The texts by which the meaning of tools is found, by key: a tool's vector is their mean.

        Raises:
            UnknownToolError: A key names no tool of this caller.
        """
        entries = [self._visible.tool(caller, key) for key in dict.fromkeys(keys)]
        return {entry.key: indexed_texts(entry) for entry in entries}

    async def explain(
        self,
        caller: Caller,
        tool: str,
        *,
        identity: Identity = LOCAL,
        project: str = "",
        query: str = "",
        problem: str = "",
    ) -> Json:
        """Why somebody sees a tool, or not: `visible`, and each stage with its reason.

        Args:
            caller: Who asks; explaining needs the right `manage`.
            tool: Its key, or the name that clients see.
            identity: Who it is about.
            project: In which project; empty: in its own.
            query: A request: then it is told at which place the tool is found for it.
            problem: What is wrong with the credential of `identity`; empty: nothing.

        Raises:
            ForbiddenError: The caller may not manage.
        """
        self._visible.must_manage(caller)
        stages = [_stage("token", not problem, problem or _who(identity))]
        about = caller
        try:
            about = self._admission.caller_of(
                identity, PresentedCredentials(header_project=project)
            )
            named = "no project" if about.project_id == DEFAULT_PROJECT else about.project_id
            stages.append(_stage("request", passed=True, reason=f"It acts in {named}."))
        except ForbiddenError as error:
            stages.append(_stage("request", passed=False, reason=str(error)))
        snapshot = self._catalog.snapshot
        entry = snapshot.tool(tool) or snapshot.by_exposed.get(tool)
        key = entry.key if entry is not None else tool
        if stages[-1]["passed"]:
            stages += [
                _stage(step.stage, step.passed, step.reason)
                for step in self._access.steps(about, key)
            ]
        held = next(
            (one for one in await self._quarantine.list_quarantined() if one.key == key), None
        )
        stages.append(self._server_stage(key, is_there=entry is not None or held is not None))
        reason = "It is not held back."
        if held is not None:
            reason = f"It is held back: {held.reason} See: toolgate servers approve {held.server}"
        stages.append(_stage("quarantine", passed=held is None, reason=reason))
        visible = all(stage["passed"] for stage in stages)
        if visible and entry is not None:
            guard = self._guards.for_tool(about.project_id, entry)
            told = "No guard is about its calls." if guard is None else str(guard)
            stages.append(_stage("guards", passed=True, reason=told))
            stages.append(self._listed_stage(about, entry))
            if query:
                stages.append(await self._rank_stage(about, entry, query))
        return {
            "tool": key,
            "caller": identity.caller_id,
            "token": identity.token or None,
            "project": None if about.project_id == DEFAULT_PROJECT else about.project_id,
            "visible": visible,
            "stages": stages,
        }

    def _server_stage(self, key: str, *, is_there: bool) -> Json:
        """Whether the server has the tool, and answers."""
        server = key.partition(":")[0]
        status = next((one for one in self._catalog.statuses() if one.name == server), None)
        if status is None:
            near = nearest(key, [tool.key for tool in self._catalog.snapshot.tools])
            hint = f" Nearest: {', '.join(near[:3])}." if near else ""
            return _stage("server", False, f"There is no server {server!r}.{hint}")
        if status.state == "disabled":
            return _stage("server", False, f"Server {server!r} is disabled.")
        if not is_there:
            tools = [tool.key for tool in self._catalog.snapshot.tools if tool.server == server]
            near = nearest(key, tools)
            hint = f" Nearest: {', '.join(near[:3])}." if near else ""
            return _stage("server", False, f"Server {server!r} offers no such tool.{hint}")
        if status.state == "down":
            error = f" Last error: {status.last_error}" if status.last_error else ""
            shown = self._settings().discovery.show_down
            return _stage("server", shown, f"Server {server!r} is down.{error}")
        return _stage("server", True, f"Server {server!r} is {status.state} and offers it.")

    def _listed_stage(self, caller: Caller, entry: CatalogEntry) -> Json:
        listed = self._menu.lists_all(caller) or entry.key in self._menu.pinned(
            self._project(caller.project_id)
        )
        how = f"is listed as {entry.exposed!r}" if listed else "is found with tool_discovery"
        return _stage("listed", True, f"The tool {how}.")

    async def _rank_stage(self, caller: Caller, entry: CatalogEntry, query: str) -> Json:
        """At which place a request finds a tool."""
        snapshot = self._catalog.snapshot
        await self._index.update_to(snapshot.version, snapshot.tools)
        strategy = self._menu.arm(caller).strategy
        mask = self._visible.mask(caller, strategy.keys, snapshot, (), self._catalog.down(), [])
        wanted = SearchRequest(
            queries=(query,), limit=_RANKED, mask=mask, project_id=caller.project_id
        )
        answer = await strategy.search(wanted)
        keys = [hit.key for hit in answer.hits]
        if entry.key not in keys:
            return _stage(
                "search", False, f"It is not among the first {_RANKED} for {query!r:.80}."
            )
        place = keys.index(entry.key)
        return _stage(
            "search",
            True,
            f"It is number {place + 1} of {len(keys)} for {query!r:.80}, with relevance"
            f" {answer.hits[place].relevance:.2f}.",
        )

    async def add_server(
        self, caller: Caller, name: str, config: Json, *, save: bool = False, project: str = ""
    ) -> ServerStatus:
        """Add a server while running; nothing else is interrupted.

        Args:
            caller: Who asks.
            name: Its name.
            config: The keys of a `[server.NAME]` table.
            save: Write it into the configuration file instead of the store.
            project: The project it belongs to; empty: none, and all see it.

        Raises:
            SettingError: The configuration or the name does not fit.
        """
        self._visible.must_manage(caller)
        if project:
            self._admin.check_project(project)
            config = {**config, "project": project}
        about: Json = {"server": name, "project": project, "saved": "file" if save else "store"}
        async with self._receipts.change(caller, "server_add", about):
            await self._registry.add(project or DEFAULT_PROJECT, name, config, save=save)
        return self._status(name)

    async def remove_server(self, caller: Caller, name: str) -> None:
        """Remove a server; its running calls fail.

        Raises:
            UnknownServerError: There is none of this name.
            SettingError: It is kept in a file that Toolgate does not write.
        """
        self._visible.must_manage(caller)
        self._catalog.server(name)
        async with self._receipts.change(caller, "server_remove", {"server": name}):
            await self._registry.remove(caller.project_id, name)
        for _, search in self._index.vector_indexes:
            try:
                await search.forget(name)
            except StoreError as error:  # a clean-up finds them later
                log.warning("vectors were not removed", extra={"error": str(error)})

    async def enable_server(self, caller: Caller, name: str, enabled: bool) -> ServerStatus:  # noqa: FBT001
        """Switch a server on or off.

        Raises:
            UnknownServerError: There is none of this name.
        """
        self._visible.must_manage(caller)
        self._catalog.server(name)
        about: Json = {"server": name, "enabled": enabled}
        async with self._receipts.change(caller, "server_enable", about):
            await self._registry.enable(caller.project_id, name, enabled=enabled)
        return self._status(name)

    async def restart_server(self, caller: Caller, name: str) -> ServerStatus:
        """Connect a server anew.

        Raises:
            UnknownServerError: There is none of this name.
        """
        self._visible.must_manage(caller)
        await self._catalog.replace(self._catalog.server(name).spec)
        return self._status(name)

    async def switch_tool(
        self, caller: Caller, server: str, tool: str, *, allowed: bool
    ) -> ServerStatus:
        """Take a tool of a server away from everybody, or give it back (`tool_permissions`).

        Raises:
            UnknownServerError: There is none of this name.
            SettingError: The server stands in a file.
        """
        self._visible.must_manage(caller)
        self._catalog.server(server)
        about: Json = {"key": f"{server}:{tool}", "allowed": allowed}
        async with self._receipts.change(caller, "switch_tool", about):
            await self._registry.switch_tool(caller.project_id, server, tool, allowed=allowed)
        return self._status(server)

    def spec(self, caller: Caller, name: str) -> ServerSpec:
        """How a server is configured; its options are not for showing.

        Raises:
            ForbiddenError: The caller may not.
            UnknownServerError: There is none of this name.
        """
        self._visible.must_manage(caller)
        return self._catalog.server(name).spec

    def entry(self, caller: Caller, key: str) -> CatalogEntry | None:
        """A tool whoever may use it, for who looks after the gateway; None: there is none.

        Raises:
            ForbiddenError: The caller may not.
        """
        self._visible.must_manage(caller)
        return self._catalog.snapshot.tool(key) or self._catalog.snapshot.by_exposed.get(key)

    def verdict(self, about: Caller, key: str) -> AccessDecision:
        """Whether somebody may use a tool, and by which rule."""
        return self._access.decide(about, "call", key)

    def on_server_state(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when a server changes its state; gives what ends that."""
        return self._catalog.on_state(listener)

    def _status(self, name: str) -> ServerStatus:
        return next(status for status in self._catalog.statuses() if status.name == name)

    async def held_tools(self, caller: Caller) -> list[QuarantinedTool]:
        """The tools that wait until somebody approves them, with what is suspicious.

        Raises:
            ForbiddenError: The caller may not.
        """
        self._visible.must_manage(caller)
        return await self._quarantine.list_quarantined()

    async def tool_versions(self, caller: Caller, key: str) -> list[ReplacedDefinition]:
        """What a tool was before its server changed it, the last first.

        Raises:
            ForbiddenError: The caller may not.
            UnknownToolError: There is no such tool.
        """
        self._visible.must_manage(caller)
        entry = self._visible.tool(caller, key)
        return await self._quarantine.versions(entry.server, entry.name, entry.definition)

    async def decide_held(
        self, caller: Caller, server: str, tool: str, *, accept: bool
    ) -> QuarantinedTool:
        """Let a tool that is held back through, as it is now, or say no to it.

        Raises:
            ForbiddenError: The caller may not.
            UnknownServerError: There is no such server.
            UnknownToolError: It is not held back.
        """
        self._visible.must_manage(caller)
        self._catalog.server(server)
        about: Json = {"key": f"{server}:{tool}", "decision": "approved" if accept else "rejected"}
        async with self._receipts.change(caller, "approve", about):
            held = await self._quarantine.decide(server, tool, accept=accept, by=caller.caller_id)
            await self._catalog.reinspect(server)
        return held

    # Approvals

    async def approvals(
        self,
        caller: Caller,
        *,
        state: ApprovalState | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[StoredApproval]:
        """Calls that wait or waited for a person, newest first.

        Everybody sees their own; who may approve, those of the project; who may manage, all.
        """
        wanted = ApprovalFilter(state=state, after=after, limit=limit)
        if not self._may(caller, "manage"):
            wanted = replace(wanted, project_id=caller.project_id)
            if not self._may(caller, "approve"):
                wanted = replace(wanted, caller_id=caller.caller_id)
        return await self._approvals.search(wanted)

    async def approval(self, caller: Caller, approval_id: str) -> StoredApproval:
        """One of these.

        Raises:
            UnknownApprovalError: There is none of this id that the caller may know of.
        """
        found = await self._approvals.get(approval_id)
        if not self._may(caller, "manage"):
            is_near = found.project_id == caller.project_id
            is_own = found.caller_id == caller.caller_id
            if not is_near or not (is_own or self._may(caller, "approve")):
                raise UnknownApprovalError(f"There is no approval {approval_id[:64]!r}.")
        return found

    async def decide_approval(
        self,
        caller: Caller,
        approval_id: str,
        *,
        approve: bool,
        via: str,
        comment: str = "",
        arguments: Json | None = None,
    ) -> StoredApproval:
        """Say yes or no to a call that waits; `arguments` run in place of those that came.

        Raises:
            ForbiddenError: The caller may not approve, or may not approve its own calls.
            UnknownApprovalError: There is none of this id.
            DecidedError: Somebody has decided, or it is too late.
            ArgumentError: The arguments are none for this tool.
        """
        with self._receipts.refusals(caller, "approval", approval_id[:64]):
            found = await self.approval(caller, approval_id)
            if not (self._may(caller, "approve") or self._may(caller, "manage")):
                raise ForbiddenError(
                    f"{caller.caller_id!r} may not approve calls.",
                    hint="Ask somebody who has the right approve, or an administrator.",
                )
            is_own = found.caller_id == caller.caller_id and caller.identity.kind != "local"
            if found.approver == "admin" and is_own:
                raise ForbiddenError(
                    "Nobody approves calls of their own here.", hint="Ask somebody else."
                )
            if arguments is not None:
                entry = self._catalog.snapshot.tool(found.tool)
                if entry is not None:
                    schema = json_object(entry.definition.get("inputSchema"))
                    check_arguments(schema, arguments, digest=entry.digest, tool=entry.key)
        await self._receipts.wait_written(caller)
        decided = await self._approvals.decide(
            caller,
            approval_id,
            approve=approve,
            by=caller.identity.user or caller.identity.token or caller.caller_id,
            via=via,
            comment=comment,
            edited=arguments,
        )
        await self._receipts.wait_written(caller)
        return decided

    def on_approval(self, listener: Callable[[StoredApproval], None]) -> Callable[[], None]:
        """Have a function called when a call is parked or decided here; gives what ends that."""
        return self._approvals.on_change(listener)

    async def wait_approval(self, approval_id: str, *, within_s: float) -> StoredApproval:
        """An approval once it is decided, or as it stands after a time; for doors that wait."""
        return await self._approvals.wait(approval_id, within_s=within_s)

    def _may(self, caller: Caller, right: str) -> bool:
        return self._access.decide(caller, "right", right).allowed

    @property
    def pinned(self) -> frozenset[str]:
        """Keys of the tools that are always listed."""
        return self._menu.pinned()

    @property
    def menu_tokens(self) -> int:
        """Estimated tokens of all definitions."""
        return self._catalog.snapshot.menu_tokens

    async def index_status(self, caller: Caller) -> Json:
        """How the vectors of the tools stand, for each search that has some."""
        snapshot = self._catalog.snapshot
        await self._index.update_to(snapshot.version, snapshot.tools)
        found: list[Json] = []
        for name, search in self._index.vector_indexes:
            status = await search.index_status()
            servers = [
                row
                for row in status["servers"]
                if self._access.decide(caller, "server", row["name"]).allowed
            ]
            found.append({"search": name, **status, "servers": servers})
        services: dict[str, bool] = {}
        for name, service in self._index.services:
            services[name] = services.get(name, False) or service.is_suspended
        return {
            "searches": found,
            "searched_by": [arm.name for arm in self._index.experiment.all],
            "services": [
                {"search": name, "is_left_alone": alone} for name, alone in services.items()
            ],
        }

    async def index_refresh(self, caller: Caller, server: str | None = None) -> int:
        """Compute the vectors of a server anew, or of all; gives how many tools that concerns.

        They are computed in the background: see `index_status`.

        Raises:
            UnknownServerError: There is none of this name.
            SettingError: No search here has vectors.
        """
        self._visible.must_manage(caller)
        if server is not None:
            self._catalog.server(server)
        began, snapshot = perf_counter(), self._catalog.snapshot
        await self._index.update_to(snapshot.version, snapshot.tools)
        wanted = None if server is None else [server]
        counts = [await search.refresh(wanted) for search in self._searches_with_vectors()]
        detail: Json = {"index": "refresh", "server": server}
        await self._receipts.note(caller, "index", detail, began=began)
        return max(counts)

    async def index_remove(self, caller: Caller, server: str) -> int:
        """Remove what is kept of a server's vectors; gives how many tools that concerned.

        What is in memory serves on. They are computed again by a refresh or the next start.

        Raises:
            UnknownServerError: Nothing of this name is kept or served.
            SettingError: No search here has vectors.
        """
        self._visible.must_manage(caller)
        began = perf_counter()
        snapshot = self._catalog.snapshot
        await self._index.update_to(snapshot.version, snapshot.tools)
        counts = [await search.forget(server) for search in self._searches_with_vectors()]
        if not any(counts) and server not in snapshot.servers:
            self._catalog.server(server)
        detail: Json = {"index": "remove", "server": server}
        await self._receipts.note(caller, "index", detail, began=began)
        return max(counts)

    def _searches_with_vectors(self) -> list[VectorIndex]:
        found = [search for _, search in self._index.vector_indexes]
        if not found:
            raise SettingError(
                f"The search {self._index.experiment.all[0].name!r} has no vectors.",
                hint='Set optimization = "hybrid" to search by meaning too.',
            )
        return found


def _stage(stage: str, passed: bool, reason: str) -> Json:  # noqa: FBT001 - a row
    return {"stage": stage, "passed": passed, "reason": reason}


def _who(identity: Identity) -> str:
    if identity.kind == "local":
        return "The local user, without a token."
    roles = ", ".join(identity.roles) or "none"
    return f"The token {identity.token!r} is valid. Roles: {roles}."
