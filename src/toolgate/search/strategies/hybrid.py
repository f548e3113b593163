"""Hybrid search: words and meaning, as a weighted sum of both scores.

Meaning is the cosine between the vectors of request and tool, words are those of `bm25`. A request
of several steps is cut into clauses by rules, since each step needs a tool of its own. Names given
exactly come first, then quoted strings, then the rest. Vectors of tools are computed in the
background; where one is missing, and whenever the embedder fails, words alone decide.

How the weights were chosen and what each part is worth: `docs/search.md`.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, isfinite
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.base.ranges import check_ranges, unfit
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
from toolgate.search.lexical.clauses import clauses_of, readable_share
from toolgate.search.lexical.index import build_state, is_current
from toolgate.search.lexical.matches import (
    exact_matches,
    explanation_of,
    matched_words,
    positions_with_quotes,
    quoted_strings,
)
from toolgate.search.lexical.query import (
    QUERIES,
    QUERY_CHARS,
    ParsedQuery,
    coverage,
    no_match_notice,
    parse_query,
)
from toolgate.search.lexical.ranking import (
    allowed_by,
    best_positions,
    highest_scores,
    interleave_hits,
)
from toolgate.search.lexical.weights import WordWeights
from toolgate.search.lexical_cache import LexicalCache
from toolgate.search.relevance.background_similarity import background_vectors
from toolgate.search.relevance.calibration import (
    COMPETITORS,
    Evidence,
    read_calibration,
    rivals_of,
)
from toolgate.search.relevance.usage_votes import (
    UsageBoost,
    UsageWeights,
    apply_usage,
    mix_in_unboosted,
)
from toolgate.search.semantic.embedding_queue import EmbeddingQueue
from toolgate.search.semantic.first_stage import (
    DECIMALS,
    FIRST_LOOK_FROM,
    Cosines,
    HybridState,
    TextScores,
    cosines_of,
    exact_at,
    score_text,
    state_of,
)
from toolgate.search.semantic.index_maintenance import VectorIndex, per_server, slots_of
from toolgate.search.semantic.metrics import CountingEmbedder, SearchMetrics
from toolgate.search.semantic.query_vectors import QueryVectors
from toolgate.search.semantic.server_scores import nearness
from toolgate.search.semantic.tool_vectors import ToolVectors
from toolgate.search.semantic.vector_cache import VectorCache
from toolgate.search.tokenizer import fold
from toolgate.store.vectors import VectorStore
from toolgate.types import Json

__all__ = ["HybridSearch", "Options", "build"]

# Three tiers of scores: the weighted sum in (0, 1], the same and a quoted string, a name.
_PHRASE = 2.0
_EXACT = 4.0
_SURE = 0.9
"""Relevance of a tool that has the quoted text, at least; it fits wherever the line is."""
_WEAK_MOST = 0.39
"""Relevance of a tool that is listed although nothing fits, at most."""
_WEAKER = 2.0
"""Half a cosine further below the line it is a third of that."""
_WORKED = 0.5
"""Trust times share from which a tool fits because it worked for a request like this one."""
_FIRST = 2_000
"""Tools of a large index that are looked at whole, the best at first look."""
_GROWTH = 1.25
"""How much larger the part with vectors is before a large index is searched by it."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[search.options.hybrid]`."""

    dense_weight: float = 0.65
    """Weight of meaning in the sum; words have the rest. 0 to 1."""

    clause_weight: float = 0.7
    """Weight of the best clause in a request of several; the whole request has the rest. 0 to 1."""

    clauses: int = 12
    """Most clauses of a request that are searched by themselves; 0 to 32, 0 never cuts."""

    script_gate: bool = True
    """Whether meaning and servers count less where the model cannot read the request; of models for
    many languages it is taken that they can."""

    server_weight: float = 0.25
    """Weight of how near a tool's server is, by the mean of its tools, beside the sum. 0 to 1."""

    context_weight: float = 0.2
    """Weight of `context`; it shifts ranks and adds no tool. 0 to 1."""

    embed_timeout_s: float = 0.3
    """Seconds that the embedder gets for a request; then words alone decide. 0.01 to 60."""

    cooldown_s: float = 10.0
    """Seconds without asking the embedder after it failed three times in a row; 0 to 3,600."""

    embedding_wait_s: float = 0.25
    """Seconds that new tools may wait for their vectors before they are searched by words; 0 to
    60."""

    database_above: int = 1_500_000
    """Catalogs of more tools are searched by meaning where their vectors are kept, and not in
    memory; 0 to 1,000,000,000. It pays with `pgvector`: SQLite looks at every vector."""

    database_timeout_s: float = 2.0
    """Seconds that this place gets for a request; then words alone decide. 0.01 to 60."""

    cached_queries: int = 1_000
    """Vectors of requests that are kept; 0 to 100,000."""

    cache_ttl_s: float = 300.0
    """Seconds that each of them is kept; 0 to 86,400."""

    cached_answers: int = 256
    """Whole answers that are kept as long; 0 to 10,000."""

    lexical: WordWeights = field(default_factory=WordWeights)
    """How words count."""

    usage: UsageWeights = field(default_factory=UsageWeights)
    """How earlier use counts."""

    def __post_init__(self) -> None:
        ranges: dict[str, tuple[float, float]] = {
            "dense_weight": (0, 1),
            "clause_weight": (0, 1),
            "clauses": (0, 32),
            "server_weight": (0, 1),
            "context_weight": (0, 1),
            "embed_timeout_s": (0.01, 60),
            "cooldown_s": (0, 3_600),
            "embedding_wait_s": (0, 60),
            "database_above": (0, 1_000_000_000),
            "database_timeout_s": (0.01, 60),
            "cached_queries": (0, 100_000),
            "cache_ttl_s": (0, 86_400),
            "cached_answers": (0, 10_000),
        }
        check_ranges(self, ranges)


