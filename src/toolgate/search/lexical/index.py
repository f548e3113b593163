"""Words of tools as an index: what `bm25` ranks by, and one half of `hybrid`.

One index over all tools; who may see which is a mask at the moment of the request.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from heapq import nsmallest
from itertools import chain
from typing import NamedTuple, TypeAlias, TypedDict
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from toolgate.base.ranges import check_ranges
from toolgate.search.base import Hit, SearchableTool, SearchRequest
from toolgate.search.lexical.postings import (
    FIELDS,
    Patterns,
    Segment,
    TermCounts,
    Weights,
    WordIndex,
    build_segment,
    mean_lengths,
    read_counts,
    slots_of,
    terms_of,
    with_slots,
)
from toolgate.search.lexical.stop_words import stop_words_of
from toolgate.search.sequence_diff import exchanged, shared_head, shared_tail
from toolgate.search.tokenizer import (
    IGNORED,
    fold,
    is_noise,
    split_identifier,
    terms,
    words,
    words_of_request,
)

__all__ = [
    "QUERIES",
    "QUERY_CHARS",
    "LexicalState",
    "ParsedQuery",
    "WordMatch",
    "WordWeights",
    "allowed_by",
    "best_positions",
    "build_state",
    "coverage",
    "exact_matches",
    "explanation_of",
    "interleave_hits",
    "is_current",
    "matched_words",
    "missing_words_notice",
    "no_match_notice",
    "parse_query",
    "positions_with_quotes",
    "quoted_strings",
    "restored",
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
_SHORT_WORDS = 6
_QUERY_TERMS = 256
_WORDS_REMEMBERED = 20_000
"""Words of requests whose terms are remembered."""
_NAMES_REMEMBERED = 4_096
"""Names of tools whose words are remembered."""

SEGMENTED_FROM = 20_000
"""Tools from which on a change is put beside what is there instead of into it."""
_DELTA_MOST = 0.1
"""Share of tools that are beside the rest before all are put together."""
_GONE_MOST = 0.2
"""Share of places without a tool before all are put together."""
_DRIFT_MOST = 0.05
"""How far the mean length of a field may have moved before all is weighed anew."""
_LANES = 16
_TINY = float(np.finfo(np.float32).tiny)
_N_SPELLINGS = 5


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
        weights = {item.name: (0, 100) for item in fields(WordWeights)}
        check_ranges(self, {**weights, "k1": (0, 10), "b": (0, 1)})

    def of_fields(self) -> "FieldWeights":
        """The same as `build_segment` takes them."""
        weights = (
            self.name_weight,
            self.title_weight,
            self.server_weight,
            self.description_weight,
            self.parameter_weight,
            self.parameter_text_weight,
        )
        return {"weights": weights, "k1": self.k1, "b": self.b}


class FieldWeights(TypedDict):
    """How words count, in the order of the fields."""

    weights: Weights
    k1: float
    b: float


@dataclass(frozen=True)
class LexicalState:
    """One state of the index; what is added to shared parts later is beyond what it looks at.

    A tool has a place in the arrays, and a position in the order of the mask. Both are the same
    until a large index gets tools in its middle, or loses some.
    """

    tools_in_order: tuple[SearchableTool, ...] = ()
    """The tools, by position."""
    keys: tuple[str, ...] = ()
    """Theirs."""
    tools: Sequence[SearchableTool] = ()
    """The tools by place; later states may share and lengthen it."""
    size: int = 0
    """Places, those of tools that are gone included."""
    slots: NDArray[np.int32] | None = None
    """Place of each position; None: they are the same."""
    live: NDArray[np.bool_] | None = None
    """Which places have a tool; None: all of them."""
    servers: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """Number of each place's server in `server_names`."""
    server_names: dict[str, int] = field(default_factory=dict[str, int])
    """By folded name; later states share it and add to it."""
    names: "tuple[NameIndex, ...]" = ()
    """What people call the tools."""
    vocabulary: dict[str, int] = field(default_factory=dict[str, int])
    """Numbers of terms; later states share it and add to it."""
    index: WordIndex | None = None
    """The arrays that are shared between states."""

    def slots_named(self, spelling: str) -> list[tuple[int, int]]:
        """What people call so: the rank of that way, 0 for the key itself, and the place."""
        checksum = _checksum(spelling)
        return [
            (rank, slot)
            for names in self.names
            for rank, slot in names.find(checksum)
            if (self.live is None or self.live[slot])
            and _spellings(self.tools[slot])[rank] == spelling
        ]


