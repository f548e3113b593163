"""Scans a tool definition and reports what is suspicious.

It reads everything that a model would read: name, title, description, and every text and name of
the schemas. It decides nothing: the caller quarantines definitions whose findings have a total
weight of 1 or more.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Literal, cast

from toolgate.catalog.scanner.classifier import (
    Classifier,
    Place,
    ScoredSentence,
    load_classifier,
)
from toolgate.catalog.scanner.disguises import has_letters_set_apart, undisguised_texts
from toolgate.catalog.scanner.encodings import decoded_parts
from toolgate.catalog.scanner.normalize import (
    MAX_CHARS,
    hidden_kinds,
    normalize,
    skeleton,
)
from toolgate.catalog.scanner.rules import ScanRule, load_rules
from toolgate.catalog.scanner.sentences import (
    QUARANTINE_WEIGHT,
    STEERING_WEIGHT,
    Sentence,
    split_sentences,
    steering,
    with_signals,
)
from toolgate.catalog.scanner.signals import ASIDE, OTHER_SERVER, OTHER_TOOL, Signal
from toolgate.errors import EmbedderError
from toolgate.types import Json

log = logging.getLogger(__name__)

_SUSPICIOUS_SCORE: Final = 0.89
"""Score from which a sentence on its own makes a definition suspicious."""
_DOUBTFUL_SCORE: Final = 0.87
"""Score from which it does so with another finding."""
_HONEST_SCORE: Final = 0.84
"""Score below which the signals of a text are not enough on their own. All three chosen by
cross-validation, so that honest definitions that look like poisoned ones are quarantined hardly
more often than by rules and signals alone; held-out ones confirm it (`benchmarks.scanner`)."""
_DOUBTFUL_WEIGHT: Final = 0.35
"""Weight of a sentence about which the classifier is unsure, in [0, 1]: it is not suspicious on
its own (chosen)."""
# Characters of an excerpt around a match (chosen).
_EXCERPT: Final = 160
# Levels of a schema that are read: deeper ones hide something (chosen).
_MOST_DEPTH: Final = 40
_NAME: Final = " (name)"
"""Suffix of the path of a name, as opposed to its value."""
_NAMES: Final = " (names)"
"""Suffix of the path of several names, read as a sentence."""
_SHORT: Final = 8
"""Texts up to this many characters are harmless: `string`, `object`."""


@dataclass(frozen=True, kw_only=True)
class ScanFinding:
    """Something suspicious in a tool's definition."""

    rule: str
    """Id of the rule."""

    where: str
    """Path in the definition: `description`, `inputSchema.properties.path.description`."""

    reason: str
    """The reason, as a sentence."""

    excerpt: str
    """The matching text, with invisible characters made visible; at most 160 characters."""

    weight: float = 1.0
    """Its weight; 1 is enough to quarantine a tool."""


@dataclass(frozen=True, kw_only=True)
class OtherServersTools:
    """What the scanner needs to know about the tools of other servers."""

    names: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Servers by bare tool name."""

    skeletons: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Name and server by skeleton; names that look alike have the same one."""

    folded: frozenset[str] = frozenset()
    """Names of the servers, in lower case."""

    @classmethod
    def of(cls, tools: Iterable[tuple[str, str]]) -> "OtherServersTools":
        """Create from pairs of server and tool name."""
        pairs = list(tools)
        names: dict[str, frozenset[str]] = {}
        for server, name in pairs:
            names[name] = names.get(name, frozenset()) | {server}
        return cls(
            names=names,
            skeletons={skeleton(name): (name, server) for server, name in pairs},
            folded=frozenset(server.casefold() for server, _ in pairs),
        )


