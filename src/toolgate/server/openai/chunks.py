"""Writes the events of a turn as the chunks of a streamed chat completion.

https://platform.openai.com/docs/api-reference/chat-streaming
"""

from toolgate.base import json_text
from toolgate.base.ids import unix_now
from toolgate.chat import Event, Run
from toolgate.server.openai.chat_json import CompletionOptions, chunk, error_body, usage_json
from toolgate.types import Json

_DONE = b"data: [DONE]\n\n"
_VISIBLE = frozenset({"stream", "call", "completion", "error"})


class ChunkWriter:
    """Converts the events of a turn to OpenAI's chunks."""

    def __init__(self, run: Run, options: CompletionOptions) -> None:
        self._run = run
        self._options = options
        self._head: Json = {
            "id": f"chatcmpl-{run.run_id}",
            "object": "chat.completion.chunk",
            "created": unix_now(),
            "model": options.model,
        }
        if options.usage:
            self._head["usage"] = None
        self._has_begun = False
        self._calls = 0

    def event(self, event: Event) -> bytes:
        """Return the chunks of an event; empty if this client does not get it."""
        data = b""
        if self._options.events and not _VISIBLE & event.keys():
            kind = next(iter(event))
            data += b"event: toolgate.%s\ndata: %s\n\n" % (
                kind.encode(),
                json_text.dumps(event[kind]),
            )
        if "stream" in event:
            data += self._begin() + chunk(self._head, {"content": event["stream"]})
        elif "reasoning" in event:
            # Named as in DeepSeek, llama.cpp and vLLM; clients that do not know it ignore it.
            data += self._begin() + chunk(self._head, {"reasoning_content": event["reasoning"]})
        elif "call" in event:
            call = {"index": self._calls, **event["call"]}
            self._calls += 1
            data += self._begin() + chunk(self._head, {"tool_calls": [call]})
        elif "error" in event:
            error = event["error"]
            body = error_body(error["message"], error=self._run.error, code=error["code"])
            data += b"data: " + json_text.dumps(body) + b"\n\n"
        elif "completion" in event:
            data += self._begin()
            data += chunk(self._head, {}, event["completion"]["finish_reason"])
        return data

    def end(self) -> bytes:
        """Return the last chunks of the stream."""
        outcome = self._run.outcome
        usage = usage_json(outcome) if outcome is not None and self._options.usage else None
        if usage is None:
            return _DONE
        last: Json = {**self._head, "choices": [], "usage": usage}
        return b"data: " + json_text.dumps(last) + b"\n\n" + _DONE

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        return chunk(self._head, {"role": "assistant", "content": "", "refusal": None})
