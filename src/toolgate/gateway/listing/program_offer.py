"""Whether clients may send programs, and whether `tool_program` is listed."""

from toolgate.base.plugins import is_importable
from toolgate.settings import CurrentSettings, ProgramSettings

PROGRAM_TOOL = "tool_program"

_FEWEST_TOOLS = 15
"""Number of tools from which `auto` offers programs; docs/code-mode.md has what they save."""


class ProgramOffer:
    """Decides by settings, installed libraries and number of tools."""

    def __init__(self, settings: CurrentSettings) -> None:
        self._settings = settings

    @property
    def rules(self) -> ProgramSettings:
        """The settings."""
        return self._settings.current.programs

    def is_installed(self) -> bool:
        """Whether the sandbox and its library are installed; checked without importing it."""
        return is_importable("sandbox", self.rules.sandbox)

    def is_callable(self) -> bool:
        """Whether clients may send programs, whether `tool_program` is listed or not."""
        settings = self._settings.current
        is_known = PROGRAM_TOOL in settings.meta_tools
        return is_known and settings.programs.offer != "off" and self.is_installed()

    def is_listed(self, *, lists_all: bool, tools: int) -> bool:
        """Whether `tools/list` has `tool_program`.

        Args:
            lists_all: Whether the real tools are listed.
            tools: The number of tools.
        """
        is_useful = not lists_all and tools >= _FEWEST_TOOLS
        return (is_useful or self.rules.offer == "on") and self.is_callable()
