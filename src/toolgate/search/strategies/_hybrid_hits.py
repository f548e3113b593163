"""Converts scores to hits with a calibrated relevance, and decides whether they fit."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import exp
from typing import Final

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import (
    Hit,
    SearchRequest,
)
from toolgate.search.lexical.best_hits import (
    best_positions,
    mark_far_behind,
)
from toolgate.search.lexical.matches import (
    WordMatch,
    exact_matches,
    explanation_of,
    matched_words,
    positions_with_quotes,
    quoted_strings,
)
from toolgate.search.lexical.query import (
    no_match_notice,
)
from toolgate.search.relevance.calibration import (
    COMPETITORS,
    Calibration,
    Evidence,
    Fit,
    Judgement,
    rivals_of,
)
from toolgate.search.relevance.typical_requests import KindMatch, TypicalRequests
from toolgate.search.relevance.usage_votes import (
    UsageBoost,
    mix_in_unboosted,
)
from toolgate.search.semantic.first_stage import (
    HybridState,
    exact_at,
    vectors_at,
)
from toolgate.search.strategies._hybrid_options import Options
from toolgate.search.strategies._hybrid_ranking import Ranking

# Three tiers of scores: the weighted sum in (0, 1], the same plus a quoted string, a name.
PHRASE_SCORE = 2.0
EXACT_SCORE = 4.0
"""Above every sum of the parts, so that named tools come first."""
_SURE = 0.9
"""Lowest relevance of a tool that has the quoted text; it fits whatever the cutoff; chosen."""
_WEAK_MOST = 0.39
"""Highest relevance of a tool that is listed although nothing fits; chosen."""
_WEAKER = 2.0
"""Decay of that limit: half a cosine below the cutoff it is a third; chosen."""
_WORKED = 0.7
"""Trust times share from which a tool fits because it worked for a similar request: in at least
three conversations; chosen."""


_FIT_NOTICES: Final[dict[Fit, str]] = {
    "good": "",
    "unsure": "It is unsure whether one of these tools fits.",
    "none": "Nothing fits well: the nearest tools are weak. Say it in other words, or name the "
    "kind of thing that is needed.",
}
"""Notices about whether anything fits a request."""


class HitBuilder:
    """Creates hits from rankings."""

    def __init__(
        self,
        options: Options,
        model: str,
        calibration: Calibration,
        typical: TypicalRequests | None,
    ) -> None:
        """Create a builder.

        Args:
            options: The weights.
            model: Identity of the embedder of the vectors; empty without vectors.
            calibration: What gives the hits their relevance.
            typical: Typical requests for the embedder; None without these.
        """
        self._options = options
        self._model = model
        self._calibration = calibration
        self._typical = typical

    def build(
        self,
        state: HybridState,
        ranking: Ranking,
        allowed: NDArray[np.bool_] | None,
        request: SearchRequest,
        searched: int,
    ) -> tuple[list[Hit], Fit, str]:
        """Return the hits of one query, whether anything fits, and a notice."""
        words, slots = state.words, ranking.slots
        scores = _with_names_and_quotes(state, ranking, allowed)
        # At least `COMPETITORS`, so that relevance does not depend on the limit of the request.
        rivals = best_positions(words, scores, max(request.limit, COMPETITORS), slots)
        best = rivals[: request.limit]
        if ranking.lift.before:
            plain = ranking.lift.without(scores, below=PHRASE_SCORE)
            # The calibration was fitted without earlier usage, so it compares without it.
            rivals = best_positions(words, plain, max(request.limit, COMPETITORS), slots)
            best = mix_in_unboosted(best, rivals[: request.limit], self._options.usage.explore)
        best_slots = best if slots is None else slots[best].tolist()
        matched = matched_words(words, best_slots, ranking.asked)
        evidence = self._evidence(state, ranking, best, rivals, matched, searched)
        judged = self._calibration.judge(evidence)
        hits = [
            self._hit(state, ranking, at, slot, match.words, float(scores[at]), proof, judgement)
            for at, slot, match, proof, judgement in zip(
                best, best_slots, matched, evidence, judged, strict=True
            )
        ]
        hits = _in_order(hits, best_slots, ranking.lift)
        if not hits:
            return [], "none", no_match_notice(ranking.asked)
        shift = 0.0
        if request.learned is not None and state.vectors is not None:
            shift = request.learned.line.shift(self._model)
        if shift:
            hits = [replace(hit, fields={**hit.fields, "cutoff_shift": shift}) for hit in hits]
        # In a request of several steps, tools of later steps are behind those of the first for
        # another reason.
        if len(ranking.parts) == 1:
            hits = mark_far_behind(hits)
        fit: Fit = "good"
        if not _is_sure(hits[0]):
            fit = self._calibration.fit_of(evidence[0], judged[0].margin - shift)
        if fit == "none":
            hits = _weakened(hits, shift)
        above = [hit for hit in hits if hit.relevance >= request.threshold]
        if not above:
            notice = (
                f"No tool reaches the relevance of {request.threshold:g} that was asked for. "
                "Ask with a lower threshold."
            )
            return [], "none", notice
        return above, fit, _FIT_NOTICES[fit]

    def _evidence(
        self,
        state: HybridState,
        ranking: Ranking,
        best: Sequence[int],
        rivals: Sequence[int],
        matched: Sequence[WordMatch],
        searched: int,
    ) -> list[Evidence]:
        """Return the evidence for each of the best tools, compared with its rivals.

        `matched` has the word matches of the best tools.
        """
        plain = ranking.scores
        if ranking.lift.before:
            plain = ranking.lift.without(plain, below=PHRASE_SCORE)
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
        own = _own_cosine(state, ranking, best[0], cosines[len(among)])
        kinds = self._kind_match(state, ranking, among)
        most_covered = float(
            _highest_at(rivals, [part.shares for part in ranking.parts]).max(initial=0.0)
        )
        asked = len(ranking.asked.terms) + len(ranking.asked.unknown)
        return [
            Evidence(
                cosine=cosine,
                covered=covered,
                gap=max(0.0, first - score),
                rivals=equals,
                word_share=match.share,
                words=asked,
                n_words=max(asked, ranking.asked.n_words),
                behind=0.0 if cosine is None else max(0.0, nearest - cosine),
                tools=searched,
                ahead=ahead,
                named=match.named,
                name_share=match.name_share,
                highest=nearest,
                own=own,
                most_covered=most_covered,
                kinds=kinds,
            )
            for cosine, covered, score, match in zip(
                cosines[len(among) :], shares, scores, matched, strict=True
            )
        ]

    def _kind_match(
        self, state: HybridState, ranking: Ranking, positions: Sequence[int]
    ) -> KindMatch | None:
        """Return whether the best tools are of the kinds that the request wants."""
        if self._typical is None or not ranking.unmoved or state.is_elsewhere:
            return None
        at = np.array(positions, np.int64)
        slots = at if ranking.slots is None else ranking.slots[at]
        return self._typical.match(ranking.unmoved, vectors_at(state, slots))

    def _hit(
        self,
        state: HybridState,
        ranking: Ranking,
        at: int,
        slot: int,
        matched: dict[str, list[str]],
        score: float,
        evidence: Evidence,
        judgement: Judgement,
    ) -> Hit:
        tool = state.words.tools[slot]
        if score >= EXACT_SCORE:
            return Hit(
                key=tool.key,
                relevance=1.0,
                explanation="has exactly this name",
                fields={"query": ranking.query[:200]},
                source="exact",
                literal=1.0,
            )
        relevance = ranking.lift.relevance(slot, judgement.relevance)
        reasons = [explanation_of(matched)] if matched else []
        if evidence.cosine is not None:
            reasons.append(f"similar in meaning ({evidence.cosine:.2f})")
        if score >= PHRASE_SCORE:
            relevance = max(relevance, _SURE)
            reasons.insert(0, "has the quoted text")
        if used := ranking.lift.reason(slot):
            reasons.insert(0, used)
        # The reason comes from the part that scored this tool highest.
        part = ranking.parts[0]
        if len(ranking.parts) > 1:
            part = max(ranking.parts, key=lambda part: float(part.sums[at]))
        # By meaning: more than half of the sum comes from the cosine.
        by_meaning = part.dense is not None and 2 * part.dense[at] > part.sums[at]
        fields: dict[str, object] = {
            "query": ranking.query[:200],
            "matched": matched,
            "cosine": evidence.cosine,
            "bm25_coverage": round(evidence.covered, 4),
            "word_coverage": round(evidence.word_share, 4),
            "content_words": evidence.words,
            "total_words": evidence.n_words,
            "name_coverage": round(evidence.named, 4),
            "name_share": round(evidence.name_share, 4),
            "background_margin": None if evidence.ahead is None else round(evidence.ahead, 4),
            "own_cosine": None if evidence.cosine is None else round(evidence.own, 4),
            **_kind_fields(evidence.kinds),
            "close_competitors": round(evidence.rivals, 4),
            "margin": round(judgement.margin, 4),
            "score": round(float(ranking.scores[at]), 4),
            **ranking.lift.fields(slot),
            **({"quoted": True} if score >= PHRASE_SCORE else {}),
        }
        by_usage = ranking.lift.is_source(slot)
        by = "vector" if by_meaning else "lexical"
        return Hit(
            key=tool.key,
            relevance=round(relevance, 4),
            explanation=", ".join(reasons) or "was suggested",
            hint=used if by_usage else "",
            fields=fields,
            source="usage" if by_usage else by,
            literal=min(1.0, evidence.covered),
        )


def _kind_fields(kinds: KindMatch | None) -> dict[str, float]:
    match = {} if kinds is None else kinds._asdict()
    return {f"kind_{name}": value for name, value in match.items()}


def _with_names_and_quotes(
    state: HybridState, ranking: Ranking, allowed: NDArray[np.bool_] | None
) -> NDArray[np.float32]:
    """Return the scores of allowed tools, with named and quoted ones in the higher tiers."""
    query, slots = ranking.query, ranking.slots
    if allowed is None:
        scores = ranking.scores.copy()
    else:
        scores = ranking.scores * (allowed if slots is None else allowed[slots])
    quoted = quoted_strings(query)
    for at in positions_with_quotes(state.words, scores, query, quoted, slots):
        scores[at] += PHRASE_SCORE
    for slot, rank in exact_matches(state.words, query, quoted).items():
        if allowed is None or allowed[slot]:
            at = slot if slots is None else int(slots.searchsorted(slot))
            # Ranks go from 0 to 8: a more exact spelling is higher, and all are above the quotes.
            scores[at] = EXACT_SCORE + 1 - rank / 10
    return scores


def _in_order(hits: Sequence[Hit], slots: Sequence[int], lift: UsageBoost) -> list[Hit]:
    """Let relevance follow the order: no hit exceeds the previous one."""
    relevances = [hit.relevance for hit in hits]
    if lift.habits:
        later = 0.0
        for at in reversed(range(len(hits))):
            relevances[at] = lift.relevance_before(slots[at], relevances[at], later)
            later = max(later, relevances[at])
    return [
        replace(hit, relevance=relevance) if relevance != hit.relevance else hit
        for hit, relevance in zip(hits, accumulate(relevances, min), strict=True)
    ]


def _weakened(hits: Sequence[Hit], shift: float) -> list[Hit]:
    """Reduce the relevance of hits below the cutoff, and mark them as weak."""
    below = hits[0].fields["margin"] - shift
    ceiling = round(_WEAK_MOST * exp(_WEAKER * min(0.0, below)), 4)
    return [
        replace(hit, relevance=min(ceiling, hit.relevance), fields={**hit.fields, "weak": True})
        for hit in hits
    ]


def _is_sure(best: Hit) -> bool:
    """Return whether the best hit fits whatever the cutoff: named, quoted, or used before."""
    return (
        best.source == "exact"
        or "quoted" in best.fields
        or best.fields.get("usage", 0.0) >= _WORKED
    )


def _cosines_of(
    state: HybridState, ranking: Ranking, positions: Sequence[int]
) -> list[float | None]:
    """Return the highest cosines of the request or one of its clauses; None without a vector."""
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


def _own_cosine(state: HybridState, ranking: Ranking, position: int, cosine: float | None) -> float:
    """Return a tool's highest cosine to the original request or a clause, before any shift."""
    if cosine is None or not ranking.unmoved or state.is_elsewhere:
        return cosine or 0.0
    slot = position if ranking.slots is None else int(ranking.slots[position])
    near = exact_at(state, np.array([slot], np.int64), ranking.unmoved)
    return max(float(row[0]) for row in near)


def _ahead(ranking: Ranking, positions: Sequence[int]) -> float | None:
    """Return the largest lead of the nearest tool over the background texts; None without these."""
    # Without background texts `common` is empty, and so is the result: hence `strict=False`.
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
    """Return the elementwise maximum of some arrays at a few positions."""
    at = np.array(positions, np.int64)
    if len(values) == 1:
        return values[0][at]
    return np.maximum.reduce([column[at] for column in values])
