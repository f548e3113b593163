"""Typical requests for common kinds of tools, in words that such tools do not have.

"coffee shops near the station" needs a web search, "average order value last month" a database;
no word of either is in the tool. `typical_requests.txt` has such requests for a hundred kinds of
tools, each with what its tools say about themselves. A short request is moved towards the
descriptions of tools for the most similar requests; a long one is clear enough.

`everyday_requests.txt` adds kinds that few catalogs have, such as ordering a pizza. They move no
request. Both lists say what kind of tool a request wants, and whether the best tools are of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders import Embedder, embedded
from toolgate.search.tokenizer import words_of_request

__all__ = ["KindMatch", "TypicalRequests", "typical_requests"]

_MODELS: Final = "bundled-"
"""The values are fitted to these models; others would have to embed all requests at each start."""

# Chosen on the fitting half of `benchmarks/data/phrases.jsonl` and seven sets of long questions.
_NEAREST: Final = 8
"""Number of similar requests that count."""
_LEAST, _SURE = 0.35, 0.7
"""Cosines of the most similar request between which its trust grows from 0 to 1."""
_POWER: Final = 4
"""Power of the cosine with which a similar request counts."""
_WEIGHT: Final = 0.7
"""Largest shift of a request, relative to its own vector of length 1."""
_SHORT, _LONG = 8, 14
"""Number of words up to which a request is moved fully, and from which it is not moved."""
_HEAT: Final = 16.0
"""How much the nearest kinds outweigh others: one .1 less similar counts a fifth. Of 8, 12 and 16
the one that best tells whether anything fits, with areas of phrases left out in turn."""
_KINDS: Final = 6
"""Number of nearest kinds of a request that the tools are compared with; of 3, 6 and all."""
_FIRST, _SEVERAL = 3, 10
"""Numbers of best tools: whose kinds are compared with those of a request, and which may serve
one of them; chosen."""
_PRESENT: Final = 0.5
"""Cosine to the description of a kind from which a tool is of that kind. Of .4, .5 and .6 the one
that best tells whether anything fits, with areas of phrases left out in turn."""


class KindMatch(NamedTuple):
    """Whether the best tools for a request are of the kinds that it wants."""

    served: float
    """Cosine of the nearest tool to the kinds that similar requests want, in [-1, 1]."""
    near: float
    """Cosine of those requests, in [-1, 1]."""
    agreement: float
    """How much the kinds of the request and of a tool overlap, in [0, 1]."""
    lead: float
    """How much nearer requests for kinds of the tools are than those for other kinds, in [-2, 2];
    0 if all kinds are there, or none."""


@dataclass(frozen=True)
class TypicalRequests:
    """Typical requests and the descriptions of the tools for them, as vectors of length 1."""

    requests: NDArray[np.float32]
    """Shape (requests, dim); those of a kind follow each other."""
    kinds: NDArray[np.int64]
    """The kind of tools for each request: a row of `descriptions`."""
    descriptions: NDArray[np.float32]
    """Shape (kinds, dim)."""
    moving: int
    """Number of first requests that move others."""

    def meaning(self, text: str, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Move the vector of a request towards the tools that similar requests need."""
        n_words = len(words_of_request(text))
        weight = _WEIGHT * min(1.0, max(0.0, (_LONG - n_words) / (_LONG - _SHORT)))
        if not weight or not vector.any():
            return vector
        near = (self.requests[: self.moving] @ vector).round(5)
        best = np.argsort(-near, kind="stable")[:_NEAREST]
        cosines = near[best]
        trust = min(1.0, (float(cosines[0]) - _LEAST) / (_SURE - _LEAST))
        if trust <= 0:
            return vector
        votes = np.where(cosines > _LEAST, cosines, 0) ** _POWER
        votes *= weight * trust / votes.sum()
        moved = vector + votes @ self.descriptions[self.kinds[best]]
        return (moved / np.linalg.norm(moved)).astype(np.float32)

    @cached_property
    def _first_of_kind(self) -> NDArray[np.int64]:
        return np.flatnonzero(np.diff(self.kinds, prepend=-1))

    def match(
        self, parts: Sequence[NDArray[np.float32]], tools: NDArray[np.float32]
    ) -> KindMatch | None:
        """Return how the kinds of a request match those of tools; None for vectors of zeros.

        Args:
            parts: Vectors of the request and its clauses, not moved; the best match counts.
            tools: Vectors of the best tools, best first, as many as are compared with each other;
                shape (tools, dim).
        """
        known = [part for part in parts if part.any()]
        if not known or not len(tools):
            return None
        # One product per part: a product of a few rows with all requests costs five times as much.
        near = [
            np.maximum.reduceat(self.requests @ part, self._first_of_kind).round(5)
            for part in known
        ]
        alike = (tools @ self.descriptions.T).round(5)
        of_tools, there = _shares(alike[:_FIRST]), alike.max(axis=0) >= _PRESENT
        among = alike[:_SEVERAL]
        matches: list[KindMatch] = []
        for row in near:
            nearest = np.argsort(-row, kind="stable")[:_KINDS]
            shares = _shares(row[nearest])
            matches.append(
                KindMatch(
                    served=round(float(shares @ among[:, nearest].max(axis=0)), 4),
                    near=round(float(shares @ row[nearest]), 4),
                    # The Bhattacharyya coefficient of two distributions over kinds.
                    agreement=round(float(np.sqrt(of_tools * _shares(row)).sum(axis=1).max()), 4),
                    lead=_lead(row, there),
                )
            )
        return max(matches, key=lambda match: match.agreement)


def _lead(near: NDArray[np.float32], there: NDArray[np.bool_]) -> float:
    """Return how much nearer the nearest kind that is there is than one that is not."""
    if there.all() or not there.any():
        return 0.0
    return round(float(near[there].max() - near[~there].max()), 4)


def _shares(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the weights of kinds by their cosines, which add up to 1 (softmax)."""
    weights = np.exp(_HEAT * (cosines - cosines.max(axis=-1, keepdims=True)))
    return weights / weights.sum(axis=-1, keepdims=True)


_by_model: dict[str, TypicalRequests] = {}


async def typical_requests(embedder: Embedder) -> TypicalRequests | None:
    """Return the requests for an embedder, which a process embeds once.

    None if they are not fitted to this embedder, or if it fails, which is reported when it
    embeds the tools.
    """
    try:
        model = embedder.identity
        if model.startswith(_MODELS) and model not in _by_model:
            common = _kinds("typical_requests.txt")
            kinds = [*common, *_kinds("everyday_requests.txt")]
            requests = [request for _, asked in kinds for request in asked]
            _by_model[model] = TypicalRequests(
                requests=await embedded(embedder, requests, "document"),
                kinds=np.repeat(np.arange(len(kinds)), [len(asked) for _, asked in kinds]),
                descriptions=await embedded(embedder, [says for says, _ in kinds], "document"),
                moving=sum(len(asked) for _, asked in common),
            )
    except Exception:  # noqa: BLE001 - an embedder of anybody; search goes on without it
        return None
    return _by_model.get(model)


def _kinds(file: str) -> list[tuple[str, list[str]]]:
    """Return for each kind of a list what its tools say, and the typical requests."""
    path = files("toolgate.search.relevance").joinpath(file)
    kinds: list[tuple[str, list[str]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            says, _, asked = line.partition("|")
            kinds.append((says.strip(), [request.strip() for request in asked.split(";")]))
    return kinds
