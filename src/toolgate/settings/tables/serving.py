"""Tables about serving and outgoing connections: `[serve]`, `[tls]`, `[outbound]`."""

from dataclasses import dataclass

from toolgate.settings.tables.fields import between


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Table `[serve]`: where the gateway listens, and its limits."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    port: int = between(7420, 0, 65_535)
    """Port to listen on, 0 to 65,535; 0: any free port."""

    workers: int = between(1, 1, 64)
    """Number of worker processes, 1 to 64; more than one needs Linux and PostgreSQL. See
    [operations.md](operations.md#several-workers)."""

    allowed_hosts: tuple[str, ...] = ()
    """Additional `Host` header values to accept, such as `gateway.example.org:*`."""

    allowed_origins: tuple[str, ...] = ()
    """Additional `Origin` header values to accept, such as `https://app.example.org`."""

    max_body_bytes: int = between(64 * 2**20, 1024, 2**31)
    """Maximum size of a request body in bytes; 1,024 to 2,147,483,648."""

    max_connections: int = between(2000, 16, 1_000_000)
    """Maximum number of client connections, 16 to 1,000,000. The limit is lower if the process may
    not open enough files; a quarter of those stays reserved for servers and the store."""

    max_connections_per_address: int = between(500, 8, 1_000_000)
    """Maximum number of connections per IPv4 address or IPv6 network (/64), 8 to 1,000,000.
    Addresses in `trusted_proxies` are not limited."""

    max_lag_s: float = between(1.0, 0.05, 60)
    """Delay in seconds, of the event loop or of requests that wait to start, above which the
    gateway considers itself overloaded, 0.05 to 60. It then refuses callers whose number of running
    requests is at or above the average, with `Retry-After`.
    """

    max_depth: int = between(200, 10, 900)
    """Maximum nesting depth of JSON; 10 to 900."""

    drain_s: float = between(20.0, 0, 3600)
    """How long running calls may continue at shutdown, in seconds; 0 to 3,600."""

    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of reverse proxies, such as `10.0.0.0/8`, whose `X-Forwarded-For`,
    `X-Forwarded-Proto` and `X-Forwarded-Host` headers are trusted."""

    root_path: str = ""
    """Path prefix of the gateway behind a reverse proxy, such as `/tools`."""

    console_wait_s: float = between(10.0, 0.1, 600)
    """How long a console page waits for the store, in seconds, 0.1 to 600. After that, the page
    reports that the store is slow and whether anything was saved."""


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    """Table `[tls]`: HTTPS without a reverse proxy."""

    cert: str = ""
    """PEM file with the certificate and its intermediate certificates; empty: plain HTTP. Relative
    paths are resolved against the folder of `toolgate.toml`."""

    key: str = ""
    """PEM file with the private key; empty: it is in the same file."""


@dataclass(frozen=True, kw_only=True)
class OutboundSettings:
    """Table `[outbound]`: outgoing connections. See [credentials.md](credentials.md)."""

    allow: tuple[str, ...] = ()
    """Private hosts and networks that may be reached even if the address comes from a server and
    not from the configuration: `auth.corp.example`, `*.corp.example`, `10.1.0.0/16`."""

    proxy: str = ""
    """Proxy URL for connections to other machines; empty: from the environment (`HTTPS_PROXY`,
    `HTTP_PROXY`, `ALL_PROXY`); `none`: no proxy."""

    no_proxy: tuple[str, ...] = ()
    """Hosts, domains and networks to reach without the proxy, in addition to those in `NO_PROXY`.
    """
