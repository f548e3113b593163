"""How tools of a catalog belong together: near-equal ones, and groups. Computed in the background.

A search never waits for it. While it is computed, and when it fails, the last known state holds.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, thread_time
from typing import Protocol, runtime_checkable

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.search.answer.groups import Groups, grouped
from toolgate.search.base import SearchableTool
from toolgate.search.semantic.near_duplicates import find_near_duplicates

__all__ = ["Relations"]

log = logging.getLogger(__name__)

_SHORT_S = 0.5
"""Processor seconds that are worth nothing: what takes no longer is computed at each change;
chosen."""
_REST = 20.0
"""How many times as long as it took nothing is computed anew: 5 % of one core at most; chosen."""
_MOST = 50_000
"""Tools of a catalog beyond which neither is worth its seconds; named groups always work;
chosen."""


@runtime_checkable
class _HasVectors(Protocol):
    @property
    def backlog(self) -> int: ...

    def vectors(self) -> NDArray[np.float32] | None: ...


class Relations:
    """Keeps near-equal tools and groups up to date with an index. Belongs to one event loop."""

    def __init__(self, named: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        self._named = named
        self._computed_for: tuple[object, ...] = ()
        self._task: asyncio.Task[None] | None = None
        self._strategy: object = None
        self._keeper: _HasVectors | None = None
        self._rests_until = 0.0
        self.alternatives: Mapping[str, tuple[str, ...]] = {}
        """Keys of near-equal tools of other servers, by key."""
        self.groups = Groups()
        """The capability groups."""

    def refresh(self, version: int, tools: Sequence[SearchableTool], strategy: object) -> None:
        """Compute anew in the background when the catalog, its vectors or the names changed.

        In a large catalog that changes often not each time: `_REST`.
        """
        if strategy is not self._strategy:
            self._strategy, self._keeper = strategy, _keeper_of(strategy)
        keeper = self._keeper
        # While vectors are being computed, once with none and once with all of them is enough.
        whole = keeper is not None and not keeper.backlog
        named = self._named()
        inputs = version, whole, tuple(sorted((k, tuple(v)) for k, v in named.items()))
        if inputs == self._computed_for or (self._task is not None and not self._task.done()):
            return
        # Named groups are what a person has just written, so a change of them does not wait.
        if (
            self._computed_for
            and inputs[2] == self._computed_for[2]
            and monotonic() < self._rests_until
        ):
            return
        self._computed_for = inputs
        rows = keeper.vectors() if keeper and whole and len(tools) <= _MOST else None
        # The strategy may be on another version of the catalog: these rows are of other tools then.
        if rows is not None and len(rows) != len(tools):
            rows = None
        self._task = asyncio.create_task(self._compute(tools, rows, dict(named)))

    async def wait_until_computed(self, timeout_s: float = 5.0) -> None:
        """Wait for what is being computed, for a while."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout_s)

    async def aclose(self) -> None:
        """Stop computing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _compute(
        self,
        tools: Sequence[SearchableTool],
        rows: NDArray[np.float32] | None,
        named: Mapping[str, Sequence[str]],
    ) -> None:
        try:
            self.groups, self.alternatives, spent_s = await anyio.to_thread.run_sync(
                _computed, tools, rows, named
            )
        except Exception:  # a search goes on without it
            log.exception("relations of tools not computed")
            return
        self._rests_until = monotonic() + (_REST * spent_s if spent_s > _SHORT_S else 0.0)


def _keeper_of(strategy: object) -> _HasVectors | None:
    """Whose vectors a strategy searches by: its own, or those of one that it asks."""
    while not isinstance(strategy, _HasVectors) and hasattr(strategy, "inner"):
        strategy = getattr(strategy, "inner", None)
    return strategy if isinstance(strategy, _HasVectors) else None


def _computed(
    tools: Sequence[SearchableTool],
    rows: NDArray[np.float32] | None,
    named: Mapping[str, Sequence[str]],
) -> tuple[Groups, Mapping[str, tuple[str, ...]], float]:
    """Groups, near-equal tools, and the processor seconds that they took."""
    # Processor time, not the clock: on a busy machine the pause would grow with the load.
    began, few = thread_time(), len(tools) <= _MOST
    groups = grouped(tools, rows, named, derive=few)
    alternatives: Mapping[str, tuple[str, ...]] = find_near_duplicates(tools, rows) if few else {}
    return groups, alternatives, thread_time() - began
