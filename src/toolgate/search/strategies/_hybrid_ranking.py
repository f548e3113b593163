"""Scores all tools for a request: meaning, words, servers, context and earlier usage in one sum.

    sum = (dense_weight * meaning + (1 - dense_weight) * words + server_weight * server)
          / (1 + server_weight)

Meaning and words are first scaled to [0, 1] over the tools (`first_stage.score_text`). For the
choice of the weights and the benefit of each part, see `docs/search-internals.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders import Reads
from toolgate.search.base import (
    SearchRequest,
)
from toolgate.search.lexical.best_hits import (
    best_positions,
    highest_scores,
)
from toolgate.search.lexical.clauses import readable_share
from toolgate.search.lexical.matches import (
    exact_matches,
    quoted_strings,
)
from toolgate.search.lexical.query import (
    ParsedQuery,
    read_request,
)
from toolgate.search.lexical.translation import in_english
from toolgate.search.relevance.calibration import COMPETITORS
from toolgate.search.relevance.usage_votes import (
    Support,
    UsageBoost,
    apply_habits,
    apply_usage,
)
from toolgate.search.reranking.first_hits import RERANKED, FirstHits, reranked
from toolgate.search.semantic.first_stage import (
    DECIMALS,
    Cosines,
    HybridState,
    TextScores,
    cosines_of,
    exact_at,
    score_text,
)
from toolgate.search.semantic.server_scores import nearness
from toolgate.search.strategies._hybrid_options import Options
from toolgate.search.tokenizer import fold, words_of_request

_FIRST = 2_000
"""Number of tools of a large index, the best of the first stage, whose full vectors are read;
how often that finds the same: `docs/growth.md`."""


_TRANSLATED = 0.7
"""Trust in a word-by-word translation, against 1 for a request in English. Of 0.4, 0.7 and 1 the
one that finds most in seven languages, over tools in the same language and in English."""


_READ_WELL = 0.6
"""Lowest readable share of a request whose hits are sorted in the learned order: it is in
English, or nearly all of it is translated; chosen."""


_UNLIKE = 0.1
"""Scaled cosine up to which a tool of a small catalog is unlike the request, and no hit without a
word of it; chosen."""


_MAY_RISE = 50
"""Number of the best tools that habits may raise; more changed no recall."""


_SHORT, _LONG = 10, 20
"""Number of words of a request up to which the square of the scaled cosine counts, and from
which the cosine itself counts: many tools match the topic of a few words, and only the nearest
are meant. Fitted to all sets with leave-one-out."""


@dataclass(frozen=True)
class QueryTexts:
    """The texts by which a query is scored."""

    query: str
    """The original query."""
    text: str
    """The query without values."""
    clauses: tuple[str, ...]
    context: str
    vector: NDArray[np.float32] | None = None
    """Vector of the original query, for votes of earlier usage; None if it has none."""
    unmoved: Mapping[str, NDArray[np.float32]] = field(
        default_factory=dict[str, NDArray[np.float32]]
    )
    """Vectors of the parts, before they are moved towards typical requests."""

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The text and its clauses."""
        return (self.text, *self.clauses)

    @cached_property
    def all(self) -> tuple[str, ...]:
        """The parts and the context, if there is one."""
        return (*self.parts, self.context) if self.context else self.parts


class Ranking(NamedTuple):
    """Scores of tools for a request."""

    query: str
    asked: ParsedQuery
    slots: NDArray[np.int64] | None
    """The slots that were scored; None for all."""
    scores: NDArray[np.float32]
    parts: tuple[TextScores, ...]
    lift: UsageBoost
    """How earlier usage changed the scores."""
    common: tuple[float, ...] = ()
    """Highest cosine of each part to a background text; empty without these."""
    unmoved: tuple[NDArray[np.float32], ...] = ()
    """Vectors of the parts, before they are moved towards typical requests."""


