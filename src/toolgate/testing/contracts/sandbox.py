"""The contract suite for sandboxes.

Example:
    ```python
    class TestMine(SandboxContract):
        @pytest.fixture
        def sandbox(self) -> Mine: ...
    ```
"""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from toolgate.errors import ProgramError
from toolgate.models.sandboxes import (
    CallFailure,
    CallValue,
    Completed,
    Execution,
    HostCall,
    HostFunction,
    HostModule,
    PendingCalls,
    Program,
    ProgramLimits,
    Sandbox,
)

_FUNCTIONS = (
    HostFunction(
        name="create_issue",
        parameters="title: str, options: create_issue_options = ...",
        returns="create_issue_result",
        types=(
            "class create_issue_options(TypedDict, total=False):\n    value: int\n"
            "class create_issue_result(TypedDict):\n    number: int"
        ),
    ),
    HostFunction(name="double", parameters="number: int", returns="int"),
)
_MODULES = (HostModule(name="tracker", functions=_FUNCTIONS),)
_SEARCH = (HostFunction(name="search", parameters="query: str", returns="list[str]"),)
_SHORT = ProgramLimits(run_s=0.3, memory_mb=16)
_HANG_S = 60.0
"""Seconds; only detects hangs."""


def _program(code: str, **fields: Any) -> Program:
    return Program(code=code, modules=_MODULES, functions=_SEARCH, **fields)


async def _run(execution: Execution, *, at_once: bool = False) -> Any:
    """Answer all calls until the program ends, blocking ones at once or as late as possible."""
    answers: dict[int, CallValue | CallFailure] = {}
    step = execution.step
    while not isinstance(step, Completed):
        if isinstance(step, HostCall):
            answers[step.call_id] = _answer(step)
            if at_once and step.is_blocking:
                step = await execution.settle({step.call_id: answers[step.call_id]})
            else:
                step = await execution.proceed()
        else:
            step = await execution.settle({number: answers[number] for number in step.call_ids})
    return step.value


def _answer(call: HostCall) -> CallValue | CallFailure:
    """Answer a call of `double` or `create_issue`."""
    if call.function == "tracker.create_issue":
        return CallValue(value={"number": 7})
    value: Any = call.kwargs.get("number") or (call.args[0] if call.args else None)
    if call.function != "tracker.double":
        return CallValue(value=value)
    if value == 13:
        return CallFailure(kind="ValueError", message="not 13")
    return CallValue(value=2 * value)


