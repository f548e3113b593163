"""Clients that name threads in their own ways, and ask for embeddings.

Only tests that use `openai` import it: that takes a second of every process that collects tests.
"""

import numpy as np
import pytest

from tests.chat.chat_gateway import ChatGateway, chatting, contents
from toolgate.types import Json


async def told(place: ChatGateway, text: str, **more: object) -> list[str]:
    """What of the user the model sees, when a client without our header says something."""
    headers = {name: str(value) for name, value in more.items() if name.startswith("x_")}
    body: Json = {name: value for name, value in more.items() if name not in headers}
    status, answer = await place.post(
        "/v1/chat/completions",
        {"model": "main", "messages": [{"role": "user", "content": text}], **body},
        **headers,
    )
    assert status == 200, answer
    return contents(place.model.last, "user")


@pytest.mark.parametrize(
    "named",
    [
        {"x_openwebui_chat_id": "7"},
        {"x_librechat_conversation_id": "a%20b"},
        {"metadata": {"chat_id": "7"}},
        {"metadata": {"conversation_id": "7"}},
    ],
    ids=["open-webui", "librechat", "chat", "conversation"],
)
async def test_clients_name_threads_in_their_own_ways(named: Json) -> None:
    async with chatting(fallback={"text": "Yes."}) as place:
        await told(place, "First", **named)
        assert await told(place, "Second", **named) == ["First", "Second"]
        assert await told(place, "Third") == ["Third"]


async def test_the_list_of_fields_is_the_one_that_is_configured() -> None:
    chat = {"thread_fields": ("X-Chat", "metadata.room")}
    async with chatting(fallback={"text": "Yes."}, chat=chat) as place:
        await told(place, "First", x_chat="a")
        assert await told(place, "Second", metadata={"room": "a"}) == ["First", "Second"]
        assert await told(place, "Third", x_chat="a", metadata={"room": "b"}) == [
            "First", "Second", "Third",
        ]  # fmt: skip
        assert await told(place, "Other", x_openwebui_chat_id="a") == ["Other"]
        assert await told(place, "Ours", x_chat="a", x_toolgate_thread="b") == ["Ours"]
        status, error = await place.post(
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "x"}], "metadata": {"room": 7}},
        )
        assert status == 400
        assert "'metadata.room' is not a name for a thread" in error["error"]["message"]


@pytest.mark.parametrize("is_on", [True, False])
async def test_a_user_and_the_first_message_name_a_thread_where_that_is_wanted(
    is_on: bool,
) -> None:
    async with chatting(fallback={"text": "Yes."}, chat={"thread_from_user": is_on}) as place:
        first = {"role": "user", "content": "First"}
        rest = [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Second"}]
        for user, messages in (("ann", [first]), ("bob", [first]), ("ann", [first, *rest])):
            status, _ = await place.post(
                "/v1/chat/completions", {"model": "main", "user": user, "messages": messages}
            )
            assert status == 200
        _, threads = await place.get("/api/v1/threads")

        assert contents(place.model.last, "user") == ["First", "Second"]
        assert len(threads["threads"]) == (2 if is_on else 0)


async def test_embeddings_are_those_of_the_search() -> None:
    import openai

    async with chatting() as place:
        client = openai.AsyncOpenAI(base_url=f"{place.url}/v1", api_key="none")
        texts = ["Send an email", "Write a letter to people", "Prime numbers"]
        answer = await client.embeddings.create(model="bundled", input=texts)
        floats = await client.embeddings.create(
            model="toolgate", input=texts[0], encoding_format="float"
        )
        await client.close()

    rows = np.array([entry.embedding for entry in answer.data])
    assert rows.shape[0] == 3
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert np.allclose(floats.data[0].embedding, rows[0], atol=1e-6)
    assert [entry.index for entry in answer.data] == [0, 1, 2]
    assert answer.usage.total_tokens > 0


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, "'input' is neither a string"),
        ({"input": ""}, 400, "'input' is neither a string"),
        ({"input": [[1, 2]]}, 400, "numbers of tokens"),
        ({"input": ["a"] * 2_049}, 400, "2,049 texts"),
        ({"input": "a", "model": "gpt"}, 404, "no embedding model 'gpt'"),
        ({"input": "a", "dimensions": 5}, 400, "'dimensions'"),
        ({"input": "a", "model": ["gpt"]}, 404, "no embedding model ['gpt']"),
        ({"input": "a", "encoding_format": "hex"}, 400, "'encoding_format'"),
        ({"input": "a", "encoding_format": {"a": 1}}, 400, "'encoding_format'"),
        ({"input": "a", "input_type": ["x"]}, 400, "'input_type'"),
    ],
)
async def test_embeddings_that_cannot_be_made_are_refused(
    body: Json, status: int, said: str
) -> None:
    async with chatting() as place:
        answered, error = await place.post("/v1/embeddings", body)
    assert (answered, said in error["error"]["message"]) == (status, True), error


async def test_responses_are_continued_and_read_again_by_their_ids() -> None:
    import openai

    async with (
        chatting(fallback={"text": "Yes."}) as place,
        openai.AsyncOpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0) as client,
    ):
        first = await client.responses.create(model="main", input="First")
        second = await client.responses.create(
            model="main", input="Second", previous_response_id=first.id
        )
        seen = contents(place.model.last, "user")
        read = await client.responses.retrieve(second.id)
        stream = await client.responses.create(
            model="main", input="Third", previous_response_id=second.id, stream=True
        )
        last = [event async for event in stream][-1]
        assert last.type == "response.completed"
        third = last.response.id
        named = await client.responses.create(
            model="main", input="Fourth", conversation="mine", store=False
        )
        continued = await client.responses.create(
            model="main", input="Fifth", previous_response_id=named.id
        )
        in_named = contents(place.model.last, "user")
        retrieved = [(await client.responses.retrieve(each)).id for each in (third, continued.id)]

    assert seen == ["First", "Second"]
    assert in_named == ["Fourth", "Fifth"]
    assert retrieved == [third, continued.id]
    assert (read.id, read.output_text, read.status) == (second.id, "Yes.", "completed")
    assert (read.usage, second.usage is None) == (second.usage, False)
    assert second.previous_response_id == first.id


