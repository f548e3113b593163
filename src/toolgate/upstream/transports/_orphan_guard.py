"""Ends our child processes when the gateway dies, however it dies.

A process killed with SIGKILL cannot clean up. So a small process next to the gateway waits at
the end of a pipe, knows the process groups of the gateway's children, and ends the remaining
ones when the pipe closes.
"""

import logging
import os
import subprocess
import sys
from contextlib import suppress

from anyio import to_thread

log = logging.getLogger(__name__)

_PROGRAM = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))

def send(number):
    for group in list(groups):
        try:
            os.killpg(group, number)
        except OSError:
            groups.discard(group)

send(signal.SIGTERM)
end = time.monotonic() + 2
while groups and time.monotonic() < end:
    time.sleep(0.02)
    send(0)
send(signal.SIGKILL)
"""


class OrphanGuard:
    """Stores which process groups to end when this process is gone.

    Starts with the first group; does nothing on Windows, which has no process groups.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()

    @property
    def pid(self) -> int | None:
        """Process id of the guard; None while it is not running."""
        return None if self._process is None else self._process.pid

    def watch(self, group: int) -> None:
        """End this process group if the gateway dies."""
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        """Forget a process group that has ended."""
        if group in self._groups:
            self._groups.discard(group)
            self._tell(f"-{group}\n")

    async def aclose(self) -> None:
        """Stop the guard, which ends all groups that were not released."""
        process, self._process = self._process, None
        self._groups.clear()
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            await to_thread.run_sync(process.wait)

    def _tell(self, line: str) -> None:
        if sys.platform == "win32" or (self._process is None and not self._groups):
            return
        # Started late, since most installations have only HTTP servers.
        if self._process is None or not self._write(line):
            self._start()

    def _write(self, line: str) -> bool:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), line.encode())
        except OSError:
            return False
        return True

    def _start(self) -> None:
        if self._process is not None:  # somebody ended it: another one takes over
            log.warning("orphan guard was gone and is started again")
            assert self._process.stdin is not None
            with suppress(OSError):
                self._process.stdin.close()
            self._process.poll()
            self._process = None
        if not sys.executable:
            log.warning("no orphan guard: this Python does not know its own path")
            return
        try:
            self._process = self._spawn()
        except OSError:
            log.exception("no orphan guard could be started")
            return
        for group in self._groups:
            self._write(f"+{group}\n")

    def _spawn(self) -> "subprocess.Popen[bytes]":
        # Its own session, so that Ctrl-C in the terminal does not end the guard with the gateway;
        # and no environment, which may contain secrets.
        return subprocess.Popen(  # noqa: S603 -- our own interpreter and program
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )
