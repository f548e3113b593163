"""A program's calls that need approval: shown as one list, and asked about in one question."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from toolgate.base import json_text
from toolgate.errors import ProgramError
from toolgate.gateway.programs.run import ParkedCall
from toolgate.security.guards import APPROVAL_QUESTION
from toolgate.types import Json, json_object

_ALL: Final = "approvals"
"""Key of the question about all calls; keys of single calls start with their number."""

_MOST: Final = 50
"""Calls in one question or message (chosen: a person has to read them)."""


def _counted(functions: Iterable[str]) -> str:
    """The number of calls of each function: `14 × github.create_issue, github.close_issue`."""
    counts = Counter(functions)
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def parked_error(
    program_id: str, calls: Sequence[ParkedCall], *, page: str, is_saved: bool
) -> ProgramError:
    """The error of a program that waits for approvals; it lists the calls and says what to do.

    Args:
        program_id: The program.
        calls: The calls that it waits for.
        page: Where people decide.
        is_saved: Whether it is a tool, which the same call resumes: its caller may not see
            `tool_program`.
    """
    shown = "\n".join(f"* {_text_of(call)}: {call.approval_id}" for call in calls[:_MOST])
    count = f"{len(calls)} call{'' if len(calls) == 1 else 's'}"
    summary = _counted(call.function for call in calls)
    again = (
        "make the same call again, with the same arguments: it resumes the program."
        if is_saved
        else f'resume the program with tool_program {{"resume": "{program_id}"}}.'
    )
    error = ProgramError(
        f"The program is parked: a person has to approve {count} that it wants to make: {summary}.",
        allowed=f"\n{shown}\n",
        # No command: a model with a shell would run it.
        hint=f"Ask the user to decide on {page}. Then {again}",
    )
    error.is_waiting = True
    error.waiting = waiting_of(program_id, calls, page=page)
    error.retryable = True
    return error


def waiting_of(program_id: str, calls: Sequence[ParkedCall], *, page: str) -> Json:
    """What a program waits for, as JSON: its `id`, the `page` and the `calls`."""
    return {
        "id": program_id,
        "page": page,
        "calls": [
            {
                "approval_id": call.approval_id,
                "function": call.function,
                "arguments": call.arguments,
                "text": _text_of(call),
            }
            for call in calls
        ],
    }


def questions_of(calls: Sequence[ParkedCall]) -> Json:
    """The questions of waiting calls, by key, as in an `input_required` result.

    Those about approvals are merged into one question, if a person can still read it.
    """
    to_approve = [call for call in calls if call.asks_approval]
    if not 2 <= len(to_approve) <= _MOST:
        to_approve = []
    single = [call for call in calls if call not in to_approve]
    questions: Json = {
        f"{call.call_id}.{key}": question
        for call in single
        for key, question in call.questions.items()
    }
    return {_ALL: _question(to_approve), **questions} if to_approve else questions


def continuation_of(call: ParkedCall, responses: Json) -> Json:
    """The parameters with which a parked call continues, in addition to its arguments.

    Args:
        call: The call.
        responses: The answers of the client, by the keys of `questions_of`.
    """
    if call.request_state is None and not call.questions:
        return {}
    prefix = f"{call.call_id}."
    answers = {k.removeprefix(prefix): v for k, v in responses.items() if k.startswith(prefix)}
    # The call's signed state names its approval; a server's own question takes no such answer.
    if _ALL in responses and call.asks_approval:
        answers.setdefault(APPROVAL_QUESTION, responses[_ALL])
    state = {} if call.request_state is None else {"requestState": call.request_state}
    return {**state, "inputResponses": answers}


def _question(calls: Sequence[ParkedCall]) -> Json:
    """Merge the questions about single calls, whose texts contain no secrets, into one."""
    asked = [json_object(call.questions[APPROVAL_QUESTION]) for call in calls]
    texts = [str(json_object(question.get("params")).get("message", "")) for question in asked]
    lines = [f"* {text.partition(chr(10))[0].removesuffix('?')}" for text in texts]
    reasons = dict.fromkeys(line for text in texts for line in text.splitlines()[1:-1])
    summary = _counted(call.function for call in calls)
    message = "\n".join(
        [
            f"This program will make {len(calls)} calls: {summary}. Run all of them?",
            *lines,
            *reasons,
        ]
    )
    params = json_object(asked[0].get("params"))
    schema = json_object(params.get("requestedSchema"))
    properties = json_object(schema.get("properties"))
    approve = {**json_object(properties.get("approve")), "title": "Run them all"}
    approve["description"] = "Whether the calls are made, each once, with these arguments."
    form = {**schema, "properties": {**properties, "approve": approve}}
    return {**asked[0], "params": {**params, "message": message, "requestedSchema": form}}


def _text_of(call: ParkedCall) -> str:
    return f"{call.function}({json_text.dumps(call.arguments).decode()[:200]})"
