"""The HTTP clients of the gateway: which addresses they may reach, TLS and proxies.

An administrator may configure any address; an address that a server names must not be more
private than the server itself. The check applies to the address that is actually connected to,
whatever an earlier lookup of its name returned.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http import HTTPStatus
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from toolgate import __version__
from toolgate.errors import SettingError, UnreachableError
from toolgate.settings import OutboundSettings

PUBLIC: Final = 0
"""Level of privacy of an address: on the internet."""

PRIVATE: Final = 1
"""In a private network."""

LOOPBACK: Final = 2
"""On this machine."""

LINK_LOCAL: Final = 3
"""Link-local, or not usable at all."""

# Seconds to connect. Chosen.
CONNECT_S: Final = 10.0
KEEP_ALIVE_S: Final = 4.0
"""Seconds that an idle connection is kept open: less than the 5 of uvicorn and Node, so that no
request is sent on a connection that the server is closing."""

# Seconds for a complete response to `fetch`. Chosen.
ANSWER_S: Final = 15.0
# Largest such response in bytes. Chosen: metadata and tokens have a few thousand.
MAX_BYTES: Final = 2**20

_SHARED = ip_network("100.64.0.0/10")
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("::ffff:0:0/96"))
_LOCAL_TRANSLATED = ip_network("64:ff9b:1::/48")
"""Translations of a network's own choice (RFC 8215), which may contain any IPv4 address."""


class NotAllowedError(OSError):
    """The address must not be reached from where it was named."""

    def __init__(self, host: str) -> None:
        super().__init__(
            errno.EACCES,
            f"{host} is on this machine or in a private network, which may not be reached from"
            " there. An administrator can allow it: outbound.allow",
        )


@dataclass(frozen=True, kw_only=True)
class AddressScope:
    """The addresses that a request may reach."""

    max_level: int
    """The most private level allowed."""

    is_written: bool = False
    """Whether an administrator configured the address: an IP address or `localhost` is then
    allowed at any level."""


CONFIGURED = AddressScope(max_level=PRIVATE, is_written=True)
"""For configured addresses. A public name that suddenly resolves to this machine is not what the
administrator configured."""


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """The TLS certificates and the proxy of a connection."""

    ca: str = ""
    """File with trusted certificate authorities; empty: those of the system."""

    cert: str = ""
    """File with our client certificate."""

    key: str = ""
    """File with the private key of the client certificate."""

    proxy: str = ""
    """The proxy, or `none`; empty: as configured for the gateway."""

    @property
    def elsewhere(self) -> "ConnectionOptions":
        """The options for another party's address, to which our certificate is not shown."""
        return ConnectionOptions(ca=self.ca, proxy=self.proxy)


@dataclass(frozen=True, kw_only=True)
class HttpAnswer:
    """A complete HTTP response."""

    status: int
    """The status code."""

    headers: Mapping[str, str]
    """The headers by lower-case name."""

    body: bytes
    """The body."""


def level_of(address: str) -> int:
    """Return how private an IP address is."""
    ip = _plain(ip_address(address.partition("%")[0].strip("[]")))
    if ip.is_loopback or ip.is_unspecified:
        return LOOPBACK
    if ip.is_link_local or ip.is_multicast or (ip.version == 4 and str(ip) == "255.255.255.255"):
        return LINK_LOCAL
    if ip.is_private or (isinstance(ip, IPv4Address) and ip in _SHARED) or ip.is_reserved:
        return PRIVATE
    # fec0::/10 is deprecated (RFC 3879), but still in use.
    if isinstance(ip, IPv6Address) and (ip.is_site_local or ip in _LOCAL_TRANSLATED):
        return PRIVATE
    return PUBLIC


