"""Tables for operators: `[store]`, `[audit]`, `[log]`, `[metrics]`, `[traces]`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from toolgate.settings.folders import expand_home
from toolgate.settings.tables.fields import between

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
"""How much is written."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Table `[store]`: the database, and how long data is kept."""

    url: str = ""
    """Database URL: `sqlite:///PATH`, `postgresql://…`, or that of a [plugin](plugins.md); empty:
    `toolgate.db` in your data folder."""

    audit_days: float = between(90.0, 0, 36_500)
    """How long audit records are kept, in days; 0 to 36,500."""

    audit_max_mb: int = between(512, 1, 1_048_576)
    """Maximum size of the audit log in megabytes; 1 to 1,048,576."""

    results_max_mb: int = between(256, 1, 1_048_576)
    """Maximum size of stored results in megabytes; 1 to 1,048,576."""

    usage_days: float = between(180.0, 0, 36_500)
    """How long the usage log is kept, in days; 0 to 36,500."""

    usage_max_mb: int = between(64, 1, 1_048_576)
    """Maximum size of the usage log in megabytes; 1 to 1,048,576."""

    detection_days: float = between(180.0, 0, 36_500)
    """How long detected intents are kept, in days, for `toolgate detect --stats`; 0 to 36,500."""

    detection_max_mb: int = between(64, 1, 1_048_576)
    """Maximum size of the log of detected intents in megabytes; 1 to 1,048,576."""

    schema_days: float = between(730.0, 0, 36_500)
    """How long versions of database schemas are kept, in days; 0 to 36,500. The current version of
    each schema is never deleted."""

    schema_max_mb: int = between(256, 1, 1_048_576)
    """Maximum size of schema versions in megabytes; 1 to 1,048,576."""

    tool_version_days: float = between(365.0, 0, 36_500)
    """How long replaced versions of tool definitions are kept, in days; 0 to 36,500. At most the
    last 20 versions of each tool are kept."""

    tool_version_max_mb: int = between(64, 1, 1_048_576)
    """Maximum size of tool versions in megabytes; 1 to 1,048,576."""

    statement_days: float = between(90.0, 0, 36_500)
    """How long the log of SQL statements on `[connections]` is kept, in days; 0 to 36,500."""

    statement_max_mb: int = between(64, 1, 1_048_576)
    """Maximum size of the log of SQL statements in megabytes; 1 to 1,048,576."""

    thread_days: float = between(365.0, 0, 36_500)
    """How long chat threads of `/v1` are kept after their last turn, in days; 0 to 36,500."""

    response_days: float = between(30.0, 0, 36_500)
    """How long responses of `/v1/responses` that belong to no conversation are kept after the last
    one that continued them, in days; 0 to 36,500. OpenAI also keeps them for 30 days."""

    thread_max_mb: int = between(1024, 1, 1_048_576)
    """Maximum size of chat threads in megabytes; 1 to 1,048,576."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Table `[audit]`: the audit log of searches and calls."""

    enabled: bool = True
    """Whether searches and calls are recorded."""

    keep_queries: bool = True
    """Whether the texts of searches and messages are stored."""

    detections: bool = True
    """Whether detected intents are logged; `toolgate detect --stats` counts them."""

    on_failure: Literal["open", "closed"] = "open"
    """What happens while the audit log cannot be written. `open`: calls continue and are recorded
    later. `closed`: calls that cannot be recorded are refused. Can be set per project."""

    sinks: tuple[Literal["store", "file", "syslog", "otel"], ...] = ("store",)
    """Where audit records are written. Only those in the `store` (Toolgate's database) can be
    listed and verified."""

    file: str = ""
    """Path of the file for the sink `file`, one record per line."""

    file_format: Literal["jsonl", "csv", "ocsf"] = "jsonl"
    """Format of that file: JSON Lines (`jsonl`), `csv`, or OCSF API activity events (`ocsf`)."""

    file_max_mb: int = between(100, 1, 1_048_576)
    """Size at which that file is rotated, in megabytes; 1 to 1,048,576."""

    file_kept: int = between(10, 1, 1_000)
    """Number of rotated files to keep; 1 to 1,000."""

    syslog: str = "unix:/dev/log"
    """Address for the sink `syslog`: `unix:/dev/log`, `udp://HOST:PORT`, `tcp://HOST:PORT`."""

    otel_endpoint: str = ""
    """OTLP/HTTP endpoint for the sink `otel`, such as `http://127.0.0.1:4318/v1/logs`; empty: from
    the OpenTelemetry environment variables."""

    signed_max_mb: int = between(16, 1, 1_024)
    """Maximum size of `audit.signed`, the second copy of the signed checkpoints, in megabytes; 1 to
    1,024. When it is full, every other checkpoint in the older half is deleted."""


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Table `[log]`."""

    level: LogLevel = "info"
    """Minimum level to log."""

    format: Literal["text", "json"] = "text"
    """`text` for people, `json` for machines."""

    file: str = ""
    """Path of the log file, rotated at 10 MB, 5 files kept; empty: standard error."""

    requests: Literal["auto", "on", "off"] = "auto"
    """Whether to log a line per request with its ID, trace, caller, status and duration, but not
    its content. `auto`: only with `format = "json"`."""

    servers: Mapping[str, LogLevel] = field(default_factory=dict[str, LogLevel])
    """Log level by server name: `debug`, `info`, `warning` or `error`."""

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
    """Table `[metrics]`: Prometheus metrics at `/metrics`, and their export.

    See [operations.md](operations.md).
    """

    enabled: bool = True
    """Whether metrics are collected and `/metrics` is served."""

    open: bool = False
    """With `auth = "required"`: whether `/metrics` is accessible without a token. Otherwise it
    requires a token with the right `manage`. The metrics contain server names."""

    endpoint: str = ""
    """OTLP/HTTP endpoint to export metrics to, such as `http://127.0.0.1:4318/v1/metrics`; empty:
    no export. Needs the extra `otel`."""

    every_s: float = between(30.0, 1, 3_600)
    """Export interval in seconds; 1 to 3,600."""


@dataclass(frozen=True, kw_only=True)
class TraceSettings:
    """Table `[traces]`: OpenTelemetry traces. See [operations.md](operations.md)."""

    endpoint: str = ""
    """OTLP/HTTP endpoint (JSON) to export traces to, such as `http://127.0.0.1:4318/v1/traces`;
    empty: tracing is off."""

    share: float = between(10.0, 0, 100)
    """Percentage of new traces to record; 0 to 100. Requests that already belong to a trace follow
    their `traceparent` header."""

    arguments: bool = False
    """Whether spans of calls contain the arguments, secrets masked. WARNING: they then leave
    Toolgate and are stored in your tracing system."""
