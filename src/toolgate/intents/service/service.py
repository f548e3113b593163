"""Putting intents, rules and tools together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Final, Literal

import anyio.lowlevel

from toolgate.base.token_estimate import estimate_tokens
from toolgate.base.tracing import observe
from toolgate.catalog import CatalogEntry
from toolgate.intents import (
    NONE,
    Asked,
    Detection,
    DetectionNotes,
    DetectRequest,
    Intent,
    Recognizer,
)
from toolgate.intents.rules import (
    PASS_THROUGH,
    GivenRules,
    Rule,
    Rulebook,
    Talk,
    Talks,
    context_block,
    enriched,
    known_text,
    quoted,
    within,
)
from toolgate.intents.service.answers import RUNNERS_UP, Advice, Enrichment, Knowledge
from toolgate.intents.service.tools import Raised, Toolbox, only_reads, said_of
from toolgate.settings import RuleSettings
from toolgate.types import Caller

__all__ = ["Guide"]

_FIRST_CHARS: Final = 6_000
_LAST_CHARS: Final = 2_000
"""Of a long message: people paste, and ask before or after it."""

_WITHOUT_PAUSE: Final = 50
"""Messages that are looked at before others get a turn."""

_QUERIES_TOP: Final = 3
_CONTEXT: Final = frozenset({"CONTEXT_TITLE", "NO_PROJECT", "PROJECT_NAME", "ACTIVE_SOLUTION"})

_ASKED_SAYS: Final = 0.6
"""How likely a tool helps because a search has its intent, if that is sure."""

_TOPIC_SAYS: Final = 0.25
"""The same for the intent of the conversation."""

_LIKELY: Final = 0.25
"""How likely a message must make the intent of a tool that the model chose for it to count."""


class Guide:
    """Puts intents, rules and tools together."""

    def __init__(
        self,
        *,
        recognizer: Recognizer,
        rulebook: Rulebook,
        settings: Callable[[], RuleSettings],
        notes: DetectionNotes | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.recognizer = recognizer
        """Tells what messages are about."""
        self.rulebook = rulebook
        """All rules there are."""
        self._settings = settings
        self._notes = notes
        self._talks = Talks(clock)

    @property
    def has_rules(self) -> bool:
        """Whether a pack with rules is loaded."""
        return bool(self.rulebook)

    def previous(self, caller: Caller) -> tuple[str, ...]:
        """Intents of the caller's conversation so far, latest last."""
        return self._talks.of(caller).previous

    # Detecting

    async def detect(self, caller: Caller, request: DetectRequest) -> list[Detection]:
        """What messages ask for."""
        if request.deciding != "keyword":
            await self.recognizer.learned_once()
        found: list[Detection] = []
        with observe("intent", messages=len(request.messages)):
            for at, message in enumerate(request.messages):
                if at % _WITHOUT_PAUSE == _WITHOUT_PAUSE - 1:
                    await anyio.lowlevel.checkpoint()
                by_meaning = request.deciding != "keyword"
                remembered = by_meaning and self.recognizer.remembers(message)
                one = await self.recognizer.detect(
                    message,
                    today=request.today,
                    zone=request.zone,
                    languages=request.languages,
                    previous=request.previous or self.previous(caller),
                    deciding=request.deciding,
                )
                self._note(caller, message, one, "detect", remembered=remembered)
                found.append(one)
        return found

    # Enriching

    async def enrich(self, caller: Caller, prompt: str, tools: Toolbox) -> Enrichment:
        """The prompt with the rules for it, or `PASS_THROUGH`."""
        before = self._talks.of(caller)
        remembered = self.recognizer.remembers(_looked_at(prompt))
        with observe("intent", chars=len(prompt)):
            found = await self._detect(prompt, before.previous)
        self._note(caller, prompt, found, "enrich", remembered=remembered)
        named = {name: self.rulebook.rule(name) for name in _intents(found)}
        with_rules = {name: rule for name, rule in named.items() if rule is not None}
        intent = None if found.intent == NONE else found.intent
        self._talks.asked(caller, prompt, intent=intent, intents=tuple(with_rules))
        if not with_rules:
            return Enrichment(text=PASS_THROUGH, detection=found)
        with observe("rules", intents=len(with_rules)):
            given, left_out, values = await self._given(caller, with_rules, found, tools)
            ended = tuple(name for name in before.given if name not in with_rules)
            notes = [*_ended(ended), *_left_out(left_out)]
            if self._settings().show_detection:
                notes.append(_detected(found))
            context = context_block(given[0].pack, values, notes)
            return Enrichment(
                text=enriched(context, prompt, given, self._endings(given)),
                detection=found,
                rules=tuple(given),
                left_out=tuple(left_out),
                no_longer_valid=ended,
            )

    async def knowledge(self, caller: Caller, queries: Sequence[str], tools: Toolbox) -> Knowledge:
        """The rules for short actions, those of each intent once."""
        found: list[tuple[str, str, float]] = []
        best: dict[str, Detection] = {}
        asked: dict[str, list[str]] = {}
        with observe("intent", queries=len(queries)):
            for query in queries:
                remembered = self.recognizer.remembers(query)
                one = await self._detect(query, ())
                self._note(caller, query, one, "knowledge", remembered=remembered)
                shares = {each.intent: each.confidence for each in one.candidates}
                for name in _intents(one)[:_QUERIES_TOP]:
                    confidence = shares.get(name, one.confidence)
                    found.append((query, name, confidence))
                    asked.setdefault(name, []).append(query)
                    if name not in best or confidence > best[name].confidence:
                        best[name] = replace(one, intent=name, confidence=confidence)
        order = sorted(best, key=lambda name: -best[name].confidence)
        rules = {name: rule for name in order if (rule := self.rulebook.rule(name)) is not None}
        if not rules:
            return Knowledge(text=self._nothing_known(queries), found=tuple(found))
        shares = {name: best[name].confidence for name in rules}
        with observe("rules", intents=len(rules)):
            given, left_out, values = await self._given(caller, rules, shares, tools)
        talk = self._talks.of(caller)
        if talk.intents:  # the model may now use the tools of these, too
            self._talks.added(caller, tuple(each.intent for each in given))
        context = context_block(given[0].pack, values, _left_out(left_out))
        answered = {query for name in rules for query in asked[name]}
        return Knowledge(
            text=known_text(
                context,
                [(each, asked[each.intent]) for each in given],
                unknown=[query for query in queries if query not in answered],
                endings=self._endings(given),
            ),
            found=tuple(found),
            rules=tuple(given),
            left_out=tuple(left_out),
        )

    def _nothing_known(self, queries: Sequence[str]) -> str:
        topics = ", ".join(self._names(self.rulebook.intents)) or "none"
        said = f"There are no rules for {quoted(queries)}. Topics with rules: {topics}."
        return "\n".join([said, *self.rulebook.out_of_context()])

    def _endings(self, given: Iterable[GivenRules]) -> tuple[str, ...]:
        return self.rulebook.endings((each.pack, each.text) for each in given)

    def _names(self, intents: Iterable[str]) -> list[str]:
        return [found.name if (found := self._intent(name)) else name for name in intents]

    async def _detect(self, message: str, previous: tuple[str, ...]) -> Detection:
        await self.recognizer.learned_once()
        return await self.recognizer.detect(_looked_at(message), previous=previous)

    def _note(
        self, caller: Caller, message: str, found: Detection, asked: Asked, *, remembered: bool
    ) -> None:
        if self._notes is not None:
            self._notes.detected(caller, message, found, asked=asked, remembered=remembered)

    async def _given(
        self,
        caller: Caller,
        rules: Mapping[str, Rule],
        found: Detection | Mapping[str, float],
        tools: Toolbox,
    ) -> tuple[list[GivenRules], list[GivenRules], Mapping[str, str]]:
        """The rules that fit the budget, those that do not, and what is known of the place."""
        settings = self._settings()
        shares = _shares(found) if isinstance(found, Detection) else found
        own = settings.variables
        made: list[GivenRules] = []
        place: Mapping[str, str] | None = None
        for name, rule in rules.items():
            names = rule.template.names | (_CONTEXT if place is None else frozenset[str]())
            values = await self.rulebook.values(rule.pack, names, caller, own)
            if "TOOLS" in names and (lines := self._tool_lines(name, tools)):
                values["TOOLS"] = lines
            place = values if place is None else place
            text = rule.template.filled(values)
            made.append(
                GivenRules(
                    intent=name,
                    pack=rule.pack,
                    text=text,
                    tokens=estimate_tokens(text),
                    confidence=shares.get(name, 0.0),
                    unknown=rule.template.unknown(values),
                )
            )
        given, left_out = within(made, settings.budget_tokens)
        return given, left_out, place or {}

    def _tool_lines(self, intent: str, tools: Toolbox) -> str:
        known = self._intent(intent)
        if known is None:
            return ""
        return "\n".join(
            f"- {tools.shown(entry)}{said_of(entry.raw)}" for entry in tools.tools_of(known)
        )

    def _intent(self, name: str) -> Intent | None:
        wanted = name.casefold()
        known = self.recognizer.taught.intents
        return next((each for each in known if each.name.casefold() == wanted), None)

    # Finding tools

    async def raised(self, caller: Caller, queries: Sequence[str], tools: Toolbox) -> list[Raised]:
        """The intents that a search has, and that of the conversation, with their tools."""
        with_tools = (each for each in self.recognizer.taught.intents if each.tools or each.tool)
        if not any(tools.tools_of(intent) for intent in with_tools):
            return []  # nothing is there to be raised, whatever is asked
        asked: dict[str, float] = {}
        with observe("intent", queries=len(queries)):
            for query in queries:
                one = await self.recognizer.detect(_looked_at(query))
                for name in _intents(one):
                    asked[name] = max(asked.get(name, 0.0), _ASKED_SAYS * one.confidence)
        topic = dict.fromkeys(self._talks.of(caller).intents, _TOPIC_SAYS)
        return [
            Raised(
                intent=name,
                weight=weight,
                is_asked=name in asked,
                keys=tuple(entry.key for entry in entries),
            )
            for name, weight in {**topic, **asked}.items()
            if (intent := self._intent(name)) is not None
            if (entries := tools.tools_of(intent))
        ]

    # Recovering

    async def about_call(
        self, caller: Caller, entry: CatalogEntry, tools: Toolbox
    ) -> Advice | None:
        """What to say about a call before it runs; None: it goes with what was asked for."""
        talk = self._talks.of(caller)
        if not talk.intents or not self._settings().recovery:
            return None
        own = self._keys(talk.intents, tools)
        if not own or entry.key in own:
            return None
        owners = [
            intent.name
            for intent in self.recognizer.taught.intents
            if any(each.key == entry.key for each in tools.tools_of(intent))
        ]
        # Tools of no intent are what any work may need: that is said once and not of each.
        what = f"outside {entry.key}" if owners else "outside"
        if what in talk.told:
            return None
        self._talks.told(caller, what)
        return await self._advice(caller, talk, entry, owners, tools, reason="outside")

    async def about_arguments(
        self, caller: Caller, entry: CatalogEntry, tools: Toolbox
    ) -> Advice | None:
        """What to say about a call whose arguments do not fit; None: nothing more than that."""
        talk = self._talks.of(caller)
        what = f"arguments {entry.key}"
        if not talk.intents or not self._settings().recovery or what in talk.told:
            return None
        self._talks.told(caller, what)
        return await self._advice(caller, talk, entry, [], tools, reason="arguments")

    def _keys(self, intents: Iterable[str], tools: Toolbox) -> frozenset[str]:
        known = (self._intent(name) for name in intents)
        return frozenset(
            entry.key for intent in known if intent is not None for entry in tools.tools_of(intent)
        )

    async def _advice(
        self,
        caller: Caller,
        talk: Talk,
        entry: CatalogEntry,
        owners: Sequence[str],
        tools: Toolbox,
        *,
        reason: Literal["outside", "arguments"],
    ) -> Advice | None:
        if self._notes is not None:
            self._notes.mistaken(
                caller, talk.request, intent=talk.intents[0], called=entry.key, reason=reason
            )
        found = await self._detect(talk.request, talk.previous[:-1])
        names = _intents(found)
        shares = _shares(found)
        likely = [name for name in owners if name in names or shares.get(name, 0.0) >= _LIKELY]
        if likely:
            names = tuple(likely)
        rules = {name: rule for name in names if (rule := self.rulebook.rule(name)) is not None}
        if not rules:
            return None
        given, _, _ = await self._given(caller, rules, shares, tools)
        if likely:
            self._talks.added(caller, tuple(rules))
        is_meant = bool(likely) or not owners
        withheld = not is_meant and not only_reads(entry)
        topic = " and ".join(each.intent for each in given)
        name, others = tools.shown(entry), () if is_meant else owners
        said = [_verdict(name, topic, others, reason, withheld=withheld, is_owned=bool(owners))]
        for each in given:
            if "TOOLS" not in rules[each.intent].template.names:
                said.append(f"Tools of {each.intent}:\n{self._tool_lines(each.intent, tools)}")
            said.append(each.text)
        return Advice(
            text="\n\n".join([*said, *self._endings(given)]),
            withheld=withheld,
            tool=entry.key,
            intent=next(iter(rules)),
            reason=reason,
        )


