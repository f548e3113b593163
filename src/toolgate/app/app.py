"""Turns settings into a running gateway; nothing else builds objects from settings.

```python
from toolgate import Caller, DiscoverRequest, load, open_app

async with open_app(load()) as app:
    request = DiscoverRequest(queries=("list files",))
    answer = await app.gateway.discovery.discover(Caller.local(), request)
```
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import anyio

from toolgate.app.access_control import Permissions
from toolgate.app.audit_factory import INSTALLATION_KEY, open_audit
from toolgate.app.document_factory import DocumentFactory
from toolgate.app.search_factory import SearchFactory
from toolgate.app.server_registry import ServerRegistry
from toolgate.audit import (
    ChainSigner,
    FanoutRecorder,
    Receipts,
    retention_of,
    run_housekeeping,
)
from toolgate.base.plugins import make
from toolgate.base.signing import Signer
from toolgate.catalog import Catalog
from toolgate.catalog.scanner import Quarantine
from toolgate.chat import ChatService, Engine, TurnServices
from toolgate.databases.connections import Connections, SchemaHistory
from toolgate.documents import DocumentLibrary
from toolgate.errors import ConfigError, StoreError
from toolgate.gateway.execution import Protection, Protections
from toolgate.gateway.gateway import Gateway
from toolgate.gateway.parts import ResultStorage, SearchParts, ServerParts
from toolgate.intents import DetectionLog, Recognizer
from toolgate.intents.rules import PackRules, Rulebook, WorkspaceVariables
from toolgate.intents.service import IntentService
from toolgate.models.embedders import Embedder
from toolgate.models.llm import ChatModel, ModelRegistry
from toolgate.packs import LiveVariables, Pack, Packs, PackSet, intent_set_of, with_live_names
from toolgate.prompts import Prompts
from toolgate.search import Learning, Relations
from toolgate.security.credentials import (
    ConnectionCredential,
    CredentialProvider,
    CredentialWatcher,
    Keychain,
    LoginRights,
    Logins,
    SealedConfigs,
    Vault,
    source_of,
)
from toolgate.security.guards import Approvals, CallGuardChain, CallGuards, secret_scanner
from toolgate.settings import (
    CurrentSettings,
    GuardTable,
    Settings,
    base_environment,
    default_store_url,
    home_dir,
    learned_dir,
    proxies,
)
from toolgate.store import Store, make_store
from toolgate.types import DEFAULT_PROJECT, PluginSpec, ServerSpec
from toolgate.upstream import (
    EraBridge,
    Fleet,
    OrphanGuard,
    ToolServices,
    Wire,
    WireMaker,
)

__all__ = ["App", "open_app"]

log = logging.getLogger(__name__)


class App:
    """A running gateway with what it stands on. Get one from `open_app`."""

    def __init__(
        self,
        *,
        settings: CurrentSettings,
        gateway: Gateway,
        store: Store,
        recorder: FanoutRecorder,
        catalog: Catalog,
        registry: ServerRegistry,
        search_factory: SearchFactory,
        schemas: SchemaHistory,
        recognizer: Recognizer,
        rulebook: Rulebook,
        notes: DetectionLog,
        packs: Packs,
        permissions: Permissions,
        logins: Logins,
        guards: CallGuards,
        sealer: ChainSigner,
        signer: Signer,
        prompts: Prompts,
        connect: Callable[[], None],
    ) -> None:
        self.current_settings = settings
        """Holds the settings in force."""
        self.gateway = gateway
        """The verbs."""
        self.store = store
        """What is remembered."""
        self.recorder = recorder
        """Who writes the audit."""
        self.search_factory = search_factory
        """The searches."""
        self.schemas = schemas
        """The databases of `[connections]`, and the history of their schemas."""
        self.recognizer = recognizer
        """What tells the intents of messages."""
        self.rulebook = rulebook
        """The rules of intents."""
        self.notes = notes
        """What messages were taken for."""
        self.packs = packs
        """The packs: what intents, rules and some tools come from."""
        self.permissions = permissions
        """Who may do what."""
        self.logins = logins
        """What is shown to servers."""
        self.sealer = sealer
        """Who signs the audit, and can check it."""
        self.signer = signer
        """Signs what is handed out and comes back, in every replica of the store alike."""
        self.prompts = prompts
        """Texts for models, and what projects put in their place."""
        self.chat: ChatService | None = None
        """Whole turns; None while no model is configured."""
        self._guards = guards
        self._catalog = catalog
        self._registry = registry
        self.connect = connect
        """Connects to the servers that `open_app` was told to hold."""

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.current_settings()

    async def reload(self, settings: Settings) -> None:
        """Take new settings over; servers that stay as they are keep running untouched.

        Address, certificate, store, log, proxies and how callers prove who they are stay as they
        were started with.

        Raises:
            ConfigError: The servers do not fit together, or there is no such search; nothing was
                changed.
        """
        fixed = replace(
            settings,
            serve=self.settings.serve,
            store=self.settings.store,
            auth=self.settings.auth,
            authn=self.settings.authn,
            allow_other_users=self.settings.allow_other_users,
            tls=self.settings.tls,
            outbound=self.settings.outbound,
            project_optimizations=_optimizations(settings, self.permissions),
        )
        self._guards.check(_guards_of(fixed, self.permissions))
        prepared = self.search_factory.prepare(fixed)
        await self._catalog.reload(await self._registry.specs(fixed))
        await self.search_factory.reload(prepared)
        self.recognizer.use_embedder(_embedder(self.search_factory))
        await self.permissions.reload(fixed)
        self._guards.reload(_guards_of(fixed, self.permissions))
        watched = self.settings.quarantine
        self.current_settings.replace(fixed)
        self.gateway.changes.settings_changed()
        if fixed.quarantine != watched:
            await self._catalog.reinspect_all()
        await self.schemas.reload(fixed.connections)
        await self.packs.reload(fixed.packs, fixed.connections)
        await self.open_chat()

    async def open_chat(self) -> None:
        """Take up the models of the settings; turns that run keep what they have.

        Raises:
            ConfigError: There is no such engine.
        """
        settings = self.settings
        if self.chat is not None:
            await self.chat.models.reload(settings.models, settings.chat.model)
        elif settings.models:
            engine = PluginSpec(name=settings.chat.engine, setting="chat.engine")
            models = ModelRegistry(
                settings.models,
                make=lambda spec: make("llm", ChatModel, spec, {}),
                default=settings.chat.model,
            )
            services = TurnServices(
                gateway=self.gateway,
                models=models,
                prompts=self.prompts,
                settings=lambda: self.settings.chat,
            )
            self.chat = ChatService(
                services, self.store.threads, make("engine", Engine, engine, {})
            )
        self.gateway.documents.ask = None if self.chat is None else self.chat.ask

    async def close_chat(self) -> None:
        """End the turns that run, and the connections to models."""
        if self.chat is not None:
            await self.chat.aclose()
            await self.chat.models.aclose()


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    wait_s: float = 0.0,
    connect: Literal["all", "unknown"] | Collection[str] = "all",
    hold: bool = False,
    wires: Mapping[str, WireMaker] | None = None,
) -> AsyncGenerator[App]:
    """A running gateway, ended with all its servers when the block is left.

    Args:
        settings: From `toolgate.settings.load`.
        wait_s: Seconds to wait for servers that were never listed; 0 does not wait.
        connect: Which servers to connect; the others stay as they were last known. `unknown`:
            those that were never listed. A collection: those of these names.
        hold: Connect to none before `App.connect` is called: starting many servers takes all of a
            small machine, and who serves can answer from the store before that.
        wires: Wires by server name that stand in for those of the settings, for tests.

    Raises:
        ConfigError: The settings cannot work.
        StoreError: The store cannot be opened.
    """
    current = CurrentSettings(settings)
    async with AsyncExitStack() as stack:
        store = make_store(settings.store.url or default_store_url())
        await store.open()
        stack.push_async_callback(store.close)
        signer = Signer(await store.secret(INSTALLATION_KEY))
        audit = await open_audit(stack, settings, store)
        recorder, sealer = audit.recorder, audit.signer
        schemas = SchemaHistory(Connections(settings.connections), store)
        stack.push_async_callback(schemas.connections.aclose)
        services = _Services(wires or {}, current)
        stack.push_async_callback(services.aclose)
        desk = CredentialProvider(
            Vault(store.credentials, Keychain(store.credentials, source_of(settings))),
            services.outbound,
            is_local=lambda: not permissions.admission.required,
            login_url=lambda server, subject: logins.login_url(server, subject),
        )
        services.desk = desk
        stack.push_async_callback(desk.aclose)
        fleet = Fleet(services.make_wire, EraBridge(signer))
        fleet.subject_of = desk.subject_for
        quarantine = Quarantine(
            store, project_id=DEFAULT_PROJECT, mode=lambda: current().quarantine
        )
        catalog = Catalog(
            fleet,
            store,
            project_id=DEFAULT_PROJECT,
            max_name_chars=settings.max_name_chars,
            flat=settings.tool_names == "flat",
            inspection=quarantine,
        )
        search_factory = SearchFactory(settings, {"store": store})
        stack.push_async_callback(search_factory.aclose)
        registry = ServerRegistry(current, store, catalog, SealedConfigs(desk.vault))
        learning = Learning(
            store.usage,
            rules=lambda: current().usage,
            keep_queries=lambda: current().audit.keep_queries,
        )
        stack.push_async_callback(learning.aclose)
        relations = Relations(lambda: current().groups)
        stack.push_async_callback(relations.aclose)
        recognizer = Recognizer(embedder=_embedder(search_factory), cache=learned_dir())
        stack.push_async_callback(recognizer.aclose)
        notes = DetectionLog(
            store.detections,
            enabled=lambda: current().audit.detections,
            keep_messages=lambda: current().audit.keep_queries,
        )
        stack.push_async_callback(notes.aclose)
        place = WorkspaceVariables(
            _here(), home=home_dir(), connections=lambda: current().connections
        )
        rulebook = Rulebook(common=place)

        def services_of(pack: Pack) -> ToolServices:
            """What the tools of a pack may use."""
            options = current().packs.options.get(pack.name, {})
            return ToolServices(
                settings=options,
                connections=schemas.connections,
                schemas=schemas,
                store=store,
                documents=gateway.documents,
                prompts=gateway.prompts,
                chat=lambda: None if app.chat is None else app.chat.models.usual,
                may=lambda caller, right: permissions.policy.decide(caller, "right", right).allowed,
            )

        packs = Packs(
            settings.packs, cwd=_here(), services=services_of, connections=settings.connections
        )
        stack.push_async_callback(packs.aclose)
        registry.packs = packs
        live = LiveVariables(services_of)
        stack.callback(live.forget)

        def is_closed(project_id: str) -> bool:
            """Whether nothing may happen in a project that cannot be recorded."""
            return permissions.is_closed(project_id)

        receipts = Receipts(
            recorder,
            keep_queries=lambda: current().audit.keep_queries,
            is_closed=is_closed,
            server=lambda name: catalog.spec(name),
            mask=lambda value: secret_scanner().mask_json(value, Counter()),
            process=audit.writer_id,
        )
        stack.callback(receipts.flush)
        permissions = Permissions(settings, store, catalog, receipts)
        stack.push_async_callback(permissions.aclose)
        following = CredentialWatcher(desk.vault, changed=fleet.relogin)
        stack.push_async_callback(following.aclose)
        logins = Logins(
            desk,
            signer,
            rights=LoginRights(
                manages=lambda caller: permissions.policy.decide(caller, "right", "manage").allowed,
                reaches=lambda caller, server: (
                    permissions.policy.decide(caller, "reach", server).allowed
                ),
            ),
            specs=lambda: list(catalog.specs),
            settings=lambda: current().credentials,
            record=receipts.note,
            changed=following.refresh,
        )
        passage = CallGuardChain(
            CallGuards(
                _guards_of(settings, permissions),
                is_trusted=lambda server: server not in permissions.policy.distrusted,
            ),
            Approvals(
                store.approvals,
                signer,
                settings=lambda: current().approvals,
                note=receipts.approval,
            ),
        )
        document_factory = DocumentFactory(store, lambda: current().documents)
        stack.push_async_callback(document_factory.aclose)
        library = DocumentLibrary(
            store.documents, document_factory, settings=lambda: current().documents
        )
        stack.push_async_callback(library.converter.aclose)
        prompts = Prompts(store.prompts)
        gateway = Gateway(
            settings=current,
            servers=ServerParts(catalog=catalog, registry=registry, quarantine=quarantine),
            access=permissions,
            search=SearchParts(index=search_factory.index, learning=learning, relations=relations),
            intent_service=IntentService(
                recognizer=recognizer,
                rulebook=rulebook,
                settings=lambda: current().rules,
                notes=notes,
            ),
            guards=passage,
            receipts=receipts,
            library=library,
            prompts=prompts,
            results=ResultStorage(store=store, signer=signer),
        )
        stack.callback(gateway.close)
        stack.push_async_callback(catalog.aclose)
        if connect == "unknown":
            fleet.should_connect = lambda name: not catalog.has_tools_of(name)
        elif connect != "all":
            fleet.should_connect = lambda name: name in connect
        if hold:
            fleet.defer_connections()

        def guards_changed() -> None:
            passage.guards.reload(_guards_of(current(), permissions))

        permissions.on_change(guards_changed)
        await permissions.open()
        await following.refresh()
        await _search_for_projects(current, search_factory, permissions)
        searches: set[asyncio.Task[None]] = set()
        stack.push_async_callback(_end_all, searches)

        def access_changed() -> None:
            gateway.changes.access_changed()
            wanted = _optimizations(current(), permissions)
            if wanted != current().project_optimizations:
                task = asyncio.create_task(
                    _search_for_projects(current, search_factory, permissions)
                )
                searches.add(task)
                task.add_done_callback(searches.discard)

        permissions.on_change(access_changed)
        permissions.on_change(following.refresh_soon)

        async def follow() -> None:
            try:
                await registry.follow(current())
            except (ConfigError, StoreError) as error:
                log.warning("stored servers not taken over", extra={"error": error.full_text})

        def servers_changed() -> None:
            task = asyncio.create_task(follow())
            searches.add(task)
            task.add_done_callback(searches.discard)

        permissions.on_change(servers_changed)
        stack.callback(catalog.events.on_change(lambda _: permissions.warn()))
        await packs.refresh()
        connected = _Connected(await schemas.names(), is_any=bool(schemas.connections))
        _teach(packs.current, connected, recognizer, rulebook, live, gateway.calls.protections)
        await catalog.load(await registry.specs(settings))

        async def exchange(found: PackSet) -> None:
            _teach(found, connected, recognizer, rulebook, live, gateway.calls.protections)
            try:
                await catalog.reload(await registry.specs(current()))
            except ConfigError as error:
                log.error("servers of packs cannot be used: %s", error)  # noqa: TRY400
            gateway.changes.packs_changed()

        async def rename() -> None:
            nonlocal connected
            found = _Connected(await schemas.names(), is_any=bool(schemas.connections))
            if found != connected:
                connected = found
                _teach(
                    packs.current, connected, recognizer, rulebook, live, gateway.calls.protections
                )
                gateway.changes.packs_changed()

        packs.on_change(exchange)
        schemas.on_change(rename)
        if not isinstance(connect, str) and set(connect) - {spec.name for spec in catalog.specs}:
            await packs.load()  # a server that code of a pack adds is known only then
        watching = asyncio.create_task(packs.watch(stop=anyio.Event()))
        stack.push_async_callback(_end, watching)
        house = asyncio.create_task(
            run_housekeeping(
                store,
                lambda: retention_of(settings.store),
                configured=lambda: [(DEFAULT_PROJECT, spec.name) for spec in catalog.specs],
                sign=sealer.sign_cut,
            )
        )
        stack.push_async_callback(_end, house)
        stack.push_async_callback(_end, asyncio.create_task(schemas.watch()))
        if wait_s:
            await gateway.servers.wait_ready(wait_s)
        app = App(
            settings=current,
            gateway=gateway,
            store=store,
            recorder=recorder,
            catalog=catalog,
            registry=registry,
            search_factory=search_factory,
            schemas=schemas,
            recognizer=recognizer,
            rulebook=rulebook,
            notes=notes,
            packs=packs,
            permissions=permissions,
            logins=logins,
            guards=passage.guards,
            sealer=sealer,
            signer=signer,
            prompts=prompts,
            connect=fleet.allow_connections,
        )
        await app.open_chat()
        stack.push_async_callback(app.close_chat)
        if app.chat is not None:
            stack.push_async_callback(_end, asyncio.create_task(app.chat.models.warm_up()))
        try:
            yield app
        finally:
            # The shutdown has to end children even when it is itself being cancelled.
            with anyio.CancelScope(shield=True):
                await stack.aclose()


def _embedder(search_factory: SearchFactory) -> Embedder | None:
    """What the search has; None where that cannot be used, so that words alone count."""
    try:
        return search_factory.strategies.embedder()
    except ConfigError as error:
        log.warning("intents are told without an embedder", extra={"reason": str(error)})
        return None


@dataclass(frozen=True)
class _Connected:
    """What is connected, as far as packs go by it."""

    tables: tuple[str, ...]
    """Names of tables and types."""

    is_any: bool
    """Whether there are databases."""


def _optimizations(settings: Settings, permissions: Permissions) -> tuple[str, ...]:
    """The searches that projects of the file and of the store ask for."""
    of_file = {table.optimization for table in settings.project.values()} - {""}
    return tuple(sorted(of_file | set(permissions.optimizations)))


async def _search_for_projects(
    current: CurrentSettings, search_factory: SearchFactory, permissions: Permissions
) -> None:
    """Have the searches that projects ask for; one that cannot be is logged, and not used."""
    wanted = _optimizations(current(), permissions)
    settings = replace(current(), project_optimizations=wanted)
    try:
        await search_factory.reload(search_factory.prepare(settings))
    except ConfigError as error:
        log.error("a search of a project cannot be used: %s", error)  # noqa: TRY400
    current.replace(settings)


def _teach(
    found: PackSet,
    connected: _Connected,
    recognizer: Recognizer,
    rulebook: Rulebook,
    live: LiveVariables,
    protections: Protections,
) -> None:
    """Let intents and rules of these packs count from now on.

    Rules for tools that are not there, since nothing is connected, would only mislead.
    """
    packs = [with_live_names(pack, {"tables": connected.tables}) for pack in found.packs]
    rules = [
        PackRules(
            pack=pack.name,
            rules=pack.rules,
            variables=pack.variables,
            out_of_context=pack.out_of_context,
        )
        for pack in packs
        if connected.is_any or "connections" not in pack.needs
    ]
    taught = intent_set_of(packs)
    if taught != recognizer.intent_set:
        recognizer.replace_intents(taught, soon=any(each.rules for each in rules))
    rulebook.replace_rules(rules, live.sources(packs))
    protections.take(
        Protection(pack=pack.name, suffixes=pack.protected, hint=pack.protection) for pack in packs
    )


def _guards_of(settings: Settings, permissions: Permissions) -> tuple[GuardTable, ...]:
    """The guards of file and store, and the one before SQLcl, which would run anything."""
    known = (*settings.guard, *permissions.guards)
    if not settings.packs.options.get("sql", {}).get("sqlcl"):
        return known
    own = GuardTable(tools=("sqlcl-*:run-sql",), sql={"sql": "oracle"}, source="the pack sql")
    return (*known, own)


def _here() -> Path:
    """The working folder; the root of all where it was removed meanwhile."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