@dataclass(frozen=True)
class NameIndex:
    """What tools are called, as sorted hashes: a dictionary would be larger than all the rest.

    Checksums, the same in each process; two names with the same one are told apart by the tools.
    """

    hashes: NDArray[np.uint32]
    """Checksums of names, sorted."""
    ranks: NDArray[np.uint8]
    """How strongly each name means its tool; lower is stronger."""
    slots: NDArray[np.int32]
    """Place of the tool of each name."""

    def find(self, checksum: int) -> list[tuple[int, int]]:
        """Rank and place of what has this hash."""
        hashes = self.hashes.data
        begin = bisect_left(hashes, checksum)
        if begin == len(hashes) or hashes[begin] != checksum:
            return []
        end = bisect_right(hashes, checksum, begin)
        return list(
            zip(self.ranks[begin:end].tolist(), self.slots[begin:end].tolist(), strict=True)
        )


def _names_of(tools: Iterable[SearchableTool], first: int) -> NameIndex:
    hashes = [[_checksum(spelling) for spelling in _spellings(tool)] for tool in tools]
    table = np.array(hashes, np.uint32).reshape(-1, _N_SPELLINGS)
    ranks = np.tile(np.arange(_N_SPELLINGS, dtype=np.uint8), len(table))
    slots = np.repeat(np.arange(first, first + len(table), dtype=np.int32), _N_SPELLINGS)
    return _sorted(NameIndex(table.reshape(-1), ranks, slots))


def _checksum(spelling: str) -> int:
    return crc32(spelling.encode(errors="surrogatepass"))


def _sorted(names: NameIndex) -> NameIndex:
    by_hash = np.argsort(names.hashes, kind="stable")
    return NameIndex(names.hashes[by_hash], names.ranks[by_hash], names.slots[by_hash])


class ParsedQuery(NamedTuple):
    """The words of one request, as the index knows them."""

    terms: dict[int, str]
    """The word as it was written, by the number of its term."""
    unknown: tuple[str, ...] = ()
    """Words, as they were written, of terms that no tool has."""
    only_common: bool = False
    """Whether it has words, but none that says anything."""
    n_words: int = 0
    """All its words, those that say nothing too."""
    max_score: float = 0.0
    """The highest score that a tool could have for it."""


def build_state(
    last: LexicalState, tools: tuple[SearchableTool, ...], weights: WordWeights
) -> LexicalState:
    """The index of these tools; only those that `last` lacks are read."""
    if last.index and len(last.vocabulary) > 4 * last.index.n_used + 10_000:
        last = LexicalState()  # most of its words belong to tools that are gone
    if not tools:
        return LexicalState(vocabulary=last.vocabulary)
    change = _change(last, tools)
    if last.index and len(tools) > SEGMENTED_FROM:
        # What is gone counts no more in how rare its words are.
        away = _read(last.vocabulary, last.index.patterns, change.leaving(last), 0)
        state = _appended(last, tools, change, weights, terms_of(away.keys))
        if state is not None:
            return state
    return _rebuilt(last, tools, change, weights)


