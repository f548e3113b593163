"""Asks the client to open a login page, if it can."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_hex
from time import monotonic
from typing import Any

import anyio

from toolgate.errors import LoginNeededError, RpcError
from toolgate.types import Json, Peer, json_object

_QUESTION = "toolgate/login"
_LOGIN_WAIT_S = 120.0
"""Seconds a call waits after its caller has opened the login page."""
_ELICITATION_REQUIRED = -32042
"""https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation"""


async def request_with_login(
    send: Callable[[Mapping[str, Any]], Awaitable[Json]],
    params: Mapping[str, Any],
    peer: Peer | None,
    *,
    relogged: Callable[[], asyncio.Event],
) -> Json:
    """Return the answer to a request, or a question whether its caller wants to log in.

    Args:
        send: Sends the request.
        params: The parameters, possibly with the answer to our question.
        peer: The connection to the client.
        relogged: Returns the event of the next login.

    Raises:
        LoginNeededError: The caller has to log in, and cannot be asked.
    """
    params, is_back = _without_login_answer(params)
    # A client that answers has opened the page, and its user may still be logging in.
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
    """The result that asks a modern-era client to open the page; None if it cannot be asked.

    Raises:
        RpcError: The error that asks a handshake-era client to do so.
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
    """The parameters without the answer to our question, and whether the answer was yes."""
    answers = json_object(params.get("inputResponses"))
    if _QUESTION not in answers:
        return params, False
    action = json_object(answers[_QUESTION]).get("action")
    remaining = {name: answer for name, answer in answers.items() if name != _QUESTION}
    rest = {name: value for name, value in params.items() if name != "inputResponses"}
    return {**rest, "inputResponses": remaining} if remaining else rest, action == "accept"
