"""Words of tools as an index: what `bm25` ranks by, and one half of `hybrid`.

One index over all tools; who may see which is a mask at the moment of the request.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import bm25s  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
from numpy.typing import NDArray

from toolgate.errors import OptionError
from toolgate.search._text import IGNORED, fold, is_noise, split_identifier, terms, words
from toolgate.search.base import Hit, SearchableTool, SearchRequest

__all__ = [
    "QUERIES",
    "QUERY_CHARS",
    "QUOTED",
    "Asked",
    "LexicalState",
    "WordWeights",
    "allowed_by",
    "asked_of",
    "best_of",
    "build_state",
    "covered",
    "dealt",
    "exact",
    "explanation_of",
    "is_current",
    "matched_words",
    "missing_words",
    "nothing",
    "quoting",
]

_FIELDS = ("name", "title", "server", "description", "parameters", "parameter texts")
_CUT = {"description": 8_000, "parameter texts": 4_000}
"""Characters of a field that are read."""
_PROSE = frozenset({"description", "parameter texts"})
QUERY_CHARS = 4_000
"""Characters of a query that are searched."""
QUERIES = 32
"""Queries of a request that are searched."""
_SHORT = 8
_PHRASE_CANDIDATES = 50
_QUERY_TERMS = 256


@dataclass(frozen=True, kw_only=True)
class WordWeights:
    """How words count, by field."""

    k1: float = 4.5
    """How much a word's repetition counts; 0 to 10, 0 counts it once."""

    b: float = 0.75
    """How much a long field is held against a tool; 0 (not) to 1 (fully)."""

    name_weight: float = 4.0
    """Weight of the tool's name; 0 to 100."""

    title_weight: float = 1.0
    """Weight of its title."""

    server_weight: float = 3.0
    """Weight of the name of its server."""

    description_weight: float = 1.0
    """Weight of its description."""

    parameter_weight: float = 0.5
    """Weight of the names of its parameters."""

    parameter_text_weight: float = 0.3
    """Weight of the descriptions of its parameters."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            most = {"k1": 10.0, "b": 1.0}.get(name, 100.0)
            if isinstance(value, float | int) and not 0 <= value <= most:
                raise OptionError(
                    f"Option {name!r} of the search is {value!r}.",
                    allowed=f"Allowed: 0 to {most:g}.",
                    hint="Correct it under search.options.",
                )


@dataclass(frozen=True)
class Read:
    """A tool as it was read: its words as numbers."""

    tool: SearchableTool
    ids: NDArray[np.int32]
    """Its terms, each once."""
    counts: NDArray[np.uint16]
    """Shape (fields, terms): how often each term is in each field."""
    ways: tuple[str, ...]
    """What people may call it, the most exact first: key, exposed name, name, the bare letters."""


@dataclass(frozen=True)
class LexicalState:
    """One state of the index; never changed, but for words that are added to the vocabulary."""

    reads: tuple[Read, ...] = ()
    keys: tuple[str, ...] = ()
    order: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Place of each tool when sorted by key."""
    servers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Number of each tool's server in `server_names`."""
    server_names: dict[str, int] = field(default_factory=dict[str, int])
    """By folded name."""
    names: dict[str, list[tuple[int, int]]] = field(
        default_factory=dict[str, list[tuple[int, int]]]
    )
    """What people call a tool, to (rank of that way, position); 0 is the key itself."""
    vocabulary: dict[str, int] = field(default_factory=dict[str, int])
    """Numbers of terms; later states share it and add to it."""
    index: "WordIndex | None" = None


class WordIndex(bm25s.BM25):
    """bm25s' scoring over an index whose counts are weighted by field (BM25F).

    bm25s counts each word of a document alike and reads documents one by one; here counts come
    ready, so that a change of one server costs only that server's words and one pass of NumPy.
    """

    def __init__(self, reads: Sequence[Read], n_terms: int, weights: WordWeights) -> None:
        super().__init__(method="lucene")  # pyright: ignore[reportUnknownMemberType]
        self.nonoccurrence_array = None
        self.n_terms = n_terms
        ids = np.concatenate([read.ids for read in reads])
        owner = np.repeat(np.arange(len(reads), dtype=np.int32), [len(r.ids) for r in reads])
        counts = _weighted(reads, owner, weights)
        by_term = np.argsort(ids, kind="stable")
        ids, owner, counts = ids[by_term], owner[by_term], counts[by_term]
        df = np.bincount(ids, minlength=n_terms)
        self.idf = np.log1p((len(reads) - df + 0.5) / (df + 0.5)).astype(np.float32)
        self.scores: dict[str, Any] = {
            "data": self.idf[ids] * (counts / (np.float32(weights.k1) + counts)),
            "indices": owner,
            "indptr": np.concatenate(([0], np.cumsum(df))),
            "num_docs": len(reads),
        }
        self.n_used = int(np.count_nonzero(df))

    def owners(self, number: int) -> NDArray[np.int32]:
        """Positions of the tools that have a term."""
        begin, end = self.scores["indptr"][number : number + 2]
        return self.scores["indices"][begin:end]

    def worth(self, found: Sequence[int], unknown: int) -> float:
        """The highest score that a request of these words could have; `unknown` are in no tool."""
        rarest = float(np.log1p((self.scores["num_docs"] + 0.5) / 0.5))
        return float(self.idf[list(found)].sum()) + unknown * rarest


