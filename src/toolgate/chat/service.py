"""Turns from the outside: begun, watched, cancelled, taken up; threads and their settings."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, fields, replace
from time import perf_counter
from typing import Literal, cast

import anyio

from toolgate.base.ids import new_id, utc_now
from toolgate.chat.base import Choices, Engine, Outcome, TurnRequest, TurnState, TurnStatus
from toolgate.chat.runs import Run, Runs
from toolgate.chat.thread_lease import ThreadClaim, ThreadQueue, TurnWriter
from toolgate.chat.transcript import from_stored, message_views, usable
from toolgate.chat.turns.budget import Budget, BudgetExceededError
from toolgate.chat.turns.compaction import compacted
from toolgate.chat.turns.failure import NO_ANSWER, friendly
from toolgate.chat.turns.messages import unanswered
from toolgate.chat.turns.model_answer import BETWEEN
from toolgate.chat.turns.turn import Turn, TurnServices
from toolgate.chat.turns.turn_settings import choices_from, read_choices
from toolgate.errors import (
    ArgumentError,
    StoreError,
    ThreadBusyError,
    ToolgateError,
)
from toolgate.models.llm import ChatRequest, FinishReason, Message, ModelRegistry, TokenUsage
from toolgate.store import StoredMessage, StoredThread, ThreadRows
from toolgate.types import Caller, Json, json_array, json_object

__all__ = ["ChatService"]

log = logging.getLogger(__name__)

_LEASE_S = 30.0
_PROLONG_S = 10.0
_LOOK_S = 0.2
_MIXED = 200
"""Turns without a thread whose own calls are remembered until their clients go on."""
_PROJECT = ""
"""Name and owner of the row that has the settings of a project."""

_MOST_NAMED = 50
"""Tools that the record of a turn names."""

_AUDITED: Mapping[TurnStatus, str] = {
    "completed": "ok",
    "client_calls": "ok",
    "waiting": "input_required",
    "out_of_budget": "out_of_budget",
}
"""How a turn ended, as the audit says it."""


class ChatService:
    """All turns of a gateway. Get it from `App.chat`."""

    def __init__(self, services: TurnServices, store: ThreadRows, engine: Engine) -> None:
        self._services = services
        self._store = store
        self._engine = engine
        self._locks: dict[tuple[str, str, str], ThreadQueue] = {}
        self._mixed: OrderedDict[tuple[str, str, tuple[str, ...]], tuple[Message, ...]] = (
            OrderedDict()
        )
        self.runs = Runs()
        """Turns that run or ended lately."""

    @property
    def models(self) -> ModelRegistry:
        """The chat models."""
        return self._services.models

    async def ask(
        self,
        prompt: str,
        *,
        purpose: Literal["rephrase", "grade", "select"],
        max_tokens: int,
        timeout_s: float,
    ) -> str:
        """A short text of the helper model, for what happens outside of turns.

        Raises:
            ModelError: It gave none.
            TimeoutError: It took too long.
        """
        models = self._services.models
        request = ChatRequest(
            messages=(Message(role="user", content=prompt),),
            parameters={"temperature": 0, "max_tokens": max_tokens},
            purpose=purpose,
        )
        with anyio.fail_after(timeout_s):
            name = models.name_of(self._services.settings().helper_model or None)
            return (await models.complete(name, request)).message.text

    async def aclose(self) -> None:
        """End what runs; what was said so far is kept."""
        tasks = [run.task for run in self.runs.running if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Turns

    def start(self, request: TurnRequest) -> Run:
        """Begin a turn; what happens in it is told by the run.

        Raises:
            ArgumentError: There is nothing to answer.
            UnknownModelError: The model that is asked for does not exist.
        """
        if model := str(request.choices.get("model") or ""):
            self._services.models.name_of(model)
        else:
            self._services.models.name_of(None)
        if not request.resumes:
            _check(request)
        run = self.runs.begin(new_id(), request.caller, request.thread)
        run.task = asyncio.create_task(self._run(run, request), name=f"turn {run.run_id}")
        run.task.add_done_callback(_look_at)
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
            text = friendly(error, issue_url=self._services.settings().issue_url)
            code = error.code if isinstance(error, ToolgateError) else "internal"
            if not isinstance(error, ToolgateError):
                log.exception("turn failed", extra={"turn": run.run_id})
            run.emit({"error": {"message": text, "code": code}})
            raise
        except asyncio.CancelledError:
            run.emit({"error": {"message": "The turn was cancelled.", "code": "cancelled"}})
            raise
        else:
            return run.outcome
        finally:
            run.end(at=self.runs.current_time())
            run.task = None

    async def _alone(self, run: Run, request: TurnRequest) -> Outcome:
        """A turn whose conversation the client keeps."""
        choices = choices_from(
            self._services.settings(), await self._project_row(request.caller), {}, request.choices
        )
        turn = self._turn(run, request, choices)
        messages = self._whole(request)
        turn.history, question, turn.system = _split(messages)
        state: TurnState = {"messages": [turn.note(message) for message in question]}
        outcome = await self._through(run, turn, state)
        if outcome.calls:
            self._remember(turn)
        return outcome

    def _remember(self, turn: Turn) -> None:
        """Keep for a while what of this turn its client cannot send again: our own calls."""
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
        while len(self._mixed) > _MIXED:
            self._mixed.popitem(last=False)

    def _whole(self, request: TurnRequest) -> tuple[Message, ...]:
        """The conversation of a client, with the calls that were ours in it."""
        caller = request.caller
        complete: list[Message] = []
        for message in request.messages:
            ids = tuple(call.call_id for call in message.calls)
            stored = self._mixed.get((caller.project_id, caller.caller_id, ids)) if ids else None
            complete += stored or (message,)
        return tuple(complete)

    async def _in_thread(self, run: Run, request: TurnRequest) -> Outcome:
        """A turn in a conversation that is kept here."""
        async with self._turn_claim(run, request) as claim:
            thread = claim.thread
            project = await self._project_row(request.caller)
            choices = choices_from(
                self._services.settings(), project, thread.settings, request.choices
            )
            stored = await self._store.thread_messages(
                thread.thread_id, after=int(thread.state.get("from", 0))
            )
            keeping = TurnWriter(self._store, claim, run.run_id, choices)
            if request.resumes:
                turn, state = self._resumed(run, request, choices, stored, thread)
                keeping.messages_written = len(state.get("messages", []))
            else:
                turn = self._turn(run, request, choices)
                new_messages = _new_in(request)
                state: TurnState = {"messages": [turn.note(message) for message in new_messages]}
                turn.history = usable([from_stored(row) for row in stored])
            turn.thread_tools = [str(key) for key in json_array(thread.state.get("tools"))]
            turn.flush = keeping.flush
            keeping.turn = turn
            turn.history = await compacted(turn, keeping.compaction)
            if not choices.history:
                turn.history = ()
            await keeping.flush(state.get("messages", []))
            return await self._through(run, turn, state, keeping)

    def _resumed(
        self,
        run: Run,
        request: TurnRequest,
        choices: Choices,
        stored: Sequence[StoredMessage],
        thread: StoredThread,
    ) -> tuple[Turn, TurnState]:
        """The turn of a thread whose calls waited, as it stood."""
        pending = json_object(thread.state.get("pending"))
        turn_id = str(pending.get("turn_id", ""))
        messages = [from_stored(row) for row in stored]
        turn_messages = [message for message in messages if message.notes.get("turn") == turn_id]
        if not turn_id or not unanswered(turn_messages):
            raise ArgumentError(
                f"Nothing waits in the thread {thread.name[:80]!r}.",
                hint="Send a message to go on.",
            )
        turn = self._turn(run, request, choices)
        turn.turn_id = turn_id
        turn.history = usable(
            [message for message in messages if message.notes.get("turn") != turn_id]
        )
        return turn, {"messages": turn_messages}

    def _turn(self, run: Run, request: TurnRequest, choices: Choices) -> Turn:
        conversation = request.thread or f"turn:{run.run_id}"
        return Turn(
            services=self._services,
            request=request,
            caller=replace(request.caller, conversation=conversation),
            turn_id=run.run_id,
            choices=choices,
            budget=Budget(settings=self._services.settings()),
            emit=run.emit,
        )

    async def _through(
        self, run: Run, turn: Turn, state: TurnState, keeping: "TurnWriter | None" = None
    ) -> Outcome:
        """Run a turn, and record how it ended."""
        began, status = perf_counter(), "cancelled"
        try:
            outcome = await self._ended(run, turn, state, keeping)
        except Exception as error:
            status = error.code if isinstance(error, ToolgateError) else "internal"
            raise
        else:
            status = _AUDITED[outcome.status]
            return outcome
        finally:
            turn.gateway.note_turn(turn.caller, began=began, status=status, detail=_for_audit(turn))

    async def _ended(
        self, run: Run, turn: Turn, state: TurnState, keeping: "TurnWriter | None"
    ) -> Outcome:
        """Run the steps, and make an outcome of however they end."""
        run.emit({"turn": {"id": turn.turn_id, "thread": turn.request.thread or ""}})
        settings = turn.settings
        turn.transcript = list(state.get("messages", []))
        status: TurnStatus = "completed"
        try:
            with anyio.move_on_after(settings.max_seconds) as limit:
                state = await self._engine.run(turn, state)
            if limit.cancelled_caught:
                status = "out_of_budget"
                _ended_by_budget(
                    turn,
                    "max_seconds",
                    f"I had to stop here: this answer took {settings.max_seconds:g} seconds, which "
                    "is all that a turn may take.",
                )
        except BudgetExceededError as spent:
            status = "out_of_budget"
            _ended_by_budget(turn, spent.limit, spent.sentence)
        except asyncio.CancelledError:
            if keeping is not None and not run.wants_rollback:
                with anyio.CancelScope(shield=True):
                    await keeping.cut_off(_with_partial(turn, "cancelled"))
            raise
        except Exception as error:
            if isinstance(error, ToolgateError):
                log.warning(
                    "turn failed", extra={"turn": turn.turn_id, "code": error.code}, exc_info=True
                )
            if keeping is not None:
                text = friendly(error, issue_url=settings.issue_url)
                new_messages = _with_partial(turn, "failed")
                failed = Message(role="assistant", content=text)
                await keeping.cut_off([*new_messages, turn.note(failed, is_error=True)])
            raise
        if turn.waiting:
            status = "waiting"
            _say(turn, _waiting_text(turn), is_kept=False)
        elif turn.client_calls:
            status = "client_calls"
        elif not "".join(turn.texts).strip():
            _say(turn, NO_ANSWER)
        outcome = _outcome(turn, state, status)
        if keeping is not None:
            await keeping.end(turn.transcript, outcome)
        if turn.budget.usage.total_tokens:
            run.emit({"token_usage": outcome.metadata["token_usage"]})
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

    # Threads, one turn at a time

    @asynccontextmanager
    async def _turn_claim(self, run: Run, request: TurnRequest) -> AsyncGenerator[ThreadClaim]:
        """Hold the thread: the turns of one thread run one after another."""
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
                    claim = ThreadClaim(await self._claim(run, request))
                    try:
                        async with self._kept_alive(claim.thread, run):
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
        """Give a thread back, and take back what was said if that is wanted."""
        thread_id = claim.thread.thread_id
        if run.wants_rollback:
            await self._store.drop_turn(thread_id, run.run_id)
        if not claim.is_over:
            await self._store.append_messages(thread_id, (), ends=run.run_id, now=utc_now())

    async def _by_policy(self, queue: "ThreadQueue", request: TurnRequest) -> None:
        """What the thread does about a second turn.

        Raises:
            ThreadBusyError: It takes none.
        """
        running = queue.running
        policy = (await self.choices(request.caller, request.thread, request.choices)).thread_policy
        if policy == "reject":
            raise _busy(request.thread)
        if policy in {"interrupt", "rollback"} and running is not None:
            running.wants_rollback = policy == "rollback"
            running.cancel()

    async def _claim(self, run: Run, request: TurnRequest) -> StoredThread:
        """Take the thread in the store too: other processes may have the same one."""
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
            )
            if thread.running == run.run_id:
                return thread
            policy = choices_from(
                self._services.settings(),
                await self._project_row(caller),
                thread.settings,
                request.choices,
            ).thread_policy
            if policy == "reject":
                raise _busy(request.thread)
            if policy in {"interrupt", "rollback"}:
                over = thread.running
                if policy == "rollback":
                    await self._store.drop_turn(thread.thread_id, over)
                continue
            await anyio.sleep(_LOOK_S)

    @asynccontextmanager
    async def _kept_alive(self, thread: StoredThread, run: Run) -> AsyncGenerator[None]:
        """Prolong the lease while the block runs; a turn whose place was taken ends."""

        async def prolong() -> None:
            while True:
                await anyio.sleep(_PROLONG_S)
                with suppress(StoreError):
                    until = utc_now(plus_s=_LEASE_S)
                    if not await self._store.prolong_turn(
                        thread.thread_id, turn_id=run.run_id, until=until
                    ):
                        run.cancel()
                        return

        task = asyncio.create_task(prolong())
        try:
            yield
        finally:
            task.cancel()

    # Settings

    async def choices(
        self, caller: Caller, thread: str | None, asked: Mapping[str, object] | None = None
    ) -> Choices:
        """What a turn would go by now."""
        row = await self._thread_row(caller, thread) if thread is not None else None
        return choices_from(
            self._services.settings(),
            await self._project_row(caller),
            row.settings if row is not None else {},
            asked or {},
        )

    async def settings_of(self, caller: Caller, thread: str | None) -> Json:
        """Settings of a thread, or of the project without one: what was `set`, and what holds."""
        if thread is None:
            project_row = await self._project_row(caller)
        else:
            row = await self._thread_row(caller, thread)
            project_row = row.settings if row is not None else {}
        return {"set": project_row, "in_force": asdict(await self.choices(caller, thread))}

    async def change_settings(self, caller: Caller, thread: str | None, changes: Json) -> Json:
        """Set some settings of a thread, or of the project; null takes one back.

        Raises:
            ArgumentError: One does not exist, or has a value that does not fit.
        """
        read_choices({name: value for name, value in changes.items() if value is not None})
        if isinstance(model := changes.get("model"), str) and model:
            self._services.models.name_of(model)
        unknown = set(changes) - {item.name for item in fields(Choices)}
        if unknown:
            read_choices(dict.fromkeys(unknown, ""))
        owner = _PROJECT if thread is None else caller.caller_id
        stored = await self._store.thread(caller.project_id, owner, thread or _PROJECT)
        values = dict(stored.settings) if stored is not None else {}
        values = {name: value for name, value in {**values, **changes}.items() if value is not None}
        row = StoredThread(
            thread_id=new_id(),
            project_id=caller.project_id,
            caller_id=owner,
            name=thread or _PROJECT,
        )
        await self._store.save_thread_settings(row, values, now=utc_now())
        return await self.settings_of(caller, thread)

    async def _thread_row(self, caller: Caller, name: str) -> StoredThread | None:
        return await self._store.thread(caller.project_id, caller.caller_id, name)

    async def _project_row(self, caller: Caller) -> Json:
        row = await self._store.thread(caller.project_id, _PROJECT, _PROJECT)
        return {} if row is None else row.settings

    # History

    async def threads(self, caller: Caller, *, limit: int = 100) -> list[StoredThread]:
        """The caller's threads, the last used first."""
        rows = await self._store.threads(caller.project_id, caller.caller_id, limit=limit)
        return [row for row in rows if row.name]

    async def history(
        self, caller: Caller, thread: str, *, limit: int = 100, before: int | None = None
    ) -> Json | None:
        """A page of a thread, the newest messages, oldest first; None: there is no such thread."""
        row = await self._thread_row(caller, thread)
        if row is None:
            return None
        stored = await self._store.thread_messages(row.thread_id, before=before, limit=limit)
        artifact_ids = [
            str(message.notes["artifact"]) for message in stored if "artifact" in message.notes
        ]
        artifacts = await self._store.thread_artifacts(
            row.thread_id, list(dict.fromkeys(artifact_ids))
        )
        first = stored[0].number if stored else 0
        return {
            "thread_id": thread,
            "messages": message_views(
                stored, {artifact.artifact_id: artifact for artifact in artifacts}
            ),
            "has_more": first > 1 and len(stored) == limit,
            "before": first,
            "pending": json_array(json_object(row.state.get("pending")).get("calls")),
            "running": row.running,
        }

    async def spending(self, caller: Caller, thread: str) -> list[Json]:
        """What each request to a model cost in a thread, oldest first."""
        row = await self._thread_row(caller, thread)
        if row is None:
            return []
        return [asdict(row) for row in await self._store.thread_spending(row.thread_id)]

    async def clear(self, caller: Caller, thread: str) -> bool:
        """Forget what was said in a thread; False: there is no such thread."""
        row = await self._thread_row(caller, thread)
        if row is None:
            return False
        await self._store.clear_thread(row.thread_id, now=utc_now())
        return True

    async def delete(self, caller: Caller, thread: str) -> bool:
        """Remove a thread, settings and all; False: there is no such thread."""
        row = await self._thread_row(caller, thread)
        return row is not None and await self._store.delete_thread(row.thread_id)

    async def waiting(self, caller: Caller, thread: str) -> list[Json]:
        """The calls of a thread that wait for a person."""
        row = await self._thread_row(caller, thread)
        pending = json_object(row.state.get("pending")) if row is not None else {}
        return [json_object(call) for call in json_array(pending.get("calls"))]


