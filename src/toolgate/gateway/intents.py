"""Intents for a caller: detection, rules, and the tools of an intent that the caller may use."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from time import perf_counter

from toolgate.catalog import (
    CatalogEntry,
    Snapshot,
)
from toolgate.gateway.listing import ListingPolicy
from toolgate.gateway.parts import GatewayContext
from toolgate.intents import Detection, DetectRequest, Intent, IntentSet
from toolgate.intents.service import (
    Advice,
    Enrichment,
    IntentBoost,
    IntentService,
    Knowledge,
    ToolNames,
)
from toolgate.types import (
    Caller,
    Json,
)

_QUERY_CHARS = 2_000
"""Characters of a message that an audit record stores (chosen)."""

_LOGGED_INTENTS = 20
"""Intents that an audit record names (chosen)."""


class IntentRequests:
    """Detects intents of messages, and adds the rules and tools for them."""

    def __init__(
        self, context: GatewayContext, *, listing: ListingPolicy, intent_service: IntentService
    ) -> None:
        self._settings = context.settings
        self._catalog = context.catalog
        self._access = context.access
        self._listing = listing
        self._guide = intent_service
        self._receipts = context.receipts
        self._tool_names = ToolNames()

    async def detect(self, caller: Caller, request: DetectRequest) -> list[Detection]:
        """Detect intents of messages, without suggesting tools that the caller may not use."""
        began = perf_counter()
        detections = await self._guide.detect(caller, request)
        for at, detection in enumerate(detections):
            tool = detection.tool
            if tool is not None and self._is_denied(caller, detection.intent, tool):
                detections[at] = replace(detection, tool=None, arguments={}, read_arguments=())
        texts = "\n".join(request.messages) if self._settings.current.audit.keep_queries else None
        counts = Counter(detection.intent for detection in detections)
        self._receipts.simple(
            caller,
            "detect",
            began=began,
            query=texts[:_QUERY_CHARS] if texts is not None else None,
            detail={
                "messages": len(detections),
                "intents": dict(counts.most_common(_LOGGED_INTENTS)),
            },
        )
        await self._receipts.wait_written(caller)
        return detections

    def _is_denied(self, caller: Caller, intent: str, tool: str) -> bool:
        """Whether an intent's tool exists and the caller may not use it."""
        snapshot, taught = self._catalog.snapshot, self._guide.recognizer.intent_set
        definition = _intent_named(taught.intents, intent)
        if definition is None:
            return False
        entries = list(self._tool_names.entries(snapshot, taught, definition, tool))
        return bool(entries) and not any(
            self._access.decide(caller, "call", entry.key).allowed for entry in entries
        )

    async def agrees(self, message: str, intent: str) -> bool:
        """Whether example prompts detect only this intent; true if it has no prompts."""
        recognizer = self._guide.recognizer
        entry = next(
            (known for known in recognizer.intent_set.intents if known.name == intent), None
        )
        if entry is None or not any(entry.prompts.values()):
            return True
        detection = await recognizer.detect(message, deciding="semantic")
        return detection.intents == (intent,) and not detection.question

    async def expect_messages(self) -> None:
        """Load what messages need, and train on example prompts before the first message."""
        await self._guide.recognizer.expect_messages()

    async def rehearse(self) -> None:
        """Detect any message once trained, since the first detection takes longer than others."""
        await self._guide.recognizer.rehearse()

    async def enrich(
        self, caller: Caller, prompt: str, *, training_wait_s: float | None = None
    ) -> Enrichment:
        """Add rules and tools to a user message, or return `PASS_THROUGH`.

        Args:
            caller: The caller.
            prompt: The message.
            training_wait_s: Seconds of the first training after a start for which it is waited
                for; until it ends, only keywords count. None: the usual time.
        """
        began = perf_counter()
        enrichment = await self._guide.enrich(
            caller, prompt, self.for_caller(caller), training_wait_s=training_wait_s
        )
        self._receipts.simple(
            caller,
            "enrich",
            began=began,
            query=prompt[:_QUERY_CHARS] if self._settings.current.audit.keep_queries else None,
            detail={
                "intent": enrichment.detection.intent,
                "confidence": round(enrichment.detection.confidence, 3),
                "stage": enrichment.detection.stage,
                "rules": [[rule.intent, rule.tokens] for rule in enrichment.rules],
                "tokens": enrichment.tokens,
            },
        )
        await self._receipts.wait_written(caller)
        return enrichment

    async def knowledge(self, caller: Caller, queries: Sequence[str]) -> Knowledge:
        """The rules for short actions, such as "create relation"."""
        began = perf_counter()
        knowledge = await self._guide.knowledge(caller, queries, self.for_caller(caller))
        self._receipts.simple(
            caller,
            "knowledge",
            began=began,
            query="\n".join(queries)[:_QUERY_CHARS]
            if self._settings.current.audit.keep_queries
            else None,
            detail={
                "rules": [[rule.intent, rule.tokens] for rule in knowledge.rules],
                "tokens": knowledge.tokens,
            },
        )
        await self._receipts.wait_written(caller)
        return knowledge

    def tools_of(self, caller: Caller, intent: Intent) -> list[CatalogEntry]:
        """The tools of an intent that the caller may use, in the intent's order.

        An intent names a tool by its key or its bare name, which is looked up first on the
        server of the intent's own pack.
        """
        return self.tools_in(caller, intent, *self.current())

    def current(self) -> tuple[Snapshot, IntentSet]:
        """The current catalog and intents, which resolve the names of tools in intents."""
        return self._catalog.snapshot, self._guide.recognizer.intent_set

    def tools_in(
        self, caller: Caller, intent: Intent, snapshot: Snapshot, intent_set: IntentSet
    ) -> list[CatalogEntry]:
        """The tools of an intent in a given state of catalog and intents; see `tools_of`."""
        entries: dict[str, CatalogEntry] = {}
        for name in intent.tools or ((intent.tool,) if intent.tool else ()):
            for entry in self._tool_names.entries(snapshot, intent_set, intent, name):
                if self._access.decide(caller, "call", entry.key).allowed:
                    entries[entry.key] = entry
                    break
        return list(entries.values())

    def suggested(self, caller: Caller, detection: Detection) -> CatalogEntry | None:
        """The tool that a detection suggests, if the caller may use it."""
        snapshot, taught = self._catalog.snapshot, self._guide.recognizer.intent_set
        definition = _intent_named(taught.intents, detection.intent)
        if definition is None or not detection.tool:
            return None
        for entry in self._tool_names.entries(snapshot, taught, definition, detection.tool):
            if self._access.decide(caller, "call", entry.key).allowed:
                return entry
        return None

    async def search_boosts(self, caller: Caller, queries: Sequence[str]) -> Sequence[IntentBoost]:
        """The tools that the intents of a search rank higher."""
        return await self._guide.search_boosts(caller, queries, self.for_caller(caller))

    async def advice_on_call(self, caller: Caller, entry: CatalogEntry) -> Advice | None:
        """Advice on a call that does not match the last request; None if there is none."""
        advice = await self._guide.call_advice(caller, entry, self.for_caller(caller))
        return None if advice is None else self._recorded(caller, advice)

    async def advice_on_arguments(self, caller: Caller, entry: CatalogEntry) -> Advice | None:
        """Advice on invalid arguments; None if there is nothing to say."""
        advice = await self._guide.argument_advice(caller, entry, self.for_caller(caller))
        return None if advice is None else self._recorded(caller, advice)

    def for_caller(self, caller: Caller) -> "CallerTools":
        """The tools of a caller, for intent detection."""
        return CallerTools(self, self._listing, caller)

    def _recorded(self, caller: Caller, advice: Advice) -> Advice:
        detail: Json = {
            "tool": advice.tool,
            "intent": advice.intent,
            "reason": advice.reason,
            "withheld": advice.withheld,
        }
        self._receipts.simple(caller, "recover", began=perf_counter(), detail=detail)
        return advice


class CallerTools:
    """A caller's tools by intent, in one state of the catalog."""

    def __init__(self, intents: IntentRequests, listing: ListingPolicy, caller: Caller) -> None:
        self._intents = intents
        self._listing = listing
        self._caller = caller

    def tools_of(self, intent: Intent) -> list[CatalogEntry]:
        """The tools of an intent, in the intent's order."""
        return self._intents.tools_in(self._caller, intent, *self._state)

    @cached_property
    def _state(self) -> tuple[Snapshot, IntentSet]:
        return self._intents.current()

    def display_name(self, entry: CatalogEntry) -> str:
        """A tool's exposed name if the real tools are listed, else its key."""
        return self._listing.callable_name(self._caller, entry)


def _intent_named(intents: Sequence[Intent], name: str) -> Intent | None:
    return next((intent for intent in intents if intent.name == name), None)
