"""Error responses of the REST APIs, as problem details (RFC 9457)."""

from toolgate.base.logs import REQUEST_ID
from toolgate.gateway.visible_catalog import VisibleCatalog
from toolgate.server.asgi.authentication import CALLER
from toolgate.server.asgi.parsing.messages import Send, send_json
from toolgate.types import Json

__all__ = ["sees_details", "send_error"]


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
    """Answer with an error; the member `error` has everything that programs need."""
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


def sees_details(visible: VisibleCatalog) -> bool:
    """Whether whoever sent the current request may read the details of errors."""
    caller = CALLER.get()
    return caller is not None and visible.manages(caller)
