"""`POST detect`: messages in, what they ask for out."""

from datetime import date
from typing import cast
from zoneinfo import ZoneInfo

from toolgate.errors import ArgumentError
from toolgate.intents import Argument, Detection, DetectRequest
from toolgate.types import Json

__all__ = ["read_detect", "report"]

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
    given = {name: value for name, value in body.items() if value is not None}
    named = [name for name in (*_ONE, *_MANY) if name in given]
    unknown = sorted(given.keys() - {*_ONE, *_MANY, *_OTHERS})
    if unknown:
        allowed = ", ".join(("message", "messages", *_OTHERS))
        raise ArgumentError(f"Unknown member {unknown[0]!r:.60}.", allowed=f"Allowed: {allowed}.")
    if len(named) != 1:
        raise ArgumentError(
            "There is no message." if not named else f"{named[0]!r} and {named[1]!r} are too much.",
            allowed='Give "message" (a string) or "messages" (a list of strings).',
        )
    name = named[0]
    messages = _texts(name, [given[name]] if name in _ONE else given[name])
    if len(messages) > _MOST:
        raise ArgumentError(
            f"Member {name!r} has {len(messages):,} messages.", allowed=f"Allowed: {_MOST:,}."
        )
    languages = given.get("languages", [])
    if isinstance(languages, str):
        languages = [each.strip() for each in languages.split(",") if each.strip()]
    previous = given.get("previous", [])
    stage = given.get("stage", "cascade")
    if stage not in _STAGES:
        raise ArgumentError(
            f"Member 'stage' is {stage!r:.60}.", allowed=f"Allowed: {', '.join(_STAGES)}."
        )
    request = DetectRequest(
        messages=messages,
        today=_day(given.get("today")),
        zone=_zone(given.get("zone", "UTC")),
        languages=_texts("languages", languages),
        previous=_texts("previous", [previous] if isinstance(previous, str) else previous),
        deciding=stage,
    )
    return request, name in _ONE


def report(found: Detection) -> Json:
    """What was found, as `toolgate detect --json` prints it too."""
    return {
        "use_mcp": found.use_mcp,
        "intent": found.intent,
        "confidence": found.confidence,
        "tool": found.tool,
        "arguments": dict(found.arguments),
        "matched": list(found.matched),
        "stage": found.stage,
        "reason": found.reason,
        "found": [_argument(each) for each in found.found],
        "intents": list(found.intents),
        "candidates": [
            {"intent": each.intent, "confidence": each.confidence, "why": each.why}
            for each in found.candidates
        ],
        "question": found.question or None,
    }


def _argument(found: Argument) -> Json:
    return {
        "name": found.name,
        "value": found.value,
        "spans": [{"start": span.start, "end": span.end} for span in found.spans],
        "text": found.text,
        "kind": found.kind,
    }


def _texts(name: str, value: object) -> tuple[str, ...]:
    plain = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(each, str) for each in plain):
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
