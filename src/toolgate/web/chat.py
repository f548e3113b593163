"""Chat: the threads of whoever looks, and one turn by turn: answers, tools, documents, cost."""

from starlette.responses import Response

from toolgate.errors import ArgumentError, SettingError
from toolgate.flow import Chat
from toolgate.types import Json, json_array, json_object
from toolgate.web._route import Route
from toolgate.web._visit import Visit

__all__ = ["ROUTES"]

_PER_PAGE = 60


def _chat(visit: Visit) -> Chat:
    if visit.app.chat is None:
        raise SettingError(
            "No chat model is configured.",
            hint="Write a table [models.NAME] into toolgate.toml; docs/chat.md says how.",
        )
    return visit.app.chat


async def _list(visit: Visit) -> Response:
    threads = await _chat(visit).threads(visit.caller) if visit.app.chat is not None else []
    return visit.page("chat.html", threads=threads, is_there=visit.app.chat is not None)


async def _show(visit: Visit) -> Response:
    chat, name = _chat(visit), visit.typed("name")
    before = visit.asked("before")
    history = await chat.history(
        visit.caller, name, limit=_PER_PAGE, before=int(before) if before.isdecimal() else None
    )
    if history is None:
        raise ArgumentError(
            f"There is no thread {name[:60]!r} of yours.",
            hint="It may have been removed while this page was open.",
        )
    spent = await chat.spending(visit.caller, name)
    return visit.page(
        "thread.html",
        name=name,
        messages=[_message(json_object(one)) for one in json_array(history["messages"])],
        has_more=history["has_more"],
        spent=spent,
        tokens=sum(one["prompt_tokens"] + one["completion_tokens"] for one in spent),
        price=sum(one["cost"] for one in spent),
        settings=await chat.settings_of(visit.caller, name),
    )


def _message(message: Json) -> Json:
    """A message as the page shows it."""
    calls = [
        {
            "name": json_object(call.get("function")).get("name", ""),
            "arguments": json_object(call.get("function")).get("arguments", ""),
        }
        for call in map(json_object, json_array(message.get("tool_calls")))
    ]
    content = message.get("content")
    return {
        "number": message.get("number"),
        "role": str(message.get("role", "")),
        "name": str(message.get("name") or ""),
        "text": content if isinstance(content, str) else "",
        "parts": content if isinstance(content, list) else None,
        "calls": calls,
        "metadata": json_object(message.get("response_metadata")),
        "at": message.get("created_at"),
    }


ROUTES = (
    Route(path="chat", show=_list),
    Route(path="thread", show=_show),
)