def _weighted(
    reads: Sequence[Read], owner: NDArray[np.int32], chosen: WordWeights
) -> NDArray[np.float32]:
    """How often each term of each tool counts, fields weighted and long ones held back."""
    weights = (
        chosen.name_weight,
        chosen.title_weight,
        chosen.server_weight,
        chosen.description_weight,
        chosen.parameter_weight,
        chosen.parameter_text_weight,
    )
    counts = np.concatenate([read.counts for read in reads], axis=1)
    total = np.zeros(counts.shape[1], np.float32)
    for row, weight in zip(counts, weights, strict=True):
        lengths = np.bincount(owner, weights=row, minlength=len(reads))
        if weight and lengths.any():
            usual = lengths[lengths > 0].mean()
            factor = weight / (1 - chosen.b + chosen.b * lengths / usual)
            total += row * factor.astype(np.float32)[owner]
    return total


@dataclass(frozen=True)
class Asked:
    """The words of one request, as the index knows them."""

    found: dict[int, str]
    """The word as it was written, by the number of its term."""
    unknown: tuple[str, ...] = ()
    """Words, as they were written, of terms that no tool has."""
    only_common: bool = False
    """Whether it has words, but none that says anything."""


def build_state(
    last: LexicalState, tools: tuple[SearchableTool, ...], weights: WordWeights
) -> LexicalState:
    """The index of these tools; only those that `last` lacks are read."""
    vocabulary, before = last.vocabulary, {read.tool.key: read for read in last.reads}
    if last.index and len(vocabulary) > 4 * last.index.n_used + 10_000:
        vocabulary, before = {}, {}  # most of its words belong to tools that are gone
    reader = _Reader(vocabulary)
    reads: list[Read] = []
    for tool in tools:
        old = before.get(tool.key)
        reads.append(old if old and _same(old.tool, tool) else reader.read(tool))
    server_names: dict[str, int] = {}
    servers = [server_names.setdefault(fold(r.tool.server), len(server_names)) for r in reads]
    names: dict[str, list[tuple[int, int]]] = {}
    for position, read in enumerate(reads):
        for rank, way in enumerate(read.ways):
            names.setdefault(way, []).append((rank, position))
    keys = tuple(tool.key for tool in tools)
    order = np.empty(len(keys), np.int64)
    order[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return LexicalState(
        reads=tuple(reads),
        keys=keys,
        order=order,
        servers=np.array(servers, np.int64),
        server_names=server_names,
        names=names,
        vocabulary=vocabulary,
        index=WordIndex(reads, len(vocabulary), weights) if reads else None,
    )


def asked_of(state: LexicalState, text: str) -> Asked:
    """The words of a request that count."""
    found: dict[int, str] = {}
    unknown: dict[str, str] = {}
    common = False
    n_terms = state.index.n_terms if state.index else 0
    for word in words(text):
        for term in terms(word):
            if term in IGNORED or is_noise(term) or word.lower() in IGNORED:
                common = True
            elif len(found) + len(unknown) < _QUERY_TERMS:
                number = state.vocabulary.get(term, n_terms)
                if number < n_terms:
                    found.setdefault(number, word)
                else:
                    unknown.setdefault(term, word)
    return Asked(found, tuple(unknown.values()), common and not found and not unknown)


def covered(state: LexicalState, asked: Asked) -> NDArray[np.float32]:
    """Share of the request that each tool covers, in [0, 1)."""
    if state.index is None or not asked.found:
        return np.zeros(len(state.keys), np.float32)
    found = list(asked.found)
    scores: NDArray[np.float32] = state.index.get_scores_from_ids(found)  # pyright: ignore[reportUnknownMemberType]
    scores /= state.index.worth(found, len(asked.unknown))
    return scores


class _Reader:
    """Turns the words of tools into numbers."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._vocabulary = vocabulary
        self._all: dict[str, tuple[int, ...]] = {}
        self._telling: dict[str, tuple[int, ...]] = {}

    def read(self, tool: SearchableTool) -> Read:
        """The tool with its words as numbers."""
        counts: dict[int, list[int]] = {}
        for row, (name, text) in enumerate(zip(_FIELDS, _texts(tool), strict=True)):
            numbers = self._prose if name in _PROSE else self._name
            for word in words(text[: _CUT.get(name, 1_000)]):
                for number in numbers(word):
                    if number not in counts:
                        counts[number] = [0] * len(_FIELDS)
                    counts[number][row] += 1
        table = np.array(list(counts.values()), np.uint16).reshape(-1, len(_FIELDS)).T
        ids = np.fromiter(counts, np.int32, len(counts))
        return Read(tool, ids, np.ascontiguousarray(table), _ways(tool))

    def _name(self, word: str) -> tuple[int, ...]:
        known = self._all.get(word)
        if known is None:
            number = self._vocabulary
            known = tuple(number.setdefault(term, len(number)) for term in terms(word))
            self._all[word] = known
        return known

    def _prose(self, word: str) -> tuple[int, ...]:
        known = self._telling.get(word)
        if known is None:
            number = self._vocabulary
            known = tuple(
                number.setdefault(term, len(number)) for term in terms(word) if not is_noise(term)
            )
            self._telling[word] = known
        return known


def is_current(state: LexicalState, tools: tuple[SearchableTool, ...]) -> bool:
    return len(tools) == len(state.reads) and all(
        _same(read.tool, tool) for read, tool in zip(state.reads, tools, strict=True)
    )


def _same(old: SearchableTool, new: SearchableTool) -> bool:
    if old is new:
        return True
    if old.digest or new.digest:
        return old.key == new.key and old.digest == new.digest and old.server == new.server
    return old == new


def _texts(tool: SearchableTool) -> tuple[str, ...]:
    """The text of each of `_FIELDS`."""
    return (
        tool.name,
        "" if tool.title == tool.name else tool.title,
        tool.server,
        tool.description,
        " ".join(name for name, _ in tool.parameters),
        " ".join(text for _, text in tool.parameters if text),
    )


def _ways(tool: SearchableTool) -> tuple[str, ...]:
    whole = tool.key, f"{tool.server}__{tool.name}", tool.name
    return (*(fold(way) for way in whole), *(_plain(way) or way for way in (tool.key, tool.name)))


def _plain(name: str) -> str:
    """A name without everything but letters and digits, to compare `list files` with it."""
    return _SEPARATORS.sub("", fold(name))


_SEPARATORS = re.compile(r"[\W_]+")
_QUOTES = "\"'`“”„«»"
QUOTED = re.compile(r"""["“”„«»`]([^"“”„«»`]{2,100})["“”„«»`]|(?<!\w)'([^']{2,100})'(?!\w)""")


