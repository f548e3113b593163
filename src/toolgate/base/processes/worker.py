"""Runs a function in child processes that can be killed.

For work on untrusted input that cannot be stopped in a thread, such as a library call that takes
minutes or gigabytes. A worker starts on demand, is reused, and is killed when an answer takes
too long or is no longer needed. Requests and answers are JSON and bytes, so a compromised worker
cannot run code in the gateway.
"""

import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, Final

import anyio
import orjson
from anyio import to_thread

from toolgate.base.processes.worker_program import REPLY, REQUEST

_PROGRAM: Final = """
import sys
sys.path[:] = sys.argv[3:]
from toolgate.base.processes.worker_program import run
run(sys.argv[1], int(sys.argv[2]))
"""
"""The worker's program; it searches modules where the gateway does."""

_START_S: Final = 60.0
"""Seconds that a worker may take to start (chosen: a busy machine)."""

_END_S: Final = 2.0
"""Seconds to wait for the system to end a killed worker (chosen)."""

_IDLE_S: Final = 60.0
"""Seconds without requests after which a worker is ended (chosen)."""


class WorkerError(Exception):
    """A worker gave no answer: it ran out of memory, crashed, or could not start."""

    def __init__(self, reason: str, *, is_out_of_memory: bool = False) -> None:
        """Create the error.

        Args:
            reason: Text for the log.
            is_out_of_memory: Whether the worker reached its memory limit.
        """
        super().__init__(reason)
        self.is_out_of_memory = is_out_of_memory


class WorkersBusyError(TimeoutError):
    """Other calls kept all workers busy; this one did not begin."""


class WorkerPool:
    """Child processes that run one function, started on demand."""

    def __init__(self, function: str, *, memory_mb: int, size: int) -> None:
        """Create a pool without starting workers.

        Args:
            function: `module:name` of the function. It takes a JSON object and bytes, and
                returns JSON; expected errors are part of its answer, an exception is a bug.
            memory_mb: Memory limit of a worker in megabytes, where the system supports it.
            size: Largest number of workers; further calls wait.
        """
        self.memory_mb = memory_mb
        self._function = function
        self._size = size
        self._limiter: anyio.CapacityLimiter | None = None
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._timer: threading.Timer | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the running workers, busy ones first."""
        return tuple(worker.pid for worker in (*self._busy, *self._idle))

    async def call(
        self, arguments: Mapping[str, Any], data: bytes = b"", *, timeout_s: float
    ) -> Any:
        """Call the function in a worker. On cancellation the worker is killed.

        Args:
            arguments: Its first argument.
            data: Its second argument.
            timeout_s: Seconds until the worker is killed. Waiting for a free worker may take the
                same time; starting a worker does not count.

        Raises:
            TimeoutError: It took longer.
            WorkerError: The worker gave no answer.
            WorkersBusyError: No worker was free in time.
        """
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(self._size)
        try:
            with anyio.fail_after(timeout_s):
                await self._limiter.acquire()
        except TimeoutError as error:
            raise WorkersBusyError from error
        try:
            return await self._answer(orjson.dumps(arguments), data, timeout_s)
        finally:
            self._limiter.release()

    async def aclose(self) -> None:
        """Kill all workers. Can be called twice, and the pool can be used again."""
        if self._timer is not None:
            self._timer.cancel()
        for worker in self._busy:
            worker.kill()  # its caller closes it
        while self._idle:
            await _end(self._idle.pop())

    async def _answer(self, request: bytes, data: bytes, timeout_s: float) -> Any:
        worker = await self._take()
        self._busy.add(worker)
        try:
            with anyio.fail_after(timeout_s):
                reply = await _in_thread(worker.answer, request, data, timeout_s)
        except BaseException:
            await _end(worker)
            raise
        finally:
            self._busy.discard(worker)
        if "answer" not in reply:  # who knows in what state it is
            await _end(worker)
            reason = reply.get("failed") or "out of memory"
            raise WorkerError(reason, is_out_of_memory="memory" in reply)
        self._idle.append(worker)
        self._watch_idle()
        return reply["answer"]

    async def _take(self) -> "_Worker":
        while self._idle:
            worker = self._idle.pop()
            if worker.is_running:
                return worker
            await _end(worker)
        worker = _Worker(self._function, self.memory_mb)
        try:
            with anyio.fail_after(_START_S):
                reply = await _in_thread(worker.start)
        except TimeoutError as error:
            await _end(worker)
            raise WorkerError(f"no worker started within {_START_S:g} s") from error
        except BaseException:
            await _end(worker)
            raise
        if "answer" not in reply:
            await _end(worker)
            raise WorkerError(str(reply.get("failed")))
        return worker

    def _watch_idle(self) -> None:
        """End workers that were idle for a while, to free their memory."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(_IDLE_S, self._end_idle)
        self._timer.daemon = True
        self._timer.start()

    def _end_idle(self) -> None:
        while True:
            try:
                worker = self._idle.pop()
            except IndexError:  # a call may take one at the same time
                return
            worker.close()


