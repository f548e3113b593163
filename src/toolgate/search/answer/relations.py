"""Relations between the tools of a catalog: near-duplicates and groups.

They are computed in the background: a search never waits for them. While they are computed, and
after a failure, the previous relations apply.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, thread_time
from typing import Protocol, runtime_checkable

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.search.answer.capability_groups import Groups, grouped
from toolgate.search.base import SearchableTool
from toolgate.search.semantic.near_duplicates import find_near_duplicates

log = logging.getLogger(__name__)

_SHORT_S = 0.5
"""Processor seconds up to which relations are recomputed at each change; chosen."""
_REST = 20.0
"""Length of the pause after a computation, as a multiple of its time: at most 5 % of one core;
chosen."""
_MOST = 50_000
"""Most tools of a catalog for which groups and near-duplicates are computed; larger catalogs
have only named groups; chosen."""


@runtime_checkable
class _HasVectors(Protocol):
    @property
    def backlog(self) -> int: ...

    def vectors(self) -> NDArray[np.float32] | None: ...


class Relations:
    """Keeps near-duplicates and groups up to date with an index. Belongs to one event loop."""

    def __init__(self, named: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        self._named = named
        self._computed_for: tuple[object, ...] = ()
        self._task: asyncio.Task[None] | None = None
        self._strategy: object = None
        self._keeper: _HasVectors | None = None
        self._rests_until = 0.0
        self.alternatives: Mapping[str, tuple[str, ...]] = {}
        """Keys of near-duplicates on other servers, by key."""
        self.groups = Groups()
        """The capability groups."""

    def refresh(self, version: int, tools: Sequence[SearchableTool], strategy: object) -> None:
        """Recompute in the background if the catalog, its vectors or the named groups changed.

        A large catalog is not recomputed at every change: see `_REST`.
        """
        if strategy is not self._strategy:
            self._strategy, self._keeper = strategy, _keeper_of(strategy)
        keeper = self._keeper
        # While vectors are being computed, one run without and one with all of them is enough.
        whole = keeper is not None and not keeper.backlog
        named = self._named()
        inputs = version, whole, tuple(sorted((k, tuple(v)) for k, v in named.items()))
        if inputs == self._computed_for or (self._task is not None and not self._task.done()):
            return
        # Somebody has just edited the named groups, so their change does not wait.
        if (
            self._computed_for
            and inputs[2] == self._computed_for[2]
            and monotonic() < self._rests_until
        ):
            return
        self._computed_for = inputs
        rows = keeper.vectors() if keeper and whole and len(tools) <= _MOST else None
        # The strategy may have another version of the catalog, with vectors of other tools.
        if rows is not None and len(rows) != len(tools):
            rows = None
        self._task = asyncio.create_task(self._compute(tools, rows, dict(named)))

    async def wait_until_computed(self, timeout_s: float = 5.0) -> None:
        """Wait for the running computation, up to `timeout_s` seconds."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout_s)

    async def aclose(self) -> None:
        """Stop the running computation."""
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
    """Return the strategy with the vectors: this one or one that it wraps; None without vectors."""
    while not isinstance(strategy, _HasVectors) and hasattr(strategy, "inner"):
        strategy = getattr(strategy, "inner", None)
    return strategy if isinstance(strategy, _HasVectors) else None


def _computed(
    tools: Sequence[SearchableTool],
    rows: NDArray[np.float32] | None,
    named: Mapping[str, Sequence[str]],
) -> tuple[Groups, Mapping[str, tuple[str, ...]], float]:
    """Return groups, near-duplicates and the processor seconds spent on them."""
    # Processor time, not wall-clock time: on a busy machine the pause would grow with the load.
    began, few = thread_time(), len(tools) <= _MOST
    groups = grouped(tools, rows, named, derive=few)
    alternatives: Mapping[str, tuple[str, ...]] = find_near_duplicates(tools, rows) if few else {}
    return groups, alternatives, thread_time() - began
