"""The keyword stage: exact keywords, partial ones with their context, and phrases.

`docs/intents.md` describes each rule. The confidences are fixed: 0.9 for an exact keyword, 0.8
for a partial one, and nothing in between.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import chain, islice
from typing import Final, Literal, TypeAlias

from toolgate.intents.base import (
    NONE,
    Detection,
    Intent,
    IntentCandidate,
    Keywords,
    StageRequest,
    SubjectGuard,
)
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
from toolgate.intents.patterns import late_pattern
from toolgate.intents.phrases import Phrase, compile_phrase
from toolgate.intents.spelling import LEAST_LETTERS, is_near
from toolgate.intents.text import Folded, fold, lowered

# Both confidences are chosen, and documented in docs/intents.md: clients may rely on them.
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
"""Largest number of cached answers (chosen): few combinations of keywords occur."""

_LONGEST_REASON: Final = 300
"""Longest reason in the cache, in characters (chosen): a phrase may match words of any length."""

# Chosen; limits the work on a message that repeats one word.
_MOST_PLACES: Final = 50
"""Largest number of places of one keyword that are checked, if the first are about something
else."""

_TIME_WORDS: Final = frozenset(
    [
        *(*UNITS, *DAY_WORDS, *MONTHS, *WEEKDAYS, *NUMBERS, *SEASONS, *ORDINALS, *EDGES),
        *("q1", "q2", "q3", "q4", "h1", "h2", "t1", "t2", "t3", "t4", "kw"),
    ]
)


@dataclass(frozen=True, slots=True)
class _Keyword:
    """A keyword, prepared for searching."""

    text: str
    words: tuple[str, ...]
    left: bool
    """Whether no word character may come before it."""
    right: bool
    at_home: bool = False
    """Whether it counts whatever else the message is about."""

    def places(self, text: str) -> Iterator[int]:
        """Yield where it occurs as whole words."""
        at = text.find(self.text)
        while at >= 0:
            end = at + len(self.text)
            if not (self.left and at and _is_letter(text[at - 1])) and not (
                self.right and end < len(text) and _is_letter(text[end])
            ):
                yield at
            at = text.find(self.text, at + 1)


@dataclass(slots=True)
class _KeywordSet:
    """The keywords of an intent in one language."""

    intent: int
    language: str
    keywords: Keywords
    guard: "_SubjectMatcher | None"
    exact: list[_Keyword]
    context: list[_Keyword]


_Tier: TypeAlias = Literal["exact", "pattern", "partial", "weak"]


@dataclass(frozen=True, slots=True)
class _KeywordEntry:
    """One thing to search for. Entries are ordered: by intent, language, tier, list position."""

    keyword_set: _KeywordSet
    tier: _Tier
    word: _Keyword | None = None
    phrase: Phrase | None = None


@dataclass(frozen=True, slots=True)
class _SubjectMatcher:
    """Recognizes messages of one language that are about something else."""

    home: frozenset[str]
    pack_subjects: frozenset[str]
    pronouns: frozenset[str]
    phrases: tuple[str, ...]
    subject: re.Pattern[str]

    def is_home(self, words: Collection[str]) -> bool:
        return not self.home.isdisjoint(words)

    def foreign(self, sentence: str) -> str:
        """Return the subject of a sentence if it is foreign to the pack; else an empty text."""
        for match in self.subject.finditer(sentence):
            word = match["subject"]
            if word[0].isdigit() or word in self.pack_subjects or word in self.pronouns:
                continue
            # After a preposition, a time tells when, not what: `in October`.
            if match["verb"] is None:
                if word in _TIME_WORDS or word in ROLLING:
                    continue
                if sentence.startswith(self.phrases, match.start("subject")):
                    continue
            return word
        return ""


@dataclass(slots=True)
class _KeywordMatch:
    """The result of an intent's keywords for a message."""

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


class _MessageForms:
    """A message in the forms that matching needs, each computed on first use."""

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
        # Dates are read only when a phrase needs one.
        if self._dates is None:
            dates = dates_in(self.folded, today=self._today, zone=self._zone)
            self._dates = [(dated.start, dated.end) for dated in dates]
        offset = self.folded.start(at)
        return any(start <= offset < end for start, end in self._dates)

    def sentence(self, text: str, at: int) -> str:
        """Return the sentence around a place."""
        start = 0
        # 2,000 characters on either side (chosen) limit the work on text without a full stop.
        for match in _SENTENCE_END.finditer(text, max(0, at - 2_000), at):
            start = match.end()
        after = _SENTENCE_END.search(text, at, at + 2_000)
        return text[max(start, at - 2_000) : after.start() if after else at + 2_000]