def _check(request: TurnRequest) -> None:
    """Refuse what has nothing to answer.

    Raises:
        ArgumentError: There is no message of the user.
    """
    if request.messages and request.messages[-1].role == "tool":
        return
    if not any(message.role == "user" for message in request.messages):
        raise ArgumentError(
            "There is no message of the user.", hint='Send one with the role "user".'
        )


def _split(
    messages: Sequence[Message],
) -> tuple[tuple[Message, ...], list[Message], str]:
    """What came before the last question, the question with what follows it, and system texts."""
    system = "\n\n".join(
        message.text for message in messages if message.role == "system" and message.text
    )
    rest = [message for message in messages if message.role != "system"]
    last = max((at for at, message in enumerate(rest) if message.role == "user"), default=0)
    return tuple(rest[:last]), rest[last:], system


def _new_in(request: TurnRequest) -> list[Message]:
    """What a request to a thread adds: results of the client's tools, or the last question."""
    tail: list[Message] = []
    for message in reversed(request.messages):
        if message.role != "tool":
            break
        tail.insert(0, message)
    if tail:
        return tail
    last = next((message for message in reversed(request.messages) if message.role == "user"), None)
    return [] if last is None else [last]


def _for_audit(turn: Turn) -> Json:
    """What is recorded of a turn: no texts, no arguments."""
    usage = turn.budget.usage
    return {
        "turn": turn.turn_id,
        "model": turn.model,
        "requests": len(turn.spending),
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": round(usage.cost, 8),
        "offered": len(turn.offers.by_name),
        "calls": turn.budget.calls,
        "tools": turn.used_tools[:_MOST_NAMED],
    }