def restored(
    stored: LexicalState,
    tools: tuple[SearchableTool, ...],
    slots: NDArray[np.int32],
    weights: WordWeights,
) -> LexicalState:
    """The index of these tools, of which most are in a segment that was read before.

    Args:
        stored: That segment, without its tools.
        tools: All tools.
        slots: Where each of them is in it; -1: it is to be read.
        weights: Those that the segment was weighed with.
    """
    assert stored.index is not None
    listed = [_NOBODY] * stored.size
    for slot, tool in zip(slots.tolist(), tools, strict=True):
        if slot >= 0:
            listed[slot] = tool
    there = np.zeros(stored.size, np.bool_)
    there[slots[slots >= 0]] = True
    gone = np.flatnonzero(~there)
    fresh = tuple(tools[at] for at in np.flatnonzero(slots < 0).tolist())
    last = replace(stored, tools=listed)
    if not len(gone) and not fresh and bool((np.diff(slots) == 1).all()):
        return replace(last, tools_in_order=tools, keys=tuple(tool.key for tool in tools))
    change = _IndexChange(slots, fresh, gone, 0, 0)
    if len(tools) > SEGMENTED_FROM:
        away = stored.index.segments[0].terms_at(gone)
        state = _appended(last, tools, change, weights, away)
        if state is not None:
            return state
    return _rebuilt(last, tools, change, weights)


_NOBODY = SearchableTool(key="", server="", name="")
"""At a place whose tool is gone since it was read."""


@dataclass(frozen=True)
class _IndexChange:
    """What is different from the state before."""

    slots: NDArray[np.int32]
    """Place of each tool in the state before; -1: it is new or another one now."""
    fresh: tuple[SearchableTool, ...]
    """The tools of those."""
    gone: NDArray[np.int64]
    """Places in the state before whose tool is not there any more."""
    head: int
    """Tools that are the same at the beginning."""
    tail: int
    """And at the end."""

    def leaving(self, last: LexicalState) -> list[SearchableTool]:
        """The tools that are not there any more."""
        slots: list[int] = self.gone.tolist()
        return [last.tools[slot] for slot in slots]


def _change(last: LexicalState, tools: tuple[SearchableTool, ...]) -> _IndexChange:
    """Most of a catalog stays: what is before and after all that changed is only compared."""
    old, before = last.tools_in_order, _slots(last)
    head = shared_head(old, tools)
    tail = shared_tail(old, tools, head)
    old_positions = {old[at].key: at for at in range(head, len(old) - tail)}
    slots = np.full(len(tools), -1, np.int32)
    slots[:head] = before[:head]
    slots[len(tools) - tail :] = before[len(old) - tail :]
    for at in range(head, len(tools) - tail):
        was = old_positions.get(tools[at].key)
        if was is not None and _same(old[was], tools[at]):
            slots[at] = before[was]
            del old_positions[tools[at].key]
    gone = np.sort(before[list(old_positions.values())].astype(np.int64))
    fresh = tuple(tools[at] for at in np.flatnonzero(slots < 0).tolist())
    return _IndexChange(slots, fresh, gone, head, tail)


def _slots(state: LexicalState) -> NDArray[np.int32]:
    return np.arange(state.size, dtype=np.int32) if state.slots is None else state.slots


def _read(
    vocabulary: dict[str, int], patterns: Patterns, tools: Sequence[SearchableTool], first: int
) -> TermCounts:
    reader = _TermReader(vocabulary)
    return read_counts(map(reader.read, tools), patterns, first, len(tools))


def _numbered(
    names: dict[str, int], tools: Iterable[SearchableTool], size: int
) -> NDArray[np.int32]:
    """Numbers of the tools' servers; new ones are added."""
    numbers: dict[str, int] = {}
    server_of = np.empty(size, np.int32)
    for at, tool in enumerate(tools):
        number = numbers.get(tool.server)
        if number is None:
            number = numbers[tool.server] = names.setdefault(fold(tool.server), len(names))
        server_of[at] = number
    return server_of