class Scanner:
    """Scans definitions by rules, by the signals of sentences, and with a trained classifier."""

    def __init__(
        self,
        rules: Iterable[ScanRule] | None = None,
        *,
        classifier: Classifier | Literal["bundled"] | None = "bundled",
    ) -> None:
        """Create a scanner.

        Args:
            rules: The rules; None: those that ship with Toolgate.
            classifier: `bundled`: the one that ships with Toolgate; None: none.
        """
        self._classifier = load_classifier() if classifier == "bundled" else classifier
        self._rules = tuple(rules) if rules is not None else load_rules()
        # Descriptions of parameters are often repeated within a server.
        self._suspicions = lru_cache(maxsize=256)(self._scan_text)
        self._sentences = lru_cache(maxsize=256)(_sentences)
        self._scored = lru_cache(maxsize=256)(self._score_text)

    def scan(
        self, definition: Json, *, server: str = "", neighbours: OtherServersTools | None = None
    ) -> tuple[ScanFinding, ...]:
        """Return what is suspicious, highest weight first; empty for an honest tool.

        Args:
            definition: The definition as its server sent it.
            server: Name of its server; texts may mention the server's own tools.
            neighbours: The tools of all servers.
        """
        findings: dict[tuple[str, str], ScanFinding] = {}
        texts, is_all = _texts(definition)
        if not is_all:
            reason = f"It is nested too deeply, or has more than {MAX_CHARS:,} characters of text."
            findings["too-long", ""] = ScanFinding(
                rule="too-long", where="", reason=reason, excerpt=""
            )
        for where, text in texts:
            if len(text) < _SHORT and text.isascii() and text.isprintable():
                continue
            for finding in self._suspicions(text, where.endswith(_NAME)):
                findings.setdefault((finding.rule, where), replace(finding, where=where))
        other_tools = neighbours or OtherServersTools()
        for finding in _shadowing(definition, texts, server, other_tools):
            findings.setdefault((finding.rule, finding.where), finding)
        words = {where.rpartition(".")[2] for where, _ in texts}
        vocabulary = _ToolVocabulary(
            server=server, words=frozenset(words), other_servers=other_tools
        )
        with_sentences = list(_sentence_texts(texts))
        for where, text in with_sentences:
            if finding := _steering(where, self._sentences(text), vocabulary):
                if self._looks_honest(where, text, vocabulary):
                    finding = replace(finding, weight=min(finding.weight, _DOUBTFUL_WEIGHT))
                findings.setdefault((finding.rule, where), finding)
        if finding := self._most_steering(with_sentences):
            findings[finding.rule, finding.where] = finding
        for finding in _contradiction(definition):
            findings[finding.rule, finding.where] = finding
        return tuple(sorted(findings.values(), key=lambda finding: -finding.weight))

    def _most_steering(self, with_sentences: Iterable[tuple[str, str]]) -> ScanFinding | None:
        """Return the sentence with the highest score, if the score is high enough."""
        if self._classifier is None:
            return None
        best: tuple[ScoredSentence, str] | None = None
        for where, text in _classified(with_sentences):
            scored = self._scored(text, place_of(where))
            if scored is not None and (best is None or scored.score > best[0].score):
                best = scored, where
        if best is None or best[0].score < _DOUBTFUL_SCORE:
            return None
        scored, where = best
        return ScanFinding(
            rule="classifier",
            where=where,
            reason="It looks like an instruction to the model"
            f" (classifier: {min(scored.score, 0.99):.0%}).",
            excerpt=_visible(scored.text),
            weight=1.0 if scored.score >= _SUSPICIOUS_SCORE else _DOUBTFUL_WEIGHT,
        )

    def _looks_honest(self, where: str, text: str, vocabulary: "_ToolVocabulary") -> bool:
        """Whether the classifier, which knows all about a text, thinks that it is honest.

        It does not read names, and does not know other servers.
        """
        if where.endswith(_NAME) or any(
            True for sentence in self._sentences(text) for _ in vocabulary.signals(sentence.text)
        ):
            return False
        scored = self._scored(text, place_of(where))
        return scored is not None and scored.score < _HONEST_SCORE

    def _score_text(self, text: str, place: Place) -> ScoredSentence | None:
        if self._classifier is None:
            return None
        try:
            return self._classifier.most_steering(self._sentences(text), place)
        except EmbedderError as error:
            log.warning("The scanner works without its classifier: %s", error)
            self._classifier = None
            return None

    def _scan_text(self, text: str, is_name: bool) -> tuple[ScanFinding, ...]:  # noqa: FBT001
        """Return what is suspicious about one text, regardless of its place."""
        return tuple(self._in_text(text, is_name=is_name))

    def _in_text(self, text: str, *, is_name: bool) -> Iterator[ScanFinding]:
        kinds = hidden_kinds(text)
        if kinds:
            yield ScanFinding(
                rule="hidden-text",
                where="",
                reason=f"It contains {', '.join(kinds)}.",
                excerpt=_visible(text),
            )
        if has_letters_set_apart(text):
            yield ScanFinding(
                rule="hidden-text",
                where="",
                reason="It spells words out letter by letter.",
                excerpt=_visible(text),
            )
        plain = list(self._by_rules(normalize(text), "", is_name=is_name))
        yield from plain
        told = {finding.rule for finding in plain}
        for disguise, content in undisguised_texts(text):
            for finding in self._by_rules(normalize(content), f" {disguise}", is_name=is_name):
                if finding.rule not in told:
                    told.add(finding.rule)
                    yield finding
        for encoding, content in decoded_parts(text):
            inside = list(self._by_rules(normalize(content), f" in {encoding}", is_name=False))
            yield from inside
            if not inside:
                yield ScanFinding(
                    rule="encoded-text",
                    where="",
                    reason=f"It contains text encoded as {encoding}.",
                    excerpt=_visible(content),
                )

    def _by_rules(self, text: str, hidden: str, *, is_name: bool) -> Iterator[ScanFinding]:
        lowered = text.lower()
        for rule in self._rules:
            if is_name and not rule.in_names:
                continue
            match = rule.search(text, lowered)
            if match is not None:
                yield ScanFinding(
                    rule=rule.id,
                    where="",
                    reason=f"It {rule.says}{hidden}.",
                    excerpt=_around(text, match),
                    weight=1.0 if hidden else rule.weight,
                )


