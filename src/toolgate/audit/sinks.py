"""Audit sinks other than the store: a file, syslog, OpenTelemetry."""

import os
import socket
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import anyio.to_thread

from toolgate.audit.export_formats import EXPORT_FORMATS
from toolgate.base.installation import install_hint
from toolgate.base.private_folder import create_private_folder
from toolgate.errors import MissingExtraError, SettingError, StoreError
from toolgate.settings import AuditSettings, expand_home, service_attributes
from toolgate.types import AuditRecord

_FACILITY: Final = 13  # log audit, RFC 5424 section 6.2.1
# Severities of RFC 5424, section 6.2.1.
_NOTICE: Final = 5
_INFO: Final = 6
""""Informational" of RFC 5424, section 6.2.1."""
# Size limit of a UDP message in bytes, below the 65,507 that IPv4 can carry.
_LONGEST_DATAGRAM: Final = 60_000
# Seconds to connect to the syslog server (chosen).
_CONNECT_S: Final = 5.0


class Sink(Protocol):
    """Writes records in batches."""

    async def append(self, records: Sequence[AuditRecord]) -> None:
        """Write records; all or none.

        Raises:
            StoreError: They could not be written now.
        """
        ...


def sinks_of(settings: AuditSettings) -> list[Sink]:
    """The configured sinks other than the store.

    Raises:
        SettingError: The destination of a sink is missing.
        MissingExtraError: The library of OpenTelemetry is not installed.
    """
    makers: dict[str, Callable[[], Sink]] = {
        "file": lambda: FileSink(settings),
        "syslog": lambda: SyslogSink(settings.syslog),
        "otel": lambda: _OtelSink(settings.otel_endpoint),
    }
    return [makers[name]() for name in settings.sinks if name != "store"]


class FileSink:
    """A file with a line per record, rotated by size."""

    def __init__(self, settings: AuditSettings) -> None:
        """Use the file of the settings.

        Raises:
            SettingError: They name none.
        """
        if not settings.file:
            raise SettingError(
                'audit.sinks has "file", and audit.file does not say which.',
                hint='Set audit.file = "/var/log/toolgate/audit.jsonl".',
            )
        self._path = Path(expand_home(settings.file))
        self._head, self._line = EXPORT_FORMATS[settings.file_format]
        self._max_bytes = settings.file_max_mb * 2**20
        self._max_files = settings.file_kept

    async def append(self, records: Sequence[AuditRecord]) -> None:
        """Write lines, all or none; they are on disk when it returns."""
        await anyio.to_thread.run_sync(self._write, records)

    def _write(self, records: Sequence[AuditRecord]) -> None:
        text = "".join(map(self._line, records)).encode("utf-8", "replace")
        try:
            create_private_folder(self._path.parent)
            self._put_aside(len(text))
            # Mode 0600 from the start: a later chmod would leave a moment in which others can read.
            handle = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            try:
                _append(handle, text, self._head.encode())
            finally:
                os.close(handle)
        except OSError as error:
            raise StoreError(
                f"The audit log file {self._path} cannot be written: {error.strerror}.",
                hint="Free disk space, or make the file and its folder writable for this user.",
            ) from error

    def _put_aside(self, coming: int) -> None:
        """Rotate the files if `coming` more bytes would exceed the size limit."""
        if not self._path.exists() or self._path.stat().st_size + coming <= self._max_bytes:
            return
        for number in range(self._max_files, 0, -1):
            old = self._numbered(number - 1) if number > 1 else self._path
            if old.exists():
                old.replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _append(handle: int, text: bytes, head: bytes) -> None:
    """Append all or nothing: after a partial write, the file is truncated to its old size."""
    size = os.fstat(handle).st_size
    content = text if size else head + text
    try:
        written = os.write(handle, content)
        while written < len(content):
            written += os.write(handle, content[written:])
        os.fsync(handle)
    except OSError:
        # The whole batch is retried, so a partial batch would appear twice.
        os.ftruncate(handle, size)
        raise


