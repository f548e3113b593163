"""The gateway: a facade over the services that serve clients' requests, one module each.

```
enrich  : intent ▶ rules with variables ▶ enriched prompt or PASS_THROUGH ▶ audit
discover: snapshot ▶ access mask ▶ intent ▶ search ▶ budgeted answer ▶ audit
execute : snapshot ▶ access decision ▶ arguments checked ▶ guards, approval ▶ audit ▶ server ▶ audit
          ▶ guards ▶ paged
```

It knows no wire format and no protocol library: entry points (`server`, `cli`) supply a
`Caller`, and a `Peer` if the client can be notified or asked while a call runs.
"""

from collections.abc import Callable
from typing import cast

import anyio.to_thread

from toolgate.audit import Receipts
from toolgate.base.tracing import take_trace
from toolgate.catalog import (
    Menu,
)
from toolgate.errors import (
    GuardError,
    HandleError,
    LimitError,
    RpcError,
    StoreError,
    ToolgateError,
    UpstreamError,
)
from toolgate.gateway.approval_decisions import ApprovalService
from toolgate.gateway.calls import CallService, error_result
from toolgate.gateway.calls.meta_calls import MetaCalls
from toolgate.gateway.calls.result_cache import ResultCache
from toolgate.gateway.discovery import DiscoveryService
from toolgate.gateway.documents import DocumentService
from toolgate.gateway.execution.forwarding import ServerForwarder
from toolgate.gateway.intents import IntentRequests
from toolgate.gateway.listing import ChangeNotifier, ContentService, ListingPolicy, ListingService
from toolgate.gateway.listing.meta_definitions import meta_tool_definition
from toolgate.gateway.listing.program_offer import ProgramOffer
from toolgate.gateway.listing.server_status import ServerStatusService
from toolgate.gateway.management import (
    LearningService,
    Management,
    QuarantineManagement,
    ServerManagement,
    SettingsManagement,
    ToolOverrideManagement,
    VectorIndexManagement,
    VisibilityExplanation,
)
from toolgate.gateway.meta_tools import (
    DEFINITIONS,
    read_calls,
    read_describe,
    read_discover,
    read_get_knowledge,
    read_process_prompt,
    read_program,
    read_result_read,
)
from toolgate.gateway.parts import (
    AccessControl,
    DocumentParts,
    ResultParts,
    SearchParts,
    ServerParts,
)
from toolgate.gateway.programs import ProgramService
from toolgate.gateway.programs.helpers import ProgramHelpers
from toolgate.gateway.programs.kept import KeptPrograms
from toolgate.gateway.prompts import PromptService
from toolgate.gateway.resources import ResourceService
from toolgate.gateway.results.jq_filter import JqFilter
from toolgate.gateway.results.page_store import PagedResults
from toolgate.gateway.results.shaping import ResultShaper
from toolgate.gateway.visible_catalog import Authorized, VisibleCatalog
from toolgate.intents.service import IntentService
from toolgate.prompts import Prompts
from toolgate.search import load_languages
from toolgate.security.guards import CallGuardChain
from toolgate.settings import Settings
from toolgate.types import (
    Caller,
    Json,
    Peer,
    json_object,
)

__all__ = ["Gateway"]


