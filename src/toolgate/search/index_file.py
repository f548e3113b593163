"""Cache of the word index in a file next to the store: a start reads only the texts of new tools.

The file only has copies of texts of tools. A missing or damaged file, or one with other weights
or other rules for words, is ignored.
"""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.base import json_text
from toolgate.base.private_folder import create_private_folder
from toolgate.search.base import SearchableTool
from toolgate.search.lexical.index import restored
from toolgate.search.lexical.postings import Patterns, Segment, WordIndex
from toolgate.search.lexical.state import LexicalState
from toolgate.search.lexical.tool_names import NameIndex
from toolgate.search.lexical.weights import WordWeights
from toolgate.search.semantic.tool_vectors import TextHashes, ToolVectors
from toolgate.search.tokenizer import terms, words

log = logging.getLogger(__name__)

_FORMAT = 2
"""Version of the file format; increased when its parts change in meaning."""
_LEAST = 500
"""Fewest tools of an index for which a file is written; chosen."""
# Both shares are chosen.
_WORTH = 0.5
"""Lowest share of the tools that a file must have to be read."""
_NEAR = 0.95
"""Lowest share of the tools that a file must have not to be rewritten."""
_PAUSE_S = 10.0
"""Seconds without a change before the file is written; chosen."""
_BETWEEN_S = 60.0
"""Seconds between two writes of the file; chosen."""
_PROBE = (
    "create_issue createIssue2 HTTPServer base64 files' naïve Größe 文件搜索 検索する 파일을 찾기"
    " отправить письма ملفاتكم फ़ाइलें παραδείγματα קבצים ไฟล์"
)
"""Words of many kinds: their terms identify the rules for words."""
_APART = "\0"


@dataclass(frozen=True)
class RestoredIndex:
    """An index restored for the most part from the file."""

    words: LexicalState
    """The index."""
    texts: TextHashes
    """Text hashes of its slots."""
    is_near: bool
    """Whether nearly all tools were in the file."""
    has_texts: bool
    """Whether the file also has the text hashes of these tools."""


class LexicalCache:
    """Stores the largest part of an index in a file. Belongs to one event loop.

    Small changes are not written: the next start reads those tools again.
    """

    def __init__(self, path: Path | None, weights: WordWeights) -> None:
        """Use a file at this path, one per set of weights; None disables the cache."""
        self._weights = weights
        self._fingerprint_of = _fingerprint_of(weights)
        name = blake2b(self._fingerprint_of, digest_size=4).hexdigest()
        self._path = None if path is None else path.with_name(f"{path.name}-words-{name}.npz")
        self._segment: Segment | None = None
        self._has_texts = False
        self._waiting: tuple[LexicalState, ToolVectors | None] | None = None
        self._task: asyncio.Task[None] | None = None
        # Long enough ago that the first write waits only for `_PAUSE_S`.
        self._written_at = -_BETWEEN_S

    async def read(self, tools: tuple[SearchableTool, ...]) -> RestoredIndex | None:
        """Return the index of these tools; None if the file is of no use for them."""
        if self._path is None or len(tools) < _LEAST or not self._path.exists():
            return None
        try:
            restored_index = await anyio.to_thread.run_sync(self._read, self._path, tools)
        except Exception as error:  # noqa: BLE001 - damage can lead to any error; tools are read anew
            log.info("cached words cannot be used", extra={"reason": repr(error)})
            return None
        if (
            restored_index is not None
            and restored_index.is_near
            and restored_index.words.index is not None
        ):
            self._segment = restored_index.words.index.segments[0]
            self._has_texts = restored_index.has_texts
        return restored_index

    def changed(self, state: LexicalState, vectors: ToolVectors | None = None) -> None:
        """Schedule a write if much of the index is new."""
        if self._path is None or state.index is None or len(state.keys) < _LEAST:
            return
        if state.index.segments[0] is self._segment and (vectors is None or self._has_texts):
            return
        self._waiting = state, vectors
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_soon())

    async def aclose(self) -> None:
        """Stop, and write what is pending."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._write()

    async def forget(self) -> None:
        """Delete the file; it is written again after large changes."""
        self._waiting = None
        if self._path is not None:
            await anyio.to_thread.run_sync(lambda path: path.unlink(missing_ok=True), self._path)

    async def _write_soon(self) -> None:
        while self._waiting is not None:
            before = self._waiting
            await anyio.sleep(max(_PAUSE_S, self._written_at + _BETWEEN_S - monotonic()))
            # A change during the pause restarts the pause.
            if self._waiting is before:
                await self._write()

    async def _write(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or self._path is None:
            return
        state, vectors = waiting
        try:
            await anyio.to_thread.run_sync(_write, self._path, self._fingerprint_of, state, vectors)
        except OSError as error:
            log.warning("words are not cached", extra={"error": str(error)})
        else:
            assert state.index is not None
            self._segment = state.index.segments[0]
            self._has_texts = vectors is not None
        self._written_at = monotonic()

    def _read(self, path: Path, tools: tuple[SearchableTool, ...]) -> RestoredIndex | None:
        # No pickle: a damaged or malicious file must not run code.
        with np.load(path, allow_pickle=False) as parts:
            if parts["about"].tobytes() != self._fingerprint_of:
                return None
            slots = _matched(parts["marks"], _marks(tools))
            if np.count_nonzero(slots >= 0) < _WORTH * len(tools):
                return None
            state = restored(_state_of(parts), tools, slots.copy(), self._weights)
            hashes = parts["texts"]
        texts = np.zeros((state.size, 2), np.uint64)
        stored = np.flatnonzero(slots >= 0)
        if state.slots is None:
            texts[stored] = hashes[slots[stored]]
        else:  # those of tools that are gone have their places too
            texts[: len(hashes)] = hashes
        has_texts = bool(hashes[slots[stored]].any(axis=1).all())
        return RestoredIndex(state, texts, len(stored) >= _NEAR * len(tools), has_texts)


def _fingerprint_of(weights: WordWeights) -> bytes:
    probe = [term for word in words(_PROBE) for term in terms(word)]
    fields = weights.of_fields()
    return json_text.dumps([_FORMAT, probe, fields["weights"], fields["k1"], fields["b"]])


def _marks(tools: Sequence[SearchableTool]) -> NDArray[np.uint64]:
    """Return a digest of each tool's definition; 0 if the tool has no digest."""
    marks = b"".join(
        blake2b(f"{tool.key}\0{digest}".encode(errors="surrogatepass"), digest_size=16).digest()
        if (digest := tool.digest)
        else bytes(16)
        for tool in tools
    )
    return np.frombuffer(marks, np.uint64).reshape(-1, 2)


