"""The lease on a thread while a turn runs in it, and writing the turn."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import anyio

from toolgate.base.ids import new_id, utc_now
from toolgate.chat.base import Choices, Outcome, TurnRequest
from toolgate.chat.runs import Run
from toolgate.chat.threads import ThreadService
from toolgate.chat.transcript import to_stored
from toolgate.chat.turn_start import without_history
from toolgate.chat.turns.compaction import Compaction
from toolgate.chat.turns.messages import INTERRUPTED, unanswered
from toolgate.chat.turns.turn import Turn
from toolgate.errors import StoreError, ThreadBusyError
from toolgate.models.llm import Message
from toolgate.store import StoredThread, ThreadRepository, TurnOpening
from toolgate.types import Json

_LEASE_S = 30.0
"""Seconds after which another process may take over the thread of a killed one (chosen)."""

_RENEW_S = 10.0
"""Seconds between renewals: two may fail before the lease expires."""

_POLL_S = 0.2
"""Seconds between checks of a thread that another process holds (chosen)."""


class ThreadQueue:
    """The turns of one thread in this process."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.running: Run | None = None
        self.waiting = 0


class ThreadClaim:
    """A claimed thread."""

    def __init__(self, thread: StoredThread) -> None:
        self.thread = thread
        self.is_over = False
        """Whether the end of the turn is stored."""


class ThreadLeases:
    """Ensures that one turn at a time runs in a thread, across processes."""

    def __init__(self, store: ThreadRepository, threads: ThreadService) -> None:
        self._store = store
        self._threads = threads
        self._locks: dict[tuple[str, str, str], ThreadQueue] = {}

    @asynccontextmanager
    async def hold(
        self, run: Run, request: TurnRequest, opening: TurnOpening
    ) -> AsyncGenerator[ThreadClaim]:
        """Claim the thread: its turns run one after another."""
        caller, name = request.caller, request.thread or ""
        key = (caller.project_id, caller.caller_id, name)
        queue = self._locks.setdefault(key, ThreadQueue())
        if queue.running is not None:
            await self._by_policy(queue, request)
        queue.waiting += 1
        try:
            async with queue.lock:
                queue.running = run
                try:
                    claim = ThreadClaim(await self._claim(run, request, opening))
                    try:
                        async with self._lease_renewed(claim.thread, run):
                            yield claim
                    finally:
                        with anyio.CancelScope(shield=True), suppress(StoreError):
                            await self._release(run, claim)
                finally:
                    queue.running = None
        finally:
            queue.waiting -= 1
            if not queue.waiting and self._locks.get(key) is queue:
                del self._locks[key]

    async def _release(self, run: Run, claim: ThreadClaim) -> None:
        """Release a thread, and delete the turn's messages if it is rolled back."""
        thread_id = claim.thread.thread_id
        if run.wants_rollback:
            await self._store.drop_turn(thread_id, run.run_id)
        if not claim.is_over:
            await self._store.append_messages(thread_id, (), ends=run.run_id, now=utc_now())

    async def _by_policy(self, queue: "ThreadQueue", request: TurnRequest) -> None:
        """Apply the thread's policy for a second turn.

        Raises:
            ThreadBusyError: The policy is to reject it.
        """
        running = queue.running
        policy = (
            await self._threads.choices(request.caller, request.thread, request.choices)
        ).thread_policy
        if policy == "reject":
            raise _busy(request.thread)
        if policy in {"interrupt", "rollback"} and running is not None:
            running.wants_rollback = policy == "rollback"
            running.cancel()

    async def _claim(self, run: Run, request: TurnRequest, opening: TurnOpening) -> StoredThread:
        """Claim the thread in the store, too, since other processes may use it."""
        caller = request.caller
        fresh = StoredThread(
            thread_id=new_id(),
            project_id=caller.project_id,
            caller_id=caller.caller_id,
            name=request.thread or "",
        )
        over = ""
        while True:
            thread = await self._store.begin_turn(
                fresh,
                turn_id=run.run_id,
                until=utc_now(plus_s=_LEASE_S),
                now=utc_now(),
                over=over,
                opening=opening,
            )
            if thread.running == run.run_id:
                return thread
            choices = await self._threads.choices(caller, request.thread, request.choices)
            policy = choices.thread_policy
            if policy == "reject":
                raise _busy(request.thread)
            if policy in {"interrupt", "rollback"}:
                over = thread.running
                if policy == "rollback":
                    await self._store.drop_turn(thread.thread_id, over)
                continue
            await anyio.sleep(_POLL_S)

    @asynccontextmanager
    async def _lease_renewed(self, thread: StoredThread, run: Run) -> AsyncGenerator[None]:
        """Renew the lease while the block runs; the turn is cancelled if another one takes over."""

        async def prolong() -> None:
            while True:
                await anyio.sleep(_RENEW_S)
                with suppress(StoreError):
                    until = utc_now(plus_s=_LEASE_S)
                    if not await self._store.extend_turn(
                        thread.thread_id, turn_id=run.run_id, until=until
                    ):
                        run.cancel()
                        return

        task = asyncio.create_task(prolong())
        try:
            yield
        finally:
            task.cancel()


