"""Common code of the HTTP transports: an address, its requests, and their failures."""

import asyncio
import base64
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

import aiohttp
import anyio
from yarl import URL

from toolgate.errors import (
    ConnectionLostError,
    InvalidAnswerError,
    OptionError,
    RpcError,
    ToolgateError,
    UnreachableError,
)
from toolgate.security.outbound import CONNECT_S, client_context, describe_failure
from toolgate.types import json_object
from toolgate.upstream.base import Credential
from toolgate.upstream.transports._jsonrpc import excerpt, read_message, result_of

JSON_AND_EVENTS: Final = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
}

# Redirects that are followed (chosen: browsers follow 20, tool servers need one or two).
MOST_HOPS = 5
# Bytes of a body that are sent at a time, so that a large one does not block the loop (chosen).
SEND_PIECE_BYTES = 2**18
# Seconds for the rest of a body, so that its connection can be reused (chosen).
DRAIN_S = 1.0

_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_UNSAFE_VALUE = re.compile(r"[^\x20-\x7e]|^\s|\s$")
_FORBIDDEN_NAMES = frozenset({"content-length", "transfer-encoding", "connection"})
_KEEPS_METHOD = frozenset({307, 308})


def _check_address(url: str, headers: Mapping[str, str]) -> None:
    """Check the configured address and headers of a server.

    Raises:
        OptionError: The address is not an http or https URL, or a header cannot be sent.
    """
    try:
        parsed = URL(url)
        complete = parsed.scheme in {"http", "https"} and bool(parsed.host)
    except ValueError:
        complete = False
    if not complete:
        raise OptionError(
            "url is not a web address.", allowed="Allowed: http:// or https://, a host."
        )
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _FORBIDDEN_NAMES:
            raise OptionError(
                f"headers contains a name that cannot be sent: {name!r}.",
                allowed="Allowed: letters, digits and hyphens, not the length of the body.",
            )
        # Line breaks would allow header injection (RFC 9110 section 5.5).
        if any(sign in value for sign in "\r\n\0"):
            raise OptionError(
                f"The header {name!r} contains a line break or a NUL byte.",
                allowed="Allowed: one line of text.",
            )


def no_proxy(url: str) -> str:
    """Return no proxy, for any address."""
    del url
    return ""


def _proxy_of(url: str, server_proxy: str, proxy_for: Callable[[str], str]) -> str:
    """The proxy to an address: that of the server, else that of the gateway; empty for none."""
    if server_proxy:
        return "" if server_proxy == "none" else server_proxy
    return proxy_for(url)


class Endpoint:
    """An address, the headers of every request to it, and the shared client."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        credential: Credential | None = None,
        context: ssl.SSLContext | None = None,
        proxy: str = "",
    ) -> None:
        """Create an endpoint.

        Args:
            http: The shared client.
            url: The address.
            headers: Headers of every request.
            credential: Further credentials, which may change.
            context: Certificates; None for those of the system.
            proxy: The proxy; empty for none.
        """
        self._http = http
        self._url = URL(url)
        self._credential = credential
        self._context = context
        self._proxy = proxy
        self.headers = {name.lower(): value.strip() for name, value in (headers or {}).items()}

    @property
    def url(self) -> URL:
        """The current address; it changes when the server redirects within its origin."""
        return self._url

    def __str__(self) -> str:
        """The address without parts that may be secret: user, query."""
        return str(self._url.origin().join(URL.build(path=self._url.path)))

    def is_same_origin(self, other: URL) -> bool:
        """Whether an address has the same origin, or the https version of it."""
        if other.host != self._url.host:
            return False
        if (other.scheme, other.port) == (self._url.scheme, self._url.port):
            return True
        # Only upwards: a redirect from https to http would expose the credential.
        upgraded = (self._url.scheme, self._url.port, other.scheme, other.port)
        return upgraded == ("http", 80, "https", 443)

    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> aiohttp.ClientResponse:
        """Send a request, follow redirects, and wait for the response headers.

        Raises:
            ConnectionLostError: No connection, or it ended before the response headers.
            UnreachableError: The server redirects to another origin, or in circles.
            LoginNeededError: The server requires a login, which only a person can perform.
        """
        safe_headers = {name: _safe(value) for name, value in headers.items()}
        if self._credential is None:
            return await self._send_on(method, {**self.headers, **safe_headers}, body)
        credential = await self._credential.headers()
        response = await self._send_on(method, {**self.headers, **credential, **safe_headers}, body)
        if response.status in {401, 403}:
            challenge = ", ".join(response.headers.getall("www-authenticate", []))
            try:
                # Only once: a server that refuses every token must not cause a loop.
                again = await self._credential.refused(
                    sent=credential, status=response.status, challenge=challenge
                )
            except BaseException:
                response.close()
                raise
            if again:
                response.close()
                credential = await self._credential.headers()
                return await self._send_on(
                    method, {**self.headers, **credential, **safe_headers}, body
                )
        return response

    async def _send_on(
        self, method: str, sent: dict[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        """Send and follow redirects; nothing is sent to another origin."""
        for _ in range(MOST_HOPS):
            response = await self._send_once(method, sent, body)
            # 301 to 303 turn a POST into a GET (RFC 9110 section 15.4) and would lose the message.
            if response.status not in _KEEPS_METHOD and not (
                method == "GET" and response.status in {301, 302, 303}
            ):
                return response
            target = self._url.join(URL(response.headers.get("location", "")))
            response.release()
            if not self.is_same_origin(target):
                raise UnreachableError(
                    f"The server at {self} redirects to another one, {target.origin()}.",
                    hint="If that is the intended server, set url of this server to it.",
                )
            self._url = target
        raise UnreachableError(f"The server at {self} redirects in a loop.")

    async def _send_once(
        self, method: str, headers: dict[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        data: bytes | AsyncIterator[bytes] | None = body
        if body is not None and len(body) > SEND_PIECE_BYTES:
            headers = {**headers, "content-length": str(len(body))}
            data = _in_pieces(body)
        try:
            return await self._http.request(
                method,
                self._url,
                headers=headers,
                data=data,
                allow_redirects=False,
                timeout=_TIMEOUT,
                ssl=True if self._context is None else self._context,
                proxy=self._proxy or None,
            )
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ClientHttpProxyError,
            aiohttp.ConnectionTimeoutError,
        ) as error:
            raise ConnectionLostError(
                f"No connection to {self}: {describe_failure(error)}.",
                sent=False,
                hint="Check that the server runs and that url is right.",
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLostError(
                f"The connection to {self} ended before the answer: {excerpt(str(error))}.",
                sent=True,
                hint="The call may have run; check before repeating it.",
            ) from error
        except RuntimeError as error:  # the shared client was closed: the gateway ends
            raise ConnectionLostError(f"{error}.", sent=False) from error


def media_type(response: aiohttp.ClientResponse) -> str:
    """The content type in lower case, without its parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


