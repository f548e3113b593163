"""Passes a server's questions to the client when they speak different protocol eras.

A handshake-era server asks in the middle of a call and waits. A modern client is asked by the
result of its call and answers with a new call. So:

| server | client | what happens |
|---|---|---|
| modern | modern | `input_required` results and retries with answers are passed on unchanged |
| handshake | handshake | the question is passed on unchanged |
| modern | handshake | the bridge sends each question to the client and retries with the answer |
| handshake | modern | the call is parked, the client gets `input_required`, its retry resumes it |

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from time import time
from typing import Any

from toolgate.base.signing import Signer
from toolgate.errors import CannotAskError, HandleError, InvalidAnswerError, ToolgateError
from toolgate.types import Caller, Json, Peer, json_object
from toolgate.upstream.calls.client_call import ClientCall

# Rounds of questions in one call (chosen: a server that asks forever must not hold a client).
_MAX_ROUNDS = 10
_PURPOSE = "requestState"

Send = Callable[[Mapping[str, Any], ClientCall], Awaitable[Json]]
"""Sends the parameters to the server and returns its result, with deadline and retries."""


@dataclass(kw_only=True, eq=False)
class _Question:
    method: str
    params: Json
    answer: "asyncio.Future[Json]"


@dataclass(kw_only=True, eq=False)
class _ParkedCall:
    """A call to a handshake-era server that waits for its modern client's answer."""

    call: ClientCall
    task: "asyncio.Task[Json]"
    owner: tuple[str, str, str, str]
    questions: "asyncio.Queue[_Question]"
    asked: _Question | None = None
    expiry: asyncio.TimerHandle | None = None


