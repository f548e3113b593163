"""Error responses of the REST APIs, as problem details (RFC 9457).

`send_failure` is the one place that maps an exception to a status and a body.
"""

import logging
from collections.abc import Mapping

from toolgate.app.app import App
from toolgate.base.logs import REQUEST_ID
from toolgate.errors import ApprovalError, CredentialError, LimitError, RpcError, ToolgateError
from toolgate.server.asgi.authentication import CALLER, challenge_headers, refusal_status
from toolgate.server.asgi.parsing.json_body import HttpError
from toolgate.server.asgi.parsing.json_parser import BadMessageError
from toolgate.server.asgi.parsing.messages import (
    DisconnectedError,
    Receive,
    Scope,
    Send,
    TooLargeError,
    discard_body,
    send_json,
    with_header,
)
from toolgate.types import Json

log = logging.getLogger(__name__)

_STATUS: Mapping[str, int] = {
    "argument": 400,
    "decided": 409,
    "guard": 403,
    "config": 400,
    "handle": 400,
    "access": 401,
    "forbidden": 403,
    "limit": 429,
    "catalog": 404,
    "document": 422,
    "program": 422,
    "embedder": 503,
    "unreachable": 503,
    "timed_out": 504,
    "cannot_ask": 409,
    "login_needed": 424,
    "upstream": 502,
    "store": 503,
    "unknown_model": 404,
    "context_too_long": 400,
    "model_request": 400,
    "model_rate": 429,
    "model_timeout": 504,
    "model": 502,
}
"""HTTP status by `ToolgateError.code`, of the error's class or its nearest base class."""


async def send_failure(
    error: Exception, app: App, scope: Scope, receive: Receive, send: Send
) -> None:
    """Respond to a request of `/api/v1` that failed."""
    match error:
        case DisconnectedError():
            return
        case HttpError():
            await send_error(send, error.status, error.code, error.message, hint=error.hint)
        case BadMessageError():
            await send_error(send, 400, "bad_request", error.message)
        case TooLargeError():
            limit = app.settings.serve.max_body_bytes
            message = (
                f"The request body is larger than {limit} bytes (setting serve.max_body_bytes)."
            )
            closing = with_header(send, b"connection", b"close")
            await send_error(discard_body(closing, scope, receive), 413, "too_large", message)
        case RpcError():
            rpc: Json = {"code": error.rpc_code, "data": error.data}
            await send_error(send, 502, "rpc", error.message, rpc=rpc)
        case ToolgateError():
            await _send_toolgate_error(error, app, scope, receive, send)
        case _:
            log.error("request failed", exc_info=error)
            message = "Internal error; the log of the gateway says more."
            await send_error(send, 500, "internal", message)


async def _send_toolgate_error(
    error: ToolgateError, app: App, scope: Scope, receive: Receive, send: Send
) -> None:
    caller = CALLER.get()
    sees_detail = caller is not None and app.gateway.visible.manages(caller)
    status, message = _status_of(error), error.summary(with_detail=sees_detail)
    approval: Json | None = None
    if isinstance(error, ApprovalError):
        approval = {"id": error.approval_id, "state": error.state, "expires_at": error.expires_at}
    elif isinstance(error, LimitError):
        message = error.failed
        send = with_header(send, b"retry-after", str(max(1, round(error.wait_s))).encode())
    elif isinstance(error, CredentialError):
        status, message = refusal_status(error), error.failed
        for name, value in challenge_headers(error, scope, app.settings.authn.resource):
            send = with_header(send, name, value)
        send = discard_body(send, scope, receive)  # its body was not read
    await send_error(
        send,
        status,
        error.code,
        message,
        hint=error.hint,
        retryable=error.retryable,
        approval=approval,
    )


async def send_error(
    send: Send,
    status: int,
    code: str,
    message: str,
    *,
    hint: str = "",
    retryable: bool = False,
    rpc: Json | None = None,
    approval: Json | None = None,
) -> None:
    """Respond with an error; the member `error` has everything that programs need."""
    error: Json = {
        "code": code,
        "message": message,
        "hint": hint,
        "retryable": retryable,
        "request_id": REQUEST_ID.get(),
    }
    if rpc is not None:
        error["rpc"] = rpc
    if approval is not None:
        error["approval"] = approval
    problem: Json = {
        "type": f"urn:toolgate:error:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": f"{message} {hint}".strip(),
        "instance": f"urn:toolgate:request:{REQUEST_ID.get()}",
        "error": error,
    }
    await send_json(send, status, problem, kind=b"application/problem+json")


def _status_of(error: ToolgateError) -> int:
    for kind in type(error).__mro__:
        if issubclass(kind, ToolgateError) and kind.code in _STATUS:
            return _STATUS[kind.code]
    return 500
