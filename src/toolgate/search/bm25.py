"""Lexical search: BM25 over the words of a tool, its name weighing most.

One index over all tools; who may see which is a mask at the moment of the request. Names given
exactly (`server:tool`, `server__tool`, `tool`) come first, then quoted strings, then the rest.
"""

import re
from collections.abc import Iterable, Sequence
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
_PROSE = frozenset({"description", "parameter texts"})
_QUERY_CHARS = 4_000
_HALF = 0.1
_WEAK = 0.15
_SHORT = 8

# Three tiers of scores: the share of the request in [0, 1), the same and a quoted string, a name.
_PHRASE = 1.0
_EXACT = 2.0
_PHRASE_CANDIDATES = 50
_QUERY_TERMS = 256
_QUERIES = 32


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[search.options]` for `strategy = "bm25"`."""

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
    """A tool as it was read: its words as numbers."""

    tool: SearchableTool
    ids: NDArray[np.int32]
    """Its terms, each once."""
    counts: NDArray[np.uint16]
    """Shape (fields, terms): how often each term is in each field."""
    ways: tuple[str, ...]
    """What people may call it, the most exact first: key, exposed name, name, the bare letters."""


@dataclass(frozen=True)
class _State:
    """One state of the index; never changed, but for words that are added to the vocabulary."""

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
    vocabulary: dict[str, int] = field(default_factory=dict[str, int])
    """Numbers of terms; later states share it and add to it."""
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
        ids = np.concatenate([read.ids for read in reads])
        owner = np.repeat(np.arange(len(reads), dtype=np.int32), [len(r.ids) for r in reads])
        counts = _weighted(reads, owner, options)
        by_term = np.argsort(ids, kind="stable")
        ids, owner, counts = ids[by_term], owner[by_term], counts[by_term]
        df = np.bincount(ids, minlength=n_terms)
        self.idf = np.log1p((len(reads) - df + 0.5) / (df + 0.5)).astype(np.float32)
        self.scores: dict[str, Any] = {
            "data": self.idf[ids] * (counts / (np.float32(options.k1) + counts)),
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
    reads: Sequence[_Read], owner: NDArray[np.int32], options: Options
) -> NDArray[np.float32]:
    """How often each term of each tool counts, fields weighted and long ones held back."""
    weights = (
        options.name_weight,
        options.title_weight,
        options.server_weight,
        options.description_weight,
        options.parameter_weight,
        options.parameter_text_weight,
    )
    counts = np.concatenate([read.counts for read in reads], axis=1)
    total = np.zeros(counts.shape[1], np.float32)
    for row, weight in zip(counts, weights, strict=True):
        lengths = np.bincount(owner, weights=row, minlength=len(reads))
        if weight and lengths.any():
            usual = lengths[lengths > 0].mean()
            factor = weight / (1 - options.b + options.b * lengths / usual)
            total += row * factor.astype(np.float32)[owner]
    return total


@dataclass(frozen=True)
class _Asked:
    """The words of one request, as the index knows them."""

    found: dict[int, str]
    """The word as it was written, by the number of its term."""
    unknown: tuple[str, ...] = ()
    """Words, as they were written, of terms that no tool has."""
    only_common: bool = False
    """Whether it has words, but none that says anything."""


class Bm25Search:
    """Ranks tools by their words.

    `relevance` comes from the share of the request's information (inverse document frequencies)
    that the tool covers, 1 for an exact name. It is monotone in the score within one request, but
    not yet calibrated as a probability.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._state = _State()
        self._updating = anyio.Lock()

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
        last = self._state
        vocabulary, before = last.vocabulary, {read.tool.key: read for read in last.reads}
        if last.index and len(vocabulary) > 4 * last.index.n_used + 10_000:
            vocabulary, before = {}, {}  # most of its words belong to tools that are gone
        reader = _Reader(vocabulary)
        reads: list[_Read] = []
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
        return _State(
            reads=tuple(reads),
            keys=keys,
            order=order,
            servers=np.array(servers, np.int64),
            server_names=server_names,
            names=names,
            vocabulary=vocabulary,
            index=_Index(reads, len(vocabulary), self._options) if reads else None,
        )

    def _search_one(
        self, state: _State, query: str, allowed: NDArray[np.bool_], request: SearchRequest
    ) -> tuple[list[Hit], str]:
        query, notice = query.strip(), ""
        if len(query) > _QUERY_CHARS:
            notice = f"Only the first {_QUERY_CHARS} characters of the query were searched."
            query = query[:_QUERY_CHARS]
        asked = _asked(state, query)
        scores = self._scores(state, asked, request)
        scores[~allowed] = 0
        quoted = [fold(one or other) for one, other in _QUOTED.findall(query)]
        for position in _quoting(state, scores, [one for one in quoted if " " in one]):
            scores[position] += _PHRASE
        for position, rank in _exact(state, query, quoted).items():
            if allowed[position]:
                scores[position] = _EXACT + 1 - rank / 10
        best = _best(scores, state.order, request.limit)
        hits = [_hit(state, int(at), float(scores[at]), asked, query) for at in best]
        hits = [hit for hit in hits if hit.relevance >= request.threshold]
        if not hits and len(best):
            notice = (
                f"No tool reaches the relevance of {request.threshold:g} that was asked for. "
                "Ask with a lower threshold."
            )
        elif not hits:
            notice = _nothing(asked)
        elif not notice and scores[best[0]] < _WEAK:
            notice = _weak(state, asked, allowed)
        if notice and len(request.queries) > 1:
            notice = f"{query[:60]!r}: {notice}"
        return hits, notice

    def _scores(self, state: _State, asked: _Asked, request: SearchRequest) -> NDArray[np.float32]:
        scores = _covered(state, asked)
        if request.context.strip() and self._options.context_weight:
            context = _covered(state, _asked(state, request.context[:_QUERY_CHARS]))
            weight = np.float32(self._options.context_weight)
            scores = np.where(scores > 0, (scores + weight * context) / (1 + weight), scores)
        for key, prior in request.priors.items():
            for rank, position in state.names.get(fold(key), ()):
                if rank == 0:
                    scores[position] = min(0.99, scores[position] + max(0.0, prior))
        return scores


def _asked(state: _State, text: str) -> _Asked:
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
    return _Asked(found, tuple(unknown.values()), common and not found and not unknown)


def _covered(state: _State, asked: _Asked) -> NDArray[np.float32]:
    """Share of the request that each tool covers, in [0, 1)."""
    if state.index is None or not asked.found:
        return np.zeros(len(state.keys), np.float32)
    found = list(asked.found)
    scores: NDArray[np.float32] = state.index.get_scores_from_ids(found)  # pyright: ignore[reportUnknownMemberType]
    scores /= state.index.worth(found, len(asked.unknown))
    return scores


def _hit(state: _State, position: int, score: float, asked: _Asked, query: str) -> Hit:
    read = state.reads[position]
    if score >= _EXACT:
        return Hit(
            key=read.tool.key,
            relevance=1.0,
            explanation="has exactly this name",
            fields={"query": query[:200]},
            source="exact",
        )
    matched = _matched(state, read, asked)
    has_phrase = score >= _PHRASE
    explanation = _explanation(matched)
    return Hit(
        key=read.tool.key,
        relevance=round(_relevance(score / 2 if has_phrase else score), 4),
        explanation=f"has the quoted text, {explanation}" if has_phrase else explanation,
        fields={"query": query[:200], "matched": matched},
    )


def _relevance(share: float) -> float:
    """The share of a request that a tool covers on a scale that people can read.

    Monotone, 0 and 1 stay; a tenth gives 0.55. Chosen so that hits of requests of forty words
    (median share 0.06) and of three words (0.4) are both told from nothing; not calibrated.
    """
    return min(1.0, share * (1 + _HALF) / (share + _HALF))


class _Reader:
    """Turns the words of tools into numbers."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._vocabulary = vocabulary
        self._all: dict[str, tuple[int, ...]] = {}
        self._telling: dict[str, tuple[int, ...]] = {}

    def read(self, tool: SearchableTool) -> _Read:
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
        return _Read(tool, ids, np.ascontiguousarray(table), _ways(tool))

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


def _ways(tool: SearchableTool) -> tuple[str, ...]:
    whole = tool.key, f"{tool.server}__{tool.name}", tool.name
    return (*(fold(way) for way in whole), *(_plain(way) or way for way in (tool.key, tool.name)))


def _plain(name: str) -> str:
    """A name without everything but letters and digits, to compare `list files` with it."""
    return _SEPARATORS.sub("", fold(name))


_SEPARATORS = re.compile(r"[\W_]+")
_QUOTES = "\"'`“”„«»"
_QUOTED = re.compile(r"""["“”„«»`]([^"“”„«»`]{2,100})["“”„«»`]|(?<!\w)'([^']{2,100})'(?!\w)""")