class _Services(Mapping[str, object]):
    """What wires may ask for; HTTP clients are made when the first of them does."""

    def __init__(self, wires: Mapping[str, WireMaker], settings: Callable[[], Settings]) -> None:
        self._wires = wires
        self._settings = settings
        self.desk: CredentialProvider | None = None
        """Shows what belongs to each server."""
        self._credential: ConnectionCredential | None = None
        self._guard = OrphanGuard()
        self._outbound: Any = None
        self._environment = base_environment()
        self._max_message_bytes = 0

    def make_wire(self, spec: ServerSpec) -> Wire:
        """A fresh wire for a server."""
        if spec.name in self._wires:
            return self._wires[spec.name](spec)
        self._max_message_bytes = spec.max_message_bytes
        self._credential = None if self.desk is None else ConnectionCredential(self.desk, spec)
        plugin = PluginSpec(name=spec.kind, setting=f"server.{spec.name}", options=spec.options)
        return make("transport", Wire, plugin, self)

    def __getitem__(self, name: str) -> object:
        match name:
            case "guard":
                return self._guard
            case "base_environment":
                return self._environment
            case "max_message_bytes":
                return self._max_message_bytes
            case "http":
                return self.outbound().session(
                    import_module("toolgate.security.outbound").CONFIGURED
                )
            case "proxy_for":
                return self.outbound().proxy_for
            case "credential":
                return self._credential
            case _:
                raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_SERVICES)

    def __len__(self) -> int:
        return len(_SERVICES)

    def outbound(self) -> Any:
        """The HTTP clients of the gateway; their library is loaded only now."""
        if self._outbound is None:
            module: Any = import_module("toolgate.security.outbound")
            self._outbound = module.Outbound(self._settings().outbound, proxies())
        return self._outbound

    async def aclose(self) -> None:
        """Close the HTTP clients and end the guard."""
        if self._outbound is not None:
            await self._outbound.aclose()
        await self._guard.aclose()


_SERVICES = (
    "guard",
    "base_environment",
    "max_message_bytes",
    "http",
    "proxy_for",
    "credential",
)


async def _end_all(tasks: set["asyncio.Task[None]"]) -> None:
    for task in list(tasks):
        await _end(task)


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
