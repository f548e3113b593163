"""Lexical search: BM25 over the words of a tool, its name weighing most.

One index over all tools; who may see which is a mask at the moment of the request. Names given
exactly (`server:tool`, `server__tool`, `tool`) come first, then quoted strings, then the rest.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import anyio
import anyio.to_thread
import bm25s  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
from numpy.typing import NDArray

from toolgate.errors import OptionError
from toolgate.search import Hit, SearchableTool, SearchAnswer, SearchRequest, SearchStrategy
from toolgate.search._text import IGNORED, fold, is_noise, split_identifier, terms, words

__all__ = ["Bm25Search", "Options", "build"]

_FIELDS = ("name", "title", "server", "description", "parameters", "parameter texts")
_CUT = {"description": 8_000, "parameter texts": 4_000}
"""Characters of a field that are read."""
_QUERY_CHARS = 4_000
_QUERY_TERMS = 256
_QUERIES = 32


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[search.options]` for `strategy = "bm25"`."""

    k1: float = 1.2
    """How much a word's repetition counts; 0 to 10, 0 counts it once."""

    b: float = 0.75
    """How much a long field is held against a tool; 0 (not) to 1 (fully)."""

    name_weight: float = 3.0
    """Weight of the tool's name; 0 to 100."""

    title_weight: float = 1.0
    """Weight of its title."""

    server_weight: float = 1.0
    """Weight of the name of its server."""

    description_weight: float = 1.0
    """Weight of its description."""

    parameter_weight: float = 1.0
    """Weight of the names of its parameters."""

    parameter_text_weight: float = 1.0
    """Weight of the descriptions of its parameters."""

    context_weight: float = 0.2
    """Weight of the words of `context`; they shift ranks and add no tool."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            most = {"k1": 10.0, "b": 1.0}.get(name, 100.0)
            if not 0 <= value <= most:
                raise OptionError(
                    f"Option {name!r} of search 'bm25' is {value!r}.",
                    allowed=f"Allowed: 0 to {most:g}.",
                    hint="Correct it under search.options.",
                )


def build(options: Options) -> "Bm25Search":
    """A lexical search with an empty index."""
    return Bm25Search(options)


@dataclass(frozen=True)
class _Read:
    """A tool as it was read: its words as numbers, by field."""

    tool: SearchableTool
    ids: tuple[NDArray[np.int32], ...]
    """Terms, each once, by field."""
    counts: tuple[NDArray[np.float32], ...]
    """How often, parallel to `ids`."""


@dataclass(frozen=True)
class _State:
    """One state of the index; never changed."""

    reads: tuple[_Read, ...] = ()
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
    index: "_Index | None" = None


class _Index(bm25s.BM25):
    """bm25s' scoring over an index whose counts are weighted by field (BM25F).

    bm25s counts each word of a document alike and reads documents one by one; here counts come
    ready, so that a change of one server costs only that server's words and one pass of NumPy.
    """

    def __init__(self, reads: Sequence[_Read], n_terms: int, options: Options) -> None:
        super().__init__(method="lucene")  # pyright: ignore[reportUnknownMemberType]
        self.nonoccurrence_array = None
        self.n_terms = n_terms
        weights = (
            options.name_weight,
            options.title_weight,
            options.server_weight,
            options.description_weight,
            options.parameter_weight,
            options.parameter_text_weight,
        )
        tools, ids, counts = _weighted(reads, weights, options.b)
        df = np.bincount(ids, minlength=n_terms)
        self.idf: NDArray[np.float32] = np.log1p((len(reads) - df + 0.5) / (df + 0.5)).astype(
            np.float32
        )
        data = self.idf[ids] * (counts / (options.k1 + counts))
        self.scores: dict[str, Any] = {
            "data": data.astype(np.float32),
            "indices": tools.astype(np.int32),
            "indptr": np.concatenate(([0], np.cumsum(df))),
            "num_docs": len(reads),
        }

    def worth(self, found: Sequence[int], unknown: int) -> float:
        """The highest score that a request of these words could have; `unknown` are in no tool."""
        rarest = float(np.log1p((self.scores["num_docs"] + 0.5) / 0.5))
        return float(self.idf[list(found)].sum()) + unknown * rarest


def _weighted(
    reads: Sequence[_Read], weights: Sequence[float], b: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Tool, term and weighted count of all pairs that occur, by term, then by tool."""
    tools: list[NDArray[np.int64]] = []
    ids: list[NDArray[np.int32]] = []
    counts: list[NDArray[np.float32]] = []
    places = np.arange(len(reads))
    for place, weight in enumerate(weights):
        if weight == 0:
            continue
        sizes = np.array([len(read.ids[place]) for read in reads])
        if not sizes.sum():
            continue
        owner = np.repeat(places, sizes)
        count = np.concatenate([read.counts[place] for read in reads])
        lengths = np.bincount(owner, weights=count, minlength=len(reads))
        usual = lengths[lengths > 0].mean()
        tools.append(owner)
        ids.append(np.concatenate([read.ids[place] for read in reads]))
        counts.append((weight * count / (1 - b + b * lengths / usual)[owner]).astype(np.float32))
    if not tools:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, np.zeros(0, np.float32)
    pairs = np.concatenate(ids).astype(np.int64) * len(reads) + np.concatenate(tools)
    pairs, inverse = np.unique(pairs, return_inverse=True)
    summed = np.bincount(inverse, weights=np.concatenate(counts)).astype(np.float32)
    return pairs % len(reads), pairs // len(reads), summed


