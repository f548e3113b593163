"""The Chat pages: threads, and one thread turn by turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args, get_origin, get_type_hints

import anyio
from starlette.responses import Response

from toolgate.base import json_text
from toolgate.base.lazy_loading import load
from toolgate.chat import KINDS, ChatService, Choices
from toolgate.console.pages.approvals import is_person
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError, SettingError
from toolgate.types import Json, json_array, json_object

_PER_PAGE = 60
"""Messages per page (chosen)."""
_MOST_THREADS = 1_000
"""Threads that are listed and searched, most recently used first (chosen)."""
_EXECUTED = "\nExecuted: "
"""Text that database tools put in front of the executed statement."""
_CUT_OFF = {
    "cancelled": "The turn was cancelled here.",
    "failed": "The model failed here.",
    "out_of_budget": "The turn reached its limit here.",
}
"""What the page says below an answer that was cut off, by the reason."""
_NEITHER = "none"
_NAMES = {
    "model": "Model",
    "tools_enabled": "Built-in tool groups",
    "retrieval": "Document search",
    "history": "Conversation history",
    "rephrase": "Rephrase follow-up questions",
    "grade": "Drop irrelevant passages",
    "top_k": "Passages per document search",
    "search_type": "Document search type",
    "collections": "Document collections",
    "inject": "Where passages are inserted",
    "call_before_model": "Call the intent's tool first",
    "thread_policy": "If another turn is running",
}
"""Labels of thread settings."""
_CHOICES = {
    "retrieval": {
        "auto": "when the model asks for it",
        "forced": "before every answer",
        "classifier": "if the question is about documents",
    },
    "search_type": {
        "similarity": "vectors",
        "similarity_score_threshold": "vectors above the threshold",
        "mmr": "diverse vectors (MMR)",
        "hybrid": "vectors and keywords",
    },
    "inject": {"tail": "end of the conversation", "system": "system message"},
    "call_before_model": {
        "exact": "on an exact match",
        "any": "for any intent with a tool",
        "off": "never",
    },
    "thread_policy": {
        "reject": "reject the new turn",
        "enqueue": "wait until it ends",
        "interrupt": "stop it, keep its messages",
        "rollback": "stop it, delete its messages",
    },
}
"""Labels of the values of settings."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of a thread in the form."""

    name: str
    """Name in the REST API."""

    words: str
    """Label."""

    value: str
    """The submitted value, else the saved one; empty: default."""

    options: Sequence[tuple[str, str]]
    """Values with their labels; empty if a number is entered."""

    active: str
    """The effective value."""


def chat_of(request: PageRequest) -> ChatService:
    """Return the chat service of the gateway.

    Raises:
        SettingError: No chat model is configured.
    """
    if request.app.chat is None:
        raise SettingError(
            "No chat model is configured.",
            hint="Add a table [models.NAME] to toolgate.toml; see docs/chat.md.",
        )
    return request.app.chat


async def _list(request: PageRequest) -> Response:
    if request.app.chat is None:
        return request.page("chat.html", threads=(), is_there=False, searched="", has_threads=False)
    with_responses = request.query_value("responses") == "1"
    threads = await request.app.chat.threads.recent(
        request.caller, with_responses=with_responses, limit=_MOST_THREADS
    )
    searched = request.query_value("q").strip()
    matching = [thread for thread in threads if searched.casefold() in thread.name.casefold()]
    return request.page(
        "chat.html",
        threads=matching,
        is_there=True,
        searched=searched,
        with_responses=with_responses,
        has_threads=bool(threads),
        **await _pickers(request, request.app.chat, {}),
    )


async def _pickers(request: PageRequest, chat: ChatService, chosen: Json) -> Json:
    """Return the available models and collections, and the selected ones."""
    collections = await request.gateway.documents.collections(request.caller, counted=False)
    return {
        "models": list(chat.models.tables),
        "collections": [collection.name for collection in collections if not collection.problem],
        "chosen_model": str(chosen.get("model") or ""),
        "chosen_collections": [str(name) for name in json_array(chosen.get("collections"))],
    }


async def _show(request: PageRequest) -> Response:
    chat, name = chat_of(request), request.value("name")
    before = request.query_value("before")
    history = await chat.threads.history(
        request.caller, name, limit=_PER_PAGE, before=int(before) if before.isdecimal() else None
    )
    run = chat.runs.find(request.caller, request.query_value("run"))
    if history is not None and (run is None or run.ended is not None):
        run = chat.runs.find(request.caller, str(history["running"]))
    if history is None and run is None:
        raise ArgumentError(
            f"No thread {name[:60]!r}.",
            hint="It may have been removed.",
        )
    history = history or {"messages": [], "has_more": False, "pending": []}
    spent = await chat.threads.spending(request.caller, name)
    settings = await chat.threads.settings(request.caller, name)
    return request.page(
        "thread.html",
        name=name,
        messages=await _as_shown(json_array(history["messages"])),
        has_more=history["has_more"],
        pending=[json_object(call) for call in json_array(history["pending"])],
        run=run if run is not None and run.ended is None else None,
        may_decide=is_person(request),
        **await _pickers(request, chat, json_object(settings["set"])),
        spent=spent,
        tokens=sum(row["prompt_tokens"] + row["completion_tokens"] for row in spent),
        price=sum(row["cost"] for row in spent),
        settings=[_setting(request, chat, name, settings) for name in _TYPES],
        is_set=bool(settings["set"]),
    )


