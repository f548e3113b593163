"""Vectors in Qdrant: a server, a cluster or a local folder.

A folder is read by the client itself, which is a different program than the server: exact, for
up to some ten thousand vectors and a single process.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from toolgate.store.vectors._remote import RemoteVectors, is_numbered, portions
from toolgate.store.vectors.base import KEY_BYTES, Rows, VectorCollection, VectorStore

_AT_ONCE = 500
"""Vectors in a request (chosen)."""
_PAGE = 10_000
"""Keys in a request (chosen)."""
_GROUP = "document"
"""Field name of the group."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Connection to Qdrant."""

    url: str = ""
    """`http://HOST:6333` of a server; empty: a local folder."""

    api_key: str = field(default="", repr=False)
    """API key, if the server needs one; write it as `${env:NAME}`."""

    path: str = ""
    """A local folder; empty: `documents-qdrant` in the data folder."""

    prefix: str = "toolgate_"
    """Prefix of collection names; gateways with different stores that share a server need
    different ones."""


def build(options: Options, *, data_dir: Path) -> "QdrantVectors":
    """Create the store; opens nothing yet."""
    return QdrantVectors(options, data_dir)


class QdrantVectors(RemoteVectors):
    """Uses a Qdrant collection for each collection."""

    def __init__(self, options: Options, data_dir: Path) -> None:
        folder = Path(options.path or data_dir / "documents-qdrant").expanduser()

        def connect() -> Any:
            if options.url:
                # Checking the server's version would be one more request that can fail.
                return QdrantClient(
                    url=options.url, api_key=options.api_key or None, check_compatibility=False
                )
            folder.parent.mkdir(parents=True, exist_ok=True)
            return QdrantClient(path=str(folder))

        super().__init__("qdrant", options.prefix, connect, alone=not options.url)
        self._is_remote = bool(options.url)

    def is_existing(self, client: Any, collection: VectorCollection) -> bool:
        """Whether a collection exists."""
        return client.collection_exists(self.name_of(collection))

    def create(self, client: Any, collection: VectorCollection) -> None:
        """Create a collection."""
        is_distance = collection.metric == "euclidean"
        distance = models.Distance.EUCLID if is_distance else models.Distance.DOT
        client.create_collection(
            self.name_of(collection),
            vectors_config=models.VectorParams(size=collection.dim, distance=distance),
        )
        if self._is_remote:  # a folder has no such index and warns
            client.create_payload_index(
                self.name_of(collection), _GROUP, models.PayloadSchemaType.KEYWORD
            )

    def upsert(
        self,
        client: Any,
        collection: VectorCollection,
        keys: Sequence[bytes],
        rows: Rows,
        groups: Sequence[str],
    ) -> None:
        """Insert or replace vectors."""
        points = [
            models.PointStruct(id=_point_id(key), vector=row.tolist(), payload={_GROUP: group})
            for key, row, group in zip(keys, rows, groups, strict=True)
        ]
        for part in portions(points, _AT_ONCE):
            client.upsert(self.name_of(collection), list(part), wait=True)

    def fetch(
        self, client: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> tuple[list[bytes], Rows]:
        """Return the keys that exist, with their vectors."""
        return _rows_of(
            client.retrieve(
                self.name_of(collection),
                [_point_id(key) for key in keys],
                with_vectors=True,
                with_payload=False,
            ),
            collection,
        )

    def existing_keys(
        self, client: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> list[bytes]:
        """Return the keys that exist."""
        points = client.retrieve(
            self.name_of(collection), [_point_id(key) for key in keys], with_payload=False
        )
        return [_key(point.id) for point in points]

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
        answer = client.query_points(
            self.name_of(collection),
            query=query.tolist(),
            query_filter=_filter(keys, groups),
            limit=limit,
            with_vectors=True,
            with_payload=False,
        )
        return _rows_of(answer.points, collection)

    def key_pages(self, client: Any, collection: VectorCollection) -> Iterator[list[bytes]]:
        """Yield all keys, a page at a time."""
        offset = None
        while True:
            points, offset = client.scroll(
                self.name_of(collection), limit=_PAGE, offset=offset, with_payload=False
            )
            yield [_key(point.id) for point in points]
            if offset is None:
                return

    def delete(
        self,
        client: Any,
        collection: VectorCollection,
        keys: Sequence[bytes] | None,
        groups: Sequence[str] | None,
    ) -> None:
        """Delete the vectors of these keys, or of these groups."""
        doomed = _filter(keys, groups)
        assert doomed is not None
        selector = models.FilterSelector(filter=doomed)
        client.delete(self.name_of(collection), selector, wait=True)

    def delete_collection(self, client: Any, collection: VectorCollection) -> None:
        """Delete a collection."""
        client.delete_collection(self.name_of(collection))

    def size(self, client: Any, collection: VectorCollection) -> int:
        """Return the number of vectors in a collection."""
        return int(client.count(self.name_of(collection), exact=True).count)


def _point_id(key: bytes) -> int | str:
    """Return a key as a point id: Qdrant accepts numbers below 2**64 and UUIDs."""
    return int.from_bytes(key) if is_numbered(key) else str(UUID(bytes=key))


def _key(point_id: int | str) -> bytes:
    if isinstance(point_id, int):
        return point_id.to_bytes(KEY_BYTES)
    return UUID(point_id).bytes


def _rows_of(points: Sequence[Any], collection: VectorCollection) -> tuple[list[bytes], Rows]:
    rows = np.array([point.vector for point in points], np.float32).reshape(-1, collection.dim)
    return [_key(point.id) for point in points], rows


def _filter(keys: Sequence[bytes] | None, groups: Collection[str] | None) -> models.Filter | None:
    conditions: list[Any] = []
    if keys is not None:
        conditions.append(models.HasIdCondition(has_id=[_point_id(key) for key in keys]))
    if groups is not None:
        conditions.append(
            models.FieldCondition(key=_GROUP, match=models.MatchAny(any=list(groups)))
        )
    return models.Filter(must=conditions) if conditions else None


_: type[VectorStore] = QdrantVectors
