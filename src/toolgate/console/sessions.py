"""Console sessions: a cookie instead of a token, and a stored row that can be revoked.

The row holds the token, encrypted with a key derived from the cookie. A session therefore has
exactly the permissions of its token, which is checked with every request, and the database alone
reveals nothing.
"""

import hashlib
import hmac
from collections import OrderedDict
from dataclasses import replace
from secrets import token_bytes, token_urlsafe

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.requests import Request
from starlette.responses import Response

from toolgate.base.ids import utc_now
from toolgate.errors import CredentialError
from toolgate.security.access import Admission, PresentedCredentials
from toolgate.store import Store, StoredSession
from toolgate.types import CONSOLE, Caller

COOKIE = "toolgate_session"
"""Name of the cookie."""

SESSION_S = 12 * 3600
"""Seconds without a request after which a session ends (chosen: a working day)."""

_TOUCH_S = 300
"""Seconds between two updates of the last use (chosen: avoids a write for every page)."""

# Accepted sessions that a process remembers (chosen: more than use a console at a time).
_MAX_ACCEPTED = 1_000
_SECRET = "console"  # noqa: S105 - the name of the secret, not its value
_NONCE_BYTES = 12
"""Bytes: 96 bits, as NIST SP 800-38D, section 8.2, recommends for AES-GCM."""
_MOST_AGENT = 200
"""Characters of a browser's name (chosen: fits two lines)."""


class ConsoleSessions:
    """Opens, checks and ends sessions of the console."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self._store = store
        self._admission = admission
        self._key = b""
        self._accepted: OrderedDict[str, None] = OrderedDict()

    async def csrf(self, cookie: str) -> str:
        """Return the CSRF token of forms for the browser with this cookie."""
        if not self._key:
            self._key = await self._store.secret(_SECRET)
        return hmac.new(self._key, f"csrf {cookie}".encode(), hashlib.sha256).hexdigest()

    @staticmethod
    def new_cookie() -> str:
        """Create a random cookie of 256 bits."""
        return token_urlsafe(32)

    async def open(self, token: str, *, address: str, agent: str) -> str:
        """Log in with a token. Returns the cookie of the new session.

        Raises:
            CredentialError: The token is unknown, expired or revoked.
        """
        credentials = PresentedCredentials(
            authorization=f"Bearer {token}", client=CONSOLE, address=address, entry_point="console"
        )
        identity = await self._admission.identify(credentials)
        cookie, nonce = self.new_cookie(), token_bytes(_NONCE_BYTES)
        row = StoredSession(
            session_id=_id_of(cookie),
            caller_id=identity.caller_id,
            name=identity.token or identity.user or identity.caller_id,
            sealed=nonce + AESGCM(_key_of(cookie)).encrypt(nonce, token.encode(), None),
            address=address,
            agent=agent[:_MOST_AGENT],
            created_at=utc_now(),
            seen_at=utc_now(),
            expires_at=utc_now(plus_s=SESSION_S),
        )
        await self._store.sessions.save(row)
        return cookie

    @staticmethod
    def set_cookie(response: Response, cookie: str, request: Request) -> None:
        """Set the session cookie in the browser."""
        set_cookie(response, request, COOKIE, cookie, max_age=SESSION_S)

    async def caller_of(self, request: Request, cookie: str) -> Caller:
        """Authenticate a request by its session cookie, which is optional if `auth` is `local`.

        Raises:
            CredentialError: A login is required, and the session does not exist or has ended.
            ForbiddenError: The caller may not use the requested project.
        """
        peer = request.client
        credentials = PresentedCredentials(
            header_project=request.query_params.get("project") or None,
            client=CONSOLE,
            conversation=f"console {cookie[:8]}",
            address=peer.host if peer else "",
            entry_point="console",
        )
        if not self._admission.required:
            return await self._admission.admit(credentials)
        return await self._caller_of_session(cookie, credentials)

    async def _caller_of_session(self, cookie: str, credentials: PresentedCredentials) -> Caller:
        """Return the caller whose token opened a session.

        Args:
            cookie: The cookie from the browser.
            credentials: The credentials of the request, without the token.

        Raises:
            CredentialError: The session has ended, or its token is no longer valid.
            ForbiddenError: The project does not exist, or the caller may not use it.
        """
        session_id = _id_of(cookie)
        row = await self._store.sessions.get(session_id) if cookie else None
        if row is None or row.expires_at <= utc_now():
            raise CredentialError(
                "Not logged in, or the session has ended.",
                was_presented=bool(cookie),
                hint="Log in with a token.",
            )
        nonce, sealed = row.sealed[:_NONCE_BYTES], row.sealed[_NONCE_BYTES:]
        try:
            token = AESGCM(_key_of(cookie)).decrypt(nonce, sealed, None).decode()
        except InvalidTag as error:
            raise CredentialError("The session cookie is invalid.", hint="Log in again.") from error
        caller = await self._admission.admit(
            replace(credentials, authorization=f"Bearer {token}", conversation=session_id[:16])
        )
        self._accepted[session_id] = None
        self._accepted.move_to_end(session_id)
        if len(self._accepted) > _MAX_ACCEPTED:
            self._accepted.popitem(last=False)
        if row.seen_at < utc_now(plus_s=-_TOUCH_S):
            await self._store.sessions.touch(
                session_id, seen_at=utc_now(), expires_at=utc_now(plus_s=SESSION_S)
            )
        return caller

    def was_accepted(self, cookie: str) -> bool:
        """Whether this process accepted the session before; used while the store is down."""
        return _id_of(cookie) in self._accepted

    async def end(self, cookie: str) -> None:
        """Log out."""
        self._accepted.pop(_id_of(cookie), None)
        await self._store.sessions.delete(_id_of(cookie))

    @staticmethod
    def is_of(cookie: str, session: StoredSession) -> bool:
        """Whether a session belongs to this cookie."""
        return hmac.compare_digest(session.session_id, _id_of(cookie))


def cookie_of(request: Request, name: str) -> str:
    """Return a cookie that the console has set; empty if there is none."""
    return request.cookies.get(_cookie_name(request, name), "")


def set_cookie(
    response: Response, request: Request, name: str, value: str, *, max_age: int
) -> None:
    """Set a cookie that the browser sends to this console only; `max_age=0` deletes it."""
    is_host_only = _is_host_only(request)
    response.set_cookie(
        _cookie_name(request, name),
        value,
        max_age=max_age,
        path="/" if is_host_only else f"{request.scope.get('root_path', '')}/console",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


def _cookie_name(request: Request, name: str) -> str:
    # Other hosts of the same domain cannot set a cookie with this prefix (RFC 6265bis, section
    # 4.1.3.2), so they cannot log a browser in to the console as somebody else.
    return f"__Host-{name}" if _is_host_only(request) else name


def _is_host_only(request: Request) -> bool:
    """Whether cookies may be for all paths: those of a gateway that shares its host may not."""
    return request.url.scheme == "https" and not request.scope.get("root_path")


def _id_of(cookie: str) -> str:
    return hashlib.sha256(b"session " + cookie.encode(errors="surrogatepass")).hexdigest()


def _key_of(cookie: str) -> bytes:
    return hashlib.sha256(b"seal " + cookie.encode(errors="surrogatepass")).digest()
