"""The intent service: combines detection, rules and the tools of a caller."""

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
    Detection,
    DetectionLog,
    DetectionSource,
    DetectRequest,
    Intent,
    Recognizer,
)
from toolgate.intents.rules import (
    PASS_THROUGH,
    ConversationContext,
    ConversationState,
    IntentRule,
    RenderedRules,
    Rulebook,
    build_enriched_prompt,
    context_block,
    fit_budget,
    knowledge_text,
    quote_queries,
)
from toolgate.intents.service.answers import RUNNERS_UP, Advice, Enrichment, Knowledge
from toolgate.intents.service.tools import IntentBoost, Toolbox, is_read_only, tool_summary
from toolgate.settings import RuleSettings
from toolgate.types import Caller

# Characters from the start and from the end; both chosen.
_FIRST_CHARS: Final = 6_000
_LAST_CHARS: Final = 2_000
"""Of a long message: people paste text, and ask before or after it."""

# Chosen.
_WITHOUT_PAUSE: Final = 50
"""Number of messages processed before other tasks get a turn."""

# Largest number of intents per short action whose rules are given (chosen).
_QUERIES_TOP: Final = 3
_CONTEXT: Final = frozenset({"CONTEXT_TITLE", "NO_PROJECT", "PROJECT_NAME", "ACTIVE_SOLUTION"})

# These four probabilities are chosen.
_ASKED_SAYS: Final = 0.6
"""Probability that a tool helps if a search certainly has its intent."""

_RAISES_FROM: Final = 0.5
"""Smallest confidence in an intent of a search that boosts its tools."""

_TOPIC_SAYS: Final = 0.25
"""Probability that a tool helps if it belongs to the intent of the conversation."""

_LIKELY: Final = 0.25
"""Smallest probability of an intent to be considered for a tool that the model chose."""


