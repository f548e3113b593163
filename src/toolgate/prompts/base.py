"""Data types of prompts: named texts for models, which a project can replace."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["PREFIX", "Prompt", "Render"]

PREFIX = "toolgate_"
"""Prefix of the names of built-in prompts for MCP clients."""

Render: TypeAlias = Callable[[str, str, Mapping[str, str]], Awaitable[str]]
"""Gives the text of a prompt for a project: project id, name, values of its fields.

Stages that need a text of ours are passed one of these by `app`, and know no more of prompts.
"""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt as a project has it."""

    name: str
    """Without the prefix for ours; as MCP clients see it for those of packs and servers."""

    title: str
    """For people; replacing the text does not change it."""

    role: Literal["assistant", "user"]
    """Who says it, as MCP has it."""

    text: str
    """Its text, with fields such as `{question}`."""

    needs: tuple[str, ...] = ()
    """Fields that the text must have."""

    version: int = 0
    """Number of the replacement, from 1 on in each project; 0: the text that ships."""

    changed_at: str = ""
    """When it was replaced, UTC, ISO 8601; empty: it was not."""

    changed_by: str = ""
    """Who replaced it."""

    @property
    def is_default(self) -> bool:
        """Whether it is the text that ships."""
        return self.version == 0 or not self.changed_at
