"""Base of external vector databases: a client used in threads, and exact comparison.

Their clients block, and those of a local file may not be used by two threads at once. Candidates
are returned with their vectors and compared here, so that scores equal those of other stores.
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

log = logging.getLogger(__name__)

T = TypeVar("T")

_KEYS_AT_ONCE = 10_000
"""Keys in a request (chosen)."""


class RemoteVectors:
    """Base class; subclasses add the requests of their client, each of which runs in a thread."""

    notice = ""

    def __init__(self, name: str, prefix: str, connect: Callable[[], Any], *, alone: bool) -> None:
        """Create the store; `connect` is called on first use.

        Args:
            name: The file name of the implementation, for messages.
            prefix: Prefix of collection ids.
            connect: Creates the client; blocks.
            alone: Whether only one thread at a time may use it.
        """
        self._name = name
        self._prefix = prefix
        self._connect = connect
        self._client: Any = None
        self._connecting = Lock()
        self._using: AbstractContextManager[object] = Lock() if alone else nullcontext()
        self._existing: set[str] = set()
        """Collections known to exist."""

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
        # With length 1, a dot product is a cosine. `half` rows have it already, and stay unchanged.
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
        """Pass the existing vectors of these keys to `receive`."""
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
        """Return which of these keys have a vector, without reading the vectors."""
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
        """Return the nearest vectors, best first."""
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
        """Yield all keys, some thousands at a time."""
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
        """Delete the vectors of these keys and groups."""

        def work(client: Any) -> None:
            for part in portions(list(keys), _KEYS_AT_ONCE):
                self.delete(client, collection, part, None)
            for names in portions(list(groups), _KEYS_AT_ONCE):
                self.delete(client, collection, None, names)

        await self._in_existing(collection, work)

    async def drop(self, collection: VectorCollection) -> None:
        """Delete a collection."""

        def work(client: Any) -> None:
            self.delete_collection(client, collection)
            self._existing.discard(collection.collection_id)

        await self._in_existing(collection, work)

    async def count(self, collection: VectorCollection) -> int:
        """Return the number of vectors in a collection."""
        count = await self._in_existing(collection, lambda client: self.size(client, collection))
        return count or 0

    async def optimize(self, collection: VectorCollection) -> None:
        """Prepare for `nearest` after many inserts, such as by building an index; may be slow."""

    async def aclose(self) -> None:
        """Close open resources; the store may be used again afterwards."""
        await to_thread.run_sync(self._disconnect)

    # For subclasses. `rows` are float32; a group is empty if there is none.

    def name_of(self, collection: VectorCollection) -> str:
        """Return the name of a collection in the database."""
        return f"{self._prefix}{collection.collection_id}"

    def is_existing(self, client: Any, collection: VectorCollection) -> bool:
        """Whether a collection exists; if so, it can be searched afterwards."""
        raise NotImplementedError

    def create(self, client: Any, collection: VectorCollection) -> None:
        """Create a collection."""
        raise NotImplementedError

    def upsert(
        self,
        client: Any,
        collection: VectorCollection,
        keys: Sequence[bytes],
        rows: Rows,
        groups: Sequence[str],
    ) -> None:
        """Insert or replace vectors."""
        raise NotImplementedError

    def fetch(
        self, client: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> tuple[list[bytes], Rows]:
        """Return the keys that exist, with their vectors."""
        raise NotImplementedError

    def existing_keys(
        self, client: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> list[bytes]:
        """Return the keys that exist."""
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
        """Return keys and vectors of the nearest vectors."""
        raise NotImplementedError

    def key_pages(self, client: Any, collection: VectorCollection) -> Iterator[list[bytes]]:
        """Yield all keys, a page at a time."""
        raise NotImplementedError

    def delete(
        self,
        client: Any,
        collection: VectorCollection,
        keys: Sequence[bytes] | None,
        groups: Sequence[str] | None,
    ) -> None:
        """Delete the vectors of these keys, or of these groups."""
        raise NotImplementedError

    def delete_collection(self, client: Any, collection: VectorCollection) -> None:
        """Delete a collection."""
        raise NotImplementedError

    def size(self, client: Any, collection: VectorCollection) -> int:
        """Return the number of vectors in a collection."""
        raise NotImplementedError

    # Helpers

    async def _in_existing(
        self, collection: VectorCollection, work: Callable[[Any], T]
    ) -> T | None:
        """Call a function with the client, if the collection exists."""
        return await self._in_thread(
            lambda client: work(client) if self._exists(client, collection) else None
        )

    async def _in_thread(self, work: Callable[[Any], T]) -> T:
        """Call a function with the client. Cancelling does not wait for it.

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
    """Whether a key is a number below 2**63, like those of passages."""
    return not any(key[: KEY_BYTES // 2]) and key[KEY_BYTES // 2] < 0x80


def portions(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield slices of at most `size` values."""
    for at in range(0, len(values), size):
        yield values[at : at + size]
