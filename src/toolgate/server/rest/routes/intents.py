"""Routes for intent detection, the rules for a message, and the packs that contain both."""

from dataclasses import replace
from datetime import date
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field

from toolgate.errors import ArgumentError
from toolgate.gateway.meta_tools import read_get_knowledge, read_process_prompt
from toolgate.intents import DetectRequest
from toolgate.server.rest.models import Body, PageOf
from toolgate.server.rest.routing import Call, Routes
from toolgate.types import Caller, Json

routes = Routes()

_MAX_MESSAGES = 10_000
"""Largest number of messages in a request; chosen: a few seconds of work."""


def _day(value: object) -> date:
    try:
        return date.fromisoformat(str(value))
    except ValueError as error:
        raise ArgumentError(
            f"Member 'today' is {value!r:.60}.", hint="Write it as YYYY-MM-DD, as in 2025-10-21."
        ) from error


def _zone(value: object) -> str:
    try:
        return ZoneInfo(str(value)).key
    except (ValueError, OSError, KeyError) as error:
        raise ArgumentError(
            f"Member 'zone' is {value!r:.60}.", hint="Name one as Europe/Berlin, or UTC."
        ) from error


class Detect(Body):
    """A message, or several, under the usual names of both."""

    message: str | None = None
    text: str | None = None
    messages: list[str] | None = None
    texts: list[str] | None = None
    today: Annotated[date | None, BeforeValidator(_day)] = None
    zone: Annotated[str, BeforeValidator(_zone)] = "UTC"
    languages: str | list[str] = Field([], description="Such as `en, de`; absent: all.")
    previous: str | list[str] = Field([], description="Intents of the conversation, latest last.")
    stage: Literal["keyword", "semantic", "cascade"] = "cascade"

    def request(self) -> DetectRequest:
        """Return the messages and their context.

        Raises:
            ArgumentError: There are no messages, too many, or two members with messages.
        """
        names = [name for name in _MESSAGE_NAMES if getattr(self, name) is not None]
        if len(names) != 1:
            raise ArgumentError(
                f"{names[0]!r} and {names[1]!r} are too much." if names else "There is no message.",
                allowed='Give "message" (a string) or "messages" (a list of strings).',
            )
        messages: str | list[str] = getattr(self, names[0])
        texts = [messages] if isinstance(messages, str) else messages
        if len(texts) > _MAX_MESSAGES:
            raise ArgumentError(
                f"Member {names[0]!r} has {len(texts):,} messages.",
                allowed=f"Allowed: {_MAX_MESSAGES:,}.",
            )
        languages = self.languages
        if isinstance(languages, str):
            languages = [item.strip() for item in languages.split(",") if item.strip()]
        previous = [self.previous] if isinstance(self.previous, str) else self.previous
        return DetectRequest(
            messages=tuple(texts),
            today=self.today,
            zone=self.zone,
            languages=tuple(languages),
            previous=tuple(previous),
            deciding=self.stage,
        )


_MESSAGE_NAMES = ("message", "text", "messages", "texts")


@routes.post("detect")
async def detect(call: Call, body: Detect) -> Json:
    """Detect what a `message`, or each of `messages`, asks for."""
    detections = await call.gateway.intents.detect(_without_guess(call.caller), body.request())
    answers = [detection.as_json() for detection in detections]
    is_single = body.messages is None and body.texts is None
    return answers[0] if is_single else {"detections": answers}


class Enrich(Body):
    """A message, or short actions."""

    prompt: str | None = None
    queries: str | list[str] | None = None


@routes.post("enrich")
async def enrich(call: Call, body: Enrich) -> Json:
    """Give the rules for a message (`prompt`) or for short actions (`queries`).

    Requests belong together by the header `X-Toolgate-Thread`; without it, each stands alone.
    """
    caller = _without_guess(call.caller)
    if body.queries is not None and body.prompt is not None:
        raise ArgumentError("A prompt and queries were both given.", hint="Give one of them.")
    if body.queries is not None:
        queries = read_get_knowledge({"queries": body.queries}).queries
        return (await call.gateway.intents.knowledge(caller, queries)).report()
    prompt = read_process_prompt({"prompt": body.prompt}).prompt
    return (await call.gateway.intents.enrich(caller, prompt)).report()


def _without_guess(caller: Caller) -> Caller:
    """Return the caller without a guessed conversation, as many users can share a program name."""
    return replace(caller, conversation="") if caller.is_guess else caller


class PackList(PageOf):
    """Packs with their problems."""

    packs: list[Json]


@routes.get("packs", pages="packs", answer=PackList)
async def packs(call: Call) -> Json:
    """List every pack that was found, with what is wrong with it."""
    call.must_manage()
    return {"packs": [state.to_json() for state in call.app.packs.current.states]}
