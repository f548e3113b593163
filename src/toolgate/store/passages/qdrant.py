"""Passage vectors in Qdrant: a server, a cluster or a local folder.

A folder is read by the client itself, which is another program than the server: exact, for some ten
thousand passages, and for one process. Vectors of `cosine` are brought to length 1 and compared by
their product, so that a vector of zeros is far from all instead of an error.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from toolgate.store.passages._client import VectorServiceClient, named
from toolgate.store.passages._exact_search import in_order, sized, unit
from toolgate.store.passages.base import (
    PassageIndex,
    PassageKey,
    PassageMatch,
    VectorCollection,
    similarity,
)

__all__ = ["Options", "QdrantPassages", "build"]

_AT_ONCE = 500


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where Qdrant is."""

    url: str = ""
    """`http://HOST:6333` of a server; empty: a folder."""

    api_key: str = field(default="", repr=False)
    """For a server that wants one; write it as `${env:NAME}`."""

    path: str = ""
    """A folder of this machine; empty: `documents-qdrant` in the data folder."""


def build(options: Options, *, data_dir: Path) -> "QdrantPassages":
    """The way there; nothing is opened yet."""
    return QdrantPassages(options, data_dir)


class QdrantPassages(VectorServiceClient):
    """A collection of Qdrant for each shelf."""

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

        super().__init__("qdrant", connect, alone=not options.url)
        self._is_remote = bool(options.url)

    async def put(
        self, shelf: VectorCollection, passages: Sequence[PassageKey], vectors: NDArray[np.float32]
    ) -> None:
        """Keep vectors."""
        rows = sized(shelf, vectors, len(passages))
        stored = unit(rows) if shelf.metric == "cosine" else rows

        def work(client: Any) -> None:
            if not self._is_there(client, shelf):
                self._make(client, shelf)
            for at in range(0, len(passages), _AT_ONCE):
                client.upsert(
                    named(shelf.shelf_id),
                    [
                        models.PointStruct(
                            id=passage.passage_id,
                            vector=row.tolist(),
                            payload={"document": passage.document_id},
                        )
                        for passage, row in zip(
                            passages[at : at + _AT_ONCE], stored[at : at + _AT_ONCE], strict=True
                        )
                    ],
                    wait=True,
                )

        if passages:
            await self.using(work)

    async def remove(self, shelf: VectorCollection, documents: Collection[str]) -> None:
        """Forget the passages of documents."""

        def work(client: Any) -> None:
            if documents and self._is_there(client, shelf):
                client.delete(
                    named(shelf.shelf_id),
                    models.FilterSelector(filter=_among(documents)),
                    wait=True,
                )

        await self.using(work)

    async def drop(self, shelf: VectorCollection) -> None:
        """Forget a shelf."""

        def work(client: Any) -> None:
            if self._is_there(client, shelf):
                client.delete_collection(named(shelf.shelf_id))
            self.known.discard(shelf.shelf_id)

        await self.using(work)

    async def nearest(
        self,
        shelf: VectorCollection,
        question: NDArray[np.float32],
        *,
        limit: int,
        documents: Collection[str] | None = None,
    ) -> list[PassageMatch]:
        """The nearest passages."""
        [query] = sized(shelf, question[np.newaxis], 1)
        if shelf.metric == "cosine":
            query = unit(query[np.newaxis])[0]

        def work(client: Any) -> list[PassageMatch]:
            if documents is not None and not documents:
                return []
            if not self._is_there(client, shelf):
                return []
            hits = client.query_points(
                named(shelf.shelf_id),
                query=query.tolist(),
                query_filter=None if documents is None else _among(documents),
                limit=limit,
                with_payload=False,
            ).points
            values = np.array([hit.score for hit in hits], np.float32)
            if shelf.metric == "cosine":
                values = np.clip(values, -1, 1)
            similarities = similarity(
                shelf.metric, np.abs(values) if _is_distance(shelf) else values
            )
            numbers = [int(hit.id) for hit in hits]
            return in_order(list(zip(numbers, map(float, similarities), strict=True)))

        return await self.using(work)

    async def vectors(
        self, shelf: VectorCollection, passages: Sequence[int]
    ) -> dict[int, NDArray[np.float32]]:
        """Vectors of passages by number."""

        def work(client: Any) -> dict[int, NDArray[np.float32]]:
            if not passages or not self._is_there(client, shelf):
                return {}
            points = client.retrieve(
                named(shelf.shelf_id), list(passages), with_vectors=True, with_payload=False
            )
            return {int(point.id): np.array(point.vector, np.float32) for point in points}

        return await self.using(work)

    async def count(self, shelf: VectorCollection) -> int:
        """Passages of a shelf."""

        def work(client: Any) -> int:
            if not self._is_there(client, shelf):
                return 0
            return int(client.count(named(shelf.shelf_id), exact=True).count)

        return await self.using(work)

    async def settle(self, shelf: VectorCollection) -> None:
        """Nothing to prepare: Qdrant indexes by itself."""
        del shelf

    def _is_there(self, client: Any, shelf: VectorCollection) -> bool:
        if shelf.shelf_id not in self.known:
            if not client.collection_exists(named(shelf.shelf_id)):
                return False
            self.known.add(shelf.shelf_id)
        return True

    def _make(self, client: Any, shelf: VectorCollection) -> None:
        distance = models.Distance.EUCLID if _is_distance(shelf) else models.Distance.DOT
        client.create_collection(
            named(shelf.shelf_id),
            vectors_config=models.VectorParams(size=shelf.dim, distance=distance),
        )
        if self._is_remote:  # a folder has no such index, and says so with a warning
            client.create_payload_index(
                named(shelf.shelf_id), "document", models.PayloadSchemaType.KEYWORD
            )
        self.known.add(shelf.shelf_id)


def _is_distance(shelf: VectorCollection) -> bool:
    return shelf.metric == "euclidean"


def _among(documents: Collection[str]) -> models.Filter:
    return models.Filter(
        must=[models.FieldCondition(key="document", match=models.MatchAny(any=list(documents)))]
    )


_: type[PassageIndex] = QdrantPassages
