"""Sorts the first hits of a short request with learned weights.

The weighted sum of meaning and words finds the right tools for a short request, but ranks tools
higher that share a stray word or do the opposite. They differ in which field has which word, and
in whether a tool does the requested action. `training/reranking.py` fits the weights.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolgate.search.lexical.matches import RequestWords, share_of_name
from toolgate.search.lexical.query import ParsedQuery
from toolgate.search.lexical.state import LexicalState
from toolgate.search.lexical.tool_texts import FIELD_NAMES
from toolgate.search.reranking.actions import (
    CHANGING,
    READING,
    Actions,
    are_opposite,
    requested_actions,
    tool_actions,
)
from toolgate.search.tokenizer import split_identifier

_FILE = Path(__file__).with_name("weights.json")
RERANKED: Final = 20
"""Number of hits that are sorted."""
_REMEMBERED: Final = 8_192
"""Most tools whose actions are cached; chosen."""
_NAME, _SERVER, _PARAMETERS = map(FIELD_NAMES.index, ("name", "server", "parameters"))
MOST_WORDS: Final = 10
"""Most words of a request whose hits are sorted; longer ones gained nothing in the fitted sets."""


@dataclass(frozen=True, kw_only=True)
class FirstHits:
    """The best tools for a request, best first."""

    slots: Sequence[int]
    """Their slots."""
    scores: NDArray[np.float32]
    """Their scores."""
    cosines: NDArray[np.float32] | None
    """Their cosines; None without vectors."""
    shares: NDArray[np.float32]
    """Shares of the request that they cover."""


class HitEvidence(NamedTuple):
    """What says whether a hit is the right tool."""

    gap: float
    """Distance of its score from the best one."""
    first: float
    """Whether it is the best one."""
    rank: float
    """Logarithm of its rank, counted from 1."""
    behind: float
    """Distance of its cosine from the highest one."""
    covered: float
    """Share of the request that it covers, relative to the largest share."""
    named: float
    """Share of the request's words that its name has."""
    name_share: float
    """Share of its name that the request has."""
    both_named: float
    """Geometric mean of the two."""
    anywhere: float
    """Share of the request's words that any of its fields has."""
    in_server: float
    """Share of them that the name of its server has."""
    in_parameters: float
    """Share of them that its parameters have."""
    lacks_rarest: float
    """Whether it lacks the rarest word of the request."""
    name_length: float
    """Logarithm of the number of words in its name."""
    same_action: float
    """Whether it does what is asked."""
    opposite_action: float
    """Whether it does the opposite."""
    other_action: float
    """Whether it does something else."""
    changes_unasked: float
    """Whether it changes something although the request names no action."""


def reranked(state: LexicalState, text: str, asked: ParsedQuery, hits: FirstHits) -> Sequence[int]:
    """Return the positions of the hits in the learned order; unchanged for long requests."""
    as_it_is = range(len(hits.slots))
    if asked.n_words > MOST_WORDS or state.index is None or len(hits.slots) < 2:
        return as_it_is
    evidence = evidence_of(state, text, asked, hits)
    worth = np.array(evidence, np.float64) @ _weights()
    return np.argsort(-worth.round(6), kind="stable").tolist()


def evidence_of(
    state: LexicalState, text: str, asked: ParsedQuery, hits: FirstHits
) -> Sequence[HitEvidence]:
    """Return the evidence for each hit.

    Args:
        state: The index.
        text: The request in English, for its actions.
        asked: The parsed request.
        hits: The hits.
    """
    index = state.index
    assert index is not None
    total = asked.max_score or 1.0
    others = {number for related in asked.related for number, _ in related.others}
    fields = index.fields_of([*asked.terms, *others], hits.slots)
    wanted = requested_actions(text)
    rarity = index.idf.data
    rarest = max(asked.terms, key=rarity.__getitem__, default=-1)
    most = max(float(hits.shares.max(initial=0.0)), 1e-6)
    nearest = 0.0 if hits.cosines is None else float(hits.cosines.max(initial=-1.0))
    weight = RequestWords(index, asked).of
    scores: list[float] = hits.scores.tolist()
    shares: list[float] = hits.shares.tolist()
    cosines: list[float] | None = None if hits.cosines is None else hits.cosines.tolist()
    rows: list[HitEvidence] = []
    for at, (slot, by_field) in enumerate(zip(hits.slots, fields, strict=True)):
        tool = state.tools[slot]
        everywhere = set(chain.from_iterable(by_field.values()))
        in_name = set(by_field.get(_NAME, ()))
        named = weight(in_name) / total
        name_share = share_of_name(state, slot, in_name)
        done, name_length = _about(tool.name, tool.server, tool.description[:80])
        same = bool(wanted & done)
        opposite = not same and are_opposite(wanted, done)
        rows.append(
            HitEvidence(
                gap=scores[0] - scores[at],
                first=at == 0,
                rank=math.log1p(at),
                behind=0.0 if cosines is None else nearest - cosines[at],
                covered=shares[at] / most,
                named=named,
                name_share=name_share,
                both_named=math.sqrt(named * name_share),
                anywhere=weight(everywhere) / total,
                in_server=weight(set(by_field.get(_SERVER, ()))) / total,
                in_parameters=weight(set(by_field.get(_PARAMETERS, ()))) / total,
                lacks_rarest=rarest >= 0 and rarest not in everywhere,
                name_length=name_length,
                same_action=same,
                opposite_action=opposite,
                other_action=bool(wanted and done) and not same and not opposite,
                changes_unasked=not wanted and bool(done & CHANGING) and not done & READING,
            )
        )
    return rows


@lru_cache(maxsize=_REMEMBERED)
def _about(name: str, server: str, description: str) -> tuple[Actions, float]:
    """Return what a tool does, and the logarithm of the number of words in its name."""
    return tool_actions(name, server, description), math.log1p(len(split_identifier(name)))


@cache
def read_reranker() -> Mapping[str, float]:
    """Read the fitted weights that come with the package, by the fields of `HitEvidence`."""
    return json.loads(_FILE.read_text(encoding="utf-8"))["weights"]


@cache
def _weights() -> NDArray[np.float64]:
    fitted = read_reranker()
    return np.array([fitted.get(name, 0.0) for name in HitEvidence._fields])
