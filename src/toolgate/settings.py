"""Settings: the only reader of configuration files and of the environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolgate.types import ServerSpec

__all__ = [
    "AuditSettings",
    "DiscoverySettings",
    "LogSettings",
    "ResultSettings",
    "SearchSettings",
    "ServeSettings",
    "Settings",
    "StoreSettings",
]


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Table `[serve]`: where and how the gateway listens."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    port: int = 7420
    """Port to listen on; 0 takes a free one."""

    allowed_hosts: tuple[str, ...] = ()
    """Further values of the `Host` header to accept, such as `gateway.example.org:*`."""

    allowed_origins: tuple[str, ...] = ()
    """Further values of the `Origin` header to accept, such as `https://app.example.org`."""

    max_body_bytes: int = 64 * 2**20
    """Largest request body that is read."""

    max_depth: int = 200
    """Deepest nesting of JSON that is accepted."""

    drain_s: float = 20.0
    """Seconds that running calls get at shutdown."""


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Table `[search]`: how tools are found."""

    strategy: str = "bm25"
    """File name in `search/`."""

    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Options of the strategy."""


@dataclass(frozen=True, kw_only=True)
class DiscoverySettings:
    """Table `[discovery]`: what the meta-tools answer."""

    budget_tokens: int = 1000
    """Most estimated tokens of one `tool_discovery` answer; 200 to 100,000."""

    describe_budget_tokens: int = 8000
    """Most estimated tokens of one `tool_describe` answer."""

    max_results: int = 5
    """Hits when the caller does not say; 1 to 50."""

    show_down: bool = False
    """Whether tools of servers that are down appear, ranked last and marked."""

    auto_tokens: int = 4000
    """With `mode = "auto"`: menus up to this many estimated tokens are listed as they are."""


@dataclass(frozen=True, kw_only=True)
class ResultSettings:
    """Table `[results]`: large results of `tool_execute`."""

    paging: bool = True
    """Whether large results are stored and answered in pages."""

    page_tokens: int = 25_000
    """Estimated tokens of a page; larger results are paged."""

    ttl_s: float = 3600.0
    """Seconds a stored result lives."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Table `[store]`: what is kept, and how long."""

    url: str = ""
    """`sqlite:///PATH` or `postgresql://…`; empty: `toolgate.db` in the user's data folder."""

    audit_days: float = 90.0
    """Days that audit records are kept."""

    audit_max_mb: int = 512
    """Megabytes of audit records at most."""

    results_max_mb: int = 256
    """Megabytes of stored results at most."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Table `[audit]`."""

    enabled: bool = True
    """Whether discoveries and calls are recorded."""

    keep_queries: bool = True
    """Whether the text of a discovery is kept."""


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Table `[log]`."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is written."""

    format: Literal["text", "json"] = "text"
    """For people or for machines."""

    file: str = ""
    """Path of a log file, rotated at 10 MB, 5 kept; empty: standard error."""

    servers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Level by server name."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that can be configured."""

    version: int = 1
    """Version of the configuration format."""

    mode: Literal["auto", "meta", "all"] = "auto"
    """What `tools/list` shows: `all` the real tools, `meta` the meta-tools, `auto` by size."""

    expose: Literal["prefixed", "flat"] = "prefixed"
    """`flat` serves exactly one server under its own names, without meta-tools."""

    meta_tools: tuple[str, ...] = (
        "tool_discovery",
        "tool_describe",
        "tool_execute",
        "result_read",
    )
    """Which meta-tools are listed; `result_read` appears only once a result was paged."""

    pinned: tuple[str, ...] = ()
    """Tool keys (`server:tool`) that are always listed beside the meta-tools."""

    name_limit: int = 48
    """Most characters of an exposed name; 24 to 64."""

    servers: tuple[ServerSpec, ...] = ()
    """Servers from files, in the order of the files."""

    serve: ServeSettings = ServeSettings()
    """Table `[serve]`."""

    search: SearchSettings = SearchSettings()
    """Table `[search]`."""

    discovery: DiscoverySettings = DiscoverySettings()
    """Table `[discovery]`."""

    results: ResultSettings = ResultSettings()
    """Table `[results]`."""

    store: StoreSettings = StoreSettings()
    """Table `[store]`."""

    audit: AuditSettings = AuditSettings()
    """Table `[audit]`."""

    log: LogSettings = LogSettings()
    """Table `[log]`."""

    files: tuple[Path, ...] = ()
    """The files that this was read from, imports included; watched while running."""
