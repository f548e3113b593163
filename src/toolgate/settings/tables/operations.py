"""Tables for operators: `[store]`, `[audit]`, `[log]`, `[metrics]`, `[traces]`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from toolgate.settings.folders import expand_home
from toolgate.settings.tables.fields import between

__all__ = [
    "AuditSettings",
    "LogLevel",
    "LogSettings",
    "MetricSettings",
    "StoreSettings",
    "TraceSettings",
]

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
"""How much is written."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Table `[store]`: what is kept, and how long."""

    url: str = ""
    """`sqlite:///PATH`, `postgresql://…`, or an address that a [plugin](plugins.md) serves; empty:
    `toolgate.db` in the user's data folder."""

    audit_days: float = between(90.0, 0, 36_500)
    """Days that audit records are kept; 0 to 36,500."""

    audit_max_mb: int = between(512, 1, 1_048_576)
    """Megabytes of audit records at most; 1 to 1,048,576."""

    results_max_mb: int = between(256, 1, 1_048_576)
    """Megabytes of stored results at most; 1 to 1,048,576."""

    usage_days: float = between(180.0, 0, 36_500)
    """Days that the usage log is kept; 0 to 36,500."""

    usage_max_mb: int = between(64, 1, 1_048_576)
    """Megabytes of the usage log at most; 1 to 1,048,576."""

    detection_days: float = between(180.0, 0, 36_500)
    """Days that it is kept what messages were taken for, for `toolgate detect --stats`; 0 to
    36,500."""

    detection_max_mb: int = between(64, 1, 1_048_576)
    """Megabytes of that at most; 1 to 1,048,576."""

    schema_days: float = between(730.0, 0, 36_500)
    """Days that versions of the schemas of `[connections]` are kept; 0 to 36,500. The present one
    of each always stays."""

    schema_max_mb: int = between(256, 1, 1_048_576)
    """Megabytes of such versions at most; 1 to 1,048,576."""

    tool_version_days: float = between(365.0, 0, 36_500)
    """Days that definitions of tools are kept after their servers replaced them; 0 to 36,500. Of
    each tool the last 20 are."""

    tool_version_max_mb: int = between(64, 1, 1_048_576)
    """Megabytes of such definitions at most; 1 to 1,048,576."""

    statement_days: float = between(90.0, 0, 36_500)
    """Days that it is kept what was asked of the databases in `[connections]`; 0 to 36,500."""

    statement_max_mb: int = between(64, 1, 1_048_576)
    """Megabytes of that at most; 1 to 1,048,576."""

    thread_days: float = between(365.0, 0, 36_500)
    """Days that threads of `/v1` are kept after their last turn; 0 to 36,500."""

    thread_max_mb: int = between(1024, 1, 1_048_576)
    """Megabytes of threads at most; 1 to 1,048,576."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Table `[audit]`: whether it is recorded what was searched and called."""

    enabled: bool = True
    """Whether discoveries and calls are recorded."""

    keep_queries: bool = True
    """Whether the texts of discoveries and messages are kept."""

    detections: bool = True
    """Whether it is noted what messages were taken for; `toolgate detect --stats` counts that."""

    on_failure: Literal["open", "closed"] = "open"
    """What happens while it cannot be written: `open` goes on and writes it later, `closed` answers
    nothing that was not recorded. A project can have its own."""

    sinks: tuple[Literal["store", "file", "syslog", "otel"], ...] = ("store",)
    """Where it is written: only what is in the store (Toolgate's database) can be listed and
    proved."""

    file: str = ""
    """Path of the file of the sink `file`, a line for each record."""

    file_format: Literal["jsonl", "csv", "ocsf"] = "jsonl"
    """What its lines are."""

    file_max_mb: int = between(100, 1, 1_048_576)
    """Megabytes after which the file is put aside; 1 to 1,048,576."""

    file_kept: int = between(10, 1, 1_000)
    """Files put aside that are kept; 1 to 1,000."""

    syslog: str = "unix:/dev/log"
    """Where the sink `syslog` is: `unix:/dev/log`, `udp://HOST:PORT`, `tcp://HOST:PORT`."""

    otel_endpoint: str = ""
    """Where the sink `otel` sends logs (OTLP over HTTP), such as `http://127.0.0.1:4318/v1/logs`;
    empty: as the variables of OpenTelemetry say."""

    signed_max_mb: int = between(16, 1, 1_024)
    """Megabytes of `audit.signed`, the second copy of signed places; 1 to 1,024. When it is full
    only every second one of the older half stays."""


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Table `[log]`."""

    level: LogLevel = "info"
    """Lowest level that is written."""

    format: Literal["text", "json"] = "text"
    """For people or for machines."""

    file: str = ""
    """Path of a log file, rotated at 10 MB, 5 kept; empty: standard error."""

    requests: Literal["auto", "on", "off"] = "auto"
    """Whether each request is a line: with its id, trace, caller, status and time, without what
    it asked. `auto`: with `format = "json"`."""

    servers: Mapping[str, LogLevel] = field(default_factory=dict[str, LogLevel])
    """Level by server name: `debug`, `info`, `warning` or `error`."""

    @property
    def path(self) -> Path | None:
        """The log file; None for standard error."""
        return Path(expand_home(self.file)) if self.file else None

    @property
    def names_requests(self) -> bool:
        """Whether each request is a line."""
        return self.requests == "on" or (self.requests == "auto" and self.format == "json")


@dataclass(frozen=True, kw_only=True)
class MetricSettings:
    """Table `[metrics]`: numbers for operators at `/metrics`.

    See [operations.md](operations.md).
    """

    enabled: bool = True
    """Whether anything is counted, and `/metrics` answered."""

    open: bool = False
    """Whether `/metrics` is answered without a token where `auth = "required"`; otherwise a token
    with the right `manage` is needed. Names of servers are in it."""

    endpoint: str = ""
    """Where the same numbers are sent by OpenTelemetry (OTLP over HTTP), such as
    `http://127.0.0.1:4318/v1/metrics`; empty: nowhere. Needs the extra `otel`."""

    every_s: float = between(30.0, 1, 3_600)
    """Seconds from one time to the next; 1 to 3,600."""


@dataclass(frozen=True, kw_only=True)
class TraceSettings:
    """Table `[traces]`: where requests spent their time. See [operations.md](operations.md)."""

    endpoint: str = ""
    """Where spans are sent as OpenTelemetry has them (OTLP over HTTP, in JSON), such as
    `http://127.0.0.1:4318/v1/traces`; empty: none are made."""

    share: float = between(10.0, 0, 100)
    """Per cent of the traces that begin here that are recorded; 0 to 100. One that comes with a
    request is recorded where its traceparent says so."""

    arguments: bool = False
    """Whether spans of calls hold the arguments. WARNING: they then stand in another system."""
