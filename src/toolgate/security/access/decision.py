"""The interface of access decisions."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from toolgate.types import Caller

__all__ = [
    "Access",
    "AccessDecision",
    "AllowAll",
    "DecisionStep",
    "Mask",
    "Resource",
    "ResourceSnapshot",
]

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
"""For each tool of a snapshot, whether the caller may see and run it. Nobody may change one."""


@dataclass(frozen=True, kw_only=True)
class AccessDecision:
    """An answer of `Access.decide`."""

    allowed: bool
    """Whether the caller may."""

    rule: str
    """The rule that said so, for the audit and for `explain`."""


@dataclass(frozen=True, kw_only=True)
class DecisionStep:
    """One stage of a decision, for `explain`."""

    stage: str
    """`project`, `tool_permissions`, `read_only`, `internal`, `rules`."""

    passed: bool
    """Whether it lets the thing pass."""

    reason: str
    """One sentence: the rule, with its file and line or its row."""


class Resource(Protocol):
    """A tool as far as the decision looks at it."""

    @property
    def key(self) -> str:
        """`server:tool`."""
        ...

    @property
    def server(self) -> str:
        """Its server."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it says that it changes nothing."""
        ...

    @property
    def destructive(self) -> bool:
        """Whether it may destroy something; what does not say is taken for that."""
        ...

    @property
    def internal(self) -> bool:
        """Whether it is part of others; it takes the right `internal` then."""
        ...


class ResourceSnapshot(Protocol):
    """The tools at one moment."""

    @property
    def version(self) -> int:
        """Grows with each change."""
        ...

    @property
    def tools(self) -> tuple[Resource, ...]:
        """All of them, in their order."""
        ...

    def tool(self, key: str) -> Resource | None:
        """One by its key."""
        ...


class Access(Protocol):
    """Decides by caller. A decision for one thing and a mask over many always agree."""

    def decide(self, caller: Caller, action: str, key: str) -> AccessDecision:
        """May the caller do this here?

        Args:
            caller: Who asks.
            action: `list`, `call`: a tool; seeing and running it are one permission. `read`: a
                resource. `prompt`. `server`: see that it is there; `reach`: use anything of it.
                `right`.
            key: `server:name` of a tool or prompt, `server:uri` of a resource, a server, a right.
        """
        ...

    def reads_only(self, caller: Caller, thing: Resource) -> bool:
        """Whether a tool counts as read-only for a caller.

        Its server says so and is trusted, or the caller's project does (`read_only_allow`).
        """
        ...

    def mask(self, caller: Caller, things: ResourceSnapshot) -> Mask | None:
        """For each tool of a snapshot, whether the caller may see and run it; None: all."""
        ...

    def steps(self, caller: Caller, key: str) -> list[DecisionStep]:
        """Every stage of the decision about a tool, in order, for `explain`."""
        ...


class AllowAll:
    """Everybody who reached this gateway may do everything: for measuring and for tests."""

    def decide(self, caller: Caller, action: str, key: str) -> AccessDecision:
        """Yes."""
        del caller, action, key
        return AccessDecision(allowed=True, rule="allow-all")

    def reads_only(self, caller: Caller, thing: Resource) -> bool:
        """What it says of itself."""
        del caller
        return thing.read_only

    def mask(self, caller: Caller, things: ResourceSnapshot) -> Mask | None:
        """All of them."""
        del caller, things
        return None

    def steps(self, caller: Caller, key: str) -> list[DecisionStep]:
        """There are none."""
        del caller, key
        return []
