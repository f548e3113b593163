"""The gateway process of the demo, and the data that its servers use."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import tomlkit
from anyio.abc import Process

from toolgate import settings
from toolgate.base.processes import run_file
from toolgate.cli.demo._servers import DemoServer
from toolgate.errors import ToolgateError
from toolgate.types import Json

READY_S = 60.0
"""Seconds to wait for a gateway and its servers to start (chosen)."""

STOP_S = 30.0
"""Seconds to wait for the gateway to stop: longer than it waits for running calls."""


def prepare(scratch: Path, servers: Sequence[DemoServer]) -> tuple[DemoServer, ...]:
    """Create the data that the servers use; return the servers that can run."""
    (scratch / "files").mkdir()
    with contextlib.closing(sqlite3.connect(scratch / "notes.db")) as database:
        database.execute("CREATE TABLE gates (name TEXT, visitors INTEGER)")
        rows = [("Brandenburg", 3_900_000), ("Ishtar", 1_200_000), ("Golden", 800_000)]
        database.executemany("INSERT INTO gates VALUES (?, ?)", rows)
        database.commit()
    git = shutil.which("git")
    if git is None:
        return tuple(server for server in servers if server.name != "git")
    repository = scratch / "repository"
    repository.mkdir()
    who = ("-c", "user.name=Toolgate", "-c", "user.email=demo@example.org")
    unsigned = ("-c", "commit.gpgsign=false")
    steps = [("init", "--quiet")]
    steps += [
        (*who, *unsigned, "commit", "--quiet", "--allow-empty", "--no-verify", "-m", subject)
        for subject in ("Draw the plan", "Build the wall", "Open the gate")
    ]
    for step in steps:
        subprocess.run([git, *step], cwd=repository, check=True, capture_output=True)  # noqa: S603
    return tuple(servers)


@asynccontextmanager
async def gateway_process(
    scratch: Path,
    servers: dict[str, Json] | None = None,
    *,
    connections: Json | None = None,
    tables: Json | None = None,
) -> AsyncGenerator[run_file.RunFile]:
    """Run a gateway on a free port; it and its child processes stop with the block."""
    config = scratch / "toolgate.toml"
    document = {
        "serve": {"port": 0},
        "store": {"url": f"sqlite:///{(scratch / 'toolgate.db').as_posix()}"},
        "server": servers or {},
        "connections": connections or {},
        **(tables or {}),
    }
    text = tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]
    await anyio.Path(config).write_text(text, encoding="utf-8")
    log = scratch / "toolgate.log"
    command = [sys.executable, "-m", "toolgate", "serve", "--config", str(config)]
    # Its run file is in the scratch folder too: the demo leaves nothing in the user's folders.
    env = {**settings.current_environment(), "XDG_DATA_HOME": str(scratch / "data")}
    with log.open("wb") as output:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,  # Ctrl-C goes to the demo, which stops the gateway itself
        )
    try:
        yield await _wait_for_run_file(process, settings.run_dir(env), log)
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)


async def _wait_for_run_file(process: Process, folder: Path, log: Path) -> run_file.RunFile:
    with anyio.move_on_after(READY_S):
        while process.returncode is None:
            for run in run_file.read_all(folder):
                if run.pid == process.pid:
                    return run
            await anyio.sleep(0.02)
    output = await anyio.Path(log).read_text(encoding="utf-8", errors="replace")
    raise ToolgateError(
        "The gateway of the demo did not start.",
        hint=f"Its output: {output.strip()[-1500:] or '-'}",
    )


async def _stop(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    with anyio.move_on_after(STOP_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
