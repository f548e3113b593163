"""The interface of chat turns: start, watch, cancel, resume."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter

import anyio

from toolgate.base.ids import new_id
from toolgate.chat.base import Choices, Outcome, TurnRequest, TurnState, TurnStatus
from toolgate.chat.engines.base import Engine
from toolgate.chat.runs import Run, Runs
from toolgate.chat.thread_lease import ThreadLeases, TurnWriter
from toolgate.chat.threads import ThreadService
from toolgate.chat.transcript import from_stored, usable
from toolgate.chat.turn_start import TurnStart, split
from toolgate.chat.turns.budget import Budget, BudgetExceededError
from toolgate.chat.turns.compaction import compacted
from toolgate.chat.turns.failure import NO_ANSWER, friendly
from toolgate.chat.turns.messages import unanswered
from toolgate.chat.turns.outcome import (
    approval_request,
    audit_detail,
    end_by_budget,
    outcome_of,
    say,
    with_partial_answer,
)
from toolgate.chat.turns.pending_calls import pending_calls, placeholders
from toolgate.chat.turns.turn import Turn, TurnServices
from toolgate.chat.turns.turn_settings import choices_from
from toolgate.errors import (
    ArgumentError,
    ToolgateError,
)
from toolgate.models.llm import Message, ModelRegistry
from toolgate.store import StoredThread, ThreadRepository
from toolgate.types import json_array, json_object

log = logging.getLogger(__name__)

_MAX_MIXED = 200
"""Turns without a thread whose own calls are stored until their clients continue (chosen)."""

_AUDITED: Mapping[TurnStatus, str] = {
    "completed": "ok",
    "client_calls": "ok",
    "waiting": "input_required",
    "out_of_budget": "out_of_budget",
}
"""Audit status by turn status."""


class ChatService:
    """All turns of a gateway. Get it from `App.chat`."""

    def __init__(
        self,
        services: TurnServices,
        store: ThreadRepository,
        engine: Callable[[], Awaitable[Engine]],
    ) -> None:
        self._services = services
        self._store = store
        self._engine = engine
        self.threads = ThreadService(store, services.settings, services.models)
        """The threads of callers."""
        self._leases = ThreadLeases(store, self.threads)
        self._mixed: OrderedDict[tuple[str, str, tuple[str, ...]], tuple[Message, ...]] = (
            OrderedDict()
        )
        self.runs = Runs()
        """Running and recently ended turns."""

    @property
    def models(self) -> ModelRegistry:
        """The chat models."""
        return self._services.models

    async def aclose(self) -> None:
        """Cancel running turns; their messages so far are saved."""
        tasks = [run.task for run in self.runs.running if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Turns

    def start(self, request: TurnRequest) -> Run:
        """Start a turn, whose events the run reports.

        Raises:
            ArgumentError: There is nothing to answer.
            UnknownModelError: The requested model does not exist.
        """
        if model := str(request.choices.get("model") or ""):
            self._services.models.name_of(model)
        else:
            self._services.models.name_of(None)
        if not request.resumes:
            _check(request)
        run = self.runs.begin(new_id(), request.caller, request.thread)
        run.task = asyncio.create_task(self._run(run, request), name=f"turn {run.run_id}")
        run.task.add_done_callback(_retrieve_exception)
        return run

    async def _run(self, run: Run, request: TurnRequest) -> Outcome:
        try:
            run.outcome = await (
                self._alone(run, request)
                if request.thread is None
                else self._in_thread(run, request)
            )
        except Exception as error:
            run.error = error
            text = friendly(error, issue_url=self._services.settings.current.chat.issue_url)
            code = error.code if isinstance(error, ToolgateError) else "internal"
            if not isinstance(error, ToolgateError):
                log.exception("turn failed", extra={"turn": run.run_id})
            run.emit({"error": {"message": text, "code": code}})
            raise
        except asyncio.CancelledError:
            run.was_cancelled = True
            run.emit({"error": {"message": "The turn was cancelled.", "code": "cancelled"}})
            raise
        else:
            return run.outcome
        finally:
            run.end(at=self.runs.current_time())
            run.task = None

    async def _alone(self, run: Run, request: TurnRequest) -> Outcome:
        """Run a turn whose conversation the client stores."""
        choices = choices_from(
            self._services.settings.current.chat,
            await self.threads.project_settings(request.caller),
            {},
            request.choices,
        )
        turn = self._turn(run, request, choices)
        messages = self._whole(request)
        turn.history, question, turn.system = split(messages)
        state: TurnState = {"messages": [turn.note(message) for message in question]}
        outcome = await self._through(run, turn, state)
        if outcome.calls:
            self._remember(turn)
        return outcome

    def _remember(self, turn: Turn) -> None:
        """Store our own calls of this turn for a while, since its client cannot send them again."""
        last = max(at for at, message in enumerate(turn.transcript) if message.calls)
        first = next(
            at for at, message in enumerate(turn.transcript) if message.role == "assistant"
        )
        new_messages = tuple(turn.transcript[first:])
        ids = tuple(str(call["id"]) for call in turn.client_calls)
        if len(new_messages) == 1 and len(turn.transcript[last].calls) == len(ids):
            return
        caller = turn.caller
        self._mixed[caller.project_id, caller.caller_id, ids] = new_messages
        while len(self._mixed) > _MAX_MIXED:
            self._mixed.popitem(last=False)

    def _whole(self, request: TurnRequest) -> tuple[Message, ...]:
        """Return a client's conversation, completed with our own calls."""
        caller = request.caller
        complete: list[Message] = []
        for message in request.messages:
            ids = tuple(call.call_id for call in message.calls)
            stored = self._mixed.get((caller.project_id, caller.caller_id, ids)) if ids else None
            complete += stored or (message,)
        return tuple(complete)

    async def _in_thread(self, run: Run, request: TurnRequest) -> Outcome:
        """Run a turn whose conversation is stored here."""
        start = TurnStart(request, run.run_id, self._services.settings, whole=self._whole(request))
        async with self._leases.hold(run, request, start) as claim:
            thread, choices = claim.thread, start.choices
            messages = [from_stored(row) for row in start.stored]
            writer = TurnWriter(self._store, claim, run.run_id, choices)
            if request.resumes:
                turn, state = self._resumed(run, request, choices, messages, thread)
                writer.messages_written = len(state.get("messages", []))
            else:
                turn = self._turn(run, request, choices)
                turn.system = start.system
                writer.messages_written = len(start.question)
                state: TurnState = {"messages": list(start.question)}
                turn.pending = pending_calls(thread.state, messages)
                turn.history = usable([*messages, *placeholders(turn.pending)])
            turn.thread_tools = [str(key) for key in json_array(thread.state.get("tools"))]
            tool_turns = json_object(thread.state.get("tool_turns"))
            turn.tool_turns = {key: str(turn_id) for key, turn_id in tool_turns.items()}
            turn.flush = writer.flush
            writer.turn = turn
            turn.history = await compacted(turn, writer.compaction, state.get("messages", []))
            if not choices.history:
                turn.history = ()
            await writer.flush(state.get("messages", []))
            outcome = await self._through(run, turn, state, writer)
            if request.is_whole and outcome.calls:
                self._remember(turn)
            return outcome

    def _resumed(
        self,
        run: Run,
        request: TurnRequest,
        choices: Choices,
        messages: Sequence[Message],
        thread: StoredThread,
    ) -> tuple[Turn, TurnState]:
        """Restore the turn of a thread whose calls waited for approval."""
        pending = json_object(thread.state.get("pending"))
        turn_id = str(pending.get("turn_id", ""))
        turn_messages = [message for message in messages if message.notes.get("turn") == turn_id]
        if not turn_id or not unanswered(turn_messages):
            raise ArgumentError(
                f"Nothing waits in the thread {thread.name[:80]!r}.",
                hint="Send a message to continue.",
            )
        turn = self._turn(run, request, choices)
        turn.turn_id = turn_id
        turn.pending = [
            call for call in pending_calls(thread.state, messages) if call.turn_id != turn_id
        ]
        others = [message for message in messages if message.notes.get("turn") != turn_id]
        turn.history = usable([*others, *placeholders(turn.pending)])
        return turn, {"messages": turn_messages}

    def _turn(self, run: Run, request: TurnRequest, choices: Choices) -> Turn:
        conversation = request.thread or f"turn:{run.run_id}"
        return Turn(
            services=self._services,
            request=request,
            caller=replace(request.caller, conversation=conversation),
            turn_id=run.run_id,
            choices=choices,
            budget=Budget(settings=self._services.settings.current.chat),
            emit=run.emit,
        )

    async def _through(
        self, run: Run, turn: Turn, state: TurnState, writer: "TurnWriter | None" = None
    ) -> Outcome:
        """Run a turn, and record how it ended."""
        began, status = perf_counter(), "cancelled"
        try:
            outcome = await self._ended(run, turn, state, writer)
        except Exception as error:
            status = error.code if isinstance(error, ToolgateError) else "internal"
            raise
        else:
            status = _AUDITED[outcome.status]
            return outcome
        finally:
            turn.gateway.calls.note_turn(
                turn.caller, began=began, status=status, detail=audit_detail(turn)
            )

    async def _ended(
        self, run: Run, turn: Turn, state: TurnState, writer: "TurnWriter | None"
    ) -> Outcome:
        """Run the steps, and return an outcome however they end."""
        run.emit({"turn": {"id": turn.turn_id, "thread": turn.request.thread or ""}})
        settings = turn.settings
        turn.transcript = list(state.get("messages", []))
        status: TurnStatus = "completed"
        try:
            with anyio.move_on_after(settings.max_seconds) as limit:
                engine = await self._engine()
                await engine.run(turn, state)
            if limit.cancelled_caught:
                status = "out_of_budget"
                end_by_budget(
                    turn,
                    "max_seconds",
                    f"I had to stop here: this answer took {settings.max_seconds:g} seconds, which "
                    "is all that a turn may take.",
                )
        except BudgetExceededError as spent:
            status = "out_of_budget"
            end_by_budget(turn, spent.limit, spent.sentence)
        except asyncio.CancelledError:
            if writer is not None and not run.wants_rollback:
                with anyio.CancelScope(shield=True):
                    await writer.cut_off(with_partial_answer(turn, "cancelled"))
            raise
        except Exception as error:
            if isinstance(error, ToolgateError):
                # A refusal needs no traceback, with which any caller could fill the log.
                log.warning(
                    "turn failed",
                    extra={"turn": turn.turn_id, "code": error.code, "reason": str(error)},
                    exc_info=error.__cause__,
                )
            if writer is not None:
                text = friendly(error, issue_url=settings.issue_url)
                new_messages = with_partial_answer(turn, "failed")
                failed = Message(role="assistant", content=text)
                await writer.cut_off([*new_messages, turn.note(failed, is_error=True)])
            raise
        if turn.waiting:
            status = "waiting"
            page = turn.gateway.approvals.page
            say(turn, approval_request(turn.waiting, page), is_stored=False)
        elif turn.client_calls:
            status = "client_calls"
        elif not "".join(turn.texts).strip():
            say(turn, NO_ANSWER)
        outcome = outcome_of(turn, status)
        if writer is not None:
            await writer.end(turn.transcript, outcome)
        if turn.budget.usage.total_tokens:
            run.emit({"token_usage": outcome.metadata["token_usage"]})
        if sources := outcome.metadata.get("sources"):
            unknown = outcome.metadata.get("unknown_citations", [])
            run.emit({"sources": {"sources": sources, "unknown_citations": unknown}})
        for call in outcome.calls:
            run.emit({"call": call})
        run.emit({"completion": {"status": status, "finish_reason": outcome.finish_reason}})
        log.info(
            "turn ended",
            extra={
                "turn": turn.turn_id,
                "status": status,
                "steps": turn.budget.steps,
                "calls": turn.budget.calls,
                "tokens": outcome.usage.total_tokens,
                "tools": turn.used_tools,
            },
        )
        return outcome


def _check(request: TurnRequest) -> None:
    """Reject a request that has nothing to answer.

    Raises:
        ArgumentError: There is no user message.
    """
    if any(message.role == "user" for message in request.messages):
        return
    is_result = bool(request.messages) and request.messages[-1].role == "tool"
    # A thread knows the calls; a conversation without one must contain them.
    if is_result and (request.thread or any(message.calls for message in request.messages)):
        return
    raise ArgumentError("There is no message of the user.", hint='Send one with the role "user".')


def _retrieve_exception(task: "asyncio.Task[Outcome]") -> None:
    """Retrieve the exception of a task that is never awaited: the run has it."""
    if not task.cancelled():
        task.exception()
