"""The gateway: every verb, and for each the order in which the stages work. Nothing goes around it.

```
enrich  : intent ▶ rules with variables ▶ enriched prompt or PASS_THROUGH ▶ audit
discover: snapshot ▶ access mask ▶ intent ▶ search ▶ budgeted answer ▶ audit
execute : snapshot ▶ access decision ▶ arguments checked ▶ guards, approval ▶ audit ▶ server ▶ audit
          ▶ guards ▶ paged
```

Knows no wire format and no protocol library: doors (`serve`, `cli`) bring a `Caller`, and a `Peer`
where the client can be told or asked something while the call runs.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal

import numpy as np

from toolgate.audit import OutcomeReporter, Receipts
from toolgate.base import json_text
from toolgate.base.ids import new_id, utc_now
from toolgate.base.signing import Signer
from toolgate.base.token_estimate import estimate_tokens
from toolgate.base.tracing import observe, sent_requests, take_trace
from toolgate.catalog import (
    Catalog,
    CatalogChange,
    CatalogEntry,
    Menu,
    Snapshot,
)
from toolgate.catalog.scanner import Quarantine
from toolgate.documents import AskModel, DocumentLibrary, OnRetrieved, Retrieval, RetrieveRequest
from toolgate.errors import (
    ApprovalError,
    ArgumentError,
    GuardError,
    HandleError,
    LimitError,
    RpcError,
    StoreError,
    ToolgateError,
    UpstreamError,
)
from toolgate.gateway.administration import Management, ServerEditor
from toolgate.gateway.documents import DocumentService
from toolgate.gateway.execution import (
    Protections,
    Running,
    RunningCall,
    check_arguments,
    nearest,
    page_result,
    read_page,
)
from toolgate.gateway.listing_policy import ListingPolicy
from toolgate.gateway.meta_tools import (
    DEFINITIONS,
    DiscoverRequest,
    ExecuteRequest,
    read_describe,
    read_discover,
    read_execute,
    read_get_knowledge,
    read_process_prompt,
    read_result_read,
)
from toolgate.gateway.prompts import PromptService
from toolgate.gateway.visible_catalog import VisibleCatalog
from toolgate.intents import Detection, DetectRequest, Intent
from toolgate.intents.rules import CALL_FIRST
from toolgate.intents.service import Advice, Enrichment, IntentService, Knowledge, ToolNames
from toolgate.prompts import Prompts
from toolgate.search import (
    Description,
    Discovery,
    Hit,
    Learning,
    Relations,
    SearchAnswer,
    SearchedQuery,
    SearchRequest,
    ToolIndex,
    compose,
    describe_tools,
    signature,
)
from toolgate.security.access import Access, AccessAdmin, Admission, UsageLimits
from toolgate.security.guards import CallGuardChain, GuardedCall
from toolgate.settings import ProjectTable, Settings
from toolgate.store import Store, StoredResult
from toolgate.types import (
    Caller,
    Json,
    Peer,
    ServerStatus,
    json_array,
    json_object,
)

__all__ = ["Change", "Gateway", "ToolView"]

log = logging.getLogger(__name__)

_NAMED = 12
"""Siblings of a server that an answer names."""

_RESULT_HANDLE = "handle"
_READ_KEY = "toolgate:result_read"
_MAX_INSTRUCTIONS = 4000

_INVALID_PARAMS = -32602
_QUERY_CHARS = 2_000


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something that clients may want to hear of."""

    kind: Literal["tools", "prompts", "resources", "resource"]
    """Which list is different; `resource`: one resource has new content."""

    uri: str | None = None
    """The resource, under the URI that clients use."""


@dataclass(frozen=True, kw_only=True)
class ToolView:
    """A tool as surfaces show it."""

    key: str
    """`server:tool`."""

    exposed: str
    """The name it has in `tools/list`."""

    server: str
    """Its server."""

    definition: Json
    """As clients see it."""

    down: bool
    """Whether its server does not answer now."""


