"""The embedded text of each tool, and the models with stored vectors."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """A model with stored vectors of tools."""

    collection_id: str
    """Id of its vector collection."""

    model: str
    """Identity of the model and of everything else that affects its vectors."""

    dim: int
    """Dimension of the vectors."""


@dataclass(frozen=True, kw_only=True)
class TextLink:
    """The embedded text of a tool."""

    tool: str
    """Its name on its server."""

    text_hash: bytes
    """Hash of the embedded text; the key of its vectors."""

    description: str = ""
    """The server's description of the tool."""

    enriched: str = ""
    """The embedded text."""

    definition_hash: str = ""
    """Hash of the tool's definition, including its input schema."""


@dataclass(frozen=True, kw_only=True)
class UnlinkedTexts:
    """Texts of a removed server."""

    tools: int
    """Number of its tools."""

    hashes: tuple[bytes, ...]
    """Texts that no other tool uses."""


@dataclass(frozen=True, kw_only=True)
class ToolTextCounts:
    """Numbers of tools and servers with texts."""

    tools: int
    """Tools with a text."""

    servers: int
    """Servers with such a tool."""


class ToolTextRepository(Protocol):
    """Texts of tools by project, server and tool. Each method is one transaction."""

    async def link(self, project_id: str, server: str, links: Sequence[TextLink]) -> int:
        """Replace the tools of a server. Returns the number of changed rows."""
        ...

    async def links(self, project_id: str) -> dict[str, dict[str, bytes]]:
        """Hashes of texts by server and tool."""
        ...

    async def linked(self, hashes: Collection[bytes]) -> set[bytes]:
        """Those of the texts that a tool of any project uses."""
        ...

    async def unlink(self, project_id: str, server: str) -> UnlinkedTexts:
        """Delete the texts of a server."""
        ...

    async def prune(self, *, before: str) -> int:
        """Delete the texts of servers without a listing. Returns their number.

        Args:
            before: UTC, ISO 8601; newer texts stay.
        """
        ...

    async def counts(self, project_id: str) -> ToolTextCounts:
        """Numbers of tools and servers of a project."""
        ...

    async def use_model(self, model: StoredModel) -> None:
        """Mark a model as in use."""
        ...

    async def models(self, *, unused_since: str | None = None) -> list[StoredModel]:
        """All models, or those unused since a time (UTC, ISO 8601)."""
        ...

    async def delete_model(self, collection_id: str) -> None:
        """Delete a model."""
        ...
