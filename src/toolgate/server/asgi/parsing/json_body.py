"""Reads the JSON object of a REST request, or refuses it."""

from typing import cast

from toolgate.server.asgi.parsing.headers import header
from toolgate.server.asgi.parsing.json_parser import parse_json_async
from toolgate.server.asgi.parsing.messages import Receive, Scope, read_body
from toolgate.types import Json

_FORM_TYPES = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""Types that pages of other origins can send without a preflight request: always refused, even
without a body."""


class HttpError(Exception):
    """A request that is refused with an error before it reaches the gateway."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint


async def json_body(
    scope: Scope, receive: Receive, *, max_bytes: int, max_depth: int, may_be_empty: bool = False
) -> Json:
    """Return the JSON object in the body; empty if there is no body and that is allowed.

    Raises:
        HttpError: The content type is not JSON, or the body is not an object.
        TooLargeError: The body has more than `max_bytes`.
        BadMessageError: The body is not JSON, or is nested deeper than `max_depth`.
    """
    content_type = header(scope, b"content-type") or ""
    kind = content_type.partition(";")[0].strip().lower()
    is_json = kind == "application/json"
    if not is_json and not may_be_empty:
        raise _other_type(content_type)  # whoever answers reads the rest, if it is to be read
    raw = await read_body(scope, receive, max_bytes=max_bytes)
    if not is_json and (raw or kind in _FORM_TYPES):
        raise _other_type(content_type)
    if not raw and may_be_empty:
        return {}
    body = await parse_json_async(raw, max_depth=max_depth)
    if not isinstance(body, dict):
        raise HttpError(400, "bad_request", "The body must be a JSON object.")
    return cast("Json", body)


def _other_type(content_type: str) -> HttpError:
    return HttpError(
        415,
        "media_type",
        f"The Content-Type is {content_type[:100]!r}.",
        "Send the body as application/json.",
    )
