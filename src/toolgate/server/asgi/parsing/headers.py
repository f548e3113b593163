"""Request headers, read once per request and looked up from then on."""

from collections.abc import Iterable

from toolgate.server.asgi.parsing.messages import Scope

__all__ = ["HEADERS", "header", "header_in"]

HEADERS = "toolgate.headers"
"""The key of a scope under which its headers are, as `dict[bytes, bytes]` by lower-case name.

Of a repeated header it has the last value. `HttpApplication` reads them when a request comes.
"""


def header(scope: Scope, name: bytes) -> str | None:
    """The value of a request header; `name` in lower case."""
    value: bytes | None = scope[HEADERS].get(name)
    return None if value is None else value.decode("latin-1")


def header_in(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The last value of a header of a response; `name` in lower case."""
    last = None
    for key, value in headers:
        if key == name:
            last = value
    return None if last is None else last.decode("latin-1")
