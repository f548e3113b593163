"""Finds which words, names and quoted strings of a request a tool has."""

import re
from collections.abc import Collection, Iterable, Sequence, Set
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolgate.search.lexical.best_hits import best_positions
from toolgate.search.lexical.postings import WordIndex
from toolgate.search.lexical.query import WORDS_REMEMBERED, ParsedQuery
from toolgate.search.lexical.state import LexicalState
from toolgate.search.lexical.tool_names import plain_name
from toolgate.search.lexical.tool_texts import FIELD_NAMES, field_texts
from toolgate.search.tokenizer import (
    fold,
    split_identifier,
    terms,
    words,
)

_PHRASE_CANDIDATES = 50
"""Number of best tools whose texts are searched for quoted strings: reading texts is slow;
chosen."""
_SHORT_WORDS = 6
"""Most words of a request in which a single quoted word counts; chosen."""
_NAMES_REMEMBERED = 4_096
"""Most tool names whose words are cached; chosen."""
_NAME_FIELD = FIELD_NAMES.index("name")
_QUOTES = "\"'`“”„«»"
_AROUND = f"{_QUOTES}.,;:!?()[]"
"""Characters around a word that are not part of it."""
_QUOTED = re.compile(r"""["“”„«»`]([^"“”„«»`]{2,100})["“”„«»`]|(?<!\w)'([^']{2,100})'(?!\w)""")


def quoted_strings(query: str) -> list[str]:
    """Return the quoted strings of a request, folded."""
    if query.isascii() and not ('"' in query or "'" in query or "`" in query):
        return []
    return [fold(text or other) for text, other in _QUOTED.findall(query)]


def exact_matches(state: LexicalState, query: str, quoted: Sequence[str]) -> dict[int, int]:
    """Return the slots of tools named in the request, with a rank; lower is more exact."""
    bare = query.strip(_QUOTES)
    # A request of more than 200 characters is not a name; chosen.
    whole = [fold(bare), plain_name(bare)] if len(bare) <= 200 else []
    # A plain word in a request, such as `search`, is not taken as a name: only words with
    # separators (`list_files`) and quoted strings are.
    written = [
        fold(word.strip(_AROUND))
        for word in query.split()
        if not (word.isascii() and word.isalnum())
    ]
    within = [*quoted, *(word for word in written if not word.isalnum())]
    ranks: dict[int, int] = {}
    # A name that is the entire request is more exact than one inside it, whose rank is raised by 4.
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
    """Return the positions of those best tools whose texts have all quoted strings.

    A single quoted word counts only in short requests: in long ones it is usually a value for a
    tool.
    """
    if quoted and len(query.split()) > _SHORT_WORDS:
        quoted = [phrase for phrase in quoted if " " in phrase]
    if not quoted:
        return []
    candidates = best_positions(state, scores, _PHRASE_CANDIDATES, slots)
    where = candidates if slots is None else slots[candidates].tolist()
    texts = {
        at: fold(" ".join(field_texts(state.tools[slot])))
        for at, slot in zip(candidates, where, strict=True)
    }
    return [at for at, text in texts.items() if all(_stands_in(text, phrase) for phrase in quoted)]


def _stands_in(text: str, phrase: str) -> bool:
    """Return whether a folded text has a phrase; a single word must match entirely."""
    if phrase not in text:
        return False
    is_word = phrase.isalnum()
    return not is_word or re.search(rf"(?<![^\W_]){phrase}(?![^\W_])", text) is not None


_Name: TypeAlias = tuple[str, tuple[str, ...]]
"""A name, or one of its words, with its terms."""


class WordMatch(NamedTuple):
    """What a tool matches of a request."""

    words: dict[str, list[str]]
    """Matched words, each under the field with the highest weight that has it."""
    share: float = 0.0
    """Matched share of the request's words, weighted by rarity, in [0, 1]."""
    named: float = 0.0
    """The same share for the tool's name only, including related words."""
    name_share: float = 0.0
    """Share of the tool's name that the request has, including related words."""


def matched_words(state: LexicalState, slots: Sequence[int], asked: ParsedQuery) -> list[WordMatch]:
    """Return what each tool matches of the request."""
    index = state.index
    if index is None or not asked.max_score:
        return [WordMatch({}) for _ in slots]
    rarity = index.idf.data
    others = {number for related in asked.related for number, _ in related.others}
    fields = index.fields_of([*asked.terms, *others], slots)
    weights = RequestWords(index, asked)
    matches: list[WordMatch] = []
    for at, terms_by_field in zip(slots, fields, strict=True):
        own = {
            row: numbers
            for row, every in terms_by_field.items()
            if (numbers := [number for number in every if number in asked.terms])
        }
        has = set(chain.from_iterable(own.values()))
        in_name = set(terms_by_field.get(_NAME_FIELD, ()))
        matches.append(
            WordMatch(
                words=_by_name(state, at, own, asked) if own else {},
                share=sum(map(rarity.__getitem__, has)) / asked.max_score,
                named=weights.of(in_name) / asked.max_score,
                name_share=share_of_name(state, at, in_name),
            )
        )
    return matches


class RequestWords:
    """The weights of a request's words and of those that they are related to."""

    def __init__(self, index: WordIndex, asked: ParsedQuery) -> None:
        """Look up the weights, once for all texts that are compared with the request."""
        rarity = index.idf.data
        self._own = [(number, rarity[number]) for number in asked.terms]
        self._related = [
            (
                related.number,
                index.rarest if related.number < 0 else rarity[related.number],
                frozenset([number for number, _ in related.others]),
            )
            for related in asked.related
        ]

    def of(self, numbers: Set[int]) -> float:
        """Return the weight of the words that a text has, directly or as related words."""
        if not numbers:
            return 0.0
        said = sum(weight for number, weight in self._own if number in numbers)
        for number, weight, others in self._related:
            if number not in numbers and not others.isdisjoint(numbers):
                said += weight
        return said


def share_of_name(state: LexicalState, slot: int, said: Collection[int]) -> float:
    """Return the share of a tool's name that a request has."""
    if not said:
        return 0.0
    assert state.index is not None
    rarity = state.index.idf.data
    number_of = state.vocabulary.get
    numbers = {
        number_of(name_terms[-1], -1)
        for _, name_terms in _words_of_name(state.tools[slot].name)
        if name_terms
    }
    weights = {number: rarity[number] for number in numbers if 0 <= number < len(rarity)}
    total = sum(weights.values())
    return sum(weights[number] for number in weights if number in said) / total if total else 0.0


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
        name = FIELD_NAMES[row]
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
    """Return the names that have one of the terms."""
    number = state.vocabulary.get
    term_numbers: set[int | None] = set(numbers)
    return [
        name for name, name_terms in names if not term_numbers.isdisjoint(map(number, name_terms))
    ]


@lru_cache(maxsize=_NAMES_REMEMBERED)
def _words_of_name(name: str) -> tuple[_Name, ...]:
    """Split a name into words; cached, since the same tools are found repeatedly."""
    return tuple(map(_whole_name, dict.fromkeys(split_identifier(name))))


@lru_cache(maxsize=WORDS_REMEMBERED)
def _whole_name(name: str) -> _Name:
    """Return a name with its terms; cached, since few names of parameters recur often."""
    return name, tuple(term for word in words(name) for term in terms(word))


def explanation_of(matched: dict[str, list[str]]) -> str:
    """Describe what matched in one short sentence, the strongest field first."""
    parts = [f'{label} "{" ".join(texts[:4])}"' for label, texts in matched.items() if texts]
    return f"matches {', '.join(parts[:3])}" if parts else "matches a parameter's description"
