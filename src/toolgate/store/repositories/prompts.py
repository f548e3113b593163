"""Stored versions of customised prompts."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class StoredPrompt:
    """A version of a prompt, or its reset to the default."""

    project_id: str
    """The project."""

    name: str
    """Name of the prompt."""

    version: int
    """Version number, from 1."""

    text: str | None
    """The new text; None: the default text from then on."""

    changed_at: str
    """UTC, ISO 8601."""

    changed_by: str = ""
    """Id of the caller."""


class PromptRepository(Protocol):
    """Customised prompts. Each method is one transaction."""

    async def versions(self, project_id: str, name: str | None) -> list[StoredPrompt]:
        """All versions of a prompt, oldest first; without a name, the latest of each prompt."""
        ...

    async def add(self, version: StoredPrompt) -> None:
        """Add a version.

        Raises:
            StoreError: It cannot be written, or its number exists.
        """
        ...
