"""A thread while a turn runs in it: who holds it, and what is written."""

from collections.abc import Sequence
from dataclasses import replace

import anyio

from toolgate.base.ids import utc_now
from toolgate.chat.base import Choices, Outcome
from toolgate.chat.runs import Run
from toolgate.chat.transcript import to_stored
from toolgate.chat.turns.compaction import Compaction
from toolgate.chat.turns.messages import INTERRUPTED, unanswered
from toolgate.chat.turns.turn import Turn
from toolgate.models.llm import Message
from toolgate.store import StoredThread, ThreadRows
from toolgate.types import Json

__all__ = ["ThreadClaim", "ThreadQueue", "TurnWriter"]


class ThreadQueue:
    """The turns of one thread in this process."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.running: Run | None = None
        self.waiting = 0


class ThreadClaim:
    """A thread that is held."""

    def __init__(self, thread: StoredThread) -> None:
        self.thread = thread
        self.is_over = False
        """Whether the store knows that the turn is over."""


class TurnWriter:
    """Writes a turn into its thread while it runs."""

    turn: Turn

    def __init__(
        self, store: ThreadRows, claim: ThreadClaim, run_id: str, choices: Choices
    ) -> None:
        self._store = store
        self._claim = claim
        self._thread = claim.thread
        self._run_id = run_id
        self._choices = choices
        self.messages_written = 0
        """Messages of the turn that are written."""
        self._spending_written = 0
        self._artifacts_written = 0
        self.compaction = Compaction.from_state(claim.thread.state)

    async def flush(self, messages: Sequence[Message]) -> None:
        """Write what is new."""
        await self._write(messages, state=None)

    async def end(self, messages: Sequence[Message], outcome: Outcome) -> None:
        """Write the rest, with what the next turn has to know."""
        last = max(
            (at for at, message in enumerate(messages) if message.role == "assistant"), default=None
        )
        transcript = list(messages)
        if last is not None:
            notes = {**transcript[last].notes, "response_metadata": outcome.metadata}
            transcript[last] = replace(transcript[last], notes=notes)
        await self._write(transcript, state=self._state(), ends=True)

    async def cut_off(self, messages: Sequence[Message]) -> None:
        """Write what there is of a turn that did not come to its end."""
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
        state: Json = {**self.compaction.state(), "tools": self.turn.thread_tools}
        if self.turn.waiting:
            state["pending"] = {"turn_id": self.turn.turn_id, "calls": self.turn.waiting}
        return state

    async def _write(
        self, messages: Sequence[Message], *, state: Json | None, ends: bool = False
    ) -> None:
        turn = self.turn
        fresh = messages[self.messages_written :]
        if not self._choices.history:
            fresh = [
                replace(message, notes={**message.notes, "history_off": True}) for message in fresh
            ]
        artifacts, spending = (
            turn.artifacts[self._artifacts_written :],
            turn.spending[self._spending_written :],
        )
        if not (fresh or artifacts or spending or ends or state is not None):
            return
        await self._store.append_messages(
            self._thread.thread_id,
            [to_stored(message, turn.turn_id) for message in fresh],
            artifacts=artifacts,
            spending=spending,
            state=state,
            ends=self._run_id if ends else "",
            now=utc_now(),
        )
        self._claim.is_over = self._claim.is_over or ends
        self.messages_written += len(fresh)
        self._artifacts_written += len(artifacts)
        self._spending_written += len(spending)