def _looked_at(message: str) -> str:
    """The beginning and the end of a message; of most, all."""
    if len(message) <= _FIRST_CHARS + _LAST_CHARS:
        return message
    return f"{message[:_FIRST_CHARS]}\n\n{message[-_LAST_CHARS:]}"


def _verdict(
    tool: str, topic: str, others: Sequence[str], reason: str, *, withheld: bool, is_owned: bool
) -> str:
    """What is said of a call, before the rules and tools that were needed.

    Args:
        tool: Its name.
        topic: What the last request is about.
        others: Intents that the tool belongs to, where that is another topic.
        reason: What is wrong with the call.
        withheld: Whether it was not made.
        is_owned: Whether the tool belongs to any intent.
    """
    if reason == "arguments":
        return f"The last request is about {topic}; these are the rules and tools for it."
    if others:
        return (
            f"{tool} {'was not called: it ' if withheld else ''}belongs to {' and '.join(others)}, "
            f"and the last request is about {topic}. These are the rules and tools for that. If "
            "the user wants something else now, call processPrompt with the user's exact message."
            + (" If this call is right as it is, make it again." if withheld else "")
        )
    if is_owned:
        return f"{tool} belongs to {topic}; these are the rules and tools for that."
    return (
        f"{tool} is none of the tools for {topic}, which the last request is about. Go on if "
        "it is what you need; otherwise these are the rules and tools. If the user changed "
        "the topic, call processPrompt with the user's exact message."
    )


