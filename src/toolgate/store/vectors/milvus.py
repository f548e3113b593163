"""Vectors in Milvus: a local file (Milvus Lite) or a cluster, with the same client."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pymilvus import DataType, MilvusClient  # pyright: ignore[reportMissingTypeStubs]

from toolgate.store.vectors._remote import RemoteVectors, portions
from toolgate.store.vectors.base import KEY_BYTES, Rows, VectorCollection, VectorStore

_AT_ONCE = 1_000
"""Vectors in a request (chosen)."""
_PAGE = 10_000
"""Keys in a request; Milvus returns at most 16,384
(https://milvus.io/docs/limitations.md#Input-and-Output-per-RPC)."""
_STRONG = "Strong"
"""Written vectors are found at once, also by other gateways."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Connection to Milvus, and how it searches."""

    uri: str = ""
    """`http://HOST:19530` of a cluster, or a local path that ends in `.db`; empty:
    `documents-milvus.db` in the data folder."""

    token: str = field(default="", repr=False)
    """`USER:PASSWORD`, or an API key; write it as `${env:NAME}`."""

    index: str = "auto"
    """Kind of index, such as `HNSW`; `auto`: `FLAT` for a local file, `HNSW` in a cluster."""

    index_params: Mapping[str, int] = field(default_factory=dict[str, int])
    """Its parameters, such as `{ M = 16, efConstruction = 64 }`."""

    prefix: str = "toolgate_"
    """Prefix of collection names; gateways with different stores that share a cluster need
    different ones."""


def build(options: Options, *, data_dir: Path) -> "MilvusVectors":
    """Create the store; opens nothing yet."""
    return MilvusVectors(options, data_dir)


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """Field names of a collection, and the format of its keys."""

    key: str
    group: str
    is_number: bool

    def literal(self, key: bytes) -> str:
        """Return a key for an expression."""
        return str(int.from_bytes(key)) if self.is_number else f'"{key.hex()}"'

    def stored(self, key: bytes) -> int | str:
        """Return a key as a field value."""
        return int.from_bytes(key) if self.is_number else key.hex()

    def read(self, value: int | str) -> bytes:
        """Return the key of a field value."""
        return value.to_bytes(KEY_BYTES) if isinstance(value, int) else bytes.fromhex(value)


_LAYOUT = _Layout(key="key", group="group_id", is_number=False)
_FIRST_LAYOUT = _Layout(key="passage", group="document", is_number=True)
"""Layout of collections from the time when Milvus could store only documents."""


class MilvusVectors(RemoteVectors):
    """Uses a Milvus collection for each collection."""

    def __init__(self, options: Options, data_dir: Path) -> None:
        uri = options.uri or str(data_dir / "documents-milvus.db")
        self._is_remote = "://" in uri
        self._options = options
        self._layouts: dict[str, _Layout] = {}

        def connect() -> Any:
            if not self._is_remote:
                Path(uri).expanduser().parent.mkdir(parents=True, exist_ok=True)
                return MilvusClient(str(Path(uri).expanduser()))
            return MilvusClient(uri, token=options.token)

        super().__init__("milvus", options.prefix, connect, alone=not self._is_remote)

    async def optimize(self, collection: VectorCollection) -> None:
        """Index what was written."""
        await self._in_existing(collection, lambda client: client.flush(self.name_of(collection)))

    def is_existing(self, client: Any, collection: VectorCollection) -> bool:
        """Whether a collection exists; if so, it is loaded."""
        name = self.name_of(collection)
        if not client.has_collection(name):
            return False
        client.load_collection(name)
        fields = {field["name"] for field in client.describe_collection(name)["fields"]}
        is_first = _FIRST_LAYOUT.key in fields
        self._layouts[collection.collection_id] = _FIRST_LAYOUT if is_first else _LAYOUT
        return True

    def create(self, client: Any, collection: VectorCollection) -> None:
        """Create a collection."""
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(_LAYOUT.key, DataType.VARCHAR, is_primary=True, max_length=2 * KEY_BYTES)
        schema.add_field(_LAYOUT.group, DataType.VARCHAR, max_length=64)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=collection.dim)
        kind = self._options.index
        if kind == "auto":
            kind = "HNSW" if self._is_remote else "FLAT"
        usual = {"M": 16, "efConstruction": 64} if kind == "HNSW" else {}
        indexes = client.prepare_index_params()
        indexes.add_index(
            "vector",
            index_type=kind,
            metric_type=_metric(collection),
            params={**usual, **self._options.index_params},
        )
        client.create_collection(
            self.name_of(collection),
            schema=schema,
            index_params=indexes,
            consistency_level=_STRONG,
        )
        self._layouts[collection.collection_id] = _LAYOUT

    def upsert(
        self,
        client: Any,
        collection: VectorCollection,
        keys: Sequence[bytes],
        rows: Rows,
        groups: Sequence[str],
    ) -> None:
        """Insert or replace vectors."""
        layout = self._layout(collection)
        entries = [
            {layout.key: layout.stored(key), layout.group: group, "vector": row.tolist()}
            for key, row, group in zip(keys, rows, groups, strict=True)
        ]
        for part in portions(entries, _AT_ONCE):
            client.upsert(self.name_of(collection), list(part))

    def fetch(
        self, client: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> tuple[list[bytes], Rows]:
        """Return the keys that exist, with their vectors."""
        return self._rows_of(collection, self._read(client, collection, keys, "vector"))

    def existing_keys(
        self, client: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> list[bytes]:
        """Return the keys that exist."""
        layout = self._layout(collection)
        return [layout.read(row[layout.key]) for row in self._read(client, collection, keys)]

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
        layout = self._layout(collection)
        [hits] = client.search(
            self.name_of(collection),
            data=[query.tolist()],
            filter=self._filter(collection, keys, groups),
            limit=limit,
            output_fields=[layout.key, "vector"],
            consistency_level=_STRONG,
            search_params={"metric_type": _metric(collection)},
        )
        return self._rows_of(collection, [hit["entity"] for hit in hits])

    def key_pages(self, client: Any, collection: VectorCollection) -> Iterator[list[bytes]]:
        """Yield all keys, a page at a time."""
        layout = self._layout(collection)
        pages = client.query_iterator(
            self.name_of(collection),
            batch_size=_PAGE,
            output_fields=[layout.key],
            consistency_level=_STRONG,
        )
        try:
            while page := pages.next():
                yield [layout.read(row[layout.key]) for row in page]
        finally:
            pages.close()

    def delete(
        self,
        client: Any,
        collection: VectorCollection,
        keys: Sequence[bytes] | None,
        groups: Sequence[str] | None,
    ) -> None:
        """Delete the vectors of these keys, or of these groups."""
        client.delete(self.name_of(collection), filter=self._filter(collection, keys, groups))

    def delete_collection(self, client: Any, collection: VectorCollection) -> None:
        """Delete a collection."""
        client.drop_collection(self.name_of(collection))

    def size(self, client: Any, collection: VectorCollection) -> int:
        """Return the number of vectors in a collection."""
        [row] = client.query(
            self.name_of(collection),
            filter="",
            output_fields=["count(*)"],
            consistency_level=_STRONG,
        )
        return int(row["count(*)"])

    def _layout(self, collection: VectorCollection) -> _Layout:
        return self._layouts[collection.collection_id]

    def _read(
        self, client: Any, collection: VectorCollection, keys: Sequence[bytes], *fields: str
    ) -> list[Any]:
        return client.query(
            self.name_of(collection),
            filter=self._filter(collection, keys, None),
            output_fields=[self._layout(collection).key, *fields],
            consistency_level=_STRONG,
        )

    def _rows_of(
        self, collection: VectorCollection, rows: Sequence[Any]
    ) -> tuple[list[bytes], Rows]:
        layout = self._layout(collection)
        vectors = np.array([row["vector"] for row in rows], np.float32)
        keys = [layout.read(row[layout.key]) for row in rows]
        return keys, vectors.reshape(-1, collection.dim)

    def _filter(
        self,
        collection: VectorCollection,
        keys: Sequence[bytes] | None,
        groups: Collection[str] | None,
    ) -> str:
        layout = self._layout(collection)
        conditions: list[str] = []
        if keys is not None:
            conditions.append(f"{layout.key} in [{', '.join(map(layout.literal, keys))}]")
        if groups is not None:
            names = ", ".join(f'"{_checked_id(group)}"' for group in groups)
            conditions.append(f"{layout.group} in [{names}]")
        return " and ".join(conditions)


def _metric(collection: VectorCollection) -> str:
    return "L2" if collection.metric == "euclidean" else "IP"


def _checked_id(value: str) -> str:
    """Return an id that is safe in an expression."""
    if not value.isalnum():
        raise ValueError(f"{value!r} is not an id of a group.")
    return value


_: type[VectorStore] = MilvusVectors