@pytest.mark.anyio
class SandboxContract:
    """Subclass it with a fixture `sandbox`."""

    @pytest.fixture
    async def opened(self, sandbox: Sandbox) -> AsyncGenerator[Sandbox]:
        """The sandbox, closed afterwards."""
        with anyio.fail_after(_HANG_S):
            yield sandbox
            await sandbox.aclose()
            await sandbox.aclose()

    @pytest.mark.parametrize(
        ("code", "value"),
        [
            ("1 + 1", 2),
            ("return [1, 2.5, None, True, 'é']", [1, 2.5, None, True, "é"]),
            ("x = 3", None),
            ("{'a': (1, 2), 'b': [i for i in range(3) if i]}", {"a": [1, 2], "b": [1, 2]}),
            ("import json\njson.loads(json.dumps(inputs))['n']", 5),
            ("return await tracker.double(number=21)", 42),
            ("await tracker.double(21)", 42),
            ("(await tracker.create_issue(title='x'))['number']", 7),
            ("await gather(*[tracker.double(number=n) for n in [1, 2, 3]])", [2, 4, 6]),
            (
                "async def twice(n):\n    return await tracker.double(await tracker.double(n))\n"
                "await gather(twice(1), twice(2))",
                [4, 8],
            ),
            (
                "try:\n    await tracker.double(13)\nexcept ValueError as e:\n    r = str(e)\nr",
                "not 13",
            ),
            (
                "call = tracker.double(4)\nother = tracker.double(5)\n[await other, await call]",
                [10, 8],
            ),
            ("import tracker\nawait tracker.double(4)", 8),
            ("list = len = isinstance = ValueError = 3\nawait tracker.double(list)", 6),
            ("from_search = await search('x')\n[from_search, await tracker.double(1)]", ["x", 2]),
        ],
    )
    async def test_a_program_gives_its_last_expression_or_what_it_returns(
        self, opened: Sandbox, code: str, value: object
    ) -> None:
        """As JSON; calls may be answered at once or later, and may fail."""
        for at_once in (False, True):
            async with opened.start(_program(code, inputs={"n": 5})) as execution:
                assert await _run(execution, at_once=at_once) == value

    async def test_an_error_names_the_line_of_the_program(self, opened: Sandbox) -> None:
        """Not of what the sandbox runs besides."""
        program = _program("a = 1\nb = await tracker.double(13)\nc = 1")
        for at_once in (False, True):
            with pytest.raises(ProgramError, match=r"line 2.*not 13"):
                async with opened.start(program) as execution:
                    await _run(execution, at_once=at_once)

    async def test_what_is_printed_is_no_result(self, opened: Sandbox) -> None:
        """It is a log with a size limit."""
        async with opened.start(_program("print('a', 1)\nprint('b')\n3")) as execution:
            assert await _run(execution) == 3
            assert execution.output == "a 1\nb\n"
        flood = _program("while True:\n    print('x' * 1000)", limits=ProgramLimits(run_s=5))
        with pytest.raises(ProgramError):
            async with opened.start(flood):
                pass

    @pytest.mark.parametrize(
        ("code", "hint"),
        [
            ("await tracker.create_issue(title='x', options={'vaule': 1})", "did you mean 'value'"),
            ("await tracker.create_issue(titel='x')", "did you mean 'title'"),
            ("(await tracker.create_issue(title='x'))['nummer']", "did you mean 'number'"),
            ("await tracker.creat_issue(title='x')", "has no tool 'creat_issue'"),
            ("await tracker.double(number='3')", "Expected 'int'"),
            ("tracker.double(3) + 1", "await"),
            ("nowhere(3)", "nowhere"),
            ("def f(:", "Line 1"),
        ],
    )
    async def test_types_are_checked_before_anything_runs(
        self, opened: Sandbox, code: str, hint: str
    ) -> None:
        """The message names the line and a likely correction."""
        with pytest.raises(ProgramError) as caught:
            async with opened.start(_program(f"await tracker.double(1)\n{code}")):
                pass
        assert "was not run" in str(caught.value)
        assert hint.replace("Line 1", "Line 2") in str(caught.value)
        with pytest.raises(ProgramError) as checked:
            await opened.check(_program(f"await tracker.double(1)\n{code}"))
        assert str(checked.value) == str(caught.value)
        assert (caught.value.stage, checked.value.stage) == ("check", "check")

    @pytest.mark.parametrize("code", ["while True: pass", "1 / 0", "await tracker.double(1)"])
    @pytest.mark.parametrize("is_checked", [True, False])
    async def test_a_check_runs_nothing(
        self, opened: Sandbox, code: str, *, is_checked: bool
    ) -> None:
        """Only the types and the form of a program are looked at."""
        await opened.check(_program(code, is_checked=is_checked))
        with pytest.raises(ProgramError, match="cannot be read"):
            await opened.check(_program("(1 +", is_checked=False))

    @pytest.mark.parametrize(
        "code", ["while True: pass", "x = 'a' * (64 * 2 ** 20)", "def f(n): return f(n + 1)\nf(0)"]
    )
    async def test_a_program_that_takes_too_much_ends(self, opened: Sandbox, code: str) -> None:
        """The next program still runs."""
        with pytest.raises(ProgramError):
            async with opened.start(_program(code, limits=_SHORT)):
                pass
        async with opened.start(_program("1 + 1")) as execution:
            assert execution.step == Completed(value=2)

    @pytest.mark.parametrize("name", ["exit", "quit", "nowhere"])
    async def test_a_function_that_does_not_exist_ends_the_program(
        self, opened: Sandbox, name: str
    ) -> None:
        """Whether or not its result is awaited: nothing after it runs, not even when restored."""
        for word in ("", "gather\n"):
            program = _program(f"{word}await tracker.double(1)\n{name}()\n3", is_checked=False)
            with pytest.raises(ProgramError, match=f"name '{name}' is not defined"):
                async with opened.start(program) as execution:
                    await _run(execution)
            async with opened.start(program) as execution:
                while isinstance(execution.step, HostCall):
                    await execution.proceed()
                snapshot = await execution.snapshot()
            with pytest.raises(ProgramError, match=f"name '{name}' is not defined"):
                async with opened.restore(snapshot, _SEARCH) as execution:
                    await execution.settle({0: CallValue(value=1)})

    @pytest.mark.parametrize("code", ["x", "await tracker.double(x)", "await search({1: x})"])
    async def test_a_value_is_passed_out_as_it_is_or_not_at_all(
        self, opened: Sandbox, code: str
    ) -> None:
        """Values that are nested deeper than JSON readers allow are refused."""
        build = "x = 1\nfor _ in range({}): x = [x]\n"
        for at_once in (False, True):
            program = _program(build.format(90) + code, is_checked=False)
            async with opened.start(program) as execution:
                assert str(await _run(execution, at_once=at_once)).count("[") >= 90
            with pytest.raises(ProgramError, match="nested"):
                async with opened.start(
                    _program(build.format(101) + code, is_checked=False)
                ) as execution:
                    await _run(execution, at_once=at_once)

    async def test_endless_calls_end(self, opened: Sandbox) -> None:
        """Each call counts as a step."""
        program = _program(
            "while True: await tracker.double(1)", limits=ProgramLimits(steps=50, run_s=5)
        )
        with pytest.raises(ProgramError):
            async with opened.start(program) as execution:
                await _run(execution)

    @pytest.mark.parametrize(
        "code",
        [
            "open('/etc/passwd').read()",
            "import os\nos.environ['PATH']",
            "import socket",
            "import subprocess",
            "__import__('os').system('true')",
            "().__class__.__base__.__subclasses__()",
        ],
    )
    async def test_nothing_of_the_machine_can_be_reached(self, opened: Sandbox, code: str) -> None:
        """No files, network, processes or environment variables."""
        with pytest.raises(ProgramError):
            async with opened.start(_program(code, is_checked=False)) as execution:
                await _run(execution)

    async def test_whoever_is_cancelled_ends_the_program(self, opened: Sandbox) -> None:
        """Even in the middle of a computation."""
        with anyio.move_on_after(0.3) as scope:
            async with opened.start(_program("while True: pass", limits=ProgramLimits(run_s=30))):
                pass
        assert scope.cancelled_caught
        async with opened.start(_program("1 + 1")) as execution:
            assert execution.step == Completed(value=2)

    async def test_a_program_is_checked_anew_when_its_tools_are_others(
        self, opened: Sandbox
    ) -> None:
        """Cached checks are valid for the same tools only."""
        code = "await tracker.double(number=2)"
        for _ in range(2):
            async with opened.start(_program(code)) as execution:
                assert await _run(execution) == 4
        double = HostFunction(name="double", parameters="count: int", returns="int")
        modules = (HostModule(name="tracker", functions=(double,)),)
        for _ in range(2):
            with pytest.raises(ProgramError, match="number"):
                async with opened.start(Program(code=code, modules=modules)):
                    pass

    async def test_a_snapshot_goes_on_elsewhere(self, opened: Sandbox, sandbox: Sandbox) -> None:
        """With its variables, in another process, any number of times, whatever it waits for."""
        async with opened.start(_program("n = 5\nawait tracker.double(n) + n")) as execution:
            while isinstance(execution.step, HostCall):
                await execution.proceed()
            snapshot = await execution.snapshot()
        async with opened.restore(snapshot, _SEARCH) as execution:
            assert execution.step == PendingCalls(call_ids=(0,))
            await execution.settle({0: CallValue(value=7)})
            assert execution.step == Completed(value=12)
        code = (
            "kept = [1, 2]\na, b = await gather(tracker.double(1), tracker.double(2))\n"
            "find = search\nkept + [a, b, await tracker.double(5), await find('x')]"
        )
        async with opened.start(_program(code)) as execution:
            while isinstance(execution.step, HostCall):
                await execution.proceed()
            assert isinstance(execution.step, PendingCalls)
            first, second = execution.step.call_ids
            await execution.settle({first: CallValue(value=10)})
            snapshot = await execution.snapshot()
        await sandbox.aclose()
        for value in (20, 30):
            async with opened.restore(snapshot, _SEARCH) as execution:
                assert execution.step == PendingCalls(call_ids=(second,))
                await execution.settle({second: CallValue(value=value)})
                assert await _run(execution) == [1, 2, 10, value, 10, "x"]

    @pytest.mark.parametrize("snapshot", [b"", b"x", b"\x00" * 5000])
    async def test_what_is_no_snapshot_is_refused(self, opened: Sandbox, snapshot: bytes) -> None:
        """The error says that the snapshot is invalid."""
        with pytest.raises(ProgramError):
            async with opened.restore(snapshot, _SEARCH):
                pass
