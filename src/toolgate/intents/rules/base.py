"""Data types of rules: the rules of a pack, standard variables, sources of variables."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from toolgate.types import Caller

__all__ = ["PASS_THROUGH", "STANDARD", "PackRules", "VariableSource"]

PASS_THROUGH: Final = "PASS_THROUGH"  # noqa: S105 - no password
"""The whole answer to a message that no rules belong to."""

STANDARD: Final[Mapping[str, str]] = {
    "PROJECT_NAME": "UNKNOWN",
    "ACTIVE_SOLUTION": "UNKNOWN",
    "DATABASE_SERVERS": "none",
    "AVAILABLE_DATASOURCES": "none",
    "USER_NAME": "UNKNOWN",
    "TOOLS": "none",
    "RECENT_FILES": "none",
    "OUT_OF_CONTEXT": "",
    "CONTEXT_TITLE": "",
    "NO_PROJECT": "No active project",
}
"""Variables that every rules text may use, and what stands for each when nothing is known."""


@dataclass(frozen=True, kw_only=True)
class PackRules:
    """What one pack says of rules."""

    pack: str
    """Its name."""

    rules: Mapping[str, str]
    """Text by intent, as the files say it; intents are compared without case."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its own variables."""

    out_of_context: str = ""
    """What the model should answer to messages that the pack has nothing to do with."""


class VariableSource(Protocol):
    """Where values come from that change while Toolgate runs: the open project, its databases."""

    async def __call__(self, caller: Caller, names: Collection[str], /) -> Mapping[str, str]:
        """The values of those variables that it knows; others are left out.

        Args:
            caller: Who asks.
            names: Variables that are needed; more may be given.
        """
        ...
