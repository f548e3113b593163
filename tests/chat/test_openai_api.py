"""The endpoints of `/v1` and what of them is under `/api/v1`."""

import anyio
import pytest

from tests.chat.chat_gateway import chatting, check_pairs, contents, roles, streamed_text
from tests.limits import HANG_S
from toolgate.chat import TurnRequest, friendly
from toolgate.errors import MissingExtraError
from toolgate.models.llm import Message
from toolgate.settings import GuardTable, ModelTable, Settings
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Caller

WEATHER = {"tool_calls": [{"name": "weather__forecast", "arguments": {"city": "Bonn"}}]}
THEIRS = {
    "type": "function",
    "function": {"name": "open_window", "parameters": {"type": "object", "properties": {}}},
}


def weather() -> dict[str, object]:
    return {"weather": FakeUpstream(tools={"forecast": lambda _: text_result("Sunny")})}


async def test_models_lists_names_and_aliases() -> None:
    async with chatting(model={"aliases": ("gpt-4o",)}) as place:
        _, body = await place.get("/v1/models")
        status, one = await place.get("/v1/models/gpt-4o")
        missing, error = await place.get("/v1/models/other")

        assert [model["id"] for model in body["data"]] == ["main", "gpt-4o"]
        assert (status, one["object"]) == (200, "model")
        assert (missing, error["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"model": "main", "messages": []}, 400, "missing or empty"),
        ({"model": "main", "messages": [{"role": "robot", "content": "x"}]}, 400, "robot"),
        ({"model": "main", "messages": [{"role": "system", "content": "x"}]}, 400, "no message"),
        ({"model": "gpt-9", "messages": [{"role": "user", "content": "x"}]}, 404, "gpt-9"),
        ({"model": "main", "messages": "x"}, 400, "missing or empty"),
        ({"model": 3, "messages": [{"role": "user", "content": "x"}]}, 400, "model"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": None}]}]},
            400,
            "messages[0]",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, 400, "messages[0]"),
        ({"model": "main", "n": 2, "messages": [{"role": "user", "content": "x"}]}, 400, "'n'"),
        ({"model": "main", "n": {"a": []}, "messages": [{"role": "user"}]}, 400, "'n'"),
        (
            {"model": "main", "tools": [{"type": "x"}], "messages": [{"role": "user"}]},
            400,
            "tools[0]",
        ),
    ],
)
async def test_what_cannot_be_answered_is_an_error_in_openais_shape(
    body: dict[str, object], status: int, said: str
) -> None:
    async with chatting() as place:
        answered, error = await place.post("/v1/chat/completions", body)

        assert answered == status
        assert said in error["error"]["message"]
        assert set(error["error"]) == {"message", "type", "param", "code"}
        assert place.model.chats == []


async def test_the_clients_tools_are_mixed_with_ours_and_run_by_the_client() -> None:
    both = {"tool_calls": [*WEATHER["tool_calls"], {"name": "open_window", "arguments": {}}]}
    async with chatting(both, {"text": "Done."}, servers=weather()) as place:
        first = {"role": "user", "content": "Open the window if the forecast is sunny"}
        body = {"model": "main", "messages": [first], "tools": [THEIRS]}
        _, answer = await place.post("/v1/chat/completions", body)
        message = answer["choices"][0]["message"]
        result = {
            "role": "tool",
            "tool_call_id": message["tool_calls"][0]["id"],
            "content": "opened",
        }
        _, last = await place.post(
            "/v1/chat/completions", {**body, "messages": [first, message, result]}
        )

        assert answer["choices"][0]["finish_reason"] == "tool_calls"
        assert [c["function"]["name"] for c in message["tool_calls"]] == ["open_window"]
        assert last["choices"][0]["message"]["content"] == "Done."
        check_pairs(place.model.last)
        assert contents(place.model.last, "tool") == ["Sunny", "opened"]


