"""Searches documents in place of the calls that ask for them.

The passages are not part of the conversation and exist for one turn; a line about them becomes
part of it.
"""

import logging
from collections.abc import Sequence
from typing import Any, Literal

import anyio

from toolgate.base import json_text
from toolgate.base.ids import new_id
from toolgate.chat.base import DOCUMENTS, TurnState, Update
from toolgate.chat.turns.budget import BudgetExceededError
from toolgate.chat.turns.messages import last_question, unanswered
from toolgate.chat.turns.question import signals_of
from toolgate.chat.turns.turn import Turn
from toolgate.documents import ConversationMessage, Retrieval, RetrieveRequest, quoted
from toolgate.errors import ArgumentError, ModelError, ToolgateError
from toolgate.models.llm import Message, ToolCall
from toolgate.store import StoredArtifact
from toolgate.types import Json, json_array

log = logging.getLogger(__name__)

_RETRIEVER = "documents:retriever"
_MAX_LOOKUPS = 3
"""Document searches in a turn, so that a question can build on the results of another (chosen)."""
_REPEATED = "[looked up already in this turn: answer with what was found]"
_NO_MORE = (
    f"[not looked up: a turn may look documents up {_MAX_LOOKUPS} times; answer with what was "
    "found]"
)
_NOTHING = "[no document helps with: {query!r}]"
_STUCK = (
    "I had to stop here: the model asked again and again for documents that had been looked up "
    "already."
)


async def look_up_before(turn: Turn, state: TurnState, question: str) -> Update:
    """Search documents before the model is asked, if the settings say so."""
    if (
        turn.choices.retrieval == "auto"
        or DOCUMENTS not in turn.choices.tools_enabled
        or not any(offer.retrieves for offer in turn.offers.by_name.values())
    ):
        return {}
    if turn.choices.retrieval == "classifier":
        sources = await _classified(turn, question)
        turn.emit({"route": {"classified": sources}})
        if sources not in {"vecsearch", "both"}:
            return {}
    name = next(name for name, offer in turn.offers.by_name.items() if offer.retrieves)
    call = ToolCall(
        call_id=f"call_{new_id()}",
        name=name,
        arguments=json_text.dumps({"question": question[:2000]}).decode(),
    )
    asked = turn.note(Message(role="assistant", calls=(call,)), synthetic=True)
    update = await _retrieved(turn, [*state.get("messages", []), asked], (call,))
    return {**update, "messages": [asked, *update.get("messages", [])]}


async def _classified(turn: Turn, question: str) -> str:
    """Return `vecsearch`, `nl2sql`, `both` or `none`: by words if they suffice, else by a model."""
    decided, signals = signals_of(question)
    if decided:
        return decided
    prompt = await turn.services.prompts.render(
        turn.caller.project_id,
        "classifier",
        {"question": question[:4000], "signals": ", ".join(signals) or "none"},
    )
    try:
        reply = (await turn.ask(prompt, "classify", 8)).strip().lower()
    except ModelError as error:
        log.warning("question not classified", extra={"reason": error.code})
        return "both"
    return next(
        (choice for choice in ("vecsearch", "nl2sql", "both", "none") if choice in reply), "both"
    )


async def retrieve(turn: Turn, state: TurnState) -> Update:
    """Search documents in place of the calls that ask for them."""
    messages = state.get("messages", [])
    calls = tuple(
        call
        for call in unanswered(messages)
        if (offer := turn.offer(call.name)) is not None and offer.retrieves
    )
    return await _retrieved(turn, messages, calls)


async def _retrieved(turn: Turn, messages: Sequence[Message], calls: Sequence[ToolCall]) -> Update:
    """Answer internal calls: only a line about the documents joins the conversation.

    The first search of a turn uses the user's question, rewritten to stand alone; later ones use
    the model's own questions.

    Raises:
        BudgetExceededError: The model only repeats calls that it has made before.
    """
    update: Update = {"messages": []}
    results: list[Message] = []
    n_refused = 0
    for call in calls:
        own = str((call.read() or {}).get("question") or "").strip()
        question = own if turn.lookups and own else last_question(messages)
        refusal = _refusal(turn, question)
        if refusal:
            n_refused += 1
            results.append(_internal(turn, call, refusal, policy="stub"))
            continue
        retrieval = await _look_up(turn, messages, question)
        # The model's own words count, too: the same call again is a repetition.
        turn.lookups += [_folded(text) for text in (question, own, retrieval.query) if text]
        turn.n_lookups += 1
        result, changes = _found(turn, call, retrieval)
        results.append(result)
        update = {**update, **changes}
    if calls and n_refused == len(calls):
        if turn.is_repeating_lookups:
            raise BudgetExceededError("lookups", _STUCK)
        turn.is_without_retrieval = turn.is_repeating_lookups = True
    return {**update, "messages": results}


def _folded(question: str) -> str:
    return " ".join(question.casefold().split())


def _refusal(turn: Turn, question: str) -> str:
    """Return why documents are not searched for a question; empty: they are."""
    if _folded(question) in turn.lookups:
        return _REPEATED
    return _NO_MORE if turn.n_lookups >= _MAX_LOOKUPS else ""


