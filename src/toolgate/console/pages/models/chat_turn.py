"""Actions of the Chat pages: start, follow and cancel a turn, and decide about waiting calls."""

import re
from collections.abc import AsyncGenerator

from starlette.responses import Response, StreamingResponse

from toolgate.base import json_text
from toolgate.base.ids import new_id
from toolgate.chat import Run, TurnRequest
from toolgate.console.pages.approvals import is_person
from toolgate.console.pages.models.chat import chat_of
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError, ForbiddenError
from toolgate.models.llm import Message
from toolgate.types import Json, json_object

_BEAT_S = 15.0
"""Seconds of silence after which a comment keeps the stream open in proxies (chosen)."""

_LONGEST_NAME = 200
"""Characters of a thread's name (chosen)."""

_NAME_FROM_MESSAGE = 60
"""Characters of the first message in the name of its thread (chosen)."""

_NOT_IN_PATHS = re.compile(r"[/?#%\\]")
"""Characters that would have to be encoded in the paths of the REST API."""

_SHOWN = (
    "stream", "reasoning", "tools", "mcp_tool", "vs_metadata", "grade", "sources", "approval",
    "retry", "compaction", "budget", "token_usage", "error",
)  # fmt: skip
"""Events that the page shows."""

_LONGEST_SHOWN = 4_000
"""Characters of a call's arguments and result that are shown while it runs (chosen)."""


async def _send(request: PageRequest) -> Response:
    """Start a turn with a message, in a new or existing thread."""
    chat = chat_of(request)
    text = request.value("text").strip()
    if not text:
        raise ArgumentError("The message is empty.", hint="Type what you want to ask.")
    name = request.value("name").strip()[:_LONGEST_NAME] or _name_for(text)
    changes: Json = {}
    if request.has_field("model"):
        changes["model"] = request.value("model") or None
    if request.has_field("collections"):
        changes["collections"] = [
            item for item in request.form_values("collections") if item
        ] or None
    if changes:
        await chat.threads.change_settings(request.caller, name, changes)
    run = chat.start(
        TurnRequest(
            caller=request.caller, messages=(Message(role="user", content=text),), thread=name
        )
    )
    return request.go("thread", name=name, run=run.run_id)


def _name_for(text: str) -> str:
    """Return the name of a new thread, by which people find it in the list."""
    line = " ".join(_NOT_IN_PATHS.sub(" ", text).split())
    if len(line) > _NAME_FROM_MESSAGE:
        line = f"{line[:_NAME_FROM_MESSAGE].rstrip()}…"
    return f"{line} ({new_id()[-6:]})"


async def _cancel(request: PageRequest) -> Response:
    """Cancel a turn; the response so far is kept."""
    run = _run_of(request)
    run.cancel()
    await run.ended_event.wait()
    return request.go("thread", message="Stopped.", name=run.thread or "")


async def _decide(request: PageRequest) -> Response:
    """Approve or reject a call, and continue the turn once no other call waits."""
    chat, name = chat_of(request), request.value("name")
    word = request.value("do")
    if word not in {"approve", "reject"}:
        raise ArgumentError(f"Unknown action {word[:40]!r}.")
    if not is_person(request):
        raise ForbiddenError(
            "Calls are approved in a browser.", hint="Open this page in a browser."
        )
    waiting = {
        str(json_object(call).get("approval_id"))
        for call in await chat.threads.waiting(request.caller, name)
    }
    approval_id = request.value("id")
    if approval_id not in waiting:
        raise ArgumentError("This call no longer awaits approval.", hint="Reload the page.")
    await request.gateway.approvals.decide(
        request.caller, approval_id, approve=word == "approve", via="console"
    )
    for other in waiting - {approval_id}:
        if (await request.gateway.approvals.wait(other, within_s=0)).state == "waiting":
            return request.go(
                "thread", message="Decided. Another call is waiting for approval.", name=name
            )
    run = chat.start(TurnRequest(caller=request.caller, messages=(), thread=name, resumes=True))
    return request.go("thread", name=name, run=run.run_id)


async def _follow(request: PageRequest) -> Response:
    """Stream the events of a turn as server-sent events."""
    return StreamingResponse(_told(_run_of(request)), media_type="text/event-stream")


def _run_of(request: PageRequest) -> Run:
    run = chat_of(request).runs.find(request.caller, request.value("run"))
    if run is None:
        raise ArgumentError("There is no such turn.", hint="It may have ended.")
    return run


async def _told(run: Run) -> AsyncGenerator[bytes]:
    after = 0
    while True:
        if not await run.wait(after, within_s=_BEAT_S):
            yield b": still here\n\n"
            continue
        for number, event in run.since(after):
            after = number
            for kind, value in event.items():
                if kind in _SHOWN:
                    data = json_text.dumps(_shortened(value))
                    yield b"event: %s\ndata: %s\n\n" % (kind.encode(), data)
        if run.ended is not None and run.last <= after:
            break
    yield b"event: end\ndata: {}\n\n"


def _shortened(value: object) -> object:
    """Shorten long tool results in an event; the thread has them in full afterwards."""
    fields = json_object(value)
    result = fields.get("result")
    if isinstance(result, str) and len(result) > _LONGEST_SHOWN:
        return {**fields, "result": f"{result[:_LONGEST_SHOWN]}…"}
    return value


ROUTES = (
    Route(path="chat/send", act=_send, acts_outside=True),
    Route(path="chat/cancel", act=_cancel),
    Route(path="chat/decide", act=_decide, acts_outside=True),
    Route(path="chat/events", show=_follow),
)
