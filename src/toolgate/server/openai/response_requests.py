"""Reads requests to OpenAI's Responses API, of which the common part is supported.

https://platform.openai.com/docs/api-reference/responses/create
"""

from dataclasses import replace

from toolgate.base import json_text
from toolgate.chat import TurnRequest
from toolgate.errors import ArgumentError
from toolgate.models.llm import Message, ToolCall, message_from
from toolgate.server.openai.chat_json import CompletionOptions, flag, tools_of
from toolgate.server.openai.response_ids import ResponseId
from toolgate.types import Caller, Json, json_array, json_object

_OURS = frozenset(
    {
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "metadata",
        "model",
        "previous_response_id",
        "reasoning",
        "store",
        "stream",
        "stream_options",
        "text",
        "toolgate",
        "tool_choice",
        "tools",
        "truncation",
        "background",
    }
)


def read_response(
    body: Json, caller: Caller, *, thread: str | None, events: bool
) -> tuple[TurnRequest, CompletionOptions]:
    """Return the turn and options of a request.

    Raises:
        ArgumentError: The request is invalid or not supported.
    """
    if body.get("background"):
        raise ArgumentError("'background' is not supported.", hint="Wait for the answer.")
    if body.get("prompt") is not None:
        raise ArgumentError("'prompt' is not supported.", hint="Send 'instructions' and 'input'.")
    model: object = body.get("model", "")
    if not isinstance(model, str):
        raise ArgumentError("'model' is not a string.", hint="Name a model of GET /v1/models.")
    messages = _input(body.get("input"))
    if instructions := _text(body, "instructions"):
        messages.insert(0, Message(role="system", content=instructions))
    extension = {
        key: item for key, item in json_object(body.get("toolgate")).items() if key != "events"
    }
    named = _continued(body.get("previous_response_id"), _conversation(body) or thread)
    parameters: Json = {
        key: item for key, item in body.items() if key not in _OURS and item is not None
    }
    if body.get("max_output_tokens") is not None:
        parameters["max_completion_tokens"] = body["max_output_tokens"]
    if effort := json_object(body.get("reasoning")).get("effort"):
        parameters["reasoning_effort"] = effort
    if form := _format(json_object(json_object(body.get("text")).get("format"))):
        parameters["response_format"] = form
    choice: object = body.get("tool_choice")
    if choice is not None:
        name = json_object(choice).get("name")
        parameters["tool_choice"] = (
            {"type": "function", "function": {"name": name}} if name else choice
        )
    request = TurnRequest(
        caller=caller,
        messages=tuple(messages),
        thread=named or None,
        tools=tools_of(_tools(body.get("tools"))),
        parameters=parameters,
        choices={**extension, "model": model} if model else extension,
    )
    return request, CompletionOptions(
        model=model,
        stream=flag(body, "stream"),
        events=events or flag(json_object(body.get("toolgate")), "events"),
    )


def is_stored(body: Json) -> bool:
    """Whether the response is to be saved.

    Raises:
        ArgumentError: `store` is not a boolean.
    """
    return body.get("store") is None or flag(body, "store")


def _text(body: Json, name: str) -> str:
    value: object = body.get(name)
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"{name!r} is not a string.")
    return value or ""


def _conversation(body: Json) -> str:
    """Return the thread that `conversation` names, by itself or as `{"id": …}`."""
    if isinstance(body.get("conversation"), dict):
        return _text(body["conversation"], "id")
    return _text(body, "conversation")


def _continued(previous: object, named: str | None) -> str | None:
    """Return the thread that a request continues.

    Raises:
        ArgumentError: The request names a response and another thread, or a response that was
            not saved.
    """
    if previous is None:
        return named
    thread = ResponseId.read(previous).thread
    if named and named != thread:
        raise ArgumentError(
            "'previous_response_id' belongs to another conversation than the one that is named.",
            hint="Send one of the two.",
        )
    return thread


def _input(value: object) -> list[Message]:
    if isinstance(value, str):
        return [Message(role="user", content=value)]
    items = json_array(value)
    if not items:
        raise ArgumentError("'input' is missing or empty.", hint="Send a text, or a list of items.")
    messages: list[Message] = []
    for at, item in enumerate(map(json_object, items)):
        match item.get("type", "message"):
            case "message":
                messages.append(message_from({**item, "content": _content(item)}, f"input[{at}]"))
            case "function_call":
                call = ToolCall(
                    call_id=str(item.get("call_id")),
                    name=str(item.get("name")),
                    arguments=str(item.get("arguments", "{}")),
                )
                # The items of one answer are one message: results follow all of its calls.
                if not messages or messages[-1].role != "assistant":
                    messages.append(Message(role="assistant"))
                messages[-1] = replace(messages[-1], calls=(*messages[-1].calls, call))
            case "function_call_output":
                if not isinstance(item.get("call_id"), str):
                    raise ArgumentError(
                        f"'input[{at}]' has no call_id.", hint="Name the call that it answers."
                    )
                result = {"role": "tool", "tool_call_id": item["call_id"]}
                messages.append(message_from({**result, "content": _result(item)}, f"input[{at}]"))
            case "reasoning":
                pass
            case kind:
                raise ArgumentError(
                    f"'input[{at}]' has the type {kind!r:.60}.",
                    allowed="Allowed: message, function_call, function_call_output.",
                )
    return messages


def _result(item: Json) -> object:
    output: object = item.get("output", "")
    if isinstance(output, str):
        return output
    if json_array(output):
        return _content({"content": output})
    return json_text.dumps(output).decode()


def _content(item: Json) -> object:
    content: object = item.get("content")
    several = json_array(content)
    if not several:
        return content
    return [_part(part) for part in map(json_object, several)]


def _part(part: Json) -> Json:
    """Return a part of a message in the format of chat completions."""
    match part.get("type"):
        case "input_text" | "output_text":
            return {"type": "text", "text": part.get("text")}
        case "input_image":
            if not isinstance(part.get("image_url"), str):
                raise ArgumentError(
                    "An image has no 'image_url'.", hint="Send a URL; files are not stored here."
                )
            image = {name: part[name] for name in ("detail", "image_url") if name in part}
            image["url"] = image.pop("image_url")
            return {"type": "image_url", "image_url": image}
        case "input_file":
            return {"type": "file", "file": {k: v for k, v in part.items() if k != "type"}}
        case _:
            return part


def _tools(value: object) -> object:
    """Return the tools in the format of chat completions; what is no list stays as it is."""
    if not json_array(value):
        return value
    return [_tool(json_object(tool)) for tool in json_array(value)]


def _tool(tool: Json) -> Json:
    if tool.get("type") != "function" or "function" in tool:
        return tool
    function = {key: value for key, value in tool.items() if key != "type"}
    return {"type": "function", "function": function}


def _format(form: Json) -> Json | None:
    if not form or form.get("type") == "text":
        return None
    if form.get("type") != "json_schema":
        return form
    return {
        "type": "json_schema",
        "json_schema": {key: value for key, value in form.items() if key != "type"},
    }