def _rebuilt(
    last: LexicalState,
    tools: tuple[SearchableTool, ...],
    change: _IndexChange,
    weights: WordWeights,
) -> LexicalState:
    """All in one segment, places as positions; what was read before is not read again."""
    vocabulary = last.vocabulary
    patterns = last.index.patterns if last.index else Patterns()
    fresh_at = np.flatnonzero(change.slots < 0).astype(np.int32)
    counts: list[TermCounts] = []
    names: list[NameIndex] = []
    moved = np.full(last.size + 1, -1, np.int32)
    stays = change.slots >= 0
    moved[change.slots[stays]] = np.flatnonzero(stays)
    servers = np.empty(len(tools), np.int32)
    if last.index:
        counts = [_moved(segment, moved, len(tools)) for segment in last.index.segments]
        names = [_renamed(part, moved) for part in last.names]
        servers[stays] = last.servers[change.slots[stays]]
    if len(change.fresh):
        read = _read(vocabulary, patterns, change.fresh, 0)
        slots_named = _names_of(change.fresh, 0)
        counts.append(_placed(read, fresh_at, len(tools)))
        names.append(NameIndex(slots_named.hashes, slots_named.ranks, fresh_at[slots_named.slots]))
        servers[fresh_at] = _numbered(last.server_names, change.fresh, len(change.fresh))
    lengths = np.zeros((FIELDS, len(tools)), np.uint16)
    for part in counts:
        lengths += part.lengths
    keys = np.concatenate([part.keys for part in counts])
    usual = mean_lengths([lengths])
    del counts
    segment = build_segment(
        [TermCounts(keys, lengths)],
        first=0,
        n_terms=len(vocabulary),
        patterns=patterns,
        usual=usual,
        **weights.of_fields(),
    )
    return LexicalState(
        tools_in_order=tools,
        keys=tuple(tool.key for tool in tools),
        tools=list(tools),
        size=len(tools),
        servers=servers,
        server_names=last.server_names,
        names=(_joined(names),),
        vocabulary=vocabulary,
        index=WordIndex((segment,), usual=usual, patterns=patterns),
    )


def _joined(names: Sequence[NameIndex]) -> NameIndex:
    return _sorted(
        NameIndex(
            np.concatenate([part.hashes for part in names]),
            np.concatenate([part.ranks for part in names]),
            np.concatenate([part.slots for part in names]),
        )
    )


def _moved(segment: Segment, moved: NDArray[np.int32], size: int) -> TermCounts:
    """A segment's counts under new places; those of tools that are gone are left out."""
    keys = segment.keys()
    new = moved[segment.slots]
    stays = new >= 0
    lengths = np.zeros((FIELDS, size), np.uint16)
    there = moved[segment.first : segment.first + segment.lengths.shape[1]]
    lengths[:, there[there >= 0]] = segment.lengths[:, there >= 0]
    return TermCounts(with_slots(keys[stays], new[stays]), lengths)


def _renamed(names: NameIndex, moved: NDArray[np.int32]) -> NameIndex:
    new = moved[names.slots]
    stays = new >= 0
    return NameIndex(names.hashes[stays], names.ranks[stays], new[stays])


def _placed(read: TermCounts, slots: NDArray[np.int32], size: int) -> TermCounts:
    """Counts of tools that were numbered from 0, at their places."""
    lengths = np.zeros((FIELDS, size), np.uint16)
    lengths[:, slots] = read.lengths
    return TermCounts(with_slots(read.keys, slots[slots_of(read.keys)]), lengths)