def exact(state: LexicalState, query: str, quoted: Sequence[str]) -> dict[int, int]:
    """Tools that the request calls by name, with the rank of the way; lower is more exact."""
    bare = query.strip(_QUOTES)
    whole = [fold(bare), _plain(bare)] if len(bare) <= 200 else []
    written = [fold(word.strip(f"{_QUOTES}.,;:!?()[]")) for word in query.split()]
    within = [*quoted, *(word for word in written if not word.isalnum())]
    found: dict[int, int] = {}
    for ways, further in ((whole, 0), (within, 4)):
        for way in filter(None, ways):
            for rank, position in state.names.get(way, ()):
                found[position] = min(found.get(position, 9), rank + further)
    return found


def quoting(state: LexicalState, scores: NDArray[np.float32], quoted: Sequence[str]) -> list[int]:
    """Of the best tools, those whose texts have all the quoted strings."""
    if not quoted:
        return []
    candidates = [int(at) for at in best_of(scores, state.order, _PHRASE_CANDIDATES)]
    texts = {at: fold(" ".join(_texts(state.reads[at].tool))) for at in candidates}
    return [at for at, text in texts.items() if all(phrase in text for phrase in quoted)]


def allowed_by(state: LexicalState, request: SearchRequest) -> tuple[NDArray[np.bool_], list[str]]:
    size = len(state.keys)
    mask = request.mask
    allowed = np.ones(size, np.bool_) if mask is None else np.asarray(mask, np.bool_)
    if len(allowed) != size:
        # A mask made for another state of the index says nothing about this one.
        return np.zeros(size, np.bool_), ["The tools changed during the search. Search again."]
    if not request.servers:
        return allowed, []
    wanted = {name: state.server_names.get(fold(name), -1) for name in request.servers}
    notices: list[str] = []
    for name, number in wanted.items():
        if number < 0 or not (allowed & (state.servers == number)).any():
            notices.append(f"Server {name[:64]!r} has no tool here.")
    return allowed & np.isin(state.servers, list(wanted.values())), notices


