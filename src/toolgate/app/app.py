"""Turns settings into a running gateway; nothing else builds objects from settings.

```python
from toolgate import Caller, DiscoverRequest, load, open_app

async with open_app(load()) as app:
    request = DiscoverRequest(queries=("list files",))
    answer = await app.gateway.discovery.discover(Caller.local(), request)
```
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from toolgate.app.access_factory import AccessParts, guards_of, open_access
from toolgate.app.background_tasks import BackgroundTasks
from toolgate.app.factories.chat import ChatFactory, ChatModels
from toolgate.app.factories.documents import DocumentFactory
from toolgate.app.factories.intents import IntentParts, open_intents, working_folder
from toolgate.app.factories.plugin_checks import check_plugins, plugin_problems, sandbox_spec
from toolgate.app.factories.search import SearchFactory
from toolgate.app.factories.storage import Storage, open_storage
from toolgate.app.pack_updates import PackUpdates
from toolgate.app.project_searches import ProjectSearches
from toolgate.app.servers.configured_servers import ConfiguredServers
from toolgate.app.servers.server_registry import ServerRegistry
from toolgate.app.servers.upstream_servers import UpstreamServers, open_upstream_servers
from toolgate.audit import retention_of, run_housekeeping
from toolgate.base.plugins import make
from toolgate.base.processes.loop_monitor import LoopMonitor
from toolgate.catalog import ConnectChoice
from toolgate.chat import ChatService
from toolgate.databases.connections import Connections, SchemaHistory
from toolgate.documents import DocumentLibrary
from toolgate.gateway.gateway import Gateway
from toolgate.gateway.parts import DocumentParts, ResultParts, SearchParts, ServerParts
from toolgate.models.sandboxes import Sandbox
from toolgate.packs import LiveVariables, Pack, Packs, PackSet
from toolgate.prompts import Prompts
from toolgate.search import Learning, Relations
from toolgate.security.credentials import SealedConfigs
from toolgate.settings import CurrentSettings, Settings
from toolgate.store import Store
from toolgate.types import DEFAULT_PROJECT
from toolgate.upstream import ToolServices, WireMaker

_STORE_END_S = 10.0
"""Seconds after which a shutdown no longer waits for the store; chosen: twice the time that is
spent on writing the last audit records."""


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """The parts of a gateway."""

    settings: CurrentSettings
    storage: Storage
    schemas: SchemaHistory
    servers: UpstreamServers
    registry: ServerRegistry
    search_factory: SearchFactory
    intents: IntentParts
    access: AccessParts
    prompts: Prompts
    models: ChatModels
    gateway: Gateway


class App:
    """A running gateway and its parts, created by `open_app`."""

    def __init__(
        self,
        parts: _Parts,
        *,
        packs: Packs,
        configured_servers: ConfiguredServers,
        searches: ProjectSearches,
        chat: ChatFactory,
        tasks: BackgroundTasks,
    ) -> None:
        self.current_settings = parts.settings
        """The holder of the current settings."""
        self.gateway = parts.gateway
        """All operations, by subject."""
        self.store = parts.storage.store
        """The relational store."""
        self.store_outage = parts.storage.outage
        """Whether the configured store cannot be used, so that nothing is kept."""
        self.recorder = parts.storage.audit.recorder
        """Writes audit records."""
        self.sealer = parts.storage.audit.signer
        """Signs and verifies the audit log."""
        self.signer = parts.storage.signer
        """Signs handles and links; all replicas of a store share its key."""
        self.search_factory = parts.search_factory
        """Builds search strategies."""
        self.schemas = parts.schemas
        """The databases of `[connections]`, and the history of their schemas."""
        self.recognizer = parts.intents.recognizer
        """Classifies messages by intent."""
        self.rulebook = parts.intents.rulebook
        """The rules of the intents."""
        self.notes = parts.intents.log
        """The log of detected intents."""
        self.packs = packs
        """The active packs."""
        self.permissions = parts.access.permissions
        """Authentication and permissions."""
        self.logins = parts.access.logins
        """Logins of users to servers."""
        self.prompts = parts.prompts
        """Prompts, and the projects' own versions of them."""
        self._guards = parts.access.guards.guards
        self._catalog = parts.servers.catalog
        self._configured_servers = configured_servers
        self._searches = searches
        self._chat = chat
        self._tasks = tasks
        self._is_serving_turns = False
        self._store_end: asyncio.Task[None] | None = None
        self.loop_monitor = LoopMonitor()
        """Watches the event loop while an endpoint serves."""
        self.connect: Callable[[], None] = parts.servers.fleet.allow_connections
        """Connects to the servers, if `open_app` was called with `hold`."""

    def expect_turns(self) -> None:
        """Load in the background what the first chat turn would otherwise wait for.

        Called once clients can connect. Without a model, nothing is loaded until there is one.
        """
        self._is_serving_turns = True
        self._tasks.start(self.warm_up_chat())

    async def warm_up_chat(self) -> None:
        """Load what the first chat turn would otherwise wait for; nothing without a model."""
        await self._chat.warm_up()

    @property
    def store_problem(self) -> str:
        """Why the configured store cannot be used, so that nothing is kept; empty if it can."""
        return self.store_outage.reason

    @property
    def needs_restart(self) -> anyio.Event:
        """Set when a gateway that runs without its store has to start anew to use it."""
        return self.store_outage.needs_restart

    @property
    def settings(self) -> Settings:
        """The current settings."""
        return self.current_settings.current

    @property
    def chat(self) -> ChatService | None:
        """Runs chat turns; None if no model is configured."""
        return self._chat.service

    def limit_shutdown(self) -> asyncio.Task[None]:
        """Close the store soon, even if a database that hangs keeps others from ending first.

        Called when the shutdown begins; can be called twice. Returns the task that waits.
        """
        if self._store_end is None:
            self._store_end = asyncio.create_task(_close_later(self.store))
        return self._store_end

    async def reload(self, settings: Settings) -> None:
        """Apply new settings; servers with an unchanged configuration keep running.

        Address, certificate, store, proxies and authentication stay as they were at the start.

        Raises:
            ConfigError: The servers conflict, or a strategy or other plugin is unknown; nothing
                was changed.
        """
        check_plugins(settings)
        fixed = replace(
            settings,
            serve=self.settings.serve,
            store=self.settings.store,
            auth=self.settings.auth,
            authn=self.settings.authn,
            allow_other_users=self.settings.allow_other_users,
            tls=self.settings.tls,
            outbound=self.settings.outbound,
            project_optimizations=self._searches.required_by(settings),
        )
        self._guards.check(guards_of(fixed, self.permissions))
        prepared = self.search_factory.prepare(fixed)
        await self._configured_servers.reload(fixed)
        await self.search_factory.reload(prepared)
        self.recognizer.use_embedder(self.search_factory.embedder_if_usable())
        await self.permissions.reload(fixed)
        self._guards.reload(guards_of(fixed, self.permissions))
        quarantine = self.settings.quarantine
        self.current_settings.replace(fixed)
        self.gateway.changes.settings_changed()
        if fixed.quarantine != quarantine:
            await self._catalog.reinspect_all()
        await self.schemas.reload(fixed.connections)
        await self.packs.reload(fixed.packs, fixed.connections)
        await self._chat.reload()
        if self._is_serving_turns:
            self.expect_turns()