def _outcome(turn: Turn, state: TurnState, status: TurnStatus) -> Outcome:
    usage: TokenUsage = turn.budget.usage
    finish = turn.finish if turn.finish in {"stop", "length", "content_filter"} else "stop"
    if status == "client_calls":
        finish = "tool_calls"
    elif status == "out_of_budget":
        finish = "length"
    metadata: Json = {"model": turn.model, "finish_reason": finish}
    if usage.total_tokens:
        metadata["token_usage"] = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
            "cached_tokens": usage.cached_tokens,
            "is_estimate": usage.is_estimate,
            "parts": [
                {
                    "purpose": spent.purpose,
                    "model": spent.model,
                    "prompt_tokens": spent.prompt_tokens,
                    "completion_tokens": spent.completion_tokens,
                }
                for spent in turn.spending
            ],
        }
    if searched := state.get("vs_metadata"):
        metadata["vs_metadata"] = searched
    if turn.used_tools:
        metadata["tools"] = turn.used_tools
    if usage.cost:
        metadata["cost"] = round(usage.cost, 8)
    if turn.waiting:
        metadata["approvals"] = turn.waiting
    if status != "completed":
        metadata["status"] = status
    return Outcome(
        turn_id=turn.turn_id,
        model=turn.model,
        text=BETWEEN.join(turn.texts),
        calls=tuple(turn.client_calls),
        finish_reason=cast("FinishReason", finish),
        status=status,
        usage=usage,
        metadata=metadata,
        reasoning="".join(turn.reasoning),
    )


