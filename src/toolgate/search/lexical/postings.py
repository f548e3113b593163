"""Arrays for BM25: which words are in which tools, how often and in which field.

A segment has the words of tools in consecutive slots. A large index has one segment with all
tools and a small one with those that changed later: a changed server costs only its own words,
until so much has changed that the segments are merged. Document frequencies are shared.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FIELDS = 6
"""Number of fields of a tool."""

# A posting is one 64-bit number, so that sorting numbers sorts postings: 24 bits for the term, 24
# for the slot, 16 for the pattern.
_TERM_SHIFT = 40
_SLOT_SHIFT = 16
"""Bits for the code of a pattern; the slot and the term are above them."""
_SLOT_BITS = (1 << (_TERM_SHIFT - _SLOT_SHIFT)) - 1
_CODES_MOST = 1 << _SLOT_SHIFT
# 6 fields of 10 bits fit into a 64-bit number while counts are summed (`_counted`).
_COUNT_BITS = 10
_COUNT_MOST = (1 << _COUNT_BITS) - 1
"""Highest count of a word in a field; more repetitions are ignored."""
_READ_AT_ONCE = 1 << 18
"""Number of words after which they are counted as one batch; chosen."""
_BLOCK = 1 << 21
"""Number of postings weighted at a time, which limits temporary memory; chosen."""

Weights: TypeAlias = tuple[float, ...]
"""A number for each field."""


class Patterns:
    """Numbers the patterns of how often a term is in each field: few patterns occur."""

    def __init__(self, table: Iterable[Sequence[int]] = ()) -> None:
        """Load the rows of a stored table in their order; an empty one starts with defaults."""
        self._codes: dict[int, int] = {}
        self._counts: list[tuple[int, ...]] = []
        self._fields: dict[int, tuple[int, ...]] = {}
        self._table = np.zeros((0, FIELDS), np.float32)
        # All combinations of fields with one occurrence come first: `code` falls back to these.
        each_once = (
            tuple(fields >> row & 1 for row in range(FIELDS)) for fields in range(1 << FIELDS)
        )
        for counts in table or each_once:
            self._add(tuple(counts))

    def code(self, packed: int) -> int:
        """Return the number of packed counts, 16 bits per field, the first field lowest."""
        code = self._codes.get(packed)
        if code is None:
            counts = tuple(packed >> 16 * row & 0xFFFF for row in range(FIELDS))
            # 16 bits can number 65,536 patterns. Beyond these, a term counts once in each field.
            if len(self._counts) >= _CODES_MOST:
                code = self._codes[_packed(tuple(min(1, count) for count in counts))]
            else:
                code = self._add(counts)
        return code

    def table(self) -> NDArray[np.float32]:
        """Return the counts of each pattern, of shape (codes, fields)."""
        if len(self._table) != len(self._counts):
            self._table = np.array(self._counts, np.float32)
        return self._table

    def fields_of(self, code: int) -> tuple[int, ...]:
        """Return the fields that have the term."""
        rows = self._fields.get(code)
        if rows is None:
            rows = tuple(row for row, count in enumerate(self._counts[code]) if count)
            self._fields[code] = rows
        return rows

    def _add(self, counts: tuple[int, ...]) -> int:
        self._codes[_packed(counts)] = len(self._counts)
        self._counts.append(counts)
        return len(self._counts) - 1


def _packed(counts: tuple[int, ...]) -> int:
    return sum(count << 16 * row for row, count in enumerate(counts))


@dataclass(frozen=True)
class TermCounts:
    """Counts of the terms of some tools."""

    keys: NDArray[np.uint64]
    """One per term and tool, in any order: term, slot and pattern in one number."""

    lengths: NDArray[np.uint16]
    """Number of words in each field, of shape (fields, tools)."""


def read_counts(
    tools: Iterable[Sequence[Iterable[int]]], patterns: Patterns, first: int, n_tools: int
) -> TermCounts:
    """Count the terms of tools, whose fields are given as term numbers.

    Args:
        tools: For each tool and field its term numbers, once per occurrence.
        patterns: Patterns, to which new ones are added.
        first: Slot of the first tool.
        n_tools: Number of tools.
    """
    keys: list[NDArray[np.uint64]] = []
    lengths = np.zeros((FIELDS, n_tools), np.uint16)
    numbers, ends = array("q"), array("q")
    done = at = 0
    for at, fields in enumerate(tools, start=1):
        for field in fields:
            numbers.extend(field)
            ends.append(len(numbers))
        if len(numbers) > _READ_AT_ONCE:
            keys.append(_counted(numbers, ends, patterns, first + done, lengths[:, done:at]))
            numbers, ends = array("q"), array("q")
            done = at
    keys.append(_counted(numbers, ends, patterns, first + done, lengths[:, done:at]))
    return TermCounts(np.concatenate(keys), lengths)


def _counted(
    numbers: "array[int]",
    ends: "array[int]",
    patterns: Patterns,
    first: int,
    lengths: NDArray[np.uint16],
) -> NDArray[np.uint64]:
    """Count the terms of some tools and fill in `lengths`.

    Args:
        numbers: Term numbers, by tool and field.
        ends: End of each field of each tool in `numbers`.
        patterns: Patterns, to which new ones are added.
        first: Slot of the first tool.
        lengths: Output of shape (fields, tools).
    """
    sizes = np.diff(np.frombuffer(ends, np.int64), prepend=0) if ends else np.zeros(0, np.int64)
    lengths[:] = np.minimum(sizes, 0xFFFF).reshape(-1, FIELDS).T
    if not numbers:
        return np.zeros(0, np.uint64)
    # For now, the field is where the pattern goes later: sorting then groups by term, tool and
    # field.
    tools, fields = np.divmod(np.arange(len(sizes), dtype=np.uint64), np.uint64(FIELDS))
    owners = (tools + np.uint64(first)) << np.uint64(_SLOT_SHIFT) | fields
    keys = np.frombuffer(numbers, np.int64).astype(np.uint64) << np.uint64(_TERM_SHIFT)
    keys |= np.repeat(owners, sizes)
    keys.sort()
    # The complement of the first key differs from it, so that the first key starts a run, too.
    begins = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
    counts = np.minimum(np.diff(begins, append=len(keys)), _COUNT_MOST).astype(np.uint64)
    keys = keys[begins]
    # The counts of all fields of one term and tool fit into one number: 6 fields of 10 bits.
    counts <<= (keys & np.uint64(_CODES_MOST - 1)) * np.uint64(_COUNT_BITS)
    keys &= ~np.uint64(_CODES_MOST - 1)
    begins = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
    kinds, which = np.unique(np.add.reduceat(counts, begins), return_inverse=True)
    codes = np.array([patterns.code(_spread(kind)) for kind in kinds.tolist()], np.uint64)
    counted: NDArray[np.uint64] = keys[begins] | codes[which]
    return counted


def _spread(counts: int) -> int:
    """Convert counts of 10 bits per field to the 16 bits that patterns use."""
    return _packed(tuple(counts >> _COUNT_BITS * row & _COUNT_MOST for row in range(FIELDS)))


@dataclass(frozen=True)
class Segment:
    """Postings of tools in consecutive slots, sorted by term."""

    first: int
    """Slot of its first tool."""

    lengths: NDArray[np.uint16]
    """Number of words in each field, of shape (fields, tools)."""

    begins: NDArray[np.int64]
    """Start of each term's postings; one entry more than there are terms."""

    slots: NDArray[np.int32]
    """Slots of the tools that have each term, ascending."""

    codes: NDArray[np.uint16]
    """Pattern number of each posting."""

    worth: NDArray[np.float32]
    """Score of each posting before multiplication by the idf of its term, in [0, 1)."""

    @property
    def terms(self) -> int:
        """Number of terms that it covers."""
        return len(self.begins) - 1

    def terms_at(self, gone: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the terms of the tools in some slots, once for each tool that has them."""
        is_gone = np.zeros(self.lengths.shape[1], np.bool_)
        is_gone[gone - self.first] = True
        postings = np.flatnonzero(is_gone[self.slots - self.first])
        return np.searchsorted(self.begins, postings, "right") - 1

    def keys(self) -> NDArray[np.uint64]:
        """Return its postings in the format of `TermCounts.keys`."""
        keys = np.repeat(np.arange(self.terms, dtype=np.uint64), np.diff(self.begins))
        keys <<= np.uint64(_TERM_SHIFT)
        keys |= self.slots.astype(np.uint64) << np.uint64(_SLOT_SHIFT)
        keys |= self.codes
        return keys


def mean_lengths(
    lengths: Sequence[NDArray[np.uint16]], gone: NDArray[np.int64] | None = None
) -> Weights:
    """Return the mean length of each field over all tools.

    Tools in the slots `gone`, counted across all arrays, are left out.
    """
    total = np.zeros(FIELDS, np.int64)
    first = 0
    for part in lengths:
        total += part.sum(axis=1, dtype=np.int64)
        if gone is not None:
            away = part[:, gone[(gone >= first) & (gone < first + part.shape[1])] - first]
            total -= away.sum(axis=1, dtype=np.int64)
        first += part.shape[1]
    live = first - (0 if gone is None else len(gone))
    return tuple(length / max(1, live) for length in total.tolist())


def terms_of(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the term of each count."""
    return (keys >> np.uint64(_TERM_SHIFT)).astype(np.int64)


def slots_of(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the slot of each count."""
    return ((keys >> np.uint64(_SLOT_SHIFT)) & np.uint64(_SLOT_BITS)).astype(np.int64)


def with_slots(keys: NDArray[np.uint64], slots: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return the same counts with other slots."""
    bare = keys & ~np.uint64(_SLOT_BITS << _SLOT_SHIFT)
    return bare | (slots.astype(np.uint64) << np.uint64(_SLOT_SHIFT))


def build_segment(
    counts: Sequence[TermCounts],
    *,
    first: int,
    n_terms: int,
    patterns: Patterns,
    usual: Weights,
    weights: Weights,
    k1: float,
    b: float,
) -> Segment:
    """Build a segment from counts.

    Args:
        counts: Counts of tools in consecutive slots, the first of them in `first`.
        first: Slot of the first tool.
        n_terms: Number of terms so far.
        patterns: Patterns that the counts refer to.
        usual: Mean length of each field.
        weights: Weight of each field.
        k1: How much repetition counts.
        b: How much a long text counts against a tool.
    """
    keys = np.concatenate([part.keys for part in counts]) if counts else np.zeros(0, np.uint64)
    keys.sort()
    lengths = np.concatenate([part.lengths for part in counts], axis=1)
    # The term is in the highest bits, so searching for its smallest key finds its start.
    bounds = np.arange(n_terms + 1, dtype=np.uint64) << np.uint64(_TERM_SHIFT)
    begins = np.searchsorted(keys, bounds).astype(np.int64)
    codes = (keys & np.uint64(_CODES_MOST - 1)).astype(np.uint16)
    keys >>= np.uint64(_SLOT_SHIFT)
    keys &= np.uint64(_SLOT_BITS)
    slots = keys.astype(np.int32)
    del keys
    table = patterns.table()
    rows = [(row, np.float32(weight)) for row, weight in enumerate(weights) if weight]
    mean = sum(weight * usual[row] for row, weight in rows)
    length = np.zeros(lengths.shape[1], np.float32)
    for row, weight in rows:
        length += weight * lengths[row]
    saturation = (k1 * (1 - b + b * length / (mean or 1.0))).astype(np.float32)
    worth = np.empty(len(slots), np.float32)
    for begin in range(0, len(slots), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        tools, kinds = slots[part] - first, codes[part]
        # BM25 over a text in which each field is repeated according to its weight (Robertson,
        # Zaragoza, Taylor 2004, section 4): weighted repetitions are summed over the fields, and
        # then saturated by k1 and the relative length of the tool.
        total = np.zeros(len(tools), np.float32)
        for row, weight in rows:
            total += table[:, row][kinds] * weight
        worth[part] = total / (saturation[tools] + total)
    return Segment(first, lengths, begins, slots, codes, worth)


class WordIndex:
    """BM25 over segments. Frozen: a change creates a new one, which shares unchanged parts."""

    def __init__(
        self,
        segments: tuple[Segment, ...],
        *,
        usual: Weights,
        patterns: Patterns,
        gone: NDArray[np.int64] | None = None,
        gone_df: NDArray[np.int64] | None = None,
    ) -> None:
        """Combine segments.

        Args:
            segments: Segments in order of their slots.
            usual: Mean lengths with which they were built.
            patterns: Patterns of the segments.
            gone: Slots of removed tools.
            gone_df: Number of removed tools that had each term.
        """
        self.segments = segments
        self.usual = usual
        self.patterns = patterns
        self.gone = np.zeros(0, np.int64) if gone is None else gone
        self.n_terms = max((segment.terms for segment in segments), default=0)
        self.size = sum(segment.lengths.shape[1] for segment in segments)
        """Number of slots, including those of removed tools."""
        self.live = self.size - len(self.gone)
        df = np.zeros(self.n_terms, np.int64)
        for segment in segments:
            df[: segment.terms] += np.diff(segment.begins)
        self.gone_df = np.zeros(self.n_terms, np.int64)
        if gone_df is not None:
            self.gone_df[: len(gone_df)] = gone_df
        df = np.maximum(df - self.gone_df, 0)
        self.df = df
        # The idf of BM25 as in Lucene: the 1 inside the logarithm keeps it above 0.
        self.idf = np.log1p((self.live - df + 0.5) / (df + 0.5)).astype(np.float32)
        self.n_used = int(np.count_nonzero(df))
        self.rarest = float(np.log1p((self.live + 0.5) / 0.5))
        """The idf of a term that no tool has."""

    def scores(
        self,
        terms_asked: Iterable[int],
        related: Iterable[tuple[object, int, Iterable[tuple[int, float]]]] = (),
    ) -> NDArray[np.float32]:
        """Return the BM25 score of each slot for these terms.

        Args:
            terms_asked: Numbers of the terms.
            related: Terms that may replace another one: for each a word, the number of the
                replaced term (-1 if no tool has it), and the numbers and weights of the others.
                A slot gets the best of their scores, which is never higher than the replaced
                term could give.
        """
        scores = np.zeros(self.size, np.float32)
        replaced: set[int] = set()
        for _, number, others in related:
            replaced.add(number)
            scores += self._best_of(number, others)
        terms_asked = [number for number in terms_asked if number not in replaced]
        slots: list[NDArray[np.int32]] = []
        worth: list[NDArray[np.float32]] = []
        rarity = self.idf.data  # single numbers of a view cost a third of the array's
        for segment in self.segments:
            begins, terms = segment.begins.data, segment.terms
            for number in terms_asked:
                if number < terms:
                    begin, end = begins[number], begins[number + 1]
                    if begin < end:
                        slots.append(segment.slots[begin:end])
                        worth.append(segment.worth[begin:end] * rarity[number])
        if slots:
            # Slots repeat, once for each of their terms, so a plain indexed addition would lose
            # some.
            np.add.at(scores, np.concatenate(slots), np.concatenate(worth))
        if len(self.gone):
            scores[self.gone] = 0
        return scores

    def _best_of(self, asked: int, others: Iterable[tuple[int, float]]) -> NDArray[np.float32]:
        """Return for each slot the best score of a term or one that may replace it."""
        best = np.zeros(self.size, np.float32)
        rarity = self.idf.data
        most = self.rarest if asked < 0 else rarity[asked]
        own = () if asked < 0 else ((asked, 1.0),)
        for number, weight in (*own, *others):
            factor = np.float32(weight * min(most, rarity[number]))
            for segment in self.segments:
                if number < segment.terms:
                    begins = segment.begins.data
                    begin, end = begins[number], begins[number + 1]
                    if begin < end:
                        at = segment.slots[begin:end]
                        best[at] = np.maximum(best[at], segment.worth[begin:end] * factor)
        return best

    def has(self, number: int, allowed: NDArray[np.bool_] | None) -> bool:
        """Return whether an allowed tool has a term."""
        if allowed is None:
            return bool(self.df[number])
        for segment in self.segments:
            if number < segment.terms:
                begin, end = segment.begins[number : number + 2]
                if allowed[segment.slots[begin:end]].any():
                    return True
        return False

    def fields_of(
        self, terms_asked: Iterable[int], slots: Sequence[int]
    ) -> list[dict[int, list[int]]]:
        """Return for each of these slots the matching terms by field."""
        matched: list[dict[int, list[int]]] = [{} for _ in slots]
        fields_of = self.patterns.fields_of
        for segment in self.segments:
            begins, terms = segment.begins.data, segment.terms
            owners, codes = segment.slots.data, segment.codes.data
            for number in terms_asked:
                if number >= terms:
                    continue
                begin, end = begins[number], begins[number + 1]
                if begin == end:
                    continue
                # A few single lookups cost less than operations on entire arrays.
                for fields, slot in zip(matched, slots, strict=True):
                    at = bisect_left(owners, slot, begin, end)
                    if at < end and owners[at] == slot:
                        for row in fields_of(codes[at]):
                            fields.setdefault(row, []).append(number)
        return matched

    def max_score(self, terms_asked: list[int], unknown: int) -> float:
        """Return the highest possible score of a request; `unknown` words are in no tool."""
        return float(np.add.reduce(self.idf[terms_asked])) + unknown * self.rarest
