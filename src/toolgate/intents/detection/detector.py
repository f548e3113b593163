"""Detects intents by keywords, and reads the arguments of their tools."""

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

__all__ = ["IntentDetector", "detect", "supported_intents", "tool_for"]


class IntentDetector:
    """Tells what a message asks for, by keywords, and reads the arguments.

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
    ) -> None:
        """Make a detector; what it knows never changes.

        Args:
            intents: What can be asked for.
            schema_of: Gives the input schema of a tool, for intents that declare no arguments. It
                is asked again for every message, since schemas change.
            zone: Time zone of the days in messages; an IANA name.
            languages: Languages whose keywords count; none: all.
            clock: The current time, where `detect` gets no day.

        Raises:
            ValueError: A phrase of an intent does not hold.
        """
        self.keywords = KeywordStage(intents)
        self.zone = zone
        self.languages = tuple(languages)
        self._clock = clock
        self._intents = {intent.name.casefold(): intent for intent in self.keywords.intents}
        self._schema_of = schema_of
        self._readers: dict[str, tuple[object, ArgumentReader]] = {}

    @property
    def intents(self) -> tuple[Intent, ...]:
        """All intents, in their order."""
        return self.keywords.intents

    def supported_intents(self) -> tuple[str, ...]:
        """The names of all intents, in their order."""
        return tuple(intent.name for intent in self.intents)

    def tool_for(self, intent: str) -> str | None:
        """The tool of an intent; None where there is no such intent, or it has no tool."""
        match = self._intents.get(intent.casefold())
        return match.tool or None if match else None

    def has_intent(self, intent: str) -> bool:
        """Whether there is an intent of this name."""
        return intent.casefold() in self._intents

    def request(
        self,
        message: str,
        *,
        today: date | None = None,
        languages: Iterable[str] | None = None,
        previous: Iterable[str] = (),
    ) -> StageRequest:
        """A message with everything that stages have to know."""
        if today is None:
            instant = self._clock()
            # A moment and not only a day: `2 hours ago` needs the hour.
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
        """What a message asks for, by keywords alone.

        Args:
            message: As the person wrote it; any length.
            today: The day that "yesterday" counts from; without it, today.
            languages: Only keywords of these languages; None: those of the detector.
        """
        request = self.request(message, today=today, languages=languages)
        return self.with_arguments(self.keywords.match(request), request)

    def with_arguments(self, detection: Detection, request: StageRequest) -> Detection:
        """A stage's answer with the arguments of its intent, read from the message."""
        intent = self._intents.get(detection.intent.casefold())
        if intent is None or detection.intent == NONE:
            return detection
        text = detection.asked_text or request.text
        tool = tool_for_message(intent, text)
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
        """Reads the arguments of a tool of an intent."""
        schema = None
        # What a pack declares is better than what a schema suggests. Of several tools, each takes
        # only what its schema has.
        is_other = tool != intent.tool
        if tool and (not intent.arguments or is_other) and self._schema_of is not None:
            schema = self._schema_of(tool)
        key = f"{intent.name}\n{tool}"
        cached = self._readers.get(key)
        # Schemas are replaced and never changed in place, so identity shows a new one.
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
        reader = ArgumentReader(specs, intent.names)
        self._readers[key] = schema, reader
        return reader


@lru_cache(maxsize=1)
def _shipped() -> IntentDetector:
    return IntentDetector(load_intents(builtin_pack_folder("schema")))


def detect(
    message: str, *, today: date | None = None, languages: Iterable[str] | None = None
) -> Detection:
    """What a message asks for, by the keywords of the pack `schema`; see `Detector.detect`."""
    return _shipped().detect(message, today=today, languages=languages)


def supported_intents() -> tuple[str, ...]:
    """The names of the intents of the pack `schema`."""
    return _shipped().supported_intents()


def tool_for(intent: str) -> str | None:
    """The tool of an intent of the pack `schema`; None where there is no such intent."""
    return _shipped().tool_for(intent)
