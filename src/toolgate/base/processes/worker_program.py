"""The program of a worker process: answers requests from a pipe until the pipe closes.

Started by `toolgate.base.processes.worker`.
"""

import faulthandler
import os
import signal
import struct
import sys
from collections.abc import Callable
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO, Final

import orjson

from toolgate.base.processes.memory import defer, give_back_freed_memory

REQUEST: Final = struct.Struct(">dQQ")
"""Head of a request: time limit in seconds, size of the JSON and size of the data in bytes."""

REPLY: Final = struct.Struct(">Q")
"""Head of a reply: size of the JSON in bytes."""

_GRACE_S: Final = 2.0
"""Seconds after the deadline at which the worker exits by itself if it was not killed (chosen)."""


def run(function: str, memory_mb: int) -> None:
    """Answer requests until the process is ended.

    Args:
        function: `module:name` of the function that answers.
        memory_mb: Memory limit in megabytes.
    """
    requests, replies = _take_pipes()
    for number in ("SIGINT", "SIGTERM", "SIGHUP"):  # of the group: the gateway ends its workers
        if hasattr(signal, number):
            signal.signal(getattr(signal, number), signal.SIG_IGN)
    give_back_freed_memory()
    try:
        module, _, name = function.partition(":")
        defer(*_packages_around(module))
        answer: Callable[[Any, bytes], object] = getattr(import_module(module), name)
    except Exception as error:  # noqa: BLE001 - the gateway says why there is no worker
        _send(replies, {"failed": f"{type(error).__name__}: {error}"})
        return
    _limit_memory(memory_mb)
    _send(replies, {"answer": None})
    received: SimpleQueue[tuple[float, bytes, bytes]] = SimpleQueue()
    Thread(target=_receive, args=(requests, received), daemon=True).start()
    # A C thread that needs no GIL, so that no work can keep it from ending the process.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        while True:
            seconds, arguments, data = received.get()
            faulthandler.dump_traceback_later(seconds + _GRACE_S, exit=True, file=nowhere)
            _send(replies, _reply(answer, arguments, data))
            faulthandler.cancel_dump_traceback_later()


def _packages_around(module: str) -> list[str]:
    """Parent packages whose `__init__` imports more than the work needs, outermost first."""
    parts = module.split(".")
    return [".".join(parts[:depth]) for depth in range(2, len(parts))]


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take over standard input and output; libraries that read or print use the null device."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return requests, replies


def _receive(requests: BinaryIO, received: "SimpleQueue[tuple[float, bytes, bytes]]") -> None:
    """Receive requests; exit when the gateway closes the pipe or has ended."""
    try:
        while head := requests.read(REQUEST.size):
            seconds, arguments, data = REQUEST.unpack(head)
            received.put((seconds, requests.read(arguments), requests.read(data)))
    finally:
        os._exit(0)  # work that still runs is of no use to anybody


def _reply(answer: Callable[[Any, bytes], object], arguments: bytes, data: bytes) -> object:
    try:
        return {"answer": answer(orjson.loads(arguments), data)}
    except MemoryError:
        return {"memory": True}
    except Exception as error:  # noqa: BLE001 - the gateway logs it
        return {"failed": f"{type(error).__name__}: {error}"}


def _send(replies: BinaryIO, reply: object) -> None:
    try:
        content = orjson.dumps(reply)
    except MemoryError:
        content = orjson.dumps({"memory": True})
    replies.write(REPLY.pack(len(content)))
    replies.write(content)
    replies.flush()


def _limit_memory(megabytes: int) -> None:
    """Set the memory limit; Windows has none, and macOS does not enforce it."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 - there is none on Windows

        size = megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