async def _look_up(turn: Turn, messages: Sequence[Message], question: str) -> Retrieval:
    announced: Json = {}

    async def on_found(metadata: Json) -> None:
        announced.update(metadata)
        turn.emit({"vs_metadata": metadata})

    async def ask(
        prompt: str,
        *,
        purpose: Literal["rephrase", "grade", "select"],
        max_tokens: int,
        timeout_s: float,
    ) -> str:
        with anyio.fail_after(timeout_s):
            return await turn.ask(prompt, purpose, max_tokens)

    is_first = not turn.n_lookups
    request = RetrieveRequest(
        question=question[:8000] or " ",
        history=_prior_messages(turn, messages) if turn.choices.history and is_first else (),
        collections=turn.choices.collections,
        top_k=turn.choices.top_k,
        search_type=turn.choices.search_type,
        rephrase=turn.choices.rephrase and turn.choices.history and is_first,
        grade=turn.choices.grade,
    )
    try:
        retrieval = await turn.gateway.documents.retrieve(
            turn.caller, request, ask=ask, on_found=on_found
        )
    except ToolgateError as error:
        log.warning("no documents", extra={"turn": turn.turn_id, "reason": error.code})
        retrieval = Retrieval(
            status="error",
            question=question,
            query=question,
            error=error.failed,
            # Somebody chose the collections, and has to correct them.
            for_user=str(error) if isinstance(error, ArgumentError) else "",
        )
    log.info(
        "documents looked up",
        extra={
            "turn": turn.turn_id,
            "rephrased": retrieval.was_rephrased,
            "documents": len(retrieval.documents),
            "collections": list(retrieval.searched),
            "failed": list(retrieval.failed),
            "grade": retrieval.relevant if retrieval.grading_performed else "",
        },
    )
    if not announced:
        turn.emit({"vs_metadata": retrieval.metadata()})
    turn.emit({"grade": {"relevant": retrieval.relevant, "performed": retrieval.grading_performed}})
    return retrieval


def _found(turn: Turn, call: ToolCall, retrieval: Retrieval) -> tuple[Message, Update]:
    """Return the line that answers a call, and the update of the turn."""
    artifact_id = new_id()
    turn.artifacts.append(
        StoredArtifact(artifact_id=artifact_id, turn_id=turn.turn_id, body=retrieval.artifact())
    )
    new = [
        passage
        for passage in retrieval.injected_passages
        if (passage.collection, passage.passage_id) not in turn.passages
    ]
    documents = quoted(new, first=len(turn.passages) + 1) if new else ""
    turn.passages |= {(passage.collection, passage.passage_id): passage for passage in new}
    if documents:
        turn.documents[call.call_id] = documents
    log.info(
        "documents injected" if documents else "transparent completion",
        extra={"turn": turn.turn_id, "chars": len(documents)},
    )
    turn.emit({"injected": {"documents": len(retrieval.documents), "chars": len(documents)}})
    policy: Json = {"artifact": artifact_id}
    if retrieval.for_user:
        # The user must be told: the model gets it as the result, which stays in the history.
        text = turn.notes["must_say"] = retrieval.for_user
    elif documents:
        text = f"Relevant documents found for: {retrieval.query!r} ({len(new)} passages)"
        policy |= {"policy": "stub", "relevant": True}
    elif retrieval.is_injected:
        text = _REPEATED
        policy |= {"policy": "stub"}
    elif turn.n_lookups == 1:
        # Without call and result, the request would be the same as before, and the model would make
        # the same call again.
        text = _NOTHING.format(query=retrieval.query)
        policy |= {"policy": "drop_pair"}
        turn.is_without_retrieval = True
    else:
        text = _NOTHING.format(query=retrieval.query)
        policy |= {"policy": "stub"}
    update: Update = {
        "documents": "\n\n".join(turn.documents.values()),
        "vs_metadata": _summed(turn.vs_metadata, retrieval.metadata()),
    }
    if retrieval.context_input or turn.n_lookups == 1:
        update["context_input"] = retrieval.context_input
    turn.vs_metadata = update["vs_metadata"]
    return _internal(turn, call, text, **policy), update


def _summed(before: Json, metadata: Json) -> Json:
    """Merge the metadata of all searches of a turn."""
    if not before:
        return metadata
    tables = {
        name: list(dict.fromkeys([*json_array(before[name]), *json_array(metadata[name])]))
        for name in ("searched_tables", "failed_tables")
    }
    total = before["num_documents"] + metadata["num_documents"]
    return {**metadata, **tables, "num_documents": total}


def _internal(turn: Turn, call: ToolCall, text: str, **notes: Any) -> Message:
    message = Message(role="tool", content=text, call_id=call.call_id, name=call.name)
    return turn.note(message, internal_vs=True, stub=text, tool=_RETRIEVER, **notes)


def _prior_messages(turn: Turn, messages: Sequence[Message]) -> tuple[ConversationMessage, ...]:
    """Return the conversation for rephrasing: what users and models said."""
    messages_before: list[ConversationMessage] = []
    for message in (*turn.history, *messages):
        if message.role == "user":
            messages_before.append(ConversationMessage(role="user", text=message.text))
        elif message.role == "assistant":
            messages_before.append(ConversationMessage(role="assistant", text=message.text))
    return tuple(messages_before)