class SyslogSink:
    """A syslog server, by RFC 5424: `unix:/dev/log`, `udp://HOST:PORT`, `tcp://HOST:PORT`."""

    def __init__(self, address: str) -> None:
        """Use the server at an address.

        Raises:
            SettingError: The address is invalid.
        """
        target = urlsplit(address)
        try:
            is_network = target.scheme in {"udp", "tcp"} and bool(target.hostname and target.port)
        except ValueError:
            is_network = False
        if not is_network and not (target.scheme == "unix" and target.path):
            raise SettingError(
                f"audit.syslog is {address[:80]!r}.",
                allowed="Allowed: unix:/dev/log, udp://HOST:PORT, tcp://HOST:PORT.",
                hint="Correct it.",
            )
        self._address = address
        self._target = target
        self._socket: socket.socket | None = None
        self._host = socket.gethostname() or "-"

    async def append(self, records: Sequence[AuditRecord]) -> None:
        """Send a message per record."""
        await anyio.to_thread.run_sync(self._send, records)

    def _send(self, records: Sequence[AuditRecord]) -> None:
        try:
            if self._socket is None:
                self._socket = self._connected()
            for record in records:
                message = self._message(record)
                if self._socket.type == socket.SOCK_STREAM:  # counted: RFC 6587 section 3.4.1
                    message = str(len(message)).encode() + b" " + message
                self._socket.sendall(message)
        except OSError as error:
            if self._socket is not None:
                # The next attempt reconnects; a server that restarted accepts that.
                self._socket.close()
                self._socket = None
            raise StoreError(
                f"The syslog at {self._address} does not accept the audit log: {error}.",
                hint="Check whether it runs, and correct audit.syslog.",
            ) from error

    def _connected(self) -> socket.socket:
        target = self._target
        if target.scheme == "unix":
            if sys.platform == "win32":
                raise StoreError(
                    f"Windows has no syslog at {self._address}.",
                    hint="Write the address of a syslog server into audit.syslog, such as"
                    " udp://logs.example.org:514.",
                )
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            connection.settimeout(_CONNECT_S)
            connection.connect(target.path)
            return connection
        address = (target.hostname or "", target.port or 0)
        if target.scheme == "tcp":
            return socket.create_connection(address, timeout=_CONNECT_S)
        family, kind, protocol, _, where = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
        connection = socket.socket(family, kind, protocol)
        connection.connect(where)
        return connection

    def _message(self, record: AuditRecord) -> bytes:
        level = _INFO if record.status == "ok" else _NOTICE
        head = (
            f"<{_FACILITY * 8 + level}>1 {record.at or '-'} {self._host} toolgate {os.getpid()}"
            f" {record.action or '-'} - "
        )
        text = (
            head.encode("ascii", "replace") + EXPORT_FORMATS["jsonl"][1](record).rstrip().encode()
        )
        # A longer datagram fails with EMSGSIZE and would block all records behind it.
        return text[:_LONGEST_DATAGRAM] if self._target.scheme != "tcp" else text


class _OtelSink:
    """An OpenTelemetry collector of logs, over HTTP."""

    def __init__(self, endpoint: str) -> None:
        try:
            exporting = import_module("opentelemetry.exporter.otlp.proto.http._log_exporter")
            self._logs: Any = import_module("opentelemetry._logs")
            self._sdk: Any = import_module("opentelemetry.sdk._logs")
            resources: Any = import_module("opentelemetry.sdk.resources")
            self._scopes: Any = import_module("opentelemetry.sdk.util.instrumentation")
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                'audit.sinks has "otel", which needs a library that is not installed.',
                hint=install_hint("otel"),
            ) from error
        options = {"endpoint": endpoint} if endpoint else {}
        self._exporter: Any = exporting.OTLPLogExporter(**options)
        self._resource = resources.Resource.create(service_attributes())
        self._endpoint = endpoint or "the collector of the environment"

    async def append(self, records: Sequence[AuditRecord]) -> None:
        """Send the records as log records."""
        await anyio.to_thread.run_sync(self._send, records)

    def _send(self, records: Sequence[AuditRecord]) -> None:
        result = self._exporter.export([self._log_record(record) for record in records])
        if getattr(result, "name", "") != "SUCCESS":
            raise StoreError(
                f"The audit log could not be sent to {self._endpoint}.",
                hint="Check whether the collector runs, and correct audit.otel_endpoint.",
            )

    def _log_record(self, record: AuditRecord) -> Any:
        at = round(datetime.fromisoformat(record.at).timestamp() * 1e9)
        is_fine = record.status in {"ok", "input_required"}
        severity = self._logs.SeverityNumber.INFO if is_fine else self._logs.SeverityNumber.WARN
        trace = str(record.detail.get("trace_id") or "0")
        log_record = self._logs.LogRecord(
            timestamp=at,
            observed_timestamp=at,
            trace_id=int(trace, 16) if trace.isalnum() else 0,
            span_id=0,
            severity_number=severity,
            severity_text=severity.name,
            body=EXPORT_FORMATS["jsonl"][1](record).rstrip(),
            attributes={
                "event.name": f"toolgate.audit.{record.action}",
                "toolgate.record_id": record.record_id,
                "toolgate.status": record.status,
                "toolgate.project": record.project_id,
                "toolgate.target": record.target or "",
                "enduser.id": record.caller_id,
            },
        )
        scope = self._scopes.InstrumentationScope("toolgate.audit")
        return self._sdk.ReadableLogRecord(log_record, self._resource, instrumentation_scope=scope)