def _appended(
    last: LexicalState,
    tools: tuple[SearchableTool, ...],
    change: _IndexChange,
    weights: WordWeights,
    away: NDArray[np.int64],
) -> LexicalState | None:
    """The state before with new tools at its end; None where all is better put together anew.

    `away` are the terms of the tools that are gone, each as often as tools have it.
    """
    index = last.index
    assert index is not None
    base = index.segments[0]
    n_base = base.lengths.shape[1]
    added = last.size - n_base + len(change.fresh)
    dead = len(index.gone) + len(change.gone)
    if added > n_base * _DELTA_MOST or dead > n_base * _GONE_MOST:
        return None
    patterns, vocabulary = index.patterns, last.vocabulary
    gone_df = np.bincount(away, minlength=len(vocabulary))
    gone_df[: len(index.gone_df)] += index.gone_df
    counts = [TermCounts(part.keys(), part.lengths) for part in index.segments[1:]]
    if change.fresh:
        counts.append(_read(vocabulary, patterns, change.fresh, last.size))
    gone = np.union1d(index.gone, change.gone)
    usual = mean_lengths([base.lengths, *(part.lengths for part in counts)], gone)
    if any(abs(new - old) > _DRIFT_MOST * old for new, old in zip(usual, index.usual, strict=True)):
        return None
    segments: tuple[Segment, ...] = (base,)
    if counts:
        delta = build_segment(
            counts,
            first=n_base,
            n_terms=len(vocabulary),
            patterns=patterns,
            usual=index.usual,
            **weights.of_fields(),
        )
        segments = (base, delta)
    listed = last.tools
    assert isinstance(listed, list)
    if len(listed) != last.size:
        listed = listed[: last.size]  # another state has gone on from the one before
    listed.extend(change.fresh)
    size = last.size + len(change.fresh)
    slots = change.slots
    slots[slots < 0] = np.arange(last.size, size, dtype=np.int32)
    live = np.ones(size, np.bool_)
    live[gone] = False
    names = last.names
    if change.fresh:
        names = (*names[:1], _joined([*names[1:], _names_of(change.fresh, last.size)]))
    return LexicalState(
        tools_in_order=tools,
        keys=exchanged(
            last.keys,
            change.head,
            [tool.key for tool in tools[change.head : len(tools) - change.tail]],
            change.tail,
        ),
        tools=listed,
        size=size,
        slots=slots,
        live=live,
        servers=np.concatenate(
            [last.servers, _numbered(last.server_names, change.fresh, len(change.fresh))]
        ),
        server_names=last.server_names,
        names=names,
        vocabulary=vocabulary,
        index=WordIndex(segments, usual=index.usual, patterns=patterns, gone=gone, gone_df=gone_df),
    )


def parse_query(state: LexicalState, text: str) -> ParsedQuery:
    """The words of a request that count."""
    numbers: dict[int, str] = {}
    unknown: dict[str, str] = {}
    common, small = False, stop_words_of(text)
    every = words_of_request(text)
    rarity = (state.index.df if state.index else _NO_DF).data
    number_of = state.vocabulary.get
    terms_known = len(rarity)
    for word in every:
        if small and fold(word) in small:
            common = True
            continue
        telling, has_common = _telling(word)
        common = common or has_common
        for term in telling:
            if len(numbers) + len(unknown) < _QUERY_TERMS:
                number = number_of(term, terms_known)
                if number < terms_known and rarity[number]:
                    numbers.setdefault(number, word)
                else:
                    unknown.setdefault(term, word)
    telling_any = bool(numbers or unknown)
    max_score = (
        state.index.max_score(list(numbers), len(unknown)) if state.index and numbers else 0.0
    )
    return ParsedQuery(
        numbers, tuple(unknown.values()), common and not telling_any, len(every), max_score
    )


@lru_cache(maxsize=_WORDS_REMEMBERED)
def _telling(word: str) -> tuple[tuple[str, ...], bool]:
    """The terms of a request's word that say something, and whether others say nothing."""
    every = terms(word)
    if word.lower() in IGNORED:
        return (), bool(every)
    telling = tuple(term for term in every if term not in IGNORED and not is_noise(term))
    return telling, len(telling) < len(every)


_NO_DF = np.zeros(0, np.int64)


def coverage(state: LexicalState, asked: ParsedQuery) -> NDArray[np.float32]:
    """Share of the request that each place covers, in [0, 1)."""
    if state.index is None or not asked.terms:
        return np.zeros(state.size, np.float32)
    scores = state.index.scores(asked.terms)
    scores /= asked.max_score
    return scores