def _exact(state: _State, query: str, quoted: Sequence[str]) -> dict[int, int]:
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


def _quoting(state: _State, scores: NDArray[np.float32], quoted: Sequence[str]) -> list[int]:
    """Of the best tools, those whose texts have all the quoted strings."""
    if not quoted:
        return []
    candidates = [int(at) for at in _best(scores, state.order, _PHRASE_CANDIDATES)]
    texts = {at: fold(" ".join(_texts(state.reads[at].tool))) for at in candidates}
    return [at for at, text in texts.items() if all(phrase in text for phrase in quoted)]


def _allowed(state: _State, request: SearchRequest) -> tuple[NDArray[np.bool_], list[str]]:
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


def _weak(state: _State, asked: _Asked, allowed: NDArray[np.bool_]) -> str:
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


def _nothing(asked: _Asked) -> str:
    """Why there is no hit at all."""
    if asked.found or asked.unknown:
        return (
            "Nothing fits: no tool here has any of these words. "
            "Say it in other words, or name the kind of thing that is needed."
        )
    if asked.only_common:
        return "Nothing fits: the query has only common words. Say what the tool should do."
    return "Nothing fits: the query has no words. Say in a few words what the tool should do."


def _matched(state: _State, read: _Read, asked: _Asked) -> dict[str, list[str]]:
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


def _named(state: _State, names: Iterable[str], found: set[int]) -> list[str]:
    """Those names that have one of the terms."""
    number = state.vocabulary.get
    return [
        name
        for name in dict.fromkeys(names)
        if any(number(term) in found for word in words(name) for term in terms(word))
    ]


def _explanation(matched: dict[str, list[str]]) -> str:
    """One short sentence of what matched, the strongest field first."""
    parts = [f'{label} "{" ".join(found[:4])}"' for label, found in matched.items() if found]
    return f"matches {', '.join(parts[:3])}" if parts else "matches a parameter's description"


_: type[SearchStrategy] = Bm25Search
