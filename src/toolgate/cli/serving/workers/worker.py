"""A worker: a gateway that serves a port together with others, under a supervisor."""

import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path

import anyio

from toolgate.cli.serving.workers.channel import WorkerChannel
from toolgate.cli.terminal._context import SharedOptions, set_shared_options
from toolgate.cli.terminal._exit import ANY_ERROR, replace_unencodable, report
from toolgate.types import Json, json_object

log = logging.getLogger(__name__)

_METRICS_TIMEOUT_S = 3.0
"""Seconds to wait for the metrics of all other workers (chosen: scrapers time out after ten)."""


class SupervisedWorker:
    """What the gateway in this process knows about the other workers, and its channel to them."""

    def __init__(self, channel: WorkerChannel, orders: Json, listener: socket.socket) -> None:
        self.number: int = orders["number"]
        """Number of this worker, from 1."""
        self.count: int = orders["count"]
        """Number of workers."""
        self.reports_start: bool = orders["reports_start"]
        """Whether it prints the gateway's URL and the state of the servers."""
        self.listens_at_once: bool = orders["listens_at_once"]
        """Whether clients may connect before its servers are connected."""
        self.key: str = orders["key"]
        """Key that relays and commands of the same user present."""
        self.listener = listener
        """Socket on the port shared by all workers."""
        self.listener.setblocking(False)
        self.listener.set_inheritable(False)
        self.retirement = anyio.Event()
        """Set when another process replaces this one."""
        self._channel = channel
        self._give: Callable[[], Awaitable[str]] | None = None
        self._collected: dict[int, Mapping[int, str]] = {}
        self._answers: dict[int, anyio.Event] = {}

    async def connect(self) -> None:
        """Make the channel to the supervisor usable in this event loop."""
        await self._channel.open()

    async def follow(self) -> None:
        """Follow the supervisor's orders; stop this process once the supervisor has ended."""
        async with anyio.create_task_group() as tasks:
            while (message := await self._channel.receive()) is not None:
                match message["kind"]:
                    case "retire":
                        self.retirement.set()
                    case "give_metrics":
                        tasks.start_soon(self._send_metrics, message["id"])
                    case "collected":
                        texts = json_object(message["texts"])
                        self._collected[message["id"]] = {int(n): t for n, t in texts.items()}
                        if answer := self._answers.get(message["id"]):
                            answer.set()
                    case unknown:
                        log.warning("unknown message of the supervisor", extra={"kind": unknown})
            signal.raise_signal(signal.SIGTERM)

    async def report_serving(self, address: str) -> None:
        """Tell the supervisor that clients are served at this address."""
        await self._channel.send("serving", address=address)

    def offer_metrics(self, give: Callable[[], Awaitable[str]]) -> None:
        """Let the other workers request the metrics of this one."""
        self._give = give

    async def metrics(self) -> Mapping[int, str]:
        """Return the metrics of the other workers by number, without those that time out."""
        request = max(self._answers, default=0) + 1
        answer = self._answers[request] = anyio.Event()
        try:
            await self._channel.send("collect_metrics", id=request)
            with anyio.move_on_after(_METRICS_TIMEOUT_S):
                await answer.wait()
            return self._collected.pop(request, {})
        finally:
            del self._answers[request]

    async def _send_metrics(self, request: int) -> None:
        text = await self._give() if self._give is not None else ""
        await self._channel.send("metrics", id=request, text=text)


def work(channel_fd: int, listener_fd: int) -> int:
    """Serve until the supervisor stops this worker; return the exit status.

    Args:
        channel_fd: Socket for the supervisor's orders.
        listener_fd: Socket on the port shared by all workers.
    """
    replace_unencodable()
    verbose = 0
    try:
        listener = socket.socket(fileno=listener_fd)
        end = socket.socket(fileno=channel_fd)
        end.set_inheritable(False)
        channel = WorkerChannel(end)
        orders = channel.read_first()
        options = _options(json_object(orders["options"]))
        verbose = options.verbose
        set_shared_options(options)
        process = import_module("toolgate.cli.serving._process")
        worker = SupervisedWorker(channel, orders, listener)
        return int(process.serve_as_worker(orders["host"], worker))
    except ANY_ERROR as error:
        return report(error, verbose=verbose)


def _options(sent: Json) -> SharedOptions:
    return SharedOptions(
        config=Path(sent["config"]) if sent["config"] else None,
        imports=tuple(sent["imports"]),
        auth=sent["auth"],
        log_file=sent["log_file"],
        dev=sent["dev"],
        verbose=sent["verbose"],
    )