async def _close_later(store: Store) -> None:
    await anyio.sleep(_STORE_END_S)
    await store.close()


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    wait_s: float = 0.0,
    connect: ConnectChoice = "all",
    hold: bool = False,
    store_wait_s: float = 0.0,
    wires: Mapping[str, WireMaker] | None = None,
) -> AsyncGenerator[App]:
    """Run a gateway; leaving the block ends it with all its servers.

    Args:
        settings: From `toolgate.settings.load`.
        wait_s: Seconds to wait for servers that were never listed; 0: do not wait.
        connect: Servers to connect to; the others keep their stored listing. `unknown`: servers
            that were never listed. A collection: servers by name.
        hold: Whether to connect only when `App.connect` is called: starting many servers takes
            all CPUs of a small machine, and `serve` can answer from the store before.
        store_wait_s: Seconds to retry opening the store; see `open_storage`.
        wires: Transports by server name that replace those of the settings, for tests.

    Raises:
        ConfigError: The settings are invalid.
        StoreError: The store cannot be opened.
    """
    check_plugins(settings)
    current = CurrentSettings(settings)
    async with AsyncExitStack() as stack:
        storage = await open_storage(stack, settings, wait_s=store_wait_s)
        parts = await _open_parts(
            stack, current, storage, connect=connect, hold=hold, wires=wires or {}
        )
        app = await _start(stack, parts, connect)
        if wait_s:
            await app.gateway.servers.wait_ready(wait_s)
        try:
            yield app
        finally:
            store_end = app.limit_shutdown()
            # The shutdown must end child processes even if it is being cancelled itself.
            with anyio.CancelScope(shield=True):
                await stack.aclose()
            store_end.cancel()


