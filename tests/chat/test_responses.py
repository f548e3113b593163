"""Items of the Responses API: what clients send back, and what is read again later."""

import pytest

from tests.chat.chat_gateway import chatting, check_pairs, contents
from toolgate.settings import GuardTable, Settings
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Json

FORECAST: Json = {"name": "weather__forecast", "arguments": {"city": "Bonn"}}
CLIENT_TOOLS: list[Json] = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}
    for name in ("open_window", "close_door")
]
BOTH: list[Json] = [
    {"name": "open_window", "arguments": {}},
    {"name": "close_door", "arguments": {}},
]


def weather() -> dict[str, object]:
    return {"weather": FakeUpstream(tools={"forecast": lambda _: text_result("Sunny")})}


async def test_parallel_calls_that_a_client_sends_back_keep_all_their_results() -> None:
    """A client that stores the conversation itself sends all calls, then all results."""
    async with chatting({"text": "Both. ", "tool_calls": BOTH}, {"text": "Done."}) as place:
        question: Json = {"role": "user", "content": "Open the window and close the door"}
        body: Json = {"model": "main", "tools": CLIENT_TOOLS, "store": False}
        _, asked = await place.post("/v1/responses", {**body, "input": [question]})
        results: list[Json] = [
            {
                "type": "function_call_output",
                "call_id": item["call_id"],
                "output": [{"type": "input_text", "text": f"{item['name']}: ok"}],
            }
            for item in asked["output"]
            if item["type"] == "function_call"
        ]
        conversation = [question, *asked["output"], *results]
        _, answered = await place.post("/v1/responses", {**body, "input": conversation})

        assert answered["output"][0]["content"][0]["text"] == "Done."
        check_pairs(place.model.last)
        assert contents(place.model.last, "assistant") == ["Both. "]
        assert contents(place.model.last, "tool") == ["open_window: ok", "close_door: ok"]


@pytest.mark.parametrize(
    "steps",
    [
        [{"text": "Let me look.", "tool_calls": [FORECAST]}, {"text": "Sunny."}],
        [{"tool_calls": [BOTH[0], FORECAST, BOTH[1]]}],
        [{"text": "Once upon", "finish_reason": "length"}],
        [{"text": "No", "finish_reason": "content_filter"}],
    ],
    ids=["text-between-calls", "calls-for-both", "length", "filter"],
)
async def test_a_response_that_is_read_again_is_the_one_that_was_sent(steps: list[Json]) -> None:
    async with chatting(*steps, servers=weather()) as place:
        body = {"model": "main", "input": "What is the weather forecast?", "tools": CLIENT_TOOLS}
        _, sent = await place.post("/v1/responses", body)
        status, read = await place.get(f"/v1/responses/{sent['id']}")

        assert status == 200, read
        for name in ("output", "status", "incomplete_details", "usage", "error"):
            assert read[name] == sent[name], name


async def test_a_call_of_the_gateway_that_waits_is_no_call_for_the_client() -> None:
    """A client would run it, although only people may decide that."""
    guard = GuardTable(tools=("weather:*",), approver="user")
    settings = Settings(guard=(guard,))
    async with chatting({"tool_calls": [FORECAST]}, servers=weather(), settings=settings) as place:
        body = {"model": "main", "input": "What is the weather forecast?"}
        _, sent = await place.post("/v1/responses", body)
        _, read = await place.get(f"/v1/responses/{sent['id']}")

        assert [item["type"] for item in read["output"]] == ["message"]
        assert "person's approval" in sent["output"][0]["content"][0]["text"]
        assert read["output"] == sent["output"]


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ({"stream": "yes"}, "'stream'"),
        ({"store": "no"}, "'store'"),
        ({"tools": "x"}, "'tools'"),
        ({"instructions": 5}, "'instructions'"),
        ({"conversation": 5}, "'conversation'"),
        ({"conversation": {"id": 5}}, "'id'"),
        ({"prompt": {"id": "p"}}, "'prompt'"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "call_id"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0]"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "'image_url'",
        ),
    ],
)
async def test_what_cannot_be_understood_is_refused(member: Json, said: str) -> None:
    """A misread `store` would keep what its client wants nobody to keep."""
    async with chatting(fallback={"text": "Yes."}) as place:
        body: Json = {"model": "main", "input": "x", **member}
        status, error = await place.post("/v1/responses", body)

        assert (status, said in error["error"]["message"]) == (400, True), error
        assert place.model.chats == []


async def test_images_and_files_reach_the_model_in_the_format_of_chat_completions() -> None:
    async with chatting(fallback={"text": "A cat."}) as place:
        image = "data:image/png;base64,AA=="
        parts: list[Json] = [
            {"type": "input_text", "text": "What is it?"},
            {"type": "input_image", "image_url": image, "detail": "low"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;…"},
        ]
        asked = {"model": "main", "input": [{"role": "user", "content": parts}]}
        status, _ = await place.post("/v1/responses", asked)

        assert status == 200
        assert place.model.last["messages"][-1]["content"] == [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": image, "detail": "low"}},
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;…"},
            },
        ]


async def test_a_response_without_a_whole_answer_says_so_when_it_is_read() -> None:
    broken = {"text": "Once upon a time there was", "drop_after": 3}
    slow = {"text": "Once upon a time there was " * 100, "chunk_delay_s": 0.1}
    async with chatting(broken, slow) as place:
        read: list[Json] = []
        for _ in range(2):
            body = {"model": "main", "input": "Tell a story", "stream": True}
            async with place.session.post(f"{place.url}/v1/responses", json=body) as answer:
                text = ""
                while "output_text.delta" not in text:
                    text += (await answer.content.readline()).decode()
                    assert not answer.content.at_eof(), text
                response_id = text.partition('"id":"')[2].partition('"')[0]
                if read:
                    read.append((await place.get(f"/v1/responses/{response_id}"))[1])
                    await place.post(f"/v1/runs/{answer.headers['x-toolgate-run']}/cancel", {})
                await answer.read()
            read.append((await place.get(f"/v1/responses/{response_id}"))[1])

        failed, running, cancelled = read
        assert [response["status"] for response in read] == ["failed", "in_progress", "cancelled"]
        assert "stopped in the middle" in failed["error"]["message"]
        assert failed["output"][0]["content"][0]["text"].startswith("Once")
        assert running["output"] == []
        assert cancelled["output"][0]["content"][0]["text"].startswith("Once")
