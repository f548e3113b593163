"""What is listed for a caller: mode, pinned tools and meta-tools, by project and search variant."""

from collections.abc import Callable
from dataclasses import replace

from toolgate.catalog import CatalogEntry, Menu, MenuRules, MenuShape
from toolgate.gateway.listing.program_offer import PROGRAM_TOOL, ProgramOffer
from toolgate.gateway.listing.searching_clients import searching_client
from toolgate.gateway.meta_tools import DEFINITIONS, READ_TOOL
from toolgate.gateway.parts import GatewayContext
from toolgate.intents.service import IntentService
from toolgate.search import Variant
from toolgate.settings import ProjectTable
from toolgate.types import DEFAULT_PROJECT, Caller

_FOR_RULES = ("processPrompt", "getKnowledge")
"""Meta-tools that are listed first while a pack with rules is loaded."""


class ListingPolicy:
    """Decides what `tools/list` shows to a caller."""

    def __init__(
        self,
        context: GatewayContext,
        *,
        offer: ProgramOffer,
        project: Callable[[str], ProjectTable],
        menu: Menu,
        intent_service: IntentService,
    ) -> None:
        self._offer = offer
        self._settings = context.settings
        self._project = project
        self._catalog = context.catalog
        self._menu = menu
        self._index = context.search.index
        self._guide = intent_service
        self._has_paged = False
        self._reads_in = -1, False
        """Version of a snapshot, and whether it has a read-only tool."""

    def lists_all(self, caller: Caller | None = None) -> bool:
        """Whether `tools/list` shows the real tools; None: for callers whose tools are searched."""
        return self.shape(caller) != "meta"

    def shape(self, caller: Caller | None) -> MenuShape:
        """What `tools/list` shows; None: to callers whose tools are searched."""
        return self._menu.shape(self.rules(caller))

    def shape_for_names(self, caller: Caller | None) -> MenuShape:
        """The same for clients whose models see the names of all tools, whatever the client is."""
        return self._menu.shape(replace(self.rules(caller), shows_names=True))

    def rules(self, caller: Caller | None) -> MenuRules:
        """The mode, its limit and the pinned tools; None: for callers without a project."""
        settings = self._settings.current
        project = self._project(caller.project_id if caller else DEFAULT_PROJECT)
        mode = "all" if settings.tool_names == "flat" else project.mode or settings.mode
        if self.is_unsearched(caller):
            mode = "all"  # else its tools could not be reached
        client = searching_client(caller)
        return MenuRules(
            mode=mode,
            auto_tokens=settings.discovery.auto_tokens,
            pinned=self.pinned(project),
            shows_names=client is not None and client.shows == "names",
            load_at_start="" if client is None else client.load_at_start,
        )

    def is_unsearched(self, caller: Caller | None) -> bool:
        """Whether search is off for a caller; None: for everyone."""
        if caller is not None:
            return self.arm(caller).name == "off"
        return self._settings.current.optimizations == frozenset({"off"})

    def arm(self, caller: Caller) -> Variant:
        """The search variant of a caller: that of its project, else of its conversation."""
        asked = self._project(caller.project_id).optimization
        return self._index.experiment.variant_for(caller.thread, asked)

    def note_paged(self) -> bool:
        """List `result_read` from now on, since a result has pages. Return True the first time."""
        is_first = not self._has_paged
        self._has_paged = True
        return is_first

    def project_of(self, caller: Caller) -> ProjectTable:
        """The settings of a caller's project."""
        return self._project(caller.project_id)

    def is_mixed(self) -> bool:
        """Whether search is off for some of the conversations."""
        optimizations = self._settings.current.optimizations
        return "off" in optimizations and len(optimizations) > 1

    def meta_tools(self, caller: Caller) -> tuple[str, ...]:
        """Meta-tools: in every mode those for rules first; the others if tools are not listed."""
        settings = self._settings.current
        if settings.tool_names == "flat":
            return ()
        wanted = settings.meta_tools
        rules = [name for name in _FOR_RULES if name in wanted and self._guide.has_rules]
        lists_all = self.lists_all(caller)
        programs = (PROGRAM_TOOL,) if self._has_programs(lists_all=lists_all) else ()
        if lists_all:
            return (*rules, *programs)
        others = [
            name
            for name in wanted
            if name in DEFINITIONS and name not in _FOR_RULES
            if name != PROGRAM_TOOL or programs
            if name != "result_read" or self._has_paged
            if name != READ_TOOL or self._has_read_only()
        ]
        return (*rules, *others)

    def _has_programs(self, *, lists_all: bool) -> bool:
        tools = len(self._catalog.snapshot.tools)
        return self._offer.is_listed(lists_all=lists_all, tools=tools)

    def _has_read_only(self) -> bool:
        snapshot = self._catalog.snapshot
        if self._reads_in[0] != snapshot.version:
            self._reads_in = snapshot.version, any(tool.read_only for tool in snapshot.tools)
        return self._reads_in[1]

    def callable_meta_tools(self, caller: Caller) -> tuple[str, ...]:
        """Meta-tools that a caller may call and that are of use now, listed or not."""
        settings = self._settings.current
        if settings.tool_names == "flat":
            return ()
        # Without a menu first: programs that are not listed beside meta-tools never are.
        has_programs = self._has_programs(lists_all=False) and self._has_programs(
            lists_all=self.lists_all(caller)
        )
        return tuple(
            name
            for name in settings.meta_tools
            if name != PROGRAM_TOOL or has_programs
            if name != READ_TOOL or self._has_read_only()
        )

    def callable_name(self, caller: Caller, entry: CatalogEntry) -> str:
        """How a caller's model names a tool: by its exposed name if listed, else by its key."""
        pinned = self.pinned(self._project(caller.project_id))
        is_listed = self.lists_all(caller) or entry.key in pinned
        return entry.exposed if is_listed else entry.key

    def pinned(self, project: ProjectTable | None = None) -> frozenset[str]:
        """Keys of the tools that the settings, the servers and a project pin."""
        pinned = {*self._settings.current.pinned, *(project.pinned if project is not None else ())}
        for spec in self._catalog.specs:
            pinned.update(f"{spec.name}:{name}" for name in spec.pinned)
        return frozenset(pinned)
