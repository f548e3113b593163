"""Who may see and use what. Asked for every list, search, description and call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from toolgate.types import Caller

__all__ = ["Access", "AllowAll", "Verdict"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """An answer of `Access.decide`."""

    allowed: bool
    """Whether the caller may."""

    rule: str
    """The rule that said so, for the audit and for `explain`."""


class Access(Protocol):
    """Decides by caller. A decision for one thing and a mask over many always agree."""

    def decide(self, caller: Caller, action: str, key: str) -> Verdict:
        """May the caller do this (`list`, `call`, `read`, `prompt`, `complete`, `manage`) here?

        Args:
            caller: Who asks.
            action: What for.
            key: `server:name` of a tool or prompt, `server:uri` of a resource, or a server.
        """
        ...

    def mask(self, caller: Caller, keys: Sequence[str]) -> Sequence[bool] | None:
        """For each tool key, whether the caller may see it; None: all of them."""
        ...


class AllowAll:
    """Everybody who reached this gateway may do everything: the rule of a single user."""

    def decide(self, caller: Caller, action: str, key: str) -> Verdict:
        """Yes."""
        del caller, action, key
        return Verdict(allowed=True, rule="allow-all")

    def mask(self, caller: Caller, keys: Sequence[str]) -> Sequence[bool] | None:
        """All of them."""
        del caller, keys
        return None