async def test_in_a_thread_results_of_the_clients_tools_are_taken_up() -> None:
    call = {"tool_calls": [{"name": "open_window", "arguments": {}}]}
    async with chatting(call, {"text": "Done."}) as place:
        answer = await place.say("Open the window", thread="t", tools=[THEIRS])
        given = answer["choices"][0]["message"]["tool_calls"][0]
        messages = [{"role": "tool", "tool_call_id": given["id"], "content": "opened"}]
        status, body = await place.post(
            "/v1/chat/completions",
            {"model": "main", "messages": messages, "tools": [THEIRS]},
            x_toolgate_thread="t",
        )

        assert status == 200, body
        assert roles(place.model.last) == ["system", "user", "assistant", "tool"]
        check_pairs(place.model.last)


async def test_a_stream_has_nothing_but_openais_chunks_unless_events_are_asked_for() -> None:
    async with chatting(
        WEATHER, {"text": "Sunny."}, WEATHER, {"text": "Sunny."}, servers=weather()
    ) as place:
        plain = await place.stream("The forecast?", stream_options={"include_usage": True})
        told = await place.stream("The forecast?", **{"x-toolgate-events": "1"})

        assert {name for name, _ in plain} == {"data", "done"}
        assert plain[-2][1]["choices"] == []
        assert plain[-2][1]["usage"]["total_tokens"] > 0
        assert all(chunk["usage"] is None for name, chunk in plain[:-2])
        statuses = [event["status"] for name, event in told if name == "toolgate.mcp_tool"]
        assert statuses == ["started", "completed"]
        assert streamed_text(told) == "Sunny."


async def test_runs_can_be_read_again_from_any_event_on() -> None:
    async with chatting(WEATHER, {"text": "Sunny."}, servers=weather()) as place:
        answer = await place.say("The forecast?")
        run = answer["id"].removeprefix("chatcmpl-")
        async with place.session.get(f"{place.url}/v1/runs/{run}/events") as whole:
            everything = await whole.text()
        blocks = [block for block in everything.split("\n\n") if block]
        async with place.session.get(
            f"{place.url}/v1/runs/{run}/events", headers={"last-event-id": str(len(blocks) - 2)}
        ) as rest:
            left = await rest.text()
        status, _ = await place.get("/v1/runs/nothing/events")

        assert blocks[0].startswith("id: 1\nevent: turn\n")
        assert [block for block in left.split("\n\n") if block] == blocks[-2:]
        assert "event: completion" in blocks[-1]
        assert status == 404


async def test_a_silent_stream_says_that_it_is_alive() -> None:
    step = {"text": "Now.", "delay_s": 0.4}
    async with chatting(step, chat={"heartbeat_s": 0.05}) as place:
        body = {
            "model": "main",
            "stream": True,
            "messages": [{"role": "user", "content": "Hello"}],
        }
        async with place.session.post(f"{place.url}/v1/chat/completions", json=body) as answer:
            text = await answer.text()

        assert text.startswith(": keep-alive\n\n")
        assert "Now." in text


async def test_responses_answer_whole_and_in_pieces() -> None:
    call = {"tool_calls": [{"name": "open_window", "arguments": {"wide": True}}]}
    async with chatting({"text": "Hello."}, {"text": "Hello."}, call) as place:
        _, whole = await place.post(
            "/v1/responses", {"model": "main", "input": "Hi", "instructions": "Be brief."}
        )
        async with place.session.post(
            f"{place.url}/v1/responses", json={"model": "main", "input": "Hi", "stream": True}
        ) as answer:
            streamed = await answer.text()
        tool = {"type": "function", "name": "open_window", "parameters": {"type": "object"}}
        _, called = await place.post(
            "/v1/responses", {"model": "main", "input": "Open it", "tools": [tool]}
        )

        assert whole["output"][0]["content"][0]["text"] == "Hello."
        assert "Be brief." in contents(place.model.chats[0], "system")[0]
        kinds = [line[7:] for line in streamed.splitlines() if line.startswith("event: ")]
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert called["output"][0]["type"] == "function_call"
        assert called["output"][0]["name"] == "open_window"


