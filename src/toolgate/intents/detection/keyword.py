"""The keyword stage: exact keywords, partial ones with their context, and phrases.

Rule by rule: `docs/intents.md`. Each confidence is fixed: an exact keyword is 0.9, a partial one
0.8, and no message gets anything in between.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Final, Literal, TypeAlias

from toolgate.intents.base import NONE, Candidate, Detection, Guard, Intent, Keywords, Request
from toolgate.intents.dates.parser import dates_in
from toolgate.intents.dates.vocabulary import DAYS as DAY_WORDS
from toolgate.intents.dates.vocabulary import (
    EDGES,
    MONTHS,
    NUMBERS,
    ORDINALS,
    ROLLING,
    SEASONS,
    UNITS,
    WEEKDAYS,
)
from toolgate.intents.phrases import Phrase, phrase
from toolgate.intents.spelling import LEAST_LETTERS, is_near
from toolgate.intents.text import Folded, fold, lowered

__all__ = ["EXACT", "PARTIAL", "KeywordStage"]

EXACT: Final = 0.9
"""Confidence of an exact keyword."""

PARTIAL: Final = 0.8
"""Confidence of a partial keyword with its context."""

_WORD: Final = re.compile(r"\w+")
_SENTENCE_END: Final = re.compile(r"[.!?;](?=\s|$)|\n\s*\n")
_SPACES: Final = re.compile(r"\s{2,}|[^\S ]")
_SPACE_RUN: Final = re.compile(r"\s+")
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts that write no blanks between words."""

_MOST_ANSWERS: Final = 1_000
"""Answers that are kept ready: few combinations of keywords occur."""

_LONGEST_REASON: Final = 300
"""Of an answer that is kept: a phrase may have found words of any length."""

_MOST_PLACES: Final = 50
"""Places of one keyword that are looked at, when the first ones are about something else."""

_TIME_WORDS: Final = frozenset(
    [
        *(*UNITS, *DAY_WORDS, *MONTHS, *WEEKDAYS, *NUMBERS, *SEASONS, *ORDINALS, *EDGES),
        *("q1", "q2", "q3", "q4", "h1", "h2", "t1", "t2", "t3", "t4", "kw"),
    ]
)


@dataclass(frozen=True, slots=True)
class _Word:
    """A keyword, ready to be looked for."""

    text: str
    words: tuple[str, ...]
    left: bool
    """Whether no word character may stand before it."""
    right: bool
    at_home: bool = False
    """Whether it counts whatever else the message is about."""

    def places(self, text: str) -> Iterator[int]:
        """Where it stands as whole words."""
        at = text.find(self.text)
        while at >= 0:
            end = at + len(self.text)
            if not (self.left and at and _is_letter(text[at - 1])) and not (
                self.right and end < len(text) and _is_letter(text[end])
            ):
                yield at
            at = text.find(self.text, at + 1)


@dataclass(slots=True)
class _Set:
    """The keywords of an intent in one language."""

    intent: int
    language: str
    keywords: Keywords
    guard: "_Guard | None"
    exact: list[_Word]
    context: list[_Word]


_Tier: TypeAlias = Literal["exact", "pattern", "partial", "weak"]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One thing to look for. Entries are ordered: by intent, language, tier, place in the list."""

    among: _Set
    tier: _Tier
    word: _Word | None = None
    phrase: Phrase | None = None


@dataclass(frozen=True, slots=True)
class _Guard:
    """When a message of a language is about something else."""

    home: frozenset[str]
    own: frozenset[str]
    pronouns: frozenset[str]
    phrases: tuple[str, ...]
    subject: re.Pattern[str]

    def is_home(self, words: Collection[str]) -> bool:
        return not self.home.isdisjoint(words)

    def foreign(self, sentence: str) -> str:
        """The subject that a sentence names, if it is none of the pack's; else nothing."""
        for match in self.subject.finditer(sentence):
            word = match["subject"]
            if word[0].isdigit() or word in self.own or word in self.pronouns:
                continue
            if match["verb"] is None:
                if word in _TIME_WORDS or word in ROLLING:
                    continue
                if sentence.startswith(self.phrases, match.start("subject")):
                    continue
            return word
        return ""


@dataclass(slots=True)
class _Found:
    """What an intent's keywords say about a message."""

    confidence: float = 0.0
    matched: tuple[str, ...] = ()
    reason: str = ""


