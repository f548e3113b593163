"""Sorts the first hits of a short request with learned weights.

The weighted sum of meaning and words finds the right tools for a short request, but ranks tools
higher that share a stray word or do the opposite. They differ in which field has which word, and
in whether a tool does the requested action. `training/reranking.py` fits the weights.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from toolgate.search.lexical.matches import said_by, share_of_name
from toolgate.search.lexical.query import ParsedQuery
from toolgate.search.lexical.state import LexicalState
from toolgate.search.lexical.tool_texts import FIELD_NAMES
from toolgate.search.reranking.actions import (
    CHANGING,
    READING,
    are_opposite,
    requested_actions,
    tool_actions,
)
from toolgate.search.tokenizer import split_identifier

__all__ = ["RERANKED", "FirstHits", "evidence_of", "read_reranker", "reranked"]

_FILE = Path(__file__).with_name("weights.json")
RERANKED: Final = 20
"""Number of hits that are sorted."""
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


def reranked(state: LexicalState, text: str, asked: ParsedQuery, hits: FirstHits) -> Sequence[int]:
    """Return the positions of the hits in the learned order; unchanged for long requests."""
    as_it_is = range(len(hits.slots))
    if asked.n_words > MOST_WORDS or state.index is None or len(hits.slots) < 2:
        return as_it_is
    weights = read_reranker()
    evidence = evidence_of(state, text, asked, hits)
    worth = np.zeros(len(hits.slots))
    for name, column in evidence.items():
        worth += weights.get(name, 0.0) * np.array(column, np.float64)
    return np.argsort(-worth.round(6), kind="stable").tolist()


def evidence_of(
    state: LexicalState, text: str, asked: ParsedQuery, hits: FirstHits
) -> Mapping[str, Sequence[float]]:
    """Return the evidence for each hit, by name.

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
    rows: list[dict[str, float]] = []
    for at, (slot, by_field) in enumerate(zip(hits.slots, fields, strict=True)):
        tool = state.tools[slot]
        has = {FIELD_NAMES[row]: set(numbers) for row, numbers in by_field.items()}
        everywhere = set[int]().union(*has.values())
        in_name = has.get("name", set())
        named = said_by(index, asked, in_name) / total
        name_share = share_of_name(state, slot, in_name)
        done = tool_actions(tool.name, tool.server, tool.description[:80])
        same = bool(wanted & done)
        opposite = not same and are_opposite(wanted, done)
        rows.append(
            {
                "gap": float(hits.scores[0] - hits.scores[at]),
                "first": float(at == 0),
                "rank": math.log1p(at),
                "behind": 0.0 if hits.cosines is None else nearest - float(hits.cosines[at]),
                "covered": float(hits.shares[at]) / most,
                "named": named,
                "name_share": name_share,
                "both_named": math.sqrt(named * name_share),
                "anywhere": said_by(index, asked, everywhere) / total,
                "in_server": said_by(index, asked, has.get("server", set())) / total,
                "in_parameters": said_by(index, asked, has.get("parameters", set())) / total,
                "lacks_rarest": float(rarest >= 0 and rarest not in everywhere),
                "name_length": math.log1p(len(split_identifier(tool.name))),
                "same_action": float(same),
                "opposite_action": float(opposite),
                "other_action": float(bool(wanted and done) and not same and not opposite),
                "changes_unasked": float(
                    not wanted and bool(done & CHANGING) and not done & READING
                ),
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


@cache
def read_reranker() -> Mapping[str, float]:
    """Read the fitted weights that come with the package, by the names of `evidence_of`."""
    return json.loads(_FILE.read_text(encoding="utf-8"))["weights"]