async def pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; end silently when the connection breaks."""
    while True:
        try:
            piece = await response.content.readany()
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError):
            return
        if not piece:
            return
        yield piece


async def read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Read the whole body.

    Raises:
        InvalidAnswerError: It is larger than allowed.
        ConnectionLostError: The connection broke.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            part = await response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLostError(
                f"The connection broke in the middle of the answer: {excerpt(str(error))}.",
                sent=True,
                hint="The call may have run; check before repeating it.",
            ) from error
        if not part:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        size += len(part)
        if size > max_bytes:
            raise InvalidAnswerError(
                f"The server sent a message of more than {max_bytes:,} bytes.",
                hint="Ask for less, or raise max_message_bytes of this server.",
            )
        parts.append(part)


async def finish_response(response: aiohttp.ClientResponse) -> None:
    """Release the connection for further requests if the body ends soon, else close it."""
    with anyio.move_on_after(DRAIN_S):
        try:
            while await response.content.readany():
                pass
        except (aiohttp.ClientError, OSError):
            pass
        else:
            response.release()
            return
    response.close()


def refusal(endpoint: Endpoint, response: aiohttp.ClientResponse, body: bytes) -> ToolgateError:
    """The error for a response with an error status."""
    status = response.status
    message = json_object(read_message(body)) if body else {}
    if "error" in message and status not in {401, 403}:
        try:
            result_of({"error": message["error"]})
        except RpcError as error:
            return error
        except InvalidAnswerError:
            pass  # some other JSON, shown as text below
    text = excerpt(body.decode(errors="replace"))
    named = f"{status} {_phrase(status)}".strip()
    failed = f"The server at {endpoint} answered {named}{f': {text}' if text else ''}."
    if status in {401, 403}:
        return UnreachableError(
            failed, hint="Set what it wants, such as Authorization, under headers of this server."
        )
    # An HTTP gateway returns these when the server behind it may already have the request.
    if status in {502, 504}:
        return ConnectionLostError(
            failed, sent=True, hint="The call may have run; check before repeating it."
        )
    if status in {408, 429, 503}:
        return UnreachableError(failed, hint="Try again later.")
    return InvalidAnswerError(failed, hint="Check url of this server.")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _safe(value: str) -> str:
    """Encode a value as the protocol requires if HTTP cannot carry it."""
    if _UNSAFE_VALUE.search(value):
        return f"=?base64?{base64.b64encode(value.encode(errors='replace')).decode()}?="
    return value


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), SEND_PIECE_BYTES):
        yield body[start : start + SEND_PIECE_BYTES]


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """Options of a server at a web address."""

    url: str
    """The endpoint or the event stream, `http://` or `https://`. Its query may contain secrets, so
    only origin and path are shown."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with every request. WARNING: may contain secrets; never shown."""

    ca: str = ""
    """File with trusted CA certificates; empty for those of the system."""

    cert: str = ""
    """File with a client certificate."""

    key: str = ""
    """File with the key of the client certificate."""

    proxy: str = ""
    """Address of the proxy, or `none`; empty for the gateway's proxy."""

    def __post_init__(self) -> None:
        """Check the address and the headers.

        Raises:
            OptionError: The address or a header cannot be used.
        """
        _check_address(self.url, self.headers)

    def endpoints(
        self,
        http: aiohttp.ClientSession,
        credential: Credential | None,
        proxy_for: Callable[[str], str],
    ) -> Callable[[str], Endpoint]:
        """Return what makes the endpoint of any address of this server."""
        return partial(
            Endpoint,
            http,
            headers=self.headers,
            credential=credential,
            context=client_context(ca=self.ca, cert=self.cert, key=self.key),
            proxy=_proxy_of(self.url, self.proxy, proxy_for),
        )
