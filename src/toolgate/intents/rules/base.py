"""Data types of rules: the rules of a pack, standard variables, sources of variables."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from toolgate.types import Caller

PASS_THROUGH: Final = "PASS_THROUGH"  # noqa: S105 - no password
"""The whole answer to a message that has no rules."""

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
"""Variables available in every rules text, with the text for each if its value is unknown."""


@dataclass(frozen=True, kw_only=True)
class PackRules:
    """The rules of one pack."""

    pack: str
    """Name of the pack."""

    rules: Mapping[str, str]
    """Text by intent, as in the files; intents are case-insensitive."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The pack's own variables."""

    out_of_context: str = ""
    """The answer that the model should give to messages unrelated to the pack."""


class VariableSource(Protocol):
    """Source of values that change while Toolgate runs: the open project, its databases."""

    async def __call__(self, caller: Caller, names: Collection[str], /) -> Mapping[str, str]:
        """Return the values of the variables that it knows; others are left out.

        Args:
            caller: The caller.
            names: The variables needed; more may be returned.
        """
        ...