_NOTHING: Final = Detection(
    use_mcp=False,
    intent=NONE,
    confidence=0.0,
    stage="keyword",
    reason="No keyword of an intent occurs.",
)


class _Text:
    """A message in the forms that matching needs, each made when it is first used."""

    def __init__(self, source: str, today: date, zone: str) -> None:
        self.source = source
        self.text = lowered(source)
        self.words = frozenset(_WORD.findall(self.text))
        self._today = today
        self._zone = zone
        self.plain = source.isascii()
        self._folded: Folded | None = None
        self._folded_words: frozenset[str] | None = None
        self._dates: list[tuple[int, int]] | None = None
        self._ends: list[int] | None = None

    @property
    def folded(self) -> Folded:
        if self._folded is None:
            self._folded = fold(self.source)
        return self._folded

    @property
    def folded_words(self) -> frozenset[str]:
        if self._folded_words is None:
            self._folded_words = frozenset(_WORD.findall(self.folded.text))
        return self._folded_words

    def has_date_at(self, at: int) -> bool:
        """Whether a date covers this place of the folded text."""
        if self._dates is None:
            found = dates_in(self.folded, today=self._today, zone=self._zone)
            self._dates = [(each.start, each.end) for each in found]
        place = self.folded.start(at)
        return any(start <= place < end for start, end in self._dates)

    def sentence(self, text: str, at: int) -> str:
        """The sentence around a place."""
        start = 0
        for match in _SENTENCE_END.finditer(text, max(0, at - 2_000), at):
            start = match.end()
        after = _SENTENCE_END.search(text, at, at + 2_000)
        return text[max(start, at - 2_000) : after.start() if after else at + 2_000]


