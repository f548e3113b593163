"""Turns error responses of services into readable messages without secrets."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from toolgate.base.ids import utc_now
from toolgate.errors import (
    ContextTooLongError,
    ModelAuthError,
    ModelError,
    ModelRateError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from toolgate.types import json_object

_LONGEST = 300
"""Characters of a service's message: two or three lines (chosen)."""
_CLASSES = re.compile(r"^(?:[\w.]*(?:Error|Exception)\s*[:(]\s*)+")
_SECRET = re.compile(r"\b(?:sk|pk|key|rk|gsk|AIza)[-_][A-Za-z0-9_*.-]{6,}|Bearer\s+\S+")
_LENGTH = re.compile(
    r"context.{0,10}length|context.window|maximum context|too long|too many tokens|"
    r"token count.{0,40}exceeds|prompt is too long",
    re.IGNORECASE,
)


_SHORTEST_KEY = 6
"""Characters from which a key is masked: shorter ones also occur in words (chosen)."""


def said_by(text: str, key: str = "") -> str:
    """Return the first meaningful line, without class names, tracebacks and secrets."""
    before = text.partition("Traceback (most recent call last)")[0]
    line = next((line.strip() for line in before.splitlines() if line.strip()), "")
    line = _CLASSES.sub("", line)
    if len(key) >= _SHORTEST_KEY:
        line = line.replace(key, "…")
    line = _SECRET.sub("…", line)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def error_of(body: object, otherwise: str, key: str = "") -> str:
    """Return the message of an error body in OpenAI's format, or `otherwise`."""
    error: object = json_object(body).get("error", body)
    message = error if isinstance(error, str) else json_object(error).get("message")
    return said_by(message if isinstance(message, str) and message.strip() else otherwise, key)


def _is_about_length(code: object, text: str) -> bool:
    """Whether an error says that the conversation is too long."""
    return code == "context_length_exceeded" or _LENGTH.search(text) is not None


def wait_of(headers: Mapping[str, str]) -> float:
    """Return the seconds in `Retry-After`, which is a number or a date; 0 without one."""
    if milliseconds := headers.get("retry-after-ms"):
        try:
            return max(0.0, float(milliseconds) / 1000)
        except ValueError:
            pass
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return 0.0
    current_time = datetime.fromisoformat(utc_now())
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - current_time).total_seconds())


def status_error(
    identity: str, status: int, reason: str, *, code: object = None, wait_s: float = 0.0
) -> ModelError:
    """Return the error for a response with a status of 400 or more."""
    who = f"The model {identity}"
    match status:
        case 401 | 402 | 403:
            return ModelAuthError(
                f"{who} does not accept its key: {reason}",
                hint="Correct key under [models.NAME].",
            )
        case 429 if code == "insufficient_quota":
            return ModelAuthError(f"{who} reports that the account has no credit: {reason}")
        case 429:
            return ModelRateError(
                f"{who} accepts no more requests for now: {reason}", wait_s=wait_s
            )
        case 408 | 504:
            return ModelTimeoutError(f"{who} took too long: {reason}")
        case _ if status >= 500:
            return ModelUnavailableError(f"{who} failed with status {status}: {reason}")
        case _ if status == 413 or _is_about_length(code, reason):
            return ContextTooLongError(
                f"The conversation is too long for the model {identity}: {reason}",
                hint="Start a new thread, or send fewer messages.",
            )
        case _:
            return ModelRequestError(f"{who} refuses the request (status {status}): {reason}")


def unreached(identity: str) -> ModelUnavailableError:
    """Return the error for a service that cannot be reached or has disconnected."""
    return ModelUnavailableError(
        f"The model {identity} cannot be reached, or stopped in the middle of the answer.",
        hint="Check whether its service runs.",
    )


def late(identity: str) -> ModelTimeoutError:
    """Return the error for a service that did not accept a connection in time."""
    return ModelTimeoutError(
        f"The model {identity} could not be reached in time.",
        hint="Check whether its service runs.",
    )


def broken_off(identity: str, reason: str) -> ModelUnavailableError:
    """Return the error for a response that ended with an error."""
    return ModelUnavailableError(
        f"The model {identity} stopped in the middle of the answer: {reason}"
    )


def unreadable(identity: str) -> ModelUnavailableError:
    """Return the error for a response in an unknown format."""
    return ModelUnavailableError(
        f"The model {identity} sent an unreadable answer.",
        hint="Check url and model under [models.NAME].",
    )
