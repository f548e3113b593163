"""Errors of calls: the server is down, the call may have run, the result is unreadable."""

import re
from typing import TypeVar, cast
from urllib.parse import urlsplit

from toolgate.base.processes.error_line import failure_text
from toolgate.errors import (
    ConnectionLostError,
    InvalidAnswerError,
    RpcError,
    ServerDownError,
    TimedOutError,
    UpstreamError,
)
from toolgate.types import Json, ServerSpec, ServerStatus
from toolgate.upstream.python_tools.pack_server import LocalServer
from toolgate.upstream.transports._jsonrpc import excerpt

_URL = re.compile(r"https?://[^\s'\"<>]+")

AnyUpstreamError = TypeVar("AnyUpstreamError", bound=UpstreamError)
"""Any error of a server."""


def server_down_error(status: ServerStatus, *, has_ended: bool) -> ServerDownError:
    """The error for a call to an unreachable server.

    Args:
        status: The status of the server.
        has_ended: Whether the server was removed or restarted meanwhile.
    """
    name = status.name
    if status.state == "disabled":
        return ServerDownError.disabled(name, status.last_error or "")
    is_failure = status.last_error and not status.login_hint  # the hint says all about a login
    failure = failure_text(status.last_error or "", status.stderr_tail)
    detail = f"Last error: {failure}" if is_failure else ""
    # "Nothing was sent" would be wrong here: the call may have run.
    if has_ended:
        return ServerDownError(
            f"Server {name!r} was removed or restarted while the call ran.",
            hint="Call again, after checking whether it took effect.",
            retryable=False,
        )
    if status.state == "asleep":
        return ServerDownError(
            f"Server {name!r} could not be started; nothing was sent.",
            allowed=status.login_hint,
            detail=detail,
            hint=f"The next call tries again. See: toolgate servers test {name}",
        )
    soon = f" in {status.retry_in_s:g} s" if status.retry_in_s is not None else " now"
    return ServerDownError(
        f"Server {name!r} is {status.state}; nothing was sent.",
        allowed=status.login_hint,
        detail=detail,
        hint=f"Toolgate is retrying{soon}. See: toolgate doctor",
    )


def check_content(result: Json) -> None:
    """Refuse a tool result that no client could read.

    Raises:
        InvalidAnswerError: Its content is not a list of objects.
    """
    content: object = result.get("content", [])
    is_list = isinstance(content, list)
    if not is_list or not all(isinstance(block, dict) for block in cast("list[object]", content)):
        raise InvalidAnswerError(
            f"The server answered with content that is not a list of objects: {excerpt(content)}.",
            hint="Report it to the author of the server.",
        )


def slow_start_error(server: str, limit_s: float) -> ServerDownError:
    """The error for a call that timed out while its server was starting."""
    return ServerDownError(
        f"Server {server!r} did not start within the {limit_s:g} seconds of the call; nothing was"
        " sent.",
        hint="It is still starting: call again in a moment, or raise timeout_s under"
        f" [server.{server}].",
    )


def timed_out_error(spec: ServerSpec, target: str, limit_s: float) -> TimedOutError:
    """The error for a call that was not answered in time."""
    if isinstance(spec.options.get("target"), LocalServer):  # a pack, which has no such table
        return TimedOutError(
            f"{spec.name}: {target} did not answer within {limit_s:g} seconds.",
            allowed="Whether the call took effect is unknown.",
            hint="If it needs longer, let its code call context.report_progress in between.",
        )
    return TimedOutError(
        f"{spec.name}: {target} did not answer within {limit_s:g} seconds.",
        allowed="Whether the call took effect is unknown.",
        hint=f"Raise timeout_s under [server.{spec.name}] if it needs longer.",
    )


def may_have_run_error(server: str, target: str, lost: ConnectionLostError) -> ConnectionLostError:
    """The error for a call that is not retried because it may have run already."""
    return ConnectionLostError(
        f"The connection to server {server!r} ended while {target} was running: {lost.failed}",
        sent=True,
        allowed="The call may have run; it was not repeated, because the tool is not marked "
        "read-only or idempotent.",
        hint="Check whether it took effect before you call it again.",
    )


def without_address(error: AnyUpstreamError, spec: ServerSpec) -> AnyUpstreamError:
    """Mask the address of the server in a message; administrators get it in the detail."""
    url = spec.options.get("url")
    host = urlsplit(url).hostname if isinstance(url, str) else None
    if not host or host not in error.failed.lower() or isinstance(error, RpcError):
        return error  # what a server says itself is for its callers
    error.detail = error.failed
    masked = re.sub(
        rf"(?i){re.escape(host)}(:\d+)?", "[address]", _URL.sub("[address]", error.failed)
    )
    error.failed = masked if spec.name in masked else f"Server {spec.name!r}: {masked}"
    error.args = (" ".join(filter(None, (error.failed, error.allowed, error.hint))),)
    return error
