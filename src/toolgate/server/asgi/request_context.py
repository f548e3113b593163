"""The context of an HTTP request: its id, trace, log line, and error responses."""

import asyncio
import logging
import re
from time import perf_counter

from toolgate.base.ids import new_id
from toolgate.base.logs import REQUEST_ID
from toolgate.base.tracing import join_trace, observe, trace_of
from toolgate.server.asgi.authentication import CALLER
from toolgate.server.asgi.errors import send_error
from toolgate.server.asgi.memory_release import MemoryRelease
from toolgate.server.asgi.open_streams import OpenStreams
from toolgate.server.asgi.parsing.headers import HEADERS
from toolgate.server.asgi.parsing.json_parser import INTERNAL_ERROR, error_bytes
from toolgate.server.asgi.parsing.messages import App, Receive, Scope, Send, send_json
from toolgate.server.asgi.response import ResponseMonitor
from toolgate.server.asgi.running_requests import RunningRequests
from toolgate.store import store_deadline

log = logging.getLogger(__name__)

JSONRPC_ID = "toolgate.id"
"""Key of the JSON-RPC request id in a scope, for errors."""

BODY_BYTES = "toolgate.size"
"""Key of the size of the request body in a scope, in bytes."""

_LOGGABLE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
"""Request ids from clients that are used unchanged, because they are safe in logs; chosen."""

STORE_WAIT_S = 20.0
"""Seconds that a request waits for each transaction of the store; chosen: twice as long as
for a lock. Nothing else ends the wait for a database that hangs."""

_SHUT_DOWN = (
    "The gateway shut down before the answer came. Whether the request took effect is unknown."
)
_FAILED = "Internal error; the log of the gateway says more."


class RequestContext:
    """The outermost handler: responds to every exception."""

    def __init__(
        self,
        app: App,
        *,
        requests: RunningRequests,
        streams: OpenStreams,
        memory: MemoryRelease,
        logs_requests: bool,
    ) -> None:
        self._app = app
        self._requests = requests
        self._streams = streams
        self._memory = memory
        self._logs_requests = logs_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        headers: dict[bytes, bytes] = scope[HEADERS]
        path = path_template(scope["path"])
        request_id = headers.get(b"x-request-id", b"").decode("latin-1")
        if not _LOGGABLE_ID.fullmatch(request_id):
            request_id = new_id()
        REQUEST_ID.set(request_id)
        CALLER.set(None)
        began = perf_counter()
        response = ResponseMonitor(send, request_id)
        parent = headers.get(b"traceparent", b"").decode("latin-1")
        join_trace(trace_of(parent, headers.get(b"tracestate", b"").decode("latin-1")))
        try:
            with (
                store_deadline(STORE_WAIT_S, each=True),
                observe("request", method=scope["method"], path=path),
            ):
                await self._app(scope, receive, response)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and self._streams.is_revoked(task):
                task.uncancel()
                return  # the connection closes: the caller has lost access
            if not self._requests.is_ending:
                raise
            await _send_failure(response, scope, 503, _SHUT_DOWN, "shutting_down")
        except Exception:
            if response.is_complete:
                # The SDK may notice only after its response that a session has ended.
                log.debug("request failed after its answer", exc_info=True)
                return
            log.exception("request failed")
            await _send_failure(response, scope, 500, _FAILED, "internal")
        finally:
            if self._logs_requests:
                _log_request(scope, response, perf_counter() - began)
            self._memory.count(response.sent_bytes + scope.get(BODY_BYTES, 0))


async def _send_failure(
    response: ResponseMonitor, scope: Scope, status: int, message: str, code: str
) -> None:
    """Send an error in the format the client expects, unless the response is complete."""
    if response.is_complete:
        return
    if not response.has_begun and scope["path"].startswith(("/api/v1/", "/catalog/")):
        await send_error(response, status, code, message)
        return
    data = {"code": code, "retryable": False, "requestId": REQUEST_ID.get()}
    body = error_bytes(scope.get(JSONRPC_ID), INTERNAL_ERROR, message, data)
    if not response.has_begun:
        await send_json(response, status, body)
    elif response.is_stream and not response.is_within_event and scope.get(JSONRPC_ID) is not None:
        event = b"event: message\r\ndata: " + body + b"\r\n\r\n"
        await response({"type": "http.response.body", "body": event})


def path_template(path: str) -> str:
    """Return a path for metrics and spans, without names of objects."""
    if path.startswith("/api/"):
        return "/".join(path.split("/")[:3])
    return f"/{path.removeprefix('/').partition('/')[0]}"[:40]


def _log_request(scope: Scope, response: ResponseMonitor, took_s: float) -> None:
    """Log one line about a finished request, without its content."""
    caller = CALLER.get()
    log.info(
        "request",
        extra={
            "method": scope["method"],
            "path": scope["path"][:200],
            "status": response.status,
            "duration_ms": round(took_s * 1000, 1),
            "response_bytes": response.sent_bytes,
            "caller": caller.caller_id if caller is not None else None,
        },
    )
