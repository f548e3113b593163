"""Splits documents into passages and computes their vectors."""

from collections.abc import Sequence
from secrets import randbits
from typing import Final

from toolgate.documents._library_types import NewDocument
from toolgate.documents._passage_vectors import put_passages, vector_collection
from toolgate.documents.bm25 import words_of
from toolgate.documents.chunking import DocumentChunk, split_document
from toolgate.models.embedders import Embedder, embedded
from toolgate.store import DocumentRepository, StoredCollection, StoredPassage
from toolgate.store.vectors import VectorCollection, VectorStore

_BATCH: Final = 256
"""Passages in a batch for the embedder."""


def cut_document(
    document: NewDocument, max_tokens: int
) -> tuple[list[DocumentChunk], list[StoredPassage]]:
    """Split a document. Returns chunks, and their passages for the store. Slow."""
    pieces = split_document(document.text, max_tokens=max_tokens, has_pages=document.has_pages)
    first = randbits(61)
    return pieces, [
        StoredPassage(
            passage_id=first + at,
            ordinal=at,
            text=piece.text,
            heading=piece.heading,
            page=piece.page,
            words=" ".join(words_of(piece.embedded)),
        )
        for at, piece in enumerate(pieces)
    ]


async def embed_document(
    document_id: str,
    pieces: Sequence[DocumentChunk],
    passages: Sequence[StoredPassage],
    embedder: Embedder,
    store: VectorStore,
    collection: VectorCollection,
) -> None:
    """Compute the vectors of the passages of a document."""
    for at in range(0, len(passages), _BATCH):
        texts = [piece.embedded for piece in pieces[at : at + _BATCH]]
        vectors = await embedded(embedder, texts, "document")
        batch = [(document_id, passage) for passage in passages[at : at + _BATCH]]
        await put_passages(store, collection, batch, vectors)


async def embed_collection(
    rows: DocumentRepository, row: StoredCollection, embedder: Embedder, store: VectorStore
) -> None:
    """Compute the vectors of all passages of a collection."""
    after = -1
    while page := await rows.passage_page(row.collection_id, after=after, limit=_BATCH):
        pieces = [DocumentChunk(text=passage.text, heading=passage.heading) for _, passage in page]
        vectors = await embedded(embedder, [piece.embedded for piece in pieces], "document")
        await put_passages(store, vector_collection(row), page, vectors)
        after = page[-1][1].passage_id