_UNLIFTED = UsageBoost()


class HybridRanker:
    """Scores tools for consecutive requests, over any state of the index."""

    def __init__(
        self,
        options: Options,
        model: str,
        reads: Reads,
        background: NDArray[np.float32] | None,
    ) -> None:
        """Create a ranker.

        Args:
            options: The weights.
            model: Identity of the embedder of the vectors; empty without vectors.
            reads: The languages that it reads.
            background: Vectors of the background texts; None without these.
        """
        self._options = options
        self._model = model
        self._reads = reads
        self._background = background
        self._usual = None if background is None else background.mean(axis=0)
        self._readable: dict[str, float] = {}

    def rank(
        self,
        state: HybridState,
        texts: QueryTexts,
        vectors: dict[str, NDArray[np.float32]],
        request: SearchRequest,
        allowed: NDArray[np.bool_] | None,
    ) -> Ranking:
        words = state.words
        readings = [read_request(words, text) for text in texts.all]
        asked = [reading.asked for reading in readings]
        raised = self._raised(state, request)
        if not asked[0].terms and not asked[0].unknown:
            # Words such as "what is the" are near to everything and mean nothing.
            silent = _silent(words.size)
            scores = self._combined(
                [silent], QueryTexts(texts.query, texts.text, (), ""), raised, None
            )
            return Ranking(texts.query, asked[0], None, scores, (silent,), _UNLIFTED)
        votes, support = self._votes(state, texts.vector, request)
        shares = [reading.shares for reading in readings]
        self._readable = {
            text: self._readable_share(text, reading.translated)
            for text, reading in zip(texts.all, readings, strict=True)
        }
        cosines = self._cosines(state, texts, vectors)
        looks = self._looks(state, texts, shares, cosines, vectors, None)
        scores = self._combined(looks, texts, raised, None)
        slots = None
        if state.vectors is not None and state.vectors.heads is not None:
            # Named, voted or suggested tools are scored even if the first stage ranks them low.
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
        if self._may_rerank(texts) and not raised:
            _rerank(state, texts.text, asked[0], scores, clauses[0], slots, allowed)
        siblings = _servers_used(state, request, slots)
        lift = _UNLIFTED
        usage = self._options.usage
        habits = None
        if request.learned is not None and usage.habit_weight:
            habits = request.learned.habits or None
        if votes or siblings is not None or habits:
            literal = np.max([look.shares for look in clauses], axis=0)
            if allowed is not None:
                # Tools hidden from the caller must be indistinguishable from tools that do not
                # exist.
                seen = allowed if slots is None else allowed[slots]
                literal = np.where(seen, literal, 0)
            scores, lift = apply_usage(
                scores,
                votes,
                usage,
                literal=literal,
                support=support,
                slots=slots,
                siblings=siblings,
            )
            if habits:
                seen = scores
                if allowed is not None:
                    seen = scores * (allowed if slots is None else allowed[slots])
                best = best_positions(words, seen, _MAY_RISE, slots)
                owners = best if slots is None else slots[best].tolist()
                scores, lift = apply_habits(
                    scores,
                    lift,
                    habits,
                    literal=literal,
                    ranked=best,
                    keys=[words.tools[slot].key for slot in owners],
                    slots=owners,
                    weight=usage.habit_weight,
                )
        common = self._common(clauses, texts, vectors)
        unmoved = tuple(texts.unmoved[part] for part in texts.parts if part in texts.unmoved)
        return Ranking(texts.query, asked[0], slots, scores, tuple(clauses), lift, common, unmoved)

    def _common(
        self,
        parts: Sequence[TextScores],
        texts: QueryTexts,
        vectors: dict[str, NDArray[np.float32]],
    ) -> tuple[float, ...]:
        """Return the highest cosine of each part to a background text; empty without these."""
        if self._background is None:
            return ()
        return tuple(
            0.0 if part.cosines is None else float((self._background @ vectors[text]).max())
            for part, text in zip(parts, texts.parts, strict=True)
        )

    def _may_rerank(self, texts: QueryTexts) -> bool:
        """Return whether the learned order applies: one step, English, the bundled model."""
        return (
            self._options.reranking
            and self._background is not None
            and not texts.clauses
            and self._readable[texts.text] >= _READ_WELL
        )

    def _readable_share(self, text: str, translated: float | None) -> float:
        """Return how well the model can read a text, whose translation has a weight, in [0, 1]."""
        if not self._options.script_gate or self._reads != "english":
            return 1.0
        return max(readable_share(text), _TRANSLATED * (translated or 0.0))

    def _looks(
        self,
        state: HybridState,
        texts: QueryTexts,
        shares: Sequence[NDArray[np.float32]],
        cosines: Sequence[Cosines | None],
        vectors: dict[str, NDArray[np.float32]],
        slots: NDArray[np.int64] | None,
    ) -> list[TextScores]:
        """Score each text over all or some slots; servers count in the last stage only."""
        options, servers = self._options, state.servers
        large = state.vectors is not None and state.vectors.heads is not None
        # Fitted to the cosines of the bundled model, which is the one with background texts.
        is_known = self._background is not None
        sharpness = _sharpness(len(words_of_request(texts.text))) if is_known else 0.0
        there = state.there if slots is None or state.there is None else state.there[slots]
        owners = state.words.servers[: state.words.size]
        if slots is not None:
            owners = owners[slots]
        scored: list[TextScores] = []
        for text, share, cosine in zip(texts.all, shares, cosines, strict=True):
            readable = self._readable[text]
            near = None
            # The first stage over a large index needs only an approximate order, so it ignores
            # servers.
            counts = options.server_weight > 0 and not (large and slots is None)
            if servers is not None and cosine is not None and counts:
                near = nearness(
                    servers,
                    owners,
                    vectors[text],
                    few=slots is not None,
                    nameless=state.words.nameless,
                )
            # The best share of all tools, even if only some are scored: both stages then use one
            # scale.
            scored.append(
                score_text(
                    share if slots is None else share[slots],
                    float(np.maximum.reduce(share, initial=0.0)),
                    cosine,
                    options.dense_weight * readable,
                    there,
                    near,
                    options.server_weight * readable,
                    sharpness,
                )
            )
        return scored

    def _cosines(
        self, state: HybridState, texts: QueryTexts, vectors: dict[str, NDArray[np.float32]]
    ) -> list[Cosines | None]:
        """Return the cosines of each text; None if only words count."""
        if state.is_elsewhere:
            near = state.near or {}
            return [near.get(text) if self._readable[text] > 0 else None for text in texts.all]
        query_vectors = {
            at: vectors[text]
            for at, text in enumerate(texts.all)
            if text in vectors and vectors[text].any() and self._readable[text] > 0
        }
        cosines = {
            at: self._beside_usual(cosine, state, query)
            for (at, query), cosine in zip(
                query_vectors.items(), cosines_of(state, list(query_vectors.values())), strict=True
            )
            if cosine is not None
        }
        return [cosines.get(at) for at in range(len(texts.all))]

    def _beside_usual(
        self, cosines: Cosines, state: HybridState, query: NDArray[np.float32]
    ) -> Cosines:
        """Return cosines whose mean counts background texts as the tools that a catalog lacks.

        The mean of two tools would be half-way between them, so that one of them is unlike any
        request.
        """
        tools = len(state.words.keys) - state.missing
        if self._usual is None or tools >= COMPETITORS:
            return cosines
        lacking = COMPETITORS - tools
        low = (tools * cosines.low + lacking * float(self._usual @ query)) / COMPETITORS
        is_unlike = cosines.values < low + _UNLIKE * (cosines.high - low)
        return cosines._replace(
            low=low, values=np.where(is_unlike, np.float32(low), cosines.values)
        )

    def _cosines_at(
        self,
        state: HybridState,
        slots: NDArray[np.int64],
        texts: QueryTexts,
        vectors: dict[str, NDArray[np.float32]],
        rough: Sequence[Cosines | None],
    ) -> list[Cosines | None]:
        """Return the exact cosines of each text at some slots; None if only words count."""
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
        texts: QueryTexts,
        raised: dict[int, float],
        slots: NDArray[np.int64] | None,
    ) -> NDArray[np.float32]:
        """Combine the scores of a request's parts."""
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
            # A score of 0 stays 0.
            scores = np.where(scores > 0, np.round(mixed, DECIMALS), 0)
        return scores

    def _votes(
        self,
        state: HybridState,
        vector: NDArray[np.float32] | None,
        request: SearchRequest,
    ) -> tuple[dict[int, float], dict[int, Support]]:
        """Return the votes of earlier requests, trust times share, and who voted, by slot."""
        usage = self._options.usage
        if request.learned is None or vector is None or not usage.weight:
            return {}, {}
        votes = request.learned.votes(vector, self._model, usage)
        slots = {
            key: slot
            for key in votes.shares
            if votes.trust > 0
            for rank, slot in state.words.slots_named(fold(key))
            if rank == 0
        }
        return (
            {slot: votes.trust * votes.shares[key] for key, slot in slots.items()},
            {slot: votes.support[key] for key, slot in slots.items() if key in votes.support},
        )

    def _raised(self, state: HybridState, request: SearchRequest) -> dict[int, float]:
        """Return the priors to add to scores, by slot."""
        return {
            slot: max(0.0, prior)
            for key, prior in request.priors.items()
            for rank, slot in state.words.slots_named(fold(key))
            if rank == 0
        }