class Gateway:
    """Everything that Toolgate does, by subject. `toolgate.open_app` returns one."""

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        servers: ServerParts,
        access: AccessControl,
        search: SearchParts,
        intent_service: IntentService,
        guards: CallGuardChain,
        receipts: Receipts,
        documents: DocumentParts,
        prompts: Prompts,
        results: ResultParts,
    ) -> None:
        self._settings = settings
        self._catalog = servers.catalog
        self._receipts = receipts
        menu = Menu(servers.catalog, meta_tool_definition)
        services = _ServiceBuilder(
            settings=settings,
            servers=servers,
            access=access,
            search=search,
            intent_service=intent_service,
            guards=guards,
            receipts=receipts,
            menu=menu,
        )
        self.admission = access.admission
        """Identifies callers."""
        self.admin = access.admin
        """Edits tokens, projects and permissions."""
        self.visible = services.visible
        """What each caller may use."""
        self.changes = services.change_notifier()
        """Notifies of changes."""
        self.resources = services.resources()
        """Resources of the servers."""
        self.prompts = services.prompts(prompts)
        """Prompts of the servers, of packs and of projects."""
        self.listing = services.listings(self.prompts)
        """What clients get when they list."""
        self.intents = services.intents()
        """Intents of messages, and the rules for them."""
        self.contents = services.contents(self.prompts, self.resources)
        """Prompts, resources and skills, which are found and read like tools."""
        self.discovery = services.discovery(self.intents, self.contents)
        """Finds tools."""
        self.calls = services.calls(self.intents, self.contents)
        """Runs tools."""
        self.results = services.paged_results(results, self.changes)
        """Pages of large results."""
        jq = JqFilter()
        self.shaper = ResultShaper(self.results, jq)
        """Filters and formats results."""
        self.meta_calls = MetaCalls(
            calls=self.calls,
            visible=self.visible,
            contents=self.contents,
            shaper=self.shaper,
            pages=self.results,
            receipts=receipts,
        )
        """The calls behind `tool_execute` and `tool_read`."""
        helpers = ProgramHelpers(
            visible=self.visible, discovery=self.discovery, jq=jq, store=results.store
        )
        self.programs = services.programs(self.calls, helpers, self.results, results)
        """Runs models' programs."""
        self.kept_programs = KeptPrograms(
            visible=self.visible, store=results.store, receipts=receipts
        )
        """Values and waiting programs that programs stored."""
        self.servers = services.server_status()
        """The state of the servers."""
        self.documents = services.documents(documents, prompts)
        """Documents and questions about them."""
        self.approvals = services.approvals()
        """Calls that wait for a person's decision."""
        self.learning = services.learning()
        """What the search has learned from use."""
        self.manage = services.management()
        """Operations of administrators."""

    @property
    def settings(self) -> Settings:
        """The active settings."""
        return self._settings()

    async def load_for_messages(self) -> None:
        """Load what searches and detections otherwise load with the first message: 0.3 CPU s."""
        await anyio.to_thread.run_sync(load_languages)
        await self.intents.expect_messages()

    def close(self) -> None:
        """Stop listening to the catalog."""
        self.changes.close()

    async def call(
        self,
        caller: Caller,
        params: Json,
        peer: Peer | None,
        *,
        authorized: Authorized | None = None,
    ) -> Json:
        """Answer a `tools/call`: a meta-tool, or a tool by its exposed name, listed or not.

        Args:
            caller: The caller.
            params: Parameters of the request.
            peer: The client, if it can be notified or asked while the call runs.
            authorized: The tool, if its name was already looked up for this caller.

        Returns:
            The result object. Errors that a model can react to (arguments that do not match the
            schema, a server that is down, a deadline) are results with `isError`.

        Raises:
            UnknownToolError: The caller has no such tool.
            RpcError: The server answered with a JSON-RPC error.
        """
        meta = params.get("_meta")
        members = cast("Json", meta) if isinstance(meta, dict) else {}
        take_trace(members.get("traceparent"), members.get("tracestate"))
        name = str(params.get("name"))
        if authorized is None and self._is_meta_tool(name):
            return await self._call_meta(caller, name, params, peer)
        try:
            if authorized is None:
                await self.visible.wait_first_listing(caller, name)
                authorized = self.visible.authorize_name(caller, name)
            if authorized is None:
                with self._receipts.refusals(caller, "call", name):
                    raise self.visible.unknown_name(caller, name)
            return await self.calls.run_unchecked(caller, authorized, params, peer)
        except RpcError:
            raise
        except (UpstreamError, HandleError, LimitError, GuardError, StoreError) as error:
            return error_result(error, is_manager=self.visible.manages(caller))

    async def _call_meta(self, caller: Caller, name: str, params: Json, peer: Peer | None) -> Json:
        arguments = params.get("arguments")
        try:
            match name:
                case "tool_discovery":
                    with self._receipts.refusals(caller, "discover", ""):
                        request = read_discover(arguments)
                    discovery = await self.discovery.discover(caller, request)
                    if _structured(params):
                        return _content("", discovery.structured())
                    return _with_structure(discovery.text, discovery.structured(brief=True))
                case "tool_describe":
                    with self._receipts.refusals(caller, "describe", ""):
                        keys = read_describe(arguments).keys
                    description = await self.discovery.describe(caller, keys)
                    return _content(
                        description.text, description.structured() if _structured(params) else None
                    )
                case "processPrompt":
                    with self._receipts.refusals(caller, "enrich", ""):
                        prompt = read_process_prompt(arguments).prompt
                    enrichment = await self.intents.enrich(caller, prompt)
                    return _with_structure(enrichment.text, enrichment.structured())
                case "getKnowledge":
                    with self._receipts.refusals(caller, "knowledge", ""):
                        queries = read_get_knowledge(arguments).queries
                    knowledge = await self.intents.knowledge(caller, queries)
                    return _with_structure(knowledge.text, knowledge.structured())
                case "tool_program":
                    with self._receipts.refusals(caller, "program", ""):
                        program = read_program(arguments)
                    return await self.programs.run(caller, program, params, peer)
                case "tool_execute" | "tool_read":
                    with self._receipts.refusals(caller, "call", ""):
                        requests = read_calls(name, arguments)
                    if _is_list(arguments):
                        return await self.meta_calls.run_list(
                            caller, requests, is_structured=_structured(params)
                        )
                    return await self.meta_calls.run(caller, requests[0], params, peer, tool=name)
                case _:
                    page = read_result_read(arguments)
                    return await self.meta_calls.read_result(caller, page)
        except RpcError:
            raise
        except ToolgateError as error:
            return error_result(error, is_manager=self.visible.manages(caller))

    def _is_meta_tool(self, name: str) -> bool:
        """Whether a name is that of a meta-tool, not of a tool with the same name."""
        return (
            name in DEFINITIONS
            and self._settings().tool_names != "flat"
            and name not in self._catalog.snapshot.by_exposed
        )


