"""The steps of a turn, as plain functions: `initialise`, `complete`, `retrieve`, `tools`, `route`.

Each takes the turn and the state and returns changes; none depends on an engine.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import anyio

from toolgate.base.tool_results import PARKED_META
from toolgate.catalog import CatalogEntry
from toolgate.chat.base import SQL, Route, TurnState, Update
from toolgate.chat.turns.budget import BudgetExceededError
from toolgate.chat.turns.lookups import look_up_before, retrieve
from toolgate.chat.turns.messages import last_question, repeated_steps, unanswered
from toolgate.chat.turns.model_answer import answer
from toolgate.chat.turns.offered_tools import find_tools, offer_of
from toolgate.chat.turns.pending_calls import PendingCall
from toolgate.chat.turns.prompt import prompt_of
from toolgate.chat.turns.question import query_of
from toolgate.chat.turns.tool_results import text_of
from toolgate.chat.turns.turn import Turn
from toolgate.errors import (
    ApprovalError,
    ArgumentError,
    ProgramError,
    ToolgateError,
    UnknownApprovalError,
    UnknownToolError,
)
from toolgate.gateway.execution.result_shape import Shape
from toolgate.gateway.listing.program_offer import PROGRAM_TOOL
from toolgate.gateway.meta_tools import (
    ProgramArguments,
    read_discover,
    read_execute,
    read_program,
)
from toolgate.intents import Detection
from toolgate.intents.rules import PASS_THROUGH
from toolgate.models.llm import Message, ToolCall
from toolgate.types import Json, json_array, json_object

log = logging.getLogger(__name__)

Node: TypeAlias = Callable[[Turn, TurnState], Awaitable[Update]]
"""A step: a plain function, independent of engines."""

_SURE = 0.9
"""Confidence in [0, 1] from which a keyword counts as certain: that of whole matches in the
keyword stage (chosen)."""


_SAME_STEPS = 5
"""Steps in a row with the same calls and results, after which a turn ends (chosen): a model may try
again, but each try is a paid request, and a turn may have fifty."""

_TRAINING_WAIT_S = 1.0
"""Seconds of the first training after a start for which turns wait (chosen): a pack of some hundred
prompts is trained by then. One of ten thousand takes 14 CPU s on a new installation; until then
its keywords alone count."""


async def initialise(turn: Turn, state: TurnState) -> Update:
    """Analyze the question, and choose the tools for the model."""
    question = last_question(state.get("messages", []))
    query = query_of(question, turn.history)
    turn.emit({"query": {"said": question[:2000], "searched": query}})
    raised: list[str] = []
    if question.strip() and not turn.request.resumes:
        raised = await _look_for_intent(turn, question)
    await _offer(turn, query, raised)
    if turn.pending and turn.offers.by_name:
        await _take_up_decided(turn)
    if turn.request.resumes or not question.strip():
        return {}
    return await look_up_before(turn, state, question)


async def _offer(turn: Turn, query: str, raised: Sequence[str]) -> None:
    settings = turn.settings
    if turn.request.parameters.get("tool_choice") == "none" and not turn.request.tools:
        return
    before = frozenset(turn.thread_tools)
    turn.offers, turn.thread_tools = await find_tools(
        turn.gateway,
        turn.caller,
        query,
        families=turn.choices.tools_enabled,
        before=turn.thread_tools,
        client_tools=turn.request.tools,
        hidden=settings.injected,
        max_tools=settings.max_tools,
        thread_tools=settings.thread_tools,
        with_meta=settings.meta_tools,
        raised=raised,
    )
    if turn.history:
        # Others than found tools are offered in every turn, and called by their own names.
        known = {"", *before, *turn.gateway.listing.pinned(turn.caller)}
        turn.tool_turns |= {
            offer.key: turn.turn_id
            for offer in turn.offers.by_name.values()
            if offer.key not in known and not offer.family
        }
    turn.emit(
        {
            "tools": {
                "offered": list(turn.offers.by_name),
                "fits": turn.offers.fits,
                "fallback": turn.offers.fallback,
            }
        }
    )
    log.info(
        "tools offered",
        extra={
            "turn": turn.turn_id,
            "tools": list(turn.offers.by_name),
            "fallback": turn.offers.fallback,
        },
    )


async def _take_up_decided(turn: Turn) -> None:
    """Answer calls of earlier turns that were decided since; others keep waiting."""
    undecided: list[PendingCall] = []
    for pending in turn.pending:
        try:
            decided = await turn.gateway.approvals.wait(pending.approval_id, within_s=0)
            approval_state = decided.state
        except UnknownApprovalError:
            approval_state = "expired"
        if approval_state == "waiting":
            undecided.append(pending)
            continue
        turn.emit({"approval": {**pending.entry, "status": approval_state}})
        result = await _answered(turn, pending.call)
        if result is None:  # it waits again: rules or arguments have changed
            entry = {**turn.waiting.pop(), "turn_id": pending.turn_id}
            undecided.append(replace(pending, entry=entry))
            continue
        late = pending.answered(result)
        turn.late_results.append(late)
        if turn.flush is not None:  # the call was made, and the thread must record that
            await turn.flush(())
        key = late.notes["turn"], late.call_id
        turn.history = tuple(
            late if (message.notes.get("turn"), message.call_id) == key else message
            for message in turn.history
        )
    turn.pending = undecided


async def _look_for_intent(turn: Turn, question: str) -> list[str]:
    """Find the rules for the question, and call its tool if that is certain. Returns tool keys."""
    async with turn.services.beginning:
        enrichment = await turn.gateway.intents.enrich(
            turn.caller, question, training_wait_s=_TRAINING_WAIT_S
        )
    detection = enrichment.detection
    if enrichment.text != PASS_THROUGH and enrichment.rules:
        # Every request to a model repeats all rules, but their notes belong to this message.
        rules = "\n\n".join([*enrichment.notes, *(rule.text for rule in enrichment.rules)])
        turn.rules = await turn.services.prompts.render(
            turn.caller.project_id, "rules", {"rules": rules}
        )
        turn.emit(
            {"intent": {"intent": detection.intent, "rules": [r.intent for r in enrichment.rules]}}
        )
    entry = turn.gateway.intents.suggested(turn.caller, detection)
    if entry is None or not turn.choices.tools_enabled:
        return []
    how = turn.choices.call_before_model
    is_exact = detection.stage == "keyword" and detection.confidence >= _SURE
    if how == "any" or (how == "exact" and is_exact and await _is_meant(turn, question, detection)):
        schema = json_object(entry.definition.get("inputSchema"))
        needed = set(map(str, schema.get("required") or ())) - set(turn.settings.injected)
        if how == "any" or needed <= set(detection.arguments):
            await _call_before(turn, entry.key, entry.exposed, dict(detection.arguments))
    return [entry.key]


async def _is_meant(turn: Turn, question: str, detection: Detection) -> bool:
    """Whether example prompts of an intent confirm its keywords, and nothing is declined."""
    if detection.asked_text or detection.unread:
        return False
    return await turn.gateway.intents.agrees(question, detection.intent)


async def _call_before(turn: Turn, key: str, name: str, arguments: Json) -> None:
    """Call the tool of an intent before the model is asked; failures have no effect."""
    _tool_event(turn, "started", key, arguments)
    if turn.budget.call(is_sql=False):
        return
    try:
        result = await turn.gateway.calls.execute(turn.caller, key, _sent(turn, key, arguments))
    except ToolgateError as error:
        _tool_event(turn, "failed", key, arguments, result=str(error))
        log.info("call before the model failed", extra={"tool": key, "reason": error.code})
        return
    text = text_of(result)
    if result.get("isError") is True:
        _tool_event(turn, "failed", key, arguments, result=text)
        return
    _tool_event(turn, "completed", key, arguments, result=text)
    turn.used_tools.append(key)
    turn.context = text
    turn.notes["called_before_model"] = name


def _tool_event(turn: Turn, status: str, tool: str, arguments: Json, **more: Any) -> None:
    turn.emit({"mcp_tool": {"status": status, "tool": tool, "arguments": arguments, **more}})


# Answers


async def complete(turn: Turn, state: TurnState) -> Update:
    """Get the next answer of the model.

    Raises:
        BudgetExceededError: A limit of the turn is reached, or the model only repeats itself.
    """
    if repeated_steps(state.get("messages", [])) >= _SAME_STEPS:
        raise BudgetExceededError(
            "repeated_calls",
            f"I had to stop here: the model made the same call {_SAME_STEPS} times in a row, and "
            "its result was always the same.",
        )
    turn.budget.step()
    messages = await prompt_of(turn, state)
    reply = await answer(turn, messages)
    return {"messages": [reply], "cleaned_messages": list(messages)}


def route(turn: Turn, state: TurnState) -> Route:
    """Return the next step: calls are answered, internal ones first, then the model continues."""
    messages = state.get("messages", [])
    if not messages:
        return "complete"
    if turn.waiting or turn.client_calls:
        return "end"
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    if last is None or messages[-1].role == "user":
        return "complete"
    open_calls = unanswered(messages)
    if open_calls:
        internal = any(
            (offer := turn.offer(call.name)) is not None and offer.retrieves for call in open_calls
        )
        return "retrieve" if internal else "tools"
    # A client may send the beginning of an answer, which the model continues.
    return "complete" if messages[-1].role == "tool" or not turn.budget.steps else "end"


def merged(state: TurnState, update: Update) -> TurnState:
    """Return the state after a step."""
    messages = [*state.get("messages", []), *update.get("messages", [])]
    return {**state, **update, "messages": messages}


# Tools


async def tools(turn: Turn, state: TurnState) -> Update:
    """Answer the calls of other tools concurrently, but destructive ones in order."""
    messages = state.get("messages", [])
    calls = unanswered(messages)
    theirs = [call for call in calls if _source(turn, call) == "client"]
    ours = [call for call in calls if _source(turn, call) != "client"]
    log.info(
        "route",
        extra={"turn": turn.turn_id, "route": "tools", "tools": [call.name for call in calls]},
    )
    turn.emit({"route": {"path": "tools", "tools": [call.name for call in calls]}})
    if turn.flush is not None and any(_may_change(turn, call) for call in ours):
        await turn.flush(messages)
    results: dict[str, Message] = {}

    async def run(call: ToolCall) -> None:
        result = await _answered(turn, call)
        if result is not None:
            results[call.call_id] = result

    limit = anyio.CapacityLimiter(turn.settings.parallel_calls)

    async def run_limited(call: ToolCall) -> None:
        async with limit:
            await run(call)

    in_order = [call for call in ours if _is_destructive(turn, call)]
    together = [call for call in ours if not _is_destructive(turn, call)]
    try:
        if len(ours) == 1:
            await run(ours[0])
        else:
            async with anyio.create_task_group() as group:
                for call in together:
                    group.start_soon(run_limited, call)
            for call in in_order:
                await run(call)
    except BaseException:
        # The calls have been made, and the thread must record that.
        turn.transcript += [results[call.call_id] for call in ours if call.call_id in results]
        raise
    for call in theirs:
        turn.client_calls.append(
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
        )
    return {"messages": [results[call.call_id] for call in ours if call.call_id in results]}


def _source(turn: Turn, call: ToolCall) -> str:
    offer = turn.offer(call.name)
    return "unknown" if offer is None else offer.source


def _is_destructive(turn: Turn, call: ToolCall) -> bool:
    """Whether a call may destroy data."""
    if call.name == PROGRAM_TOOL:
        return True  # it may do anything
    entry = _called(turn, call)
    return entry is not None and entry.destructive and not entry.read_only


def _may_change(turn: Turn, call: ToolCall) -> bool:
    """Whether a call may change anything."""
    if call.name == PROGRAM_TOOL:
        return True
    entry = _called(turn, call)
    return entry is not None and not entry.read_only


def _called(turn: Turn, call: ToolCall) -> CatalogEntry | None:
    """Return the server's tool that a call runs, also by `tool_execute`; None: it runs none."""
    offer = turn.offer(call.name)
    if offer is None:
        return None
    key = offer.key
    if offer.source == "meta" and call.name == "tool_execute":
        try:
            key = read_execute(call.read()).key
        except ArgumentError:
            return None
    return turn.gateway.visible.tool_or_none(turn.caller, key) if key else None


