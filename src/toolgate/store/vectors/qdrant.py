"""Vectors in Qdrant: a server, a cluster or a local folder.

A folder is read by the client itself, which is another program than the server: exact, for some ten
thousand vectors, and for one process.
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

__all__ = ["Options", "QdrantVectors", "build"]

_AT_ONCE = 500
"""Vectors of one request; chosen."""
_PAGE = 10_000
"""Keys of one request; chosen."""
_GROUP = "document"
"""Field of the group."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where Qdrant is."""

    url: str = ""
    """`http://HOST:6333` of a server; empty: a folder."""

    api_key: str = field(default="", repr=False)
    """For a server that wants one; write it as `${env:NAME}`."""

    path: str = ""
    """A folder of this machine; empty: `documents-qdrant` in the data folder."""

    prefix: str = "toolgate_"
    """Before the names of collections; gateways with different stores that share a server need
    different ones."""


def build(options: Options, *, data_dir: Path) -> "QdrantVectors":
    """The way there; nothing is opened yet."""
    return QdrantVectors(options, data_dir)


class QdrantVectors(RemoteVectors):
    """A collection of Qdrant for each collection."""

    def __init__(self, options: Options, data_dir: Path) -> None:
        folder = Path(options.path or data_dir / "documents-qdrant").expanduser()

        def connect() -> Any:
            if options.url:
                # Asking for the server's version would be one more request that can fail.
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
        """Make a collection."""
        is_distance = collection.metric == "euclidean"
        distance = models.Distance.EUCLID if is_distance else models.Distance.DOT
        client.create_collection(
            self.name_of(collection),
            vectors_config=models.VectorParams(size=collection.dim, distance=distance),
        )
        if self._is_remote:  # a folder has no such index, and says so with a warning
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
        """Write vectors over what is there."""
        points = [
            models.PointStruct(id=_point_id(key), vector=row.tolist(), payload={_GROUP: group})
            for key, row, group in zip(keys, rows, groups, strict=True)
        ]
        for part in portions(points, _AT_ONCE):
            client.upsert(self.name_of(collection), list(part), wait=True)

    def fetch(
        self, client: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> tuple[list[bytes], Rows]:
        """Keys and vectors, of those that exist."""
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
        """Those of these keys that exist."""
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
        """Keys and vectors of the nearest."""
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
        """All keys, a page at a time."""
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
        """Remove the vectors of these keys, or of these groups."""
        doomed = _filter(keys, groups)
        assert doomed is not None
        selector = models.FilterSelector(filter=doomed)
        client.delete(self.name_of(collection), selector, wait=True)

    def delete_collection(self, client: Any, collection: VectorCollection) -> None:
        """Remove a collection."""
        client.delete_collection(self.name_of(collection))

    def size(self, client: Any, collection: VectorCollection) -> int:
        """How many vectors a collection has."""
        return int(client.count(self.name_of(collection), exact=True).count)


def _point_id(key: bytes) -> int | str:
    """Qdrant takes numbers below 2**64 and UUIDs."""
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