class _TermReader:
    """Turns the words of tools into numbers."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        every, telling = _TermNumbers(vocabulary, prose=False), _TermNumbers(vocabulary, prose=True)
        self._fields = [
            ((telling if name in _PROSE else every).__getitem__, _CUT.get(name, 1_000))
            for name in _FIELDS
        ]

    def read(self, tool: SearchableTool) -> list[Iterable[int]]:
        """For each field the numbers of its terms, as often as they occur."""
        return [
            chain.from_iterable(map(numbers, words(text[:limit])))
            for (numbers, limit), text in zip(self._fields, _texts(tool), strict=True)
        ]


class _TermNumbers(dict[str, tuple[int, ...]]):
    """The numbers of the terms of each word that was asked for."""

    def __init__(self, vocabulary: dict[str, int], *, prose: bool) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._is_prose = prose

    def __missing__(self, word: str) -> tuple[int, ...]:
        number = self._vocabulary
        numbers = self[word] = tuple(
            number.setdefault(term, len(number))
            for term in terms(word)
            if not (self._is_prose and is_noise(term))
        )
        return numbers


def is_current(state: LexicalState, tools: tuple[SearchableTool, ...]) -> bool:
    """Whether these are the tools of the index."""
    if len(tools) != len(state.tools_in_order):
        return False
    head = shared_head(state.tools_in_order, tools)
    return all(_same(state.tools_in_order[at], tools[at]) for at in range(head, len(tools)))


def _same(old: SearchableTool, new: SearchableTool) -> bool:
    if old is new:
        return True
    if old.digest or new.digest:
        return old.key == new.key and old.digest == new.digest and old.server == new.server
    return old == new


def _texts(tool: SearchableTool) -> tuple[str, ...]:
    """The text of each of `_FIELDS`."""
    title, parameters = tool.title, tool.parameters
    return (
        tool.name,
        "" if title == tool.name else title,
        tool.server,
        tool.description,
        " ".join([name for name, _ in parameters]),
        " ".join([text for _, text in parameters if text]),
    )


def _spellings(tool: SearchableTool) -> tuple[str, ...]:
    whole = tool.key, f"{tool.server}__{tool.name}", tool.name
    return (
        *(fold(spelling) for spelling in whole),
        *(_plain(spelling) or spelling for spelling in (tool.key, tool.name)),
    )


def _plain(name: str) -> str:
    """A name without everything but letters and digits, to compare `list files` with it."""
    folded = fold(name)
    return folded.translate(_DROPPED) if folded.isascii() else _SEPARATORS.sub("", folded)


_SEPARATORS = re.compile(r"[\W_]+")
_DROPPED = {code: None for code in range(128) if not chr(code).isalnum()}
"""The same among plain characters, which goes faster."""
_QUOTES = "\"'`“”„«»"
_AROUND = f"{_QUOTES}.,;:!?()[]"
"""What stands around a word and is no part of it."""
_QUOTED = re.compile(r"""["“”„«»`]([^"“”„«»`]{2,100})["“”„«»`]|(?<!\w)'([^']{2,100})'(?!\w)""")


def quoted_strings(query: str) -> list[str]:
    """The quoted strings of a request, folded."""
    if query.isascii() and not ('"' in query or "'" in query or "`" in query):
        return []
    return [fold(text or other) for text, other in _QUOTED.findall(query)]


def exact_matches(state: LexicalState, query: str, quoted: Sequence[str]) -> dict[int, int]:
    """Tools that the request calls by name, with the rank of the way; lower is more exact."""
    bare = query.strip(_QUOTES)
    whole = [fold(bare), _plain(bare)] if len(bare) <= 200 else []
    written = [
        fold(word.strip(_AROUND))
        for word in query.split()
        if not (word.isascii() and word.isalnum())
    ]
    within = [*quoted, *(word for word in written if not word.isalnum())]
    ranks: dict[int, int] = {}
    for spellings, further in ((whole, 0), (within, 4)):
        for spelling in filter(None, spellings):
            for rank, slot in state.slots_named(spelling):
                ranks[slot] = min(ranks.get(slot, 9), rank + further)
    return ranks


def positions_with_quotes(
    state: LexicalState,
    scores: NDArray[np.float32],
    query: str,
    quoted: Sequence[str],
    slots: NDArray[np.int64] | None = None,
) -> list[int]:
    """Positions of those of the best tools whose texts have all the quoted strings.

    One quoted word counts in short requests alone: in long ones it is mostly a value for a tool.
    """
    if quoted and len(query.split()) > _SHORT_WORDS:
        quoted = [phrase for phrase in quoted if " " in phrase]
    if not quoted:
        return []
    candidates = best_positions(state, scores, _PHRASE_CANDIDATES, slots)
    where = candidates if slots is None else slots[candidates].tolist()
    texts = {
        at: fold(" ".join(_texts(state.tools[slot])))
        for at, slot in zip(candidates, where, strict=True)
    }
    return [at for at, text in texts.items() if all(_stands_in(text, phrase) for phrase in quoted)]


