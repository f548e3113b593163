"""Lexical search: BM25 over the words of a tool; its name has the highest weight.

One index has all tools; a mask says for each request which are visible. Exact names
(`server:tool`, `server__tool`, `tool`) come first, then quoted strings, then the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.base.validation import check_ranges
from toolgate.search import Hit, SearchableTool, SearchAnswer, SearchRequest, SearchStrategy
from toolgate.search.index_file import LexicalCache
from toolgate.search.lexical.best_hits import allowed_by, best_positions, interleave_hits
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
    missing_words_notice,
    no_match_notice,
    read_request,
)
from toolgate.search.lexical.state import LexicalState
from toolgate.search.lexical.weights import WordWeights
from toolgate.search.relevance.calibration import Fit
from toolgate.search.tokenizer import fold

_HALF = 0.1
"""Share of a request for which relevance is 0.55; chosen, see `_relevance`."""
_WEAK = 0.15
"""Share of a request below which the best hit is weak; chosen."""

# Three tiers of scores: the share of the request in [0, 1), the same plus a quoted string, a name.
_PHRASE = 1.0
_EXACT = 2.0
"""Above every normalized score, which is at most 1, so that named tools come first."""


@dataclass(frozen=True, kw_only=True)
class Options(WordWeights):
    """Table `[search.options.bm25]`."""

    context_weight: float = 0.2
    """Weight of the words of `context`; they change the order and add no tool. 0 to 100."""

    def __post_init__(self) -> None:
        WordWeights.__post_init__(self)
        check_ranges(self, {"context_weight": (0, 100)})


def build(options: Options, *, index_file: Path | None = None) -> "Bm25Search":
    """Create a search with an empty index; without `index_file`, each start reads all tools."""
    return Bm25Search(options, index_file)


class Bm25Search:
    """Ranks tools by their words.

    `relevance` comes from the share of the request's information (inverse document frequencies)
    that the tool covers, 1 for an exact name. It is monotone in the score within one request, but
    not yet calibrated as a probability.
    """

    def __init__(self, options: Options, index_file: Path | None = None) -> None:
        self._options = options
        self._state = LexicalState()
        self._words = LexicalCache(index_file, options)
        self._updating = anyio.Lock()

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the tools in the index, in the order of the mask."""
        return self._state.keys

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Set the tools of the index; only new and changed ones are read."""
        new_tools = tuple(tools)
        async with self._updating:
            if is_current(self._state, new_tools):
                return
            # Only a start reads the file: later states are based on the one in memory.
            restored = None if self._state.keys else await self._words.read(new_tools)
            self._state = (
                restored.words
                if restored
                else await anyio.to_thread.run_sync(
                    build_state, self._state, new_tools, self._options
                )
            )
            self._words.changed(self._state)

    async def aclose(self) -> None:
        """Write pending changes of the index file."""
        await self._words.aclose()

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the tools that fit best."""
        started = perf_counter()
        state = self._state
        allowed, searched, notices = allowed_by(state, request)
        hits: list[Hit] = []
        if searched:
            fitting: list[list[Hit]] = []
            weak: list[list[Hit]] = []
            queries = [query for query in request.queries if query.strip()]
            for query in queries[:QUERIES]:
                query_hits, notice = self._search_one(state, query, allowed, request)
                is_weak = any(hit.fields.get("weak") for hit in query_hits)
                (weak if is_weak else fitting).append(query_hits)
                if notice and notice not in notices:
                    notices.append(notice)
            if len(queries) > QUERIES:
                notices.append(f"Only the first {QUERIES} of {len(queries)} queries were searched.")
            if not queries:
                notices.append("The query is empty. Say in a few words what the tool should do.")
            hits = interleave_hits(fitting, request.limit, then=weak)
        elif not notices:
            notices.append("There is no tool to search.")
        fit: Fit = "none"
        if hits:
            fit = "unsure" if hits[0].fields.get("weak") else "good"
        return SearchAnswer(
            hits=tuple(hits),
            fit=fit,
            notices=tuple(notices),
            searched=searched,
            duration_ms=(perf_counter() - started) * 1000,
        )

    def _search_one(
        self,
        state: LexicalState,
        query: str,
        allowed: NDArray[np.bool_] | None,
        request: SearchRequest,
    ) -> tuple[list[Hit], str]:
        query, notice = query.strip(), ""
        if len(query) > QUERY_CHARS:
            notice = f"Only the first {QUERY_CHARS} characters of the query were searched."
            query = query[:QUERY_CHARS]
        asked, covered, _ = read_request(state, query)
        scores = self._scores(state, covered, request)
        if allowed is not None:
            scores *= allowed
        quoted = quoted_strings(query)
        for position in positions_with_quotes(state, scores, query, quoted):
            scores[position] += _PHRASE
        for position, rank in exact_matches(state, query, quoted).items():
            if allowed is None or allowed[position]:
                # Ranks go from 0 to 8, so every exact name stays above the tier of quoted strings.
                scores[position] = _EXACT + 1 - rank / 10
        best = best_positions(state, scores, request.limit)
        matched = matched_words(state, best, asked)
        hits = [
            _hit(state, at, float(scores[at]), match.words, query)
            for at, match in zip(best, matched, strict=True)
        ]
        hits = [hit for hit in hits if hit.relevance >= request.threshold]
        if not hits and len(best):
            notice = (
                f"No tool reaches the relevance of {request.threshold:g} that was asked for. "
                "Ask with a lower threshold."
            )
        elif not hits:
            notice = no_match_notice(asked)
        elif scores[best[0]] < _WEAK and (missing := missing_words_notice(state, asked, allowed)):
            notice = notice or missing
            hits = [replace(hit, fields={**hit.fields, "weak": True}) for hit in hits]
        if notice and len(request.queries) > 1:
            notice = f"{query[:60]!r}: {notice}"
        return hits, notice

    def _scores(
        self, state: LexicalState, scores: NDArray[np.float32], request: SearchRequest
    ) -> NDArray[np.float32]:
        if request.context.strip() and self._options.context_weight:
            context = read_request(state, request.context[:QUERY_CHARS]).shares
            weight = np.float32(self._options.context_weight)
            # Context only reorders: a tool that the request itself does not match stays at 0.
            scores = np.where(scores > 0, (scores + weight * context) / (1 + weight), scores)
        for key, prior in request.priors.items():
            for rank, position in state.slots_named(fold(key)):
                if rank == 0:
                    # Below 1, where the tier of quoted strings begins.
                    scores[position] = min(0.99, scores[position] + max(0.0, prior))
        return scores


def _hit(
    state: LexicalState, slot: int, score: float, matched: dict[str, list[str]], query: str
) -> Hit:
    tool = state.tools[slot]
    if score >= _EXACT:
        return Hit(
            key=tool.key,
            relevance=1.0,
            explanation="has exactly this name",
            fields={"query": query[:200]},
            source="exact",
            literal=1.0,
        )
    # Halved, the tier of quoted strings has shares from 0.5 to 1, whatever words match.
    has_phrase = score >= _PHRASE
    explanation = explanation_of(matched)
    return Hit(
        key=tool.key,
        relevance=round(_relevance(score / 2 if has_phrase else score), 4),
        explanation=f"has the quoted text, {explanation}" if has_phrase else explanation,
        fields={"query": query[:200], "matched": matched},
        literal=1.0 if has_phrase else score,
    )


def _relevance(share: float) -> float:
    """Convert the covered share of a request to a scale that people can read.

    Monotone; 0 and 1 stay the same; a tenth becomes 0.55. Chosen so that hits of requests of
    forty words (median share 0.06) and of three words (0.4) are clearly above 0; not calibrated.
    """
    return min(1.0, share * (1 + _HALF) / (share + _HALF))


_: type[SearchStrategy] = Bm25Search
