"""Asks the client to open a login page, where it can."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_hex
from time import monotonic
from typing import Any

import anyio

from toolgate.errors import LoginNeededError, RpcError
from toolgate.types import Json, Peer, json_object

__all__ = ["request_with_login"]

_QUESTION = "toolgate/login"
_LOGIN_WAIT_S = 120.0
"""How long a call waits whose caller has opened the page of a login."""
_ELICITATION_REQUIRED = -32042
"""https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation"""


async def request_with_login(
    send: Callable[[Mapping[str, Any]], Awaitable[Json]],
    params: Mapping[str, Any],
    peer: Peer | None,
    *,
    relogged: Callable[[], asyncio.Event],
) -> Json:
    """The answer to a request, or the question whether its caller wants to log in.

    Args:
        send: Sends the request.
        params: Its parameters, maybe with the answer to our question.
        peer: The way back to the client.
        relogged: Gives the event of the next login.

    Raises:
        LoginNeededError: Its caller has to log in, and cannot be asked.
    """
    params, is_back = _without_login_answer(params)
    # Who comes back has opened the page, and may still be at it.
    until = monotonic() + (_LOGIN_WAIT_S if is_back else 0.0)
    while True:
        changed = relogged()
        try:
            return await send(params)
        except LoginNeededError as needed:
            with anyio.move_on_after(max(0.0, until - monotonic())):
                await changed.wait()
                continue
            question = _login_question(needed, peer)
            if question is None:
                raise
            return question


def _login_question(needed: LoginNeededError, peer: Peer | None) -> Json | None:
    """The result that asks a client of the modern era to open the page; None: it cannot be asked.

    Raises:
        RpcError: What asks a client of the handshake era to do so.
    """
    if peer is None or not needed.url:
        return None
    if "url" not in json_object(peer.capabilities.get("elicitation")):
        return None
    asked: Json = {
        "mode": "url",
        "url": needed.url,
        "message": f"Log in to the server {needed.server}, so that its tools work for you.",
    }
    if peer.era == "modern":
        question = {"method": "elicitation/create", "params": asked}
        return {"resultType": "input_required", "inputRequests": {_QUESTION: question}}
    data = {"elicitations": [{**asked, "elicitationId": token_hex(16)}]}
    raise RpcError(_ELICITATION_REQUIRED, str(needed), data)


def _without_login_answer(params: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The parameters without the answer to our question, and whether it was yes."""
    answers = json_object(params.get("inputResponses"))
    if _QUESTION not in answers:
        return params, False
    action = json_object(answers[_QUESTION]).get("action")
    remaining = {name: answer for name, answer in answers.items() if name != _QUESTION}
    rest = {name: value for name, value in params.items() if name != "inputResponses"}
    return {**rest, "inputResponses": remaining} if remaining else rest, action == "accept"
