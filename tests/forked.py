"""Processes of `toolgate` that are forked from one in which a gateway is imported already.

The imports are most of what the start of a gateway computes. A test that needs a process, for
signals, limits or a crash, does not need them anew.
"""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

_IMPORTED = ["toolgate.cli.serving.serve", "toolgate.cli.serving._process"]
"""Modules of a gateway; they import the others."""


class Toolgate:
    """`python -m toolgate WORDS`; the members are those of `subprocess.Popen`."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        output: int,
        prelude: str = "",
    ) -> None:
        """Start it.

        Args:
            words: The command line after `toolgate`.
            env: All its variables; those of the interpreter have no effect.
            cwd: Its working folder.
            output: Descriptor that it writes to, on both streams.
            prelude: Code that runs in the process before the program.
        """
        stream = Connection(os.dup(output), readable=False)
        arguments = (tuple(words), dict(env), str(cwd), stream, prelude)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_IMPORTED)  # when the first process starts
        self._process = context.Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        stream.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if (status := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired(f"toolgate, process {self.pid}", timeout)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(
    words: tuple[str, ...], env: dict[str, str], cwd: str, output: Connection, prelude: str
) -> None:
    from toolgate import cli

    os.setsid()
    os.chdir(cwd)
    os.environ.clear()  # noqa: TID251 - this is how a process gets its environment
    os.environ.update(env)  # noqa: TID251
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    for stream in ("stdout", "stderr"):
        number = getattr(sys, stream).fileno()
        os.dup2(output.fileno(), number)
        # Anew, since whether a stream can seek is asked when it is opened.
        setattr(sys, stream, open(number, "w", 1, "utf-8", "backslashreplace"))  # noqa: PTH123, SIM115
    output.close()
    sys.argv[:] = ["toolgate", *words]
    exec(prelude, {})
    cli.main(words)
