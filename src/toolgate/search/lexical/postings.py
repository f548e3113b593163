"""Which words are in which tools, how often and in which field: the arrays that BM25 reads.

A segment holds the words of tools at consecutive places. A large index is one segment with all
tools and a small one with those that changed since: a changed server costs its own words, until
so much has changed that all is put into one segment again. Document frequencies are common.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FIELDS",
    "Patterns",
    "Segment",
    "TermCounts",
    "Weights",
    "WordIndex",
    "build_segment",
    "mean_lengths",
    "read_counts",
    "slots_of",
    "terms_of",
    "with_slots",
]

FIELDS = 6
"""Fields of a tool."""

# A posting is one 64-bit number, so that sorting numbers sorts postings: 24 bits of the term, 24 of
# the slot, 16 of the pattern.
_TERM_SHIFT = 40
_SLOT_SHIFT = 16
"""Bits for the code of a weight; the rest of a word's number lies above."""
_SLOT_BITS = (1 << (_TERM_SHIFT - _SLOT_SHIFT)) - 1
_CODES_MOST = 1 << _SLOT_SHIFT
# 6 fields of 10 bits fit into a 64-bit number while counts are added up (`_counted`).
_COUNT_BITS = 10
_COUNT_MOST = (1 << _COUNT_BITS) - 1
"""A word that is repeated more often in a field counts no more."""
_READ_AT_ONCE = 1 << 18
"""Words that are counted at a time; chosen."""
_BLOCK = 1 << 21
"""Postings that are weighed at a time, so that what is computed on the way stays small; chosen."""

Weights: TypeAlias = tuple[float, ...]
"""A number for each field."""


class Patterns:
    """Numbers for how often a term is in each field: few of all possible cases occur."""

    def __init__(self, table: Iterable[Sequence[int]] = ()) -> None:
        """Take the rows of a table that others gave, in their order; nothing begins with few."""
        self._codes: dict[int, int] = {}
        self._counts: list[tuple[int, ...]] = []
        self._fields: dict[int, tuple[int, ...]] = {}
        self._table = np.zeros((0, FIELDS), np.float32)
        # Every combination of fields with one occurrence comes first: `code` falls back to these.
        each_once = (
            tuple(fields >> row & 1 for row in range(FIELDS)) for fields in range(1 << FIELDS)
        )
        for counts in table or each_once:
            self._add(tuple(counts))

    def code(self, packed: int) -> int:
        """Number of counts that are packed, 16 bits a field, the first field lowest."""
        code = self._codes.get(packed)
        if code is None:
            counts = tuple(packed >> 16 * row & 0xFFFF for row in range(FIELDS))
            # 65,536 patterns are all that 16 bits can number. Beyond, a term counts once in each
            # field.
            if len(self._counts) >= _CODES_MOST:
                code = self._codes[_packed(tuple(min(1, count) for count in counts))]
            else:
                code = self._add(counts)
        return code

    def table(self) -> NDArray[np.float32]:
        """Shape (codes, fields): what each number means."""
        if len(self._table) != len(self._counts):
            self._table = np.array(self._counts, np.float32)
        return self._table

    def fields_of(self, code: int) -> tuple[int, ...]:
        """The fields that have the term."""
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
    """The words of some tools as they were read."""

    keys: NDArray[np.uint64]
    """One for each term of each tool, in any order: term, place and pattern in one number."""

    lengths: NDArray[np.uint16]
    """Shape (fields, tools): words of each field."""


