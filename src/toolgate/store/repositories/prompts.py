"""Versions of prompts that replace those that ship, as a store keeps them."""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["PromptRepository", "StoredPrompt"]


@dataclass(frozen=True, kw_only=True)
class StoredPrompt:
    """A text in place of a prompt, or the end of one."""

    project_id: str
    """The tenant."""

    name: str
    """The prompt."""

    version: int
    """From 1 on."""

    text: str | None
    """The new text; None: from then on the text that ships."""

    changed_at: str
    """UTC, ISO 8601."""

    changed_by: str = ""
    """Id of the caller."""


class PromptRepository(Protocol):
    """Texts that replace prompts. Each method is one transaction."""

    async def versions(self, project_id: str, name: str | None) -> list[StoredPrompt]:
        """All versions of a prompt, oldest first; without a name the latest of each prompt."""
        ...

    async def add(self, version: StoredPrompt) -> None:
        """Add a version.

        Raises:
            StoreError: It cannot be written, or its number is taken.
        """
        ...