async def _answered(turn: Turn, call: ToolCall) -> Message | None:
    """Return the result of one call, even if it fails; None: it needs an approval first."""
    offer = turn.offer(call.name)
    if offer is None:
        _tool_event(turn, "failed", call.name, {}, result="unknown tool")
        return _result(turn, call, f"Unknown tool: {call.name}", is_error=True)
    arguments = call.read()
    if arguments is None:
        log.info("arguments are no JSON", extra={"turn": turn.turn_id, "tool": call.name})
        return _result(
            turn,
            call,
            f"Error executing {call.name}: the arguments are not valid JSON. Send one JSON object.",
            is_error=True,
        )
    if refusal := turn.budget.call(is_sql=offer.family == SQL):
        turn.emit({"budget": {"tool": call.name, "refused": True}})
        return _result(turn, call, refusal, is_error=True)
    key, shape = offer.key, Shape()
    try:
        if offer.source == "meta" and call.name == "tool_discovery":
            discovery = await turn.gateway.discovery.discover(turn.caller, read_discover(arguments))
            return _result(turn, call, discovery.text)
        if offer.source == "meta" and call.name == PROGRAM_TOOL:
            return await _program(turn, call, arguments)
        if offer.source == "meta":
            request = read_execute(arguments)
            key, arguments, shape = request.key, request.arguments, request.shape
        return await _executed(turn, call, key, arguments, shape)
    except ApprovalError as error:
        if error.state != "waiting":
            text = f"Error executing {call.name}: {error}"
            return _result(turn, call, text, is_error=True, key=key)
        if not await _approved_meanwhile(turn, call, key, arguments, error):
            return None
        return await _answered(turn, call)
    except UnknownToolError as error:
        return _result(turn, call, f"Unknown tool: {key or call.name}. {error}", is_error=True)
    except ToolgateError as error:
        log.info(
            "tool failed",
            extra={"turn": turn.turn_id, "tool": key or call.name, "code": error.code},
        )
        return _result(turn, call, f"Error executing {call.name}: {error}", is_error=True, key=key)
    except Exception as error:  # an in-process tool or a bug of ours: go on
        log.exception("tool failed", extra={"turn": turn.turn_id, "tool": key or call.name})
        first = str(error).partition("\n")[0][:300]
        return _result(turn, call, f"Error executing {call.name}: {first}", is_error=True, key=key)


