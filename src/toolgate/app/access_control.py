"""Builds access control from settings, store and catalog, and reloads it when any changes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from toolgate.app.project_tables import ProjectTables
from toolgate.audit import Receipts
from toolgate.base.plugins import make
from toolgate.catalog import Catalog
from toolgate.errors import ConfigError, StoreError
from toolgate.security.access import (
    AccessAdmin,
    AccessData,
    AccessRule,
    Admission,
    Policy,
    PolicyInputs,
    ProjectRules,
    UsageLimits,
    rules_of_file,
)
from toolgate.security.authn import Authenticator
from toolgate.security.guards import CallGuards
from toolgate.settings import GuardTable, ProjectTable, Settings, guard_table
from toolgate.store import Store, StoredGuard
from toolgate.types import PluginSpec

log = logging.getLogger(__name__)


class Permissions:
    """Access control of a gateway: authentication, permissions, limits, administration."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        catalog: Catalog,
        receipts: Receipts,
        *,
        data: AccessData,
        projects: ProjectTables,
        delete_documents: Callable[[str], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._data = data
        self._projects = projects
        self.project = projects.table
        """Returns the settings of a project by its name; empty if it does not exist."""
        self._rules_of_file: tuple[AccessRule, ...] = tuple(rules_of_file(settings.permission))
        self._guards: dict[str, GuardTable] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._warned: set[str] = set()
        self._catalog = catalog
        self._header_names: tuple[int, frozenset[str]] = (-1, frozenset())
        self._listeners: list[Callable[[], None]] = []
        self.policy = Policy(catalog)
        """Decides about access."""
        self.limits = UsageLimits(settings.limits, projects.limits_of, store.access)
        """Counts calls against limits."""
        required = settings.auth == "required"
        self._authenticators = self._made(settings) if required else []
        self.admission = Admission(
            self._authenticators,
            required=required,
            projects=lambda: self.admin.project_names(),
            local=self._make("local", {}),
            on_refusal=receipts.login_refused,
            forwarded_headers=self._forwarded_headers,
        )
        """Authenticates callers."""
        self.admin = AccessAdmin(
            store,
            self._data,
            self.policy,
            settings=lambda: self._settings,
            rules_of_file=lambda: self._rules_of_file,
            guards=lambda: [
                *(("", table) for table in self._settings.guard),
                *self._guards.items(),
            ],
            read_guard=_guard,
            servers_of=self._servers_of,
            delete_documents=delete_documents,
            change=receipts.change,
        )
        """Manages tokens, projects and permissions."""
        self._catalog = catalog
        self._data.on_change(self._refresh)
        self._refresh()

    def _forwarded_headers(self) -> frozenset[str]:
        """Names of the headers that any server may receive."""
        generation = self._catalog.generation
        if self._header_names[0] != generation:
            specs = self._catalog.specs
            names = frozenset(name for spec in specs for name in spec.forward_headers)
            self._header_names = generation, names
        return self._header_names[1]

    async def open(self) -> None:
        """Read the stored access data, and watch it for changes."""
        try:
            await self._data.refresh()
        except StoreError as error:
            if self.admission.required:
                raise
            log.warning("projects cannot be read", extra={"error": error.full_text})
        self._tasks = [
            asyncio.create_task(self._data.watch(), name="toolgate access"),
            asyncio.create_task(self.limits.keep_saved(), name="toolgate limits"),
        ]

    async def aclose(self) -> None:
        """Stop watching, and save usage and the times of last use of tokens."""
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._data.write_uses()
            await self.limits.save()
        await self.policy.aclose()
        for authenticator in self._authenticators:
            await authenticator.aclose()

    async def reload(self, settings: Settings) -> None:
        """Apply new settings; `auth` and `authn` stay as they were at the start.

        Raises:
            SettingError: A rule is invalid; nothing was changed.
        """
        rules = tuple(rules_of_file(settings.permission))
        self._settings, self._rules_of_file = settings, rules
        self._projects.reload(settings)
        self.limits.reload(settings.limits)
        try:
            await self._data.refresh()
        except StoreError as error:  # tried again while the gateway runs
            log.warning("projects cannot be read", extra={"error": error.full_text})
        self._refresh()

    def is_closed(self, name: str) -> bool:
        """Whether a project refuses actions that the audit log cannot record."""
        return self._projects.is_closed(name)

    @property
    def guards(self) -> tuple[GuardTable, ...]:
        """The guards in the store."""
        return tuple(self._guards.values())

    @property
    def optimizations(self) -> tuple[str, ...]:
        """The search strategies that projects use."""
        return self._projects.optimizations

    def on_session_end(self, listener: Callable[[str], None]) -> None:
        """Call a function with the id of each session that has ended in another process."""
        self._data.on_session_end(listener)

    async def announce_session_end(self, session_id: str) -> None:
        """Tell other processes that a session has ended."""
        await self._data.announce_session_end(session_id)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a function after each change of access data."""
        self._listeners.append(listener)

    def warn(self) -> None:
        """Log each rule that has no effect, once."""
        if self._catalog.never_listed():
            return
        said = [
            ("permission rule fits nothing", str(rule)) for rule in self.policy.without_effect()
        ]
        said += [
            ("permission rule is denied by another", f"{allowed} / {denied}")
            for allowed, denied in self.policy.contradictions()
        ]
        for event, rule in said:
            if rule not in self._warned:
                self._warned.add(rule)
                log.warning(event, extra={"rule": rule})

    def _refresh(self) -> None:
        pages = self._data.snapshot
        self._projects.refresh()
        self._guards = {row.guard_id: _guard_or_none_passes(row) for row in pages.guards}
        grounds = PolicyInputs(
            required=self.admission.required,
            rules=(*self._rules_of_file, *pages.rules),
            projects={name: _rules_of(table) for name, table in self._projects.by_name.items()},
        )
        if grounds != self.policy.inputs:
            self.policy.reload(grounds)
        for listener in list(self._listeners):
            listener()

    def _servers_of(self, project: str) -> list[str]:
        own = {spec.name for spec in self._catalog.specs if spec.project_id == project}
        return sorted(own | set(self.project(project).servers))

    def _made(self, settings: Settings) -> list[Authenticator]:
        options = settings.authn.options
        return [self._make(name, options.get(name, {})) for name in settings.authn.order]

    def _make(self, name: str, options: Mapping[str, object]) -> Authenticator:
        spec = PluginSpec(
            name=name,
            setting="authn.order",
            options=options,
            options_at=f"authn.options.{name}",
        )
        services = {
            "find_token": self._data.token_by_prefix,
            "note_use": self._data.note_use,
            "local_key": lambda: self.admission.local_key,
        }
        return make("authenticator", Authenticator, spec, services)


def _rules_of(table: ProjectTable) -> ProjectRules:
    return ProjectRules(
        servers=table.servers,
        read_only=table.read_only,
        read_only_allow=table.read_only_allow,
        shared_servers=table.shared_servers,
    )


def _guard(row: StoredGuard) -> GuardTable:
    """Read a guard from its row.

    Raises:
        ConfigError: It is not a guard, or cannot work here.
    """
    table = guard_table(row.settings, source=f"the store, guard {row.guard_id}")
    CallGuards.check([table])
    return table


def _guard_or_none_passes(row: StoredGuard) -> GuardTable:
    """Read a guard from its row; one that this version cannot read rejects every call."""
    try:
        return _guard(row)
    except ConfigError as error:
        log.error("a guard of the store cannot be used: %s", error)  # noqa: TRY400
        return GuardTable(
            arguments={"not": {}},
            reason=f"The guard {row.guard_id} cannot be read by this version of Toolgate.",
            source=f"the store, guard {row.guard_id}",
        )