def build(
    options: Options,
    *,
    embedder: Embedder,
    vectors: VectorStore | None = None,
    index_file: Path | None = None,
) -> "HybridSearch":
    """A hybrid search with an empty index.

    Without `vectors` each start computes them anew; without `index_file`, a path that it puts
    something to its own name, each start reads the words of all tools.
    """
    return HybridSearch(options, embedder, vectors, index_file)


class _Ranking(NamedTuple):
    """A request scored over tools."""

    query: str
    asked: ParsedQuery
    slots: NDArray[np.int64] | None
    """The places that were looked at; None: all of them."""
    scores: NDArray[np.float32]
    parts: tuple[TextScores, ...]
    lift: UsageBoost
    """What earlier use did to the scores."""
    common: tuple[float, ...] = ()
    """How near each part is to what tools do in general; empty: nobody knows."""


_UNLIFTED = UsageBoost()


class HybridSearch:
    """Ranks tools by meaning and words. `relevance` is a calibrated probability."""

    def __init__(
        self,
        options: Options,
        embedder: Embedder,
        vectors: VectorStore | None = None,
        index_file: Path | None = None,
    ) -> None:
        self._options = options
        self._embedder = embedder
        self.metrics = SearchMetrics()
        """What is counted while it runs."""
        self._calibration = read_calibration()
        self._yardstick: NDArray[np.float32] | None = None
        self._reads: Reads = "english"
        self._state = HybridState()
        self._updating = anyio.Lock()
        counting = CountingEmbedder(embedder, self.metrics)
        self._vector_cache = VectorCache(vectors, self.metrics)
        self._filler = EmbeddingQueue(counting, self._vector_cache, self.metrics)
        self._words = LexicalCache(index_file, options.lexical)
        self._asked = QueryVectors(
            counting,
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
        """Tools that have no vector yet."""
        return self._state.missing

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Make these the tools of the index; only new and changed ones are read and embedded."""
        new_tools = tuple(tools)
        async with self._updating:
            if is_current(self._state.words, new_tools):
                return
            await self._filler.stop()
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
            if vectors is not None and self._yardstick is None:
                self._yardstick = await background_vectors(self._embedder)
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
        """More tools have their vectors."""
        state = self._state
        if len(state.words.keys) < FIRST_LOOK_FROM:
            self._state = state_of(state.words, vectors, state)
            return
        filled, n_embedded = np.count_nonzero(vectors.there), len(state.words.keys) - state.missing
        if filled < len(vectors.there) and filled < n_embedded * _GROWTH:
            return
        if state.vectors is not None and vectors.heads is None:
            vectors = replace(vectors, heads=state.vectors.heads)
        self._state = await anyio.to_thread.run_sync(state_of, state.words, vectors, state)

    async def aclose(self) -> None:
        """Stop computing vectors."""
        await self._filler.aclose()
        await self._words.aclose()

    async def ready(self) -> None:
        """Wait until every tool has its vector."""
        await self._filler.ready()

    async def wait_until_saved(self) -> None:
        """Wait until every tool has its vector, and all is written where it is kept."""
        await self._filler.wait_until_saved()

    # ------------------------------------------------------------------ upkeep

    async def index_status(self) -> Json:
        """How the index stands: model, tools, vectors, backlog, what was counted."""
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
        """Compute vectors anew; those that are there serve until then."""
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
        """Remove what is kept of a server; what is in memory serves on."""
        await self._words.forget()
        return await self._vector_cache.forget(server)

    # ------------------------------------------------------------------ searching

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The tools that fit best."""
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
        allowed, searched, notices = allowed_by(state.words, request)
        fallback = ""
        hits: list[Hit] = []
        read: list[SearchedQuery] = []
        if searched:
            hits, query_notices, read, fallback = await self._search_all(
                state, request, allowed, searched
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
            notices=tuple(notices),
            searched=searched,
            fallback=f"hybrid: {fallback}" if fallback else "",
            queries=tuple(read),
            model=self._embedder.identity if has_vectors else "",
            duration_ms=duration_ms,
        )
        if state.vectors is not None and not self._asked.trouble and not fallback:
            self._answered.put(state, key, answer)
        return answer

    def _weighed(self, weights: Mapping[str, float]) -> "HybridSearch":
        """The same index, seen with other weights; its answers are not kept.

        Raises:
            OptionError: One does not exist, or is outside its range.
        """
        for name, value in weights.items():
            if name not in WEIGHTS:
                raise unfit("weights", name, ", ".join(WEIGHTS))
            if not isfinite(value):
                raise unfit(name, value, "0 to 1")
        other = copy(self)
        other._options = replace(self._options, **weights)  # noqa: SLF001 - one of our own
        other._answered = AnswerCache(max_entries=0, ttl_s=0)  # noqa: SLF001
        return other

    def vectors(self) -> NDArray[np.float32] | None:
        """Of the tools in the order of `keys`, 0 where one is missing; None: no tool has one."""
        state = self._state
        if state.vectors is None or state.missing == len(state.words.keys) or state.is_elsewhere:
            return None
        rows = state.vectors.of_tool
        if state.words.slots is not None:
            rows = rows[state.words.slots]
        return state.vectors.rows[rows]

    # ------------------------------------------------------------------ ranking

    async def _search_all(
        self,
        state: HybridState,
        request: SearchRequest,
        allowed: NDArray[np.bool_] | None,
        searched: int,
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
        parts = {query: clauses_of(query, self._options.clauses) for query in queries}
        context = request.context.strip()[:QUERY_CHARS]
        context = context if self._options.context_weight else ""
        vectors: dict[str, NDArray[np.float32]] | None = {}
        if state.vectors is not None and self._options.dense_weight:
            texts = [text for query in queries for text in (query, *parts[query])]
            vectors = await self._asked.vectors_of([*texts, *([context] if context else [])])
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
        vectors = vectors or {}
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
        fitting: list[list[Hit]] = []
        weak: list[list[Hit]] = []
        read: list[SearchedQuery] = []
        for query in queries:
            texts = _Texts(query, tuple(parts[query]), context)
            ranking = self._ranked(state, texts, vectors, request, allowed)
            hits, fits, notice = self._hits(state, ranking, allowed, request, searched)
            (fitting if fits else weak).append(hits)
            margin = hits[0].fields.get("margin") if hits else None
            read.append(
                SearchedQuery(query=query, vector=vectors.get(query), margin=margin, fits=fits)
            )
            if notice:
                several = len(request.queries) > 1
                notices.append(f"{query[:60]!r}: {notice}" if several else notice)
        # What does not fit comes after all that does: a step without a tool pushes nothing out.
        return interleave_hits(fitting, request.limit, then=weak), notices, read, fallback

    def _ranked(
        self,
        state: HybridState,
        texts: "_Texts",
        vectors: dict[str, NDArray[np.float32]],
        request: SearchRequest,
        allowed: NDArray[np.bool_] | None,
    ) -> _Ranking:
        words = state.words
        asked = [parse_query(words, text) for text in texts.all]
        raised = self._raised(state, request)
        if not asked[0].terms and not asked[0].unknown:
            # Words such as "what is the" are near to everything and mean nothing.
            silent = _silent(words.size)
            scores = self._combined([silent], _Texts(texts.query, (), ""), raised, None)
            return _Ranking(texts.query, asked[0], None, scores, (silent,), _UNLIFTED)
        votes = self._votes(state, texts.query, vectors, request)
        shares = [coverage(words, parsed) for parsed in asked]
        cosines = self._cosines(state, texts, vectors)
        looks = self._looks(state, texts, shares, cosines, vectors, None)
        scores = self._combined(looks, texts, raised, None)
        slots = None
        if state.vectors is not None and state.vectors.heads is not None:
            sure = [
                *raised,
                *votes,
                *exact_matches(words, texts.query, quoted_strings(texts.query)),
            ]
            slots = _first(scores, allowed, sure)
            whole = self._cosines_at(state, slots, texts, vectors, cosines)
            looks = self._looks(state, texts, shares, whole, vectors, slots)
            scores = self._combined(looks, texts, raised, slots)
        clauses = looks[: len(texts.parts)]
        siblings = _servers_used(state, request, slots)
        lift = _UNLIFTED
        if votes or siblings is not None:
            usage = self._options.usage
            scores, lift = apply_usage(scores, votes, usage, slots=slots, siblings=siblings)
        common = self._common(clauses, texts, vectors)
        return _Ranking(texts.query, asked[0], slots, scores, tuple(clauses), lift, common)

    def _common(
        self,
        parts: Sequence[TextScores],
        texts: "_Texts",
        vectors: dict[str, NDArray[np.float32]],
    ) -> tuple[float, ...]:
        """How near each part is to what tools do in general; empty: nobody knows."""
        if self._yardstick is None:
            return ()
        return tuple(
            0.0 if part.cosines is None else float((self._yardstick @ vectors[text]).max())
            for part, text in zip(parts, texts.parts, strict=True)
        )

    def _readable(self, text: str) -> float:
        """How far the model can read a text, in [0, 1]."""
        is_gated = self._options.script_gate and self._reads == "english"
        return readable_share(text) if is_gated else 1.0

    def _looks(
        self,
        state: HybridState,
        texts: "_Texts",
        shares: Sequence[NDArray[np.float32]],
        cosines: Sequence[Cosines | None],
        vectors: dict[str, NDArray[np.float32]],
        slots: NDArray[np.int64] | None,
    ) -> list[TextScores]:
        """Each text scored over all places, or over some; servers count where they are few."""
        options, servers = self._options, state.servers
        large = state.vectors is not None and state.vectors.heads is not None
        there = state.there if slots is None or state.there is None else state.there[slots]
        owners = state.words.servers[: state.words.size]
        if slots is not None:
            owners = owners[slots]
        scored: list[TextScores] = []
        for text, share, cosine in zip(texts.all, shares, cosines, strict=True):
            readable = self._readable(text)
            near = None
            counts = options.server_weight > 0 and not (large and slots is None)
            if servers is not None and cosine is not None and counts:
                near = nearness(servers, owners, vectors[text], few=slots is not None)
            scored.append(
                score_text(
                    share if slots is None else share[slots],
                    float(np.maximum.reduce(share, initial=0.0)),
                    cosine,
                    options.dense_weight * readable,
                    there,
                    near,
                    options.server_weight * readable,
                )
            )
        return scored

    def _cosines(
        self, state: HybridState, texts: "_Texts", vectors: dict[str, NDArray[np.float32]]
    ) -> list[Cosines | None]:
        """Of each text; None where words alone decide."""
        if state.is_elsewhere:
            near = state.near or {}
            return [near.get(text) if self._readable(text) > 0 else None for text in texts.all]
        query_vectors = {
            at: vectors[text]
            for at, text in enumerate(texts.all)
            if text in vectors and vectors[text].any() and self._readable(text) > 0
        }
        cosines = dict(
            zip(query_vectors, cosines_of(state, list(query_vectors.values())), strict=True)
        )
        return [cosines.get(at) for at in range(len(texts.all))]

    def _cosines_at(
        self,
        state: HybridState,
        slots: NDArray[np.int64],
        texts: "_Texts",
        vectors: dict[str, NDArray[np.float32]],
        rough: Sequence[Cosines | None],
    ) -> list[Cosines | None]:
        """The same at some places, exactly."""
        readable = [at for at, cosine in enumerate(rough) if cosine is not None]
        values = exact_at(state, slots, [vectors[texts.all[at]] for at in readable])
        by_text = dict(zip(readable, values, strict=True))
        return [
            None if cosine is None else _highest_of(cosine, by_text[at])
            for at, cosine in enumerate(rough)
        ]

    def _combined(
        self,
        looks: Sequence[TextScores],
        texts: "_Texts",
        raised: dict[int, float],
        slots: NDArray[np.int64] | None,
    ) -> NDArray[np.float32]:
        """The scores of a request from those of its parts."""
        scores = looks[0].sums
        if texts.clauses:
            weight = np.float32(self._options.clause_weight)
            best = np.maximum.reduce([part.sums for part in looks[1 : len(texts.parts)]])
            scores = (1 - weight) * scores + weight * best
        scores = scores.round(DECIMALS)
        for slot, prior in raised.items():
            at = slot if slots is None else int(slots.searchsorted(slot))
            scores[at] = min(1.0, scores[at] + prior)
        if texts.context:
            weight = self._options.context_weight
            mixed = (scores + np.float32(weight) * looks[-1].sums) / np.float32(1 + weight)
            # What scored nothing goes on scoring nothing.
            scores = np.where(scores > 0, np.round(mixed, DECIMALS), 0)
        return scores

    def _votes(
        self,
        state: HybridState,
        query: str,
        vectors: dict[str, NDArray[np.float32]],
        request: SearchRequest,
    ) -> dict[int, float]:
        """What earlier requests say about single places: trust times share."""
        usage = self._options.usage
        if request.learned is None or query not in vectors or not usage.weight:
            return {}
        votes = request.learned.votes(vectors[query], self._embedder.identity, usage)
        return {
            slot: votes.trust * share
            for key, share in votes.shares.items()
            if votes.trust > 0
            for rank, slot in state.words.slots_named(fold(key))
            if rank == 0
        }

    def _raised(self, state: HybridState, request: SearchRequest) -> dict[int, float]:
        """What is added to the scores of single places."""
        return {
            slot: max(0.0, prior)
            for key, prior in request.priors.items()
            for rank, slot in state.words.slots_named(fold(key))
            if rank == 0
        }

    # ------------------------------------------------------------------ hits

    def _hits(
        self,
        state: HybridState,
        ranking: _Ranking,
        allowed: NDArray[np.bool_] | None,
        request: SearchRequest,
        searched: int,
    ) -> tuple[list[Hit], bool, str]:
        """The hits of one query, whether they fit, and what is to be said."""
        words, query, slots = state.words, ranking.query, ranking.slots
        scores = ranking.scores
        if allowed is not None:
            scores = scores * (allowed if slots is None else allowed[slots])
        elif scores is ranking.scores:
            scores = scores.copy()
        quoted = quoted_strings(query)
        for at in positions_with_quotes(words, scores, query, quoted, slots):
            scores[at] += _PHRASE
        for slot, rank in exact_matches(words, query, quoted).items():
            if allowed is None or allowed[slot]:
                at = slot if slots is None else int(slots.searchsorted(slot))
                scores[at] = _EXACT + 1 - rank / 10
        rivals = best_positions(words, scores, max(request.limit, COMPETITORS), slots)
        best = rivals[: request.limit]
        if ranking.lift.before:
            plain = ranking.lift.without(scores, below=_PHRASE)
            hit_evidence = best_positions(words, plain, request.limit, slots)
            best = mix_in_unboosted(best, hit_evidence, self._options.usage.explore)
        slots_shown = best if slots is None else slots[best].tolist()
        matched = matched_words(words, slots_shown, ranking.asked)
        word_shares = [match.share for match in matched]
        evidence = self._evidence(state, ranking, best, rivals, word_shares, searched)
        hits: list[Hit] = []
        highest_scores = 1.0
        for at, slot, match, hit_evidence in zip(best, slots_shown, matched, evidence, strict=True):
            # The order is that of relevance: none is higher than the one before it.
            score = float(scores[at])
            hit = self._hit(
                state, ranking, at, slot, match.words, score, hit_evidence, highest_scores
            )
            hits.append(hit)
            highest_scores = hit.relevance
        if not hits:
            return [], False, no_match_notice(ranking.asked)
        shift = 0.0
        if request.learned is not None and state.vectors is not None:
            shift = request.learned.line.shift(self._embedder.identity)
        if shift:
            hits = [replace(hit, fields={**hit.fields, "line_shift": shift}) for hit in hits]
        fits = _fits(hits[0], shift)
        if not fits:
            below = hits[0].fields["margin"] - shift
            ceiling = round(_WEAK_MOST * exp(_WEAKER * min(0.0, below)), 4)
            hits = [
                replace(
                    hit,
                    relevance=min(ceiling, hit.relevance),
                    fields={**hit.fields, "weak": True},
                )
                for hit in hits
            ]
        above = [hit for hit in hits if hit.relevance >= request.threshold]
        if not above:
            return (
                [],
                False,
                (
                    f"No tool reaches the relevance of {request.threshold:g} that was asked for. "
                    "Ask with a lower threshold."
                ),
            )
        if fits:
            return above, True, ""
        return (
            above,
            False,
            (
                "Nothing fits well: these are the nearest tools, all of them weak. "
                "Say it in other words, or name the kind of thing that is needed."
            ),
        )

    def _evidence(
        self,
        state: HybridState,
        ranking: _Ranking,
        best: Sequence[int],
        rivals: Sequence[int],
        word_shares: Sequence[float],
        searched: int,
    ) -> list[Evidence]:
        """What speaks for each of the best, compared with its rivals."""
        plain = ranking.scores
        if ranking.lift.before:
            plain = ranking.lift.without(plain, below=_PHRASE)
        if not best:
            return []
        reached: list[float] = plain[rivals].tolist()
        scores: list[float] = plain[best].tolist()
        shares: list[float] = _highest_at(best, [part.shares for part in ranking.parts]).tolist()
        first = max(reached)
        among = rivals[:COMPETITORS]
        equals = rivals_of(reached[:COMPETITORS])
        cosines = _cosines_of(state, ranking, [*among, *best])
        near = [cosine for cosine in cosines[: len(among)] if cosine is not None]
        nearest, ahead = max(near, default=0.0), _ahead(ranking, among)
        asked = len(ranking.asked.terms) + len(ranking.asked.unknown)
        return [
            Evidence(
                cosine=cosine,
                covered=covered,
                gap=max(0.0, first - score),
                rivals=equals,
                word_share=share,
                words=asked,
                n_words=max(asked, ranking.asked.n_words),
                behind=0.0 if cosine is None else max(0.0, nearest - cosine),
                tools=searched,
                ahead=ahead,
            )
            for cosine, covered, score, share in zip(
                cosines[len(among) :], shares, scores, word_shares, strict=True
            )
        ]

    def _hit(
        self,
        state: HybridState,
        ranking: _Ranking,
        at: int,
        slot: int,
        matched: dict[str, list[str]],
        score: float,
        evidence: Evidence,
        highest_scores: float,
    ) -> Hit:
        tool = state.words.tools[slot]
        if score >= _EXACT:
            return Hit(
                key=tool.key,
                relevance=1.0,
                explanation="has exactly this name",
                fields={"query": ranking.query[:200]},
                source="exact",
            )
        relevance = ranking.lift.relevance(slot, self._calibration.relevance(evidence))
        reasons = [explanation_of(matched)] if matched else []
        if evidence.cosine is not None:
            reasons.append(f"similar in meaning ({evidence.cosine:.2f})")
        if score >= _PHRASE:
            relevance = max(relevance, _SURE)
            reasons.insert(0, "has the quoted text")
        if used := ranking.lift.reason(slot):
            reasons.insert(0, used)
        part = ranking.parts[0]
        if len(ranking.parts) > 1:
            part = max(ranking.parts, key=lambda part: float(part.sums[at]))
        by_meaning = part.dense is not None and 2 * part.dense[at] > part.sums[at]
        fields: dict[str, object] = {
            "query": ranking.query[:200],
            "matched": matched,
            "cosine": evidence.cosine,
            "covered": round(evidence.covered, 4),
            "found": round(evidence.word_share, 4),
            "words": evidence.words,
            "said": evidence.n_words,
            "ahead": None if evidence.ahead is None else round(evidence.ahead, 4),
            "rivals": round(evidence.rivals, 4),
            "margin": round(self._calibration.margin(evidence), 4),
            "score": round(float(ranking.scores[at]), 4),
            **ranking.lift.fields(slot),
            **({"quoted": True} if score >= _PHRASE else {}),
        }
        by = "vector" if by_meaning else "lexical"
        return Hit(
            key=tool.key,
            relevance=min(highest_scores, round(relevance, 4)),
            explanation=", ".join(reasons) or "was suggested",
            fields=fields,
            source="usage" if ranking.lift.is_source(slot) else by,
        )


@dataclass(frozen=True)
class _Texts:
    """What a query is scored by."""

    query: str
    clauses: tuple[str, ...]
    context: str

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The query and its clauses."""
        return (self.query, *self.clauses)

    @cached_property
    def all(self) -> tuple[str, ...]:
        """The same and the context, if there is one."""
        return (*self.parts, self.context) if self.context else self.parts


def _fits(best: Hit, shift: float) -> bool:
    """Whether the best hit fits; `shift` is what use has done to the line."""
    if best.source == "exact" or best.fields.get("usage", 0.0) >= _WORKED:
        return True
    return best.fields["margin"] >= shift or "quoted" in best.fields


def _cosines_of(
    state: HybridState, ranking: _Ranking, positions: Sequence[int]
) -> list[float | None]:
    """Best cosines of the request or one of its clauses; None without a vector."""
    with_vectors = [part.cosines for part in ranking.parts if part.cosines is not None]
    if not with_vectors or not positions:
        return [None for _ in positions]
    best = _highest_at(positions, with_vectors).astype(np.float64).round(4)
    cosines: list[float | None] = best.tolist()
    if state.there is not None:
        at = np.array(positions, np.int64)
        there = state.there[at if ranking.slots is None else ranking.slots[at]]
        cosines = [
            cosine if is_there else None for cosine, is_there in zip(cosines, there, strict=True)
        ]
    return cosines


def _ahead(ranking: _Ranking, positions: Sequence[int]) -> float | None:
    """How much nearer the nearest of some tools is than what tools do in general, at best."""
    at = np.array(positions, np.int64)
    return max(
        (
            float(part.cosines[at].max()) - common
            for part, common in zip(ranking.parts, ranking.common, strict=False)
            if part.cosines is not None
        ),
        default=None,
    )


def _highest_at(
    positions: Sequence[int], values: Sequence[NDArray[np.float32]]
) -> NDArray[np.float32]:
    """The highest of some values, position by position, at a few of them."""
    at = np.array(positions, np.int64)
    if len(values) == 1:
        return values[0][at]
    return np.maximum.reduce([column[at] for column in values])


def _servers_used(
    state: HybridState, request: SearchRequest, slots: NDArray[np.int64] | None
) -> NDArray[np.bool_] | None:
    """Which tools are of servers that the conversation used just now; None: none was."""
    used = {
        int(state.words.servers[slot])
        for key in request.recent
        for rank, slot in state.words.slots_named(fold(key))
        if rank == 0
    }
    if not used:
        return None
    servers = state.words.servers if slots is None else state.words.servers[slots]
    return np.isin(servers, list(used))


def _first(
    rough: NDArray[np.float32], allowed: NDArray[np.bool_] | None, sure: Sequence[int]
) -> NDArray[np.int64]:
    """The places to look at, ascending: the best that are allowed, and those that are sure."""
    if allowed is not None:
        rough = rough * allowed
    best = highest_scores(rough, _FIRST)
    if not sure:
        return best
    slots = np.concatenate([best, np.array(sure, np.int64)])
    slots.sort()
    return slots[np.concatenate([[True], slots[1:] != slots[:-1]])]


def _highest_of(rough: Cosines, values: NDArray[np.float32]) -> Cosines:
    """Cosines at the places that are looked at whole, where the highest is nearly always."""
    return Cosines(values, rough.low, max(rough.high, float(values.max(initial=-1.0))))


def _silent(size: int) -> TextScores:
    """A part that says nothing about any tool."""
    zeros = np.zeros(size, np.float32)
    return TextScores(zeros, None, None, zeros)


_: type[SearchStrategy] = HybridSearch
_index: type[VectorIndex] = HybridSearch
