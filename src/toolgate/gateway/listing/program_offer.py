"""Whether programs may be sent, and whether `tool_program` is listed."""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Final

from toolgate.settings import ProgramSettings, Settings

__all__ = ["PROGRAM_TOOL", "ProgramOffer"]

PROGRAM_TOOL = "tool_program"

_LIBRARIES: Final = {"monty": "pydantic_monty"}
"""What the sandboxes that ship need; looked for and not imported: listings must stay cheap."""

_FEWEST_TOOLS = 15
"""Tools from which on `auto` offers programs; see docs/code-mode.md for what they save."""


class ProgramOffer:
    """Decides by the settings, the installed libraries and the number of tools."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    @property
    def rules(self) -> ProgramSettings:
        """The settings."""
        return self._settings().programs

    def is_installed(self) -> bool:
        """Whether the library of the sandbox is there."""
        library = _LIBRARIES.get(self.rules.sandbox)
        return library is None or _is_importable(library)

    def is_callable(self) -> bool:
        """Whether clients may send programs, whether that is listed or not."""
        is_known = PROGRAM_TOOL in self._settings().meta_tools
        return is_known and self.rules.offer != "off" and self.is_installed()

    def is_listed(self, *, lists_all: bool, tools: int) -> bool:
        """Whether `tools/list` has `tool_program`.

        Args:
            lists_all: Whether the real tools are listed.
            tools: How many tools there are.
        """
        if not self.is_callable():
            return False
        return self.rules.offer == "on" or (not lists_all and tools >= _FEWEST_TOOLS)


@cache
def _is_importable(library: str) -> bool:
    """Whether a library is installed; asked once, since it searches the folders of packages."""
    return find_spec(library) is not None
