"""Turns refusals of the SDK into clear errors for the current request."""

from toolgate.server.asgi.parsing.headers import header, header_in
from toolgate.server.asgi.parsing.json_parser import INVALID_REQUEST, error_bytes
from toolgate.server.asgi.parsing.messages import Message, Scope, Send, send_json

_KEPT = frozenset({b"allow", b"mcp-session-id"})
_MEDIA_TYPES = frozenset({406, 415})


def media_type_fault(scope: Scope) -> str:
    """Return what is wrong with the `Content-Type` of a POST; empty if nothing."""
    content_type = header(scope, b"content-type")
    if (content_type or "").partition(";")[0].strip().lower() == "application/json":
        return ""
    fault = "is missing" if content_type is None else f"is {content_type[:100]!r}"
    return f"The Content-Type {fault}. Allowed: application/json. Send the message as that."


def explain_errors(send: Send, scope: Scope, request_id: object) -> Send:
    """Return a `send` that replaces refusals without explanation by a JSON-RPC error.

    The SDK sends some of them with an empty body or plain text (mcp 2.3.0).
    """
    refusal: Message | None = None

    async def send_explained(message: Message) -> None:
        nonlocal refusal
        if message["type"] == "http.response.start" and _is_mute(message):
            refusal = message
        elif refusal is None:
            await send(message)
        elif not message.get("more_body", False):
            status: int = refusal["status"]
            headers = tuple(pair for pair in refusal.get("headers", ()) if pair[0] in _KEPT)
            body = error_bytes(request_id, INVALID_REQUEST, _words(scope, status))
            await send_json(send, status, body, headers=headers)

    return send_explained


def _is_mute(start: Message) -> bool:
    if start["status"] < 400:
        return False
    kind = header_in(start.get("headers", ()), b"content-type") or ""
    return start["status"] in _MEDIA_TYPES or not kind.startswith("application/json")


def _words(scope: Scope, status: int) -> str:
    method: str = scope["method"]
    if status == 405:
        return f"{method[:20]} is not possible here. Allowed: POST. Send a JSON-RPC message so."
    if status == 406:
        accept = header(scope, b"accept")
        fault = "is missing" if accept is None else f"is {accept[:100]!r}"
        needed = "text/event-stream" if method == "GET" else "application/json, text/event-stream"
        return f"The Accept header {fault}. It must allow: {needed}. Send exactly that."
    return media_type_fault(scope) or f"The request was refused with status {status}."