class EraBridge:
    """Passes questions across eras; one for all servers of a gateway."""

    def __init__(self, signer: Signer, *, park_s: float = 300.0, max_parked: int = 1000) -> None:
        self._signer = signer
        self._park_s = park_s
        self._max_parked = max_parked
        self._parked: dict[str, _ParkedCall] = {}

    def resumes(self, params: Mapping[str, Any]) -> bool:
        """Whether a request resumes a call that is parked here."""
        state = params.get("requestState")
        return isinstance(state, str) and self._signer.signed(_PURPOSE, state)

    async def drive(self, params: Mapping[str, Any], call: ClientCall, send: Send) -> Json:
        """Ask a handshake-era client for a modern server until the result is complete."""
        current: Mapping[str, Any] = params
        # A server that keeps asking would hold the call and its client forever.
        for _ in range(_MAX_ROUNDS):
            result = await send(current, call)
            if result.get("resultType") != "input_required":
                return result
            questions = json_object(result.get("inputRequests"))
            # A state without questions is allowed: the server wants to be called again.
            if not questions and "requestState" not in result:
                raise InvalidAnswerError(
                    "The server answered that it needs input, and asked nothing.",
                    hint="Report this to the author of the server.",
                )
            answers: Json = {}
            for key, raw in questions.items():
                asked = json_object(raw)
                method = str(asked.get("method"))
                answers[key] = await call.ask(method, json_object(asked.get("params")))
            # Based on the first parameters, not the last: answers of earlier rounds are in the
            # state.
            again: Json = {**params, "inputResponses": answers}
            if "requestState" in result:
                again["requestState"] = result["requestState"]
            current = again
        raise InvalidAnswerError(
            f"The server asked the client more than {_MAX_ROUNDS} times for one call.",
            hint="Report this to the author of the server.",
        )

    async def run_parkable(
        self,
        params: Mapping[str, Any],
        call: ClientCall,
        send: Send,
        *,
        caller: Caller,
        server: str,
        target: str,
    ) -> Json:
        """Run a modern client's call to a handshake-era server; park it if the server asks.

        Raises:
            HandleError: The request claims to resume a call, but only parked calls can be
                resumed.
        """
        if "requestState" in params or "inputResponses" in params:
            raise HandleError(
                "The request claims to continue a call, but no such call waits here.",
                allowed=f"A state is good once, for {self._park_s:g} seconds, unchanged.",
                hint="Call the tool again without requestState and inputResponses.",
            )
        questions: asyncio.Queue[_Question] = asyncio.Queue()

        async def answer(method: str, asked: Json) -> Json:
            question = _Question(
                method=method, params=asked, answer=asyncio.get_running_loop().create_future()
            )
            questions.put_nowait(question)
            return await question.answer

        # The call runs in its own task, since it outlives the request that began it.
        call.answer = answer
        task = asyncio.ensure_future(send(params, call))
        parked = _ParkedCall(
            call=call,
            task=task,
            owner=(caller.project_id, caller.caller_id, server, target),
            questions=questions,
        )
        return await self._wait(parked)

    async def resume(
        self, params: Mapping[str, Any], peer: Peer, *, caller: Caller, server: str, target: str
    ) -> Json:
        """Resume a parked call.

        Raises:
            HandleError: The state is unknown, expired, altered, or belongs to another call.
        """
        payload = self._signer.check(_PURPOSE, str(params.get("requestState")))
        key = str(payload.get("id"))
        parked = self._parked.get(key)
        owner = (caller.project_id, caller.caller_id, server, target)
        # One error for all three: other callers must not learn that a state exists.
        if parked is None or parked.asked is None or parked.owner != owner:
            raise HandleError(
                "No call of this requestState waits for an answer here.",
                allowed=f"A state is good once, for {self._park_s:g} seconds, for the same call.",
                hint="Call the tool again without requestState.",
            )
        # Valid once: a request sent twice would answer the server twice.
        del self._parked[key]
        assert parked.expiry is not None
        parked.expiry.cancel()
        # The server's next question goes to the new connection.
        parked.call.peer = peer
        question, parked.asked = parked.asked, None
        responses = json_object(params.get("inputResponses"))
        if key not in responses:
            question.answer.set_exception(
                CannotAskError(
                    "The client continued the call without answering the server's question.",
                    allowed=f"inputResponses needs the key {key!r}.",
                    hint="Call the tool again.",
                )
            )
        else:
            question.answer.set_result(json_object(responses[key]))
        return await self._wait(parked)

    def close(self) -> None:
        """Stop all parked calls."""
        for key in list(self._parked):
            self._expire(key)

    async def _wait(self, parked: _ParkedCall) -> Json:
        """Return the result of the call, or `input_required` if the server asks first."""
        asked = asyncio.ensure_future(parked.questions.get())
        try:
            await asyncio.wait({parked.task, asked}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            asked.cancel()
            parked.task.cancel()
            with suppress(asyncio.CancelledError, ToolgateError):
                await parked.task
            raise
        # A result takes precedence over a simultaneous question: nobody needs the answer any more.
        if not asked.done() or parked.task.done():
            asked.cancel()
            return await parked.task
        return self._park(parked, asked.result())

    def _park(self, parked: _ParkedCall, question: _Question) -> Json:
        if len(self._parked) >= self._max_parked:
            # The one that has waited longest; a dict keeps the order.
            self._expire(next(iter(self._parked)))
        key = f"q{token_hex(12)}"
        parked.asked = question
        parked.expiry = asyncio.get_running_loop().call_later(self._park_s, self._expire, key)
        self._parked[key] = parked
        state = self._signer.sign(_PURPOSE, {"id": key, "exp": int(time() + self._park_s)})
        return {
            "resultType": "input_required",
            "inputRequests": {key: {"method": question.method, "params": question.params}},
            "requestState": state,
        }

    def _expire(self, key: str) -> None:
        parked = self._parked.pop(key, None)
        if parked is None:
            return
        if parked.expiry is not None:
            parked.expiry.cancel()
        if parked.asked is not None and not parked.asked.answer.done():
            parked.asked.answer.set_exception(
                CannotAskError(
                    f"The client did not answer the server within {self._park_s:g} seconds.",
                    hint="Call the tool again.",
                )
            )
        parked.task.add_done_callback(_retrieve_exception)


def _retrieve_exception(task: "asyncio.Task[Json]") -> None:
    """Retrieve the error of an expired call, so that asyncio does not report it as lost."""
    if not task.cancelled():
        task.exception()
