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
    GatewayContext,
    ResultParts,
    SearchParts,
    ServerParts,
)
from toolgate.gateway.programs import ProgramService
from toolgate.gateway.programs.kept import KeptPrograms
from toolgate.gateway.prompts import PromptService
from toolgate.gateway.resources import ResourceService
from toolgate.gateway.results.jq_filter import JqFilter
from toolgate.gateway.results.page_store import PagedResults
from toolgate.gateway.results.shaping import ResultShaper
from toolgate.gateway.visible_catalog import Authorized
from toolgate.intents.service import IntentService
from toolgate.prompts import Prompts
from toolgate.search import load_languages
from toolgate.security.guards import CallGuardChain
from toolgate.settings import CurrentSettings, Settings
from toolgate.types import (
    Caller,
    Json,
    Peer,
    json_object,
)


class Gateway:
    """Everything that Toolgate does, by subject. `toolgate.open_app` returns one."""

    def __init__(
        self,
        *,
        settings: CurrentSettings,
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
        context = GatewayContext(
            settings=settings,
            servers=servers,
            access=access,
            search=search,
            guards=guards,
            receipts=receipts,
        )
        self._settings = settings
        self._catalog = servers.catalog
        self._receipts = receipts
        self.visible = context.visible
        """What each caller may use."""
        self.admission = access.admission
        """Identifies callers."""
        self.admin = access.admin
        """Edits tokens, projects and permissions."""
        menu = Menu(servers.catalog, meta_tool_definition)
        offer = ProgramOffer(settings)
        policy = ListingPolicy(
            context, offer=offer, project=access.project, menu=menu, intent_service=intent_service
        )
        self.changes = ChangeNotifier(context, menu=menu, listing=policy)
        """Notifies of changes."""
        forwarder = ServerForwarder(catalog=servers.catalog, receipts=receipts, guards=guards)
        self.resources = ResourceService(context, forwarder=forwarder)
        """Resources of the servers."""
        self.prompts = PromptService(context, prompts, forwarder=forwarder)
        """Prompts of the servers, of packs and of projects."""
        self.listing = ListingService(
            context, policy=policy, menu=menu, prompts=self.prompts, intent_service=intent_service
        )
        """What clients get when they list."""
        self.intents = IntentRequests(context, listing=policy, intent_service=intent_service)
        """Intents of messages, and the rules for them."""
        self.contents = ContentService(context, prompts=self.prompts, resources=self.resources)
        """Prompts, resources and skills, which are found and read like tools."""
        self.discovery = DiscoveryService(
            context, listing=policy, intents=self.intents, contents=self.contents
        )
        """Finds tools."""
        self.calls = CallService(
            context, limits=access.limits, intents=self.intents, contents=self.contents
        )
        """Runs tools."""
        self.results = PagedResults(context, parts=results, listing=policy, changes=self.changes)
        """Pages of large results."""
        jq = JqFilter()
        self.shaper = ResultShaper(self.results, jq)
        """Filters and formats results."""
        self.meta_calls = MetaCalls(
            context, self.calls, contents=self.contents, shaper=self.shaper, pages=self.results
        )
        """The calls behind `tool_execute` and `tool_read`."""
        self.programs = ProgramService(
            context,
            offer=offer,
            calls=self.calls,
            discovery=self.discovery,
            jq=jq,
            pages=self.results,
            parts=results,
        )
        """Runs models' programs."""
        self.kept_programs = KeptPrograms(context, results.store)
        """Values and waiting programs that programs stored."""
        self.servers = ServerStatusService(context)
        """The state of the servers."""
        self.documents = DocumentService(context, documents, render=prompts.render)
        """Documents and questions about them."""
        self.approvals = ApprovalService(context)
        """Calls that wait for a person's decision."""
        self.learning = LearningService(context)
        """What the search has learned from use."""
        self.manage = Management(context, servers=servers, access=access, listing=policy)
        """Operations of administrators."""

    @property
    def settings(self) -> Settings:
        """The active settings."""
        return self._settings.current

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
            and self._settings.current.tool_names != "flat"
            and name not in self._catalog.snapshot.by_exposed
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