class _ServiceBuilder:
    """Builds the services of a gateway from their shared parts."""

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        servers: ServerParts,
        access: AccessControl,
        search: SearchParts,
        intent_service: IntentService,
        guards: CallGuardChain,
        receipts: Receipts,
        menu: Menu,
    ) -> None:
        self._settings = settings
        self._servers = servers
        self._catalog = servers.catalog
        self._access = access
        self._policy = access.policy
        self._search = search
        self._intent_service = intent_service
        self._guards = guards
        self._receipts = receipts
        self._menu = menu
        self._forwarder = ServerForwarder(catalog=servers.catalog, receipts=receipts, guards=guards)
        self.visible = VisibleCatalog(
            settings=settings, catalog=servers.catalog, access=access.policy, index=search.index
        )
        self._offer = ProgramOffer(settings)
        self._listing = ListingPolicy(
            offer=self._offer,
            settings=settings,
            project=access.project,
            catalog=servers.catalog,
            menu=menu,
            index=search.index,
            intent_service=intent_service,
        )

    def change_notifier(self) -> ChangeNotifier:
        return ChangeNotifier(
            catalog=self._catalog,
            menu=self._menu,
            listing=self._listing,
            index=self._search.index,
        )

    def resources(self) -> ResourceService:
        return ResourceService(
            catalog=self._catalog,
            access=self._policy,
            visible=self.visible,
            forwarder=self._forwarder,
        )

    def prompts(self, prompts: Prompts) -> PromptService:
        return PromptService(
            prompts,
            settings=self._settings,
            visible=self.visible,
            catalog=self._catalog,
            receipts=self._receipts,
            forwarder=self._forwarder,
        )

    def listings(self, prompts: PromptService) -> ListingService:
        return ListingService(
            settings=self._settings,
            catalog=self._catalog,
            access=self._policy,
            visible=self.visible,
            policy=self._listing,
            menu=self._menu,
            prompts=prompts,
            intent_service=self._intent_service,
            receipts=self._receipts,
        )

    def intents(self) -> IntentRequests:
        return IntentRequests(
            settings=self._settings,
            catalog=self._catalog,
            access=self._policy,
            listing=self._listing,
            intent_service=self._intent_service,
            receipts=self._receipts,
        )

    def contents(self, prompts: PromptService, resources: ResourceService) -> ContentService:
        return ContentService(
            catalog=self._catalog,
            access=self._policy,
            index=self._search.contents,
            prompts=prompts,
            resources=resources,
        )

    def discovery(self, intents: IntentRequests, contents: ContentService) -> DiscoveryService:
        return DiscoveryService(
            settings=self._settings,
            catalog=self._catalog,
            access=self._policy,
            visible=self.visible,
            listing=self._listing,
            search=self._search,
            intents=intents,
            contents=contents,
            receipts=self._receipts,
        )

    def calls(self, intents: IntentRequests, contents: ContentService) -> CallService:
        return CallService(
            catalog=self._catalog,
            visible=self.visible,
            receipts=self._receipts,
            limits=self._access.limits,
            guards=self._guards,
            learning=self._search.learning,
            intents=intents,
            contents=contents,
            cache=ResultCache(
                self._catalog, max_bytes=lambda: self._settings().results.cache_mb * 2**20
            ),
        )

    def programs(
        self,
        calls: CallService,
        helpers: ProgramHelpers,
        pages: PagedResults,
        parts: ResultParts,
    ) -> ProgramService:
        return ProgramService(
            offer=self._offer,
            catalog=self._catalog,
            visible=self.visible,
            calls=calls,
            helpers=helpers,
            pages=pages,
            receipts=self._receipts,
            approvals=self._guards.approvals,
            parts=parts,
        )

    def paged_results(self, results: ResultParts, changes: ChangeNotifier) -> PagedResults:
        return PagedResults(
            settings=self._settings,
            store=results.store,
            signer=results.signer,
            listing=self._listing,
            changes=changes,
        )

    def server_status(self) -> ServerStatusService:
        return ServerStatusService(
            catalog=self._catalog,
            access=self._policy,
            visible=self.visible,
            projects_of=self._policy.projects_of,
        )

    def documents(self, documents: DocumentParts, prompts: Prompts) -> DocumentService:
        return DocumentService(
            documents.library,
            helper=documents.helper,
            access=self._policy,
            receipts=self._receipts,
            visible=self.visible,
            catalog=self._catalog,
            render=prompts.render,
            keep_queries=lambda: self._settings().audit.keep_queries,
        )

    def approvals(self) -> ApprovalService:
        return ApprovalService(
            catalog=self._catalog,
            access=self._policy,
            approvals=self._guards.approvals,
            receipts=self._receipts,
        )

    def learning(self) -> LearningService:
        return LearningService(
            settings=self._settings,
            learning=self._search.learning,
            visible=self.visible,
            receipts=self._receipts,
        )

    def management(self) -> Management:
        return Management(
            servers=ServerManagement(
                servers=self._servers,
                index=self._search.index,
                admin=self._access.admin,
                visible=self.visible,
                receipts=self._receipts,
            ),
            overrides=ToolOverrideManagement(
                servers=self._servers, visible=self.visible, receipts=self._receipts
            ),
            quarantine=QuarantineManagement(
                catalog=self._catalog,
                quarantine=self._servers.quarantine,
                visible=self.visible,
                receipts=self._receipts,
            ),
            vectors=VectorIndexManagement(
                catalog=self._catalog,
                access=self._policy,
                index=self._search.index,
                visible=self.visible,
                receipts=self._receipts,
            ),
            settings=SettingsManagement(
                self._settings,
                plugin_problems=self._search.plugin_problems,
                visible=self.visible,
                receipts=self._receipts,
            ),
            visibility=VisibilityExplanation(
                settings=self._settings,
                catalog=self._catalog,
                quarantine=self._servers.quarantine,
                access=self._access,
                index=self._search.index,
                visible=self.visible,
                listing=self._listing,
                guards=self._guards.guards,
            ),
        )


def _is_list(arguments: object) -> bool:
    return bool(json_object(arguments).get("calls"))


def _structured(params: Json) -> bool:
    """Whether the client says in `_meta` that its model sees structured content."""
    return json_object(params.get("_meta")).get("toolgate/structured") is True


def _content(text: str, structured: Json | None) -> Json:
    if structured is not None:
        return {"content": [], "structuredContent": structured}
    return {"content": [{"type": "text", "text": text}]}


def _with_structure(text: str, structured: Json) -> Json:
    """A result with text for models and the underlying structure for programs."""
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured}
