"""Results of tools as programs see them, and results of programs as clients see them."""

from toolgate.base import json_text
from toolgate.gateway.programs.run import Finished
from toolgate.models.sandboxes import CallFailure, CallValue
from toolgate.store import StoredProgram
from toolgate.types import Caller, Json, json_array, json_object

MAX_LOG_CHARS = 2_000
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
        content.append({"type": "text", "text": f"[printed]\n{printed}"})
    return {"content": content, "_meta": {"toolgate/program": {"id": program_id, "calls": n_calls}}}


def continued(result: Json, parked: StoredProgram, caller: Caller) -> Json:
    """The result of a call that continued the program of an earlier one.

    It says so in another conversation, which may not know of the earlier call.
    """
    began_in = json_object(json_text.loads(parked.body)).get("conversation")
    if result.get("resultType") == "input_required" or began_in == caller.conversation:
        return result
    note = (
        f"[toolgate: this call continued a program that the same call had started earlier. It was"
        f" parked at {parked.created_at}; what it read before is from then.]"
    )
    return {**result, "content": [*result["content"], {"type": "text", "text": note}]}