def is_suspicious(findings: Iterable[ScanFinding]) -> bool:
    """Whether findings are enough to quarantine a tool; each rule counts once."""
    by_rule: dict[str, float] = {}
    for finding in findings:
        by_rule[finding.rule] = max(by_rule.get(finding.rule, 0.0), finding.weight)
    return sum(by_rule.values()) >= 1


def _texts(definition: Json) -> tuple[list[tuple[str, str]], bool]:
    """Return every text that a model may see, with its path, and whether these are all.

    No tool needs more than `MAX_CHARS`, so hiding something behind them is detected by that.
    """
    texts: list[tuple[str, str]] = []
    stack: list[tuple[str, object, int]] = [("", definition, 0)]
    left, is_all = MAX_CHARS, True
    while stack and left > 0:
        where, value, depth = stack.pop()
        if isinstance(value, str):
            left -= len(value)
            texts.append((where, value))
        elif depth >= _MOST_DEPTH:
            is_all = False
        elif isinstance(value, Mapping):
            table = cast("Mapping[str, object]", value)
            for key, inner in reversed(list(table.items())):
                path = f"{where}.{key}" if where else key
                if where.endswith("properties") or not _PLAIN_KEY.fullmatch(key):
                    left -= len(key)
                    stack.append((path + _NAME, key, depth + 1))
                stack.append((path, inner, depth + 1))
            if where.endswith("properties"):
                texts += _scattered(where, table)
        elif isinstance(value, list):
            items = cast("list[object]", value)
            for at, inner in reversed(list(enumerate(items))):
                stack.append((f"{where}[{at}]", inner, depth + 1))
            texts += _in_pieces(where, [item for item in items if isinstance(item, str)])
    return texts, is_all and not stack and left >= 0


_PLAIN_KEY: Final = re.compile(r"\$?[A-Za-z0-9]{1,24}")
"""Keys of JSON Schema and of the protocol; they say nothing to a model."""

_FEWEST_PIECES: Final = 4
"""Names, values or descriptions over which a sentence is scattered, at least (chosen)."""

_PIECE_WORDS: Final = 3
"""Words of a description that is part of such a sentence, at most (chosen)."""


def _scattered(where: str, properties: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the names of parameters as a sentence, and their descriptions if they are short."""
    yield from _in_pieces(where + _NAMES, [_spelled(name) for name in properties])
    descriptions = [
        str(cast("Mapping[str, object]", inner).get("description") or "")
        for inner in properties.values()
        if isinstance(inner, Mapping)
    ]
    if all(len(text.split()) <= _PIECE_WORDS for text in descriptions):
        yield from _in_pieces(where, descriptions)


def _in_pieces(where: str, pieces: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pieces as one text; alone, each may be too short to be suspicious."""
    if len(pieces) >= _FEWEST_PIECES:
        yield where, " ".join(pieces)[:MAX_CHARS]


_CLAIMS: Final = re.compile(
    r"(?:instead of|in place of|replaces?|supersedes?|deprecat\w+|overrides?|rather than|"
    r"do not use|don't use|never use|stop using|(?:before|after) (?:using|calling|invoking)|"
    r"(?:when|whenever|if|each time|every time)(?:\W+\w+){0,4}\W+"
    r"(?:calls?|uses?|invokes?|runs?|is called|is used))"
    r"(?:\s+(?:the|any|tool|function|server|of|call|to))*\s*[`'\"*]*$",
    re.IGNORECASE,
)
_BEHIND: Final = re.compile(
    r"^[`'\"*]*\s*(?:tool|function)?\s*(?:is|are|was|has been)?\s*"
    r"(?:deprecated|replaced|broken|unsafe|obsolete|disabled|no longer|must (?:first|always)|"
    r"should (?:not|never))",
    re.IGNORECASE,
)

_IDENTIFIER: Final = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9]*+(?:[_.-][A-Za-z0-9]++)++"
    r"|\b[a-z]++[A-Z][A-Za-z0-9]*+"
)
"""Names of tools that are no natural words, unlike `search`. Each character is visited once, so
that a word of 100,000 letters takes no time."""