def _rerank(
    state: HybridState,
    query: str,
    asked: ParsedQuery,
    scores: NDArray[np.float32],
    part: TextScores,
    slots: NDArray[np.int64] | None,
    allowed: NDArray[np.bool_] | None,
) -> None:
    """Reassign the best scores in the learned order."""
    seen = scores
    if allowed is not None:
        seen = scores * (allowed if slots is None else allowed[slots])
    best = best_positions(state.words, seen, RERANKED, slots)
    first = FirstHits(
        slots=best if slots is None else slots[best].tolist(),
        scores=scores[best],
        cosines=None if part.cosines is None else part.cosines[best],
        shares=part.shares[best],
    )
    translation = in_english(query)
    text = query if translation is None else translation.all_meanings
    order = reranked(state.words, text, asked, first)
    scores[[best[at] for at in order]] = first.scores


def _servers_used(
    state: HybridState, request: SearchRequest, slots: NDArray[np.int64] | None
) -> NDArray[np.bool_] | None:
    """Return which tools belong to servers that the conversation just used; None without any."""
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
    """Return the slots to score, ascending: the best allowed ones, and those in `sure`."""
    if allowed is not None:
        rough = rough * allowed
    best = highest_scores(rough, _FIRST)
    if not sure:
        return best
    slots = np.concatenate([best, np.array(sure, np.int64)])
    slots.sort()
    return slots[np.concatenate([[True], slots[1:] != slots[:-1]])]


def _highest_of(rough: Cosines, values: NDArray[np.float32]) -> Cosines:
    """Return exact cosines of the read slots, which nearly always include the highest."""
    return Cosines(values, rough.low, max(rough.high, float(values.max(initial=-1.0))))


def _sharpness(n_words: int) -> float:
    """Return how strongly tools behind the nearest are reduced, by the length of a request."""
    return min(1.0, max(0.0, (_LONG - n_words) / (_LONG - _SHORT)))


def _silent(size: int) -> TextScores:
    """Return scores of 0 for all tools."""
    zeros = np.zeros(size, np.float32)
    return TextScores(zeros, None, None, zeros)