async def _program(turn: Turn, call: ToolCall, arguments: Json) -> Message:
    """Return the result of a program, which continues if its calls are approved in time."""
    _tool_event(turn, "started", PROGRAM_TOOL, arguments)
    called: dict[str, None] = {}
    try:
        result = await _run_program(turn, read_program(arguments), called)
    except ToolgateError as error:
        _tool_event(turn, "failed", PROGRAM_TOOL, arguments, result=str(error))
        if not (isinstance(error, ProgramError) and error.is_waiting):
            turn.used_tools += called
        raise
    text = text_of(result, most_chars=turn.settings.result_tokens * 4)
    _tool_event(turn, "completed", PROGRAM_TOOL, arguments, result=text)
    turn.used_tools += called
    return _result(turn, call, text)


async def _run_program(turn: Turn, request: ProgramArguments, called: dict[str, None]) -> Json:
    """Run a program to its end, and add the keys of the tools that it calls.

    Raises:
        ProgramError: It failed, or waits for approvals that were not given in time.
    """

    def prepare(key: str, arguments: Json) -> Json:
        called[key] = None
        return _sent(turn, key, arguments)

    while True:
        try:
            return await turn.gateway.programs.run(turn.caller, request, {}, None, prepare=prepare)
        except ProgramError as error:
            if not error.is_waiting or not await _all_decided(turn, error.waiting):
                raise
            request = read_program({"resume": error.waiting["id"]})