def _say(turn: Turn, text: str, *, is_kept: bool = True) -> None:
    """Say something in the model's place; what is not kept is for who listens now."""
    if turn.texts:
        turn.emit({"stream": BETWEEN})
    turn.texts.append(text)
    turn.emit({"stream": text})
    if not is_kept:
        return
    last = turn.transcript[-1] if turn.transcript else None
    if last is not None and last.role == "assistant" and not last.text and not last.calls:
        turn.transcript[-1] = replace(last, content=text)
    else:
        turn.transcript.append(turn.note(Message(role="assistant", content=text), ours=True))


def _ended_by_budget(turn: Turn, limit: str, sentence: str) -> None:
    """Answer what is open, and say why it ends here."""
    log.info("turn out of budget", extra={"turn": turn.turn_id, "limit": limit})
    turn.emit({"budget": {"limit": limit}})
    turn.transcript = _with_partial(turn, "out_of_budget")
    for call in unanswered(turn.transcript):
        text = f"[not run: {sentence}]"
        result = Message(role="tool", content=text, call_id=call.call_id, name=call.name)
        turn.transcript.append(turn.note(result, is_error=True))
    _say(turn, sentence)


def _with_partial(turn: Turn, why: str) -> list[Message]:
    """What was said, with what had come of an answer that was cut off; calls in it never ran."""
    partial = turn.partial()
    if partial is None or not partial.text:
        return list(turn.transcript)
    return [*turn.transcript, turn.note(replace(partial, calls=()), partial=why)]


def _waiting_text(turn: Turn) -> str:
    lines = [
        f"- {call['tool']} (approval {call['approval_id']}, until {call['expires_at']})"
        for call in turn.waiting
    ]
    return (
        "I need a person's approval before I can go on:\n"
        + "\n".join(lines)
        + "\nOnce it is decided, resume this turn."
    )


def _busy(thread: str | None) -> ThreadBusyError:
    return ThreadBusyError(
        f"The thread {(thread or '')[:80]!r} has a turn that runs.",
        hint="Wait for its end, or set thread_policy to enqueue.",
    )


def _look_at(task: "asyncio.Task[Outcome]") -> None:
    """Take the error of a task that nobody waits for: it is in the run."""
    if not task.cancelled():
        task.exception()
