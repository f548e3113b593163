"""What a reverse proxy in front says of a request: who sent it, over what, for which host."""

import ipaddress
from collections.abc import Sequence

from toolgate.server.asgi.host_check import header
from toolgate.server.asgi.messages import Scope

__all__ = ["Proxied"]


class Proxied:
    """Reads `X-Forwarded-*` of proxies that are trusted, and takes away the path of the gateway.

    Of anybody else these headers are only text.
    """

    def __init__(self, trusted: Sequence[str], root_path: str) -> None:
        self._trusted = [ipaddress.ip_network(one, strict=False) for one in trusted]
        self._root_path = root_path

    def seen(self, scope: Scope) -> Scope:
        """The request as the client sent it."""
        if not self._trusted and not self._root_path:
            return scope
        seen = {**scope, **self._forwarded(scope)}
        if self._root_path:
            seen["root_path"] = self._root_path
            rest = seen["path"].removeprefix(self._root_path)
            if rest.startswith("/") and rest != seen["path"]:
                seen["path"] = rest
        return seen

    def _forwarded(self, scope: Scope) -> Scope:
        peer = scope.get("client")
        if peer is None or not self._is_trusted(str(peer[0])):
            return {}
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        found: Scope = {}
        if client := self._client(header(headers, b"x-forwarded-for") or ""):
            found["client"] = (client, 0)
        scheme = _last(header(headers, b"x-forwarded-proto") or "").lower()
        if scheme in {"http", "https"}:
            found["scheme"] = scheme
        if host := _last(header(headers, b"x-forwarded-host") or ""):
            kept = [pair for pair in headers if pair[0] != b"host"]
            found["headers"] = [(b"host", host.encode("latin-1")), *kept]
        return found

    def _client(self, text: str) -> str:
        """The last address that is none of our proxies: all before it anybody can have written."""
        for part in reversed([one.strip() for one in text.split(",")]):
            if not part or not self._is_trusted(part):
                return part if _address_of(part) is not None else ""
        return ""

    def _is_trusted(self, text: str) -> bool:
        address = _address_of(text)
        return address is not None and any(address in network for network in self._trusted)


def _address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _last(text: str) -> str:
    return text.rpartition(",")[2].strip()
