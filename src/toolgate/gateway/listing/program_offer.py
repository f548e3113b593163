"""Whether clients may send programs, and whether `tool_program` is listed."""

from collections.abc import Callable

from toolgate.base.plugins import is_importable
from toolgate.settings import ProgramSettings, Settings

__all__ = ["PROGRAM_TOOL", "ProgramOffer"]

PROGRAM_TOOL = "tool_program"

_FEWEST_TOOLS = 15
"""Number of tools from which `auto` offers programs; docs/code-mode.md has what they save."""


class ProgramOffer:
    """Decides by settings, installed libraries and number of tools."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    @property
    def rules(self) -> ProgramSettings:
        """The settings."""
        return self._settings().programs

    def is_installed(self) -> bool:
        """Whether the sandbox and its library are installed; checked without importing it."""
        return is_importable("sandbox", self.rules.sandbox)

    def is_callable(self) -> bool:
        """Whether clients may send programs, whether `tool_program` is listed or not."""
        is_known = PROGRAM_TOOL in self._settings().meta_tools
        return is_known and self.rules.offer != "off" and self.is_installed()

    def is_listed(self, *, lists_all: bool, tools: int) -> bool:
        """Whether `tools/list` has `tool_program`.

        Args:
            lists_all: Whether the real tools are listed.
            tools: The number of tools.
        """
        if not self.is_callable():
            return False
        return self.rules.offer == "on" or (not lists_all and tools >= _FEWEST_TOOLS)