def read_counts(
    tools: Iterable[Sequence[Iterable[int]]], patterns: Patterns, first: int, n_tools: int
) -> TermCounts:
    """The counts of tools whose fields are given as numbers of terms.

    Args:
        tools: For each tool and each field the terms in it, as often as they occur.
        patterns: Takes the patterns that occur.
        first: Place of the first tool.
        n_tools: How many there are.
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
    """The counts of some tools; their lengths are filled in.

    Args:
        numbers: Terms, by tool and field.
        ends: Where those of each field of each tool end.
        patterns: Takes the patterns that occur.
        first: Place of the first tool.
        lengths: Shape (fields, tools).
    """
    sizes = np.diff(np.frombuffer(ends, np.int64), prepend=0) if ends else np.zeros(0, np.int64)
    lengths[:] = np.minimum(sizes, 0xFFFF).reshape(-1, FIELDS).T
    if not numbers:
        return np.zeros(0, np.uint64)
    # For now the field is where the pattern goes later: sorting then groups by term, tool and
    # field.
    tools, fields = np.divmod(np.arange(len(sizes), dtype=np.uint64), np.uint64(FIELDS))
    owners = (tools + np.uint64(first)) << np.uint64(_SLOT_SHIFT) | fields
    keys = np.frombuffer(numbers, np.int64).astype(np.uint64) << np.uint64(_TERM_SHIFT)
    keys |= np.repeat(owners, sizes)
    keys.sort()
    # The complement of the first key differs from it, so that the first key begins a run, too.
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
    """Counts of fields with the room that patterns give each."""
    return _packed(tuple(counts >> _COUNT_BITS * row & _COUNT_MOST for row in range(FIELDS)))


@dataclass(frozen=True)
class Segment:
    """Postings of tools at consecutive places, by term."""

    first: int
    """Place of its first tool."""

    lengths: NDArray[np.uint16]
    """Shape (fields, tools)."""

    begins: NDArray[np.int64]
    """Where the postings of each term begin; one more than there are terms."""

    slots: NDArray[np.int32]
    """The tools of each term, ascending."""

    codes: NDArray[np.uint16]
    """The pattern of each posting."""

    worth: NDArray[np.float32]
    """What each posting counts before it is weighed by how rare its term is, in [0, 1)."""

    @property
    def terms(self) -> int:
        """Numbers of terms that it knows of."""
        return len(self.begins) - 1

    def terms_at(self, gone: NDArray[np.int64]) -> NDArray[np.int64]:
        """The terms of the tools at some places, each as often as tools have it."""
        is_gone = np.zeros(self.lengths.shape[1], np.bool_)
        is_gone[gone - self.first] = True
        postings = np.flatnonzero(is_gone[self.slots - self.first])
        return np.searchsorted(self.begins, postings, "right") - 1

    def keys(self) -> NDArray[np.uint64]:
        """Its postings as `TermCounts` has them."""
        keys = np.repeat(np.arange(self.terms, dtype=np.uint64), np.diff(self.begins))
        keys <<= np.uint64(_TERM_SHIFT)
        keys |= self.slots.astype(np.uint64) << np.uint64(_SLOT_SHIFT)
        keys |= self.codes
        return keys


def mean_lengths(
    lengths: Sequence[NDArray[np.uint16]], gone: NDArray[np.int64] | None = None
) -> Weights:
    """Mean length of each field over all tools.

    Those at the places `gone`, counted through all the arrays, are left out.
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
    """The term of each count."""
    return (keys >> np.uint64(_TERM_SHIFT)).astype(np.int64)


