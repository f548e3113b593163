"""Passage vectors in Milvus: a local file (Milvus Lite) or a cluster.

The same client speaks to both. Vectors of `cosine` are brought to length 1 and compared by their
product, so that a vector of zeros is far from all instead of an error.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pymilvus import DataType, MilvusClient  # pyright: ignore[reportMissingTypeStubs]

from toolgate.store.passages._client import VectorServiceClient, named
from toolgate.store.passages._exact_search import in_order, sized, unit
from toolgate.store.passages.base import (
    PassageIndex,
    PassageKey,
    PassageMatch,
    VectorCollection,
    similarity,
)

__all__ = ["MilvusPassages", "Options", "build"]

_AT_ONCE = 1_000
_STRONG = "Strong"
"""What is written is found at once, also by other gateways."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where Milvus is, and how it searches."""

    uri: str = ""
    """`http://HOST:19530` of a cluster, or a path of this machine that ends in `.db`; empty:
    `documents-milvus.db` in the data folder."""

    token: str = field(default="", repr=False)
    """`USER:PASSWORD`, or an API key; write it as `${env:NAME}`."""

    index: str = "auto"
    """Kind of index, such as `HNSW`; `auto`: `FLAT` on this machine, `HNSW` in a cluster."""

    index_params: Mapping[str, int] = field(default_factory=dict[str, int])
    """Its parameters, such as `{ M = 16, efConstruction = 64 }`."""


def build(options: Options, *, data_dir: Path) -> "MilvusPassages":
    """The way there; nothing is opened yet."""
    return MilvusPassages(options, data_dir)


class MilvusPassages(VectorServiceClient):
    """A collection of Milvus for each shelf."""

    def __init__(self, options: Options, data_dir: Path) -> None:
        uri = options.uri or str(data_dir / "documents-milvus.db")
        self._is_remote = "://" in uri
        self._options = options

        def connect() -> Any:
            if not self._is_remote:
                Path(uri).expanduser().parent.mkdir(parents=True, exist_ok=True)
                return MilvusClient(str(Path(uri).expanduser()))
            return MilvusClient(uri, token=options.token)

        super().__init__("milvus", connect, alone=not self._is_remote)

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
                        {
                            "passage": passage.passage_id,
                            "document": passage.document_id,
                            "vector": row.tolist(),
                        }
                        for passage, row in zip(
                            passages[at : at + _AT_ONCE], stored[at : at + _AT_ONCE], strict=True
                        )
                    ],
                )

        if passages:
            await self.using(work)

    async def remove(self, shelf: VectorCollection, documents: Collection[str]) -> None:
        """Forget the passages of documents."""

        def work(client: Any) -> None:
            if documents and self._is_there(client, shelf):
                client.delete(named(shelf.shelf_id), filter=_among("document", documents))

        await self.using(work)

    async def drop(self, shelf: VectorCollection) -> None:
        """Forget a shelf."""

        def work(client: Any) -> None:
            if self._is_there(client, shelf):
                client.drop_collection(named(shelf.shelf_id))
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
        condition = "" if documents is None else _among("document", documents)

        def work(client: Any) -> list[PassageMatch]:
            if documents is not None and not documents:
                return []
            if not self._is_there(client, shelf):
                return []
            [hits] = client.search(
                named(shelf.shelf_id),
                data=[query.tolist()],
                filter=condition,
                limit=limit,
                consistency_level=_STRONG,
                search_params={"metric_type": _metric(shelf)},
            )
            values = np.array([hit["distance"] for hit in hits], np.float32)
            if shelf.metric == "euclidean":
                values = np.sqrt(np.maximum(values, 0))  # Milvus gives the square
            if shelf.metric == "cosine":
                values = np.clip(values, -1, 1)
            similarities = similarity(shelf.metric, values)
            numbers = [int(hit["passage"] if "passage" in hit else hit["id"]) for hit in hits]
            return in_order(list(zip(numbers, map(float, similarities), strict=True)))

        return await self.using(work)

    async def vectors(
        self, shelf: VectorCollection, passages: Sequence[int]
    ) -> dict[int, NDArray[np.float32]]:
        """Vectors of passages by number."""

        def work(client: Any) -> dict[int, NDArray[np.float32]]:
            if not passages or not self._is_there(client, shelf):
                return {}
            rows = client.query(
                named(shelf.shelf_id),
                filter=_among("passage", passages),
                output_fields=["passage", "vector"],
                consistency_level=_STRONG,
            )
            return {int(row["passage"]): np.array(row["vector"], np.float32) for row in rows}

        return await self.using(work)

    async def count(self, shelf: VectorCollection) -> int:
        """Passages of a shelf."""

        def work(client: Any) -> int:
            if not self._is_there(client, shelf):
                return 0
            [row] = client.query(
                named(shelf.shelf_id),
                filter="",
                output_fields=["count(*)"],
                consistency_level=_STRONG,
            )
            return int(row["count(*)"])

        return await self.using(work)

    async def settle(self, shelf: VectorCollection) -> None:
        """Have what was written indexed."""

        def work(client: Any) -> None:
            if self._is_there(client, shelf):
                client.flush(named(shelf.shelf_id))

        await self.using(work)

    def _is_there(self, client: Any, shelf: VectorCollection) -> bool:
        if shelf.shelf_id not in self.known:
            if not client.has_collection(named(shelf.shelf_id)):
                return False
            client.load_collection(named(shelf.shelf_id))
            self.known.add(shelf.shelf_id)
        return True

    def _make(self, client: Any, shelf: VectorCollection) -> None:
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("passage", DataType.INT64, is_primary=True)
        schema.add_field("document", DataType.VARCHAR, max_length=64)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=shelf.dim)
        kind = self._options.index
        if kind == "auto":
            kind = "HNSW" if self._is_remote else "FLAT"
        usual = {"M": 16, "efConstruction": 64} if kind == "HNSW" else {}
        indexes = client.prepare_index_params()
        indexes.add_index(
            "vector",
            index_type=kind,
            metric_type=_metric(shelf),
            params={**usual, **self._options.index_params},
        )
        client.create_collection(
            named(shelf.shelf_id),
            schema=schema,
            index_params=indexes,
            consistency_level=_STRONG,
        )
        self.known.add(shelf.shelf_id)


def _metric(shelf: VectorCollection) -> str:
    return "L2" if shelf.metric == "euclidean" else "IP"


def _among(name: str, values: Collection[str] | Collection[int]) -> str:
    """A filter of Milvus; ids are letters and digits."""
    literals = ", ".join(
        str(value) if isinstance(value, int) else f'"{_pure(value)}"' for value in values
    )
    return f"{name} in [{literals}]"


def _pure(value: str) -> str:
    if not value.isalnum():
        raise ValueError(f"{value!r} is no id of a document")
    return value


_: type[PassageIndex] = MilvusPassages