async def _all_decided(turn: Turn, waiting: Mapping[str, Any]) -> bool:
    """Show the waiting calls of a program. Returns whether all are decided in time."""
    calls = [
        {
            "call_id": f"{waiting['id']}.{number}",
            "tool": waiting_call["function"],
            "name": PROGRAM_TOOL,
            "arguments": waiting_call["arguments"],
            "approval_id": waiting_call["approval_id"],
        }
        for number, waiting_call in enumerate(waiting["calls"])
    ]
    for shown in calls:
        turn.emit({"approval": {**shown, "status": "waiting"}})
    with anyio.move_on_after(turn.settings.approval_wait_s) as scope:
        for shown in calls:
            decided = await turn.gateway.approvals.wait(
                shown["approval_id"], within_s=turn.settings.approval_wait_s
            )
            if decided.state == "waiting":
                return False
            turn.emit({"approval": {**shown, "status": decided.state}})
    return not scope.cancelled_caught


async def _executed(turn: Turn, call: ToolCall, key: str, arguments: Json, shape: Shape) -> Message:
    sent = _sent(turn, key, arguments)
    _tool_event(turn, "started", key, arguments)
    try:
        result = await _outcome(turn, key, sent, shape)
    except ApprovalError:
        raise
    except ToolgateError as error:
        _tool_event(turn, "failed", key, arguments, result=str(error))
        raise
    text = text_of(result, most_chars=turn.settings.result_tokens * 4)
    is_error = result.get("isError") is True
    _tool_event(turn, "failed" if is_error else "completed", key, arguments, result=text)
    turn.used_tools.append(key)
    return _result(turn, call, text, is_error=is_error, key=key)


