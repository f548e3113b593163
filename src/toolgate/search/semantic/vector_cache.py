"""Stores the vectors of tools; if the store fails, the search continues from memory."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TypeVar

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.base.ids import utc_now
from toolgate.base.tracing import observe
from toolgate.errors import StoreError
from toolgate.search.semantic.database_search import DatabaseSearch
from toolgate.search.semantic.first_stage import HybridState
from toolgate.search.semantic.metrics import SearchMetrics
from toolgate.search.semantic.tool_vector_store import (
    ToolVectorStore,
    VectorCounts,
    VectorSpace,
)
from toolgate.search.semantic.tool_vectors import ToolVectors, split_hashes, texts_of
from toolgate.store import TextLink
from toolgate.types import DEFAULT_PROJECT

log = logging.getLogger(__name__)

T = TypeVar("T")

_FLUSH_ROWS = 2_048
"""Number of vectors written at a time; chosen."""
_FLUSH_S = 1.0
"""Most seconds that a vector waits to be written; chosen."""
_REST_S = 30.0
"""Seconds for which a failed store is not used; chosen."""
_LOAD_S = 60.0
"""Timeout in seconds for loading from a store; then vectors are computed; chosen."""
_YOUNG_S = 3_600.0
"""Seconds for which a tool without a listing is kept: its server may be about to be listed;
chosen."""


class VectorCache:
    """Reads and writes the vectors of an index; a failure is logged once and stops nothing."""

    def __init__(
        self,
        vectors: ToolVectorStore | None,
        metrics: SearchMetrics,
        *,
        project_id: str = DEFAULT_PROJECT,
    ) -> None:
        self._vectors = vectors
        self._metrics = metrics
        self._project_id = project_id
        self._space: VectorSpace | None = None
        self._unsaved: dict[bytes, NDArray[np.float16]] = {}
        self._flushed_at = monotonic()
        self._resting_until = 0.0
        self._is_failing = False
        self._linked: dict[str, dict[str, bytes]] | None = None
        self._forgotten: set[str] = set()
        self._elsewhere: DatabaseSearch | None = None
        self._noted: _SavedLinks | None = None

    @property
    def is_there(self) -> bool:
        """Whether there is a store, so that vectors outlive the process."""
        return self._vectors is not None

    @property
    def is_failing(self) -> bool:
        """Whether the latest attempt failed."""
        return self._is_failing

    @property
    def notice(self) -> str:
        """A message about the store for people; may be empty."""
        return "" if self._vectors is None else self._vectors.notice

    @property
    def unsaved(self) -> int:
        """Number of vectors that are only in memory."""
        return len(self._unsaved)

    def use(self, space: VectorSpace) -> None:
        """Switch to the vectors of this space."""
        if space != self._space:
            self._space = space
            self._unsaved.clear()
            self._noted = None
            self._elsewhere = DatabaseSearch(self._vectors, space) if self._vectors else None

    # ------------------------------------------------------------------ vectors

    async def load(self, vectors: ToolVectors, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Fill rows that are in the store; return those that are still empty."""
        store, space = self._vectors, self._space
        if store is None or space is None or not len(rows):
            return rows
        hashes = split_hashes(vectors.digests[rows])
        if not vectors.rows.shape[1]:
            with observe("vectors_known", texts=len(hashes)):
                is_stored = await self._tried(lambda: _within(_LOAD_S, store.known(space, hashes)))
            if is_stored is not None:
                vectors.there[rows[is_stored]] = True
            return rows[~vectors.there[rows]]

        def put(slots: NDArray[np.int64], vectors_read: NDArray[np.float16]) -> None:
            at = rows[slots]
            vectors.rows[at] = vectors_read
            vectors.there[at] = True

        with observe("vectors_load", texts=len(hashes)):
            await self._tried(lambda: _within(_LOAD_S, store.load(space, hashes, put)))
        left = rows[~vectors.there[rows]]
        self._metrics.loaded += len(rows) - len(left)
        return left

    async def near(
        self,
        state: HybridState,
        vectors: Mapping[str, NDArray[np.float32]],
        allowed: NDArray[np.bool_] | None,
        *,
        timeout_s: float,
    ) -> HybridState | None:
        """Return the state with a request's cosines from the store; None if that failed."""
        if self._elsewhere is None:
            return None
        try:
            with observe("vectors_near", texts=len(vectors)):
                return await _within(timeout_s, self._elsewhere.near(state, vectors, allowed))
        except (StoreError, TimeoutError) as error:
            reason = str(error) or f"no answer within {timeout_s:g} s"
            self._metrics.failed(f"Vectors cannot be searched: {reason}", utc_now())
            log.warning("vectors were not searched", extra={"error": reason})
            return None

    def add(self, hashes: Sequence[bytes], rows: NDArray[np.float16]) -> None:
        """Queue vectors to be stored."""
        if self._vectors is not None:
            self._unsaved.update(zip(hashes, rows, strict=True))

    @property
    def is_due(self) -> bool:
        """Whether enough vectors wait to be written, or have waited long enough."""
        if not self._unsaved or monotonic() < self._resting_until:
            return False
        waited_s = monotonic() - self._flushed_at
        return len(self._unsaved) >= _FLUSH_ROWS or waited_s >= _FLUSH_S

    async def flush(self) -> bool:
        """Write queued vectors; False if impossible: `settle` then finds them in memory again."""
        store, space = self._vectors, self._space
        if store is None or space is None or monotonic() < self._resting_until:
            return False
        while self._unsaved:
            hashes = list(self._unsaved)[:_FLUSH_ROWS]
            rows = np.array([self._unsaved[text] for text in hashes], np.float16)
            with observe("vectors_save", texts=len(hashes)):
                count = await self._tried(lambda: store.save(space, hashes, rows))  # noqa: B023
            if count is None:
                # Nothing is lost: `settle` reads the links again and finds these rows in memory.
                self._unsaved.clear()
                self._linked = None
                return False
            self._metrics.stored += count
            # With a default: `use` may have cleared the dictionary during the write.
            for text in hashes:
                self._unsaved.pop(text, None)
        self._flushed_at = monotonic()
        return True

    # ------------------------------------------------------------------ tools

    async def settle(self, vectors: ToolVectors, slots: NDArray[np.int32] | None) -> bool:
        """Store the text of each tool, and let the store prepare for searches.

        Args:
            vectors: Vectors of the tools.
            slots: Slots that have a tool; None if all have one.

        Returns:
            Whether that is done; False if the store fails and it should be retried.
        """
        store, space = self._vectors, self._space
        if store is None or space is None:
            return True
        if monotonic() < self._resting_until:
            return False
        await self.flush()
        if self._is_failing and monotonic() < self._resting_until:
            return False
        if self._linked is None:
            self._noted = None
            self._linked = await self._tried(lambda: store.links(self._project_id))
        if self._linked is None:
            return False
        noted = await anyio.to_thread.run_sync(_noted, self._noted, vectors, slots)
        # A forgotten server that was removed is new when it returns.
        self._forgotten &= noted.owned.keys()
        changed = await anyio.to_thread.run_sync(_changed, self._linked, noted)
        for server in changed:
            if server not in self._forgotten:
                slots_of_server = noted.owned[server]
                if not await self._link(store, space, server, vectors, slots_of_server):
                    return False
        # Only a completely linked state may be the base of the next comparison.
        if not self._forgotten:
            self._noted = replace(noted, fresh=None)
        with observe("vectors_settle"):
            await self._tried(lambda: store.settle(space))
        return not self._is_failing

    async def _link(
        self,
        store: ToolVectorStore,
        space: VectorSpace,
        server: str,
        vectors: ToolVectors,
        slots: list[int],
    ) -> bool:
        """Store the tools of a server, and those of their vectors that are only in memory."""
        links = await anyio.to_thread.run_sync(_links, vectors, slots)
        row_of = {
            link.text_hash: int(vectors.of_tool[at]) for link, at in zip(links, slots, strict=True)
        }
        hashes = [text for text, row in row_of.items() if vectors.there[row]]
        hashes = hashes if vectors.rows.shape[1] else []
        is_stored = await self._tried(lambda: store.known(space, hashes))
        if is_stored is None:
            return False
        for text, is_known in zip(hashes, is_stored.tolist(), strict=True):
            if not is_known:
                self._unsaved[text] = vectors.rows[row_of[text]].astype(np.float16)
        await self.flush()
        if self._is_failing:
            return False
        if await self._tried(lambda: store.link(self._project_id, server, links)) is None:
            return False
        if self._linked is not None:
            self._linked[server] = {link.tool: link.text_hash for link in links}
        return True

    async def prune(self) -> int:
        """Delete vectors that no tool has any more; return how many."""
        store, space = self._vectors, self._space
        if store is None:
            return 0
        before = utc_now(plus_s=-_YOUNG_S)
        return await self._tried(lambda: store.prune(space, before=before)) or 0

    async def forget(self, server: str) -> int:
        """Delete what is stored of a server, and store nothing of it until `remember`.

        Returns:
            Number of its tools that were stored.

        Raises:
            StoreError: The store failed.
        """
        if self._vectors is None:
            return 0
        self._forgotten.add(server)
        self._noted = None
        if self._linked is not None:
            self._linked.pop(server, None)
        return await self._vectors.unlink(self._project_id, server)

    def remember(self, servers: Collection[str] | None) -> None:
        """Store these servers again; None for all."""
        self._noted = None
        self._forgotten.difference_update(self._forgotten if servers is None else servers)

    async def counts(self) -> VectorCounts | None:
        """Return the numbers of stored vectors, tools and servers; None if unavailable."""
        store, space = self._vectors, self._space
        if store is None or space is None:
            return None
        try:
            return await store.counts(space, self._project_id)
        except StoreError:
            return None

    async def _tried(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Run `work` and return its result; None if it failed."""
        try:
            result = await work()
        except Exception as error:  # noqa: BLE001 - a store of anybody; memory goes on
            reason = error.failed if isinstance(error, StoreError) else repr(error)
            self._metrics.failed(f"Vectors cannot be stored: {reason}", utc_now())
            self._resting_until = monotonic() + _REST_S
            if not self._is_failing:
                log.warning("vectors are not stored", extra={"error": reason})
            self._is_failing = True
            return None
        if self._is_failing:
            log.info("vectors are stored again")
        self._is_failing = False
        return result


async def _within(limit_s: float, work: Awaitable[T]) -> T:
    with anyio.fail_after(limit_s):
        return await work


@dataclass(frozen=True)
class _SavedLinks:
    """The tools of each server, as last linked in the store."""

    vectors: ToolVectors
    live: NDArray[np.bool_]
    """Which slots have a tool."""
    owned: dict[str, list[int]]
    """Slots of each server's tools."""
    fresh: frozenset[str] | None = None
    """Servers that may differ from the stored links; None for all."""


def _noted(
    last: _SavedLinks | None, vectors: ToolVectors, slots: NDArray[np.int32] | None
) -> _SavedLinks:
    """Return the tools of each server; only changes since `last` are read."""
    size, tools = len(vectors.of_tool), vectors.tools
    live = np.full(size, slots is None)
    if slots is not None:
        live[slots] = True
    owned: dict[str, list[int]] = {}
    fresh: set[str] | None = None
    if last is not None and last.vectors.tools is tools and len(last.live) <= size:
        before = len(last.live)
        gone = np.flatnonzero(last.live & ~live[:before]).tolist()
        added = (before + np.flatnonzero(live[before:])).tolist()
        # A reused slot cannot be compared with the previous state: then everything is read.
        if not np.any(live[:before] & ~last.live):
            fresh = {tools[slot].server for slot in (*gone, *added)}
            owned = dict(last.owned)
            for server in fresh:
                owned[server] = [slot for slot in owned.get(server, ()) if live[slot]]
            for slot in added:
                owned[tools[slot].server].append(slot)
            for server in [server for server in fresh if not owned[server]]:
                del owned[server]
    if fresh is None:
        owned = {}
        for slot in np.flatnonzero(live).tolist():
            owned.setdefault(tools[slot].server, []).append(slot)
    return _SavedLinks(vectors, live, owned, None if fresh is None else frozenset(fresh))


def _changed(linked: Mapping[str, Mapping[str, bytes]], noted: _SavedLinks) -> list[str]:
    """Return the servers whose tools have other texts than the linked ones."""
    tools, of_tool, digests = noted.vectors.tools, noted.vectors.of_tool, noted.vectors.digests
    servers = noted.owned if noted.fresh is None else noted.fresh & noted.owned.keys()
    return [
        server
        for server in servers
        if linked.get(server)
        != {tools[at].name: digests[of_tool[at]].tobytes() for at in noted.owned[server]}
    ]


def _links(vectors: ToolVectors, slots: Sequence[int]) -> list[TextLink]:
    links: list[TextLink] = []
    for slot in slots:
        tool = vectors.tools[slot]
        links.append(
            TextLink(
                tool=tool.name,
                text_hash=vectors.digests[vectors.of_tool[slot]].tobytes(),
                description=tool.description,
                enriched=texts_of(tool)[1],
                definition_hash=tool.digest,
            )
        )
    return links
