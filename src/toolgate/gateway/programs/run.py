"""One run of a program: concurrent calls, until it ends or waits only for people."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import anyio

from toolgate.errors import ProgramError
from toolgate.models.sandboxes import (
    CallFailure,
    CallValue,
    Completed,
    Execution,
    HostCall,
    Step,
)
from toolgate.types import Json

_PARALLEL = 8
"""Calls of a program that run at the same time (chosen)."""


@dataclass(frozen=True, kw_only=True)
class ParkedCall:
    """A call that continues once a person has allowed it or answered a question."""

    call_id: int
    """The number of the call within the program."""

    function: str
    """The called function."""

    key: str
    """The key of its tool."""

    arguments: Json
    """The arguments, by name."""

    approval_id: str = ""
    """The approval that it waits for; empty if its server waits for an answer."""

    request_state: str | None = None
    """State that its server, or an approval, expects back with the answers."""

    questions: Json = field(default_factory=dict[str, Any])
    """Questions by key, as in an `input_required` result."""

    @property
    def asks_approval(self) -> bool:
        """Whether its question asks for approval of the call."""
        return bool(self.approval_id and self.questions)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The program has ended."""

    value: Any
    """The result of the program."""


@dataclass(frozen=True, kw_only=True)
class Parked:
    """The program waits only for people."""

    calls: tuple[ParkedCall, ...]
    """All calls that it waits for."""

    snapshot: bytes
    """The saved state of the program."""

    n_calls: int
    """Calls made so far."""


Outcome: TypeAlias = CallValue | CallFailure | ParkedCall


class CallTool(Protocol):
    """Runs any call of a program."""

    async def __call__(self, call: HostCall) -> Outcome:
        """Return the answer."""
        ...


class ProgramRun:
    """Runs a program."""

    def __init__(
        self, execution: Execution, call_tool: CallTool, *, max_calls: int, n_calls: int = 0
    ) -> None:
        """Create a run of a program that has been started.

        Args:
            execution: The program.
            call_tool: Answers its calls.
            max_calls: Largest number of calls.
            n_calls: Calls made before it was parked.
        """
        self._execution = execution
        self._call_tool = call_tool
        self._max_calls = max_calls
        self._limiter = anyio.CapacityLimiter(_PARALLEL)
        self._settled: dict[int, CallValue | CallFailure] = {}
        self._parked: dict[int, ParkedCall] = {}
        self._due: list[HostCall] = []
        """Calls that have not begun: the program continues until it waits for one."""
        self._running: set[int] = set()
        self._news = anyio.Event()
        self.n_calls = n_calls
        """Calls made so far."""

    async def run(self, again: Mapping[int, HostCall]) -> Finished | Parked:
        """Run until the program ends or waits only for people.

        Args:
            again: Calls that a person has decided, to be made again.

        Raises:
            ProgramError: The program failed, or made too many calls.
        """
        failure: ProgramError | None = None
        outcome: Finished | Parked | None = None
        async with anyio.create_task_group() as tasks:
            self._due, self._parked = list(again.values()), {}
            try:
                outcome = await self._drive(tasks.start_soon)
            except ProgramError as error:
                failure = error  # calls that run end first: what was begun is recorded
        if failure is not None or outcome is None:
            raise failure or ProgramError("The program ended without a result.")
        return outcome

    async def _drive(self, start_soon: Any) -> Finished | Parked:
        step = self._execution.step
        while not isinstance(step, Completed):
            if isinstance(step, HostCall):
                self.n_calls += 1
                if self.n_calls > self._max_calls:
                    raise ProgramError(
                        f"The program makes more than {self._max_calls} calls.",
                        detail="The setting programs.max_calls allows no more.",
                        hint="Divide the work among several programs; store keeps values for the"
                        " next one.",
                    )
                step = await self._after(step)
                continue
            await self._make_due_calls(start_soon)
            ready = {n: self._settled.pop(n) for n in step.call_ids if n in self._settled}
            if ready:
                step = await self._execution.settle(ready)
            elif self._running:
                await self._news.wait()
                self._news = anyio.Event()
            else:
                # In the program's order, whichever was refused first: people read them as a list.
                calls = tuple(self._parked[call_id] for call_id in sorted(self._parked))
                snapshot = await self._execution.snapshot()
                return Parked(calls=calls, snapshot=snapshot, n_calls=self.n_calls)
        self._start(start_soon)
        return Finished(value=step.value)

    async def _after(self, call: HostCall) -> Step:
        """Continue after a call, which is made at once if the program waits for it alone."""
        if call.is_blocking and not self._due and not self._running:
            outcome = await self._call_tool(call)
            if not isinstance(outcome, ParkedCall):
                return await self._execution.settle({call.call_id: outcome})
            self._parked[call.call_id] = outcome
        else:
            self._due.append(call)
        return await self._execution.proceed()

    async def _make_due_calls(self, start_soon: Any) -> None:
        """Make due calls; a single one here, since a task would cost as much as its checks."""
        if len(self._due) == 1 and not self._running:
            call = self._due.pop()
            self._note(call.call_id, await self._call_tool(call))
        else:
            self._start(start_soon)

    def _start(self, start_soon: Any) -> None:
        for call in self._due:
            self._running.add(call.call_id)
            start_soon(self._answer, call)
        self._due = []

    async def _answer(self, call: HostCall) -> None:
        async with self._limiter:
            outcome = await self._call_tool(call)
        self._note(call.call_id, outcome)
        self._running.discard(call.call_id)
        self._news.set()

    def _note(self, call_id: int, outcome: Outcome) -> None:
        if isinstance(outcome, ParkedCall):
            self._parked[call_id] = outcome
        else:
            self._settled[call_id] = outcome
