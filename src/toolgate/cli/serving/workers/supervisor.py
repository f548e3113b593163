"""Starts several gateways on one port, replaces those that end, and restarts them one by one.

The supervisor holds the sockets and imports nothing of a gateway. Each worker is a replica, as
if on its own machine; the system distributes new connections among their sockets
(`SO_REUSEPORT`).
"""

import logging
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from itertools import count as count_up

import anyio
from anyio.abc import TaskGroup

from toolgate import __version__, settings
from toolgate.base import logs
from toolgate.base.ids import utc_now
from toolgate.base.processes import run_file
from toolgate.base.processes.run_file import RunFile, WorkerState
from toolgate.cli.client._http_exchange import working_folder
from toolgate.cli.client._load_settings import store_url
from toolgate.cli.client._open_gateway import configuration_of
from toolgate.cli.serving.workers.forked_processes import ForkServer
from toolgate.cli.serving.workers.worker_process import WorkerOrders, WorkerProcess
from toolgate.cli.terminal._context import shared_options
from toolgate.cli.terminal._ports import refuse_open_access, refuse_port_of_gateway
from toolgate.cli.terminal._shutdown import ends_with_terminal, interrupt_on_sigterm
from toolgate.errors import SettingError
from toolgate.server.listener import bind
from toolgate.server.signals import received
from toolgate.settings import Settings
from toolgate.types import Json

log = logging.getLogger(__name__)

_START_TIMEOUT_S = 120.0
"""Seconds until a worker must serve (chosen: it waits up to 30 s for its store and 60 s for
servers)."""

_FIRST_PAUSE_S = 0.5
"""Seconds before a worker that has ended a second time is restarted; doubled each further time
(chosen)."""

_LONGEST_PAUSE_S = 30.0
"""Maximum of this pause, in seconds (chosen)."""

_STEADY_S = 60.0
"""Seconds of service after which an end counts as the first one again (chosen)."""

_HANDOVER_MARGIN_S = 5.0
"""Seconds beyond `serve.drain_s` that a rolling restart waits for a worker with long calls
before it goes on with the next one (chosen)."""

_METRICS_TIMEOUT_S = 2.0
"""Seconds to wait for the metrics of workers (chosen: less than the requesting worker waits)."""


def supervise(loaded: Settings, host: str | None, port: int | None, count: int) -> int:
    """Serve with `count` workers until SIGINT or SIGTERM; return the exit status.

    Raises:
        SettingError: The system or the store does not allow several workers.
        PortTakenError: Another program listens on the port.
    """
    logs.set_up(loaded.log, verbose=shared_options().verbose)
    _refuse_unsuitable(loaded, count)
    listen_host = host or loaded.serve.host
    listen_port = loaded.serve.port if port is None else port
    refuse_port_of_gateway(listen_host, listen_port)
    refuse_open_access(listen_host, loaded)
    bind(
        listen_host, listen_port
    ).close()  # fails if a program listens there, whoever it belongs to
    with bind(listen_host, listen_port, is_shared=True) as reserved, interrupt_on_sigterm():
        return anyio.run(_Supervisor(loaded, listen_host, reserved, count).run)


def _refuse_unsuitable(loaded: Settings, count: int) -> None:
    if sys.platform != "linux":
        raise SettingError(
            f"{count} workers cannot share a port on this system.",
            allowed="Only Linux spreads connections over the processes of a port.",
            hint="Use --workers 1, or run replicas behind a load balancer.",
        )
    url = store_url(loaded)
    if url.partition(":")[0].partition("+")[0] == "sqlite":
        raise SettingError(
            f"{count} workers need a store for several processes; this one is"
            f" {run_file.without_password(url)}.",
            allowed="Several workers: PostgreSQL. With SQLite: one.",
            hint='Set store.url = "postgresql://USER@HOST/DATABASE" (docs/operations.md), or use'
            " --workers 1.",
        )


class _Slot:
    """The slot of a worker: its number, its socket, and its current process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.listener: socket.socket | None = None
        self.worker: WorkerProcess | None = None
        self.restarts = 0
        self.lock = anyio.Lock()
        """Held while the process is replaced."""

    def close(self) -> None:
        """Close the socket, so that new connections go to the other workers."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    def state(self) -> WorkerState:
        worker = self.worker
        if worker is None or worker.ended.is_set():
            return WorkerState(number=self.number, pid=0, state="waiting", restarts=self.restarts)
        state = "serving" if worker.address else "starting"
        return WorkerState(number=self.number, pid=worker.pid, state=state, restarts=self.restarts)