def best_of(scores: NDArray[np.float32], order: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Positions of the best, none with a score of 0; equal scores in order of key."""
    found = np.flatnonzero(scores > 0)
    if len(found) > limit > 0:
        cut = np.partition(scores[found], -limit)[-limit]
        found = found[scores[found] >= cut]
    return found[np.lexsort((order[found], -scores[found]))][: max(0, limit)]


def dealt(
    lists: Sequence[Sequence[Hit]], limit: int, *, then: Sequence[Sequence[Hit]] = ()
) -> list[Hit]:
    """The hits of several requests by turns, each tool once with its best relevance.

    Those of `then` follow when all others are dealt.
    """
    if len(lists) + len(then) == 1:
        return list((lists or then)[0][:limit])
    best: dict[str, Hit] = {}
    for hit in (hit for hits in (*lists, *then) for hit in hits):
        if hit.key not in best or hit.relevance > best[hit.key].relevance:
            best[hit.key] = hit
    found: dict[str, Hit] = {}
    for group in (lists, then):
        for turn in range(max((len(hits) for hits in group), default=0)):
            for hits in group:
                if turn < len(hits) and len(found) < limit:
                    found.setdefault(hits[turn].key, best[hits[turn].key])
    return list(found.values())


def missing_words(state: LexicalState, asked: Asked, allowed: NDArray[np.bool_]) -> str:
    """Which words of a short request no visible tool has; long requests tell a story."""
    if state.index is None or len(asked.found) + len(asked.unknown) > _SHORT:
        return ""
    # Words of hidden tools count as missing: a notice must not tell that they are somewhere.
    hidden = (
        word
        for number, word in asked.found.items()
        if not allowed[state.index.owners(number)].any()
    )
    missing = ", ".join(repr(word[:40]) for word in dict.fromkeys((*asked.unknown, *hidden)))
    return f"Weak match: no tool here mentions {missing}." if missing else ""


def nothing(asked: Asked) -> str:
    """Why there is no hit at all."""
    if asked.found or asked.unknown:
        return (
            "Nothing fits: no tool here has any of these words. "
            "Say it in other words, or name the kind of thing that is needed."
        )
    if asked.only_common:
        return "Nothing fits: the query has only common words. Say what the tool should do."
    return "Nothing fits: the query has no words. Say in a few words what the tool should do."


def matched_words(state: LexicalState, read: Read, asked: Asked) -> dict[str, list[str]]:
    """The words of the request that the tool has, each by the weightiest field that has it."""
    tool, matched, said = read.tool, dict[str, list[str]](), set[int]()
    numbers = read.ids.tolist()
    places = [place for place, number in enumerate(numbers) if number in asked.found]
    rows = read.counts[:, places].tolist()
    for name, row in zip(_FIELDS, rows, strict=True):
        found = {numbers[place] for place, count in zip(places, row, strict=True) if count}
        found -= said
        said |= found
        if not found:
            continue
        if name == "name":
            matched[name] = _named(state, split_identifier(tool.name), found)
        elif name == "server":
            matched[name] = [tool.server]
        elif name == "parameters":
            matched["parameter"] = _named(state, (each for each, _ in tool.parameters), found)
        elif name != "parameter texts":
            matched[name] = list(dict.fromkeys(asked.found[number] for number in found))
    return matched


def _named(state: LexicalState, names: Iterable[str], found: set[int]) -> list[str]:
    """Those names that have one of the terms."""
    number = state.vocabulary.get
    return [
        name
        for name in dict.fromkeys(names)
        if any(number(term) in found for word in words(name) for term in terms(word))
    ]


def explanation_of(matched: dict[str, list[str]]) -> str:
    """One short sentence of what matched, the strongest field first."""
    parts = [f'{label} "{" ".join(found[:4])}"' for label, found in matched.items() if found]
    return f"matches {', '.join(parts[:3])}" if parts else "matches a parameter's description"
