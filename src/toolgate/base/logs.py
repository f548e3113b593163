"""Sets up logging for serving processes, and formats log lines.

The command line calls it when a gateway starts; importing Toolgate does not configure logging.
"""

import json
import logging
import logging.handlers
import os
import sys
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO

from toolgate.base.private_folder import create_private_folder
from toolgate.base.tracing import current_trace
from toolgate.errors import SettingError

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the current request, contained in log lines, audit records, errors and responses."""

ROTATE_BYTES = 10 * 2**20
"""Size at which a log file is rotated (chosen)."""

ROTATE_KEPT = 5
"""Number of rotated files to keep (chosen)."""

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes of every log record; all others are fields of the event."""


class LogOptions(Protocol):
    """The part of the table `[log]` that `set_up` reads."""

    @property
    def level(self) -> str:
        """`debug`, `info`, `warning` or `error`."""
        ...

    @property
    def format(self) -> str:
        """`text` or `json`."""
        ...

    @property
    def path(self) -> Path | None:
        """The file to write to; None: the stream."""
        ...

    @property
    def servers(self) -> Mapping[str, str]:
        """Level by server name."""
        ...


def set_up(
    settings: LogOptions, *, verbose: int = 0, stream: TextIO | None = None, worker: int = 0
) -> Path | None:
    """Configure logging. Returns the log file, or None for standard error.

    Args:
        settings: Table `[log]`.
        verbose: 1 or more lowers the level to debug.
        stream: Destination if there is no file; standard error by default.
        worker: Number of this process among the workers of a gateway, added to all lines; 0: none.

    Raises:
        SettingError: The file cannot be written.
    """
    level = logging.DEBUG if verbose else _LEVELS[settings.level]
    path = settings.path
    handler = _file_handler(path) if path else logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else TextLines())
    by_server = {name: _LEVELS.get(word, level) for name, word in settings.servers.items()}
    handler.addFilter(ByServer(level, by_server))
    if worker:
        handler.addFilter(partial(_name_worker, worker))

    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("toolgate").setLevel(min([level, *by_server.values()]))
    logging.captureWarnings(True)
    return path


def take_over(library: str) -> None:
    """Send the log of a library with handlers of its own to the log of the gateway.

    Call it after importing the library: FastMCP then logs to standard error, in colours and
    columns, whatever `[log]` says (fastmcp 4.1.2). Without `set_up` it does nothing: if Toolgate
    is embedded, the host program decides.
    """
    ours = (JsonLines, TextLines)
    if not any(isinstance(handler.formatter, ours) for handler in logging.getLogger().handlers):
        return
    logger = logging.getLogger(library)
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


def tail(path: Path, *, lines: int = 200) -> list[str]:
    """The last lines of a log file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return read_tail(file, lines=lines)
    except OSError:
        return []


def read_tail(file: BinaryIO, *, lines: int, most_bytes: int = 256 * 2**10) -> list[str]:
    """The last lines of an open file; afterwards its position is the end of what was read."""
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - most_bytes))
    read = file.read().decode("utf-8", "replace").splitlines()
    return read[-lines:] if lines else []


class ByServer(logging.Filter):
    """Filters records by the level of the server they are about, or else by the general level."""

    def __init__(self, level: int, by_server: Mapping[str, int]) -> None:
        super().__init__()
        self._level = level
        self._by_server = by_server

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        server = getattr(record, "server", None)
        level = self._by_server.get(server, self._level) if isinstance(server, str) else self._level
        return record.levelno >= level


def _name_worker(number: int, record: logging.LogRecord) -> bool:
    record.worker = number
    return True


class PrivateFile(logging.handlers.RotatingFileHandler):
    """A log file that only its user can read, since it names servers, programs and paths.

    Several processes may write to it: one rotates it, the others follow.
    """

    def shouldRollover(self, record: logging.LogRecord) -> int:  # noqa: N802 - name of the library
        """Whether the file is full; first follows another process that rotated it."""
        if self.stream is not None and self._is_replaced(self.stream):
            self.stream.close()
            self.stream = self._open()
        return super().shouldRollover(record)

    def doRollover(self) -> None:  # noqa: N802 - name of the library
        """Rotate the file, unless another process has just done so."""
        if sys.platform == "win32" or self.stream is None:
            super().doRollover()
            return
        import fcntl  # noqa: PLC0415 - POSIX only

        full = os.dup(self.stream.fileno())  # holds the lock while the stream is closed
        try:
            fcntl.flock(full, fcntl.LOCK_EX)
            if not self._is_replaced(self.stream):
                super().doRollover()
        finally:
            os.close(full)

    def _is_replaced(self, stream: TextIOWrapper) -> bool:
        """Whether the name now belongs to another file, or to none."""
        try:
            named = Path(self.baseFilename).stat()
        except OSError:
            return True
        ours = os.fstat(stream.fileno())
        return (named.st_ino, named.st_dev) != (ours.st_ino, ours.st_dev)

    def _open(self) -> TextIOWrapper:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        # With the opener, the type checker no longer knows that this is a text file.
        file: Any = open(  # noqa: SIM115 - the handler closes it
            self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=private
        )
        return file


class TextLines(logging.Formatter):
    """`2026-01-31 10:00:00.000+01:00 warning upstream down  server=github after_s=5.0`."""

    def format(self, record: logging.LogRecord) -> str:
        """A line, followed by the traceback if there is one."""
        at = _at(record).astimezone().isoformat(sep=" ", timespec="milliseconds")
        fields = "".join(f" {name}={_word(value)}" for name, value in _fields(record).items())
        line = f"{at} {record.levelname.lower():<7} {_one_line(record.getMessage())}"
        line += f" {fields}" if fields else ""
        return f"{line}\n{_traceback(record)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """One JSON object per line: `at`, `level`, `logger`, `event`, the fields, `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        entry: dict[str, Any] = {
            "at": _at(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        entry |= _fields(record)
        if record.exc_info:
            entry["traceback"] = _traceback(record)
        return json.dumps(entry, ensure_ascii=False, default=str)


def _file_handler(path: Path) -> logging.Handler:
    try:
        create_private_folder(path.parent)
        return PrivateFile(
            path,
            maxBytes=ROTATE_BYTES,
            backupCount=ROTATE_KEPT,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError as error:
        raise SettingError(
            f"Log file {str(path)!r} cannot be written: {error.strerror or error}.",
            hint="Set log.file to a file in a writable folder, or remove it.",
        ) from error


def _at(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, tz=UTC)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = {name: value for name, value in vars(record).items() if name not in _PLAIN}
    request_id = REQUEST_ID.get()
    if request_id:
        fields.setdefault("request_id", request_id)
    trace = current_trace()
    if trace is not None:
        fields.setdefault("trace_id", trace.trace_id)
    return fields


def _traceback(record: logging.LogRecord) -> str:
    assert record.exc_info
    return "".join(traceback.format_exception(*record.exc_info)).rstrip()


def _word(value: object) -> str:
    text = str(value)
    plain = text and not any(char.isspace() or char in '"=' for char in text) and text.isprintable()
    return text if plain else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    """Escape line breaks, so that foreign text cannot start a log line."""
    return text.replace("\r", "\\r").replace("\n", "\\n")
