"""Rows ST: what a turn remembers, and for how long.

LangGraph is imported where it is used: each process of a test run imports this module.
"""

import json
from typing import Any

from tests.chat.chat_gateway import (
    GUIDE,
    LOOK_UP,
    RETRIEVER,
    WITH_DOCUMENTS,
    add_guide,
    answers,
    chatting,
    contents,
    grading,
)
from toolgate.chat import TurnState
from toolgate.models.llm import Message

MARK = "INDEX_ACCURACY_QUERY"


def test_st_1_the_state_has_the_fields_of_the_contract_and_adds_messages() -> None:
    from toolgate.chat.engines.langgraph import GraphEngine, GraphState

    fields = {
        "messages",
        "cleaned_messages",
        "context_input",
        "documents",
        "vs_metadata",
        "final_response",
    }
    graph = GraphEngine().graph
    channel = graph.channels["messages"]

    assert set(TurnState.__annotations__) == fields == set(GraphState.__annotations__)
    assert type(channel).__name__ == "BinaryOperatorAggregate"
    assert channel.operator([Message(role="user")], [Message(role="user")]).__len__() == 2


async def test_st_2_documents_are_in_no_checkpoint_and_in_no_later_request() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    from toolgate.chat.engines.langgraph import GraphEngine

    saver: Any = InMemorySaver()

    async def saving_engine() -> GraphEngine:
        return GraphEngine(checkpointer=saver)

    async with chatting(
        grading("yes"),
        LOOK_UP,
        {"text": "With INDEX_ACC."},
        {"text": "You are welcome."},
        settings=WITH_DOCUMENTS,
        chat={"engine": "langgraph"},
    ) as place:
        assert place.app.chat is not None
        place.app.chat._engine = saving_engine
        await add_guide(place)
        await place.say("How do I determine vector index accuracy?", thread="t")
        during = place.model.last
        await place.say("Thanks", thread="t")

        assert MARK in json.dumps(during)
        assert MARK not in json.dumps(place.model.last)
        kept = [str(saved) for saved in saver.list(None)]
        assert kept
        assert not any(MARK in saved for saved in kept)


async def test_st_3_what_was_searched_is_told_with_that_answer_alone() -> None:
    async with chatting(
        grading("yes"),
        LOOK_UP,
        {"text": "With a function."},
        {"text": "Hello."},
        settings=WITH_DOCUMENTS,
    ) as place:
        await add_guide(place)
        await place.say("How do I determine vector index accuracy?", thread="t")
        await place.say("My name is Mike", thread="t")
        messages = (await place.history("t"))["messages"]

        told = [m["response_metadata"] for m in messages if "response_metadata" in m]
        assert told[0]["vs_metadata"]["searched_tables"] == ["GUIDES"]
        assert "vs_metadata" not in told[1]
        assert all(one["token_usage"]["total_tokens"] > 0 for one in told)


async def test_st_4_raw_documents_are_kept_with_the_result_and_text_goes_to_the_model() -> None:
    async with chatting(
        grading("yes"), LOOK_UP, {"text": "With a function."}, settings=WITH_DOCUMENTS
    ) as place:
        await add_guide(place)
        await place.say("How do I determine vector index accuracy?", thread="t")
        history = (await place.history("t"))["messages"]

        result = next(m for m in history if m["role"] == "tool")
        raw = json.loads(result["content"])
        sent = contents(place.model.last, "tool")[0]
        assert raw["documents"][0]["page_content"] in GUIDE
        assert sent.startswith("Relevant documents found for: ")
        assert "\n\nRelevant Context:\n" in sent
        assert MARK in sent
        assert "page_content" not in sent


async def test_st_5_the_history_has_everything_and_is_cleared_when_asked() -> None:
    async with chatting(
        grading("yes"), LOOK_UP, {"text": "With a function."}, settings=WITH_DOCUMENTS
    ) as place:
        await add_guide(place)
        unknown = await place.history("t")
        await place.say("How do I determine vector index accuracy?", thread="t")
        full = await place.history("t")
        async with place.session.patch(f"{place.url}/v1/chat/history?thread_id=t") as answer:
            cleared = await answer.json()
        after = await place.history("t")

        assert unknown["messages"] == [
            {"role": "system", "content": "I'm sorry, I have no history of this conversation."}
        ]
        assert [m["role"] for m in full["messages"]] == ["user", "assistant", "tool", "assistant"]
        assert full["messages"][1]["tool_calls"][0]["function"]["name"] == RETRIEVER
        assert full["messages"][2]["additional_kwargs"]["internal_vs"] is True
        assert cleared["messages"][0]["content"] == (
            "As requested, I've forgotten our conversation."
        )
        assert after["messages"] == []
        assert all(answers(body) or body["temperature"] == 0 for body in place.model.chats)
