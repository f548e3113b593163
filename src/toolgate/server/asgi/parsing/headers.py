"""Request headers, parsed once per request."""

from collections.abc import Iterable

from toolgate.server.asgi.parsing.messages import Scope

HEADERS = "toolgate.headers"
"""Key of the headers in a scope, a `dict[bytes, bytes]` by lower-case name.

It has the last value of a repeated header. `HttpApplication` fills it for each request.
"""


def header(scope: Scope, name: bytes) -> str | None:
    """Return the value of a request header; `name` in lower case."""
    value: bytes | None = scope[HEADERS].get(name)
    return None if value is None else value.decode("latin-1")


def header_in(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """Return the last value of a header in a list; `name` in lower case."""
    last = None
    for key, value in headers:
        if key == name:
            last = value
    return None if last is None else last.decode("latin-1")
