"""Client for a JSON service over HTTP, with limits and with pauses while the service fails."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic

import aiohttp
import anyio

from toolgate.base import json_text
from toolgate.base.validation import check_ranges, check_url, unfit
from toolgate.models.http_session import HttpSession
from toolgate.search.strategies._service_error import ServiceError
from toolgate.types import Json

SUSPENDED = "it failed several times and is left alone for a while"
"""Why a service is not called while its circuit breaker is open."""

_PIECE_BYTES = 2**16
"""Bytes of an answer that are read at a time; chosen."""


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Common options of searches that call a service, with a local search as the fallback."""

    url: str = ""
    """Address of the service; required."""

    timeout_s: float = 5.0
    """Timeout in seconds for a complete answer; then the local search answers. 0.1 to 60."""

    failures: int = 3
    """Number of consecutive failures after which the service is not called for `cooldown_s`; 1
    to 100."""

    cooldown_s: float = 30.0
    """Length of that pause in seconds; 0 to 3,600."""

    local: str = "hybrid"
    """The local search: `hybrid` or `bm25`."""

    def check(self, strategy: str) -> None:
        """Check the common options; `strategy` is the search's own name, which cannot be `local`.

        Raises:
            OptionError: An option is invalid.
        """
        check_ranges(self, {"timeout_s": (0.1, 60), "failures": (1, 100), "cooldown_s": (0, 3_600)})
        check_url(self.url)
        if self.local in {strategy, "off"}:
            raise unfit("local", self.local, "hybrid, bm25, or another search that ranks here")


class JsonService:
    """A service that takes JSON and answers with JSON."""

    def __init__(self, url: str, *, token: str, timeout_s: float, max_bytes: int) -> None:
        self._url = url
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._session = HttpSession()

    async def post(self, body: Json) -> object:
        """Send a body and return the answer, within the time limit in all.

        Raises:
            ServiceError: The answer is late, too large, not JSON, or a refusal, or there is
                none.
        """
        try:
            with anyio.fail_after(self._timeout_s):
                async with self._session.open().post(
                    self._url,
                    data=json_text.dumps(body),
                    headers=self._headers,
                    # The token is only for this address.
                    allow_redirects=False,
                ) as response:
                    if response.status != HTTPStatus.OK:
                        raise ServiceError(_refusal(response.status))
                    raw = await self._read(response)
        except TimeoutError as error:
            raise ServiceError(f"no answer within {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            raise ServiceError(f"no connection: {_trouble(error)}") from error
        except ValueError as error:  # an address or a token that cannot be sent
            raise ServiceError("its address or token cannot be sent") from error
        try:
            return json_text.loads(raw)
        except ValueError as error:
            raise ServiceError("an answer that is no JSON") from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.aclose()

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        raw = bytearray()
        async for piece in response.content.iter_chunked(_PIECE_BYTES):
            raw += piece
            if len(raw) > self._max_bytes:
                raise ServiceError(f"an answer of more than {self._max_bytes:,} bytes")
        return bytes(raw)


class CircuitBreaker:
    """Decides whether to call a service: pauses after several consecutive failures.

    After the pause, one request tries the service; the others wait for its result.
    """

    def __init__(
        self, *, failures: int, cooldown_s: float, clock: Callable[[], float] = monotonic
    ) -> None:
        self._max_failures = failures
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._failures = 0
        self._closed_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the service is paused, or has not been called since the pause."""
        return self._failures >= self._max_failures

    def allows(self) -> bool:
        """Return whether to call the service now."""
        if not self.is_open:
            return True
        if self._clock() < self._closed_at:
            return False
        # Blocks other requests until this attempt ends, or the pause is over.
        self._closed_at = self._clock() + self._cooldown_s
        return True

    def succeeded(self) -> None:
        """Record an answer of the service."""
        self._failures = 0

    def failed(self) -> None:
        """Record a failure of the service."""
        self._failures += 1
        self._closed_at = self._clock() + self._cooldown_s


def _trouble(error: Exception) -> str:
    """Describe a connection error, without the address, which may contain a secret."""
    match error:
        case aiohttp.ClientConnectorDNSError() | socket.gaierror():
            return "nobody knows this host"
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return "its certificate is not trusted, or it does not speak TLS"
        case OSError(errno=errno.ECONNREFUSED):
            return "nobody listens there"
        case aiohttp.ClientConnectorError():
            return "it cannot be reached from here"
        case aiohttp.InvalidURL():
            return "its address cannot be used"
        case aiohttp.ClientResponseError():
            return "what came is no answer of a web service"
        case _:
            return "it ended before the answer was there"


def _refusal(status: int) -> str:
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return f"the token was refused with status {status}"
    return f"status {status}"