def _plain(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address embedded in an IPv6 address, else the address itself."""
    if isinstance(ip, IPv6Address):
        # 6to4, NAT64 and mapped addresses contain an IPv4 address. That one is checked, or a
        # private address could be disguised as a public one.
        if ip.sixtofour is not None:
            return ip.sixtofour
        if any(ip in network for network in _TRANSLATED):
            return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip


def _digits(host: str) -> str | None:
    """Return the host if it is an IP address, in any notation that systems accept."""
    bare = host.strip("[]").partition("%")[0]
    try:
        return str(ip_address(bare))
    except ValueError:
        pass
    try:  # getaddrinfo accepts what inet_aton does: 127.1, 0x7f000001, 2130706433
        return str(IPv4Address(socket.inet_aton(bare)))
    except (OSError, ValueError):
        return None


def is_this_machine(host: str) -> bool:
    """Return whether a host is written as a loopback address or as `localhost`."""
    digits = _digits(host)
    return _is_localhost(host) if digits is None else level_of(digits) == LOOPBACK


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _is_localhost(host: str) -> bool:
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


class _AddressRule:
    """The addresses that one client may reach."""

    def __init__(self, reach: AddressScope, allow: Sequence[str]) -> None:
        self._reach = reach
        self._networks = tuple(net for entry in allow if (net := _network(entry)) is not None)
        self._names = tuple(entry.lower().rstrip(".") for entry in allow if _network(entry) is None)

    def may_name(self, host: str) -> bool:
        """Return whether a name may be reached, whatever it resolves to."""
        name = host.rstrip(".").lower()
        is_here = self._reach.is_written and _is_localhost(host)
        return is_here or any(fnmatchcase(name, pattern) for pattern in self._names)

    def may_digits(self, address: str) -> bool:
        """Return whether an address that was given as an IP address may be reached."""
        return self._reach.is_written or self.may_stand(address)

    def may_stand(self, address: str) -> bool:
        """Return whether an address that a name resolves to may be reached."""
        plain = _plain(ip_address(address.partition("%")[0]))
        return level_of(address) <= self._reach.max_level or any(
            plain in network for network in self._networks
        )


class _Resolver(AbstractResolver):
    """Resolves names and drops the addresses that must not be reached."""

    def __init__(self, rule: _AddressRule, levels: "_KnownLevels") -> None:
        self._rule = rule
        self._levels = levels
        self._inner: AbstractResolver | None = None
        self._let_through: set[str] = set()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the allowed addresses of a name."""
        if self._inner is None:
            self._inner = ThreadedResolver()
        addresses = await self._inner.resolve(host, port, family)
        is_any = self._rule.may_name(host)
        # Filtering here, at connect time, defeats DNS rebinding: there is no second lookup
        # between the check and the connection.
        good = [address for address in addresses if is_any or self._rule.may_stand(address["host"])]
        if not good:
            raise NotAllowedError(host)
        self._let_through.update(address["host"] for address in good)
        self._levels.note(host, (address["host"] for address in good))
        return good

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def make_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Create a socket, after checking addresses that no resolver has checked."""
        family, kind, protocol, _, target = info
        address = str(target[0])
        # aiohttp does not ask the resolver about IP addresses, so they have not been checked yet.
        if address not in self._let_through and not self._rule.may_digits(address):
            raise NotAllowedError(address)
        return socket.socket(family, kind, protocol)


class _KnownLevels:
    """The most public level that each name has resolved to since the start.

    Whoever controls a name can resolve it to a private address for a moment. What its server says
    from a public address must not lead to private ones then.
    """

    def __init__(self) -> None:
        self._levels: dict[str, int] = {}

    def note(self, host: str, addresses: Iterable[str]) -> int:
        """Add addresses of a name. Returns its level."""
        # The most public one counts, or a name would gain by changing its address in between.
        name = host.rstrip(".").lower()
        level = min([self._levels.get(name, PRIVATE), *map(level_of, addresses)])
        self._levels[name] = level
        return level


class Outbound:
    """The HTTP clients of a gateway, one for each scope, created when first needed."""

    def __init__(
        self, settings: OutboundSettings, proxies: tuple[str, str, tuple[str, ...]] = ("", "", ())
    ) -> None:
        self._settings = settings
        self._proxies = proxies
        self._sessions: dict[AddressScope, aiohttp.ClientSession] = {}
        self._levels = _KnownLevels()

    def session(self, reach: AddressScope) -> aiohttp.ClientSession:
        """Return the client for requests within a scope."""
        session = self._sessions.get(reach)
        if session is None:
            session = self._sessions[reach] = _open_session(
                reach, self._settings.allow, self._levels
            )
        return session

    def proxy_for(self, url: str, options: ConnectionOptions = ConnectionOptions()) -> str:
        """Return the proxy for an address; empty: none."""
        if options.proxy:
            return "" if options.proxy == "none" else options.proxy
        return proxy_for(url, self._settings, self._proxies)

    def context_of(self, options: ConnectionOptions) -> ssl.SSLContext | None:
        """Return the TLS context of a connection; None: system authorities, no client certificate.

        Raises:
            SettingError: A file cannot be read, or contains no certificate or key.
        """
        return client_context(ca=options.ca, cert=options.cert, key=options.key)

    async def reach_from(
        self, url: str, options: ConnectionOptions = ConnectionOptions()
    ) -> AddressScope:
        """Return the scope of addresses that the server at the configured `url` may name.

        Raises:
            UnreachableError: The host name does not resolve.
        """
        host = URL(url).host or ""
        if _is_localhost(host):
            return AddressScope(max_level=LOOPBACK)
        digits = _digits(host)
        if digits is not None:
            return AddressScope(max_level=min(level_of(digits), LOOPBACK))
        # The proxy resolves names, so nothing is known about the address: assume the strictest.
        if self.proxy_for(url, options):
            return AddressScope(max_level=PUBLIC)
        try:
            loop = asyncio.get_running_loop()
            addresses = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise UnreachableError(f"The name {host!r} is not known: {error}.") from error
        # The most public address counts: a name gains nothing by also resolving to a private one.
        return AddressScope(
            max_level=self._levels.note(host, (str(address[4][0]) for address in addresses))
        )

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        reach: AddressScope,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        body: bytes | None = None,
        options: ConnectionOptions = ConnectionOptions(),
    ) -> HttpAnswer:
        """Send a request and read the whole response; redirects are not followed.

        Raises:
            UnreachableError: There is no response, it is too large, or the address must not be
                reached.
        """
        origin = str(URL(url).origin())
        try:
            async with (
                asyncio.timeout(ANSWER_S),
                self.opened(
                    method,
                    url,
                    reach=reach,
                    headers=headers or {},
                    data=dict(form) if form is not None else body,
                    options=options,
                ) as response,
            ):
                # One byte more than allowed is enough to detect that the limit is exceeded.
                read = await response.content.read(MAX_BYTES + 1)
                while len(read) <= MAX_BYTES and (more := await response.content.readany()):
                    read += more
                if len(read) > MAX_BYTES:
                    raise UnreachableError(f"{origin} answered with more than {MAX_BYTES:,} bytes.")
                names = {name.lower(): value for name, value in response.headers.items()}
                return HttpAnswer(status=response.status, headers=names, body=read)
        except TimeoutError:
            raise UnreachableError(
                f"{origin} did not answer within {ANSWER_S:g} seconds.", hint="Try again later."
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UnreachableError(
                f"No answer from {origin}: {describe_failure(error)}.", hint="Check the address."
            ) from error

    @asynccontextmanager
    async def opened(
        self,
        method: str,
        url: str,
        *,
        reach: AddressScope,
        headers: Mapping[str, str],
        data: Any,
        options: ConnectionOptions,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Open a request and yield its response; a proxy resolves the name itself."""
        by = self.proxy_for(url, options)
        context = self.context_of(options)
        if by:
            # The proxy resolves the name, so only the text of the URL can be checked here.
            refuse_by_text(url, reach, self._settings.allow)
        session = self.session(CONFIGURED if by else reach)
        async with session.request(
            method,
            url,
            headers=headers,
            data=data,
            # A redirect could lead to an address that the scope forbids.
            allow_redirects=False,
            proxy=by or None,
            ssl=True if context is None else context,
        ) as response:
            yield response

    async def aclose(self) -> None:
        """Close all clients."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()


def open_session(
    reach: AddressScope = CONFIGURED, allow: Sequence[str] = ()
) -> aiohttp.ClientSession:
    """Create a client without cookies, whose slow requests do not delay others."""
    return _open_session(reach, allow, _KnownLevels())


def _open_session(
    reach: AddressScope, allow: Sequence[str], levels: _KnownLevels
) -> aiohttp.ClientSession:
    resolver = _Resolver(_AddressRule(reach, allow), levels)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0,
            keepalive_timeout=KEEP_ALIVE_S,
            resolver=resolver,
            socket_factory=resolver.make_socket,
        ),
        # The client is shared: a cookie of one user must not go out with another's call.
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"user-agent": f"toolgate/{__version__}"},
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        read_bufsize=2**18,
    )


def refuse_by_text(url: str, reach: AddressScope, allow: Sequence[str]) -> None:
    """Refuse a URL whose text alone shows that it must not be reached, for use with a proxy.

    Raises:
        NotAllowedError: The address must not be reached.
    """
    host = URL(url).host or ""
    rule = _AddressRule(reach, allow)
    digits = _digits(host)
    if digits is not None and not rule.may_digits(digits):
        raise NotAllowedError(host)
    if _is_localhost(host) and reach.max_level < LOOPBACK and not rule.may_name(host):
        raise NotAllowedError(host)


def proxy_for(
    url: str, settings: OutboundSettings, proxies: tuple[str, str, tuple[str, ...]]
) -> str:
    """Return the proxy for an address: from the settings, else the variables; empty: none."""
    target = URL(url)
    host = (target.host or "").lower()
    digits = _digits(host)
    if settings.proxy == "none" or _is_localhost(host):
        return ""
    if digits is not None and level_of(digits) == LOOPBACK:
        return ""
    over_https, over_http, without = proxies
    if any(_is_of(host, digits, pattern) for pattern in (*settings.no_proxy, *without)):
        return ""
    return settings.proxy or (over_https if target.scheme == "https" else over_http)


def _is_of(host: str, digits: str | None, pattern: str) -> bool:
    """Return whether a NO_PROXY entry (a domain, a network or `*`) covers a host."""
    pattern = pattern.strip().lower().rpartition("@")[2]
    if pattern == "*":
        return True
    network = _network(pattern)
    if network is not None:
        return digits is not None and ip_address(digits) in network
    name = pattern.partition(":")[0].removeprefix("*").removeprefix(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def client_context(*, ca: str = "", cert: str = "", key: str = "") -> ssl.SSLContext | None:
    """Create the TLS context of a client; None: system authorities, no client certificate.

    Raises:
        SettingError: A file cannot be read, or contains no certificate or key.
    """
    if not (ca or cert or key):
        return None
    file = ca
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if cert or key:
            file = cert or key
            context.load_cert_chain(cert or key, key or None)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        why = getattr(error, "strerror", None) or str(error)
        files = "certificates" if file == ca else "a certificate and its key"
        raise SettingError(
            f"{Path(file)} cannot be used as {files}: {why}.",
            allowed="Expected: files in PEM form.",
            hint="Correct the setting or variable that names it, such as tls of a server.",
        ) from error
    return context


def describe_failure(error: BaseException) -> str:
    """Describe in a few words, without secrets, why a connection failed."""
    cause: object = getattr(error, "os_error", None) or error
    if isinstance(cause, NotAllowedError) or isinstance(error, NotAllowedError):
        refused = cause if isinstance(cause, NotAllowedError) else error
        return str(getattr(refused, "strerror", ""))
    if isinstance(error, aiohttp.ClientHttpProxyError):
        is_login = error.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
        return "the proxy wants a login" if is_login else f"the proxy refused ({error.status})"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"the proxy {error.host}:{error.port} cannot be reached ({_of_system(cause)})"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the name {error.host!r} cannot be resolved (DNS)"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"nothing answered within {CONNECT_S:g} seconds"
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = _CERTIFICATE_FAULTS.get(cause.verify_code, cause.verify_message)
        return f"its certificate is not trusted ({why})"
    if isinstance(cause, ssl.SSLError):
        if cause.reason in _NO_TLS:
            return "it does not speak TLS on this port"
        return f"TLS failed ({(cause.reason or 'unknown reason').lower().replace('_', ' ')})"
    return _of_system(cause) if isinstance(cause, OSError) else type(error).__name__


_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_MESSAGE", "HTTP_REQUEST"})
"""OpenSSL's reasons for a response that is not TLS."""

_CERTIFICATE_FAULTS: Final[Mapping[int, str]] = {
    10: "expired",
    18: "self-signed",
    19: "self-signed",
    20: "unknown authority",
    21: "unknown authority",
    62: "for another host name",
    64: "for another address",
}
"""Descriptions of the codes of https://docs.openssl.org/3.0/man1/openssl-verification-options/."""


def _of_system(cause: object) -> str:
    """Return the operating system's text for an error."""
    number: object = getattr(cause, "errno", None)
    if isinstance(number, int) and number in errno.errorcode:
        return os.strerror(number)
    return type(cause).__name__
