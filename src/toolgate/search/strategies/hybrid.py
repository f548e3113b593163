"""Hybrid search: words and meaning, as a weighted sum of both scores.

Meaning is the cosine between the vectors of request and tool, words are those of `bm25`. A
request of several steps is split into clauses by rules, since each step needs its own tool.
Exact names come first, then quoted strings, then the rest. Vectors of tools are computed in the
background; if one is missing, and whenever the embedder fails, only words count.

For the choice of the weights and the benefit of each part, see `docs/search-internals.md`.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import isfinite
from pathlib import Path
from time import perf_counter

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.base.validation import unfit
from toolgate.models.embedders import Embedder, Reads
from toolgate.search import (
    WEIGHTS,
    Hit,
    SearchableTool,
    SearchAnswer,
    SearchedQuery,
    SearchRequest,
    SearchStrategy,
)
from toolgate.search.answer.answer_cache import AnswerCache
from toolgate.search.index_file import LexicalCache
from toolgate.search.lexical.best_hits import allowed_by, interleave_hits
from toolgate.search.lexical.clauses import clauses_of, readable_share
from toolgate.search.lexical.index import build_state, is_current
from toolgate.search.lexical.query import QUERIES, QUERY_CHARS
from toolgate.search.lexical.translation import (
    are_languages_loaded,
    in_english,
    load_languages,
)
from toolgate.search.lexical.values import without_values
from toolgate.search.relevance.background_similarity import background_vectors
from toolgate.search.relevance.calibration import best_fit, read_calibration
from toolgate.search.relevance.typical_requests import TypicalRequests, typical_requests
from toolgate.search.semantic.embedding_queue import EmbeddingQueue
from toolgate.search.semantic.first_stage import (
    FIRST_LOOK_FROM,
    HybridState,
    state_of,
)
from toolgate.search.semantic.index_maintenance import VectorIndex, per_server, slots_of
from toolgate.search.semantic.metrics import SearchMetrics
from toolgate.search.semantic.query_vectors import QueryVectors
from toolgate.search.semantic.tool_vector_store import ToolVectorStore
from toolgate.search.semantic.tool_vectors import ToolVectors
from toolgate.search.semantic.vector_cache import VectorCache
from toolgate.search.strategies._hybrid_hits import HitBuilder
from toolgate.search.strategies._hybrid_options import Options
from toolgate.search.strategies._hybrid_ranking import HybridRanker, QueryTexts
from toolgate.types import Json

_GROWTH = 1.25
"""Growth factor of the number of vectors before a large index starts to use new ones; chosen."""


_ENGLISH = 0.9
"""Lowest share of a text that the bundled model must read for it to be moved to typical
requests."""


def build(
    options: Options,
    *,
    embedder: Embedder,
    vectors: ToolVectorStore | None = None,
    index_file: Path | None = None,
) -> "HybridSearch":
    """Create a hybrid search with an empty index.

    Without `vectors`, each start recomputes them; without `index_file`, to whose name a suffix
    is added, each start reads the words of all tools.
    """
    return HybridSearch(options, embedder, vectors, index_file)


class HybridSearch:
    """Ranks tools by meaning and words. `relevance` is a calibrated probability."""

    def __init__(
        self,
        options: Options,
        embedder: Embedder,
        vectors: ToolVectorStore | None = None,
        index_file: Path | None = None,
    ) -> None:
        self._options = options
        self._embedder = embedder
        self.metrics = SearchMetrics()
        """Counters since the start."""
        self._calibration = read_calibration()
        self._background: NDArray[np.float32] | None = None
        self._typical: TypicalRequests | None = None
        self._reads: Reads = "english"
        self._state = HybridState()
        self._updating = anyio.Lock()
        self._vector_cache = VectorCache(vectors, self.metrics)
        self._filler = EmbeddingQueue(embedder, self._vector_cache, self.metrics)
        self._words = LexicalCache(index_file, options.lexical)
        # Many searches at once hold other tasks up for one half of one search at a time: this lock
        # gives the event loop up whenever it is taken, and goes to the next search in a later turn.
        self._turn = anyio.Lock()
        self._asked = QueryVectors(
            embedder,
            timeout_s=options.embed_timeout_s,
            cooldown_s=options.cooldown_s,
            max_entries=options.cached_queries,
            ttl_s=options.cache_ttl_s,
            metrics=self.metrics,
        )
        self._answered = AnswerCache(max_entries=options.cached_answers, ttl_s=options.cache_ttl_s)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the tools in the index, in the order of the mask."""
        return self._state.words.keys

    @property
    def backlog(self) -> int:
        """Number of tools that have no vector yet."""
        return self._state.missing

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Set the tools of the index; only new and changed ones are read and embedded."""
        new_tools = tuple(tools)
        async with self._updating:
            if is_current(self._state.words, new_tools):
                return
            # The queue writes to the arrays of the state that is about to be replaced.
            await self._filler.pause()
            restored = None if self._state.words.keys else await self._words.read(new_tools)
            words = (
                restored.words
                if restored
                else await anyio.to_thread.run_sync(
                    build_state, self._state.words, new_tools, self._options.lexical
                )
            )
            vectors = await self._filler.align_vectors(
                self._state.vectors,
                words.tools,
                words.size,
                elsewhere=len(new_tools) > self._options.database_above,
                texts=restored.texts if restored else None,
            )
            if vectors is not None and self._background is None:
                self._background = await background_vectors(self._embedder)
                self._typical = await typical_requests(self._embedder)
            self._state = await anyio.to_thread.run_sync(state_of, words, vectors, self._state)
            self._words.changed(words, vectors)
            if vectors is not None:
                await self._fill(vectors)

    async def _fill(self, vectors: ToolVectors) -> None:
        await self._filler.start(
            vectors,
            self._grown,
            wait_s=self._options.embedding_wait_s,
            slots=self._state.words.slots,
        )

    async def _grown(self, vectors: ToolVectors) -> None:
        """Update the state after more tools got their vectors."""
        state = self._state
        # For a small index, a new state costs less than starting a thread.
        if len(state.words.keys) < FIRST_LOOK_FROM:
            self._state = state_of(state.words, vectors, state)
            return
        filled, n_embedded = np.count_nonzero(vectors.there), len(state.words.keys) - state.missing
        if filled < len(vectors.there) and filled < n_embedded * _GROWTH:
            return
        # Existing heads are reused: `with_heads` then adds only missing ones.
        if state.vectors is not None and vectors.heads is None:
            vectors = replace(vectors, heads=state.vectors.heads)
        self._state = await anyio.to_thread.run_sync(state_of, state.words, vectors, state)

    async def aclose(self) -> None:
        """Stop computing vectors, and write pending data."""
        await self._asked.aclose()
        await self._filler.aclose()
        await self._words.aclose()

    async def ready(self) -> None:
        """Wait until every tool has its vector."""
        await self._filler.ready()

    async def wait_until_saved(self) -> None:
        """Wait until every tool has its vector, and all are in the store."""
        await self._filler.wait_until_saved()

    # ------------------------------------------------------------------ maintenance

    async def index_status(self) -> Json:
        """Return the status of the index: model, tools, vectors, backlog, counters."""
        state, space, counts = self._state, self._filler.space, await self._vector_cache.counts()
        slot: Json = {
            "is_there": self._vector_cache.is_there,
            "is_failing": self._vector_cache.is_failing,
            "notice": self._vector_cache.notice,
            **({} if counts is None else vars(counts)),
        }
        return {
            "model": space.model if space else None,
            "dim": space.dim if space else None,
            "tools": len(self.keys),
            "vectors": len(self.keys) - state.missing,
            "backlog": max(state.missing, self._filler.left),
            "phase": self._filler.phase,
            "servers": per_server(state),
            "kept": slot,
            "last_error": self.metrics.last_error or None,
            "last_error_at": self.metrics.last_error_at or None,
            "counted": self.metrics.as_json(),
        }

    async def refresh(self, servers: Collection[str] | None) -> int:
        """Recompute vectors; existing ones are used until then. Return the number of tools."""
        async with self._updating:
            state = self._state
            if state.vectors is None:
                return 0
            await self._filler.stop()
            slots = slots_of(state, servers)
            self._vector_cache.remember(servers)
            self._filler.distrust(state.vectors, slots.tolist())
            await self._fill(state.vectors)
            return len(slots)

    async def forget(self, server: str) -> int:
        """Delete what is stored of a server; what is in memory stays in use."""
        await self._words.forget()
        return await self._vector_cache.forget(server)

    # ------------------------------------------------------------------ searching

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the tools that fit best."""
        if request.weights:
            return await self._weighed(request.weights).search(replace(request, weights={}))
        started = perf_counter()
        state = self._state
        key = self._answered.key_of(request)
        if (cached := self._answered.get(state, key)) is not None:
            answer = replace(cached, duration_ms=(perf_counter() - started) * 1000)
            self.metrics.answers_kept += 1
            self.metrics.searched(answer.duration_ms)
            return answer
        if not are_languages_loaded():
            await anyio.to_thread.run_sync(load_languages)
        allowed, searched, notices = allowed_by(state.words, request)
        model = "" if state.vectors is None else self._embedder.identity
        fallback = ""
        hits: list[Hit] = []
        read: list[SearchedQuery] = []
        if searched:
            hits, query_notices, read, fallback = await self._search_all(
                state, request, allowed, searched, model
            )
            notices += [notice for notice in query_notices if notice not in notices]
        elif not notices:
            notices.append("There is no tool to search.")
        duration_ms = (perf_counter() - started) * 1000
        self.metrics.searched(duration_ms)
        self.metrics.fallbacks += bool(fallback)
        has_vectors = any(asked.vector is not None for asked in read)
        answer = SearchAnswer(
            hits=tuple(hits),
            fit=best_fit(asked.fit for asked in read) if hits else "none",
            notices=tuple(notices),
            searched=searched,
            fallback=f"hybrid: {fallback}" if fallback else "",
            queries=tuple(read),
            model=model if has_vectors else "",
            duration_ms=duration_ms,
        )
        # An answer without meaning is not cached: the next one may have its vectors.
        if state.vectors is not None and not self._asked.trouble and not fallback:
            self._answered.put(state, key, answer)
        return answer

    def _weighed(self, weights: Mapping[str, float]) -> "HybridSearch":
        """Return the same index with other weights; its answers are not cached.

        Raises:
            OptionError: A weight does not exist, or is out of range.
        """
        for name, value in weights.items():
            if name not in WEIGHTS:
                raise unfit("weights", name, ", ".join(WEIGHTS))
            if not isfinite(value):
                raise unfit(name, value, "0 to 1")
        # A shallow copy: index, caches and counters are shared, only the weights differ.
        other = copy(self)
        other._options = replace(self._options, **weights)  # noqa: SLF001 - one of our own
        other._answered = AnswerCache(max_entries=0, ttl_s=0)  # noqa: SLF001
        return other

    def vectors(self) -> NDArray[np.float32] | None:
        """Return the tools' vectors in the order of `keys`, 0 if missing; None without any."""
        state = self._state
        if state.vectors is None or state.missing == len(state.words.keys) or state.is_elsewhere:
            return None
        rows = state.vectors.of_tool
        if state.words.slots is not None:
            rows = rows[state.words.slots]
        return state.vectors.rows[rows]

    async def _vectors_of(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]] | None:
        """Embed texts, or their English translations if the model reads only English."""
        readings = {text: text for text in texts}
        if self._options.script_gate and self._reads == "english":
            translations = {text: in_english(text) for text in texts}
            readings |= {
                text: english.all_meanings for text, english in translations.items() if english
            }
        vectors = await self._asked.vectors_of(list(readings.values()))
        if vectors is None:
            return None
        return {text: vectors[reading] for text, reading in readings.items()}

    def _meanings(self, vectors: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        """Move the vectors of short requests towards the tools that similar requests need."""
        typical = self._typical
        if typical is None or not self._options.typical_requests:
            return vectors
        return {
            text: typical.meaning(text, vector)
            if readable_share(text) >= _ENGLISH or in_english(text)
            else vector
            for text, vector in vectors.items()
        }

    async def _search_all(
        self,
        state: HybridState,
        request: SearchRequest,
        allowed: NDArray[np.bool_] | None,
        searched: int,
        model: str,
    ) -> tuple[list[Hit], list[str], list[SearchedQuery], str]:
        notices: list[str] = []
        fallback = ""
        written = [query.strip() for query in request.queries if query.strip()]
        if not written:
            return [], ["The query is empty. Say in a few words what the tool should do."], [], ""
        if len(written) > QUERIES:
            notices.append(f"Only the first {QUERIES} of {len(written)} queries were searched.")
        queries = [query[:QUERY_CHARS] for query in written[:QUERIES]]
        if any(len(query) > QUERY_CHARS for query in written[:QUERIES]):
            notices.append(f"Only the first {QUERY_CHARS} characters of a query were searched.")
        texts = {query: without_values(state.words, query) for query in queries}
        parts = {query: clauses_of(text, self._options.clauses) for query, text in texts.items()}
        context = request.context.strip()[:QUERY_CHARS]
        context = context if self._options.context_weight else ""
        vectors: dict[str, NDArray[np.float32]] | None = {}
        if state.vectors is not None and self._options.dense_weight:
            # Learning uses the original request: its values distinguish tasks.
            asked = [text for query in queries for text in (query, texts[query], *parts[query])]
            vectors = await self._vectors_of([*asked, *([context] if context else [])])
        if vectors is None or state.vectors is None:
            trouble = self._asked.trouble or "cannot be used; the log of the gateway says why"
            fallback = f"the embedder {trouble}"
            notices.append(f"Searched by words alone: {fallback}.")
        elif missing := state.missing:
            if missing < len(state.words.keys):
                self.metrics.partly += 1
            else:
                fallback = "no tool has a vector yet"
            notices.append(
                f"{missing} tools were searched by words alone: their vectors are being computed."
            )
        own_vectors = vectors or {}
        vectors = self._meanings(own_vectors)
        if vectors:
            self._reads = self._embedder.reads  # it has answered, so its files are read
        if vectors and state.is_elsewhere:
            near = await self._vector_cache.near(
                state, vectors, allowed, timeout_s=self._options.database_timeout_s
            )
            if near is None:
                fallback = "the store of vectors did not answer"
                notices.append(f"Searched by words alone: {fallback}.")
            state = near or state
        ranker = HybridRanker(self._options, model, self._reads, self._background)
        builder = HitBuilder(self._options, model, self._calibration, self._typical)
        fitting: list[list[Hit]] = []
        weak: list[list[Hit]] = []
        read: list[SearchedQuery] = []
        for query in queries:
            text = texts[query]
            reading = QueryTexts(
                query, text, tuple(parts[query]), context, own_vectors.get(query), own_vectors
            )
            async with self._turn:
                ranking = ranker.rank(state, reading, vectors, request, allowed)
            async with self._turn:
                hits, fit, notice = builder.build(state, ranking, allowed, request, searched)
            (weak if fit == "none" else fitting).append(hits)
            margin = hits[0].fields.get("margin") if hits else None
            searched_query = SearchedQuery(
                query=query, vector=reading.vector, margin=margin, fit=fit, notice=notice
            )
            if notice and len(request.queries) > 1:
                searched_query = replace(searched_query, notice=searched_query.label + notice)
            if notice:
                notices.append(searched_query.notice)
            read.append(searched_query)
        # Weak hits come after all that fit: a step without a tool displaces nothing.
        return interleave_hits(fitting, request.limit, then=weak), notices, read, fallback


_: type[SearchStrategy] = HybridSearch
_index: type[VectorIndex] = HybridSearch
