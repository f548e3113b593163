"""Where an answer comes from, as clients are told."""

import pytest

from tests.chat.chat_gateway import (
    LOOK_UP,
    WITH_DOCUMENTS,
    ChatGateway,
    add_guide,
    chatting,
    contents,
    grading,
    streamed_text,
)
from toolgate.chat import citations
from toolgate.documents import NewDocument
from toolgate.types import Caller, Json

ASKED = "How is the accuracy of a vector index determined?"
ANSWER = "With a function [1], see `a[3]` and [the guide](x). Nobody knows more [7]."


async def add_page(place: ChatGateway) -> None:
    page = NewDocument(
        source="https://docs.example.org/index",
        text="# Accuracy\n\nThe accuracy of a vector index is reported as a percentage.\n",
        sha256="page",
    )
    await place.app.gateway.documents.add(Caller.local(), "GUIDES", page)


def steps(answer: str = ANSWER) -> tuple[Json, ...]:
    return (grading("yes"), LOOK_UP, {"text": answer})


async def test_sources_are_told_by_the_numbers_that_the_answer_cites() -> None:
    async with chatting(*steps(), settings=WITH_DOCUMENTS) as place:
        await add_guide(place)
        await add_page(place)
        body = await place.say(ASKED, thread="t", toolgate={"events": True})
        messages = (await place.history("t"))["messages"]

    metadata = body["toolgate"]["response_metadata"]
    sources = metadata["sources"]
    assert [source["number"] for source in sources] == list(range(1, len(sources) + 1))
    guide = [source for source in sources if source["document"] == "guide.md"]
    assert "Vector index accuracy" in {source["heading"] for source in guide}
    assert {source["link"] for source in guide} == {None}
    (page,) = [source for source in sources if source not in guide]
    assert page["link"] == "https://docs.example.org/index"
    assert page["collection"] == "GUIDES"
    assert isinstance(page["passage_id"], str)  # numbers of its size are rounded by JavaScript
    assert 0 < page["score"] <= 1
    assert metadata["unknown_citations"] == [7]
    assert messages[-1]["response_metadata"]["sources"] == sources


async def test_a_stream_tells_them_before_it_ends() -> None:
    async with chatting(*steps(), settings=WITH_DOCUMENTS) as place:
        await add_guide(place)
        events = await place.stream(ASKED, **{"x-toolgate-events": "1"})

    kinds = [name for name, _ in events]
    told = next(value for name, value in events if name == "toolgate.sources")
    assert kinds.index("toolgate.sources") < kinds.index("done")
    assert told["sources"][0]["document"] == "guide.md"
    assert told["unknown_citations"] == [7]
    assert streamed_text(events) == ANSWER


async def test_an_answer_without_documents_has_no_sources() -> None:
    async with chatting({"text": "See [1]."}, settings=WITH_DOCUMENTS) as place:
        await add_guide(place)
        body = await place.say("Hello", toolgate={"events": True})

    assert body["toolgate"]["response_metadata"].keys().isdisjoint({"sources", "unknown_citations"})


@pytest.mark.parametrize("stream", [False, True])
async def test_responses_have_annotations(stream: bool) -> None:
    import openai  # here, since it takes a second of every process that collects tests

    answer = "It is a percentage [1], and found with a function [2]. Both [1, 2]. Or [9]?"
    async with chatting(*steps(answer), settings=WITH_DOCUMENTS) as place:
        await add_guide(place)
        await add_page(place)
        client = openai.AsyncOpenAI(base_url=f"{place.url}/v1", api_key="none")
        added = 0
        if stream:
            response = None
            async for event in await client.responses.create(
                model="main", input=ASKED, stream=True
            ):
                added += event.type == "response.output_text.annotation.added"
                if event.type == "response.completed":
                    response = event.response
        else:
            response = await client.responses.create(model="main", input=ASKED)
        await client.close()

    assert response is not None
    (message,) = response.output
    assert message.type == "message"
    (part,) = message.content
    assert part.type == "output_text"
    kinds = {"file_citation": 0, "url_citation": 0}
    for annotation in part.annotations:
        kinds[annotation.type] += 1
        if annotation.type == "url_citation":
            assert annotation.url == "https://docs.example.org/index"
            assert part.text[annotation.start_index] == "["
            assert part.text[annotation.end_index - 1] == "]"
        else:
            assert annotation.type == "file_citation"
            assert annotation.filename == "guide.md"
    assert kinds == {"file_citation": 2, "url_citation": 2}
    assert added == (4 if stream else 0)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("As [1] says, and [2, 3] too.", [1, 2, 3]),
        ("```\na[0]\n``` and `b[4]`", []),
        ("[5](https://example.org) or [6]", [6]),
        ("[x], [1234], []", []),
        ("```unclosed [1]", []),
    ],
)
def test_citations_are_numbers_in_brackets_outside_code(text: str, numbers: list[int]) -> None:
    assert [citation.number for citation in citations(text)] == numbers


async def test_the_model_is_told_that_a_chosen_collection_does_not_exist() -> None:
    """A wrong name in the settings looked like a question that no document answers."""
    async with chatting(LOOK_UP, {"text": "Sorry."}, settings=WITH_DOCUMENTS) as place:
        await add_guide(place)
        await place.say("How do I patch?", toolgate={"collections": ["GUIDE"]})
        (result,) = contents(place.model.last, "tool")
    assert result.startswith("There is no collection 'GUIDE'. Collections: GUIDES.")
