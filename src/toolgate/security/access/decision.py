"""The interface of access decisions."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from toolgate.types import Caller

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
"""For each tool of a snapshot, whether the caller may see and run it. Must not be changed."""


@dataclass(frozen=True, kw_only=True)
class AccessDecision:
    """Result of `Access.decide`."""

    allowed: bool
    """Whether the caller is allowed."""

    rule: str
    """The rule that decided, for the audit log and for `explain`."""


@dataclass(frozen=True, kw_only=True)
class DecisionStep:
    """One stage of a decision, for `explain`."""

    stage: str
    """`project`, `tool_permissions`, `read_only`, `internal`, `rules`."""

    passed: bool
    """Whether this stage allows it."""

    reason: str
    """One sentence: the rule, with its file and line or its id in the store."""


class Resource(Protocol):
    """What a decision needs to know about a tool."""

    @property
    def key(self) -> str:
        """`server:tool`."""
        ...

    @property
    def server(self) -> str:
        """Name of its server."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether the tool is marked as read-only."""
        ...

    @property
    def destructive(self) -> bool:
        """Whether the tool may be destructive; true unless it is marked otherwise."""
        ...

    @property
    def internal(self) -> bool:
        """Whether the tool is a part of others, which requires the right `internal`."""
        ...


class ResourceSnapshot(Protocol):
    """The tools at one point in time."""

    @property
    def version(self) -> int:
        """Increases with each change."""
        ...

    @property
    def tools(self) -> tuple[Resource, ...]:
        """All tools, in order."""
        ...

    def tool(self, key: str) -> Resource | None:
        """Return a tool by its key; None if it does not exist."""
        ...


class Access(Protocol):
    """Decides for callers. A decision about one tool and the mask for all tools always agree."""

    def decide(self, caller: Caller, action: str, key: str) -> AccessDecision:
        """Decide whether a caller may do something.

        Args:
            caller: The caller.
            action: `list`, `call`: a tool; seeing and running it are one permission. `read`: a
                resource. `prompt`. `server`: see that it exists; `reach`: use anything of it.
                `right`.
            key: `server:name` of a tool or prompt, `server:uri` of a resource, a server, a
                right.
        """
        ...

    def reads_only(self, caller: Caller, thing: Resource) -> bool:
        """Whether a tool counts as read-only for a caller.

        That is if its server marks it so and is trusted, or if the caller's project does
        (`read_only_allow`).
        """
        ...

    def mask(self, caller: Caller, things: ResourceSnapshot) -> Mask | None:
        """Return for each tool whether the caller may see and run it; None for all."""
        ...

    def steps(self, caller: Caller, key: str) -> list[DecisionStep]:
        """Return every stage of the decision about a tool, in order, for `explain`."""
        ...


class AllowAll:
    """Allows everything to every caller: for measurements and tests."""

    def decide(self, caller: Caller, action: str, key: str) -> AccessDecision:
        """Allow it."""
        del caller, action, key
        return AccessDecision(allowed=True, rule="allow-all")

    def reads_only(self, caller: Caller, thing: Resource) -> bool:
        """Whether the tool is marked as read-only."""
        del caller
        return thing.read_only

    def mask(self, caller: Caller, things: ResourceSnapshot) -> Mask | None:
        """Allow all tools."""
        del caller, things
        return None

    def steps(self, caller: Caller, key: str) -> list[DecisionStep]:
        """Return no stages."""
        del caller, key
        return []
