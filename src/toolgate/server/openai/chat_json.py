"""OpenAI's chat JSON: parses requests; builds responses, chunks and errors.

https://platform.openai.com/docs/api-reference/chat
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from toolgate.base import json_text
from toolgate.chat import Choices, Outcome, TurnRequest
from toolgate.errors import (
    ArgumentError,
    ContextTooLongError,
    EmbedderError,
    ModelAuthError,
    ModelError,
    ModelRateError,
    ModelRequestError,
    ModelTimeoutError,
    ThreadBusyError,
    ToolgateError,
    UnknownModelError,
    UnknownResponseError,
)
from toolgate.models.llm import messages_from
from toolgate.types import Caller, Json, json_array, json_object

_OURS: Final = frozenset(
    {
        "messages",
        "metadata",
        "model",
        "n",
        "store",
        "stream",
        "stream_options",
        "toolgate",
        "tools",
        "functions",
        "function_call",
    }
)
"""Members that are not passed on to the model."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_CHOICES = frozenset(Choices.__dataclass_fields__)


@dataclass(frozen=True, kw_only=True)
class CompletionOptions:
    """Options for the form of a response."""

    model: str
    """Model name from the request."""

    stream: bool = False
    """Whether the response is streamed."""

    usage: bool = False
    """Whether the last chunk includes the usage."""

    events: bool = False
    """Whether the stream includes events of the turn."""


def read_completion(
    body: Json, caller: Caller, *, thread: str | None, events: bool
) -> tuple[TurnRequest, CompletionOptions]:
    """Return the turn and options of a request.

    Args:
        body: Body of the request.
        caller: The caller.
        thread: The thread that the request names; None: none.
        events: Whether a header asks for events.

    Raises:
        ArgumentError: The request is invalid or not supported.
    """
    messages = json_array(body.get("messages"))
    if not messages:
        raise ArgumentError(
            "'messages' is missing or empty.", hint="Send at least one message of the user."
        )
    model: object = body.get("model", "")
    if not isinstance(model, str):
        raise ArgumentError("'model' is not a string.", hint="Name a model of GET /v1/models.")
    if body.get("n") not in (None, 1):  # a list or an object has no hash
        raise ArgumentError("'n' is not 1.", hint="Send the request several times.")
    if "functions" in body:
        raise ArgumentError("'functions' is not supported.", hint="Use 'tools'.")
    extension = json_object(body.get("toolgate"))
    request = TurnRequest(
        caller=caller,
        messages=messages_from(messages),
        thread=thread,
        tools=tools_of(body.get("tools")),
        parameters={
            name: value for name, value in body.items() if name not in _OURS and value is not None
        },
        choices=_choices(extension, model),
    )
    options = json_object(body.get("stream_options"))
    return request, CompletionOptions(
        model=model,
        stream=flag(body, "stream"),
        usage=flag(options, "include_usage"),
        events=events or flag(extension, "events"),
    )


def _choices(extension: Json, model: str) -> Json:
    fields = {name: value for name, value in extension.items() if name != "events"}
    unknown = sorted(fields.keys() - _CHOICES)
    if unknown:
        raise ArgumentError(
            f"'toolgate' has no member {unknown[0][:60]!r}.",
            allowed=f"Allowed: events, {', '.join(sorted(_CHOICES))}.",
        )
    return {**fields, "model": model} if model else fields


def flag(body: Json, name: str) -> bool:
    """Return a boolean member of a request; false if it is missing or null.

    Raises:
        ArgumentError: It is something else.
    """
    value: object = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ArgumentError(f"{name!r} is {value!r:.40}.", allowed="Allowed: true, false.")
    return value


def tools_of(value: object) -> tuple[Json, ...]:
    """Return the client's own tools.

    Raises:
        ArgumentError: A tool is not a function.
    """
    if value is None:
        return ()
    tools: list[Json] = []
    several = json_array(value)
    if value != several:
        raise ArgumentError("'tools' is not a list.")
    for at, tool in enumerate(map(json_object, several)):
        function = json_object(tool.get("function"))
        name: object = function.get("name")
        if tool.get("type") != "function" or not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ArgumentError(
                f"'tools[{at}]' is not a named function.",
                allowed='Expected: {"type": "function", "function": {"name": …}}.',
            )
        tools.append(tool)
    return tuple(tools)


# Responses


def completion(outcome: Outcome, options: CompletionOptions, *, created: int) -> Json:
    """Return a complete response."""
    message: Json = {"role": "assistant", "content": outcome.text or None, "refusal": None}
    if outcome.reasoning:
        message["reasoning_content"] = outcome.reasoning
    if outcome.calls:
        message["tool_calls"] = list(outcome.calls)
    elif not outcome.text:
        message["content"] = ""
    body: Json = {
        "id": f"chatcmpl-{outcome.turn_id}",
        "object": "chat.completion",
        "created": created,
        "model": options.model or outcome.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": outcome.finish_reason,
            }
        ],
    }
    usage = usage_json(outcome)
    if usage is not None:
        body["usage"] = usage
    if options.events:
        body["toolgate"] = {"run_id": outcome.turn_id, "response_metadata": outcome.metadata}
    return body


def usage_json(outcome: Outcome) -> Json | None:
    """Return the usage of all model requests of the turn; None if unknown."""
    usage = outcome.usage
    if not usage.total_tokens:
        return None
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def chunk(head: Mapping[str, Any], delta: Json, finish: str | None = None) -> bytes:
    """Return one chunk of a streamed response, as an event."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return b"data: " + json_text.dumps({**head, "choices": [choice]}) + b"\n\n"


# Errors


def status_of(error: Exception) -> int:
    """Return the HTTP status for an error."""
    match error:
        case UnknownModelError():
            return 503 if "No chat model is configured" in error.failed else 404
        case ContextTooLongError() | ModelRequestError() | ArgumentError():
            return 400
        case ModelRateError():
            return 429
        case ModelTimeoutError():
            return 504
        case ModelAuthError() | ModelError() | EmbedderError():
            return 502
        case ThreadBusyError():
            return 409
        case _:
            return 500


_CODES: Mapping[type[Exception], tuple[str, str | None]] = {
    UnknownModelError: ("invalid_request_error", "model_not_found"),
    ContextTooLongError: ("invalid_request_error", "context_length_exceeded"),
    ModelRateError: ("rate_limit_error", "rate_limit_exceeded"),
    # The code by which clients notice that they have to send the whole conversation instead.
    UnknownResponseError: ("invalid_request_error", "previous_response_not_found"),
    ArgumentError: ("invalid_request_error", None),
    ModelRequestError: ("invalid_request_error", None),
}


def error_body(
    message: str, *, error: Exception | None = None, kind: str = "", code: str | None = None
) -> Json:
    """Return an error in OpenAI's format."""
    names = next(
        (names for error_type, names in _CODES.items() if isinstance(error, error_type)),
        ("api_error", None),
    )
    error_code = error.code if isinstance(error, ToolgateError) else None
    return {
        "error": {
            "message": message,
            "type": kind or names[0],
            "param": None,
            "code": code or names[1] or error_code,
        }
    }