def _shadowing(
    definition: Json, texts: Iterable[tuple[str, str]], server: str, other_tools: OtherServersTools
) -> Iterator[ScanFinding]:
    """Yield findings for a name that imitates another server's tool, or a text about one."""
    name = str(definition.get("name") or "")
    look_alike = other_tools.skeletons.get(skeleton(name))
    if look_alike is not None and look_alike[1] != server and _is_fake(name, look_alike[0]):
        yield ScanFinding(
            rule="look-alike-name",
            where="name",
            reason=f"Its name imitates {look_alike[0]!r} of the server {look_alike[1]!r}.",
            excerpt=_visible(name),
        )
    for where, text in texts:
        if where.endswith(_NAME) or len(text) < _SHORT:
            continue
        normalized = normalize(text)
        for match in _IDENTIFIER.finditer(normalized):
            word = match[0]
            owners = other_tools.names.get(word, frozenset())
            if not owners or server in owners or word == name:
                continue
            before, after = (
                normalized[max(0, match.start() - 90) : match.start()],
                normalized[match.end() :][:60],
            )
            if _CLAIMS.search(before) or _BEHIND.search(after):
                yield ScanFinding(
                    rule="other-tool",
                    where=where,
                    reason=f"It mentions the tool {word!r} of the server {min(owners)!r}.",
                    excerpt=_around(normalized, match),
                )
                break


@dataclass(frozen=True, kw_only=True)
class _ToolVocabulary:
    """Names that a tool may mention, and those that only other servers have."""

    server: str
    words: frozenset[str]
    other_servers: OtherServersTools

    def signals(self, text: str) -> Iterator[Signal]:
        """Yield the signals of a sentence that depend on the configured servers."""
        # `name=value` is a parameter.
        if any(
            self._is_foreign(match[0]) and text[match.end() : match.end() + 1] != "="
            for match in _IDENTIFIER.finditer(text)
        ):
            yield OTHER_TOOL
        for match in _SERVER.finditer(text):
            name = match[1].casefold()
            if name != self.server.casefold() and name in self.other_servers.folded:
                yield OTHER_SERVER
                break

    def _is_foreign(self, word: str) -> bool:
        owners = self.other_servers.names.get(word)
        if not owners or self.server in owners or word in self.words:
            return False
        # Servers name their tools with and without a prefix: `jira_add_comment`, `add_comment`.
        return not any(
            word in name for name, of in self.other_servers.names.items() if self.server in of
        )


_SERVER: Final = re.compile(
    r"\b([\w-]{2,40})(?:['’]s)?[`'\"]? (?:mcp )?(?:server|connector)\b", re.IGNORECASE
)
_ASIDE: Final = re.compile(
    r"(?:^|\.)(?:\$comment|enum\[|enumNames|examples?\b|default\b|const\b|annotations\b|_meta\b|title\b)"
)
"""Places in a definition that hold values or labels instead of advice."""


def _steering(
    where: str, sentences: tuple[Sentence, ...], vocabulary: _ToolVocabulary
) -> ScanFinding | None:
    """Return a finding if a text steers a model without matching a rule."""
    with_context = list(sentences)
    for at, sentence in enumerate(sentences):
        if more := tuple(vocabulary.signals(sentence.text)):
            with_context[at] = with_signals(sentence, more)
        if _ASIDE.search(where):
            with_context[at] = replace(with_context[at], signals=(*with_context[at].signals, ASIDE))
    steering_sentence = steering(with_context)
    if steering_sentence is None or steering_sentence.weight < STEERING_WEIGHT:
        return None
    return ScanFinding(
        rule="steering",
        where=where,
        reason=f"A sentence mentions {_listed(steering_sentence.says)}: possible prompt injection.",
        excerpt=_visible(steering_sentence.sentence.text),
        weight=1.0 if steering_sentence.weight >= QUARANTINE_WEIGHT else 0.35,
    )