async def _as_shown(messages: Sequence[object]) -> list[Json]:
    """Return messages in the form that the page shows, with the model's Markdown rendered."""
    shown = [as_shown(json_object(message)) for message in messages]
    answers = [message for message in shown if message["role"] == "assistant" and message["text"]]
    if answers:
        markdown = await load("toolgate.console.markdown")
        texts = [str(message["text"]) for message in answers]
        rendered = await anyio.to_thread.run_sync(lambda: [*map(markdown.render, texts)])
        for message, html in zip(answers, rendered, strict=True):
            message["html"] = html
    return shown


async def _change(request: PageRequest) -> Response:
    chat, name = chat_of(request), request.value("name")
    if await chat.threads.history(request.caller, name, limit=1) is None:
        raise ArgumentError(
            f"No thread {name[:60]!r}.",
            hint="It may have been removed.",
        )
    changes: Json = {name: _value(name, request.value(name).strip()) for name in _TYPES}
    await chat.threads.change_settings(request.caller, name, changes)
    return request.go(
        "thread", message="Saved. The settings take effect with the next turn.", name=name
    )


_TYPES = get_type_hints(Choices)


def _setting(request: PageRequest, chat: ChatService, name: str, settings: Json) -> Setting:
    overrides = json_object(settings["set"])
    value = _text(name, overrides[name]) if name in overrides else ""
    if request.was_sent and request.problem is not None:
        value = request.value(name)
    active = _text(name, json_object(settings["active"])[name])
    return Setting(
        name=name,
        words=_NAMES.get(name, name),
        value=value,
        options=_options(chat, name),
        active=_CHOICES.get(name, {}).get(active, active),
    )


def _options(chat: ChatService, name: str) -> list[tuple[str, str]]:
    kind = _TYPES[name]
    if name == "model":
        return [(model, model) for model in chat.models.tables]
    if name == "tools_enabled":
        whole = ", ".join(KINDS)
        return [(choice, choice) for choice in (whole, *KINDS, _NEITHER)]
    if kind is bool:
        return [("yes", "yes"), ("no", "no")]
    if get_origin(kind) is Literal:
        return [(choice, _CHOICES[name][choice]) for choice in get_args(kind)]
    return []


def _text(name: str, value: object) -> str:
    """Return a value of a setting as text for the form."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in {"tools_enabled", "collections"}:
        kinds = json_array(list(cast("Sequence[str]", value)))
        return ", ".join(map(str, kinds)) or (_NEITHER if name == "tools_enabled" else "")
    return str(value)


def _value(name: str, text: str) -> object:
    """Parse a value from the form; None: default."""
    if not text:
        return None
    if _TYPES[name] is bool:
        return {"yes": True, "no": False}.get(text, text)
    if _TYPES[name] is int:
        return int(text) if text.isdecimal() and len(text) < 10 else text
    if name == "collections":
        return [part.strip() for part in text.split(",") if part.strip()]
    if name == "tools_enabled":
        return [] if text == _NEITHER else [part.strip() for part in text.split(",")]
    return text


def as_shown(message: Json) -> Json:
    """Return a message in the form that the page shows."""
    calls = [
        {
            "name": json_object(call.get("function")).get("name", ""),
            "arguments": json_object(call.get("function")).get("arguments", ""),
        }
        for call in map(json_object, json_array(message.get("tool_calls")))
    ]
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    role = str(message.get("role", ""))
    documents = _documents(text) if role == "tool" else None
    answer, marker, statement = text.rpartition(_EXECUTED) if role == "tool" else (text, "", "")
    metadata = json_object(message.get("response_metadata"))
    return {
        "number": message.get("number"),
        "role": role,
        "name": str(message.get("name") or ""),
        "text": answer if marker else text,
        "html": None,
        "executed": statement if marker else "",
        "documents": documents,
        "parts": content if isinstance(content, list) else None,
        "calls": calls,
        "metadata": metadata,
        "usage": json_object(metadata.get("token_usage")),
        "searched": json_object(metadata.get("vs_metadata")),
        "sources": json_array(metadata.get("sources")),
        "cut_off": _CUT_OFF.get(
            str(json_object(message.get("additional_kwargs")).get("partial") or "")
        ),
        "unknown": json_array(metadata.get("unknown_citations")),
        "at": message.get("created_at"),
    }


def _documents(text: str) -> list[Json] | None:
    """Return the documents in a search result; None for other results."""
    if not text.startswith("{"):
        return None
    try:
        documents: object = json_object(json_text.loads(text)).get("documents")
    except ValueError:
        return None
    if not isinstance(documents, list):
        return None
    quotes: list[Json] = []
    for document in map(json_object, json_array(cast("object", documents))):
        metadata = json_object(document.get("metadata"))
        if not isinstance(document.get("page_content"), str):
            return None
        likeness = metadata.get("similarity_score")
        quotes.append(
            {
                "text": document["page_content"],
                "citation": str(metadata.get("citation") or metadata.get("source") or ""),
                "collection": str(metadata.get("searched_table") or ""),
                "likeness": likeness if isinstance(likeness, int | float) else None,
            }
        )
    return quotes


ROUTES = (
    Route(path="chat", show=_list),
    Route(path="thread", show=_show, act=_change),
)
