"""Groups of dependencies that the gateway's services are built from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolgate.audit import Receipts
from toolgate.base.signing import Signer
from toolgate.catalog import Catalog
from toolgate.catalog.scanner import Quarantine
from toolgate.documents import AskModel, DocumentLibrary
from toolgate.errors import ConfigError
from toolgate.gateway.visible_catalog import VisibleCatalog
from toolgate.models.sandboxes import Sandbox
from toolgate.search import Learning, Relations, ToolIndex
from toolgate.security.access import AccessAdmin, Admission, Policy, UsageLimits
from toolgate.security.guards import CallGuardChain
from toolgate.settings import CurrentSettings, ProjectTable, Settings
from toolgate.store import Store
from toolgate.types import Json


class AccessControl(Protocol):
    """Identifies callers, and decides what they may do and how much; implemented by `app`."""

    @property
    def policy(self) -> Policy:
        """Decides access."""
        ...

    @property
    def limits(self) -> UsageLimits:
        """Counts calls."""
        ...

    @property
    def admission(self) -> Admission:
        """Identifies callers."""
        ...

    @property
    def admin(self) -> AccessAdmin:
        """Edits tokens, projects and permissions."""
        ...

    def project(self, name: str, /) -> ProjectTable:
        """The settings of a project."""
        ...


@dataclass(frozen=True, kw_only=True)
class SearchParts:
    """Parts for finding tools."""

    index: ToolIndex
    """The search index of tools."""
    contents: ToolIndex
    """The search index of prompts, resources, templates and skills."""
    learning: Learning
    """What search has learned from use."""
    relations: Relations
    """Near-identical tools and groups."""
    plugin_problems: Callable[[Settings], Sequence[ConfigError]]
    """Returns what is wrong with the search strategies and other plugins that settings name."""


class ServerEditor(Protocol):
    """Changes the configuration of servers; implemented by `app`."""

    async def add(self, project_id: str, name: str, config: Json, *, save: bool) -> None:
        """Add a server to the store or, with `save`, to the configuration file."""
        ...

    async def remove(self, project_id: str, name: str) -> None:
        """Remove a server from the store or the configuration file, or override the file."""
        ...

    async def restore(self, name: str) -> None:
        """Undo a removal that overrides a file."""
        ...

    @property
    def removed(self) -> Mapping[str, str]:
        """Servers that a file configures and an override removes: name and file."""
        ...

    async def enable(self, project_id: str, name: str, *, enabled: bool) -> None:
        """Enable or disable a server."""
        ...

    async def schedule(self, project_id: str, name: str, changes: Json) -> None:
        """Set when a server runs: its keys `start` and `idle_s`."""
        ...

    async def switch_tools(
        self, project_id: str, name: str, tools: Sequence[str], *, allowed: bool
    ) -> None:
        """Allow or deny tools of a server to everyone."""
        ...

    async def tool_table(self, name: str, tool: str) -> Json:
        """The override of a tool, as it is written; empty if there is none."""
        ...

    async def override_tool(self, name: str, tool: str, table: Json) -> str:
        """Replace the override of a tool; an empty table removes it.

        Returns a sentence on why it is not kept where the server is configured; empty if it is.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class ServerParts:
    """The servers and their tools."""

    catalog: Catalog
    """The tools of all servers."""
    registry: ServerEditor
    """Adds, changes and removes servers."""
    quarantine: Quarantine
    """Definitions that wait for a decision."""


class GatewayContext:
    """What all services share."""

    def __init__(
        self,
        *,
        settings: CurrentSettings,
        servers: ServerParts,
        access: AccessControl,
        search: SearchParts,
        guards: CallGuardChain,
        receipts: Receipts,
    ) -> None:
        self.settings = settings
        """The current settings."""
        self.catalog = servers.catalog
        """The tools of all servers."""
        self.access = access.policy
        """Decides access."""
        self.visible = VisibleCatalog(
            settings=settings, catalog=servers.catalog, access=access.policy, index=search.index
        )
        """What each caller may use."""
        self.search = search
        """Finds tools and contents."""
        self.guards = guards
        """Checks calls and results, and asks for approval."""
        self.receipts = receipts
        """Writes audit records."""


@dataclass(frozen=True, kw_only=True)
class DocumentParts:
    """Documents, and the model that helps to find the right ones."""

    library: DocumentLibrary
    """The documents."""
    helper: Callable[[], AskModel | None]
    """Returns the chat model for requests from outside a chat turn; None: nothing is rephrased,
    selected or graded."""


@dataclass(frozen=True, kw_only=True)
class ResultParts:
    """Parts for large results and programs."""

    store: Store
    """Stores both."""
    signer: Signer
    """Signs their handles."""
    open_sandbox: Callable[[], Sandbox]
    """Creates the sandbox that runs programs."""
