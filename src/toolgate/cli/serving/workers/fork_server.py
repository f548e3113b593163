"""A process that has imported a gateway and forks the workers, which share its memory.

`python -m toolgate.cli.serving.workers.fork_server FD` runs one. It has one thread and no event
loop, since only such a process can be forked safely. The socket FD connects it to its
supervisor, one JSON object per message: it receives commands, and reports which processes have
started and ended.
"""

import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from importlib import import_module
from types import FrameType
from typing import NoReturn

from toolgate.base.processes.memory import defer
from toolgate.types import Json, json_object

MAX_MESSAGE_BYTES = 2**12
"""Maximum length of a message (chosen; actual ones have less than a hundred bytes)."""

_GATEWAY = "toolgate.cli.serving._process"
"""Imported first: it limits what the other modules import."""

_SHARED_MODULES = (
    "toolgate.server.mcp.front",
    "toolgate.store.postgres",
    "toolgate.search.strategies.hybrid",
    "toolgate.models.embedders.bundled",
    "toolgate.models.rerankers.bundled",
    "toolgate.telemetry",
)
"""Other modules that workers import: the only store for several workers, and the usual search."""


def serve_forks(control: socket.socket) -> None:
    """Fork workers until the supervisor has closed its end and all of them have ended."""
    assert sys.platform != "win32"  # the settings refuse workers there
    _import_gateway()
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, _wake)
    signal.set_wakeup_fd(wakes)
    children: set[int] = set()
    is_open = True
    while is_open or children:
        select.select([woken, *([control] if is_open else [])], [], [])
        with contextlib.suppress(BlockingIOError):
            os.read(woken, MAX_MESSAGE_BYTES)
        for pid, status in _ended(children):
            children.discard(pid)
            _tell(control, kind="ended", pid=pid, status=os.waitstatus_to_exitcode(status))
        if is_open and select.select([control], [], [], 0)[0]:
            is_open = _follow(control, children, (woken, wakes))


def _wake(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python writes to the wakeup pipe only if the signal has a handler."""
    del number, frame


def _import_gateway() -> None:
    defer("uvicorn")
    import_module(_GATEWAY).limit_memory()
    for name in _SHARED_MODULES:
        import_module(name)
    # The garbage collector writes to each object that it visits, and a memory page is no longer
    # shared once it is written to: https://docs.python.org/3/library/gc.html#gc.freeze
    gc.collect()
    gc.freeze()


def _ended(children: set[int]) -> list[tuple[int, int]]:
    """Return the child processes that have ended, with their status from `waitpid`."""
    assert sys.platform != "win32"  # the settings refuse workers there
    looked = [os.waitpid(pid, os.WNOHANG) for pid in children]
    return [(pid, status) for pid, status in looked if pid]


def _follow(control: socket.socket, children: set[int], pipe: tuple[int, int]) -> bool:
    """Execute one message; return False once the supervisor has closed its end."""
    assert sys.platform != "win32"  # the settings refuse workers there
    try:
        text, received, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 2)
    except ConnectionResetError:
        return False
    if not text:
        return False
    message: Json = json_object(json.loads(text))
    if message["kind"] == "signal":
        # Only children that are not known to have ended: the id may belong to another program by
        # now.
        if message["pid"] in children:
            os.kill(message["pid"], message["signal"])
        return True
    channel, listener = received
    pid = os.fork()
    if not pid:
        _work(control, pipe, channel, listener)
    children.add(pid)
    os.close(channel)
    os.close(listener)
    _tell(control, kind="started", pid=pid)
    return True


def _work(control: socket.socket, pipe: tuple[int, int], channel: int, listener: int) -> NoReturn:
    """Run a worker in the new process."""
    assert sys.platform != "win32"  # the settings refuse workers there
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        for end in pipe:
            os.close(end)
        os.setsid()  # Ctrl-C reaches the supervisor alone
        worker = import_module("toolgate.cli.serving.workers.worker")
        status = worker.work(channel, listener)
    except BaseException:  # noqa: BLE001 - nobody above this would show it
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)  # what the process was before its fork must not end with it


def _tell(control: socket.socket, **message: object) -> None:
    try:
        control.send(json.dumps(message).encode())
    except OSError as error:
        if error.errno not in {errno.EPIPE, errno.ECONNRESET}:  # nobody listens any more
            raise


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        serve_forks(socket.socket(fileno=int(sys.argv[1])))
