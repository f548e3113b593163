"""Searches the passages of one collection."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toolgate.documents._passage_vectors import (
    nearest_passages,
    passage_similarities,
    passage_vectors,
    vector_collection,
)
from toolgate.documents.base import Collection, FoundPassage, SearchType
from toolgate.documents.bm25 import best_by_words
from toolgate.documents.ranking import diversify
from toolgate.store import DocumentRepository
from toolgate.store.vectors import VectorStore


@dataclass(frozen=True, kw_only=True)
class PassageSearch:
    """Options for searching one collection."""

    search_type: SearchType
    """How to search."""

    top_k: int
    """Largest number of passages."""

    fetch_k: int
    """Number of candidates."""

    lambda_mult: float
    """Weight of similarity against diversity, for `mmr`."""


async def search_collection(
    rows: DocumentRepository,
    store: VectorStore,
    collection: Collection,
    question: str,
    vector: NDArray[np.float32],
    options: PassageSearch,
) -> list[FoundPassage]:
    """Return matching passages of a collection, best first, with their ranks."""
    vectors_of = vector_collection(collection)
    fetched = max(options.fetch_k, options.top_k)
    limit = options.top_k if options.search_type.startswith("similarity") else fetched
    similarities: dict[int, float | None] = {
        **await nearest_passages(store, vectors_of, vector, limit=limit)
    }
    words: dict[int, float] = {}
    match options.search_type:
        case "mmr":
            vectors = await passage_vectors(store, vectors_of, list(similarities))
            chosen = diversify(
                vector,
                vectors,
                list(similarities),
                limit=options.top_k,
                lambda_mult=options.lambda_mult,
            )
            similarities = dict.fromkeys(chosen)  # the order is no longer that of nearness
        case "hybrid":
            words = dict(
                await best_by_words(rows, collection.collection_id, question, limit=fetched)
            )
            remaining = [number for number in words if number not in similarities]
            similarities |= await passage_similarities(store, vectors_of, remaining, vector)
        case _:
            pass
    sources = await rows.passages(list(similarities))
    passages = [
        FoundPassage(
            passage_id=number,
            text=sources[number].passage.text,
            collection=collection.name,
            document_id=sources[number].document_id,
            source=sources[number].source,
            title=sources[number].title,
            heading=sources[number].passage.heading,
            page=sources[number].passage.page,
            similarity=value,
            words=words.get(number),
        )
        for number, value in similarities.items()
        if number in sources  # one whose document has just gone
    ]
    return [replace(passage, rank=rank) for rank, passage in enumerate(passages, 1)]
