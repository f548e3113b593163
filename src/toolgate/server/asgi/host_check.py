"""Checks the headers `Host` and `Origin` before anything else reads a request.

Against DNS rebinding, a request must name the gateway by an address that no foreign page can
have. Against forged requests, a page of another origin is refused, and a body must be declared
as JSON, which browsers send across origins only after a preflight request.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from toolgate.security.addresses import is_loopback, parse_address
from toolgate.server.asgi.parsing.headers import HEADERS
from toolgate.server.asgi.parsing.messages import Scope

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_MAX_REMEMBERED = 1024
"""Pairs of `Host` and `Origin` whose decision is cached; chosen."""


@dataclass(frozen=True, kw_only=True)
class HostRefusal:
    """The reason for refusing a request."""

    status: int
    """HTTP status."""

    message: str
    """One or two sentences for people."""


class HostCheck:
    """Decides by the headers alone, and caches decisions."""

    def __init__(self, *, host: str, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._local = is_loopback(host)
        self._hosts = frozenset(hosts)
        self._origins = frozenset(origins)
        self._decided: dict[tuple[bytes | None, bytes | None], HostRefusal | None] = {}

    def check(self, scope: Scope) -> HostRefusal | None:
        """Return why a request is refused; None if it is allowed."""
        # RFC 9112 section 3.2: a proxy may have checked another of the Host headers.
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            return HostRefusal(status=400, message="The request has more than one Host header.")
        headers: dict[bytes, bytes] = scope[HEADERS]
        host, origin = headers.get(b"host"), headers.get(b"origin")
        key = (host, origin)
        try:
            return self._decided[key]
        except KeyError:
            refusal = self._check_host(host) or self._check_origin(origin, host)
            if len(self._decided) < _MAX_REMEMBERED:
                self._decided[key] = refusal
            return refusal

    def may_read(self, origin: bytes) -> bool:
        """Whether the settings allow pages of this origin to read responses.

        Pages of this machine that are not in the settings may connect, as programs do, but not
        read.
        """
        return _matches(origin.decode("latin-1").strip().lower(), self._origins)

    def _check_host(self, raw: bytes | None) -> HostRefusal | None:
        host = (raw or b"").decode("latin-1").strip().lower()
        name = _without_port(host)
        if host and (name in _LOOPBACK_NAMES or _matches(host, self._hosts)):
            return None
        # A page using DNS rebinding cannot send an address as its Host.
        if not self._local and parse_address(name) is not None:
            return None
        return HostRefusal(
            status=421,
            message=f"The Host header {host!r} is not one that this gateway serves."
            " Add it to serve.allowed_hosts if it is right.",
        )

    def _check_origin(self, raw: bytes | None, host: bytes | None) -> HostRefusal | None:
        if raw is None:
            return None
        origin = raw.decode("latin-1").strip().lower()
        scheme, _, authority = origin.partition("://")
        if scheme in {"http", "https"} and (
            _without_port(authority) in _LOOPBACK_NAMES
            or authority.encode("latin-1") == (host or b"").lower()
        ):
            return None
        if _matches(origin, self._origins):
            return None
        return HostRefusal(
            status=403,
            message=f"The Origin header {origin!r} is not allowed here."
            " Add it to serve.allowed_origins if it is right.",
        )


def _matches(value: str, allowed: frozenset[str]) -> bool:
    if value in allowed or "*" in allowed:
        return True
    head, colon, port = value.rpartition(":")
    return bool(colon) and port.isdigit() and f"{head}:*" in allowed


def _without_port(host: str) -> str:
    head, colon, port = host.rpartition(":")
    return head if colon and port.isdigit() and not head.endswith(":") else host