def _matched(stored: NDArray[np.uint64], marks: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the slot of each mark, -1 if it is not stored; no slot twice."""
    slots = np.full(len(marks), -1, np.int32)
    if not len(stored):
        return slots
    # Searched by the first half of a mark, then compared completely.
    order = np.argsort(stored[:, 0], kind="stable").astype(np.int32)
    at = order[np.minimum(np.searchsorted(stored[order, 0], marks[:, 0]), len(order) - 1)]
    there = np.flatnonzero((stored[at] == marks).all(axis=1) & marks.any(axis=1))
    _, first = np.unique(at[there], return_index=True)
    slots[there[first]] = at[there[first]]
    return slots


def _state_of(parts: Mapping[str, NDArray[Any]]) -> LexicalState:
    """Restore the stored state, without tools."""
    usual = tuple(parts["usual"].tolist())
    patterns = Patterns(parts["patterns"].tolist())
    lengths = parts["lengths"]
    segment = Segment(0, lengths, *(parts[name] for name in _POSTINGS))
    names = NameIndex(*(parts[name] for name in _NAMES))
    return LexicalState(
        size=lengths.shape[1],
        servers=parts["servers"],
        server_names=_numbered(parts["server_names"]),
        names=(names,),
        vocabulary=_numbered(parts["vocabulary"]),
        index=WordIndex((segment,), usual=usual, patterns=patterns),
    )


_POSTINGS = ("begins", "slots", "codes", "worth")
_NAMES = ("name_hashes", "name_ranks", "name_places")


def _numbered(text: NDArray[np.uint8]) -> dict[str, int]:
    texts = text.tobytes().decode(errors="surrogatepass").split(_APART)
    return {word: number for number, word in enumerate(texts)}


def _write(
    path: Path, fingerprint: bytes, state: LexicalState, vectors: ToolVectors | None
) -> None:
    """Write the first segment, which has nearly all tools."""
    assert state.index is not None
    segment, patterns = state.index.segments[0], state.index.patterns
    size = segment.lengths.shape[1]
    texts = np.zeros((size, 2), np.uint64)
    if vectors is not None:
        texts = vectors.digests[vectors.of_tool[:size]]
    names = state.names[0]
    parts: dict[str, NDArray[Any]] = {
        "about": np.frombuffer(fingerprint, np.uint8),
        "marks": _marks(state.tools[:size]),
        "texts": texts,
        "usual": np.array(state.index.usual, np.float64),
        "patterns": patterns.table().astype(np.uint16),
        "lengths": segment.lengths,
        **{name: getattr(segment, name) for name in _POSTINGS},
        **dict(zip(_NAMES, (names.hashes, names.ranks, names.slots), strict=True)),
        "servers": state.servers[:size],
        "server_names": _joined(list(state.server_names)),
        "vocabulary": _joined(list(state.vocabulary)[: segment.terms]),
    }
    # Written next to the old file and renamed: a crash leaves the old file intact. The process ID
    # prevents two processes from writing to the same file.
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    create_private_folder(path.parent)
    try:
        # Readable only by the owner: the words of private tools may be confidential.
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            np.savez(file, **parts)  # pyright: ignore[reportArgumentType] - none is `allow_pickle`
        fresh.replace(path)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _joined(texts: Sequence[str]) -> NDArray[np.uint8]:
    return np.frombuffer(_APART.join(texts).encode(errors="surrogatepass"), np.uint8)
