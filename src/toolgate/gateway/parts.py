"""Groups of collaborators that the gateway's services are built from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from toolgate.base.signing import Signer
from toolgate.catalog import Catalog
from toolgate.catalog.scanner import Quarantine
from toolgate.documents import AskModel, DocumentLibrary
from toolgate.models.sandboxes import Sandbox
from toolgate.search import Learning, Relations, ToolIndex
from toolgate.security.access import AccessAdmin, Admission, Policy, UsageLimits
from toolgate.settings import ProjectTable
from toolgate.store import Store
from toolgate.types import Json

__all__ = [
    "AccessControl",
    "DocumentParts",
    "ResultParts",
    "SearchParts",
    "ServerEditor",
    "ServerParts",
]


class AccessControl(Protocol):
    """Who asks, what they may do, and how much; implemented by `app`."""

    @property
    def policy(self) -> Policy:
        """The decision."""
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
        """What a project sets."""
        ...


@dataclass(frozen=True, kw_only=True)
class SearchParts:
    """How tools are found."""

    index: ToolIndex
    """The tools as the search indexes them."""
    contents: ToolIndex
    """Prompts, resources, templates and skills, likewise."""
    learning: Learning
    """What earlier use teaches the search."""
    relations: Relations
    """Near-equal tools and groups."""


class ServerEditor(Protocol):
    """Changes the configuration of servers; implemented by `app`."""

    async def add(self, project_id: str, name: str, config: Json, *, save: bool) -> None:
        """Add a server, in the store or, with `save`, in the configuration file."""
        ...

    async def remove(self, project_id: str, name: str) -> None:
        """Remove a server from the store or the configuration file, or override the file."""
        ...

    async def restore(self, name: str) -> None:
        """Undo a removal that overrides a file."""
        ...

    @property
    def removed(self) -> Mapping[str, str]:
        """Servers of files that an override has removed: name and file."""
        ...

    async def enable(self, project_id: str, name: str, *, enabled: bool) -> None:
        """Enable or disable a server."""
        ...

    async def schedule(self, project_id: str, name: str, changes: Json) -> None:
        """Say when a server runs: its keys `start` and `idle_s`."""
        ...

    async def switch_tool(self, project_id: str, name: str, tool: str, *, allowed: bool) -> None:
        """Allow or deny a tool of a server to everybody."""
        ...

    async def tool_table(self, name: str, tool: str) -> Json:
        """What overrides a tool, as it is written; empty: nothing."""
        ...

    async def override_tool(self, name: str, tool: str, table: Json) -> None:
        """Offer a tool in another way; with an empty table as its server does."""
        ...


@dataclass(frozen=True, kw_only=True)
class ServerParts:
    """The servers and their tools."""

    catalog: Catalog
    """The tools of all servers."""
    registry: ServerEditor
    """Adds, changes and removes servers."""
    quarantine: Quarantine
    """Tools that wait for a decision."""


@dataclass(frozen=True, kw_only=True)
class DocumentParts:
    """Documents, and who helps to find the right ones."""

    library: DocumentLibrary
    """The documents."""
    helper: Callable[[], AskModel | None]
    """Gives the chat model for requests from outside of a turn; None: nothing is rephrased, chosen
    or graded."""


@dataclass(frozen=True, kw_only=True)
class ResultParts:
    """What large results and programs need."""

    store: Store
    """Where both are stored."""
    signer: Signer
    """Signs their handles."""
    open_sandbox: Callable[[], Sandbox]
    """Makes what runs programs."""
