"""jq in a worker process: an untrusted filter may take any time and memory, or crash."""

import os
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final, Protocol, cast

_PROGRAM: Final = """\
def env: {}; def modulemeta: error("modulemeta is not allowed"); {} as $ENV | (
%s
) | tojson"""
"""In parentheses, jq allows no `import` and no `include`, which read files."""

_MAX_OUTPUT_CHARS: Final = 8_000_000
"""Characters of all outputs (chosen: a filter that loops forever reaches it in a second)."""


class _Program(Protocol):
    def input_text(self, text: str) -> Iterable[str]: ...


class _Jq(Protocol):
    def compile(self, program: str) -> _Program: ...


def answer(request: Mapping[str, Any], data: bytes) -> Mapping[str, Any]:
    """Return the outputs of a filter as JSON texts, or an error; runs in a worker.

    Args:
        request: The `filter`, and whether to `check` only its syntax.
        data: The JSON that it is applied to.
    """
    # Before the library is loaded: jq could read environment variables with the gateway's secrets.
    os.environ.clear()  # noqa: TID251 - the worker's own, and no setting
    jq = cast("_Jq", import_module("jq"))  # has no types
    try:
        program = jq.compile(_PROGRAM % request["filter"])
    except ValueError as error:
        return {"syntax": _compile_error(jq, request["filter"], str(error))}
    if request["check"]:
        return {"outputs": []}
    outputs: list[str] = []
    left = _MAX_OUTPUT_CHARS
    try:
        for output in program.input_text(data.decode("utf-8", "replace")):
            left -= len(output)
            if left < 0:
                return {"failed": f"it gives more than {_MAX_OUTPUT_CHARS:,} characters"}
            outputs.append(output)
    except ValueError as error:
        return {"failed": str(error)[:500]}
    return {"outputs": outputs}


def _compile_error(jq: _Jq, text: str, message: str) -> str:
    """The first line of jq's error, for the unwrapped filter if it cannot read files."""
    if not re.search("import|include", text):
        try:
            jq.compile(text)
        except ValueError as error:
            message = str(error)
    return message.removeprefix("jq: error: ").partition("\n")[0].rstrip(":")[:500]
