"""Reverse proxy headers: client address, scheme and host of a request."""

import ipaddress
from collections.abc import Sequence

from toolgate.security.addresses import parse_address
from toolgate.server.asgi.parsing.headers import header_in
from toolgate.server.asgi.parsing.messages import Scope


class ForwardedHeaders:
    """Applies `X-Forwarded-*` headers of trusted proxies, and strips the gateway's path.

    From any other client these headers are ignored.
    """

    def __init__(self, trusted: Sequence[str], root_path: str) -> None:
        self._trusted = [ipaddress.ip_network(network, strict=False) for network in trusted]
        self._root_path = root_path

    @property
    def is_configured(self) -> bool:
        """Whether a proxy is in front of the gateway."""
        return bool(self._trusted or self._root_path)

    def apply(self, scope: Scope) -> Scope:
        """Return the request as the client sent it."""
        seen = {**scope, **self._forwarded(scope)}
        if self._root_path:
            seen["root_path"] = self._root_path
            rest = seen["path"].removeprefix(self._root_path)
            if rest.startswith("/") and rest != seen["path"]:
                seen["path"] = rest
        return seen

    def _forwarded(self, scope: Scope) -> Scope:
        peer = scope.get("client")
        if peer is None or not self.is_trusted(str(peer[0])):
            return {}
        changes: Scope = {}
        if client := self._client(header_in(scope["headers"], b"x-forwarded-for") or ""):
            changes["client"] = (client, 0)
        scheme = _last(header_in(scope["headers"], b"x-forwarded-proto") or "").lower()
        if scheme in {"http", "https"}:
            changes["scheme"] = scheme
        if host := _last(header_in(scope["headers"], b"x-forwarded-host") or ""):
            rest = [pair for pair in scope["headers"] if pair[0] != b"host"]
            changes["headers"] = [(b"host", host.encode("latin-1")), *rest]
        return changes

    def _client(self, text: str) -> str:
        """Return the last address not of a trusted proxy; earlier ones can be forged."""
        for part in reversed([item.strip() for item in text.split(",")]):
            if not part or not self.is_trusted(part):
                return part if parse_address(part) is not None else ""
        return ""

    def is_trusted(self, text: str) -> bool:
        """Whether an address belongs to a trusted proxy."""
        address = parse_address(text)
        return address is not None and any(address in network for network in self._trusted)


def _last(text: str) -> str:
    return text.rpartition(",")[2].strip()
