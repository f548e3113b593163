"""Detect intents by keywords, and read the arguments of their tools."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from toolgate.intents.arguments.reader import ArgumentReader
from toolgate.intents.arguments.schemas import specs_of_schema
from toolgate.intents.base import NONE, Detection, Intent, StageRequest
from toolgate.intents.detection.intent_files import builtin_pack_folder, load_intents
from toolgate.intents.detection.keyword import KeywordStage
from toolgate.intents.detection.tool_choice import only_looks, tool_for_message
from toolgate.types import json_object


class IntentDetector:
    """Detects the intent of a message by keywords, and reads the arguments.

    ```python
    detector = IntentDetector(load_intents(Path("packs/sales")))
    detector.detect("show the last 5 refunds", today=date(2025, 10, 21))
    ```
    """

    def __init__(
        self,
        intents: Iterable[Intent],
        *,
        schema_of: Callable[[str], Mapping[str, Any] | None] | None = None,
        zone: str = "UTC",
        languages: Iterable[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        translate: Callable[[str], str] | None = None,
    ) -> None:
        """Create a detector, which is immutable.

        Args:
            intents: The intents to detect.
            schema_of: Returns the input schema of a tool, for intents that declare no arguments.
                It is called for every message, since schemas change.
            zone: Time zone of the days in messages; an IANA name.
            languages: Languages whose keywords count; none: all.
            clock: The current time, used if `detect` gets no day.
            translate: Returns the words of a message in English; empty if it is English. None: only
                English words for the objects of tools and for numbers are known.

        Raises:
            ValueError: A phrase of an intent is invalid.
        """
        self.keywords = KeywordStage(intents)
        self.zone = zone
        self.languages = tuple(languages)
        self._clock = clock
        self._intents = {intent.name.casefold(): intent for intent in self.keywords.intents}
        self._schema_of = schema_of
        self._translate = translate
        self._readers: dict[str, tuple[object, ArgumentReader]] = {}

    @property
    def intents(self) -> tuple[Intent, ...]:
        """All intents in order."""
        return self.keywords.intents

    def supported_intents(self) -> tuple[str, ...]:
        """The names of all intents in order."""
        return tuple(intent.name for intent in self.intents)

    def tool_for(self, intent: str) -> str | None:
        """Return the tool of an intent; None if the intent does not exist or has no tool."""
        match = self._intents.get(intent.casefold())
        return match.tool or None if match else None

    def has_intent(self, intent: str) -> bool:
        """Whether an intent of this name exists."""
        return intent.casefold() in self._intents

    def request(
        self,
        message: str,
        *,
        today: date | None = None,
        languages: Iterable[str] | None = None,
        previous: Iterable[str] = (),
    ) -> StageRequest:
        """Return a message with everything that stages need."""
        if today is None:
            instant = self._clock()
            # A moment, not only a day: `2 hours ago` needs the hour.
            today = instant if self.zone == "UTC" else instant.astimezone(ZoneInfo(self.zone))
        return StageRequest(
            text=message,
            today=today,
            zone=self.zone,
            languages=self.languages if languages is None else tuple(languages),
            previous=tuple(previous),
        )

    def detect(
        self,
        message: str,
        *,
        today: date | None = None,
        languages: Iterable[str] | None = None,
    ) -> Detection:
        """Detect the intent of a message by keywords alone.

        Args:
            message: As the person wrote it; any length.
            today: The day that "yesterday" is relative to; None: today.
            languages: Only keywords of these languages; None: those of the detector.
        """
        request = self.request(message, today=today, languages=languages)
        return self.with_arguments(self.keywords.match(request), request)

    def with_arguments(self, detection: Detection, request: StageRequest) -> Detection:
        """Add the arguments of the detected intent, read from the message."""
        intent = self._intents.get(detection.intent.casefold())
        if intent is None or detection.intent == NONE:
            return detection
        text = detection.asked_text or request.text
        translate = self._translate if len(intent.tools) > 1 else None
        english = translate(text) if translate is not None else ""
        tool = tool_for_message(intent, text, english)
        reader = self._reader(intent, tool or intent.tool)
        values = reader.read(text, today=request.today, zone=request.zone)
        if only_looks(text):
            changing = {spec.name for spec in reader.specs if spec.writes}
            values = tuple(argument for argument in values if argument.name not in changing)
        arguments = {argument.name: argument.value for argument in values}
        return replace(
            detection,
            tool=tool,
            arguments=arguments,
            read_arguments=values,
            unread=reader.unread(text, today=request.today, zone=request.zone),
        )

    def _reader(self, intent: Intent, tool: str) -> ArgumentReader:
        """Return the reader for the arguments of a tool of an intent."""
        schema = None
        # What a pack declares is better than what a schema suggests. If there are several tools,
        # each takes only what its schema has.
        is_other = tool != intent.tool
        if tool and (not intent.arguments or is_other) and self._schema_of is not None:
            schema = self._schema_of(tool)
        key = f"{intent.name}\n{tool}"
        cached = self._readers.get(key)
        # Schemas are replaced and never modified in place, so a new identity means a new schema.
        if cached is not None and cached[0] is schema:
            return cached[1]
        specs = intent.arguments
        if schema is not None:
            derived = {spec.name: spec for spec in specs_of_schema(schema)}
            declared = {spec.name: spec for spec in intent.arguments}
            specs = tuple(
                declared.get(name) or derived[name]
                for name in json_object(schema.get("properties"))
                if name in declared or name in derived
            )
        specs = tuple(spec for spec in specs if not spec.tools or tool in spec.tools)
        reader = ArgumentReader(specs, intent.names, translate=self._translate)
        self._readers[key] = schema, reader
        return reader


@lru_cache(maxsize=1)
def _shipped() -> IntentDetector:
    return IntentDetector(load_intents(builtin_pack_folder("schema")))


def detect(
    message: str, *, today: date | None = None, languages: Iterable[str] | None = None
) -> Detection:
    """Detect an intent by the keywords of the pack `schema`; see `IntentDetector.detect`."""
    return _shipped().detect(message, today=today, languages=languages)


def supported_intents() -> tuple[str, ...]:
    """Return the names of the intents of the pack `schema`."""
    return _shipped().supported_intents()


def tool_for(intent: str) -> str | None:
    """Return the tool of an intent of the pack `schema`; None if either does not exist."""
    return _shipped().tool_for(intent)
