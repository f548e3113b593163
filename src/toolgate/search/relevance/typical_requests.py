"""Typical requests for common kinds of tools, in words that such tools do not have.

"coffee shops near the station" needs a web search, "average order value last month" a database;
no word of either is in the tool. `typical_requests.txt` has such requests for a hundred kinds of
tools, each with what its tools say about themselves. A short request is moved towards the
descriptions of tools for the most similar requests; a long one is clear enough.
"""

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders import Embedder, embedded
from toolgate.search.tokenizer import words_of_request

__all__ = ["TypicalRequests", "typical_requests"]

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


@dataclass(frozen=True)
class TypicalRequests:
    """Typical requests and the descriptions of the tools for them, as vectors of length 1."""

    requests: NDArray[np.float32]
    """Shape (requests, dim)."""
    kinds: NDArray[np.int64]
    """The kind of tools for each request: a row of `descriptions`."""
    descriptions: NDArray[np.float32]
    """Shape (kinds, dim)."""

    def meaning(self, text: str, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Move the vector of a request towards the tools that similar requests need."""
        n_words = len(words_of_request(text))
        weight = _WEIGHT * min(1.0, max(0.0, (_LONG - n_words) / (_LONG - _SHORT)))
        if not weight or not vector.any():
            return vector
        near = (self.requests @ vector).round(5)
        best = np.argsort(-near, kind="stable")[:_NEAREST]
        cosines = near[best]
        trust = min(1.0, (float(cosines[0]) - _LEAST) / (_SURE - _LEAST))
        if trust <= 0:
            return vector
        votes = np.where(cosines > _LEAST, cosines, 0) ** _POWER
        votes *= weight * trust / votes.sum()
        moved = vector + votes @ self.descriptions[self.kinds[best]]
        return (moved / np.linalg.norm(moved)).astype(np.float32)


_by_model: dict[str, TypicalRequests] = {}


async def typical_requests(embedder: Embedder) -> TypicalRequests | None:
    """Return the requests for an embedder, which a process embeds once.

    None if they are not fitted to this embedder, or if it fails, which is reported when it
    embeds the tools.
    """
    try:
        model = embedder.identity
        if model.startswith(_MODELS) and model not in _by_model:
            kinds = _kinds()
            requests = [request for _, asked in kinds for request in asked]
            _by_model[model] = TypicalRequests(
                requests=await embedded(embedder, requests, "document"),
                kinds=np.repeat(np.arange(len(kinds)), [len(asked) for _, asked in kinds]),
                descriptions=await embedded(embedder, [says for says, _ in kinds], "document"),
            )
    except Exception:  # noqa: BLE001 - an embedder of anybody; search goes on without it
        return None
    return _by_model.get(model)


def _kinds() -> list[tuple[str, list[str]]]:
    """Return for each kind what its tools say, and the typical requests."""
    path = files("toolgate.search.relevance").joinpath("typical_requests.txt")
    kinds: list[tuple[str, list[str]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            says, _, asked = line.partition("|")
            kinds.append((says.strip(), [request.strip() for request in asked.split(";")]))
    return kinds