class KeywordStage:
    """Tells intents by their keywords. Immutable: other intents make another one."""

    name = "keyword"

    def __init__(self, intents: Iterable[Intent]) -> None:
        """Make keywords ready.

        Raises:
            ValueError: A phrase of an intent does not hold; the message says which and why.
        """
        self.intents: tuple[Intent, ...] = tuple(
            sorted(intents, key=lambda intent: (intent.order, intent.name))
        )
        self._languages: dict[str, None] = {}
        self._entries: list[_Entry] = []
        self._answers: dict[tuple[tuple[int, float, tuple[str, ...], str], ...], Detection] = {}
        self._misspelt: dict[str, tuple[re.Pattern[str], list[_Set]]] = {}
        for number, intent in enumerate(self.intents):
            for language, keywords in intent.keywords.items():
                self._add(number, intent, language, keywords)
        self._by_word: dict[str, list[int]] = {}
        self._always: list[int] = []
        self._arrange()

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages that some intent has keywords for."""
        return tuple(self._languages)

    async def judge(self, request: Request) -> Detection:
        """Which intent a message has; arguments are left to others."""
        return self.match(request)

    def match(self, request: Request) -> Detection:
        """As `judge`, for those who need not wait."""
        text = _Text(request.text, request.today, request.zone)
        found = self._all(text, request.languages)
        if not found and _SPACES.search(text.text):
            text.text = _SPACE_RUN.sub(" ", text.text)
            found = self._all(text, request.languages)
        if not found:
            found = self._mistyped(text, request.languages)
        if not found:
            return _NOTHING
        key = tuple(
            (number, each.confidence, each.matched, each.reason) for number, each in found.items()
        )
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answer(found)
            short = all(len(each.reason) < _LONGEST_REASON for each in found.values())
            if short and len(self._answers) < _MOST_ANSWERS:
                self._answers[key] = answer
        return answer

    def _answer(self, found: Mapping[int, _Found]) -> Detection:
        best = sorted(found, key=lambda number: (-found[number].confidence, number))
        chosen, result = self.intents[best[0]], found[best[0]]
        return Detection(
            use_mcp=True,
            intent=chosen.name,
            confidence=result.confidence,
            tool=chosen.tool or None,
            matched=result.matched,
            stage=self.name,
            reason=result.reason,
            candidates=tuple(
                Candidate(
                    intent=self.intents[number].name,
                    confidence=found[number].confidence,
                    why=found[number].reason,
                )
                for number in best
            ),
            intents=(chosen.name,),
        )

    # Making ready

    def _add(self, number: int, intent: Intent, language: str, keywords: Keywords) -> None:
        self._languages[language] = None
        declared = intent.guards.get(language)
        guard = None if declared is None else _guard(declared, intent.names)
        made = _Set(
            intent=number,
            language=language,
            keywords=keywords,
            guard=guard,
            exact=[_word(each, guard) for each in keywords.exact],
            context=[_word(each, None) for each in keywords.context],
        )
        for anchor in map(lowered, keywords.misspelt):
            self._misspelt.setdefault(anchor, (_looks_like(anchor), []))[1].append(made)
        entries = self._entries
        entries += [_Entry(made, "exact", word=each) for each in made.exact]
        for each in self._phrases(intent, language, keywords.patterns):
            entries.append(_Entry(made, "pattern", phrase=each))
        entries += [_Entry(made, "partial", word=_word(each, guard)) for each in keywords.partial]
        for each in self._phrases(intent, language, keywords.weak_patterns):
            entries.append(_Entry(made, "weak", phrase=each))

    def _arrange(self) -> None:
        """Put each entry under a word that it cannot do without: the rarest one."""
        often = Counter(word for each in self._entries if each.word for word in each.word.words)
        for number, each in enumerate(self._entries):
            wanted: Iterable[str] = ()
            if each.word is not None and each.word.words:
                wanted = [min(each.word.words, key=lambda word: (often[word], word))]
            elif each.phrase is not None:
                wanted = each.phrase.needs
            for word in wanted:
                self._by_word.setdefault(word, []).append(number)
            if not wanted:
                self._always.append(number)

    @staticmethod
    def _phrases(intent: Intent, language: str, sources: Sequence[str]) -> list[Phrase]:
        made: list[Phrase] = []
        for source in sources:
            try:
                made.append(phrase(source, intent.names))
            except ValueError as error:
                raise ValueError(
                    f"Phrase {source!r} of intent {intent.name!r} ({language}): {error}."
                ) from error
        return made

    # Matching

    def _all(self, text: _Text, languages: Sequence[str]) -> dict[int, _Found]:
        """What each intent's keywords say; only intents of which some occur."""
        numbers = set(self._always)
        by_word = self._by_word
        for word in text.words:
            if word in by_word:
                numbers.update(by_word[word])
        if not text.plain:
            for word in text.folded_words - text.words:
                numbers.update(by_word.get(word, ()))
        found: dict[int, _Found] = {}
        partial: list[str] = []
        before: _Set | None = None
        source, entries = text.text, self._entries
        for number in sorted(numbers):
            each = entries[number]
            word = each.word
            if word is not None and word.text not in source:
                continue
            among = each.among
            if languages and among.language not in languages:
                continue
            if among is not before:
                if partial and before is not None:
                    _settle(before, partial, text, found)
                    partial = []
                before = among
            known = found.get(among.intent)
            if known is not None and known.confidence == EXACT:
                continue
            if word is not None:
                if not _counts(word, among.guard, text):
                    continue
                shown = word.text
                if each.tier == "partial":
                    partial.append(shown)
                    continue
                found[among.intent] = _Found(EXACT, (shown,), f"The exact keyword {shown!r}.")
            elif each.phrase is not None and (each.tier == "pattern" or known is None):
                shown = _phrase_in(each.phrase, among.guard, text)
                if shown:
                    confidence = EXACT if each.tier == "pattern" else PARTIAL
                    reason = f"{shown!r} is what the phrase {each.phrase.source!r} looks for."
                    found[among.intent] = _Found(confidence, (shown,), reason)
        if partial and before is not None:
            _settle(before, partial, text, found)
        return found

    def _mistyped(self, text: _Text, languages: Sequence[str]) -> dict[int, _Found]:
        """Exact keywords of several words, with at most one error in each longer word."""
        found: dict[int, _Found] = {}
        for anchor, (looks_like, sets) in self._misspelt.items():
            if looks_like.search(text.text) is None:
                continue
            words = _WORD.findall(text.text)
            for each in sets:
                if each.intent in found or (languages and each.language not in languages):
                    continue
                keyword = _misspelt_in(words, each, anchor)
                if keyword:
                    reason = f"The keyword {keyword!r} occurs with a typing error."
                    found[each.intent] = _Found(EXACT, (keyword,), reason)
        return found