def _intents(found: Detection) -> tuple[str, ...]:
    """The intents that a message has, best first; none when nothing was found."""
    if found.intent == NONE:
        return ()
    return tuple(dict.fromkeys((found.intent, *found.intents)))


def _shares(found: Detection) -> dict[str, float]:
    """How sure each intent is."""
    shares = {each.intent: each.confidence for each in found.candidates}
    return {**shares, found.intent: found.confidence}


def _ended(intents: Sequence[str]) -> list[str]:
    if not intents:
        return []
    return [
        f"**Topic changed:** the rules of {' and '.join(intents)} that were given earlier are no "
        "longer valid; only those below are."
    ]


def _left_out(rules: Sequence[GivenRules]) -> list[str]:
    return [
        f"**Not shown:** the rules of {each.intent} ({each.tokens} tokens) are over the budget; "
        "call processPrompt with that part of the request alone."
        for each in rules
    ]


def _detected(found: Detection) -> str:
    others = [
        f"{each.intent} {each.confidence:.2f}"
        for each in found.candidates
        if each.intent not in {found.intent, NONE}
    ][:RUNNERS_UP]
    then = f"; then {', '.join(others)}" if others else ""
    asked = f" {found.question}" if found.question else ""
    return f"**Detected:** {found.intent} {found.confidence:.2f} ({found.stage}){then}.{asked}"