async def _open_parts(
    stack: AsyncExitStack,
    settings: CurrentSettings,
    storage: Storage,
    *,
    connect: ConnectChoice,
    hold: bool,
    wires: Mapping[str, WireMaker],
) -> _Parts:
    """Build everything up to the gateway, each part from parts that were built before."""
    store = storage.store
    schemas = SchemaHistory(Connections(settings.current.connections), store)
    stack.push_async_callback(schemas.connections.aclose)
    servers = open_upstream_servers(
        stack, settings, storage, connect=connect, hold=hold, wires=wires
    )
    search_factory = SearchFactory(
        settings.current, {"store": store, "vector_stores": storage.vectors}
    )
    stack.push_async_callback(search_factory.aclose)
    registry = ServerRegistry(
        settings, store, servers.catalog, SealedConfigs(servers.credentials.vault)
    )
    search = _open_search(stack, settings, storage, search_factory)
    intents = open_intents(stack, settings, store, search_factory)
    document_factory = DocumentFactory(store, storage.vectors, lambda: settings.current.documents)
    stack.push_async_callback(document_factory.aclose)
    library = DocumentLibrary(
        store.documents, document_factory, settings=lambda: settings.current.documents
    )
    stack.push_async_callback(library.converter.aclose)
    access = await open_access(
        stack, settings, storage, servers, delete_documents=library.delete_all
    )
    prompts, models = Prompts(store.prompts), ChatModels(settings)
    gateway = Gateway(
        settings=settings,
        servers=ServerParts(
            catalog=servers.catalog, registry=registry, quarantine=servers.quarantine
        ),
        access=access.permissions,
        search=search,
        intent_service=intents.service,
        guards=access.guards,
        receipts=access.receipts,
        documents=DocumentParts(library=library, helper=models.helper),
        prompts=prompts,
        results=ResultParts(
            store=store,
            signer=storage.signer,
            open_sandbox=lambda: make(
                "sandbox", Sandbox, sandbox_spec(settings.current.programs), {}
            ),
        ),
    )
    stack.push_async_callback(gateway.programs.aclose)
    stack.push_async_callback(gateway.shaper.aclose)
    stack.callback(gateway.close)
    return _Parts(
        settings=settings,
        storage=storage,
        schemas=schemas,
        servers=servers,
        registry=registry,
        search_factory=search_factory,
        intents=intents,
        access=access,
        prompts=prompts,
        models=models,
        gateway=gateway,
    )


def _open_search(
    stack: AsyncExitStack,
    settings: CurrentSettings,
    storage: Storage,
    search_factory: SearchFactory,
) -> SearchParts:
    learning = Learning(storage.store.usage, settings=settings)
    stack.push_async_callback(learning.aclose)
    relations = Relations(lambda: settings.current.groups)
    stack.push_async_callback(relations.aclose)
    return SearchParts(
        index=search_factory.index,
        contents=search_factory.contents,
        learning=learning,
        relations=relations,
        plugin_problems=plugin_problems,
    )