def _looks_like(anchor: str) -> re.Pattern[str]:
    """Finds words that might be `anchor`: one error leaves one of its halves, or swaps two."""
    half = len(anchor) // 2
    left, right = re.escape(anchor[:half]), re.escape(anchor[half:])
    swapped = re.escape(
        anchor[: half - 1] + anchor[half : half + 1] + anchor[half - 1 : half] + anchor[half + 1 :]
    )
    near = rf"{left}\w{{1,{half + 2}}}|\w{{1,{half + 2}}}{right}|{swapped}"
    return re.compile(rf"(?<!\w)(?:{near})(?!\w)")


def _settle(among: _Set, partial: list[str], text: _Text, found: dict[int, _Found]) -> None:
    """Let partial keywords count if their context is there and nothing better was found."""
    if among.intent in found:
        return
    context = _first_context(among, text)
    if context is None:
        return
    named = ", ".join(map(repr, partial))
    reason = f"The partial keyword {named}, with {context!r} beside it."
    found[among.intent] = _Found(PARTIAL, tuple(partial), reason)


def _first_context(each: _Set, text: _Text) -> str | None:
    for word in each.context:
        if next(word.places(text.text), None) is not None:
            return word.text
    return None


def _counts(word: _Word, guard: _Guard | None, text: _Text) -> bool:
    """Whether a keyword occurs where the message is not about something else."""
    if guard is None or word.at_home or guard.is_home(text.words):
        return next(word.places(text.text), None) is not None
    places = islice(word.places(text.text), _MOST_PLACES)
    return any(not guard.foreign(text.sentence(text.text, at)) for at in places)


def _phrase_in(wanted: Phrase, guard: _Guard | None, text: _Text) -> str:
    """The words of the message that a phrase finds; nothing if it finds none."""
    folded = text.folded
    guarded = guard is not None and not guard.is_home(text.words)
    for match in islice(wanted.matches(folded.text), _MOST_PLACES):
        if wanted.dated and not text.has_date_at(match.start("date")):
            continue
        sentence = text.sentence(folded.text, match.start()) if guarded else ""
        if guard is not None and sentence and guard.foreign(sentence):
            continue
        return lowered(folded.source[folded.start(match.start()) : folded.end(match.end())])
    return ""


def _misspelt_in(words: Sequence[str], among: _Set, anchor: str) -> str:
    """The exact keyword with `anchor` that the words are, but for typing errors."""
    correct = among.keywords.correct
    places = [
        at
        for at, word in enumerate(words)
        if word == anchor or (word not in correct and is_near(word, anchor))
    ]
    for keyword in among.exact:
        wanted = keyword.words
        if len(wanted) < 2 or anchor not in wanted:
            continue
        for at in places:
            first = at - wanted.index(anchor)
            if first < 0 or first + len(wanted) > len(words):
                continue
            pairs = zip(words[first : first + len(wanted)], wanted, strict=True)
            if all(a == b or (len(b) >= LEAST_LETTERS and is_near(a, b)) for a, b in pairs):
                return keyword.text
    return ""


def _word(keyword: str, guard: _Guard | None) -> _Word:
    text = lowered(keyword)
    words = tuple(_WORD.findall(text))
    return _Word(
        text=text,
        words=() if _UNSPACED.search(text) else words,
        left=_is_letter(text[:1]),
        right=_is_letter(text[-1:]),
        at_home=guard is None or guard.is_home(words),
    )


def _is_letter(letter: str) -> bool:
    """Whether a letter beside it makes a keyword part of a longer word."""
    return (letter.isalnum() or letter == "_") and not _UNSPACED.match(letter)


def _guard(guard: Guard, names: Mapping[str, Iterable[str]]) -> _Guard:
    own = _both(guard.own, *names.values())
    before, verbs, between = map(_choice, map(_both, (guard.before, guard.verbs, guard.between)))
    subject = re.compile(
        rf"(?<!\w)(?:(?:{before})|(?P<verb>{verbs}))(?:\s+|')(?:(?:{between})(?:\s+|')){{0,3}}"
        r"[\"'`\u2018\u201c\u201e\u00ab]?(?P<subject>\w[\w.-]*)"
    )
    return _Guard(
        home=_both(guard.home),
        own=own,
        pronouns=_both(guard.pronouns, guard.between),
        phrases=tuple(each for each in own if " " in each),
        subject=subject,
    )


def _both(*words: Iterable[str]) -> frozenset[str]:
    """Words in lower case, with their accents and without."""
    plain = [each for some in words for each in some]
    return frozenset([*map(lowered, plain), *(fold(each).text for each in plain)])


def _choice(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=lambda word: (-len(word), word))) or r"(?!)"
