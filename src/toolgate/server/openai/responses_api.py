"""Writes turns as responses of OpenAI's Responses API, of which the common part is supported.

https://platform.openai.com/docs/api-reference/responses
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from toolgate.base import json_text
from toolgate.chat import (
    BETWEEN,
    ChatService,
    Event,
    Outcome,
    Run,
    approval_request,
    citations,
)
from toolgate.server.openai.chat_json import CompletionOptions, error_body
from toolgate.server.openai.response_ids import ResponseId
from toolgate.types import Caller, Json, json_array, json_object


class ResponseWriter:
    """Converts a turn to a response, at once or as events."""

    def __init__(
        self,
        run: Run,
        options: CompletionOptions,
        body: Json,
        *,
        created: int,
        thread: str | None,
    ) -> None:
        self._run = run
        self._thread = thread
        self._options = options
        self._body = body
        self._created = created
        self._number = 0
        self._text = ""
        self._has_text = False
        self._calls: list[Json] = []
        self._sources: Sequence[Json] = ()
        self._has_begun = False

    def whole(self, outcome: Outcome) -> Json:
        """Return the complete response."""
        output = _output(self._item_id, outcome.text, outcome.calls, outcome.metadata)
        response = self._response("completed", output)
        _end(response, outcome.finish_reason)
        response["usage"] = _usage(asdict(outcome.usage))
        if self._options.events:
            response["metadata"] = {**response["metadata"], "run_id": outcome.turn_id}
        return response

    def event(self, event: Event) -> bytes:
        """Return the response events for an event of the turn."""
        if "stream" in event:
            return self._begin() + self._delta(str(event["stream"]))
        if "sources" in event:
            self._sources = event["sources"]["sources"]
            return b""
        if "call" in event:
            return self._begin() + self._close_text() + self._call(event["call"])
        if "completion" in event:
            return self._begin() + self._close_text()
        if "error" in event:
            error = event["error"]
            body = error_body(error["message"], error=self._run.error, code=error["code"])["error"]
            failed = {**self._response("failed", []), "error": body}
            return self._say("response.failed", response=failed)
        return b""

    def end(self) -> bytes:
        """Return the last event of the stream."""
        outcome = self._run.outcome
        if outcome is None:
            return b""
        whole = self.whole(outcome)
        kind = "response.incomplete" if whole["status"] == "incomplete" else "response.completed"
        return self._say(kind, response=whole)

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        response = self._response("in_progress", [])
        return self._say("response.created", response=response) + self._say(
            "response.in_progress", response=response
        )

    def _delta(self, text: str) -> bytes:
        data = b""
        position: Json = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        if not self._has_text:
            self._has_text = True
            item: Json = {**self._message("", "in_progress"), "content": []}
            data += self._say("response.output_item.added", output_index=0, item=item)
            part: Json = {"type": "output_text", "text": "", "annotations": []}
            data += self._say("response.content_part.added", **position, part=part)
        self._text += text
        return data + self._say("response.output_text.delta", **position, delta=text, logprobs=[])

    def _close_text(self) -> bytes:
        if not self._has_text or self._item_id == "":
            return b""
        position: Json = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        annotations = _annotations(self._text, self._sources)
        part: Json = {"type": "output_text", "text": self._text, "annotations": annotations}
        data = b""
        for number, annotation in enumerate(annotations):
            data += self._say(
                "response.output_text.annotation.added",
                **position,
                annotation_index=number,
                annotation=annotation,
            )
        data += self._say("response.output_text.done", **position, text=self._text, logprobs=[])
        data += self._say("response.content_part.done", **position, part=part)
        item = self._message(self._text, "completed", annotations)
        data += self._say("response.output_item.done", output_index=0, item=item)
        self._has_text = False
        return data

    def _call(self, call: Json) -> bytes:
        item = _call_item(call)
        self._calls.append(item)
        index = len(self._calls) - 1 + bool(self._text)
        position: Json = {"item_id": item["id"], "output_index": index}
        begun = {**item, "arguments": "", "status": "in_progress"}
        data = self._say("response.output_item.added", output_index=index, item=begun)
        data += self._say(
            "response.function_call_arguments.delta", **position, delta=item["arguments"]
        )
        data += self._say(
            "response.function_call_arguments.done",
            **position,
            name=item["name"],
            arguments=item["arguments"],
        )
        return data + self._say("response.output_item.done", output_index=index, item=item)

    @property
    def _item_id(self) -> str:
        return f"msg_{self._run.run_id}"

    def _message(self, text: str, status: str, annotations: Sequence[Json] = ()) -> Json:
        return _message(self._item_id, text, status, annotations)

    def _response(self, status: str, output: list[Json]) -> Json:
        response_id = ResponseId(turn_id=self._run.run_id, thread=self._thread)
        body = {**self._body, "model": self._options.model}
        return _response(response_id, body, output, status=status, created=self._created)

    def _say(self, kind: str, **members: Any) -> bytes:
        number = self._number
        self._number += 1
        data = json_text.dumps({"type": kind, **members, "sequence_number": number})
        return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


async def stored_response(
    response_id: ResponseId, chat: ChatService, caller: Caller, *, approval_page: str
) -> Json:
    """Return a saved response, built from the messages of its turn.

    Args:
        response_id: Its id.
        chat: The chat.
        caller: Who asks for it.
        approval_page: Where people decide about calls that wait.

    Raises:
        UnknownResponseError: The caller has no such response.
    """
    messages = await response_id.messages(chat.threads, caller)
    all_waiting = await chat.threads.waiting(caller, response_id.thread or "")
    waiting = [call for call in all_waiting if call.get("turn_id") == response_id.turn_id]
    run = chat.runs.find(caller, response_id.turn_id)
    said: list[Json] = [item for item in messages if item["role"] == "assistant"]
    failure = said.pop() if said and _note(said[-1], "is_error") else None
    texts = [str(item["content"]) for item in said if item.get("content")]
    if waiting:
        texts.append(approval_request(waiting, approval_page))
    requested = json_array(said[-1].get("tool_calls")) if said else []
    ours = {item.get("tool_call_id") for item in messages if item["role"] == "tool"}
    ours |= {call["call_id"] for call in waiting}
    calls = [call for call in map(json_object, requested) if call["id"] not in ours]
    of_messages = [json_object(item.get("response_metadata")) for item in messages]
    metadata: Json = next(filter(None, reversed(of_messages)), dict[str, Any]())
    item_id = f"msg_{response_id.turn_id}"
    output = _output(item_id, BETWEEN.join(texts), calls, metadata)
    created = int(datetime.fromisoformat(messages[0]["created_at"]).timestamp())
    body: Json = {"model": str(metadata.get("model") or "")}
    response = _response(response_id, body, output, status="completed", created=created)
    _end(response, metadata.get("finish_reason"))
    if run is not None and run.ended is None:
        response |= {"status": "in_progress", "output": []}
    elif failure is not None:
        error = {"code": "server_error", "message": failure["content"]}
        response |= {"status": "failed", "error": error}
    elif said and _note(said[-1], "partial") == "cancelled":
        response["status"] = "cancelled"
    if usage := json_object(metadata.get("token_usage")):
        response["usage"] = _usage(usage)
    return response


def _note(message: Json, name: str) -> object:
    return json_object(message.get("additional_kwargs")).get(name)


def _output(item_id: str, text: str, calls: Sequence[Json], metadata: Json) -> list[Json]:
    """Return the items of an answer: its text, then the calls for the client."""
    items = [_call_item(call) for call in calls]
    if not text and items:
        return items
    annotations = _annotations(text, metadata.get("sources") or ())
    return [_message(item_id, text, "completed", annotations), *items]


def _end(response: Json, finish_reason: object) -> None:
    """Mark a response whose model did not finish."""
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(
        str(finish_reason)
    )
    if reason is not None:
        response |= {"status": "incomplete", "incomplete_details": {"reason": reason}}


def _usage(usage: Json) -> Json:
    """Return token counts in the format of the Responses API."""
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": usage["cached_tokens"]},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": usage.get("reasoning_tokens", 0)},
        "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"],
    }


def _response(
    response_id: ResponseId, body: Json, output: list[Json], *, status: str, created: int
) -> Json:
    return {
        "id": str(response_id),
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "store": response_id.thread is not None,
        "temperature": body.get("temperature"),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
        "truncation": "disabled",
        "usage": None,
        "metadata": json_object(body.get("metadata")),
    }


def _message(item_id: str, text: str, status: str, annotations: Sequence[Json]) -> Json:
    part: Json = {
        "type": "output_text",
        "text": text,
        "annotations": list(annotations),
        "logprobs": [],
    }
    return {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [part],
    }


def _call_item(call: Json) -> Json:
    function = json_object(call.get("function"))
    return {
        "id": f"fc_{call['id']}",
        "type": "function_call",
        "status": "completed",
        "call_id": call["id"],
        "name": function.get("name"),
        "arguments": function.get("arguments"),
    }


def _annotations(text: str, sources: Sequence[Json]) -> list[Json]:
    """Return citations in OpenAI's format: URL citations for sources with a link, else files."""
    by_number = {source["number"]: source for source in sources}
    annotations: list[Json] = []
    for citation in citations(text) if sources else ():
        source = by_number.get(citation.number)
        if source is None:
            continue
        if source["link"]:
            annotations.append(
                {
                    "type": "url_citation",
                    "start_index": citation.start,
                    "end_index": citation.end,
                    "url": source["link"],
                    "title": source["title"] or source["document"],
                }
            )
        else:
            annotations.append(
                {
                    "type": "file_citation",
                    "index": citation.start,
                    "file_id": source["document_id"],
                    "filename": source["document"],
                }
            )
    return annotations
