"""Vectors of tools' texts in a vector store, and which tool has which text.

Equal texts of any number of tools, servers and projects share one vector. Which tool has which text
is stored beside it, so that vectors go when the last tool of theirs has gone.
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

__all__ = ["ToolVectorStore", "VectorCounts", "VectorSpace"]

_MODEL_DAYS = 30.0
"""Days that vectors of a model are kept after its last use; chosen."""

_PORTION = 10_000
"""Vectors that are removed at once; chosen."""


@dataclass(frozen=True, kw_only=True)
class VectorSpace:
    """The vectors of one model. Those of two spaces cannot be compared and never meet."""

    model: str
    """Identity of the model and of all else that shapes its vectors."""

    dim: int
    """Numbers of a vector; 1 to 65,535."""


@dataclass(frozen=True, kw_only=True)
class VectorCounts:
    """How much is kept."""

    vectors: int
    """Vectors of the space."""

    vectors_of_other_models: int
    """Vectors of all other spaces."""

    tools: int
    """Tools of the project that have a text here."""

    servers: int
    """Servers of the project that have a tool here."""


class ToolVectorStore:
    """Keeps one vector for each text of a space, under the hash of the text."""

    def __init__(self, vectors: VectorStore, texts: ToolTextRepository) -> None:
        self._vectors = vectors
        self._texts = texts
        self._unlinked: dict[str, set[bytes]] = {}
        """By collection: texts that no tool had at the last clean-up."""

    @property
    def notice(self) -> str:
        """What a person should know of the vector store; may be empty."""
        return self._vectors.notice

    # Vectors. All of these raise `StoreError` when the store fails.

    async def load(self, space: VectorSpace, hashes: Sequence[bytes], receive: ReceiveRows) -> None:
        """Hand over the vectors of these texts, as far as they are there."""
        await self._vectors.load(_collection(space), hashes, receive)

    async def known(self, space: VectorSpace, hashes: Sequence[bytes]) -> NDArray[np.bool_]:
        """Which of these texts have a vector; does not look at the vectors themselves."""
        return await self._vectors.contains(_collection(space), hashes)

    async def save(
        self, space: VectorSpace, hashes: Sequence[bytes], rows: NDArray[np.float16]
    ) -> int:
        """Keep vectors; gives how many were written.

        Args:
            space: Where they belong.
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
        """The texts nearest by cosine, best first.

        Args:
            space: Where to look.
            query: The vector of a request.
            limit: How many, 1 to 10,000.
            allowed: Only among these, however far they are; None: among all. A store may find
                less than the very best when all are allowed.
        """
        return await self._vectors.nearest(_collection(space), query, limit=limit, keys=allowed)

    async def settle(self, space: VectorSpace) -> None:
        """Prepare for `nearest` after many were saved, such as building an index; may be slow."""
        await self._texts.use_model(_stored_model(space))
        await self._vectors.optimize(_collection(space))

    # Tools

    async def link(self, project_id: str, server: str, links: Sequence[TextLink]) -> int:
        """Make these the tools of a server; gives how many rows that changed."""
        return await self._texts.link(project_id, server, links)

    async def links(self, project_id: str) -> dict[str, dict[str, bytes]]:
        """Hashes of texts by server and tool."""
        return await self._texts.links(project_id)

    async def unlink(self, project_id: str, server: str) -> int:
        """Forget the tools of a server, with the vectors that no other tool has.

        Returns:
            How many tools it had.
        """
        unlinked = await self._texts.unlink(project_id, server)
        for model in await self._texts.models():
            await self._vectors.remove(_collection_of(model), keys=unlinked.hashes)
        return unlinked.tools

    async def prune(self, space: VectorSpace | None, *, before: str) -> int:
        """Remove vectors of texts that no tool has, and of models that nobody uses.

        A text that no tool has is noted by one clean-up and removed by the next one, since the
        tool of a new vector may be linked in a moment.

        Args:
            space: Of the model that is in use; None: none is.
            before: UTC, ISO 8601; tools that were linked since then stay.

        Returns:
            How many vectors were removed.
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
        """How much is kept."""
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