class IntentService:
    """Detects intents, builds enriched prompts, and advises on calls."""

    def __init__(
        self,
        *,
        recognizer: Recognizer,
        rulebook: Rulebook,
        settings: Callable[[], RuleSettings],
        notes: DetectionLog | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.recognizer = recognizer
        """Detects what messages are about."""
        self.rulebook = rulebook
        """All available rules."""
        self._settings = settings
        self._log = notes
        self._conversations = ConversationContext(clock)

    @property
    def has_rules(self) -> bool:
        """Whether a pack with rules is loaded."""
        return bool(self.rulebook)

    def previous_intents(self, caller: Caller) -> tuple[str, ...]:
        """Return the intents of the caller's conversation so far, latest last."""
        return self._conversations.state(caller).previous

    # Detection

    async def detect(self, caller: Caller, request: DetectRequest) -> list[Detection]:
        """Detect the intents of messages."""
        if request.deciding != "keyword":
            await self.recognizer.wait_for_first_training()
        detections: list[Detection] = []
        with observe("intent", messages=len(request.messages)):
            for at, message in enumerate(request.messages):
                if at % _WITHOUT_PAUSE == _WITHOUT_PAUSE - 1:
                    await anyio.lowlevel.checkpoint()
                by_meaning = request.deciding != "keyword"
                remembered = by_meaning and self.recognizer.remembers(message)
                detection = await self.recognizer.detect(
                    message,
                    today=request.today,
                    zone=request.zone,
                    languages=request.languages,
                    previous=request.previous or self.previous_intents(caller),
                    deciding=request.deciding,
                )
                self._record(caller, message, detection, "detect", remembered=remembered)
                detections.append(detection)
        return detections

    # Enrichment

    async def enrich(
        self, caller: Caller, prompt: str, tools: Toolbox, *, training_wait_s: float | None = None
    ) -> Enrichment:
        """Return the prompt with the rules for it, or `PASS_THROUGH`.

        Args:
            caller: The caller, whose conversation counts.
            prompt: The message.
            tools: Tools that the caller may use.
            training_wait_s: Seconds of the first training after a start for which it is waited
                for; until it ends, only keywords count. None: the usual time.
        """
        before = self._conversations.state(caller)
        # Checked first, since detecting caches the prediction.
        remembered = self.recognizer.remembers(_shortened(prompt))
        with observe("intent", chars=len(prompt)):
            detection = await self._detect(prompt, before.previous, training_wait_s)
        self._record(caller, prompt, detection, "enrich", remembered=remembered)
        named = {name: self.rulebook.rule(name) for name in _intents(detection)}
        with_rules = {name: rule for name, rule in named.items() if rule is not None}
        intent = None if detection.intent == NONE else detection.intent
        hashes = {name: hash(rule.template.text) for name, rule in with_rules.items()}
        self._conversations.record_request(
            caller, prompt, intent=intent, intents=tuple(with_rules), rules=hashes.items()
        )
        if not with_rules:
            return Enrichment(text=PASS_THROUGH, detection=detection)
        with observe("rules", intents=len(with_rules)):
            rendered, left_out, values = await self._render_rules(
                caller, with_rules, detection, tools
            )
            # Earlier rules that this request does not need: the model is told to drop them.
            ended = tuple(name for name in before.given_intents if name not in with_rules)
            # A client known only by its name may have started a new conversation without them.
            given = frozenset[tuple[str, int]]() if caller.is_guess else before.given_rules
            repeated = [rule for rule in rendered if (rule.intent, hashes[rule.intent]) in given]
            asks = [*_unclear(detection), *_not_understood(detection)]
            notes = [*_ended(ended), *asks, *_left_out(left_out), *_given_before(repeated)]
            if self._settings().show_detection:
                notes.append(_detected(detection))
            context = context_block(rendered[0].pack, values, notes)
            fresh = [rule for rule in rendered if rule not in repeated]
            return Enrichment(
                text=build_enriched_prompt(context, prompt, fresh, self._endings(fresh)),
                detection=detection,
                notes=tuple(asks),
                given_before=tuple(rule.intent for rule in repeated),
                rules=tuple(rendered),
                left_out=tuple(left_out),
                no_longer_valid=ended,
            )

    async def knowledge(self, caller: Caller, queries: Sequence[str], tools: Toolbox) -> Knowledge:
        """Return the rules for short actions, those of each intent once."""
        query_intents: list[tuple[str, str, float]] = []
        best: dict[str, Detection] = {}
        asks: list[str] = []
        queries_of: dict[str, list[str]] = {}
        with observe("intent", queries=len(queries)):
            for query in queries:
                remembered = self.recognizer.remembers(query)
                detection = await self._detect(query, ())
                self._record(caller, query, detection, "knowledge", remembered=remembered)
                asks += [*_unclear(detection), *_not_understood(detection)]
                shares = {
                    candidate.intent: candidate.confidence for candidate in detection.candidates
                }
                for name in _intents(detection)[:_QUERIES_TOP]:
                    confidence = shares.get(name, detection.confidence)
                    query_intents.append((query, name, confidence))
                    queries_of.setdefault(name, []).append(query)
                    if name not in best or confidence > best[name].confidence:
                        best[name] = replace(detection, intent=name, confidence=confidence)
        order = sorted(best, key=lambda name: -best[name].confidence)
        rules = {name: rule for name in order if (rule := self.rulebook.rule(name)) is not None}
        if not rules:
            return Knowledge(text=self._nothing_known(queries), query_intents=tuple(query_intents))
        shares = {name: best[name].confidence for name in rules}
        with observe("rules", intents=len(rules)):
            rendered, left_out, values = await self._render_rules(caller, rules, shares, tools)
        conversation = self._conversations.state(caller)
        if conversation.intents:  # the model may now use the tools of these, too
            self._conversations.add_intents(caller, tuple(rule.intent for rule in rendered))
        notes = [*dict.fromkeys(asks), *_left_out(left_out)]
        context = context_block(rendered[0].pack, values, notes)
        answered = {query for name in rules for query in queries_of[name]}
        return Knowledge(
            text=knowledge_text(
                context,
                [(rule, queries_of[rule.intent]) for rule in rendered],
                unknown=[query for query in queries if query not in answered],
                endings=self._endings(rendered),
            ),
            query_intents=tuple(query_intents),
            rules=tuple(rendered),
            left_out=tuple(left_out),
        )

    def _nothing_known(self, queries: Sequence[str]) -> str:
        topics = ", ".join(self._names(self.rulebook.intents)) or "none"
        text = f"There are no rules for {quote_queries(queries)}. Topics with rules: {topics}."
        return "\n".join([text, *self.rulebook.out_of_context()])

    def _endings(self, rules: Iterable[RenderedRules]) -> tuple[str, ...]:
        return self.rulebook.endings((rule.pack, rule.text) for rule in rules)

    def _names(self, intents: Iterable[str]) -> list[str]:
        return [intent.name if (intent := self._intent(name)) else name for name in intents]

    async def _detect(
        self, message: str, previous: tuple[str, ...], training_wait_s: float | None = None
    ) -> Detection:
        if training_wait_s is None:
            await self.recognizer.wait_for_first_training()
        else:
            await self.recognizer.wait_for_first_training(training_wait_s)
        return await self.recognizer.detect(_shortened(message), previous=previous)

    def _record(
        self,
        caller: Caller,
        message: str,
        detection: Detection,
        asked: DetectionSource,
        *,
        remembered: bool,
    ) -> None:
        if self._log is not None:
            self._log.record_detection(
                caller, message, detection, asked=asked, remembered=remembered
            )

    async def _render_rules(
        self,
        caller: Caller,
        rules: Mapping[str, IntentRule],
        detection: Detection | Mapping[str, float],
        tools: Toolbox,
    ) -> tuple[list[RenderedRules], list[RenderedRules], Mapping[str, str]]:
        """Return the rules that fit the budget, those that do not, and the context values."""
        settings = self._settings()
        shares = _shares(detection) if isinstance(detection, Detection) else detection
        overrides = settings.variables
        rendered: list[RenderedRules] = []
        context: Mapping[str, str] | None = None
        for name, rule in rules.items():
            # The context block takes its values from the pack of the best rules.
            names = rule.template.names | (_CONTEXT if context is None else frozenset[str]())
            values = await self.rulebook.variable_values(rule.pack, names, caller, overrides)
            if "TOOLS" in names and (lines := self._tool_lines(name, tools)):
                values["TOOLS"] = lines
            context = values if context is None else context
            text = rule.template.filled(values)
            rendered.append(
                RenderedRules(
                    intent=name,
                    pack=rule.pack,
                    text=text,
                    tokens=estimate_tokens(text),
                    confidence=shares.get(name, 0.0),
                    unknown=rule.template.unknown(values),
                )
            )
        fitting, left_out = fit_budget(rendered, settings.budget_tokens)
        return fitting, left_out, context or {}

    def _tool_lines(self, intent: str, tools: Toolbox) -> str:
        match = self._intent(intent)
        if match is None:
            return ""
        return "\n".join(
            f"- {tools.display_name(entry)}{tool_summary(entry.raw)}"
            for entry in tools.tools_of(match)
        )

    def _intent(self, name: str) -> Intent | None:
        key = name.casefold()
        intents = self.recognizer.intent_set.intents
        return next((intent for intent in intents if intent.name.casefold() == key), None)

    # Tool search

    async def search_boosts(
        self, caller: Caller, queries: Sequence[str], tools: Toolbox
    ) -> list[IntentBoost]:
        """Return the intents of a search and of the conversation, with their tools."""
        with_tools = (
            intent for intent in self.recognizer.intent_set.intents if intent.tools or intent.tool
        )
        if not any(tools.tools_of(intent) for intent in with_tools):
            return []  # nothing is there to be raised, whatever is asked
        asked: dict[str, float] = {}
        asking: dict[str, list[str]] = {}
        with observe("intent", queries=len(queries)):
            for query in queries:
                detection = await self.recognizer.detect(_shortened(query))
                if detection.confidence < _RAISES_FROM:
                    continue
                for name in _intents(detection):
                    asked[name] = max(asked.get(name, 0.0), _ASKED_SAYS * detection.confidence)
                    asking.setdefault(name, []).append(query)
        topic = dict.fromkeys(self._conversations.state(caller).intents, _TOPIC_SAYS)
        return [
            IntentBoost(
                intent=name,
                weight=weight,
                from_query=name in asked,
                keys=tuple(entry.key for entry in entries),
                queries=tuple(asking.get(name, ())),
            )
            for name, weight in {**topic, **asked}.items()
            if (intent := self._intent(name)) is not None
            if (entries := tools.tools_of(intent))
        ]

    # Recovery

    async def call_advice(
        self, caller: Caller, entry: CatalogEntry, tools: Toolbox
    ) -> Advice | None:
        """Return advice about a call before it runs; None if the call matches the request."""
        conversation = self._conversations.state(caller)
        if not conversation.intents or not self._settings().recovery:
            return None
        topic_keys = self._keys(conversation.intents, tools)
        if not topic_keys or entry.key in topic_keys:
            return None
        owners = [
            intent.name
            for intent in self.recognizer.intent_set.intents
            if any(tool.key == entry.key for tool in tools.tools_of(intent))
        ]
        # Tools without an intent may be needed for any work: that is said once, not for each.
        advice = f"outside {entry.key}" if owners else "outside"
        if advice in conversation.given_advice:
            return None
        # Recorded before anything is awaited: a repeated call must not be advised on twice.
        self._conversations.record_advice(caller, advice)
        return await self._advice(caller, conversation, entry, owners, tools, reason="outside")

    async def argument_advice(
        self, caller: Caller, entry: CatalogEntry, tools: Toolbox
    ) -> Advice | None:
        """Return advice about a call with invalid arguments; None if there is nothing to add."""
        conversation = self._conversations.state(caller)
        advice = f"arguments {entry.key}"
        if (
            not conversation.intents
            or not self._settings().recovery
            or advice in conversation.given_advice
        ):
            return None
        self._conversations.record_advice(caller, advice)
        return await self._advice(caller, conversation, entry, [], tools, reason="arguments")

    def _keys(self, intents: Iterable[str], tools: Toolbox) -> frozenset[str]:
        known_intents = (self._intent(name) for name in intents)
        return frozenset(
            entry.key
            for intent in known_intents
            if intent is not None
            for entry in tools.tools_of(intent)
        )

    async def _advice(
        self,
        caller: Caller,
        conversation: ConversationState,
        entry: CatalogEntry,
        owners: Sequence[str],
        tools: Toolbox,
        *,
        reason: Literal["outside", "arguments"],
    ) -> Advice | None:
        if self._log is not None:
            self._log.record_mismatch(
                caller,
                conversation.request,
                intent=conversation.intents[0],
                called=entry.key,
                reason=reason,
            )
        # Detected as it was then, without the request itself among the previous intents.
        detection = await self._detect(conversation.request, conversation.previous[:-1])
        names = _intents(detection)
        shares = _shares(detection)
        likely = [name for name in owners if name in names or shares.get(name, 0.0) >= _LIKELY]
        if likely:
            names = tuple(likely)
        rules = {name: rule for name in names if (rule := self.rulebook.rule(name)) is not None}
        if not rules:
            return None
        rendered, _, _ = await self._render_rules(caller, rules, shares, tools)
        if likely:
            self._conversations.add_intents(caller, tuple(rules))
        is_meant = bool(likely) or not owners
        # A read-only call does no harm, so it may run.
        withheld = not is_meant and not is_read_only(entry)
        topic = " and ".join(rule.intent for rule in rendered)
        name, other_topics = tools.display_name(entry), () if is_meant else owners
        parts = [
            _verdict(name, topic, other_topics, reason, withheld=withheld, is_owned=bool(owners))
        ]
        for block in rendered:
            if "TOOLS" not in rules[block.intent].template.names:
                parts.append(f"Tools of {block.intent}:\n{self._tool_lines(block.intent, tools)}")
            parts.append(block.text)
        return Advice(
            text="\n\n".join([*parts, *self._endings(rendered)]),
            withheld=withheld,
            tool=entry.key,
            intent=next(iter(rules)),
            reason=reason,
        )


def _shortened(message: str) -> str:
    """Return the start and the end of a long message; a shorter one unchanged."""
    if len(message) <= _FIRST_CHARS + _LAST_CHARS:
        return message
    return f"{message[:_FIRST_CHARS]}\n\n{message[-_LAST_CHARS:]}"


def _verdict(
    tool: str,
    topic: str,
    owners: Sequence[str],
    reason: str,
    *,
    withheld: bool,
    is_owned: bool,
) -> str:
    """Return the text about a call that comes before the rules and tools that were needed.

    Args:
        tool: Name of the tool.
        topic: What the last request is about.
        owners: Intents that the tool belongs to, if that is another topic.
        reason: What is wrong with the call.
        withheld: Whether the call was withheld.
        is_owned: Whether the tool belongs to any intent.
    """
    if reason == "arguments":
        return f"The last request is about {topic}; these are the rules and tools for it."
    if owners:
        return (
            f"{tool} {'was not called: it ' if withheld else ''}belongs to {' and '.join(owners)}, "
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


def _intents(detection: Detection) -> tuple[str, ...]:
    """Return the intents of a message, best first; empty if nothing was found."""
    if detection.intent == NONE:
        return ()
    return tuple(dict.fromkeys((detection.intent, *detection.intents)))


def _shares(detection: Detection) -> dict[str, float]:
    """Return the confidence of each intent."""
    shares = {candidate.intent: candidate.confidence for candidate in detection.candidates}
    return {**shares, detection.intent: detection.confidence}


def _ended(intents: Sequence[str]) -> list[str]:
    if not intents:
        return []
    return [
        f"**Topic changed:** the rules of {' and '.join(intents)} that were given earlier are no "
        "longer valid; only those below are."
    ]


def _unclear(detection: Detection) -> list[str]:
    """Return what the model has to ask the user if two intents are too close to tell apart."""
    return [f"**Unclear:** ask the user: {detection.question}"] if detection.question else []


def _not_understood(detection: Detection) -> list[str]:
    """Return a note about an unread period: ignoring it silently would make the answer too wide."""
    if not detection.unread:
        return []
    said = " and ".join(f'"{" ".join(text.split())}"' for text in detection.unread)
    return [
        f"**Not understood:** {said} was not read as a date; find out which day is meant, or ask "
        "the user, before you call a tool with a period."
    ]


def _given_before(rules: Sequence[RenderedRules]) -> list[str]:
    if not rules:
        return []
    names = " and ".join(rule.intent for rule in rules)
    return [
        f"**Rules:** those of {names} that were given earlier in this conversation still apply; "
        "getKnowledge gives them again."
    ]


def _left_out(rules: Sequence[RenderedRules]) -> list[str]:
    return [
        f"**Not shown:** the rules of {rule.intent} ({rule.tokens} tokens) are over the budget; "
        "call processPrompt with that part of the request alone."
        for rule in rules
    ]


def _detected(detection: Detection) -> str:
    runners_up = [
        f"{candidate.intent} {candidate.confidence:.2f}"
        for candidate in detection.candidates
        if candidate.intent not in {detection.intent, NONE}
    ][:RUNNERS_UP]
    then = f"; then {', '.join(runners_up)}" if runners_up else ""
    best = f"{detection.intent} {detection.confidence:.2f} ({detection.stage})"
    return f"**Detected:** {best}{then}."
