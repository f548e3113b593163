"""Tables about serving and outgoing connections: `[serve]`, `[tls]`, `[outbound]`."""

from dataclasses import dataclass

from toolgate.settings.tables.fields import between

__all__ = ["OutboundSettings", "ServeSettings", "TlsSettings"]


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Table `[serve]`: where and how the gateway listens."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    port: int = between(7420, 0, 65_535)
    """Port to listen on, 0 to 65,535; 0 takes a free one."""

    workers: int = between(1, 1, 64)
    """Processes that serve the port, 1 to 64; more than one needs Linux and PostgreSQL. See
    [operations.md](operations.md#several-workers)."""

    allowed_hosts: tuple[str, ...] = ()
    """Further values of the `Host` header to accept, such as `gateway.example.org:*`."""

    allowed_origins: tuple[str, ...] = ()
    """Further values of the `Origin` header to accept, such as `https://app.example.org`."""

    max_body_bytes: int = between(64 * 2**20, 1024, 2**31)
    """Largest request body that is read; 1,024 to 2,147,483,648."""

    max_connections: int = between(2000, 16, 1_000_000)
    """Open connections of clients, 16 to 1,000,000; fewer where the process may open fewer files,
    of which a quarter stays free for servers and the store."""

    max_connections_per_address: int = between(500, 8, 1_000_000)
    """Open connections of one IPv4 address or IPv6 network (/64), 8 to 1,000,000. Addresses of
    `trusted_proxies` are not limited."""

    max_lag_s: float = between(1.0, 0.05, 60)
    """Delay of the event loop in seconds, 0.05 to 60. Beyond it the gateway is overloaded: callers
    with as many running requests as the mean or more are refused with `Retry-After`."""

    max_depth: int = between(200, 10, 900)
    """Deepest nesting of JSON that is accepted; 10 to 900."""

    drain_s: float = between(20.0, 0, 3600)
    """Seconds that running calls get at shutdown; 0 to 3,600."""

    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of reverse proxies, such as `10.0.0.0/8`, whose `X-Forwarded-For`,
    `X-Forwarded-Proto` and `X-Forwarded-Host` are believed."""

    root_path: str = ""
    """Path under which a reverse proxy offers the gateway, such as `/tools`."""

    console_wait_s: float = between(10.0, 0.1, 600)
    """Seconds that a page or a form of the console waits for the store, 0.1 to 600; then the page
    says that the store is slow, and whether anything was saved."""


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    """Table `[tls]`: HTTPS without a proxy in front."""

    cert: str = ""
    """File with the certificate and those between it and its authority, PEM; empty: plain HTTP. A
    relative path belongs to the file's folder."""

    key: str = ""
    """File with its key, PEM; empty: it is in the same file."""


@dataclass(frozen=True, kw_only=True)
class OutboundSettings:
    """Table `[outbound]`: where Toolgate may connect to. See [credentials.md](credentials.md)."""

    allow: tuple[str, ...] = ()
    """Hosts and networks on private addresses that may be reached also where no administrator wrote
    the address: `auth.corp.example`, `*.corp.example`, `10.1.0.0/16`."""

    proxy: str = ""
    """Address of the proxy for all that is not on this machine; empty: as `HTTPS_PROXY`,
    `HTTP_PROXY` and `ALL_PROXY` say; `none`: without."""

    no_proxy: tuple[str, ...] = ()
    """Hosts, domains and networks that are reached without it, besides those of `NO_PROXY`."""
