"""A child process in its own process group, with pipes; its end is always noticed.

Uses the callbacks of asyncio's subprocess transport instead of `asyncio.subprocess.Process`,
whose `wait` hangs in Python 3.11 while a grandchild holds a pipe open.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

import anyio

from toolgate.base.processes.windows_job import WindowsJob
from toolgate.errors import UnreachableError

STDIN, STDOUT, STDERR = 0, 1, 2

READ_BYTES = 2**18
"""Bytes read at a time, so that a child that floods us delays nobody for long."""

PIPE_BYTES = 2**20
"""Size in bytes of the standard output pipe, if the system allows a choice: fewer reads for
large messages."""

# Lines of standard error that are stored (chosen).
TAIL_LINES = 50
# Characters of each line (chosen).
TAIL_LINE_LENGTH = 500
# Seconds between checks whether a process group has ended: the system does not announce that.
POLL_S = 0.02

_STYLE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""Terminal escape sequences for colours and cursor movement."""


class Child(asyncio.SubprocessProtocol):
    """A running child. Created by `Child.start`."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.stdout = asyncio.StreamReader(limit=READ_BYTES, loop=loop)
        self.exited = asyncio.Event()
        self.stdin_lost = asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        self._job: WindowsJob | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._tail_rest = b""

    @classmethod
    async def start(
        cls, command: str, args: Sequence[str], *, env: Mapping[str, str], cwd: str | None
    ) -> "Child":
        """Start a child with exactly this environment.

        Raises:
            UnreachableError: The command or the folder does not exist or may not be used.
        """
        if cwd is not None and not await anyio.Path(cwd).is_dir():
            raise UnreachableError(
                f"The folder {cwd!r} to run {command!r} in does not exist.",
                hint="Correct cwd of this server.",
            )
        flags = 0
        if sys.platform == "win32":  # CreateProcess finds no npx.cmd by the name npx
            command = shutil.which(command, path=env.get("PATH")) or command
            flags = subprocess.CREATE_NO_WINDOW  # a gateway without a console opens windows
        try:
            _, child = await asyncio.get_running_loop().subprocess_exec(
                cls,
                command,
                *args,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                creationflags=flags,
            )
        except FileNotFoundError as error:
            raise UnreachableError(
                f"The command {command!r} was not found.",
                hint="Install it, or set command of this server to its full path.",
            ) from error
        except (OSError, ValueError) as error:
            raise UnreachableError(
                f"The command {command!r} could not be started: {error}.",
                hint="Correct command, args and env of this server.",
            ) from error
        if sys.platform == "win32":
            with suppress(OSError):  # it has ended already
                child._job = WindowsJob(child.pid)  # noqa: SLF001 - our own
        return child

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        assert self._transport is not None
        return self._transport.get_pid()

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        assert self._transport is not None
        return self._transport.get_returncode()

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines of the child's standard error."""
        rest = self._tail_rest.strip()
        return (*self._tail, _cut(rest)) if rest else tuple(self._tail)

    @property
    def unwritten_bytes(self) -> int:
        """Bytes written that neither the child has read nor the pipe holds."""
        return self._stdin().get_write_buffer_size()

    @property
    def is_writable(self) -> bool:
        """Whether the child has read most of what was written."""
        return self._may_write.is_set()

    async def wait_until_writable(self) -> None:
        """Wait while the child has much unread input."""
        await self._may_write.wait()

    def write(self, text: bytes) -> None:
        """Queue a message after all earlier ones."""
        stdin = self._stdin()
        if len(text) < READ_BYTES:
            stdin.write(text + b"\n")
        else:
            stdin.writelines((text, b"\n"))

    def how_it_ended(self) -> str:
        """One sentence about the child's end, or about its output if it still runs."""
        status = self.status
        if status is None:
            return "The process closed its standard output."
        if status >= 0:
            return f"The process exited with status {status}."
        with suppress(ValueError):
            return f"The process was ended by the signal {signal.Signals(-status).name}."
        return f"The process was ended by the signal {-status}."

    async def end(self, *, patience_s: float) -> None:
        """Close the input, then terminate the group, then kill it; each step waits `patience_s`."""
        stdin = self._stdin()
        # close() would wait until a child that no longer reads takes what is buffered.
        if stdin.get_write_buffer_size():
            stdin.abort()
        else:
            stdin.close()
        if not await self._ends_within(patience_s) or self._group_lives():
            self._end_group(at_once=False)
        if not await self._group_ends_within(patience_s):
            self._end_group(at_once=True)
            await self._group_ends_within(patience_s)
        self._close_pipes()

    async def _ends_within(self, limit_s: float) -> bool:
        with anyio.move_on_after(limit_s):
            await self.exited.wait()
        return self.exited.is_set()

    async def _group_ends_within(self, limit_s: float) -> bool:
        end = time.monotonic() + limit_s
        if not await self._ends_within(limit_s):
            return False
        while self._group_lives():  # grandchildren send us no signal when they end
            if time.monotonic() >= end:
                return False
            await anyio.sleep(POLL_S)
        return True

    def _group_lives(self) -> bool:
        if sys.platform == "win32":
            return not self.exited.is_set() if self._job is None else self._job.is_alive()
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS says so of a group of zombies
            return True
        return True

    def _end_group(self, *, at_once: bool) -> None:
        """Signal the group, since `npx` and `uvx` start the real server as a grandchild."""
        assert self._transport is not None
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":  # there is no request to end: both steps end it
                if self._job is None:
                    self._transport.terminate()
                else:
                    self._job.terminate()
            else:
                os.killpg(self.pid, signal.SIGKILL if at_once else signal.SIGTERM)

    def _close_pipes(self) -> None:
        assert self._transport is not None
        self._transport.close()
        if self._job is not None:
            self._job.close()

    def _stdin(self) -> asyncio.WriteTransport:
        assert self._transport is not None
        return cast("asyncio.WriteTransport", self._transport.get_pipe_transport(STDIN))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the process runs and its pipes are connected."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        stdout = self._transport.get_pipe_transport(STDOUT)
        assert stdout is not None
        self.stdout.set_transport(stdout)
        _widen(stdout)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Receive output of the child."""
        assert isinstance(data, bytes)
        if fd == STDOUT:
            self.stdout.feed_data(data)
        else:
            self._note(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 -- contract
        """Note that the child closed a pipe, or that the pipe's last holder ended."""
        if fd == STDOUT:
            self.stdout.feed_eof()
        elif fd == STDIN:
            self.stdin_lost.set()
            self._may_write.set()

    def process_exited(self) -> None:
        """Note that the child has ended; other processes may still hold its pipes."""
        self.exited.set()

    def pause_writing(self) -> None:
        """Note that the child reads more slowly than we write."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Note that the child has caught up."""
        self._may_write.set()

    def _note(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = self._tail_rest + lines[0]
            self._tail.extend(_cut(line) for line in lines[-TAIL_LINES:] if line.strip())
            # UTF-8 has at most four bytes per character; this bounds a line that never ends.
            self._tail_rest = rest[: 4 * TAIL_LINE_LENGTH]
        else:
            self._tail_rest = (self._tail_rest + rest)[: 4 * TAIL_LINE_LENGTH]


def _cut(line: bytes) -> str:
    line = _STYLE.sub(b"", line)
    return line[: 4 * TAIL_LINE_LENGTH].decode(errors="replace").rstrip()[:TAIL_LINE_LENGTH]


def _widen(pipe: asyncio.BaseTransport) -> None:
    if sys.platform == "linux":
        import fcntl  # noqa: PLC0415 -- not on every platform

        with suppress(OSError, ValueError):  # ValueError: it has ended, its pipe is closed
            fcntl.fcntl(pipe.get_extra_info("pipe"), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
