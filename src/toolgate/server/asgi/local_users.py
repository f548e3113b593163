"""Refuses other users of this machine unless they present the gateway's local key."""

import hmac

from toolgate.app.app import App as Gateway
from toolgate.errors import CredentialError
from toolgate.server.asgi.parsing.headers import HEADERS
from toolgate.server.asgi.parsing.http_parser import CONNECTION
from toolgate.server.asgi.parsing.messages import Scope
from toolgate.server.asgi.peer_process import has_other_users, is_same_user

_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that need no credentials."""

_STATIC_FILES = "/console/static/"
"""Static files of the package, which pages load, including the refusal page."""


class LocalKey:
    """The key that identifies relays and commands of the same user."""

    def __init__(self, key: str) -> None:
        self._bearer = b""
        self._key = b""
        self.replace(key)

    def replace(self, key: str) -> None:
        """Use another key; an empty one matches no request."""
        self._key = key.encode()
        self._bearer = b"Bearer " + self._key

    def is_relay(self, scope: Scope) -> bool:
        """Whether a request comes from a `toolgate stdio` of the same user."""
        if not self._key:
            return False
        authorization = scope[HEADERS].get(b"authorization", b"")
        return hmac.compare_digest(authorization, self._bearer)

    def is_presented(self, scope: Scope) -> bool:
        """Whether a request presents the key in one of the two headers."""
        presented = scope[HEADERS].get(b"x-toolgate-key", b"")
        return self.is_relay(scope) or (
            bool(self._key) and hmac.compare_digest(presented, self._key)
        )


class LocalUsers:
    """Decides whether a request comes from another user of this machine."""

    def __init__(self, gateway: Gateway, key: LocalKey) -> None:
        settings = gateway.settings
        self._key = key
        self.allows_others = settings.auth != "local" or (
            not has_other_users()
            if settings.allow_other_users is None
            else settings.allow_other_users
        )
        """Whether all users of this machine are allowed."""

    async def refusal(self, scope: Scope) -> CredentialError | None:
        """Return why a request is refused; None if it is allowed."""
        path: str = scope["path"]
        if self.allows_others or path in _OPEN_PATHS or path.startswith(_STATIC_FILES):
            return None
        if self._key.is_presented(scope) or not await _is_other_user(scope):
            return None
        return CredentialError(
            "This gateway is only for the user that runs it; the request comes from another"
            " user of this machine.",
            was_presented=False,
            hint="Its administrator can set allow_other_users = true, or "
            'auth = "required" and hand out tokens.',
        )


async def _is_other_user(scope: Scope) -> bool:
    connection: dict[str, bool] | None = scope.get(CONNECTION)
    client, server = scope.get("client"), scope.get("server")
    if connection is None:
        return False  # a program that embeds the gateway decides who can connect
    if client is None or server is None:
        return True
    if "is_other_user" not in connection:
        same = await is_same_user(tuple(client), tuple(server))
        connection["is_other_user"] = same is not True
    return connection["is_other_user"]
