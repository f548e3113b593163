"""The supervisor's view of the fork server, and the processes that it forks."""

import json
import logging
import signal
import socket
import sys
from collections import deque

import anyio
from anyio.abc import Process

from toolgate.cli.serving.workers.fork_server import MAX_MESSAGE_BYTES
from toolgate.types import json_object

log = logging.getLogger(__name__)

_UNKNOWN_STATUS = 1
"""Exit status of a process whose end was not observed."""


_END_S = 5.0
"""Seconds for a fork server without child processes to end, which takes milliseconds (chosen)."""


class ForkedProcess:
    """A process forked by the fork server."""

    def __init__(self, server: "ForkServer", pid: int) -> None:
        self.pid = pid
        """Process id."""
        self.returncode: int | None = None
        """Exit status, negative for the signal that ended it; None while it runs."""
        self._server = server
        self._ended = anyio.Event()

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await self._ended.wait()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process; does nothing once it has ended."""
        if self.returncode is None:
            self._server.send_signal(self.pid, number)

    def note_end(self, status: int) -> None:
        """Record that the process has ended."""
        self.returncode = status
        self._ended.set()


class ForkServer:
    """Starts processes that share the memory of a process with the gateway imported.

    A fork server runs one version of the code: a restart of the workers starts a new one.
    """

    def __init__(self, process: Process, control: socket.socket) -> None:
        self.has_ended = False
        """Whether it has ended and cannot fork any more."""
        self._process = process
        self._control = control
        self._forked: dict[int, ForkedProcess] = {}
        self._waiting: deque[tuple[anyio.Event, list[ForkedProcess]]] = deque()

    @classmethod
    async def start(cls) -> "ForkServer":
        """Start a fork server.

        Raises:
            OSError: It cannot be started.
        """
        assert sys.platform != "win32"  # the settings refuse workers there
        # Such a socket preserves message boundaries, and each message has its own file descriptors.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = await anyio.open_process(
                [
                    sys.executable,
                    *("-m", "toolgate.cli.serving.workers.fork_server"),
                    str(theirs.fileno()),
                ],
                stdin=None,
                stdout=None,
                stderr=None,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C reaches the supervisor alone
            )
        ours.setblocking(False)
        return cls(process, ours)

    async def fork(self, channel: socket.socket, listener: socket.socket) -> ForkedProcess:
        """Start a process with these two sockets.

        Raises:
            OSError: The fork server has ended.
        """
        assert sys.platform != "win32"  # the settings refuse workers there
        begun, place = anyio.Event(), list[ForkedProcess]()
        self._waiting.append((begun, place))
        message = json.dumps({"kind": "fork"}).encode()
        socket.send_fds(self._control, [message], [channel.fileno(), listener.fileno()])
        await begun.wait()
        if not place:
            raise BrokenPipeError("The process that forks the workers has ended.")
        return place[0]

    def send_signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a process; does nothing once the fork server has ended."""
        if not self.has_ended:
            self._control.send(
                json.dumps({"kind": "signal", "pid": pid, "signal": int(number)}).encode()
            )

    def retire(self) -> None:
        """Stop forking; the fork server ends with the last of its processes."""
        if not self.has_ended:
            self._control.shutdown(socket.SHUT_WR)

    async def follow(self) -> None:
        """Handle the messages of the fork server until it ends."""
        try:
            while True:
                await anyio.wait_readable(self._control)
                try:
                    text = self._control.recv(MAX_MESSAGE_BYTES)
                except BlockingIOError:
                    continue
                except OSError:
                    break
                if not text:
                    break
                self._take(text)
        finally:
            self._end()
            with anyio.CancelScope(shield=True), anyio.move_on_after(_END_S):
                await self._process.wait()

    def _take(self, text: bytes) -> None:
        message = json_object(json.loads(text))
        pid = int(message["pid"])
        if message["kind"] == "started":
            process = self._forked[pid] = ForkedProcess(self, pid)
            begun, place = self._waiting.popleft()
            place.append(process)
            begun.set()
        else:
            self._forked.pop(pid).note_end(int(message["status"]))

    def _end(self) -> None:
        """Mark all processes as ended: they are not observed any more; their channel ends them."""
        self.has_ended = True
        self._control.close()
        if self._forked:
            log.error("the process that forks the workers has ended")
        for process in self._forked.values():
            process.note_end(_UNKNOWN_STATUS)
        self._forked.clear()
        while self._waiting:
            self._waiting.popleft()[0].set()
