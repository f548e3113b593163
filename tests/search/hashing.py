"""A small embedder for tests: the same vectors everywhere, near where words share pieces."""

import zlib
from collections.abc import Sequence

import numpy as np

from toolgate.models.embedders import Reads, TextKind, Vectors
from toolgate.search.tokenizer import terms, words

DIM = 4_096


def vector(text: str) -> Vectors:
    found = np.zeros(DIM, np.float32)
    for word in words(text[:4_000]):
        for term in terms(word):
            for at in range(max(1, len(term) - 3)):
                code = zlib.crc32(term[at : at + 4].encode(errors="surrogatepass"))
                found[code % DIM] += 1
    length = float(np.linalg.norm(found))
    return found / length if length else found


class HashingEmbedder:
    """Counts what it was asked for."""

    identity = "hashing for tests"
    dim = DIM
    reads: Reads = "english"

    def __init__(self) -> None:
        self.documents: list[str] = []
        self.queries: list[str] = []

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        (self.documents if kind == "document" else self.queries).extend(texts)
        return np.array([vector(text) for text in texts], np.float32).reshape(-1, DIM)
