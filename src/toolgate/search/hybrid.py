"""Hybrid search: words and meaning, as a weighted sum of both scores.

Meaning is the cosine between the vectors of request and tool, words are those of `bm25`. A request
of several steps is cut into clauses by rules, since each step needs a tool of its own. Names given
exactly come first, then quoted strings, then the rest. Vectors of tools are computed in the
background; where one is missing, and whenever the embedder fails, words alone decide.

How the weights were chosen and what each part is worth: `docs/search.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.embed import Embedder
from toolgate.errors import OptionError
from toolgate.search import Hit, SearchableTool, SearchAnswer, SearchRequest, SearchStrategy
from toolgate.search._calibration import Evidence, read_calibration
from toolgate.search._clauses import clauses_of, readable_share
from toolgate.search._filler import Filler
from toolgate.search._lexical import (
    QUERIES,
    QUERY_CHARS,
    QUOTED,
    Asked,
    LexicalState,
    WordWeights,
    allowed_by,
    asked_of,
    best_of,
    build_state,
    covered,
    dealt,
    exact,
    explanation_of,
    is_current,
    matched_words,
    nothing,
    quoting,
)
from toolgate.search._query_vectors import QueryVectors
from toolgate.search._text import fold
from toolgate.search._vectors import ToolVectors

__all__ = ["HybridSearch", "Options", "build"]

# Three tiers of scores: the weighted sum in (0, 1], the same and a quoted string, a name.
_PHRASE = 2.0
_EXACT = 4.0
_QUOTED_RELEVANCE = 0.9
_DECIMALS = 5
"""Digits of a cosine that count: what is beyond depends on the order of a sum."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[search.options.hybrid]`."""

    dense_weight: float = 0.6
    """Weight of meaning in the sum; words have the rest. 0 to 1."""

    clause_weight: float = 0.7
    """Weight of the best clause in a request of several; the whole request has the rest. 0 to 1."""

    clauses: int = 12
    """Most clauses of a request that are searched by themselves; 0 to 32, 0 never cuts."""

    context_weight: float = 0.2
    """Weight of `context`; it shifts ranks and adds no tool. 0 to 1."""

    embed_timeout_s: float = 0.3
    """Seconds that the embedder gets for a request; then words alone decide. 0.01 to 60."""

    rest_s: float = 10.0
    """Seconds without asking the embedder after it failed three times in a row; 0 to 3,600."""

    wait_s: float = 0.25
    """Seconds that new tools may wait for their vectors before they are searched by words; 0 to
    60."""

    cached_queries: int = 1_000
    """Vectors of requests that are kept; 0 to 100,000."""

    lexical: WordWeights = field(default_factory=WordWeights)
    """How words count."""

    def __post_init__(self) -> None:
        ranges = {
            "dense_weight": (0, 1),
            "clause_weight": (0, 1),
            "clauses": (0, 32),
            "context_weight": (0, 1),
            "embed_timeout_s": (0.01, 60),
            "rest_s": (0, 3_600),
            "wait_s": (0, 60),
            "cached_queries": (0, 100_000),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise OptionError(
                    f"Option {name!r} of search 'hybrid' is {value!r}.",
                    allowed=f"Allowed: {low:g} to {high:g}.",
                    hint="Correct it under search.options.hybrid.",
                )


def build(options: Options, *, embedder: Embedder) -> "HybridSearch":
    """A hybrid search with an empty index."""
    return HybridSearch(options, embedder)


@dataclass(frozen=True)
class _State:
    """One state of the index."""

    words: LexicalState = field(default_factory=LexicalState)
    vectors: ToolVectors | None = None
    there: NDArray[np.bool_] | None = None
    """Which tools have a vector; None: all of them."""

    @property
    def missing(self) -> int:
        """Tools without a vector."""
        if self.vectors is None:
            return len(self.words.keys)
        return 0 if self.there is None else int((~self.there).sum())


@dataclass(frozen=True)
class _Part:
    """A request or one of its clauses, scored over all tools."""

    sums: NDArray[np.float32]
    """Weighted sums, in [0, 1]."""
    dense: NDArray[np.float32] | None
    """What the cosine gives to the sum."""
    cosines: NDArray[np.float32] | None
    shares: NDArray[np.float32]
    """Shares of the words that the tools cover."""


@dataclass(frozen=True)
class _Ranking:
    """A request scored over all tools."""

    query: str
    asked: Asked
    scores: NDArray[np.float32]
    parts: tuple[_Part, ...]


class HybridSearch:
    """Ranks tools by meaning and words. `relevance` is a calibrated probability."""

    def __init__(self, options: Options, embedder: Embedder) -> None:
        self._options = options
        self._calibration = read_calibration()
        self._state = _State()
        self._updating = anyio.Lock()
        self._filler = Filler(embedder)
        self._asked = QueryVectors(
            embedder,
            timeout_s=options.embed_timeout_s,
            rest_s=options.rest_s,
            kept=options.cached_queries,
        )

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
        wanted = tuple(tools)
        async with self._updating:
            if is_current(self._state.words, wanted):
                return
            await self._filler.stop()
            words = await anyio.to_thread.run_sync(
                build_state, self._state.words, wanted, self._options.lexical
            )
            vectors, missing = await self._filler.aligned(self._state.vectors, wanted)
            self._state = _state(words, vectors)
            if missing and vectors is not None:
                await self._filler.start(vectors, missing, self._grown, wait_s=self._options.wait_s)

    def _grown(self, vectors: ToolVectors) -> None:
        """More tools have their vectors."""
        self._state = _state(self._state.words, vectors)

    async def aclose(self) -> None:
        """Stop computing vectors."""
        await self._filler.stop()

    async def ready(self) -> None:
        """Wait until every tool has its vector."""
        await self._filler.ready()

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The tools that fit best."""
        started = perf_counter()
        state = self._state
        allowed, notices = allowed_by(state.words, request)
        searched = int(allowed.sum())
        hits: list[Hit] = []
        if searched:
            hits, found = await self._search_all(state, request, allowed)
            notices += [notice for notice in found if notice not in notices]
        elif not notices:
            notices.append("There is no tool to search.")
        return SearchAnswer(
            hits=tuple(hits),
            notices=tuple(notices),
            searched=searched,
            duration_ms=(perf_counter() - started) * 1000,
        )

    # ------------------------------------------------------------------ ranking

    async def _search_all(
        self, state: _State, request: SearchRequest, allowed: NDArray[np.bool_]
    ) -> tuple[list[Hit], list[str]]:
        notices: list[str] = []
        given = [query.strip() for query in request.queries if query.strip()]
        if not given:
            return [], ["The query is empty. Say in a few words what the tool should do."]
        if len(given) > QUERIES:
            notices.append(f"Only the first {QUERIES} of {len(given)} queries were searched.")
        queries = [query[:QUERY_CHARS] for query in given[:QUERIES]]
        if any(len(query) > QUERY_CHARS for query in given[:QUERIES]):
            notices.append(f"Only the first {QUERY_CHARS} characters of a query were searched.")
        parts = {query: clauses_of(query, self._options.clauses) for query in queries}
        context = request.context.strip()[:QUERY_CHARS]
        context = context if self._options.context_weight else ""
        vectors: dict[str, NDArray[np.float32]] | None = {}
        if state.vectors is not None and self._options.dense_weight:
            texts = [text for query in queries for text in (query, *parts[query])]
            vectors = await self._asked.vectors_of([*texts, *([context] if context else [])])
        if vectors is None or state.vectors is None:
            notices.append("Searched by words alone: the embedder did not answer.")
        elif missing := state.missing:
            notices.append(
                f"{missing} tools were searched by words alone: their vectors are being computed."
            )
        vectors = vectors or {}
        background = (
            self._part(state, context, asked_of(state.words, context), vectors) if context else None
        )
        fitting: list[list[Hit]] = []
        weak: list[list[Hit]] = []
        for query in queries:
            ranking = self._ranked(state, query, parts[query], vectors, request)
            if background is not None:
                ranking = _shifted(ranking, background, self._options.context_weight)
            hits, fits, notice = self._hits(state, ranking, allowed, request)
            (fitting if fits else weak).append(hits)
            if notice:
                several = len(request.queries) > 1
                notices.append(f"{query[:60]!r}: {notice}" if several else notice)
        # What does not fit comes after all that does: a step without a tool pushes nothing out.
        return dealt(fitting, request.limit, then=weak), notices

    def _ranked(
        self,
        state: _State,
        query: str,
        clauses: Sequence[str],
        vectors: dict[str, NDArray[np.float32]],
        request: SearchRequest,
    ) -> _Ranking:
        words = state.words
        asked = asked_of(words, query)
        if not asked.found and not asked.unknown:
            # Words such as "what is the" are near to everything and mean nothing.
            parts = (_silent(len(words.keys)),)
        else:
            whole = self._part(state, query, asked, vectors)
            parts = (
                whole,
                *(self._part(state, each, asked_of(words, each), vectors) for each in clauses),
            )
        scores = parts[0].sums
        if len(parts) > 1:
            weight = np.float32(self._options.clause_weight)
            best = np.maximum.reduce([part.sums for part in parts[1:]])
            scores = (1 - weight) * scores + weight * best
        scores = np.round(scores, _DECIMALS)
        for key, prior in request.priors.items():
            for rank, position in words.names.get(fold(key), ()):
                if rank == 0:
                    scores[position] = min(1.0, scores[position] + max(0.0, prior))
        return _Ranking(query, asked, scores, parts)

    def _part(
        self,
        state: _State,
        text: str,
        asked: Asked,
        vectors: dict[str, NDArray[np.float32]],
    ) -> _Part:
        shares = covered(state.words, asked)
        most = shares.max(initial=0.0)
        lexical = np.divide(shares, most, dtype=np.float32) if most > 0 else shares
        weight = self._options.dense_weight * readable_share(text)
        vector = vectors.get(text)
        tools = state.vectors
        if tools is None or vector is None or weight <= 0 or not vector.any():
            return _Part(lexical, None, None, shares)
        cosines = tools.rows @ vector
        np.round(cosines, _DECIMALS, out=cosines)
        if len(cosines) < len(tools.of_tool):
            cosines = cosines[tools.of_tool]
        seen = cosines if state.there is None else cosines[state.there]
        if not len(seen):
            return _Part(lexical, None, None, shares)
        low, high = float(seen.mean(dtype=np.float64)), float(seen.max())
        if high - low < 10**-_DECIMALS:
            return _Part(lexical, None, cosines, shares)
        dense: NDArray[np.float32] = np.maximum(cosines - np.float32(low), 0)
        dense *= np.float32(weight / (high - low))
        sums = np.add(dense, np.float32(1 - weight) * lexical, dtype=np.float32)
        if state.there is not None:
            dense[~state.there] = 0
            sums[~state.there] = lexical[~state.there]
        return _Part(sums, dense, cosines, shares)

    # ------------------------------------------------------------------ hits

    def _hits(
        self,
        state: _State,
        ranking: _Ranking,
        allowed: NDArray[np.bool_],
        request: SearchRequest,
    ) -> tuple[list[Hit], bool, str]:
        """The hits of one query, whether they fit, and what is to be said."""
        words, query = state.words, ranking.query
        scores = np.where(allowed, ranking.scores, np.float32(0))
        quoted = [fold(one or other) for one, other in QUOTED.findall(query)]
        for position in quoting(words, scores, [one for one in quoted if " " in one]):
            scores[position] += _PHRASE
        for position, rank in exact(words, query, quoted).items():
            if allowed[position]:
                scores[position] = _EXACT + 1 - rank / 10
        best = [int(at) for at in best_of(scores, words.order, request.limit)]
        hits: list[Hit] = []
        highest = 1.0
        for at in best:
            # The order is that of relevance: none is higher than the one before it.
            hits.append(self._hit(state, ranking, at, float(scores[at]), highest))
            highest = hits[-1].relevance
        if not hits:
            return [], False, nothing(ranking.asked)
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
        if self._fits(above[0]):
            return above, True, ""
        weak = [replace(hit, fields={**hit.fields, "weak": True}) for hit in above]
        return (
            weak,
            False,
            (
                "Nothing fits well: these are the nearest tools, all of them weak. "
                "Say it in other words, or name the kind of thing that is needed."
            ),
        )

    def _fits(self, best: Hit) -> bool:
        if best.source == "exact":
            return True
        evidence = Evidence(
            cosine=best.fields["cosine"],
            covered=best.fields["covered"],
        )
        return self._calibration.fits(evidence)

    def _hit(self, state: _State, ranking: _Ranking, at: int, score: float, highest: float) -> Hit:
        tool = state.words.reads[at].tool
        if score >= _EXACT:
            return Hit(
                key=tool.key,
                relevance=1.0,
                explanation="has exactly this name",
                fields={"query": ranking.query[:200]},
                source="exact",
            )
        has_vector = state.there is None or bool(state.there[at])
        cosines = [float(part.cosines[at]) for part in ranking.parts if part.cosines is not None]
        cosine = round(max(cosines), 4) if cosines and has_vector else None
        evidence = Evidence(
            cosine=cosine,
            covered=max(float(part.shares[at]) for part in ranking.parts),
        )
        relevance = self._calibration.relevance(evidence)
        matched = matched_words(state.words, state.words.reads[at], ranking.asked)
        said = [explanation_of(matched)] if matched else []
        if cosine is not None:
            said.append(f"similar in meaning ({cosine:.2f})")
        if score >= _PHRASE:
            relevance = max(relevance, _QUOTED_RELEVANCE)
            said.insert(0, "has the quoted text")
        part = max(ranking.parts, key=lambda part: float(part.sums[at]))
        by_meaning = part.dense is not None and 2 * part.dense[at] > part.sums[at]
        fields: dict[str, object] = {
            "query": ranking.query[:200],
            "matched": matched,
            "cosine": evidence.cosine,
            "covered": round(evidence.covered, 4),
            "score": round(float(ranking.scores[at]), 4),
        }
        return Hit(
            key=tool.key,
            relevance=min(highest, round(relevance, 4)),
            explanation=", ".join(said) or "was suggested",
            fields=fields,
            source="vector" if by_meaning else "lexical",
        )


def _state(words: LexicalState, vectors: ToolVectors | None) -> _State:
    there = None if vectors is None or vectors.there.all() else vectors.of_tool_there
    return _State(words, vectors, there)


def _silent(size: int) -> _Part:
    """A part that says nothing about any tool."""
    zeros = np.zeros(size, np.float32)
    return _Part(zeros, None, None, zeros)


def _shifted(ranking: _Ranking, background: _Part, weight: float) -> _Ranking:
    """The ranking with the context mixed in; what scored nothing goes on scoring nothing."""
    mixed = (ranking.scores + np.float32(weight) * background.sums) / np.float32(1 + weight)
    return replace(ranking, scores=np.where(ranking.scores > 0, np.round(mixed, _DECIMALS), 0))


_: type[SearchStrategy] = HybridSearch
