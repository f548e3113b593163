"""Builds the index of words, by which `bm25` ranks, and which is one half of `hybrid`.

One index has all tools; a mask says for each request which are visible. A change costs only the
words of the changed tools: a small index is rebuilt from existing counts, a large one gets a
second segment (see `postings`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import SearchableTool
from toolgate.search.lexical.postings import (
    FIELDS,
    Patterns,
    Segment,
    TermCounts,
    WordIndex,
    build_segment,
    mean_lengths,
    read_counts,
    slots_of,
    terms_of,
    with_slots,
)
from toolgate.search.lexical.state import LexicalState
from toolgate.search.lexical.tool_names import NameIndex, joined_names, names_of, renumbered
from toolgate.search.lexical.tool_texts import FIELD_NAMES, field_texts
from toolgate.search.lexical.weights import WordWeights
from toolgate.search.sequence_diff import exchanged, shared_head, shared_tail
from toolgate.search.tokenizer import (
    fold,
    is_noise,
    terms,
    words,
)

_CUT = {"description": 8_000, "parameter texts": 4_000}
"""Most characters of a field that are read, 1,000 of other fields: limits hostile texts; chosen."""
_PROSE = frozenset({"description", "parameter texts"})
SEGMENTED_FROM = 20_000
"""Index size above which changes go into a separate segment; chosen."""
_DELTA_MOST = 0.1
"""Largest share of tools outside the first segment before segments are merged; chosen."""
_GONE_MOST = 0.2
"""Largest share of slots without a tool before segments are merged; chosen."""
_DRIFT_MOST = 0.05
"""Largest relative change of a field's mean length before all weights are recomputed: BM25
divides by it, and the scores of a segment are computed only once; chosen."""


def build_state(
    last: LexicalState, tools: tuple[SearchableTool, ...], weights: WordWeights
) -> LexicalState:
    """Build the index of these tools; read only those that `last` lacks."""
    # The factor 4 and the 10,000 are chosen; they only limit the growth of the vocabulary.
    if last.index and len(last.vocabulary) > 4 * last.index.n_used + 10_000:
        last = LexicalState()  # most of its words belong to tools that are gone
    if not tools:
        return LexicalState(vocabulary=last.vocabulary)
    change = _change(last, tools)
    if last.index and len(tools) > SEGMENTED_FROM:
        # Removed tools no longer count in document frequencies.
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
    """Build the index of these tools, most of which are in a stored segment.

    Args:
        stored: State with that segment, without its tools.
        tools: All tools.
        slots: Slot of each tool in the segment; -1 for a tool that must be read.
        weights: Weights with which the segment was computed.
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
    # Same tools in the same order as in the file: its arrays are used unchanged.
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
"""Placeholder in the slot of a tool that has been removed since the segment was stored."""


@dataclass(frozen=True)
class _IndexChange:
    """Differences from the previous state."""

    slots: NDArray[np.int32]
    """Slot of each tool in the previous state; -1 if it is new or changed."""
    fresh: tuple[SearchableTool, ...]
    """New and changed tools."""
    gone: NDArray[np.int64]
    """Slots in the previous state whose tools were removed."""
    head: int
    """Number of unchanged tools at the beginning."""
    tail: int
    """Number of unchanged tools at the end."""

    def leaving(self, last: LexicalState) -> list[SearchableTool]:
        """Return the removed tools."""
        slots: list[int] = self.gone.tolist()
        return [last.tools[slot] for slot in slots]


def _change(last: LexicalState, tools: tuple[SearchableTool, ...]) -> _IndexChange:
    """Compare catalogs; the unchanged tools at both ends are only compared."""
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
            # Each old tool matches once; the remaining ones are removed.
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
    """Return the numbers of the tools' servers; add new servers."""
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
    """Rebuild one segment, with positions as slots; reuse the existing counts."""
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
        names = [renumbered(part, moved) for part in last.names]
        servers[stays] = last.servers[change.slots[stays]]
    if len(change.fresh):
        read = _read(vocabulary, patterns, change.fresh, 0)
        slots_named = names_of(change.fresh, 0)
        counts.append(_placed(read, fresh_at, len(tools)))
        names.append(NameIndex(slots_named.hashes, slots_named.ranks, fresh_at[slots_named.slots]))
        servers[fresh_at] = _numbered(last.server_names, change.fresh, len(change.fresh))
    lengths = np.zeros((FIELDS, len(tools)), np.uint16)
    for part in counts:
        lengths += part.lengths
    keys = np.concatenate([part.keys for part in counts])
    usual = mean_lengths([lengths])
    # Frees the parts before the next step needs a similar amount of memory.
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
        names=(joined_names(names),),
        vocabulary=vocabulary,
        index=WordIndex((segment,), usual=usual, patterns=patterns),
    )


def _moved(segment: Segment, moved: NDArray[np.int32], size: int) -> TermCounts:
    """Return a segment's counts in new slots, without removed tools."""
    keys = segment.keys()
    new = moved[segment.slots]
    stays = new >= 0
    lengths = np.zeros((FIELDS, size), np.uint16)
    there = moved[segment.first : segment.first + segment.lengths.shape[1]]
    lengths[:, there[there >= 0]] = segment.lengths[:, there >= 0]
    return TermCounts(with_slots(keys[stays], new[stays]), lengths)


def _placed(read: TermCounts, slots: NDArray[np.int32], size: int) -> TermCounts:
    """Move counts of tools numbered from 0 to the slots of these tools."""
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
    """Append new tools to the previous state; None if a rebuild is better.

    `away` are the terms of the removed tools, once for each tool that has them.
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
    # Later segments are merged with the new tools, so there are never more than two segments.
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
        # Names follow the segments: one index for the base, one for all later tools.
        names = (*names[:1], joined_names([*names[1:], names_of(change.fresh, last.size)]))
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


class _TermReader:
    """Converts the words of tools to term numbers."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        every, telling = _TermNumbers(vocabulary, prose=False), _TermNumbers(vocabulary, prose=True)
        self._fields = [
            ((telling if name in _PROSE else every).__getitem__, _CUT.get(name, 1_000))
            for name in FIELD_NAMES
        ]

    def read(self, tool: SearchableTool) -> list[Iterable[int]]:
        """Return the term numbers of each field, once per occurrence."""
        return [
            chain.from_iterable(map(numbers, words(text[:limit])))
            for (numbers, limit), text in zip(self._fields, field_texts(tool), strict=True)
        ]


class _TermNumbers(dict[str, tuple[int, ...]]):
    """Cached term numbers of each word."""

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
    """Return whether the index has exactly these tools."""
    if len(tools) != len(state.tools_in_order):
        return False
    head = shared_head(state.tools_in_order, tools)
    return all(_same(state.tools_in_order[at], tools[at]) for at in range(head, len(tools)))


def _same(old: SearchableTool, new: SearchableTool) -> bool:
    if old is new:
        return True
    # The digest stands for the definition: comparing full descriptions is slower.
    if old.digest or new.digest:
        return old.key == new.key and old.digest == new.digest and old.server == new.server
    return old == new