async def _outcome(turn: Turn, key: str, sent: Json, shape: Shape) -> Json:
    """Return a tool's result; a saved program continues if its calls are approved in time."""
    shown: set[str] = set()
    while True:
        result = await turn.gateway.shaper.run(
            turn.caller, shape, lambda: turn.gateway.calls.execute(turn.caller, key, sent)
        )
        parked = json_object(result.get("_meta")).get(PARKED_META)
        if not parked:
            return result
        waiting = await turn.gateway.kept_programs.waiting(turn.caller, str(parked))
        calls = {str(call["approval_id"]) for call in json_array(waiting.get("calls"))}
        # Any server could send the mark: each round must show calls that were not shown before.
        if calls <= shown or not await _all_decided(turn, waiting):
            return result
        shown |= calls


def _sent(turn: Turn, key: str, arguments: Json) -> Json:
    """Return the arguments of a call, with those that a model never sets replaced or removed.

    Depends on the tool that runs, not on how it was called, since `tool_execute` calls it, too.
    """
    values: Mapping[str, str] = {
        "thread_id": turn.request.thread or turn.turn_id,
        "project_id": turn.caller.project_id,
        "caller_id": turn.caller.caller_id,
        "turn_id": turn.turn_id,
    }
    hidden = turn.settings.injected
    entry = turn.gateway.visible.tool_or_none(turn.caller, key)
    offer = offer_of(entry, hidden) if entry is not None else None
    injected = offer.injected if offer is not None else ()
    own = {name: value for name, value in arguments.items() if name not in hidden}
    return own | {name: values[name] for name in injected if name in values}


async def _approved_meanwhile(
    turn: Turn, call: ToolCall, key: str, arguments: Json, error: ApprovalError
) -> bool:
    """Whether a call is decided while the turn waits; else a later turn continues it."""
    waits: Json = {
        "call_id": call.call_id,
        "tool": key,
        "name": call.name,
        "arguments": arguments,
        "approval_id": error.approval_id,
        "expires_at": error.expires_at,
    }
    turn.emit({"approval": {**waits, "status": "waiting"}})
    within_s = turn.settings.approval_wait_s
    if within_s:
        decided = await turn.gateway.approvals.wait(error.approval_id, within_s=within_s)
        if decided.state != "waiting":
            turn.emit({"approval": {**waits, "status": decided.state}})
            return True
    turn.waiting.append(waits)
    return False


def _result(
    turn: Turn, call: ToolCall, text: str, *, is_error: bool = False, key: str = ""
) -> Message:
    message = Message(role="tool", content=text, call_id=call.call_id, name=call.name)
    notes: Json = {"tool": key or call.name}
    if is_error:
        notes["is_error"] = True
    return turn.note(message, **notes)


def _noted(node: Node) -> Node:
    """Wrap a step to add its messages to the turn, where they stay however the turn ends."""

    async def run(turn: Turn, state: TurnState) -> Update:
        update = await node(turn, state)
        turn.transcript += update.get("messages", [])
        return update

    return run


NODES: Mapping[str, Node] = {
    "initialise": _noted(initialise),
    "complete": _noted(complete),
    "retrieve": _noted(retrieve),
    "tools": _noted(tools),
}
"""The steps by name, without `route`."""