async def _start(stack: AsyncExitStack, parts: _Parts, connect: ConnectChoice) -> App:
    """Read the stored data, load packs and servers, and keep both up to date."""
    settings, catalog, permissions = parts.settings, parts.servers.catalog, parts.access.permissions
    chat = ChatFactory(
        settings,
        parts.models,
        gateway=parts.gateway,
        prompts=parts.prompts,
        threads=parts.storage.store.threads,
    )
    services_of = _pack_services(parts)
    packs = Packs(
        settings.current.packs,
        cwd=working_folder(),
        services=services_of,
        connections=settings.current.connections,
    )
    stack.push_async_callback(packs.aclose)
    live_variables = LiveVariables(services_of)
    stack.callback(live_variables.forget)
    stack.push_async_callback(catalog.aclose)  # before the packs, whose tools are servers too
    configured_servers = ConfiguredServers(
        settings, registry=parts.registry, packs=packs, catalog=catalog
    )
    searches = ProjectSearches(settings, parts.search_factory, permissions)
    tasks = BackgroundTasks()
    stack.push_async_callback(tasks.aclose)

    await permissions.open()
    await parts.access.credential_watcher.refresh()
    await searches.refresh()
    _follow_access(parts, configured_servers, searches, tasks)
    stack.callback(catalog.events.on_change(lambda _: permissions.warn()))

    await packs.refresh()
    updates = PackUpdates(
        lambda: packs.current,
        schemas=parts.schemas,
        intents=parts.intents,
        live_variables=live_variables,
        protections=parts.gateway.calls.protections,
    )
    await updates.start()
    await configured_servers.load()
    _follow_packs(parts, packs, updates, configured_servers)
    if not isinstance(connect, str) and set(connect) - {spec.name for spec in catalog.specs}:
        await packs.load()  # a server that code of a pack adds is known only then
    tasks.start(packs.watch(stop=anyio.Event()))
    tasks.start(
        run_housekeeping(
            parts.storage.store,
            lambda: retention_of(settings.current.store),
            configured=lambda: [(DEFAULT_PROJECT, spec.name) for spec in catalog.specs],
            sign=parts.storage.audit.signer.sign_cut,
        )
    )
    tasks.start(parts.storage.outage.end(parts.storage.store))
    tasks.start(parts.schemas.watch())
    await chat.reload()
    stack.push_async_callback(chat.aclose)
    return App(
        parts,
        packs=packs,
        configured_servers=configured_servers,
        searches=searches,
        chat=chat,
        tasks=tasks,
    )


def _pack_services(parts: _Parts) -> Callable[[Pack], ToolServices]:
    policy = parts.access.permissions.policy

    def services_of(pack: Pack) -> ToolServices:
        """The services available to the tools of a pack."""
        return ToolServices(
            settings=parts.settings.current.packs.options.get(pack.name, {}),
            connections=parts.schemas.connections,
            schemas=parts.schemas,
            store=parts.storage.store,
            documents=parts.gateway.documents,
            prompts=parts.gateway.prompts,
            run_program=parts.gateway.programs.run_saved,
            chat=lambda: parts.models.registry.usual,
            may=lambda caller, right: policy.decide(caller, "right", right).allowed,
        )

    return services_of


def _follow_access(
    parts: _Parts,
    configured_servers: ConfiguredServers,
    searches: ProjectSearches,
    tasks: BackgroundTasks,
) -> None:
    """React to changes of tokens, projects, permissions and stored servers, in any process."""

    def access_changed() -> None:
        parts.gateway.changes.access_changed()
        if searches.is_outdated:
            tasks.start(searches.refresh())
        parts.access.credential_watcher.refresh_soon()
        tasks.start(configured_servers.follow_store())

    parts.access.permissions.on_change(access_changed)


def _follow_packs(
    parts: _Parts, packs: Packs, updates: PackUpdates, configured_servers: ConfiguredServers
) -> None:
    """React to changed packs, and to changed tables of databases that packs use."""

    async def packs_changed(_: PackSet) -> None:
        updates.apply()
        await configured_servers.follow_packs()
        parts.gateway.changes.packs_changed()

    async def tables_changed() -> None:
        if await updates.refresh_tables():
            parts.gateway.changes.packs_changed()

    packs.on_change(packs_changed)
    parts.schemas.on_change(tables_changed)