async def test_a_response_has_the_whole_input_and_its_continuation_too() -> None:
    """Clients that send their history each time leave `store` at its default as well."""
    async with chatting(fallback={"text": "Yes."}) as place:
        sent = [
            {"role": "user", "content": "My name is Ada."},
            {"role": "assistant", "content": "Hello, Ada."},
            {"role": "user", "content": "What is my name?"},
        ]
        body = {"model": "main", "input": sent, "instructions": "Be brief."}
        _, first = await place.post("/v1/responses", body)
        _, second = await place.post(
            "/v1/responses",
            {"model": "main", "input": "And now?", "previous_response_id": first["id"]},
        )

        whole, continued = place.model.chats
        assert contents(whole, "user") == ["My name is Ada.", "What is my name?"]
        assert contents(whole, "assistant") == ["Hello, Ada."]
        assert "Be brief." in contents(whole, "system")[0]
        assert contents(continued, "user") == ["My name is Ada.", "What is my name?", "And now?"]
        assert contents(continued, "assistant") == ["Hello, Ada.", "Yes."]
        assert "Be brief." not in contents(continued, "system")[0]
        assert second["output"][0]["content"][0]["text"] == "Yes."


async def test_threads_of_single_responses_are_listed_only_on_request() -> None:
    """A client may make one with each request; people look for threads that they named."""
    async with chatting(fallback={"text": "Yes."}) as place:
        await place.post("/v1/responses", {"model": "main", "input": "Once"})
        await place.post("/v1/responses", {"model": "main", "input": "x", "conversation": "mine"})

        async def listed(query: str = "") -> list[str]:
            _, body = await place.get(f"/api/v1/threads{query}")
            return [thread["thread_id"] for thread in body["threads"]]

        assert await listed() == ["mine"]
        newest, single = await listed("?responses=true")
        assert newest == "mine"
        assert single.startswith("response-")
        async with place.session.get(f"{place.url}/console/chat") as answer:
            page = await answer.text()
        assert single not in page
        assert 'href="/console/chat?responses=1"' in page
        async with place.session.get(f"{place.url}/console/chat?responses=1") as answer:
            assert single in await answer.text()


