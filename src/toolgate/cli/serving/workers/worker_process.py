"""The supervisor's view of a worker: a process, and the messages to and from it."""

import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from time import monotonic

import anyio

from toolgate.cli.serving.workers.channel import WorkerChannel
from toolgate.cli.serving.workers.forked_processes import ForkedProcess, ForkServer
from toolgate.cli.terminal._context import shared_options
from toolgate.types import Json


@dataclass(frozen=True, kw_only=True)
class WorkerOrders:
    """What the supervisor sends a worker when it starts."""

    number: int
    """Number of the worker, from 1."""

    count: int
    """Number of workers."""

    reports_start: bool
    """Whether it prints the gateway's URL and the state of the servers."""

    listens_at_once: bool
    """Whether clients may connect before its servers are connected."""

    host: str
    """Address on which all workers listen."""

    key: str
    """Key that relays and commands of the same user present."""


class WorkerProcess:
    """A started worker."""

    def __init__(
        self, orders: WorkerOrders, process: ForkedProcess, channel: WorkerChannel
    ) -> None:
        self.number = orders.number
        """Number of the worker, from 1."""
        self.address = ""
        """URL for clients; empty until it serves."""
        self.settled = anyio.Event()
        """Set once it serves, or has ended before that."""
        self.ended = anyio.Event()
        """Set once the process has ended."""
        self._process = process
        self._channel = channel
        self._serves_since: float | None = None

    @classmethod
    async def start(
        cls, orders: WorkerOrders, listener: socket.socket, forks: ForkServer
    ) -> "WorkerProcess":
        """Start a worker that serves the connections of `listener`.

        Raises:
            OSError: The process cannot be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            process = await forks.fork(theirs, listener)
        channel = WorkerChannel(ours)
        await channel.open()
        options = asdict(shared_options())
        options["config"] = str(options["config"]) if options["config"] else None
        await channel.send("serve", **asdict(orders), options=options)
        return cls(orders, process, channel)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status; None while it runs."""
        return self._process.returncode

    @property
    def served_s(self) -> float:
        """Seconds since it began to serve; 0 before that."""
        return 0.0 if self._serves_since is None else monotonic() - self._serves_since

    async def follow(self, answer: Callable[["WorkerProcess", Json], Awaitable[None]]) -> None:
        """Handle the worker's messages until it ends; `answer` gets those for other workers."""
        while (message := await self._channel.receive()) is not None:
            if message["kind"] == "serving":
                self.address = str(message["address"])
                self._serves_since = monotonic()
                self.settled.set()
            else:
                await answer(self, message)
        await self._process.wait()
        self._channel.close()
        self.ended.set()
        self.settled.set()

    async def send(self, kind: str, **fields: object) -> None:
        """Send a message to the worker; does nothing once it has ended."""
        await self._channel.send(kind, **fields)

    def end_at_once(self) -> None:
        """Kill the worker; does nothing once it has ended."""
        assert sys.platform != "win32"  # the settings refuse workers there
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the worker; does nothing once it has ended."""
        if self._process.returncode is None:
            self._process.send_signal(number)
        else:  # what could signal it has ended; a worker that is told nothing any more ends
            self._channel.close()
