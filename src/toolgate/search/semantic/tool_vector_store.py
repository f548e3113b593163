"""Vectors of tools' texts in a vector store, and the text of each tool.

Equal texts of any number of tools, servers and projects share one vector. The text of each tool
is stored too, so that a vector is deleted after the last tool with its text.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from toolgate.base.ids import utc_text
from toolgate.store import StoredModel, TextLink, ToolTextRepository, escape_text
from toolgate.store.vectors import ReceiveRows, VectorCollection, VectorMatch, VectorStore

_MODEL_DAYS = 30.0
"""Days for which vectors of a model are stored after its last use; chosen."""

_PORTION = 10_000
"""Number of vectors deleted at a time; chosen."""


@dataclass(frozen=True, kw_only=True)
class VectorSpace:
    """The vectors of one model. Vectors of different spaces are not comparable and never mixed."""

    model: str
    """Identity of the model and of everything else that affects its vectors."""

    dim: int
    """Dimensions of a vector; 1 to 65,535."""


@dataclass(frozen=True, kw_only=True)
class VectorCounts:
    """Numbers of stored vectors, tools and servers."""

    vectors: int
    """Number of vectors of the space."""

    vectors_of_other_models: int
    """Number of vectors of all other spaces."""

    tools: int
    """Number of tools of the project with a stored text."""

    servers: int
    """Number of servers of the project with a stored tool."""


class ToolVectorStore:
    """Stores one vector for each text of a space, under the hash of the text."""

    def __init__(self, vectors: VectorStore, texts: ToolTextRepository) -> None:
        self._vectors = vectors
        self._texts = texts
        self._unlinked: dict[str, set[bytes]] = {}
        """Texts without a tool at the last cleanup, by collection."""

    @property
    def notice(self) -> str:
        """A message about the vector store for people; may be empty."""
        return self._vectors.notice

    # Vectors. All of these raise `StoreError` if the store fails.

    async def load(self, space: VectorSpace, hashes: Sequence[bytes], receive: ReceiveRows) -> None:
        """Pass the stored vectors of these texts to `receive`."""
        await self._vectors.load(_collection(space), hashes, receive)

    async def known(self, space: VectorSpace, hashes: Sequence[bytes]) -> NDArray[np.bool_]:
        """Return which of these texts have a vector, without reading the vectors."""
        return await self._vectors.contains(_collection(space), hashes)

    async def save(
        self, space: VectorSpace, hashes: Sequence[bytes], rows: NDArray[np.float16]
    ) -> int:
        """Store vectors; return how many were written.

        Args:
            space: Their space.
            hashes: One for each row, all different.
            rows: Shape (len(hashes), dim), finite, of length 1 at most.
        """
        await self._texts.use_model(_stored_model(space))
        return await self._vectors.put(_collection(space), hashes, rows)

    async def nearest(
        self,
        space: VectorSpace,
        query: NDArray[np.float32],
        *,
        limit: int,
        allowed: Sequence[bytes] | None = None,
    ) -> list[VectorMatch]:
        """Return the texts nearest by cosine, best first.

        Args:
            space: The space to search.
            query: The vector of a request.
            limit: Most texts, 1 to 10,000.
            allowed: Search only these, however far they are; None for all. If all are allowed, a
                store may miss some of the best.
        """
        return await self._vectors.nearest(_collection(space), query, limit=limit, keys=allowed)

    async def settle(self, space: VectorSpace) -> None:
        """Prepare for `nearest` after many were saved, for example build an index; may be slow."""
        await self._texts.use_model(_stored_model(space))
        await self._vectors.optimize(_collection(space))

    # Tools

    async def link(self, project_id: str, server: str, links: Sequence[TextLink]) -> int:
        """Set the tools of a server; return how many rows that changed."""
        return await self._texts.link(project_id, server, links)

    async def links(self, project_id: str) -> dict[str, dict[str, bytes]]:
        """Return the hashes of texts by server and tool."""
        return await self._texts.links(project_id)

    async def unlink(self, project_id: str, server: str) -> int:
        """Delete the tools of a server, and the vectors that no other tool has.

        Returns:
            Number of its tools.
        """
        unlinked = await self._texts.unlink(project_id, server)
        for model in await self._texts.models():
            await self._vectors.remove(_collection_of(model), keys=unlinked.hashes)
        return unlinked.tools

    async def prune(self, space: VectorSpace | None, *, before: str) -> int:
        """Delete vectors of texts that no tool has, and of unused models.

        A text without a tool is marked by one cleanup and deleted by the next one, since the
        tool of a new vector may be about to be linked.

        Args:
            space: Space of the model in use; None if there is none.
            before: UTC, ISO 8601; tools linked since then stay.

        Returns:
            Number of deleted vectors.
        """
        if space is not None:
            await self._texts.use_model(_stored_model(space))
        unused_since = utc_text(datetime.fromisoformat(before) - timedelta(days=_MODEL_DAYS))
        removed = 0
        for model in await self._texts.models(unused_since=unused_since):
            removed += await self._vectors.count(_collection_of(model))
            await self._vectors.drop(_collection_of(model))
            await self._texts.delete_model(model.collection_id)
        await self._texts.prune(before=before)
        noted, self._unlinked = self._unlinked, {}
        for model in await self._texts.models():
            collection, unlinked = _collection_of(model), set[bytes]()
            async for keys in self._vectors.keys(collection):
                unlinked.update(set(keys) - await self._texts.linked(keys))
            doomed = list(unlinked & noted.get(model.collection_id, set()))
            for at in range(0, len(doomed), _PORTION):
                await self._vectors.remove(collection, keys=doomed[at : at + _PORTION])
            removed += len(doomed)
            self._unlinked[model.collection_id] = unlinked.difference(doomed)
        return removed

    async def counts(self, space: VectorSpace, project_id: str) -> VectorCounts:
        """Return the numbers of stored vectors, tools and servers."""
        name = _collection(space).collection_id
        vectors = {
            model.collection_id: await self._vectors.count(_collection_of(model))
            for model in [_stored_model(space), *await self._texts.models()]
        }
        linked = await self._texts.counts(project_id)
        return VectorCounts(
            vectors=vectors[name],
            vectors_of_other_models=sum(vectors.values()) - vectors[name],
            tools=linked.tools,
            servers=linked.servers,
        )


def _collection(space: VectorSpace) -> VectorCollection:
    return _collection_of(_stored_model(space))


def _collection_of(model: StoredModel) -> VectorCollection:
    return VectorCollection(
        collection_id=model.collection_id, dim=model.dim, metric="cosine", precision="half"
    )


def _stored_model(space: VectorSpace) -> StoredModel:
    digest = hashlib.blake2b(f"{space.dim} {escape_text(space.model)}".encode(), digest_size=8)
    return StoredModel(collection_id=digest.hexdigest(), model=space.model, dim=space.dim)