async def test_results_of_tools_of_the_client_reach_the_model_with_their_call() -> None:
    """In the input of a new response, from a client that stores the conversation itself."""
    async with chatting(fallback={"text": "It is open."}) as place:
        items = [
            {"role": "user", "content": "Open the window."},
            {"type": "function_call", "call_id": "c1", "name": "open_window", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
        ]
        _, answered = await place.post("/v1/responses", {"model": "main", "input": items})

        roles = [message["role"] for message in place.model.chats[0]["messages"]]
        assert roles == ["system", "user", "assistant", "tool"]
        assert answered["output"][0]["content"][0]["text"] == "It is open."


async def test_settings_of_threads_and_projects_hold_from_the_next_turn_on() -> None:
    async with chatting(fallback={"text": "Yes."}) as place:
        await place.say("One", thread="t")
        url = f"{place.url}/api/v1/threads/t/settings"
        async with place.session.patch(url, json={"history": False}) as answer:
            assert answer.status == 200
        await place.say("Two", thread="t")
        async with place.session.patch(url, json={"history": None, "top_k": 0}) as answer:
            refused = answer.status
        async with place.session.patch(
            f"{place.url}/api/v1/chat/settings", json={"retrieval": "forced"}
        ) as answer:
            project = await answer.json()
        _, settings = await place.get("/api/v1/threads/t/settings")

        assert roles(place.model.last) == ["system", "user"]
        assert refused == 400
        assert project["active"]["retrieval"] == "forced"
        assert settings["set"] == {"history": False}
        assert settings["active"]["retrieval"] == "forced"


async def test_a_call_that_needs_approval_waits_and_goes_on_once_it_is_given() -> None:
    guard = GuardTable(tools=("weather:*",), approver="user")
    async with chatting(
        WEATHER, {"text": "Sunny."}, servers=weather(), settings=Settings(guard=(guard,))
    ) as place:
        first = await place.text("The forecast?", thread="t")
        waiting = (await place.history("t"))["pending"]
        still, _ = await place.post("/v1/chat/resume", {}, x_toolgate_thread="t")
        again = (await place.history("t"))["pending"]
        [approval] = await place.app.gateway.approvals.search(Caller.local())
        code = place.app.gateway.approvals.code(Caller.local(), approval, via="console")
        path = f"/api/v1/approvals/{waiting[0]['approval_id']}/approve"
        status, _ = await place.post(path, {"code": code})
        _, resumed = await place.post("/v1/chat/resume", {}, x_toolgate_thread="t")

        assert "approval" in first
        assert waiting[0]["tool"] == "weather:forecast"
        assert (still, status) == (200, 200)
        assert again[0]["approval_id"] == waiting[0]["approval_id"]
        assert resumed["choices"][0]["message"]["content"] == "Sunny."
        check_pairs(place.model.last)
        assert contents(place.model.last, "tool") == ["Sunny"]
        assert (await place.history("t"))["pending"] == []


async def test_a_model_that_fails_before_its_first_word_is_asked_again_and_then_another() -> None:
    async with chatting(
        {"status": 500},
        {"text": "Second."},
        {"status": 429, "retry_after": 30},
        {"text": "From the other."},
        model={"retries": 1, "fallbacks": ("other",)},
        models={"other": ModelTable(url="http://127.0.0.1:9/v1", model="x", retries=0)},
    ) as place:
        table = ModelTable(url=place.model.url, model="other", retries=0)
        assert place.app.chat is not None
        await place.app.chat.models.reload(
            {"main": place.app.settings.models["main"], "other": table}, ""
        )
        text = await place.text("Hello")
        events = await place.stream("Hello", **{"x-toolgate-events": "1"})

        assert text == "Second."
        assert streamed_text(events) == "From the other."
        assert place.model.last["model"] == "other"
        retries = [event for name, event in events if name == "toolgate.retry"]
        assert retries[0]["next"] == "other"


async def test_a_stream_that_breaks_off_is_not_repeated_and_the_thread_goes_on() -> None:
    async with chatting(
        {"text": "The answer is forty-two.", "drop_after": 3}, {"text": "Sorry."}
    ) as place:
        events = await place.stream("Hello", thread="t")
        text = await place.text("Again?", thread="t")
        history = await place.history("t")

        errors = [event for name, event in events if name == "data" and "error" in event]
        assert streamed_text(events)
        assert errors[0]["error"]["message"].startswith("I'm sorry, I've run into a problem")
        assert text == "Sorry."
        assert len(place.model.chats) == 2
        assert history["messages"][1]["additional_kwargs"]["partial"] == "failed"


async def test_policies_of_threads_decide_about_a_second_turn() -> None:
    slow = {"when": {"user": "slow"}, "reply": {"text": "word " * 40, "chunk_delay_s": 0.03}}
    async with chatting(slow, fallback={"text": "Quick."}) as place:
        results: list[str] = []

        async def turn(text: str, policy: str) -> None:
            status, _ = await place.post(
                "/v1/chat/completions",
                {
                    "model": "main",
                    "messages": [{"role": "user", "content": text}],
                    "toolgate": {"thread_policy": policy},
                },
                x_toolgate_thread="t",
            )
            results.append(f"{text} {status}")

        async def second(policy: str) -> None:
            results.clear()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(turn, "slow", "enqueue")
                with anyio.fail_after(HANG_S):
                    while not (await place.history("t")).get("running"):
                        await anyio.sleep(0.01)
                await turn("quick", policy)

        await second("reject")
        assert sorted(results) == ["quick 409", "slow 200"]
        await second("enqueue")
        assert results == ["slow 200", "quick 200"]
        before = len((await place.history("t"))["messages"])
        await second("rollback")
        assert "quick 200" in results
        assert len((await place.history("t"))["messages"]) == before + 2


async def test_prompts_are_replaced_over_rest_and_seen_by_mcp_clients() -> None:
    async with chatting(fallback={"text": "Yes."}) as place:
        url = f"{place.url}/api/v1/prompts/basic-default"
        async with place.session.patch(url, json={"instructions": "Speak {like} a pirate."}) as one:
            changed = await one.json()
        await place.say("Hello", toolgate={"tools_enabled": []}, tool_choice="none")
        async with place.session.patch(url, json={"instructions": " "}) as empty:
            refused = empty.status
        async with place.session.patch(url, json={}) as missing:
            nothing = missing.status
        unknown, _ = await place.get("/api/v1/prompts/none-such")
        listed = await place.app.gateway.listing.list_prompts(Caller.local())
        async with place.session.delete(f"{place.url}/api/v1/prompts") as cleared:
            names = (await cleared.json())["cleared"]

        assert changed["version"] == 1
        assert contents(place.model.last, "system") == ["Speak {like} a pirate."]
        assert (refused, nothing, unknown) == (400, 400, 404)
        assert b"toolgate_basic-default" in listed
        assert names == ["basic-default"]


async def test_what_a_model_thinks_aloud_is_passed_on() -> None:
    thinking = {"text": "Noon.", "reasoning": "The sun is high."}
    async with chatting(thinking, thinking) as place:
        body = await place.say("What time is it?")
        events = await place.stream("What time is it?")

    assert body["choices"][0]["message"]["reasoning_content"] == "The sun is high."
    pieces = [
        choice["delta"].get("reasoning_content", "")
        for _, chunk in events[:-1]
        for choice in chunk["choices"]
    ]
    assert "".join(pieces) == "The sun is high."
    assert streamed_text(events) == "Noon."


async def test_what_a_model_cannot_take_is_refused_before_it_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with chatting(model={"context_tokens": 1_000}) as place:
        status, body = await place.post(
            "/v1/chat/completions",
            {"model": "main", "messages": [{"role": "user", "content": "many words " * 2_000}]},
        )

    assert (status, body["error"]["code"]) == (400, "context_length_exceeded")
    assert "about" in body["error"]["message"]
    assert place.model.chats == []
    failed = [record for record in caplog.records if record.message == "turn failed"]
    assert [record.exc_info for record in failed] == [None], "refusals fill the log"


async def test_a_cancelled_run_says_so() -> None:
    async with chatting({"text": "Once", "delay_s": HANG_S}) as place:
        message = Message(role="user", content="Tell me a story")
        assert place.app.chat is not None
        run = place.app.chat.start(TurnRequest(caller=Caller.local(), messages=(message,)))
        _, running = await place.get(f"/v1/runs/{run.run_id}")
        await place.post(f"/v1/runs/{run.run_id}/cancel", {})
        _, cancelled = await place.get(f"/v1/runs/{run.run_id}")

    assert (running["status"], cancelled["status"]) == ("running", "cancelled")


async def test_cancelling_a_run_that_has_ended_says_how_it_ended() -> None:
    async with chatting({"text": "Once"}) as place:
        message = Message(role="user", content="Tell me a story")
        assert place.app.chat is not None
        run = place.app.chat.start(TurnRequest(caller=Caller.local(), messages=(message,)))
        await run.ended_event.wait()
        _, cancelled = await place.post(f"/v1/runs/{run.run_id}/cancel", {})

    assert cancelled == {"id": run.run_id, "status": "completed"}


async def test_a_key_of_one_character_does_not_mask_words() -> None:
    refused = {"status": 400, "error": "the knob is not known"}
    async with chatting(refused) as place:  # its key is "k"
        _, body = await place.post(
            "/v1/chat/completions",
            {"model": "main", "messages": [{"role": "user", "content": "Hello"}]},
        )

    assert "the knob is not known" in body["error"]["message"]


@pytest.mark.parametrize("engine", ["plain", "langgraph"])
async def test_an_answer_that_a_client_has_begun_is_continued(engine: str) -> None:
    """Chat clients send it when somebody presses "continue"."""
    async with chatting({"text": " a time."}, chat={"engine": engine}) as place:
        messages = [
            {"role": "user", "content": "Tell me a story"},
            {"role": "assistant", "content": "Once upon"},
        ]
        _, answer = await place.post("/v1/chat/completions", {"messages": messages})

        assert answer["choices"][0]["message"]["content"] == " a time."
        assert roles(place.model.last)[1:] == ["user", "assistant"]


async def test_results_of_calls_that_nobody_made_are_not_sent_to_the_model() -> None:
    result = {"role": "tool", "tool_call_id": "call_1", "content": "42"}
    async with chatting(fallback={"text": "Fine."}) as place:
        status, body = await place.post(
            "/v1/chat/completions", {"model": "main", "messages": [result]}
        )
        asked = len(place.model.chats)

    assert status == 400
    assert "no message of the user" in body["error"]["message"]
    assert asked == 0


def test_a_turn_without_a_library_says_how_to_install_it() -> None:
    """`toolgate chat` named the library and not the command, and there is no log to look at."""
    error = MissingExtraError("llm 'openai' needs the library 'openai'.", hint="Run: pip install x")
    assert friendly(error).endswith("needs the library 'openai'. Run: pip install x")
