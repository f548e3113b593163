"""What workers run in tests."""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any


def act(request: Mapping[str, Any], data: bytes) -> object:
    """Do one of the things that go well or wrong in a worker."""
    match request["act"]:
        case "echo":
            sys.stdout.write("printed by a library\n")
            return {"request": request, "data": data.decode(), "pid": os.getpid()}
        case "wait":
            Path(request["path"]).touch()
            Event().wait()
        case "hold":
            Path(request["path"]).touch()
            # One call in C that never lets another thread of Python run.
            return sum(iter(int, 1))
        case "fill":
            return len(bytearray(request["megabytes"] * 2**20))
        case "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        case "signals":
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), number)
            return "alive"
    raise ValueError("no such act")
