"""REST route `POST detect`: intent detection for messages."""

from datetime import date
from typing import cast
from zoneinfo import ZoneInfo

from toolgate.errors import ArgumentError
from toolgate.intents import Argument, Detection, DetectRequest
from toolgate.types import Json

__all__ = ["detection_json", "read_detect"]

_MOST = 10_000
_STAGES = ("keyword", "semantic", "cascade")
_ONE = ("message", "text")
_MANY = ("messages", "texts")
_OTHERS = ("today", "zone", "languages", "previous", "stage")


def read_detect(body: Json) -> tuple[DetectRequest, bool]:
    """The request of a body, and whether it is about one message and not about a list.

    Raises:
        ArgumentError: It does not fit; the message says what does.
    """
    fields = {name: value for name, value in body.items() if value is not None}
    named = [name for name in (*_ONE, *_MANY) if name in fields]
    unknown = sorted(fields.keys() - {*_ONE, *_MANY, *_OTHERS})
    if unknown:
        allowed = ", ".join(("message", "messages", *_OTHERS))
        raise ArgumentError(f"Unknown member {unknown[0]!r:.60}.", allowed=f"Allowed: {allowed}.")
    if len(named) != 1:
        raise ArgumentError(
            "There is no message." if not named else f"{named[0]!r} and {named[1]!r} are too much.",
            allowed='Give "message" (a string) or "messages" (a list of strings).',
        )
    name = named[0]
    messages = _texts(name, [fields[name]] if name in _ONE else fields[name])
    if len(messages) > _MOST:
        raise ArgumentError(
            f"Member {name!r} has {len(messages):,} messages.", allowed=f"Allowed: {_MOST:,}."
        )
    languages = fields.get("languages", [])
    if isinstance(languages, str):
        languages = [item.strip() for item in languages.split(",") if item.strip()]
    previous = fields.get("previous", [])
    stage = fields.get("stage", "cascade")
    if stage not in _STAGES:
        raise ArgumentError(
            f"Member 'stage' is {stage!r:.60}.", allowed=f"Allowed: {', '.join(_STAGES)}."
        )
    request = DetectRequest(
        messages=messages,
        today=_day(fields.get("today")),
        zone=_zone(fields.get("zone", "UTC")),
        languages=_texts("languages", languages),
        previous=_texts("previous", [previous] if isinstance(previous, str) else previous),
        deciding=stage,
    )
    return request, name in _ONE


def detection_json(detection: Detection) -> Json:
    """What was found, as `toolgate detect --json` prints it too."""
    return {
        "use_mcp": detection.use_mcp,
        "intent": detection.intent,
        "confidence": detection.confidence,
        "tool": detection.tool,
        "arguments": dict(detection.arguments),
        "matched": list(detection.matched),
        "stage": detection.stage,
        "reason": detection.reason,
        "found": [_argument(argument) for argument in detection.read_arguments],
        "intents": list(detection.intents),
        "candidates": [
            {"intent": candidate.intent, "confidence": candidate.confidence, "why": candidate.why}
            for candidate in detection.candidates
        ],
        "question": detection.question or None,
    }


def _argument(argument: Argument) -> Json:
    return {
        "name": argument.name,
        "value": argument.value,
        "spans": [{"start": span.start, "end": span.end} for span in argument.spans],
        "text": argument.text,
        "kind": argument.kind,
    }


def _texts(name: str, value: object) -> tuple[str, ...]:
    plain = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(item, str) for item in plain):
        raise ArgumentError(
            f"Member {name!r} is {value!r:.60}.",
            allowed="It is a string." if name in _ONE else "It is a list of strings.",
        )
    return tuple(cast("list[str]", plain))


def _day(value: object) -> date | None:
    try:
        return date.fromisoformat(cast("str", value)) if value is not None else None
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"Member 'today' is {value!r:.60}.", hint="Write it as YYYY-MM-DD, as in 2025-10-21."
        ) from error


def _zone(value: object) -> str:
    try:
        return ZoneInfo(cast("str", value)).key
    except (TypeError, ValueError, OSError, KeyError, AttributeError) as error:
        raise ArgumentError(
            f"Member 'zone' is {value!r:.60}.", hint="Name one as Europe/Berlin, or UTC."
        ) from error