class KeywordStage:
    """Detects intents by their keywords. Immutable: other intents need a new stage."""

    name = "keyword"

    def __init__(self, intents: Iterable[Intent]) -> None:
        """Prepare the keywords.

        Raises:
            ValueError: A phrase of an intent is invalid; the message says which and why.
        """
        self.intents: tuple[Intent, ...] = tuple(
            sorted(intents, key=lambda intent: (intent.order, intent.name))
        )
        self._languages: dict[str, None] = {}
        self._entries: list[_KeywordEntry] = []
        self._answers: dict[tuple[tuple[int, float, tuple[str, ...], str], ...], Detection] = {}
        self._misspelt: dict[str, tuple[re.Pattern[str], list[_KeywordSet]]] = {}
        for number, intent in enumerate(self.intents):
            for language, keywords in intent.keywords.items():
                self._add(number, intent, language, keywords)
        self._by_word: dict[str, list[int]] = {}
        self._always: list[int] = []
        self._arrange()

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages for which an intent has keywords."""
        return tuple(self._languages)

    async def classify(self, request: StageRequest) -> Detection:
        """Return the intent of a message, without arguments."""
        return self.match(request)

    def match(self, request: StageRequest) -> Detection:
        """Return the intent of a message, as `classify` does, without `await`."""
        text = _MessageForms(request.text, request.today, request.zone)
        matches = self._all(text, request.languages)
        # Most messages have single spaces: the text is copied only if nothing was found.
        if not matches and _SPACES.search(text.text):
            text.text = _SPACE_RUN.sub(" ", text.text)
            matches = self._all(text, request.languages)
        if not matches:
            matches = self._mistyped(text, request.languages)
        if not matches:
            return _NOTHING
        # Equal combinations of keywords give equal answers, which are immutable and can be shared.
        key = tuple(
            (number, match.confidence, match.matched, match.reason)
            for number, match in matches.items()
        )
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answer(matches)
            # Long reasons repeat the message: they rarely occur twice and would fill the cache.
            short = all(len(match.reason) < _LONGEST_REASON for match in matches.values())
            if short and len(self._answers) < _MOST_ANSWERS:
                self._answers[key] = answer
        return answer

    def _answer(self, matches: Mapping[int, _KeywordMatch]) -> Detection:
        best = sorted(matches, key=lambda number: (-matches[number].confidence, number))
        chosen, result = self.intents[best[0]], matches[best[0]]
        return Detection(
            use_mcp=True,
            intent=chosen.name,
            confidence=result.confidence,
            tool=chosen.tool or None,
            matched=result.matched,
            stage=self.name,
            reason=result.reason,
            candidates=tuple(
                IntentCandidate(
                    intent=self.intents[number].name,
                    confidence=matches[number].confidence,
                    why=matches[number].reason,
                )
                for number in best
            ),
            intents=(chosen.name,),
        )

    # Preparation

    def _add(self, number: int, intent: Intent, language: str, keywords: Keywords) -> None:
        self._languages[language] = None
        declared = intent.guards.get(language)
        guard = declared and _guard(declared, frozenset(chain(*intent.names.values())))
        keyword_set = _KeywordSet(
            intent=number,
            language=language,
            keywords=keywords,
            guard=guard,
            exact=[_word(keyword, guard) for keyword in keywords.exact],
            context=[_word(keyword, None) for keyword in keywords.context],
        )
        for anchor in map(lowered, keywords.misspelt):
            self._misspelt.setdefault(anchor, (_looks_like(anchor), []))[1].append(keyword_set)
        entries = self._entries
        entries += [
            _KeywordEntry(keyword_set, "exact", word=keyword) for keyword in keyword_set.exact
        ]
        for phrase in self._phrases(intent, language, keywords.patterns):
            entries.append(_KeywordEntry(keyword_set, "pattern", phrase=phrase))
        entries += [
            _KeywordEntry(keyword_set, "partial", word=_word(keyword, guard))
            for keyword in keywords.partial
        ]
        for phrase in self._phrases(intent, language, keywords.weak_patterns):
            entries.append(_KeywordEntry(keyword_set, "weak", phrase=phrase))

    def _arrange(self) -> None:
        """Index each entry by a word that it requires: its rarest one."""
        # The rarest word of a keyword selects it least often for messages without it.
        frequency = Counter(
            word for entry in self._entries if entry.word for word in entry.word.words
        )
        for number, entry in enumerate(self._entries):
            index_words: Iterable[str] = ()
            if entry.word is not None and entry.word.words:
                index_words = [min(entry.word.words, key=lambda word: (frequency[word], word))]
            elif entry.phrase is not None:
                index_words = entry.phrase.needs
            for word in index_words:
                self._by_word.setdefault(word, []).append(number)
            if not index_words:
                self._always.append(number)

    @staticmethod
    def _phrases(intent: Intent, language: str, sources: Sequence[str]) -> list[Phrase]:
        phrases: list[Phrase] = []
        for source in sources:
            try:
                phrases.append(compile_phrase(source, intent.names))
            except ValueError as error:
                raise ValueError(
                    f"Phrase {source!r} of intent {intent.name!r} ({language}): {error}."
                ) from error
        return phrases

    # Matching

    def _all(self, text: _MessageForms, languages: Sequence[str]) -> dict[int, _KeywordMatch]:
        """Return the result of each intent of which a keyword occurs."""
        numbers = set(self._always)
        by_word = self._by_word
        for word in text.words:
            if word in by_word:
                numbers.update(by_word[word])
        # Phrases are matched on folded text, so their words are looked up without accents.
        if not text.plain:
            for word in text.folded_words - text.words:
                numbers.update(by_word.get(word, ()))
        matches: dict[int, _KeywordMatch] = {}
        partial: list[str] = []
        current: _KeywordSet | None = None
        source, entries = text.text, self._entries
        # In the order of entries: the tiers of an intent follow one another.
        for number in sorted(numbers):
            entry = entries[number]
            word = entry.word
            # A cheap test that mostly fails, before the exact one for whole words.
            if word is not None and word.text not in source:
                continue
            keyword_set = entry.keyword_set
            if languages and keyword_set.language not in languages:
                continue
            if keyword_set is not current:
                if partial and current is not None:
                    _count_partial(current, partial, text, matches)
                    partial = []
                current = keyword_set
            earlier = matches.get(keyword_set.intent)
            # Nothing beats an exact keyword: the other entries of this intent can be skipped.
            if earlier is not None and earlier.confidence == EXACT:
                continue
            if word is not None:
                if not _counts(word, keyword_set.guard, text):
                    continue
                matched = word.text
                if entry.tier == "partial":
                    partial.append(matched)
                    continue
                matches[keyword_set.intent] = _KeywordMatch(
                    EXACT, (matched,), f"The exact keyword {matched!r}."
                )
            elif entry.phrase is not None and (entry.tier == "pattern" or earlier is None):
                matched = _phrase_in(entry.phrase, keyword_set.guard, text)
                if matched:
                    confidence = EXACT if entry.tier == "pattern" else PARTIAL
                    reason = f"{matched!r} is what the phrase {entry.phrase.source!r} looks for."
                    matches[keyword_set.intent] = _KeywordMatch(confidence, (matched,), reason)
        if partial and current is not None:
            _count_partial(current, partial, text, matches)
        return matches

    def _mistyped(self, text: _MessageForms, languages: Sequence[str]) -> dict[int, _KeywordMatch]:
        """Match exact keywords of several words, with at most one error in each longer word."""
        matches: dict[int, _KeywordMatch] = {}
        for anchor, (looks_like, sets) in self._misspelt.items():
            # A quick search for something like the keyword, before words are split and compared.
            if looks_like.search(text.text) is None:
                continue
            words = _WORD.findall(text.text)
            for keyword_set in sets:
                if keyword_set.intent in matches or (
                    languages and keyword_set.language not in languages
                ):
                    continue
                keyword = _misspelt_in(words, keyword_set, anchor)
                if keyword:
                    reason = f"The keyword {keyword!r} occurs with a typing error."
                    matches[keyword_set.intent] = _KeywordMatch(EXACT, (keyword,), reason)
        return matches


def _looks_like(anchor: str) -> re.Pattern[str]:
    """Match words that may be `anchor`: one error leaves a half intact, or swaps two letters."""
    half = len(anchor) // 2
    left, right = re.escape(anchor[:half]), re.escape(anchor[half:])
    # A swapped pair changes both halves only if it is in the middle.
    swapped = re.escape(
        anchor[: half - 1] + anchor[half : half + 1] + anchor[half - 1 : half] + anchor[half + 1 :]
    )
    near = rf"{left}\w{{1,{half + 2}}}|\w{{1,{half + 2}}}{right}|{swapped}"
    return late_pattern(rf"(?<!\w)(?:{near})(?!\w)")


def _count_partial(
    keyword_set: _KeywordSet,
    partial: list[str],
    text: _MessageForms,
    matches: dict[int, _KeywordMatch],
) -> None:
    """Count partial keywords if their context occurs and nothing better was found."""
    if keyword_set.intent in matches:
        return
    context = _first_context(keyword_set, text)
    if context is None:
        return
    named = ", ".join(map(repr, partial))
    reason = f"The partial keyword {named}, with {context!r} beside it."
    matches[keyword_set.intent] = _KeywordMatch(PARTIAL, tuple(partial), reason)


def _first_context(keyword_set: _KeywordSet, text: _MessageForms) -> str | None:
    for word in keyword_set.context:
        if next(word.places(text.text), None) is not None:
            return word.text
    return None


def _counts(word: _Keyword, guard: _SubjectMatcher | None, text: _MessageForms) -> bool:
    """Whether a keyword occurs where the message is not about something else."""
    if guard is None or word.at_home or guard.is_home(text.words):
        return next(word.places(text.text), None) is not None
    places = islice(word.places(text.text), _MOST_PLACES)
    return any(not guard.foreign(text.sentence(text.text, at)) for at in places)


def _phrase_in(phrase: Phrase, guard: _SubjectMatcher | None, text: _MessageForms) -> str:
    """Return the words of the message that a phrase matches; empty if there are none."""
    folded = text.folded
    guarded = guard is not None and not guard.is_home(text.words)
    # One occurrence about something else does not rule out the next one.
    for match in islice(phrase.matches(folded.text), _MOST_PLACES):
        if phrase.dated and not text.has_date_at(match.start("date")):
            continue
        sentence = text.sentence(folded.text, match.start()) if guarded else ""
        if guard is not None and sentence and guard.foreign(sentence):
            continue
        return lowered(folded.source[folded.start(match.start()) : folded.end(match.end())])
    return ""


def _misspelt_in(words: Sequence[str], keyword_set: _KeywordSet, anchor: str) -> str:
    """Return the exact keyword with `anchor` that the words match, apart from typing errors."""
    correct = keyword_set.keywords.correct
    places = [
        at
        for at, word in enumerate(words)
        if word == anchor or (word not in correct and is_near(word, anchor))
    ]
    for keyword in keyword_set.exact:
        keyword_words = keyword.words
        if len(keyword_words) < 2 or anchor not in keyword_words:
            continue
        for at in places:
            first = at - keyword_words.index(anchor)
            if first < 0 or first + len(keyword_words) > len(words):
                continue
            pairs = zip(words[first : first + len(keyword_words)], keyword_words, strict=True)
            if all(a == b or (len(b) >= LEAST_LETTERS and is_near(a, b)) for a, b in pairs):
                return keyword.text
    return ""


# A gateway prepares the intents of its packs three times while it starts.
@lru_cache(maxsize=8_192)
def _word(keyword: str, guard: _SubjectMatcher | None) -> _Keyword:
    text = lowered(keyword)
    words = tuple(_WORD.findall(text))
    return _Keyword(
        text=text,
        words=() if _UNSPACED.search(text) else words,
        left=_is_letter(text[:1]),
        right=_is_letter(text[-1:]),
        at_home=guard is None or guard.is_home(words),
    )


def _is_letter(letter: str) -> bool:
    """Whether this letter next to a keyword makes it part of a longer word."""
    # Scripts without blanks have no word boundaries, so every occurrence counts there.
    return (letter.isalnum() or letter == "_") and not _UNSPACED.match(letter)


@lru_cache(maxsize=256)
def _guard(guard: SubjectGuard, names: frozenset[str]) -> _SubjectMatcher:
    pack_subjects = _both(guard.own, names)
    before, verbs, between = map(_choice, map(_both, (guard.before, guard.verbs, guard.between)))
    subject = late_pattern(
        rf"(?<!\w)(?:(?:{before})|(?P<verb>{verbs}))(?:\s+|')(?:(?:{between})(?:\s+|')){{0,3}}"
        r"[\"'`\u2018\u201c\u201e\u00ab]?(?P<subject>\w[\w.-]*)"
    )
    return _SubjectMatcher(
        home=_both(guard.home),
        pack_subjects=pack_subjects,
        pronouns=_both(guard.pronouns, guard.between),
        phrases=tuple(subject_words for subject_words in pack_subjects if " " in subject_words),
        subject=subject,
    )


def _both(*words: Iterable[str]) -> frozenset[str]:
    """Return words in lower case, with their accents and without."""
    plain = [word for group in words for word in group]
    return frozenset([*map(lowered, plain), *(fold(word).text for word in plain)])


def _choice(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=lambda word: (-len(word), word))) or r"(?!)"