async def test_responses_that_are_not_kept_or_were_continued_are_not_continued() -> None:
    import openai

    async with (
        chatting(fallback={"text": "Yes."}) as place,
        openai.AsyncOpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0) as client,
    ):
        alone = await client.responses.create(model="main", input="Alone", store=False)
        first = await client.responses.create(model="main", input="First")
        await client.responses.create(model="main", input="Next", previous_response_id=first.id)
        other = first.id.replace(first.id.split("_")[1], "0" * 32)
        for previous in (alone.id, first.id, other, "resp_1_%%", "resp_"):
            with pytest.raises(openai.BadRequestError) as refused:
                await client.responses.create(
                    model="main", input="x", previous_response_id=previous
                )
            is_known = previous == first.id
            code = "argument" if is_known else "previous_response_not_found"  # OpenAI's code
            assert refused.value.code == code
        for unknown in (alone.id, other, "resp_1"):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(unknown)
        threads = (await place.get("/api/v1/threads?responses=true"))[1]["threads"]

    assert len(threads) == 1


@pytest.mark.parametrize(
    "asked",
    [
        "### Task:\nGenerate a title\n### Chat History:\n<chat_history>\nUSER: Hi\n</chat_history>",
        "Provide a concise, 5-word-or-less title for the conversation, in its language.\nUser: Hi",
        "Analyze this conversation and provide:\n1. The detected language\n2. A title\n\nUser: Hi",
    ],
    ids=["open-webui", "librechat", "librechat-structured"],
)
async def test_a_client_that_asks_for_a_title_does_not_go_on_with_the_conversation(
    asked: str,
) -> None:
    """Open WebUI asks for title, tags and follow-ups with the id of the chat after each answer."""
    async with chatting(fallback={"text": "Yes."}) as place:
        await told(place, "Hi", x_openwebui_chat_id="7")
        assert await told(place, asked, x_openwebui_chat_id="7") == [asked]
        assert "tools" not in place.model.last
        assert await told(place, "Next", x_openwebui_chat_id="7") == ["Hi", "Next"]
        assert (await told(place, asked, x_toolgate_thread="7"))[0] == "Hi"


@pytest.mark.parametrize("value", ["new", "{{LIBRECHAT_BODY_CONVERSATIONID}}"])
async def test_a_placeholder_names_no_thread(value: str) -> None:
    """Otherwise all conversations of a user would become one."""
    async with chatting(fallback={"text": "Yes."}) as place:
        await told(place, "First", x_librechat_conversation_id=value)
        assert await told(place, "Second", x_librechat_conversation_id=value) == ["Second"]


LATE_START = [
    {"role": "system", "content": "You are a pirate."},
    {"role": "user", "content": "My name is Ada."},
    {"role": "assistant", "content": "Ahoy, Ada."},
    {"role": "user", "content": "What is my name?"},
]


async def send(place: ChatGateway, messages: list[Json], **headers: str) -> Json:
    """The last request to the model, after a client sent its whole conversation."""
    body = {"model": "main", "messages": messages}
    status, answer = await place.post("/v1/chat/completions", body, **headers)
    assert status == 200, answer
    return place.model.last


async def test_a_new_thread_begins_with_the_conversation_that_its_client_sends() -> None:
    """LibreChat has no id for the first message, and people switch to another model in a chat."""
    async with chatting(fallback={"text": "Ada."}) as place:
        await send(place, LATE_START[:2], x_librechat_conversation_id="new")
        first = await send(place, LATE_START, x_librechat_conversation_id="7")
        further = [{"role": "assistant", "content": "Ada."}, {"role": "user", "content": "Sure?"}]
        second = await send(place, [*LATE_START, *further], x_librechat_conversation_id="7")
        history = await place.history("7")

        assert contents(first, "user") == ["My name is Ada.", "What is my name?"]
        assert contents(first, "assistant") == ["Ahoy, Ada."]
        assert contents(second, "user") == ["My name is Ada.", "What is my name?", "Sure?"]
        assert contents(second, "assistant") == ["Ahoy, Ada.", "Ada."]
        assert [message["number"] for message in history["messages"]] == [1, 2, 3, 4, 5, 6]


async def test_a_cleared_thread_does_not_come_back_with_what_its_client_still_has() -> None:
    async with chatting(fallback={"text": "Yes."}) as place:
        await send(place, LATE_START, x_openwebui_chat_id="7")
        async with place.session.delete(f"{place.url}/v1/chat/history?thread_id=7") as cleared:
            assert cleared.status == 200

        assert contents(await send(place, LATE_START, x_openwebui_chat_id="7"), "user") == [
            "What is my name?"
        ]


@pytest.mark.parametrize("header", ["x_openwebui_chat_id", "x_toolgate_thread"])
async def test_the_system_text_of_a_client_holds_in_its_threads(header: str) -> None:
    async with chatting(fallback={"text": "Arr."}) as place:
        for message in ("You are a pirate.", "You are a monk."):
            body: list[Json] = [
                {"role": "system", "content": message},
                {"role": "user", "content": "Who are you?"},
            ]
            systems = contents(await send(place, body, **{header: "7"}), "system")
            assert len(systems) == 1
            assert systems[0].endswith(message)
        assert not any(item["role"] == "system" for item in (await place.history("7"))["messages"])
