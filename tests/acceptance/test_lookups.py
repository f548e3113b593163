"""Documents that a turn looks up more than once."""

import json

from tests.chat.chat_gateway import (
    RETRIEVER,
    WITH_DOCUMENTS,
    ChatGateway,
    add_guide,
    answers,
    chatting,
    check_pairs,
    contents,
    grading,
    offered,
)
from toolgate.types import Json

PRICES = "# Prices\n\nThe price of the pump A37 is 120 euros. Its maker is the Huber company.\n"
MAKERS = "# Makers\n\nThe Huber company has its seat in Graz, at the river Mur.\n"


def look_up(question: str) -> Json:
    return {"tool_calls": [{"name": RETRIEVER, "arguments": {"question": question}}]}


def asked(place: ChatGateway) -> list[Json]:
    """The requests for an answer."""
    return [body for body in place.model.chats if answers(body)]


async def test_a_second_lookup_takes_the_question_of_the_model() -> None:
    async with chatting(
        grading("yes"),
        look_up("x"),
        look_up("seat of the Huber company"),
        {"text": "In Graz."},
        settings=WITH_DOCUMENTS,
        chat={"top_k": 1},
    ) as place:
        await add_guide(place, PRICES + MAKERS)
        body = await place.say(
            "What does the pump A37 cost, and where is its maker?", toolgate={"events": True}
        )

        first, second, third = asked(place)
        assert RETRIEVER in offered(second)
        results = contents(third, "tool")
        assert "pump A37 is 120 euros" in results[0]
        assert "seat in Graz" in results[1]
        assert "seat in Graz" not in json.dumps(second)
        # What stands in front stays as it was, so that a cache holds.
        assert third["messages"][: len(second["messages"])] == second["messages"]
        assert first["messages"] == second["messages"][: len(first["messages"])]
        check_pairs(third)
        told = body["toolgate"]["response_metadata"]["vs_metadata"]
        assert told["num_documents"] == 2
        assert told["context_input"] == "seat of the Huber company"
        numbers = [text.split('index="')[1][0] for text in results]
        assert numbers == ["1", "2"]


async def test_a_lookup_that_repeats_itself_ends_the_turn() -> None:
    """It went on for as many paid requests as a turn may make."""
    async with chatting(
        grading("yes"), settings=WITH_DOCUMENTS, fallback=look_up("vector index accuracy")
    ) as place:
        await add_guide(place)
        body = await place.say(
            "How is the vector index accuracy determined?", thread="t", toolgate={"events": True}
        )

        *_, before, last = asked(place)
        assert len(asked(place)) == 3
        assert "looked up already" in contents(last, "tool")[-1]
        assert len([body for body in place.model.chats if not answers(body)]) == 1  # one was graded
        assert RETRIEVER not in offered(last)
        assert last["messages"] != before["messages"]
        assert "had to stop" in body["choices"][0]["message"]["content"]
        assert body["choices"][0]["finish_reason"] == "length"
        assert "vs_metadata" in body["toolgate"]["response_metadata"]

        place.model.script({"text": "Gladly."})
        assert await place.text("Thank you", thread="t") == "Gladly."
        check_pairs(place.model.last)


async def test_a_turn_looks_documents_up_three_times_at_most() -> None:
    questions = ("x", "price of the pump", "maker of the pump", "seat of the company")
    async with chatting(
        grading("yes"),
        *[look_up(question) for question in questions],
        {"text": "Done."},
        settings=WITH_DOCUMENTS,
    ) as place:
        await add_guide(place, PRICES, "PRICES")
        assert await place.text("What does the pump A37 cost?") == "Done."

        results = contents(asked(place)[-1], "tool")
        assert len(results) == 4
        assert "three times" in results[3] or "3 times" in results[3]
        assert sum("120 euros" in result for result in results) == 1


async def test_lookups_that_find_nothing_end_too() -> None:
    async with chatting(
        grading("no"), settings=WITH_DOCUMENTS, fallback=look_up("vector index accuracy")
    ) as place:
        await add_guide(place)
        await place.say("Hello there, what is the weather?")

        bodies = [json.dumps([body["messages"], body.get("tools")]) for body in asked(place)]
        assert len(bodies) <= 5
        assert len(set(bodies)) == len(bodies)