class Gateway:
    """All that Toolgate does, as methods. Get one from `toolgate.open_app`."""

    def __init__(
        self,
        *,
        settings: Settings,
        catalog: Catalog,
        access: Access,
        index: ToolIndex,
        receipts: Receipts,
        store: Store,
        signer: Signer,
        registry: ServerEditor,
        learning: Learning,
        relations: Relations,
        quarantine: Quarantine,
        guide: IntentService,
        admission: Admission,
        admin: AccessAdmin,
        limits: UsageLimits,
        passage: CallGuardChain,
        library: DocumentLibrary,
        prompts: Prompts,
        project: Callable[[str], ProjectTable],
        projects_of: Callable[[str], tuple[str, ...]],
    ) -> None:
        self.settings = settings
        self.admission = admission
        """Tells who asks: doors get their callers from it."""
        self.admin = admin
        """Looks after tokens, projects and permissions."""
        self.protections = Protections()
        """Files that only the tools of a pack may change."""
        self._catalog = catalog
        self._access = access
        self._limits = limits
        self._running = Running()
        self._passage = passage
        self._project = project
        self._projects_of = projects_of
        self._index = index
        self._receipts = receipts
        self._store = store
        self._signer = signer
        self._learning = learning
        self._relations = relations
        self._guide = guide
        self._listeners: list[Callable[[Change], None]] = []
        self._access_listeners: list[Callable[[], None]] = []
        self._menu = Menu(catalog, {n: json_text.dumps(d) for n, d in DEFINITIONS.items()})
        self.visible = VisibleCatalog(
            settings=self._current, catalog=catalog, access=access, index=index
        )
        """Looks up what a caller may use."""
        self._listing = ListingPolicy(
            settings=self._current,
            project=project,
            catalog=catalog,
            menu=self._menu,
            index=index,
            guide=guide,
        )
        self.manage = Management(
            settings=self._current,
            project=project,
            catalog=catalog,
            access=access,
            admission=admission,
            admin=admin,
            index=index,
            receipts=receipts,
            registry=registry,
            learning=learning,
            quarantine=quarantine,
            visible=self.visible,
            listing=self._listing,
            passage=passage,
        )
        """The verbs of those who look after it."""
        self.documents = DocumentService(
            library,
            access=access,
            receipts=receipts,
            visible=self.visible,
            catalog=catalog,
            render=prompts.render,
            keep_queries=lambda: self.settings.audit.keep_queries,
        )
        """The verbs about documents."""
        self.prompts = PromptService(
            prompts, visible=self.visible, catalog=catalog, receipts=receipts
        )
        """The verbs about prompts."""
        self._showed_all: bool | None = None
        self._watched: dict[str, int] = {}
        self._missed: set[str] = set()
        self._tool_names = ToolNames()
        self._background: set[asyncio.Task[None]] = set()
        self._detach = [
            catalog.on_change(self._on_catalog_change),
            catalog.on_state(self._on_server_state),
            catalog.on_resource(self._on_resource),
        ]

    def _current(self) -> Settings:
        return self.settings

    def close(self) -> None:
        """Stop listening to the catalog; the owner closes what it gave."""
        for detach in self._detach:
            detach()
        for task in self._background:
            task.cancel()

    def access_changed(self) -> None:
        """Other permissions are in place: what each client sees may be different."""
        self.settings_changed()
        for listener in list(self._access_listeners):
            listener()

    def on_access_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when permissions change; gives what ends that."""
        self._access_listeners.append(listener)
        return lambda: self._access_listeners.remove(listener)

    def running(self, caller: Caller) -> list[RunningCall]:
        """The calls that run now, the longest first: of all for who manages, else one's own."""
        calls = self._running.calls()
        if self.visible.manages(caller):
            return calls
        return [call for call in calls if call.caller_id == caller.caller_id]

    def on_running(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when a call begins or ends; gives what ends that."""
        return self._running.on_change(listener)

    def settings_changed(self) -> None:
        """New settings are in place: what is listed may be different."""
        self._menu.reset()
        for kind in ("tools", "prompts", "resources"):
            self._tell(Change(kind=kind))

    def packs_changed(self) -> None:
        """Other packs are in place: there may be rules now, or none any more."""
        self._tell(Change(kind="tools"))

    # What a client is shown

    @property
    def instructions(self) -> str:
        """What the gateway says about its use to whoever may use all of it."""
        return self.instructions_for(Caller())

    def instructions_for(self, caller: Caller) -> str:
        """What the gateway says about its use, for `initialize` and `server/discover`."""
        servers = self.visible.servers(caller, self._catalog.snapshot)
        said = {n: e.instructions.strip() for n, e in servers.items() if e.instructions}
        if self.settings.tool_names == "flat":
            return next(iter(said.values()), "")
        count = len(servers)
        lines = [f"Toolgate: one endpoint for {count} MCP server{'' if count == 1 else 's'}."]
        if "processPrompt" in self.settings.meta_tools and self._guide.has_rules:
            lines.append(CALL_FIRST)
        if not self._listing.lists_all(caller):
            # While the search is tried out, a part of the conversations has the real tools.
            where = "Where tool_discovery is listed: find" if self._listing.is_mixed() else "Find"
            lines.append(
                f"{where} tools with tool_discovery (one short capability phrase per step), run "
                "them with tool_execute. Servers: " + ", ".join(servers) + "."
            )
            if self.settings.groups:
                lines.append(f"Groups (argument `group`): {', '.join(self.settings.groups)}.")
        else:
            lines.append("Tools are named server__tool.")
            lines += [f"{name}: {text}" for name, text in said.items()]
        return "\n".join(lines)[:_MAX_INSTRUCTIONS]

    async def list_tools(self, caller: Caller) -> bytes:
        """What `tools/list` shows, as a JSON array: by mode the real tools or the meta-tools."""
        mask = self._access.mask(caller, self._catalog.snapshot)
        allowed = None if mask is None else mask.tobytes()
        meta = self._listing.meta_tools(caller)
        return self._menu.listing(self._listing.rules(caller), allowed, meta)

    async def list_prompts(self, caller: Caller) -> bytes:
        """What `prompts/list` shows, as a JSON array; the same in every mode."""
        listed = self.visible.json_array(caller, "prompt", self._catalog.snapshot.prompts.values())
        if not self.settings.models or self.settings.tool_names == "flat":
            return listed
        own = [json_text.dumps(one) for one in await self.prompts.definitions(caller)]
        return b"[" + b",".join([*own, *filter(None, [listed[1:-1]])]) + b"]"

    async def list_resources(self, caller: Caller) -> bytes:
        """What `resources/list` shows, as a JSON array; the same in every mode."""
        return self.visible.json_array(caller, "read", self._catalog.snapshot.resources.values())

    async def list_templates(self, caller: Caller) -> bytes:
        """What `resources/templates/list` shows, as a JSON array; the same in every mode."""
        return self.visible.json_array(caller, "read", self._catalog.snapshot.templates.values())

    def tools(self, caller: Caller) -> list[ToolView]:
        """All tools that the caller may use, listed or not."""
        down = self._catalog.down()
        return [
            ToolView(
                key=tool.key,
                exposed=tool.exposed,
                server=tool.server,
                definition=tool.definition,
                down=tool.server in down,
            )
            for tool in self._catalog.snapshot.tools
            if self._access.decide(caller, "list", tool.key).allowed
        ]

    def input_schema(self, caller: Caller, name: str) -> Json | None:
        """Input schema of a tool by exposed name or of a meta-tool; None: no such tool."""
        entry = self.visible.by_exposed_name(caller, name)
        if entry is not None:
            return json_object(entry.definition.get("inputSchema"))
        if self.settings.tool_names != "flat" and name in DEFINITIONS:
            return json_object(DEFINITIONS[name]["inputSchema"])
        return None

    def mirrors(self, caller: Caller, name: str) -> bool:
        """Whether calls of a tool repeat arguments in headers (`x-mcp-header` in its schema)."""
        entry = self.visible.by_exposed_name(caller, name)
        return entry is not None and b'"x-mcp-header"' in entry.raw

    def on_change(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Have a function called when something changes; gives what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # Calling by name

    async def call(self, caller: Caller, params: Json, peer: Peer | None) -> Json:
        """Answer a `tools/call`: a meta-tool, or a tool by its exposed name, listed or not.

        Gives:
            The result object. What a model can react to (arguments that do not fit, a server that
            is down, a deadline) is a result with `isError`.

        Raises:
            UnknownToolError: No such tool for this caller.
            RpcError: The server answered with a JSON-RPC error.
        """
        meta = json_object(params.get("_meta"))
        take_trace(meta.get("traceparent"), meta.get("tracestate"))
        name = str(params.get("name"))
        entry = self._catalog.snapshot.by_exposed.get(name)
        if entry is None and self.settings.tool_names != "flat" and name in DEFINITIONS:
            return await self._call_meta(caller, name, params, peer)
        try:
            if entry is None or not self._access.decide(caller, "call", entry.key).allowed:
                with self._receipts.refusals(caller, "call", name):
                    raise self.visible.unknown_name(caller, name)
            return await self._run_unchecked(caller, entry, params, peer)
        except RpcError:
            raise
        except (UpstreamError, HandleError, LimitError, GuardError, StoreError) as error:
            return _problem(error)

    async def _call_meta(self, caller: Caller, name: str, params: Json, peer: Peer | None) -> Json:
        arguments = params.get("arguments")
        try:
            match name:
                case "tool_discovery":
                    with self._receipts.refusals(caller, "discover", ""):
                        request = read_discover(arguments)
                    found = await self.discover(caller, request)
                    return _said(found.text, found.structured() if _structured(params) else None)
                case "tool_describe":
                    with self._receipts.refusals(caller, "describe", ""):
                        keys = read_describe(arguments).keys
                    shown = await self.describe(caller, keys)
                    return _said(shown.text, shown.structured() if _structured(params) else None)
                case "processPrompt":
                    with self._receipts.refusals(caller, "enrich", ""):
                        prompt = read_process_prompt(arguments).prompt
                    made = await self.enrich(caller, prompt)
                    return _with_structure(made.text, made.structured())
                case "getKnowledge":
                    with self._receipts.refusals(caller, "knowledge", ""):
                        queries = read_get_knowledge(arguments).queries
                    known = await self.knowledge(caller, queries)
                    return _with_structure(known.text, known.structured())
                case "tool_execute":
                    with self._receipts.refusals(caller, "call", ""):
                        wanted_call = read_execute(arguments)
                    return await self._execute_meta(caller, wanted_call, params, peer)
                case _:
                    wanted = read_result_read(arguments)
                    return await self.read_result(caller, wanted.handle, wanted.offset)
        except RpcError:
            raise
        except ToolgateError as error:
            return _problem(error)

    async def _execute_meta(
        self, caller: Caller, wanted: ExecuteRequest, params: Json, peer: Peer | None
    ) -> Json:
        if wanted.key in (_READ_KEY, "result_read"):
            page = read_result_read(wanted.arguments)
            return await self.read_result(caller, page.handle, page.offset)
        with self._receipts.refusals(caller, "call", wanted.key):
            entry = self.visible.tool(caller, wanted.key)
            if "requestState" not in params and "inputResponses" not in params:
                await self._check_for(caller, entry, wanted.arguments)
        inner = {**params, "arguments": wanted.arguments}
        result = await self._run(caller, entry, inner, peer)
        return await self._paged(caller, result)

    # Rules

    async def detect(self, caller: Caller, request: DetectRequest) -> list[Detection]:
        """What messages ask for; a tool that the caller may not use is not suggested."""
        began = perf_counter()
        found = await self._guide.detect(caller, request)
        for at, one in enumerate(found):
            if one.tool is not None and self._is_withheld(caller, one.intent, one.tool):
                found[at] = replace(one, tool=None, arguments={}, read_arguments=())
        texts = "\n".join(request.messages) if self.settings.audit.keep_queries else None
        named = Counter(one.intent for one in found)
        self._receipts.simple(
            caller,
            "detect",
            began=began,
            query=texts[:_QUERY_CHARS] if texts is not None else None,
            detail={"messages": len(found), "intents": dict(named.most_common(20))},
        )
        await self._receipts.wait_written(caller)
        return found

    def _is_withheld(self, caller: Caller, intent: str, tool: str) -> bool:
        """Whether an intent's tool is there, and the caller may not use it."""
        snapshot, taught = self._catalog.snapshot, self._guide.recognizer.intent_set
        known = next((one for one in taught.intents if one.name == intent), None)
        if known is None:
            return False
        entries = list(self._tool_names.entries(snapshot, taught, known, tool))
        return bool(entries) and not any(
            self._access.decide(caller, "call", entry.key).allowed for entry in entries
        )

    async def enrich(self, caller: Caller, prompt: str) -> Enrichment:
        """A message of the user with the rules and tools for it, or `PASS_THROUGH`."""
        began = perf_counter()
        made = await self._guide.enrich(caller, prompt, self._tools(caller))
        self._receipts.simple(
            caller,
            "enrich",
            began=began,
            query=prompt[:_QUERY_CHARS] if self.settings.audit.keep_queries else None,
            detail={
                "intent": made.detection.intent,
                "confidence": round(made.detection.confidence, 3),
                "stage": made.detection.stage,
                "rules": [[each.intent, each.tokens] for each in made.rules],
                "tokens": made.tokens,
            },
        )
        await self._receipts.wait_written(caller)
        return made

    async def knowledge(self, caller: Caller, queries: Sequence[str]) -> Knowledge:
        """The rules for short actions, such as "create relation"."""
        began = perf_counter()
        known = await self._guide.knowledge(caller, queries, self._tools(caller))
        self._receipts.simple(
            caller,
            "knowledge",
            began=began,
            query="\n".join(queries)[:_QUERY_CHARS] if self.settings.audit.keep_queries else None,
            detail={
                "rules": [[each.intent, each.tokens] for each in known.rules],
                "tokens": known.tokens,
            },
        )
        await self._receipts.wait_written(caller)
        return known

    def _tools(self, caller: Caller) -> "_Tools":
        return _Tools(self, self._listing, caller)

    def tools_of(self, caller: Caller, intent: Intent) -> list[CatalogEntry]:
        """The tools of an intent that the caller may use, in the intent's order.

        An intent names a tool by its key or by its bare name, which is looked for on the server of
        its own pack first.
        """
        snapshot, taught = self._catalog.snapshot, self._guide.recognizer.intent_set
        found: dict[str, CatalogEntry] = {}
        for name in intent.tools or ((intent.tool,) if intent.tool else ()):
            for entry in self._tool_names.entries(snapshot, taught, intent, name):
                if self._access.decide(caller, "call", entry.key).allowed:
                    found[entry.key] = entry
                    break
        return list(found.values())

    def suggested(self, caller: Caller, found: Detection) -> CatalogEntry | None:
        """The tool that a detection suggests, if the caller may use it."""
        snapshot, taught = self._catalog.snapshot, self._guide.recognizer.intent_set
        known = next((one for one in taught.intents if one.name == found.intent), None)
        if known is None or not found.tool:
            return None
        for entry in self._tool_names.entries(snapshot, taught, known, found.tool):
            if self._access.decide(caller, "call", entry.key).allowed:
                return entry
        return None

    # Finding

    async def discover(self, caller: Caller, request: DiscoverRequest) -> Discovery:
        """The tools that fit, within the token budget, with what was withheld and why.

        Raises:
            UnknownServerError: `servers` names one that is not there.
        """
        began = perf_counter()
        snapshot = self._catalog.snapshot
        if request.servers:
            with self._receipts.refusals(caller, "discover", ",".join(request.servers)):
                self.visible.check_servers(caller, request.servers, snapshot)
        await self._index.update_to(snapshot.version, snapshot.tools)
        arm = self._listing.arm(caller)
        strategy = arm.strategy
        notices: list[str] = []
        self._relations.refresh(snapshot.version, self._index.tools, strategy)
        down = self._catalog.down()
        group = None
        if request.group:
            with self._receipts.refusals(caller, "discover", request.group):
                group = await self._group(caller, request.group)
        with observe("decision", tools=len(strategy.keys)):
            mask = self.visible.mask(
                caller, strategy.keys, snapshot, request.servers, down, notices
            )
        servers = request.servers
        if group is not None:
            within = np.fromiter((key in group for key in strategy.keys), np.bool_)
            servers, outside = _in_group(request, group)
            notices += outside
            if request.servers and not servers:
                within[:] = False
            mask = within if mask is None else mask & within
        settings, project = self.settings.discovery, self._project(caller.project_id)
        wanted = SearchRequest(
            queries=request.queries,
            context=request.context,
            limit=request.max_results or settings.max_results,
            servers=servers,
            mask=mask,
            threshold=request.threshold,
            project_id=caller.project_id,
            recent=self._learning.recent(caller),
            weights=request.weights,
            learned=await self._learning.learned(caller),
        )
        with observe("search", queries=len(request.queries), tools=len(strategy.keys)):
            answer = await strategy.search(wanted)
            if arm.name != "off":
                answer = await self._with_intents(caller, wanted, answer, strategy.keys)
        if settings.show_down:
            hits = sorted(answer.hits, key=lambda hit: hit.key.partition(":")[0] in down)
            answer = replace(answer, hits=tuple(hits))
        if request.include_core and arm.name != "off":
            core = self._core(caller, answer, request)
            answer = replace(answer, hits=(*answer.hits, *core)) if core else answer
        with observe("answer", hits=len(answer.hits)):
            found = compose(
                answer,
                lambda key: _definition(snapshot, key),
                siblings=self.visible.siblings(caller, snapshot, answer) if request.as_text else {},
                budget_tokens=project.budget_tokens or settings.budget_tokens,
                down=down,
                notices=notices,
                alternatives=self._alternatives(caller, answer),
                used_with=self._used_with(caller, answer),
                as_text=request.as_text,
            )
        self._learn(caller, request, answer, found)
        self._receipts.discovery(
            caller,
            request.queries,
            [(one.tool_key, one.relevance) for one in found.results],
            tokens=found.tokens,
            began=began,
            searched_by=arm.name,
            fallback=answer.fallback,
            withheld=self.visible.withheld(caller, snapshot, down),
        )
        await self._receipts.wait_written(caller)
        return found

    async def _with_intents(
        self, caller: Caller, wanted: SearchRequest, answer: SearchAnswer, keys: Sequence[str]
    ) -> SearchAnswer:
        """The answer with what packs know of the request: the tools of its intents are raised."""

        def could_be_found(key: str) -> bool:
            if wanted.servers and key.partition(":")[0] not in wanted.servers:
                return False
            return wanted.mask is None or (key in keys and bool(wanted.mask[keys.index(key)]))

        raised = await self._guide.search_boosts(caller, wanted.queries, self._tools(caller))
        if not raised:
            return answer
        for each in raised:
            answer = each.apply_to(answer, may_add=could_be_found)
        hits = [hit for hit in answer.hits if hit.relevance >= wanted.threshold]
        return replace(answer, hits=tuple(hits[: wanted.limit]))

    def _core(self, caller: Caller, answer: SearchAnswer, request: DiscoverRequest) -> list[Hit]:
        """The pinned tools that the search has not found."""
        found = {hit.key for hit in answer.hits}
        return [
            Hit(key=entry.key, relevance=0.0, explanation="is pinned", source="core")
            for key in sorted(self._listing.pinned(self._project(caller.project_id)) - found)
            if (entry := self._catalog.snapshot.tool(key)) is not None
            if not request.servers or entry.server in request.servers
            if self._access.decide(caller, "list", key).allowed
        ]

    async def _group(self, caller: Caller, name: str) -> Collection[str] | None:
        """Keys of the tools of a capability group; None when none is asked for.

        Raises:
            ArgumentError: There is no such group.
        """
        if not name.strip():
            return None
        group = self._relations.groups.find(name)
        if group is None:
            await self._relations.wait_until_computed()
            group = self._relations.groups.find(name)
        if group is not None and self._sees_any(caller, group):
            return group
        known = self._relations.groups.keys
        groups = [one for one, keys in known.items() if self._sees_any(caller, keys)]
        near = nearest(name, groups)
        raise ArgumentError(
            f"There is no group {name[:60]!r}.",
            allowed=f"Groups: {', '.join(groups[:40]) or 'none'}.",
            hint=f"Did you mean {near[0]!r}?" if near else "Leave `group` out.",
        )

    def _sees_any(self, caller: Caller, keys: Collection[str]) -> bool:
        """Whether a group has anything for a caller; one without any tool is nobody's secret."""
        return not keys or any(self._access.decide(caller, "list", key).allowed for key in keys)

    def _usable(self, caller: Caller, keys: Sequence[str]) -> list[str]:
        """Those of the keys that name a tool which the caller may see and which can run now."""
        down, snapshot = self._catalog.down(), self._catalog.snapshot
        return [
            key
            for key in keys
            if (entry := snapshot.tool(key)) is not None
            if entry.server not in down and self._access.decide(caller, "list", key).allowed
        ]

    def _alternatives(self, caller: Caller, answer: SearchAnswer) -> Mapping[str, Sequence[str]]:
        if not self.settings.usage.alternatives:
            return {}
        known = self._relations.alternatives
        return {
            hit.key: usable
            for hit in answer.hits
            if hit.key in known and (usable := self._usable(caller, known[hit.key]))
        }

    def _used_with(self, caller: Caller, answer: SearchAnswer) -> Mapping[str, Sequence[str]]:
        found = self._learning.used_together(caller.project_id, [hit.key for hit in answer.hits])
        return {key: self._usable(caller, others) for key, others in found.items()}

    def _learn(
        self, caller: Caller, request: DiscoverRequest, answer: SearchAnswer, found: Discovery
    ) -> None:
        """Remember what an answer showed, so that a call can be told to belong to it."""
        shown = {one.tool_key for one in found.results}
        beside = {key for one in found.results for key in one.alternatives}
        beside |= {key for one in found.results for key, _ in one.used_with}
        beside |= {
            f"{name}:{tool}" for name, tools in found.siblings.items() for tool in tools[:_NAMED]
        }
        asked = answer.queries or tuple(SearchedQuery(query=query) for query in request.queries)
        hits = [hit for hit in answer.hits if hit.key in shown]
        self._learning.note_search(caller, asked, answer.model, hits, beside)

    async def groups(self, caller: Caller) -> list[Json]:
        """The capability groups: `name`, `servers`, `tools` that the caller may see, `derived`."""
        snapshot = self._catalog.snapshot
        await self._index.update_to(snapshot.version, snapshot.tools)
        strategy = self._listing.arm(caller).strategy
        self._relations.refresh(snapshot.version, self._index.tools, strategy)
        await self._relations.wait_until_computed()
        found: list[Json] = []
        for name, keys in self._relations.groups.keys.items():
            entries = [
                entry
                for key in sorted(keys)
                if (entry := snapshot.tool(key)) is not None
                if self._access.decide(caller, "list", key).allowed
            ]
            if keys and not entries and not self._sees_any(caller, keys):
                continue
            found.append(
                {
                    "name": name,
                    "servers": list(dict.fromkeys(entry.server for entry in entries)),
                    "tools": len(entries),
                    "derived": name in self._relations.groups.derived,
                }
            )
        return found

    async def describe(self, caller: Caller, keys: Sequence[str]) -> Description:
        """Full schemas of tools, within the budget; whole tools are left out before any is cut.

        A key that names nothing is told in a notice, beside the schemas of the others.

        Raises:
            UnknownToolError: No key names a tool of this caller; the nearest ones are named.
        """
        began = perf_counter()
        entries: list[CatalogEntry] = []
        problems: list[ToolgateError] = []
        for key in dict.fromkeys(keys):
            try:
                with self._receipts.refusals(caller, "describe", key):
                    entries.append(self.visible.tool(caller, key))
            except ToolgateError as error:
                problems.append(error)
        if problems and not entries:
            raise problems[0]
        shown = describe_tools(
            [(entry.key, entry.definition) for entry in entries],
            budget_tokens=self.settings.discovery.describe_budget_tokens,
            notices=[str(problem) for problem in problems[:3]],
        )
        detail: Json = {"keys": [entry.key for entry in entries], "tokens": shown.tokens}
        self._receipts.simple(caller, "describe", began=began, detail=detail)
        await self._receipts.wait_written(caller)
        return shown

    # Running

    async def execute(
        self, caller: Caller, key: str, arguments: Json, *, peer: Peer | None = None
    ) -> Json:
        """Run a tool by key, or by exposed name, with its arguments checked; never paged.

        Raises:
            UnknownToolError: No such tool for this caller.
            ArgumentError: The arguments do not fit its schema.
            UpstreamError: The server failed; the leaves say how.
        """
        with self._receipts.refusals(caller, "call", key):
            entry = self.visible.tool(caller, key)
            await self._check_for(caller, entry, arguments)
        return await self._run(caller, entry, {"arguments": arguments}, peer)

    async def retrieve(
        self,
        caller: Caller,
        request: RetrieveRequest,
        *,
        ask: AskModel | None = None,
        on_found: OnRetrieved | None = None,
    ) -> Retrieval:
        """What documents say to a question: rephrased, searched, graded.

        Args:
            caller: Who asks.
            request: The question.
            ask: The chat model to use; None: the one that is configured.
            on_found: Told what was searched, before anything is graded.

        Raises:
            UnknownToolError: The caller may not ask documents.
            ArgumentError: The request cannot be answered as it is.
        """
        return await self.documents.retrieve(caller, request, ask=ask, on_found=on_found)

    def note_turn(self, caller: Caller, *, began: float, status: str, detail: Json) -> None:
        """Record how a turn of a chat ended, with none of its texts.

        Args:
            caller: Who asked, with the conversation of the turn.
            began: Reading of `perf_counter` when it began.
            status: `ok`, or why it has no answer yet, or none at all.
            detail: Its model, what it cost, the tools that ran.
        """
        self._receipts.simple(caller, "turn", began=began, status=status, detail=detail)

    async def read_result(self, caller: Caller, handle: str, offset: int) -> Json:
        """The page of a stored result that starts at `offset` characters.

        Raises:
            HandleError: The handle is altered, expired, or another caller's.
        """
        payload = self._signer.check(_RESULT_HANDLE, handle)
        stored = None
        if payload.get("c") == caller.caller_id and payload.get("p") == caller.project_id:
            stored = await self._store.results.get(str(payload.get("i")))
        if stored is None or stored.expires_at < utc_now():
            raise HandleError(
                f"The result {handle[:16]!r}… is not there any more.",
                allowed=f"Results are kept for {self.settings.results.ttl_s:g} seconds.",
                hint="Run the tool again.",
            )
        tokens = self.settings.results.page_tokens
        return read_page(stored.body, offset, page_tokens=tokens, handle=handle)

    async def read(self, caller: Caller, params: Json, peer: Peer | None) -> Json:
        """Answer a `resources/read`.

        Raises:
            UnknownResourceError: No server offers it to this caller.
            UpstreamError: The server failed.
        """
        server, uri = self.visible.resource(caller, str(params.get("uri")))
        async with self._receipts.around(caller, "read", server, f"{server}:{uri}") as done:
            result = await self._catalog.request(
                server,
                "resources/read",
                {**params, "uri": uri},
                caller=caller,
                peer=self._passage.for_server(caller, server).peer(f"{server}:{uri}", peer),
            )
            return await self._past(caller, server, f"{server}:{uri}", result, done)

    async def get_prompt(self, caller: Caller, params: Json, peer: Peer | None) -> Json:
        """Answer a `prompts/get`.

        Raises:
            UnknownPromptError: No server offers it to this caller.
            UpstreamError: The server failed.
        """
        name, arguments = str(params.get("name")), json_object(params.get("arguments"))
        if self.settings.models and self.settings.tool_names != "flat":
            own = await self.prompts.own(caller, name, arguments)
            if own is not None:
                return own
        entry = self.visible.prompt(caller, name)
        async with self._receipts.around(caller, "prompt", entry.server, entry.key) as done:
            result = await self._catalog.request(
                entry.server,
                "prompts/get",
                {**params, "name": entry.name},
                caller=caller,
                peer=self._passage.for_server(caller, entry.server).peer(entry.key, peer),
            )
            result = await self._past(caller, entry.server, entry.key, result, done)
            return await self.prompts.replaced(caller, name, arguments, result)

    async def _past(
        self, caller: Caller, server: str, key: str, result: Json, done: OutcomeReporter
    ) -> Json:
        """What a server gave of a resource or prompt, past the guards that are about all of it."""
        done(result)
        passed = self._passage.for_server(caller, server)
        result, notes = await passed.result(key, result)
        done(result, notes)
        return result

    async def complete(self, caller: Caller, params: Json, peer: Peer | None) -> Json:
        """Answer a `completion/complete` for a prompt or a resource template.

        Raises:
            UnknownPromptError: No such prompt for this caller.
            UnknownResourceError: No such template for this caller.
            UpstreamError: The server failed.
        """
        ref = json_object(params.get("ref"))
        if "uri" in ref:
            uri = str(ref["uri"])
            template = self._catalog.snapshot.templates.get(uri)
            if template and not self._access.decide(caller, "read", template.key).allowed:
                template = None
            server, own = (
                (template.server, template.name) if template else self.visible.resource(caller, uri)
            )
            target = {**ref, "uri": own}
        else:
            entry = self.visible.prompt(caller, str(ref.get("name")))
            server, target = entry.server, {**ref, "name": entry.name}
        wanted = {**params, "ref": target}
        key = f"{server}:{target.get('uri') or target.get('name')}"
        async with self._receipts.around(caller, "complete", server, key) as done:
            found = await self._catalog.request(
                server, "completion/complete", wanted, caller=caller, peer=peer
            )
            done(found)
            return found

    async def subscribe(self, caller: Caller, uri: str) -> None:
        """Have updates of a resource announced through `on_change`; counted, see `unsubscribe`.

        Raises:
            UnknownResourceError: No server offers it to this caller.
            UpstreamError: The server refused.
        """
        self.visible.resource(caller, uri)
        self._watched[uri] = self._watched.get(uri, 0) + 1
        if self._watched[uri] == 1:
            try:
                await self._watch_server_of(uri)
            except BaseException:
                self._watched[uri] -= 1
                if not self._watched[uri]:
                    del self._watched[uri]
                raise

    async def unsubscribe(self, caller: Caller, uri: str) -> None:
        """Undo one `subscribe`."""
        del caller
        if uri not in self._watched:
            return
        self._watched[uri] -= 1
        if not self._watched[uri]:
            del self._watched[uri]
            await self._watch_server_of(uri)

    # Servers

    def servers(self, caller: Caller) -> list[ServerStatus]:
        """State of every server that the caller may see."""
        return self._as_seen_by(caller, self._catalog.statuses())

    def server(self, caller: Caller, name: str) -> ServerStatus | None:
        """State of one server; None: there is none of this name that the caller may see."""
        status = self._catalog.status(name)
        return next(iter(self._as_seen_by(caller, [] if status is None else [status])), None)

    def server_names(self, caller: Caller) -> list[str]:
        """Names of the servers that the caller may see."""
        return [
            spec.name
            for spec in self._catalog.specs
            if self._access.decide(caller, "server", spec.name).allowed
        ]

    def _as_seen_by(self, caller: Caller, statuses: Sequence[ServerStatus]) -> list[ServerStatus]:
        """The states of servers with what concerns the caller."""
        seen = [
            status
            for status in statuses
            if self._access.decide(caller, "server", status.name).allowed
        ]
        if self._access.decide(caller, "right", "manage").allowed:
            return [
                replace(status, projects=projects) if projects else status
                for status, projects in ((one, self._projects_of(one.name)) for one in seen)
            ]
        snapshot = self._catalog.snapshot
        mask = self._access.mask(caller, snapshot)
        return [
            replace(status, held=0, tools=self.visible.tool_count(snapshot, status.name, mask))
            for status in seen
        ]

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait until every server is listed or has failed, at most so many seconds."""
        await self._catalog.wait_listed(timeout_s)

    # The order of a call

    async def _run(
        self, caller: Caller, entry: CatalogEntry, params: Json, peer: Peer | None
    ) -> Json:
        """Every call of a tool comes through here, and is compared with what was asked for last."""
        if refusal := self._protected(caller, entry, params):
            return {"content": [{"type": "text", "text": refusal}], "isError": True}
        if "requestState" in params or "inputResponses" in params:
            return await self._send(caller, entry, params, peer)  # it has begun already
        advice = await self._guide.call_advice(caller, entry, self._tools(caller))
        if advice is None:
            return await self._send(caller, entry, params, peer)
        self._receipt_of(caller, advice)
        if advice.withheld:
            return {"content": [{"type": "text", "text": advice.text}], "isError": True}
        return _advised(await self._send(caller, entry, params, peer), advice)

    def _protected(self, caller: Caller, entry: CatalogEntry, params: Json) -> str:
        """Why a call would change a file that belongs to a pack; empty where it does not."""
        arguments = json_object(params.get("arguments"))
        refusal = self.protections.refusal(
            entry.server, entry.name, arguments, read_only=entry.read_only
        )
        if refusal:
            detail: Json = {"tool": entry.key, "reason": refusal}
            self._receipts.simple(caller, "protect", began=perf_counter(), detail=detail)
        return refusal

    async def _run_unchecked(
        self, caller: Caller, entry: CatalogEntry, params: Json, peer: Peer | None
    ) -> Json:
        """The same for arguments that were not checked: if it fails by them, that is told."""
        try:
            result = await self._run(caller, entry, params, peer)
        except RpcError as error:
            if error.rpc_code != _INVALID_PARAMS:
                raise
            advice = await self._about_arguments(caller, entry, params)
            if advice is None:
                raise
            return _advised(_problem(error), advice)
        if result.get("isError") is not True:
            return result
        advice = await self._about_arguments(caller, entry, params)
        return result if advice is None else _advised(result, advice)

    async def _check_for(self, caller: Caller, entry: CatalogEntry, arguments: Json) -> None:
        """Check arguments; within a topic, the error has its rules and tools.

        Raises:
            ArgumentError: They do not fit.
        """
        try:
            self._check(entry, arguments)
        except ArgumentError as error:
            advice = await self._guide.argument_advice(caller, entry, self._tools(caller))
            if advice is None:
                raise
            self._receipt_of(caller, advice)
            hint = f"{error.hint}\n\n{advice.text}".strip()
            raise ArgumentError(error.failed, allowed=error.allowed, hint=hint) from error

    async def _about_arguments(
        self, caller: Caller, entry: CatalogEntry, params: Json
    ) -> Advice | None:
        """What to say about a call that failed, if its arguments did not fit."""
        try:
            self._check(entry, json_object(params.get("arguments")))
        except ArgumentError:
            advice = await self._guide.argument_advice(caller, entry, self._tools(caller))
            if advice is not None:
                self._receipt_of(caller, advice)
            return advice
        return None

    def _receipt_of(self, caller: Caller, advice: Advice) -> None:
        detail: Json = {
            "tool": advice.tool,
            "intent": advice.intent,
            "reason": advice.reason,
            "withheld": advice.withheld,
        }
        self._receipts.simple(caller, "recover", began=perf_counter(), detail=detail)

    async def _send(
        self, caller: Caller, entry: CatalogEntry, params: Json, peer: Peer | None
    ) -> Json:
        """Guards, limits, audit, server, audit, guards."""
        with self._receipts.refusals(caller, "call", entry.key):
            passed = await self._passage.begin(caller, entry, params, peer)
            if not isinstance(passed, GuardedCall):
                return passed
            hold = self._limits.acquire(caller, entry.key)
        with self._running.call(caller, entry.key):
            if hold is None:
                return await self._request(caller, entry, passed, peer)
            with hold as charge:
                result = await self._request(caller, entry, passed, peer)
                charge(estimate_tokens(json_text.dumps(result)))
                return result

    async def _request(
        self, caller: Caller, entry: CatalogEntry, passed: GuardedCall, peer: Peer | None
    ) -> Json:
        arguments = passed.params.get("arguments")
        sent = {**passed.params, "name": entry.name}
        detail = {"decision": self._access.decide(caller, "call", entry.key).rule, **passed.notes}
        if passed.clearance is not None:
            detail["approval"] = passed.clearance.approval.approval_id
        async with self._receipts.around(
            caller,
            "call",
            entry.server,
            entry.key,
            digest=entry.digest,
            arguments=arguments,
            detail=detail,
        ) as done:
            if passed.clearance is not None:
                await self._passage.approvals.consume(caller, passed.clearance)
            sent_as = sent_requests()
            with observe("server", tool=entry.key, arguments=arguments):
                result = await self._answer(caller, entry, sent, peer, passed)
            told: Json = {"upstream_request_id": sent_as[-1]} if sent_as else {}
            done(result, told)
            result, notes = await passed.result(entry.key, result)
            done(result, told | notes)
        if passed.clearance is not None:
            result = self._passage.approvals.bind_continuation(passed.clearance, result)
        if result.get("resultType") != "input_required":
            self._learning.note_call(caller, entry.key, ok=result.get("isError") is not True)
        return result

    async def _answer(
        self,
        caller: Caller,
        entry: CatalogEntry,
        sent: Json,
        peer: Peer | None,
        passed: GuardedCall,
    ) -> Json:
        """What the server answers."""
        try:
            return await self._catalog.request(
                entry.server,
                "tools/call",
                sent,
                caller=caller,
                peer=passed.peer(entry.key, peer),
                repeatable=entry.repeatable,
            )
        except RpcError as error:
            raise passed.error(error) from None

    def _check(self, entry: CatalogEntry, arguments: Json) -> None:
        schema = json_object(entry.definition.get("inputSchema"))
        with observe("arguments", tool=entry.key):
            try:
                check_arguments(schema, arguments, digest=entry.digest, tool=entry.key)
            except ArgumentError:
                expected = signature(entry.name, schema)
                check_arguments(schema, arguments, digest=entry.digest, signature=expected)
                raise

    async def _paged(self, caller: Caller, result: Json) -> Json:
        settings = self.settings.results
        if not settings.paging:
            return result

        async def save(body: bytes) -> str:
            number = new_id()
            await self._store.results.save(
                StoredResult(
                    handle=number,
                    project_id=caller.project_id,
                    caller_id=caller.caller_id,
                    body=body,
                    expires_at=utc_now(plus_s=settings.ttl_s),
                )
            )
            return self._signer.sign(
                _RESULT_HANDLE, {"i": number, "c": caller.caller_id, "p": caller.project_id}
            )

        try:
            paged = await page_result(result, page_tokens=settings.page_tokens, save=save)
        except StoreError as error:
            log.warning("large result not stored", extra={"error": str(error)})
            return result  # whole and long is better than cut
        if paged is not result and not self._listing.has_paged:
            self._listing.has_paged = True
            if "result_read" in self.settings.meta_tools and not self._listing.lists_all(caller):
                self._tell(Change(kind="tools"))
        return paged

    # Changes

    def _tell(self, change: Change) -> None:
        for listener in list(self._listeners):
            listener(change)

    def _look_for_pinned(self) -> None:
        """Log pinned tools that are not there, each once, as soon as all servers are known."""
        pinned = self._listing.pinned() - self._missed
        if not pinned or self._catalog.never_listed():
            return
        for key in sorted(key for key in pinned if self._catalog.snapshot.tool(key) is None):
            self._missed.add(key)
            log.warning("pinned tool is not there", extra={"tool": key})

    def _on_catalog_change(self, kind: CatalogChange) -> None:
        if kind == "tools":
            self._look_for_pinned()
            snapshot = self._catalog.snapshot
            self._spawn(self._index.update_to(snapshot.version, snapshot.tools))
            showed, self._showed_all = self._showed_all, self._listing.lists_all()
            if showed is False and not self._showed_all and not self._listing.pinned():
                return  # the meta-tools are what they were
        self._tell(Change(kind=kind))

    def _on_server_state(self) -> None:
        showed, self._showed_all = self._showed_all, self._listing.lists_all()
        if showed is not None and showed != self._showed_all:
            self._tell(Change(kind="tools"))

    def _on_resource(self, server: str, uri: str) -> None:
        shown = self._catalog.snapshot.resources
        explicit = f"toolgate://{server}/{uri}"
        renamed = explicit in shown and shown[explicit].server == server
        self._tell(Change(kind="resource", uri=explicit if renamed else uri))

    async def _watch_server_of(self, uri: str) -> None:
        found = self._catalog.snapshot.resource_of(uri)
        if found is None:
            return
        server = found[0]
        places = [self._catalog.snapshot.resource_of(watched) for watched in self._watched]
        wanted = {place[1] for place in places if place is not None and place[0] == server}
        await self._catalog.subscribe(server, wanted)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Future[None]") -> None:
        self._background.discard(task)  # pyright: ignore[reportArgumentType]
        if not task.cancelled() and task.exception() is not None:
            log.error("indexing failed", exc_info=task.exception())


def _in_group(
    request: DiscoverRequest, group: Collection[str]
) -> tuple[tuple[str, ...], list[str]]:
    """The servers asked for that a group has tools of, and what is to be said of the others."""
    name = request.group.strip()[:60]
    if not group:
        return (), [f"Group {name!r} has no tool: nothing here fits what [groups] names."]
    has = {key.partition(":")[0] for key in group}
    outside = [server for server in request.servers if server not in has]
    inside = tuple(server for server in request.servers if server in has)
    return inside, [f"Group {name!r} has no tool of server {server!r}." for server in outside]


def _definition(snapshot: Snapshot, key: str) -> bytes:
    entry = snapshot.tool(key)
    if entry is None:
        raise KeyError(key)
    return entry.raw


class _Tools:
    """The tools of one caller, for the guide."""

    def __init__(self, gateway: Gateway, listing: ListingPolicy, caller: Caller) -> None:
        self._gateway = gateway
        self._listing = listing
        self._caller = caller

    def tools_of(self, intent: Intent) -> list[CatalogEntry]:
        """Those of an intent, in its order."""
        return self._gateway.tools_of(self._caller, intent)

    def display_name(self, entry: CatalogEntry) -> str:
        """Its exposed name where the real tools are listed, else its key."""
        return self._listing.callable_name(self._caller, entry)


def _structured(params: Json) -> bool:
    """Whether the client says, in `_meta`, that it shows structured content to its model."""
    return json_object(params.get("_meta")).get("toolgate/structured") is True


def _said(text: str, structured: Json | None) -> Json:
    if structured is not None:
        return {"content": [], "structuredContent": structured}
    return {"content": [{"type": "text", "text": text}]}


def _with_structure(text: str, structured: Json) -> Json:
    """For models the text, for programs what it is made of."""
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured}


def _advised(result: Json, advice: Advice) -> Json:
    """The result with what to do about the call behind it."""
    if result.get("resultType") == "input_required":
        return result
    content = [*json_array(result.get("content")), {"type": "text", "text": advice.text}]
    return {**result, "content": content}


def _problem(error: ToolgateError) -> Json:
    """A result that tells the model what went wrong and what it can do."""
    return {
        "content": [{"type": "text", "text": str(error)}],
        "isError": True,
        "_meta": _about(error),
    }


def _about(error: ToolgateError) -> Json:
    """An error for programs, as `_meta` of a result."""
    found: Json = {"toolgate/error": {"code": error.code, "retryable": error.retryable}}
    if isinstance(error, ApprovalError):
        found["toolgate/approval"] = {
            "id": error.approval_id,
            "state": error.state,
            "expires_at": error.expires_at,
        }
    return found