def _stands_in(text: str, phrase: str) -> bool:
    """Whether a folded text has a phrase; a word only as a whole one."""
    if phrase not in text:
        return False
    is_word = phrase.isalnum()
    return not is_word or re.search(rf"(?<![^\W_]){phrase}(?![^\W_])", text) is not None


def allowed_by(
    state: LexicalState, request: SearchRequest
) -> tuple[NDArray[np.bool_] | None, int, list[str]]:
    """Which places may be found, None for all; how many these are; and what is to be said."""
    mask = request.mask
    if mask is not None and len(mask) != len(state.tools_in_order):
        # A mask made for another state of the index says nothing about this one.
        nobody = np.zeros(state.size, np.bool_)
        return nobody, 0, ["The tools changed during the search. Search again."]
    if mask is None:
        allowed, count = state.live, len(state.tools_in_order)
    else:
        allowed = np.asarray(mask, np.bool_)
        count = int(np.count_nonzero(allowed))
        if state.slots is not None:
            by_place = np.zeros(state.size, np.bool_)
            by_place[state.slots] = allowed
            allowed = by_place
    if not request.servers:
        return allowed, count, []
    numbers = {name: state.server_names.get(fold(name), -1) for name in request.servers}
    notices: list[str] = []
    within = np.zeros(state.size, np.bool_)
    for name, number in numbers.items():
        of_server = state.servers == number
        if allowed is not None:
            of_server &= allowed
        if not of_server.any():
            notices.append(f"Server {name[:64]!r} has no tool here.")
        within |= of_server
    return within, int(np.count_nonzero(within)), notices


def best_positions(
    state: LexicalState,
    scores: NDArray[np.float32],
    limit: int,
    slots: NDArray[np.int64] | None = None,
) -> list[int]:
    """Where the best are, none with a score of 0; equal scores in order of key.

    `slots` are those of the scores; None: one score for each place.
    """
    if limit <= 0:
        return []
    highest = highest_scores(scores, limit)
    lost = -scores[highest]
    order = lost.argsort(kind="stable")
    ranked: list[int] = highest[order].tolist()
    reached: list[float] = lost[order].tolist()
    if len(set(reached)) < len(reached):
        where: list[int] = ranked if slots is None else slots[ranked].tolist()
        keys = [state.tools[slot].key for slot in where]
        every = zip(reached, keys, ranked, strict=True)
        return [at for _, _, at in nsmallest(limit, every)]
    return ranked[:limit]


