"""Asks the client to open a login page, where it can."""

from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from toolgate.errors import LoginNeededError, RpcError
from toolgate.types import Json, Peer, json_object

__all__ = ["login_request_result", "strip_login_answer"]

_QUESTION = "toolgate/login"
_ELICITATION_REQUIRED = -32042
"""https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation"""


def login_request_result(needed: LoginNeededError, peer: Peer | None) -> Json | None:
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


def strip_login_answer(params: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The parameters without the answer to our question, and whether it was yes."""
    answers = json_object(params.get("inputResponses"))
    if _QUESTION not in answers:
        return params, False
    action = json_object(answers[_QUESTION]).get("action")
    remaining = {name: answer for name, answer in answers.items() if name != _QUESTION}
    rest = {name: value for name, value in params.items() if name != "inputResponses"}
    return {**rest, "inputResponses": remaining} if remaining else rest, action == "accept"
