"""Which tool has which embedded text, and the models whose vectors are stored."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["StoredModel", "TextLink", "ToolTextCounts", "ToolTextRepository", "UnlinkedTexts"]


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """A model whose vectors of tools are stored."""

    collection_id: str
    """Of its vectors."""

    model: str
    """Identity of the model and of all else that shapes its vectors."""

    dim: int
    """Numbers of a vector."""


@dataclass(frozen=True, kw_only=True)
class TextLink:
    """That a tool has a text."""

    tool: str
    """Its name on its server."""

    text_hash: bytes
    """Of the text that is embedded; the key of its vectors."""

    description: str = ""
    """What the server says of the tool."""

    enriched: str = ""
    """The text that is embedded."""

    definition_hash: str = ""
    """Changes with the tool's definition, its input schema included."""


@dataclass(frozen=True, kw_only=True)
class UnlinkedTexts:
    """What a removed server had."""

    tools: int
    """Its tools."""

    hashes: tuple[bytes, ...]
    """Those of its texts that no other tool has."""


@dataclass(frozen=True, kw_only=True)
class ToolTextCounts:
    """How much a project has."""

    tools: int
    """Tools that have a text."""

    servers: int
    """Servers that have such a tool."""


class ToolTextRepository(Protocol):
    """Texts of tools by project, server and tool. Each method is one transaction."""

    async def link(self, project_id: str, server: str, links: Sequence[TextLink]) -> int:
        """Make these the tools of a server; gives how many rows that changed."""
        ...

    async def links(self, project_id: str) -> dict[str, dict[str, bytes]]:
        """Hashes of texts by server and tool."""
        ...

    async def linked(self, hashes: Collection[bytes]) -> set[bytes]:
        """Those of these texts that a tool of any project has."""
        ...

    async def unlink(self, project_id: str, server: str) -> UnlinkedTexts:
        """Forget the tools of a server."""
        ...

    async def prune(self, *, before: str) -> int:
        """Forget the tools of servers that have no listing; gives how many.

        Args:
            before: UTC, ISO 8601; what was written since then stays.
        """
        ...

    async def counts(self, project_id: str) -> ToolTextCounts:
        """How much a project has."""
        ...

    async def use_model(self, model: StoredModel) -> None:
        """Note that a model is in use."""
        ...

    async def models(self, *, unused_since: str | None = None) -> list[StoredModel]:
        """All models, or those that were not used since a time (UTC, ISO 8601)."""
        ...

    async def delete_model(self, collection_id: str) -> None:
        """Forget a model."""
        ...