def highest_scores(scores: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    """Where the highest scores above 0 are, and all that are equal to the least of these."""
    rows = len(scores) // _LANES
    if rows > 4 * limit:
        # The limit-th of the highest of each lane is no more than the limit-th of all.
        lanes = np.maximum.reduce(scores[: rows * _LANES].reshape(_LANES, rows), axis=0)
        lanes.partition(-limit)
        (positions,) = (scores >= max(float(lanes[-limit]), _TINY)).nonzero()
        if len(positions) > limit:
            reached = scores[positions]
            positions = positions[reached >= _least_of(reached, limit)]
    else:
        least = _least_of(scores, limit) if len(scores) > limit else 0.0
        (positions,) = (scores >= max(least, _TINY)).nonzero()
    return positions


def _least_of(scores: NDArray[np.float32], limit: int) -> float:
    """The `limit`-th of the highest."""
    cut = scores.copy()
    cut.partition(-limit)
    return float(cut[-limit])


def interleave_hits(
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
    merged: dict[str, Hit] = {}
    for group in (lists, then):
        for turn in range(max((len(hits) for hits in group), default=0)):
            for hits in group:
                if turn < len(hits) and len(merged) < limit:
                    merged.setdefault(hits[turn].key, best[hits[turn].key])
    return list(merged.values())


def missing_words_notice(
    state: LexicalState, asked: ParsedQuery, allowed: NDArray[np.bool_] | None
) -> str:
    """Which words of a short request no visible tool has; long requests tell a story."""
    if state.index is None or len(asked.terms) + len(asked.unknown) > _SHORT:
        return ""
    # Words of hidden tools count as missing: a notice must not tell that they are somewhere.
    hidden = (word for number, word in asked.terms.items() if not state.index.has(number, allowed))
    missing = ", ".join(repr(word[:40]) for word in dict.fromkeys((*asked.unknown, *hidden)))
    return f"Weak match: no tool here mentions {missing}." if missing else ""


def no_match_notice(asked: ParsedQuery) -> str:
    """Why there is no hit at all."""
    if asked.terms or asked.unknown:
        return (
            "Nothing fits: no tool here has any of these words. "
            "Say it in other words, or name the kind of thing that is needed."
        )
    if asked.only_common:
        return "Nothing fits: the query has only common words. Say what the tool should do."
    return "Nothing fits: the query has no words. Say in a few words what the tool should do."


_Name: TypeAlias = tuple[str, tuple[str, ...]]
"""A name, or a word of one, with its terms."""


class WordMatch(NamedTuple):
    """What a tool has of a request."""

    words: dict[str, list[str]]
    """By the weightiest field with them."""
    share: float
    """Of what the request's words say, the rare ones most, in [0, 1]."""


_UNMATCHED = WordMatch({}, 0.0)


def matched_words(state: LexicalState, slots: Sequence[int], asked: ParsedQuery) -> list[WordMatch]:
    """What each tool has of the request."""
    if state.index is None:
        return [_UNMATCHED for _ in slots]
    fields = state.index.fields_of(asked.terms, slots)
    rarity = state.index.idf.data
    matches: list[WordMatch] = []
    for at, terms_by_field in zip(slots, fields, strict=True):
        has = set(chain.from_iterable(terms_by_field.values()))
        share = sum(map(rarity.__getitem__, has)) / asked.max_score if has else 0.0
        matches.append(
            WordMatch(_by_name(state, at, terms_by_field, asked), share) if has else _UNMATCHED
        )
    return matches


def _by_name(
    state: LexicalState, slot: int, fields: dict[int, list[int]], asked: ParsedQuery
) -> dict[str, list[str]]:
    tool = state.tools[slot]
    matched: dict[str, list[str]] = {}
    seen: set[int] = set()
    for row in sorted(fields):
        numbers = [number for number in fields[row] if number not in seen]
        if not numbers:
            continue
        seen.update(numbers)
        name = _FIELDS[row]
        if name == "name":
            matched[name] = _named(state, _words_of_name(tool.name), numbers)
        elif name == "server":
            matched[name] = [tool.server]
        elif name == "parameters":
            names = dict.fromkeys([name for name, _ in tool.parameters])
            matched["parameter"] = _named(state, map(_whole_name, names), numbers)
        elif name != "parameter texts":
            matched[name] = list(dict.fromkeys(asked.terms[number] for number in numbers))
    return matched


def _named(state: LexicalState, names: Iterable[_Name], numbers: Iterable[int]) -> list[str]:
    """Those names that have one of the terms."""
    number = state.vocabulary.get
    term_numbers: set[int | None] = set(numbers)
    return [
        name for name, name_terms in names if not term_numbers.isdisjoint(map(number, name_terms))
    ]


@lru_cache(maxsize=_NAMES_REMEMBERED)
def _words_of_name(name: str) -> tuple[_Name, ...]:
    """Remembered: the same tools are found again and again."""
    return tuple(map(_whole_name, dict.fromkeys(split_identifier(name))))


@lru_cache(maxsize=_WORDS_REMEMBERED)
def _whole_name(name: str) -> _Name:
    """Remembered: parameters have the same few names again and again."""
    return name, tuple(term for word in words(name) for term in terms(word))


def explanation_of(matched: dict[str, list[str]]) -> str:
    """One short sentence of what matched, the strongest field first."""
    parts = [f'{label} "{" ".join(texts[:4])}"' for label, texts in matched.items() if texts]
    return f"matches {', '.join(parts[:3])}" if parts else "matches a parameter's description"