def _listed(says: Sequence[str]) -> str:
    return f"{', '.join(says[:-1])} and {says[-1]}" if len(says) > 1 else says[0]


def _sentences(text: str) -> tuple[Sentence, ...]:
    return split_sentences(normalize(text))


_CHANGES: Final = re.compile(
    r"(?:^|[_-])(?:delete|drop|remove|apply|write|update|insert|publish|deploy|overwrite|purge)(?:$|[_-])",
    re.IGNORECASE,
)


def _contradiction(definition: Json) -> Iterator[ScanFinding]:
    """Yield a finding if a tool's name contradicts a hint that clients trust."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(definition.get("name") or "")[:200])
    hints = definition.get("annotations")
    if not isinstance(hints, Mapping) or not _CHANGES.search(name):
        return
    if cast("Mapping[str, object]", hints).get("readOnlyHint") is True:
        yield ScanFinding(
            rule="contradiction",
            where="annotations.readOnlyHint",
            reason="It is marked read-only, but its name says that it changes something.",
            excerpt=_visible(name),
            weight=0.7,
        )


def _sentence_texts(texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the texts to split into sentences; parameters with name and description."""
    for where, text in texts:
        path = where.removesuffix(".description")
        begin, _, name = path.rpartition(".properties.")
        if where.endswith(_NAMES):
            continue  # the names of many options are no sentence, and full of signals
        if where.endswith(_NAME):
            yield where, _spelled(text)
        elif path != where and begin and "." not in name:
            yield where, _without_caution(f"{_spelled(name)}: {text}")
        elif len(text) >= _SHORT:
            yield where, _without_caution(text)


def classified_texts(definition: Json) -> Iterator[tuple[str, str]]:
    """Yield the texts of a definition for the classifier, with their paths."""
    return _classified(_sentence_texts(_texts(definition)[0]))


def place_of(where: str) -> Place:
    """Return the place that the classifier knows for a path in a definition."""
    if _ASIDE.search(where):
        return "value"
    return "parameter" if "properties." in where else "description"


def _classified(with_sentences: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for where, text in with_sentences:
        if not where.endswith(_NAME):
            yield where, text
            for _, plain in undisguised_texts(text):
                yield where, plain


_CAUTION: Final = re.compile(
    r"(?:should be |must be |is |are )?\btreat(?:ed)?(?: it| them| this| the \w+)? as"
    r" (?:untrusted(?: \w+)?|data)\b(?:,? (?:and )?(?:never|not)(?: as)? instructions\b)?"
    r"|\b(?:do not|don['’]t|never) follow (?:any )?instructions (?:found |contained |embedded )?"
    r"(?:in|inside|within) (?:\w+ ?){1,4}",
    re.IGNORECASE,
)
"""Advice to distrust what a tool returns. It mentions instructions, and is the opposite of an
attack; the text around it is scanned as usual."""


def _without_caution(text: str) -> str:
    is_there = "nstructions" in text or "untrusted" in text or "as data" in text
    return _CAUTION.sub("", text) if is_there else text


def _spelled(name: str) -> str:
    """Return the words of a name: `content_from_reading`, `contentFromReading`."""
    return re.sub(r"[_-]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name[:200]))


def _is_fake(name: str, original: str) -> bool:
    """Whether a name was made to look like another, not merely with other case or separators."""

    def simple(text: str) -> str:
        return re.sub(r"[\W_]+", "", text).casefold()

    return simple(name) != simple(original) or any(
        not c.isascii() for c in name + original if c in name
    )


def _around(text: str, match: re.Match[str]) -> str:
    begin = max(0, match.start() - 30)
    end = min(len(text), max(match.end(), begin + _EXCERPT - 2))
    part = text[begin:end][: _EXCERPT - 2]
    excerpt = ("…" if begin else "") + part + ("…" if begin + len(part) < len(text) else "")
    return _visible(excerpt)


def _visible(text: str) -> str:
    """Return a text for a terminal, without invisible characters and cursor movements."""
    visible = "".join(
        char if char.isprintable() else f"\\u{{{ord(char):x}}}" if char not in "\n\t" else " "
        for char in text[: _EXCERPT * 2]
    )
    return visible if len(visible) <= _EXCERPT else visible[: _EXCERPT - 1] + "…"
