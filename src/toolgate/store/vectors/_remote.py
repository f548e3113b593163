"""What external vector databases share: a client, used in threads, and exact comparison.

Their clients block, and those of a local file may not be used by two threads at once. Candidates
come with their vectors and are compared here, so that scores are those of every other store.
"""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from anyio import to_thread
from numpy.typing import NDArray

from toolgate.errors import StoreError, ToolgateError
from toolgate.store.vectors._rows import TopMatches, checked, unit
from toolgate.store.vectors.base import (
    KEY_BYTES,
    ReceiveRows,
    Rows,
    VectorCollection,
    VectorMatch,
)

__all__ = ["RemoteVectors", "is_numbered", "portions"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_KEYS_AT_ONCE = 10_000
"""Keys of one request; chosen."""


class RemoteVectors:
    """What a module completes with the requests of its client, each in a thread."""

    notice = ""

    def __init__(self, name: str, prefix: str, connect: Callable[[], Any], *, alone: bool) -> None:
        """Make one.

        Args:
            name: The file name of the implementation, for messages.
            prefix: Before the ids of collections.
            connect: Makes the client; blocks.
            alone: Whether one thread at a time may use it.
        """
        self._name = name
        self._prefix = prefix
        self._connect = connect
        self._client: Any = None
        self._connecting = Lock()
        self._using: AbstractContextManager[object] = Lock() if alone else nullcontext()
        self._existing: set[str] = set()
        """Collections that exist."""

    async def put(
        self,
        collection: VectorCollection,
        keys: Sequence[bytes],
        rows: Rows,
        *,
        groups: Sequence[str] | None = None,
    ) -> int:
        """Store vectors."""
        checked(collection, rows, len(keys))
        if any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"Keys that are not {KEY_BYTES} bytes long.")
        # Of length 1, a product is a cosine. `half` rows are that already, and come back as put.
        is_cosine = collection.metric == "cosine" and collection.precision == "single"
        stored = unit(rows) if is_cosine else rows.astype(np.float32)

        def work(client: Any) -> None:
            if not self._exists(client, collection):
                self.create(client, collection)
                self._existing.add(collection.collection_id)
            self.upsert(client, collection, keys, stored, groups or [""] * len(keys))

        if keys:
            await self._in_thread(work)
        return len(keys)

    async def load(
        self, collection: VectorCollection, keys: Sequence[bytes], receive: ReceiveRows
    ) -> None:
        """Hand over the vectors of these keys, as far as they exist."""
        row_type = np.float16 if collection.precision == "half" else np.float32

        def work(client: Any) -> None:
            for at in range(0, len(keys), _KEYS_AT_ONCE):
                part = keys[at : at + _KEYS_AT_ONCE]
                position_of = {key: at + position for position, key in enumerate(part)}
                read, rows = self.fetch(client, collection, part)
                if read:
                    positions = np.array([position_of[key] for key in read], np.int64)
                    receive(positions, rows.astype(row_type))

        await self._in_existing(collection, work)

    async def contains(
        self, collection: VectorCollection, keys: Sequence[bytes]
    ) -> NDArray[np.bool_]:
        """Which of these keys have a vector; does not look at the vectors themselves."""
        existing = np.zeros(len(keys), np.bool_)

        def work(client: Any) -> None:
            for at in range(0, len(keys), _KEYS_AT_ONCE):
                part = keys[at : at + _KEYS_AT_ONCE]
                position_of = {key: at + position for position, key in enumerate(part)}
                for key in self.existing_keys(client, collection, part):
                    existing[position_of[key]] = True

        await self._in_existing(collection, work)
        return existing

    async def nearest(
        self,
        collection: VectorCollection,
        query: NDArray[np.float32],
        *,
        limit: int,
        keys: Sequence[bytes] | None = None,
        groups: Collection[str] | None = None,
    ) -> list[VectorMatch]:
        """The nearest vectors, best first."""
        best = TopMatches(collection, query, limit)
        [searched] = unit(query[np.newaxis]) if collection.metric == "cosine" else [query]
        parts = [None] if keys is None else list(portions(keys, _KEYS_AT_ONCE))

        def work(client: Any) -> None:
            for part in parts:
                best.consider(*self.search(client, collection, searched, limit, part, groups))

        if groups is None or groups:
            await self._in_existing(collection, work)
        return best.matches()

    async def keys(self, collection: VectorCollection) -> AsyncIterator[list[bytes]]:
        """All keys, some thousands at a time."""
        pages: list[list[bytes]] = []
        await self._in_existing(
            collection, lambda client: pages.extend(self.key_pages(client, collection))
        )
        for page in pages:
            yield page

    async def remove(
        self,
        collection: VectorCollection,
        *,
        keys: Collection[bytes] = (),
        groups: Collection[str] = (),
    ) -> None:
        """Remove the vectors of these keys and of these groups."""

        def work(client: Any) -> None:
            for part in portions(list(keys), _KEYS_AT_ONCE):
                self.delete(client, collection, part, None)
            for names in portions(list(groups), _KEYS_AT_ONCE):
                self.delete(client, collection, None, names)

        await self._in_existing(collection, work)

    async def drop(self, collection: VectorCollection) -> None:
        """Remove a collection."""

        def work(client: Any) -> None:
            self.delete_collection(client, collection)
            self._existing.discard(collection.collection_id)

        await self._in_existing(collection, work)

    async def count(self, collection: VectorCollection) -> int:
        """How many vectors a collection has."""
        count = await self._in_existing(collection, lambda client: self.size(client, collection))
        return count or 0

    async def optimize(self, collection: VectorCollection) -> None:
        """Prepare for `nearest` after many were put, such as building an index; may be slow."""

    async def aclose(self) -> None:
        """Close what is open; it may be used again afterwards."""
        await to_thread.run_sync(self._disconnect)

    # For the databases. `rows` are float32; a group is empty where there is none.

    def name_of(self, collection: VectorCollection) -> str:
        """What a collection is called there."""
        return f"{self._prefix}{collection.collection_id}"

    def is_existing(self, client: Any, collection: VectorCollection) -> bool:
        """Whether a collection exists; it can be searched then."""
        raise NotImplementedError

    def create(self, client: Any, collection: VectorCollection) -> None:
        """Make a collection."""
        raise NotImplementedError

    def upsert(
        self,
        client: Any,
        collection: VectorCollection,
        keys: Sequence[bytes],
        rows: Rows,
        groups: Sequence[str],
    ) -> None:
        """Write vectors over what is there."""
        raise NotImplementedError

    def fetch(
        self, client: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> tuple[list[bytes], Rows]:
        """Keys and vectors, of those that exist."""
        raise NotImplementedError

    def existing_keys(
        self, client: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> list[bytes]:
        """Those of these keys that exist."""
        raise NotImplementedError

    def search(
        self,
        client: Any,
        collection: VectorCollection,
        query: NDArray[np.float32],
        limit: int,
        keys: Sequence[bytes] | None,
        groups: Collection[str] | None,
    ) -> tuple[list[bytes], Rows]:
        """Keys and vectors of the nearest."""
        raise NotImplementedError

    def key_pages(self, client: Any, collection: VectorCollection) -> Iterator[list[bytes]]:
        """All keys, a page at a time."""
        raise NotImplementedError

    def delete(
        self,
        client: Any,
        collection: VectorCollection,
        keys: Sequence[bytes] | None,
        groups: Sequence[str] | None,
    ) -> None:
        """Remove the vectors of these keys, or of these groups."""
        raise NotImplementedError

    def delete_collection(self, client: Any, collection: VectorCollection) -> None:
        """Remove a collection."""
        raise NotImplementedError

    def size(self, client: Any, collection: VectorCollection) -> int:
        """How many vectors a collection has."""
        raise NotImplementedError

    # Helpers

    async def _in_existing(
        self, collection: VectorCollection, work: Callable[[Any], T]
    ) -> T | None:
        """Do something with the client, if the collection exists."""
        return await self._in_thread(
            lambda client: work(client) if self._exists(client, collection) else None
        )

    async def _in_thread(self, work: Callable[[Any], T]) -> T:
        """Do something with the client. Cancelling does not wait for it.

        Raises:
            StoreError: The database does not answer, or refuses.
        """

        def run() -> T:
            try:
                with self._using:
                    return work(self._connected())
            except (ToolgateError, ValueError):
                raise
            except Exception as error:
                self._disconnect()
                reason = " ".join(str(error).split())[:300] or type(error).__name__
                raise StoreError(
                    f"The vectors in {self._name} cannot be reached: {reason}.",
                    hint=f"Check documents.place_options.{self._name} or search.vector_options, "
                    "and at the service.",
                ) from error

        return await to_thread.run_sync(run, abandon_on_cancel=True)

    def _exists(self, client: Any, collection: VectorCollection) -> bool:
        if collection.collection_id not in self._existing:
            if not self.is_existing(client, collection):
                return False
            self._existing.add(collection.collection_id)
        return True

    def _connected(self) -> Any:
        with self._connecting:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        self._existing.clear()
        if client is None:
            return
        try:
            client.close()
        except Exception:
            log.debug("client not closed", extra={"store": self._name}, exc_info=True)


def is_numbered(key: bytes) -> bool:
    """Whether a key is a number below 2**63, as those of passages are."""
    return not any(key[: KEY_BYTES // 2]) and key[KEY_BYTES // 2] < 0x80


def portions(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Values, some at a time."""
    for at in range(0, len(values), size):
        yield values[at : at + size]