class _Worker:
    """A child process. Its methods block; `kill` may be called from another thread meanwhile."""

    def __init__(self, function: str, memory_mb: int) -> None:
        self._arguments = [function, str(memory_mb)]
        self._most_bytes = memory_mb * 2**20
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> dict[str, Any]:
        """Start the process, and wait until it is ready."""
        if not sys.executable:
            raise WorkerError("this Python does not know its own path")
        try:
            with self._lock:
                if self._is_killed:
                    raise WorkerError("nobody waits for the worker any more")
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                    # -P: a module in the current folder must not shadow one of ours.
                    [
                        sys.executable,
                        "-P",
                        "-c",
                        _PROGRAM,
                        *self._arguments,
                        *filter(None, sys.path),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
        except OSError as error:
            raise WorkerError(f"no worker could be started: {error}") from error
        return self._closed_on_error(self._receive)

    def answer(self, request: bytes, data: bytes, timeout_s: float) -> dict[str, Any]:
        """Send a request and wait for the answer of the function."""

        def exchange() -> dict[str, Any]:
            pipe = self._pipe("stdin")
            pipe.write(REQUEST.pack(timeout_s, len(request), len(data)))
            pipe.write(request)
            pipe.write(data)
            pipe.flush()
            return self._receive()

        return self._closed_on_error(exchange)

    def kill(self) -> None:
        """Kill the process; a thread that waits for its answer gets an error and closes it."""
        with self._lock:
            self._is_killed = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the process and release its resources."""
        self.kill()
        process = self._process
        if process is not None:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what was not written yet, it does not want any more
                        pipe.close()

    def _closed_on_error(self, work: Any) -> dict[str, Any]:
        try:
            reply: dict[str, Any] = work()
        except (OSError, ValueError, WorkerError) as error:
            self.close()
            code = None if self._process is None else self._process.returncode
            raise WorkerError(f"the worker ended with exit status {code}") from error
        return reply

    def _receive(self) -> dict[str, Any]:
        pipe = self._pipe("stdout")
        head = pipe.read(REPLY.size)
        if len(head) < REPLY.size:
            raise WorkerError("no reply")
        (size,) = REPLY.unpack(head)
        if size > self._most_bytes:
            raise WorkerError("reply too long")
        reply: dict[str, Any] = orjson.loads(pipe.read(size))
        return reply

    def _pipe(self, name: str) -> IO[bytes]:
        pipe: IO[bytes] | None = getattr(self._process, name)
        assert pipe is not None
        return pipe


async def _end(worker: _Worker) -> None:
    """Kill a worker, even while the caller is being cancelled."""
    worker.kill()
    with anyio.move_on_after(_END_S, shield=True):
        await _in_thread(worker.close)


async def _in_thread(work: Any, *arguments: Any) -> Any:
    """Run in a thread that is abandoned on cancellation: it ends when its worker is killed."""
    return await to_thread.run_sync(work, *arguments, abandon_on_cancel=True)