def slots_of(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The place of each count."""
    return ((keys >> np.uint64(_SLOT_SHIFT)) & np.uint64(_SLOT_BITS)).astype(np.int64)


def with_slots(keys: NDArray[np.uint64], slots: NDArray[np.int32]) -> NDArray[np.uint64]:
    """The same counts at other places."""
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
    """A segment of these counts.

    Args:
        counts: Those of tools at consecutive places, the first of them at `first`.
        first: See above.
        n_terms: Numbers of terms given so far.
        patterns: Those that were used for reading.
        usual: Mean length of each field.
        weights: Weight of each field.
        k1: How much repetition counts.
        b: How much a long text is held against a tool.
    """
    keys = np.concatenate([part.keys for part in counts]) if counts else np.zeros(0, np.uint64)
    keys.sort()
    lengths = np.concatenate([part.lengths for part in counts], axis=1)
    # The term is in the highest bits, so a search for its smallest key finds where it begins.
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
        # BM25 over a text in which each field is repeated as often as it weighs (Robertson,
        # Zaragoza, Taylor 2004, section 4): repetitions are added over the fields, each weighed,
        # and then saturated by k1 and the relative length of the tool.
        total = np.zeros(len(tools), np.float32)
        for row, weight in rows:
            total += table[:, row][kinds] * weight
        worth[part] = total / (saturation[tools] + total)
    return Segment(first, lengths, begins, slots, codes, worth)


class WordIndex:
    """BM25 over segments. Frozen: a change makes a new one, which shares what stayed."""

    def __init__(
        self,
        segments: tuple[Segment, ...],
        *,
        usual: Weights,
        patterns: Patterns,
        gone: NDArray[np.int64] | None = None,
        gone_df: NDArray[np.int64] | None = None,
    ) -> None:
        """Put segments together.

        Args:
            segments: In order of their places.
            usual: Mean lengths that they were sealed with.
            patterns: Those of the segments.
            gone: Places whose tool is not there any more.
            gone_df: How many of these each term had.
        """
        self.segments = segments
        self.usual = usual
        self.patterns = patterns
        self.gone = np.zeros(0, np.int64) if gone is None else gone
        self.n_terms = max((segment.terms for segment in segments), default=0)
        self.size = sum(segment.lengths.shape[1] for segment in segments)
        """Places, those of gone tools included."""
        self.live = self.size - len(self.gone)
        df = np.zeros(self.n_terms, np.int64)
        for segment in segments:
            df[: segment.terms] += np.diff(segment.begins)
        self.gone_df = np.zeros(self.n_terms, np.int64)
        if gone_df is not None:
            self.gone_df[: len(gone_df)] = gone_df
        df = np.maximum(df - self.gone_df, 0)
        self.df = df
        # The idf of BM25 as Lucene has it: the 1 inside the logarithm keeps it above 0.
        self.idf = np.log1p((self.live - df + 0.5) / (df + 0.5)).astype(np.float32)
        self.n_used = int(np.count_nonzero(df))
        self.rarest = float(np.log1p((self.live + 0.5) / 0.5))
        """The idf of a term that no tool has."""

    def scores(
        self,
        terms_asked: Iterable[int],
        related: Iterable[tuple[object, int, Iterable[tuple[int, float]]]] = (),
    ) -> NDArray[np.float32]:
        """BM25 of each place for these terms.

        Args:
            terms_asked: Their numbers.
            related: Terms that count in the place of another one, each with its weight: for each a
                word, the number of the other one (-1: it is in no tool), and their numbers. A place
                has the best of them, and never more than the other one could give.
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
            # Slots repeat, once for each term they have, so a plain indexed addition would lose
            # some.
            np.add.at(scores, np.concatenate(slots), np.concatenate(worth))
        if len(self.gone):
            scores[self.gone] = 0
        return scores

    def _best_of(self, asked: int, others: Iterable[tuple[int, float]]) -> NDArray[np.float32]:
        """For each place the best that a term or one that stands for it gives."""
        best = np.zeros(self.size, np.float32)
        most = self.rarest if asked < 0 else float(self.idf[asked])
        own = () if asked < 0 else ((asked, 1.0),)
        for number, weight in (*own, *others):
            factor = np.float32(weight * min(most, float(self.idf[number])))
            for segment in self.segments:
                if number < segment.terms:
                    begin, end = segment.begins[number : number + 2]
                    at = segment.slots[begin:end]
                    best[at] = np.maximum(best[at], segment.worth[begin:end] * factor)
        return best

    def has(self, number: int, allowed: NDArray[np.bool_] | None) -> bool:
        """Whether an allowed tool has a term."""
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
        """For each of these places, the terms by the field that has them."""
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
                # A few single looks cost less than the same in whole arrays.
                for fields, slot in zip(matched, slots, strict=True):
                    at = bisect_left(owners, slot, begin, end)
                    if at < end and owners[at] == slot:
                        for row in fields_of(codes[at]):
                            fields.setdefault(row, []).append(number)
        return matched

    def max_score(self, terms_asked: list[int], unknown: int) -> float:
        """The highest score that a request of these words could have; `unknown` are in no tool."""
        return float(np.add.reduce(self.idf[terms_asked])) + unknown * self.rarest
