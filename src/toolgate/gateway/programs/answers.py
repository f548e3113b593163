"""Results of tools as programs see them, and results of programs as clients see them."""

from toolgate.base import json_text
from toolgate.gateway.programs.run import Finished
from toolgate.models.sandboxes import CallFailure, CallValue
from toolgate.types import Json, json_array, json_object

_MAX_LOG_CHARS = 2_000
"""Characters of a program's printed output in the answer (chosen)."""


def answer_of(result: Json) -> CallValue | CallFailure:
    """A tool's result as a program sees it: data if there is any, else text."""
    texts = [
        str(block.get("text", ""))
        for block in map(json_object, json_array(result.get("content")))
        if block.get("type") == "text"
    ]
    if result.get("isError") is True:
        return CallFailure(kind="RuntimeError", message="\n".join(texts) or "the tool failed")
    if result.get("structuredContent") is not None:
        return CallValue(value=result["structuredContent"])
    others = [b for b in json_array(result.get("content")) if json_object(b).get("type") != "text"]
    if others:
        return CallValue(value=json_array(result.get("content")))
    text = "\n".join(texts)
    if text.lstrip().startswith(("{", "[")):
        try:
            return CallValue(value=json_text.loads(text))
        except (ValueError, RecursionError):
            pass
    return CallValue(value=text)


def result_of(outcome: Finished, printed: str, program_id: str, n_calls: int) -> Json:
    """The `tools/call` result of a program: its value as text, and what it printed."""
    value = outcome.value
    text = value if isinstance(value, str) else json_text.dumps(value).decode()
    content: list[Json] = [{"type": "text", "text": text}]
    if printed:
        content.append({"type": "text", "text": f"[printed]\n{printed[:_MAX_LOG_CHARS]}"})
    return {"content": content, "_meta": {"toolgate/program": {"id": program_id, "calls": n_calls}}}
