"""No program gets out of the sandbox, or takes more than it may."""

import os
from pathlib import Path
from time import monotonic

import anyio
import psutil
import pytest

from tests.programs.escapes import Attempt, attempts
from toolgate.base import json_text
from toolgate.errors import ProgramError
from toolgate.models.sandboxes import (
    CallValue,
    Completed,
    Execution,
    HostCall,
    HostFunction,
    HostModule,
    Program,
    ProgramLimits,
    Sandbox,
    Step,
)

monty = pytest.importorskip("toolgate.models.sandboxes.monty", exc_type=ModuleNotFoundError)

SECRET = "canary-4711"
LIMITS = ProgramLimits(run_s=0.25, memory_mb=16, output_chars=2_000, steps=300)
HANG_S = 20.0
MAX_PROCESS_MB = 400
MODULES = (HostModule(name="tracker", functions=(HostFunction(name="double"),)),)
FUNCTIONS = (HostFunction(name="search"),)


async def outcome(sandbox: Sandbox, attempt: Attempt) -> object:
    """What a program gives, with what it printed and what it sent, or the text of its error."""
    program = Program(
        code=attempt.code,
        inputs={"a": 1},
        modules=MODULES,
        functions=FUNCTIONS,
        limits=LIMITS,
        is_checked=attempt.checked,
    )
    sent: list[object] = []
    try:
        async with sandbox.start(program) as execution:
            step = await to_the_end(execution, sent, parks=attempt.parks)
            if isinstance(step, Completed):
                return [step.value, execution.output, sent]
            snapshot = await execution.snapshot()
        async with sandbox.restore(snapshot, FUNCTIONS) as execution:
            step = await to_the_end(execution, sent)
            assert isinstance(step, Completed)
            return [step.value, execution.output, sent]
    except ProgramError as error:
        return str(error)


async def to_the_end(execution: Execution, sent: list[object], *, parks: bool = False) -> Step:
    """Answer the calls of a program to its end, or until it waits for one."""
    step = execution.step
    while not isinstance(step, Completed):
        if isinstance(step, HostCall):
            sent.append((step.function, step.args, step.kwargs))
            step = await execution.proceed()
        elif parks:
            break
        else:
            step = await execution.settle({number: CallValue(value=1) for number in step.call_ids})
    return step


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


async def test_no_program_escapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_CANARY", SECRET)
    secret, target = tmp_path / "secret", tmp_path / "target"
    secret.write_text(SECRET)
    tries = attempts(secret_file=str(secret), target_file=str(target))
    sandbox = monty.build(monty.Options(processes=2))
    before = set(children())
    problems: list[str] = []
    largest = 0

    async def attempt_all(number: int) -> None:
        nonlocal largest
        for attempt in tries[number::2]:
            began = monotonic()
            with anyio.move_on_after(HANG_S) as scope:
                result = json_text.dumps(await outcome(sandbox, attempt)).decode()
                if SECRET in result or "PATH" in result or "root:" in result:
                    problems.append(f"leaked: {attempt.code[:200]!r} gave {result[:200]}")
            if scope.cancelled_caught:
                problems.append(f"still ran after {monotonic() - began:.0f} s: {attempt.code!r}")
            workers = set(children()) - before
            largest = max([largest, *map(rss_of, workers)])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(attempt_all, 0)
        tasks.start_soon(attempt_all, 1)
    grandchildren = {worker for worker in set(children()) - before if worker.ppid() != os.getpid()}
    await sandbox.aclose()

    assert len(tries) >= 500
    assert problems == []
    assert grandchildren == set()
    assert secret.read_text() == SECRET
    assert not target.exists()
    assert largest < MAX_PROCESS_MB * 2**20


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ("import json\njson.dumps = '{}'", "import json\njson.dumps(1)"),
        ("import json\njson.left = '{}'", "import json\njson.left"),
        ("import sys\nsys.left = '{}'", "import sys\nsys.left"),
        ("import random\nrandom.seed('{}')\nleft = '{}'", "import random\nrandom.random(), left"),
        ("tracker.left = '{}'", "tracker.left"),
        ("search.left = '{}'", "search.left"),
        ("inputs['left'] = '{}'", "inputs"),
        ("global left\nleft = '{}'", "left"),
        ("print = len = sorted = '{}'", "[print, len, sorted]"),
        ("def print(x): return '{}'", "print(1)"),
        ("class tracker: double = '{}'", "tracker.double"),
        ("print('{}')", "1"),
        ("print('{}')\nwhile True: pass", "1"),
        ("x = '{}' * 10 ** 10", "1"),
        ("raise ValueError('{}')", "import sys\nsys.exc_info()"),
        ("async def f(): return '{}'\nf()", "await f()"),
    ],
)
async def test_nothing_of_a_program_is_left_for_the_next(change: str, read: str) -> None:
    """In a process that runs one after the other."""
    sandbox = monty.build(monty.Options(processes=1))
    await outcome(sandbox, plain(change.replace("{}", SECRET)))
    after = json_text.dumps(await outcome(sandbox, plain(read))).decode()
    assert SECRET not in after
    assert await outcome(sandbox, plain("inputs")) == [{"a": 1}, "", []]
    await sandbox.aclose()


def plain(code: str) -> Attempt:
    return Attempt("", code, ends=False, checked=False, parks=False)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists threads there")
async def test_programs_leave_the_cpu_to_the_gateway() -> None:
    """Every thread of the sandbox has a lower priority, in a reused process too."""
    sandbox = monty.build(monty.Options(processes=1))
    before, own = set(children()), os.getpriority(os.PRIO_PROCESS, 0)
    for _ in range(2):
        await outcome(sandbox, plain("1"))
        (worker,) = set(children()) - before
        threads = [int(path.name) for path in Path(f"/proc/{worker.pid}/task").iterdir()]
        assert min(os.getpriority(os.PRIO_PROCESS, thread) for thread in threads) >= 10
    assert os.getpriority(os.PRIO_PROCESS, 0) == own
    await sandbox.aclose()


def rss_of(process: psutil.Process) -> int:
    try:
        if process.cmdline() == psutil.Process().cmdline():
            return 0  # it has the memory of this process until it runs its own program
        return process.memory_info().rss
    except psutil.Error:
        return 0