class TurnWriter:
    """Saves a turn to its thread while it runs."""

    turn: Turn

    def __init__(
        self, threads: ThreadRepository, claim: ThreadClaim, run_id: str, choices: Choices
    ) -> None:
        self._threads = threads
        self._claim = claim
        self._thread = claim.thread
        self._run_id = run_id
        self._choices = choices
        self.messages_written = 0
        """Number of saved messages of the turn."""
        self._spending_written = 0
        self._artifacts_written = 0
        self._late_written = 0
        self.compaction = Compaction.from_state(claim.thread.state)

    async def flush(self, messages: Sequence[Message]) -> None:
        """Save new messages."""
        await self._write(messages, state=None)

    async def end(self, messages: Sequence[Message], outcome: Outcome) -> None:
        """Save the remaining messages, and the state for the next turn.

        The metadata goes to the last answer, or to its last result if the answer was saved before
        its calls ran.
        """
        transcript = list(messages)
        unsaved = range(self.messages_written, len(transcript))
        last = max((at for at in unsaved if transcript[at].role == "assistant"), default=None)
        if last is None and unsaved:
            last = unsaved[-1]
        if last is not None:
            notes = {**transcript[last].notes, "response_metadata": outcome.metadata}
            transcript[last] = replace(transcript[last], notes=notes)
        await self._write(transcript, state=self._state(), ends=True)

    async def cut_off(self, messages: Sequence[Message]) -> None:
        """Save the messages of a turn that was interrupted."""
        answered = [
            self.turn.note(
                Message(role="tool", content=INTERRUPTED, call_id=call.call_id, name=call.name),
                is_error=True,
            )
            for call in unanswered(messages)
        ]
        tail = list(messages)
        position = next(
            (
                at + 1
                for at in range(len(tail) - 1, -1, -1)
                if tail[at].role == "tool" or tail[at].calls
            ),
            len(tail),
        )
        tail[position:position] = answered
        await self._write(tail, state=self._state(), ends=True)

    def _state(self) -> Json:
        turn = self.turn
        state: Json = {**self.compaction.state(), "tools": turn.thread_tools}
        if turn.tool_turns:
            state["tool_turns"] = turn.tool_turns
        earlier = [pending.entry for pending in turn.pending]
        own = [{**entry, "turn_id": turn.turn_id} for entry in turn.waiting]
        if own or earlier:
            last = (own or earlier)[-1]
            state["pending"] = {"turn_id": last["turn_id"], "calls": [*earlier, *own]}
        return state

    async def _write(
        self, messages: Sequence[Message], *, state: Json | None, ends: bool = False
    ) -> None:
        turn = self.turn
        fresh = messages[self.messages_written :]
        if not self._choices.history:
            fresh = without_history(fresh)
        artifacts, spending = (
            turn.artifacts[self._artifacts_written :],
            turn.spending[self._spending_written :],
        )
        late = turn.late_results[self._late_written :]
        if not (fresh or late or artifacts or spending or ends or state is not None):
            return
        await self._threads.append_messages(
            self._thread.thread_id,
            [
                *[to_stored(message, str(message.notes["turn"])) for message in late],
                *[to_stored(message, turn.turn_id) for message in fresh],
            ],
            artifacts=artifacts,
            spending=spending,
            state=state,
            ends=self._run_id if ends else "",
            now=utc_now(),
        )
        self._claim.is_over = self._claim.is_over or ends
        self.messages_written += len(fresh)
        self._late_written += len(late)
        self._artifacts_written += len(artifacts)
        self._spending_written += len(spending)


def _busy(thread: str | None) -> ThreadBusyError:
    return ThreadBusyError(
        f"The thread {(thread or '')[:80]!r} has a running turn.",
        hint="Wait until it ends, or set thread_policy to enqueue.",
    )