class _Supervisor:
    """Keeps the workers of a gateway running."""

    def __init__(self, loaded: Settings, host: str, reserved: socket.socket, count: int) -> None:
        self._settings = loaded
        self._host = host
        self._port: int = reserved.getsockname()[1]
        self._slots = [_Slot(number) for number in range(1, count + 1)]
        self._processes: set[WorkerProcess] = set()
        self._forks: ForkServer | None = None
        self._forks_lock = anyio.Lock()
        self._key = run_file.new_key()
        self._began = utc_now()
        self._run: RunFile | None = None
        self._address = ""
        self._is_stopping = False
        self._is_rolling = False
        self._status = 0
        self._collections: dict[int, Callable[[int, str], None]] = {}
        self._collection_numbers = count_up()

    async def run(self) -> int:
        """Serve until a signal arrives; return the exit status."""
        assert sys.platform != "win32"  # the settings refuse workers there
        had_terminal = sys.stderr.isatty()
        with received(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._run_workers, tasks)
                try:
                    while True:
                        number = await signals.get()
                        if number != signal.SIGHUP or ends_with_terminal(had_terminal):
                            self._stop(tasks)
                        elif not self._is_rolling:
                            tasks.start_soon(self._restart_all, tasks)
                finally:
                    if self._run is not None:
                        run_file.remove(self._run)
        return self._status

    async def _run_workers(self, tasks: TaskGroup) -> None:
        """Start the first worker, then the others, to report an error that affects all once."""
        first = self._slots[0]
        async with first.lock:
            worker = first.worker = await self._start(first, tasks)
        await self._wait_settled(worker)
        if not worker.address and not self._is_stopping:
            await worker.ended.wait()
            self._status = worker.status or 1
            tasks.cancel_scope.cancel()
            return
        self._address = worker.address
        self._announce()
        for slot in self._slots:
            tasks.start_soon(self._keep, slot, tasks)

    async def _start(
        self, slot: _Slot, tasks: TaskGroup, *, is_successor: bool = False
    ) -> WorkerProcess:
        """Start a process in a slot; a successor listens only once its servers are connected."""
        if slot.listener is None:
            slot.listener = bind(self._host, self._port, is_shared=True)
        orders = WorkerOrders(
            number=slot.number,
            count=len(self._slots),
            reports_start=not self._address,
            listens_at_once=not is_successor,
            host=self._host,
            key=self._key,
        )
        worker = await WorkerProcess.start(orders, slot.listener, await self._fork_server(tasks))
        self._processes.add(worker)
        tasks.start_soon(self._follow, worker, tasks)
        if self._is_stopping:
            worker.send_signal(signal.SIGTERM)
        return worker

    async def _fork_server(self, tasks: TaskGroup) -> ForkServer:
        """Return the fork server; start one if there is none that can fork."""
        async with self._forks_lock:
            if self._forks is None or self._forks.has_ended:
                self._forks = await ForkServer.start()
                tasks.start_soon(self._forks.follow)
            return self._forks

    def _take_new_code(self) -> None:
        """Let the next workers run the code that is installed now."""
        if self._forks is not None:
            self._forks.retire()
            self._forks = None

    async def _follow(self, worker: WorkerProcess, tasks: TaskGroup) -> None:
        await worker.follow(partial(self._answer, tasks))
        self._processes.discard(worker)
        if self._is_stopping and not self._processes:
            tasks.cancel_scope.cancel()

    async def _wait_settled(self, worker: WorkerProcess) -> None:
        """Wait until a worker serves or has ended; kill it on a timeout."""
        with anyio.move_on_after(_START_TIMEOUT_S):
            await worker.settled.wait()
        if not worker.settled.is_set():
            log.error("worker does not start", extra={"worker": worker.number, "pid": worker.pid})
            worker.end_at_once()

    async def _keep(self, slot: _Slot, tasks: TaskGroup) -> None:
        """Keep a worker running in its slot.

        One that ends is restarted at once; new connections wait in its socket meanwhile. If it
        ends again soon, its socket is closed until the next attempt, so that new connections go
        to the others.
        """
        failures = 0
        while not self._is_stopping:
            async with slot.lock:
                worker = slot.worker
                if worker is not None and worker.ended.is_set():
                    failures = 1 if worker.served_s > _STEADY_S else failures + 1
                    pause_s = 0.0
                    if failures > 1:
                        slot.close()
                        pause_s = min(_FIRST_PAUSE_S * 2 ** (failures - 2), _LONGEST_PAUSE_S)
                    log.error(
                        "worker ended, starting it again",
                        extra={"worker": slot.number, "status": worker.status, "after_s": pause_s},
                    )
                    self._announce()
                    await anyio.sleep(pause_s)
                    slot.restarts += 1
                    worker = None
                if worker is None:
                    worker = slot.worker = await self._start(slot, tasks)
                    self._announce()
            await self._wait_settled(worker)
            self._announce()
            await worker.ended.wait()

    async def _restart_all(self, tasks: TaskGroup) -> None:
        """Replace the workers one after the other; each serves until its successor does."""
        self._is_rolling = True
        log.info("restarting the workers one by one")
        self._take_new_code()
        try:
            for slot in self._slots:
                if not await self._replace(slot, tasks):
                    return
        finally:
            self._is_rolling = False
        log.info("all workers are restarted")

    async def _replace(self, slot: _Slot, tasks: TaskGroup) -> bool:
        """Replace the process in a slot; return False if that fails, or when shutting down."""
        async with slot.lock:
            former = slot.worker
            if self._is_stopping:
                return False
            if former is None or former.ended.is_set():
                return True  # it is being started anyway
            successor = await self._start(slot, tasks, is_successor=True)
            await self._wait_settled(successor)
            if self._is_stopping:
                return False
            if not successor.address or successor.ended.is_set():
                log.error(
                    "the new worker did not start; the others stay as they are",
                    extra={"worker": slot.number, "status": successor.status},
                )
                return False
            slot.worker = successor
            self._announce()
        await former.send("retire")
        with anyio.move_on_after(self._settings.serve.drain_s + _HANDOVER_MARGIN_S):
            await former.ended.wait()
        return True

    def _stop(self, tasks: TaskGroup) -> None:
        """Stop all workers; a second call stops them at once."""
        if not self._is_stopping:
            log.info("shutting down", extra={"workers": len(self._processes)})
        self._is_stopping = True
        for worker in self._processes:
            worker.send_signal(signal.SIGTERM)
        if not self._processes:
            tasks.cancel_scope.cancel()

    def _announce(self) -> None:
        """Write the run file, with the state of each worker."""
        if self._is_stopping:
            return
        try:
            self._run = run_file.write(
                settings.run_dir(),
                address=self._address,
                store=store_url(self._settings),
                configuration=configuration_of(self._settings),
                started_at=self._began,
                version=__version__,
                runs_in=str(working_folder()),
                files=tuple(map(str, self._settings.files)),
                key=self._key,
                workers=[slot.state() for slot in self._slots],
            )
        except OSError as error:
            log.warning("cannot write the run file, commands will not find this gateway: %s", error)

    async def _answer(self, tasks: TaskGroup, worker: WorkerProcess, message: Json) -> None:
        """Pass on messages between workers."""
        match message["kind"]:
            case "collect_metrics":
                tasks.start_soon(self._collect_metrics, worker, message["id"])
            case "metrics":
                if (take := self._collections.get(message["id"])) is not None:
                    take(worker.number, message["text"])
            case _:
                log.warning("unknown message of a worker", extra={"kind": message["kind"]})

    async def _collect_metrics(self, asking: WorkerProcess, request: int) -> None:
        """Send a worker the metrics of the others."""
        asked = [
            slot.worker
            for slot in self._slots
            if slot.worker not in {None, asking} and slot.state().state == "serving"
        ]
        texts: dict[int, str] = {}
        complete = anyio.Event()

        def take(number: int, text: str) -> None:
            texts[number] = text
            if len(texts) == len(asked):
                complete.set()

        collection = next(self._collection_numbers)
        self._collections[collection] = take
        with anyio.move_on_after(_METRICS_TIMEOUT_S if asked else 0):
            for worker in asked:
                assert worker is not None
                await worker.send("give_metrics", id=collection)
            await complete.wait()
        del self._collections[collection]
        await asking.send("collected", id=request, texts=texts)
