"""Data types of prompts: named texts for models, which projects can customise."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

PREFIX = "toolgate_"
"""Prefix of the names of built-in prompts for MCP clients."""

Render: TypeAlias = Callable[[str, str, Mapping[str, str]], Awaitable[str]]
"""Returns the text of a prompt for a project: project id, name, values of its fields.

The app passes this function to stages that need a prompt; they know nothing else of prompts.
"""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt in its current version for a project."""

    name: str
    """Built-in prompts: without prefix; prompts of packs and servers: as MCP clients see it."""

    title: str
    """Title for people; not changed by customising the text."""

    role: Literal["assistant", "user"]
    """Role of the message in MCP."""

    text: str
    """Its text, with fields such as `{question}`."""

    needs: tuple[str, ...] = ()
    """Fields that the text must contain."""

    version: int = 0
    """Version number, from 1 in each project; 0: the default text."""

    changed_at: str = ""
    """Time of the last change, UTC, ISO 8601; empty if it was never changed."""

    changed_by: str = ""
    """The caller who changed it."""

    @property
    def is_default(self) -> bool:
        """Whether it has the default text."""
        return self.version == 0 or not self.changed_at
