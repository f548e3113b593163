"""Calls of a program that a person approves: told as one list, and asked about in one question."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from toolgate.gateway.programs.run import ParkedCall
from toolgate.security.guards import APPROVAL_QUESTION
from toolgate.types import Json, json_object

__all__ = ["continuation_of", "counted", "questions_of"]

_ALL: Final = "approvals"
"""Key of the question about all calls; those of single calls have their number in front."""

_MOST: Final = 50
"""Calls that one question is about: a person has to read them (chosen)."""


def counted(functions: Iterable[str]) -> str:
    """How often each function is called: `14 × github.create_issue, github.close_issue`."""
    counts = Counter(functions)
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def questions_of(calls: Sequence[ParkedCall]) -> Json:
    """The questions of calls that wait, by key, as an `input_required` result has them.

    Those about approvals are one question, as long as a person can read what it is about.
    """
    to_approve = [call for call in calls if call.is_approval]
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
    """What a parked call goes on with, beside its arguments.

    Args:
        call: The call.
        responses: The answers of the client, by the keys of `questions_of`.
    """
    if call.request_state is None and not call.questions:
        return {}
    prefix = f"{call.call_id}."
    answers = {k.removeprefix(prefix): v for k, v in responses.items() if k.startswith(prefix)}
    # The signed state of a call names its approval; a question of a server takes no such answer.
    if _ALL in responses and call.is_approval:
        answers.setdefault(APPROVAL_QUESTION, responses[_ALL])
    state = {} if call.request_state is None else {"requestState": call.request_state}
    return {**state, "inputResponses": answers}


def _question(calls: Sequence[ParkedCall]) -> Json:
    """One question about all calls, from those about each, whose texts have no secrets."""
    asked = [json_object(call.questions[APPROVAL_QUESTION]) for call in calls]
    texts = [str(json_object(question.get("params")).get("message", "")) for question in asked]
    lines = [f"* {text.partition(chr(10))[0].removesuffix('?')}" for text in texts]
    reasons = dict.fromkeys(line for text in texts for line in text.splitlines()[1:-1])
    summary = counted(call.function for call in calls)
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
