"""Request headers, read once per request and looked up from then on."""

from collections.abc import Iterable, Mapping

from toolgate.server.asgi.parsing.messages import Scope

__all__ = ["header", "header_in", "headers_of"]

_HEADERS = "toolgate.headers"


def headers_of(scope: Scope) -> Mapping[bytes, bytes]:
    """The headers by lower-case name; of a repeated header the last value."""
    headers: dict[bytes, bytes] | None = scope.get(_HEADERS)
    if headers is None:
        headers = scope[_HEADERS] = dict(scope["headers"])
    return headers


def header(scope: Scope, name: bytes) -> str | None:
    """The value of a request header; `name` in lower case."""
    value = headers_of(scope).get(name)
    return None if value is None else value.decode("latin-1")


def header_in(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The last value of a header of a response; `name` in lower case."""
    last = None
    for key, value in headers:
        if key == name:
            last = value
    return None if last is None else last.decode("latin-1")