@dataclass(frozen=True)
class _Asked:
    """The words of one request or clause, as the index knows them."""

    found: tuple[int, ...]
    unknown: int
    surface: dict[str, str]
    """The word as it was written, by term."""
    only_common: bool


class Bm25Search:
    """Ranks tools by their words.

    `relevance` is the share of the request's information (inverse document frequencies) that the
    tool covers, 1 for an exact name. It is monotone in the score and comparable between requests
    of like length, but it is not yet calibrated as a probability.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._vocabulary: dict[str, int] = {}
        self._state = _State()
        self._updating = anyio.Lock()
        self._building = threading.Lock()

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the tools in the index, in the order of the mask."""
        return self._state.keys

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Make these the tools of the index; only new and changed ones are read."""
        wanted = tuple(tools)
        async with self._updating:
            if _is_current(self._state, wanted):
                return
            self._state = await anyio.to_thread.run_sync(self._build, wanted)

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The tools that fit best."""
        started = perf_counter()
        state = self._state
        allowed, notices = _allowed(state, request)
        searched = int(allowed.sum())
        hits: list[Hit] = []
        if searched:
            lists: list[list[Hit]] = []
            queries = [query for query in request.queries if query.strip()]
            for query in queries[:_QUERIES]:
                found, notice = self._search_one(state, query, allowed, request)
                lists.append(found)
                if notice and notice not in notices:
                    notices.append(notice)
            if len(queries) > _QUERIES:
                notices.append(
                    f"Only the first {_QUERIES} of {len(queries)} queries were searched."
                )
            if not queries:
                notices.append("The query is empty. Say in a few words what the tool should do.")
            hits = _dealt(lists, request.limit)
        elif not notices:
            notices.append("There is no tool to search.")
        return SearchAnswer(
            hits=tuple(hits),
            notices=tuple(notices),
            searched=searched,
            duration_ms=(perf_counter() - started) * 1000,
        )

    def _build(self, tools: tuple[SearchableTool, ...]) -> _State:
        with self._building:
            before = {read.tool.key: read for read in self._state.reads}
            reads: list[_Read] = []
            for tool in tools:
                old = before.get(tool.key)
                reads.append(old if old and _same(old.tool, tool) else self._read(tool))
            servers: dict[str, int] = {}
            for read in reads:
                servers.setdefault(fold(read.tool.server), len(servers))
            keys = tuple(tool.key for tool in tools)
            order = np.empty(len(keys), np.int64)
            order[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
            return _State(
                reads=tuple(reads),
                keys=keys,
                order=order,
                servers=np.array([servers[fold(r.tool.server)] for r in reads], np.int64),
                server_names=servers,
                names=_names(tools),
                index=_Index(reads, len(self._vocabulary), self._options) if reads else None,
            )

    def _read(self, tool: SearchableTool) -> _Read:
        ids: list[NDArray[np.int32]] = []
        counts: list[NDArray[np.float32]] = []
        number = self._vocabulary
        for name, text in zip(_FIELDS, _texts(tool), strict=True):
            prose = name in {"description", "parameter texts"}
            counted = Counter(
                number.setdefault(term, len(number))
                for word in words(text[: _CUT.get(name, 1_000)])
                for term in terms(word)
                if not (prose and is_noise(term))
            )
            ids.append(np.fromiter(counted.keys(), np.int32, len(counted)))
            counts.append(np.fromiter(counted.values(), np.float32, len(counted)))
        return _Read(tool, tuple(ids), tuple(counts))

    def _search_one(
        self, state: _State, query: str, allowed: NDArray[np.bool_], request: SearchRequest
    ) -> tuple[list[Hit], str]:
        query, notice = query.strip(), ""
        if len(query) > _QUERY_CHARS:
            notice = f"Only the first {_QUERY_CHARS} characters of the query were searched."
            query = query[:_QUERY_CHARS]
        exact = _exact(state, query, allowed)
        asked = self._asked(state, query)
        scores = self._scores(state, asked, request)
        scores[~allowed] = 0
        for position in exact:
            scores[position] = 2 - exact[position] / 10
        best = _best(scores, state.order, request.limit)
        hits = [
            self._hit(state, int(position), float(scores[position]), asked, query)
            for position in best
        ]
        hits = [hit for hit in hits if hit.relevance >= request.threshold]
        if not hits and len(best):
            notice = (
                f"No tool reaches the relevance of {request.threshold:g} that was asked for. "
                "Ask with a lower threshold."
            )
        elif not hits:
            notice = _nothing(asked)
        return hits, notice

    def _asked(self, state: _State, text: str) -> _Asked:
        surface: dict[str, str] = {}
        common = False
        for word in words(text):
            for term in terms(word):
                if term in IGNORED or word.lower() in IGNORED or is_noise(term):
                    common = True
                elif len(surface) < _QUERY_TERMS:
                    surface.setdefault(term, word)
        n_terms = state.index.n_terms if state.index else 0
        ids = [self._vocabulary.get(term, n_terms) for term in surface]
        found = tuple(number for number in ids if number < n_terms)
        return _Asked(found, len(ids) - len(found), surface, common and not surface)

    def _scores(self, state: _State, asked: _Asked, request: SearchRequest) -> NDArray[np.float32]:
        scores = self._covered(state, asked)
        if request.context.strip() and self._options.context_weight:
            context = self._covered(state, self._asked(state, request.context[:_QUERY_CHARS]))
            weight = self._options.context_weight
            scores = np.where(scores > 0, (scores + weight * context) / (1 + weight), scores)
        for key, prior in request.priors.items():
            for rank, position in state.names.get(fold(key), ()):
                if rank == 0:
                    scores[position] = min(1.0, scores[position] + max(0.0, prior))
        return scores

    def _covered(self, state: _State, asked: _Asked) -> NDArray[np.float32]:
        """Share of the request that each tool covers, in [0, 1)."""
        if state.index is None or not asked.found:
            return np.zeros(len(state.keys), np.float32)
        scores: NDArray[np.float32] = state.index.get_scores_from_ids(  # pyright: ignore[reportUnknownMemberType]
            list(asked.found)
        )
        scores /= state.index.worth(asked.found, asked.unknown)
        return scores

    def _hit(self, state: _State, position: int, score: float, asked: _Asked, query: str) -> Hit:
        tool = state.reads[position].tool
        if score > 1:
            return Hit(
                key=tool.key,
                relevance=1.0,
                explanation="has exactly this name",
                fields={"query": query[:200]},
                source="exact",
            )
        matched = _matched(tool, asked)
        return Hit(
            key=tool.key,
            relevance=round(min(1.0, score), 4),
            explanation=_explanation(matched),
            fields={"query": query[:200], "matched": matched},
        )


def _is_current(state: _State, tools: tuple[SearchableTool, ...]) -> bool:
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


def _names(tools: Iterable[SearchableTool]) -> dict[str, list[tuple[int, int]]]:
    names: dict[str, list[tuple[int, int]]] = {}
    for position, tool in enumerate(tools):
        ways = (tool.key, f"{tool.server}__{tool.name}", tool.name)
        plain = (_plain(tool.key), _plain(tool.name))
        for rank, way in enumerate([*(fold(way) for way in ways), *plain]):
            if way:
                names.setdefault(way, []).append((rank, position))
    return names


def _plain(name: str) -> str:
    """A name without everything but letters and digits, to compare `list files` with it."""
    return "".join(letter for letter in fold(name) if letter.isalnum())


_QUOTED = re.compile(r"""["“”„«»`]([^"“”„«»`]{2,100})["“”„«»`]|(?<!\w)'([^']{2,100})'(?!\w)""")
_NAME_LIKE = re.compile(r"[\w.\-]+(?:__|:)[\w.\-/]+|\w+(?:[_\-]\w+)+")


def _exact(state: _State, query: str, allowed: NDArray[np.bool_]) -> dict[int, int]:
    """Tools that the request calls by name, with the rank of the way; lower is more exact."""
    found: dict[int, int] = {}
    bare = query.strip("\"'`“”„«» \t")
    whole = [fold(bare), *([_plain(bare)] if len(bare) <= 100 else [])]
    quoted = [fold(one or other) for one, other in _QUOTED.findall(query)]
    written = [fold(name) for name in _NAME_LIKE.findall(query)]
    for place, way in enumerate([*whole, *quoted, *written]):
        for rank, position in state.names.get(way, ()):
            if allowed[position]:
                degree = rank if place < len(whole) else rank + 4
                found[position] = min(found.get(position, 9), degree)
    return found


def _allowed(state: _State, request: SearchRequest) -> tuple[NDArray[np.bool_], list[str]]:
    size = len(state.keys)
    allowed = np.ones(size, np.bool_) if request.mask is None else request.mask
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


def _best(scores: NDArray[np.float32], order: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Positions of the best, none with a score of 0; equal scores in order of key."""
    found = np.flatnonzero(scores > 0)
    if len(found) > limit > 0:
        cut = np.partition(scores[found], -limit)[-limit]
        found = found[scores[found] >= cut]
    return found[np.lexsort((order[found], -scores[found]))][: max(0, limit)]


def _dealt(lists: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """The hits of several requests by turns, each tool once with its best relevance."""
    if len(lists) == 1:
        return list(lists[0][:limit])
    best: dict[str, Hit] = {}
    for hit in (hit for hits in lists for hit in hits):
        if hit.key not in best or hit.relevance > best[hit.key].relevance:
            best[hit.key] = hit
    dealt: dict[str, Hit] = {}
    for turn in range(max((len(hits) for hits in lists), default=0)):
        for hits in lists:
            if turn < len(hits) and len(dealt) < limit:
                dealt.setdefault(hits[turn].key, best[hits[turn].key])
    return list(dealt.values())


def _nothing(asked: _Asked) -> str:
    """Why there is no hit at all."""
    if asked.surface:
        return (
            "Nothing fits: no tool here has any of these words. "
            "Say it in other words, or name the kind of thing that is needed."
        )
    if asked.only_common:
        return "Nothing fits: the query has only common words. Say what the tool should do."
    return "Nothing fits: the query has no words. Say in a few words what the tool should do."


def _matched(tool: SearchableTool, asked: _Asked) -> dict[str, list[str]]:
    """The words of the request that were found, by field, as they are written."""
    matched: dict[str, list[str]] = {}

    def note(label: str, found: Iterator[str] | Iterable[str]) -> None:
        some = list(dict.fromkeys(found))
        if some:
            matched[label] = some

    wanted = asked.surface
    note("name", (p for p in split_identifier(tool.name) if _hits(p, wanted)))
    note("title", (w for w in words(tool.title[:1_000]) if _hits(w, wanted)))
    note("server", (tool.server for _ in (1,) if _hits_any(tool.server, wanted)))
    note("parameter", (name for name, _ in tool.parameters if _hits_any(name, wanted)))
    there = {
        term for word in words(tool.description[: _CUT["description"]]) for term in terms(word)
    }
    note("description", (word for term, word in wanted.items() if term in there))
    return matched


def _hits(word: str, wanted: dict[str, str]) -> bool:
    return any(term in wanted for term in terms(word))


def _hits_any(name: str, wanted: dict[str, str]) -> bool:
    return any(_hits(word, wanted) for word in words(name))


def _explanation(matched: dict[str, list[str]]) -> str:
    """One short sentence of what matched, the strongest field first."""
    said: set[str] = set()
    parts: list[str] = []
    for label, found in matched.items():
        fresh = [word for word in found if fold(word) not in said][:4]
        said.update(fold(word) for word in fresh)
        if fresh and len(parts) < 3:
            parts.append(f'{label} "{" ".join(fresh)}"')
    return f"matches {', '.join(parts)}" if parts else "matches a parameter's description"


_: type[SearchStrategy] = Bm25Search
