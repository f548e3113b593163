"""Typical requests for common kinds of tools, in words that such tools do not have.

"coffee shops near the station" needs a web search, "average order value last month" a database;
no word of either is in the tool. `typical_requests.txt` has such requests for a hundred kinds of
tools, each with what its tools say about themselves. A short request is moved towards the
descriptions of tools for the most similar requests; a long one is clear enough.

`everyday_requests.txt` adds kinds that few catalogs have, such as ordering a pizza. They move no
request. Both lists say what kind of tool a request wants, and whether the best tools are of it. A
request that is near to one of everyday life is less likely to be for any tool.

Kinds are compared in a space of fewer dimensions, in which requests of one kind are near to each
other and far from those of other kinds. `training/kinds.py` fits it to the model and the lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders import Embedder, embedded
from toolgate.search.tokenizer import words_of_request

SPACE: Final = Path(__file__).with_name("kind_space.npz")
"""The space of kinds: `model`, the identity of the embedding model, and `space`, the projection."""

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
_HEAT: Final = 12.0
"""How much the nearest kinds outweigh others: one .1 less similar counts three tenths. Of 10, 12
and 16 the one that best tells whether anything fits, with areas of phrases left out in turn."""
_KINDS: Final = 6
"""Number of nearest kinds of a request that the tools are compared with; of 3, 6 and all."""
_FIRST, _SEVERAL = 3, 10
"""Numbers of best tools: whose kinds are compared with those of a request, and which may serve
one of them; chosen."""
_PRESENT: Final = 0.5
"""Cosine to the description of a kind from which a tool is of that kind. Of .4, .5 and .6 the one
that best tells whether anything fits, with areas of phrases left out in turn."""
_CLEARLY_PRESENT: Final = 0.6
"""Like `_PRESENT`, for the kinds of everyday requests: of .4 to .7 the lowest value that tells
about as well whether anything fits as no such condition, with areas of phrases left out in turn."""


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
    everyday: float
    """Cosine of the nearest request of everyday life, in [-1, 1]; one for which a tool is there
    does not count."""


@dataclass(frozen=True)
class TypicalRequests:
    """Typical and everyday requests, and the descriptions of the tools for them, as vectors."""

    requests: NDArray[np.float32]
    """The requests that move others, rows of length 1; shape (requests, dim)."""
    kinds: NDArray[np.int64]
    """The kind of tools for each of them: a row of `descriptions`."""
    descriptions: NDArray[np.float32]
    """Descriptions of kinds, rows of length 1; shape (kinds, dim)."""
    space: NDArray[np.float32]
    """Projection into the space of kinds; shape (dim, fewer dimensions)."""
    described: NDArray[np.float32]
    """Descriptions of all kinds in that space, rows of length 1; those without requests of their
    own come last."""
    known: NDArray[np.float32]
    """All requests in that space, rows of length 1, by kind; then the further ones by kind."""
    begins: NDArray[np.int64]
    """The first row in `known` of each kind with requests, then of each with further ones."""
    owners: NDArray[np.int64]
    """The kinds of these groups: rows of `described`."""
    common: int
    """Number of first kinds that move requests; the others are of everyday life."""

    @property
    def _with_requests(self) -> int:
        return len(self.descriptions)

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
        every = (_unit(tools @ self.space) @ self.described.T).round(5)
        nearest_tools = every.max(axis=0)
        is_lacking = nearest_tools[self.owners[self.common :]] < _CLEARLY_PRESENT
        alike = every[:, : self._with_requests]
        of_tools, there = _shares(alike[:_FIRST]), nearest_tools[: self._with_requests] >= _PRESENT
        among = alike[:_SEVERAL]
        matches: list[KindMatch] = []
        for part in known:
            # One product per part: a product of a few rows with all requests costs five times as
            # much.
            cosines = self.known @ _unit(part @ self.space)
            near = np.maximum.reduceat(cosines, self.begins).round(5)
            row, everyday = near[: self._with_requests], near[self.common :]
            nearest = np.argsort(-row, kind="stable")[:_KINDS]
            shares = _shares(row[nearest])
            matches.append(
                KindMatch(
                    served=round(float(shares @ among[:, nearest].max(axis=0)), 4),
                    near=round(float(shares @ row[nearest]), 4),
                    # The Bhattacharyya coefficient of two distributions over kinds.
                    agreement=round(float(np.sqrt(of_tools * _shares(row)).sum(axis=1).max()), 4),
                    lead=_lead(row, there),
                    everyday=round(float(np.where(is_lacking, everyday, 0.0).max()), 4),
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


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors scaled to length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.maximum(lengths, np.float32(1e-6))).astype(np.float32)


_by_model: dict[str, TypicalRequests] = {}


async def typical_requests(embedder: Embedder) -> TypicalRequests | None:
    """Return the requests for an embedder, which a process embeds once.

    None if they are not fitted to this embedder, or if it fails, which is reported when it
    embeds the tools.
    """
    try:
        model = embedder.identity
        if model.startswith(_MODELS) and model not in _by_model:
            _by_model[model] = await _embedded_requests(embedder)
    except Exception:  # noqa: BLE001 - an embedder of anybody; search goes on without it
        return None
    return _by_model.get(model)


async def _embedded_requests(embedder: Embedder) -> TypicalRequests:
    texts = await kind_texts(embedder)
    return await anyio.to_thread.run_sync(_requests_of, texts, embedder.identity)


@dataclass(frozen=True)
class KindTexts:
    """The texts of both lists as vectors, rows of length 1."""

    requests: NDArray[np.float32]
    """All requests, by kind; then the further ones by kind. Shape (requests, dim)."""
    descriptions: NDArray[np.float32]
    """What the tools of each kind say; kinds without requests come last. Shape (kinds, dim)."""
    owners: NDArray[np.int64]
    """The kind of each group of requests: a row of `descriptions`."""
    sizes: NDArray[np.int64]
    """Number of requests in each group."""
    with_requests: int
    """Number of first kinds with requests of their own."""
    common: int
    """Number of first kinds that move requests; the others are of everyday life."""

    @property
    def kinds(self) -> NDArray[np.int64]:
        """The kind of each request."""
        return np.repeat(self.owners, self.sizes)


async def kind_texts(embedder: Embedder) -> KindTexts:
    """Return the texts of the lists, embedded."""
    common, everyday = _read("typical_requests.txt"), _read("everyday_requests.txt")
    # Kinds without requests of their own stand for no tools, but show how kinds differ.
    every = sorted([*common, *everyday], key=lambda kind: not kind.requests)
    groups = [(at, kind.requests) for at, kind in enumerate(every) if kind.requests]
    groups += [(at, kind.further) for at, kind in enumerate(every) if kind.further]
    asked = [request for _, requests in groups for request in requests]
    return KindTexts(
        requests=await embedded(embedder, asked, "document"),
        descriptions=await embedded(embedder, [kind.says for kind in every], "document"),
        owners=np.array([at for at, _ in groups]),
        sizes=np.array([len(requests) for _, requests in groups]),
        with_requests=sum(bool(kind.requests) for kind in every),
        common=len(common),
    )


def _requests_of(texts: KindTexts, model: str) -> TypicalRequests:
    """Return the requests with their vectors; takes milliseconds, so it is done in a thread."""
    with np.load(SPACE, allow_pickle=False) as fitted:
        if str(fitted["model"]) != model:
            raise ValueError(f"the space of kinds is not fitted to {model}")
        space: NDArray[np.float32] = fitted["space"]
    moving = int(texts.sizes[: texts.common].sum())
    return TypicalRequests(
        # A copy, since the others are only needed in that space.
        requests=texts.requests[:moving].copy(),
        kinds=texts.kinds[:moving],
        descriptions=texts.descriptions[: texts.with_requests],
        space=space,
        described=_unit(texts.descriptions @ space),
        known=_unit(texts.requests @ space),
        begins=np.cumsum([0, *texts.sizes[:-1]]),
        owners=texts.owners,
        common=texts.common,
    )


class _Kind(NamedTuple):
    """A line of a list."""

    says: str
    """What its tools say about themselves."""
    requests: Sequence[str]
    """What people ask of them."""
    further: Sequence[str]
    """More of that, which does not stand for the kind."""


def _read(file: str) -> list[_Kind]:
    """Return the kinds of a list."""
    lines = SPACE.with_name(file).read_text(encoding="utf-8").splitlines()
    return [_kind(line) for line in lines if line and not line.startswith("#")]


def _kind(line: str) -> _Kind:
    says, asked, further = (*line.split("|"), "")[:3]
    return _Kind(says.strip(), _split(asked), _split(further))


def _split(requests: str) -> list[str]:
    return [request.strip() for request in requests.split(";") if request.strip()]
