"""Rows PR, TF, TN, VS-13, VS-16 and MT-10: prompts, tools that are shown, threads of callers."""

import json
from pathlib import Path

import anyio
import pytest

from tests.chat.chat_gateway import (
    LOOK_UP,
    WITH_DOCUMENTS,
    add_guide,
    chatting,
    contents,
    grading,
    offered,
)
from tests.limits import HANG_S
from toolgate.chat import TurnRequest
from toolgate.errors import ArgumentError, UnknownPromptError
from toolgate.models.llm import Message
from toolgate.prompts import Prompts, fill
from toolgate.settings import ConnectionTable, PackSettings, Settings
from toolgate.store import make_store
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Identity, Json

SIX = {
    "basic-default": "assistant",
    "tools-default": "assistant",
    "context-default": "assistant",
    "vs-table-selection": "user",
    "vs-grade": "assistant",
    "vs-rephrase": "assistant",
}


async def opened(tmp_path: Path) -> Prompts:
    store = make_store(f"sqlite:///{tmp_path / 'prompts.db'}")
    await store.open()
    return Prompts(store.prompts)


async def test_pr_1_the_six_defaults_and_the_later_ones_are_there_with_their_roles(
    tmp_path: Path,
) -> None:
    prompts = await opened(tmp_path)
    found = {prompt.name: prompt.role for prompt in await prompts.all("default")}

    assert SIX.items() <= found.items()
    assert {"vs_tools-default", "nl2sql_tools-default", "classifier", "summary"} <= set(found)
    assert all(prompt.title and prompt.text for prompt in await prompts.all("default"))


async def test_pr_2_they_are_replaced_and_cleared_and_keep_name_and_title(tmp_path: Path) -> None:
    prompts = await opened(tmp_path)
    before = await prompts.get("default", "toolgate_basic-default")
    await prompts.replace("default", "basic-default", "Be brief.", by="me")
    replaced = await prompts.get("default", "basic-default")
    await prompts.replace("default", "summary", "Sum up: {conversation}")

    assert (replaced.text, replaced.title, replaced.role) == (
        "Be brief.",
        before.title,
        "assistant",
    )
    assert replaced.changed_by == "me"
    assert await prompts.clear("default", "basic-default")
    assert (await prompts.get("default", "basic-default")).text == before.text
    assert await prompts.clear_all("default") == ["summary"]
    assert [one.text for one in await prompts.versions("default", "basic-default")] == [
        "Be brief.",
        None,
    ]
    with pytest.raises(UnknownPromptError):
        await prompts.get("default", "no-such")


async def test_pr_2_prompts_of_servers_are_replaced_under_their_name() -> None:
    greet: Json = {"name": "greet", "title": "Greet", "arguments": [{"name": "who"}]}
    server = FakeUpstream(tools={}, prompts=(greet,))
    async with chatting(servers={"pack": server}) as place:
        wording, gateway = place.app.gateway.prompts, place.app.gateway
        await wording.replace(Caller.local(), "pack__greet", "Good day, {who}.")
        names = [prompt["name"] for prompt in await wording.prompts(Caller.local())]
        listed = json.loads(await gateway.listing.list_prompts(Caller.local()))
        shown = await gateway.prompts.replaced(Caller.local(), "pack__greet", {"who": "Ann"}, {})

        assert "pack__greet" in names
        assert next(p for p in listed if p["name"] == "pack__greet")["title"] == "Greet"
        assert shown["messages"][0]["content"]["text"] == "Good day, Ann."


async def test_pr_2_mcp_clients_replace_prompts_with_the_tools_of_a_pack() -> None:
    settings = Settings(packs=PackSettings(enable=("prompts",)))
    async with memory_app({}, settings) as app:
        gateway, name = app.gateway, {"name": "basic-default"}
        instructions = {"instructions": "Be brief."}
        tried = await gateway.calls.execute(
            Caller.local(), "prompts:prompt_test", {**name, **instructions}
        )
        await gateway.calls.execute(Caller.local(), "prompts:prompt_set", {**name, **instructions})
        shown = await gateway.calls.execute(Caller.local(), "prompts:prompt_get", name)
        cleared = await gateway.calls.execute(Caller.local(), "prompts:prompt_clear_all", {})
        empty = {**name, "instructions": ""}
        refused = await gateway.calls.execute(Caller.local(), "prompts:prompt_set", empty)

        assert tried["structuredContent"]["text"] == "Be brief."
        assert shown["structuredContent"]["text"] == "Be brief."
        assert cleared["structuredContent"]["cleared"] == ["basic-default"]
        assert refused["isError"]


async def test_pr_3_needed_fields_are_checked_and_other_braces_are_text(tmp_path: Path) -> None:
    prompts = await opened(tmp_path)
    with pytest.raises(ArgumentError, match="question"):
        await prompts.replace("default", "vs-grade", "Only {documents}")
    await prompts.replace("default", "vs-grade", 'JSON {"a": 1} {x}: {question} {documents}')
    text = await prompts.render(
        "default", "vs-grade", {"question": "{documents}", "documents": "D"}
    )

    assert text == 'JSON {"a": 1} {x}: {documents} D'
    assert fill("{a} {b}", {"a": "{b}"}) == "{b} {b}"


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_pr_4_an_empty_text_is_an_error(tmp_path: Path, text: str) -> None:
    prompts = await opened(tmp_path)
    with pytest.raises(ArgumentError, match="empty"):
        await prompts.replace("default", "basic-default", text)


async def test_pr_5_what_a_project_puts_in_place_is_its_own_and_stays(tmp_path: Path) -> None:
    store = make_store(f"sqlite:///{tmp_path / 'prompts.db'}")
    await store.open()
    await store.projects.add_references(["team"])
    await Prompts(store.prompts).replace("team", "basic-default", "For the team.")
    later = Prompts(store.prompts)

    assert (await later.get("team", "basic-default")).text == "For the team."
    assert (await later.get("default", "basic-default")).is_default


DOCUMENT_TOOLS = {"documents__retriever", "documents__storage"}
SQL_TOOLS = {
    f"sql__{name}"
    for name in (
        "query",
        "explain",
        "table_info",
        "list_tables",
        "connection_list",
        "connection_test",
        "session_info",
        "activity_log",
    )
}


@pytest.mark.parametrize(
    ("enabled", "shown"),
    [
        (["Vector Search", "NL2SQL"], DOCUMENT_TOOLS | SQL_TOOLS),
        (["Vector Search"], DOCUMENT_TOOLS),
        (["NL2SQL"], SQL_TOOLS),
        ([], set[str]()),
    ],
    ids=["both", "documents", "database", "none"],
)
async def test_tf_1_each_setting_shows_exactly_its_tools(
    enabled: list[str], shown: set[str]
) -> None:
    settings = Settings(
        packs=PackSettings(enable=("documents", "sql"), disable=("schema",)),
        connections={"shop": ConnectionTable(url="sqlite://")},
    )
    async with chatting(
        fallback={"text": "Yes."}, settings=settings, chat={"meta_tools": False}
    ) as place:
        await place.say("Count the orders", toolgate={"tools_enabled": enabled})

        assert set(offered(place.model.last)) == shown
        if not enabled:
            assert "tools" not in place.model.last
            prompt = await place.app.prompts.get("default", "basic-default")
            assert contents(place.model.last, "system") == [prompt.text]


def who(name: str, project: str = "default") -> Caller:
    identity = Identity(caller_id=f"token:{name}", kind="local")
    return Caller(caller_id=f"token:{name}", project_id=project, identity=identity)


async def test_tn_1_threads_and_settings_belong_to_their_caller() -> None:
    async with chatting(fallback={"text": "Yes."}) as place:
        chat = place.app.chat
        assert chat is not None
        for name in ("ann", "bob"):
            message = Message(role="user", content=f"I am {name}")
            run = chat.start(TurnRequest(caller=who(name), messages=(message,), thread="same"))
            with anyio.fail_after(HANG_S):
                await run.ended_event.wait()
        await chat.threads.change_settings(who("ann"), "same", {"history": False})

        anns = await chat.threads.history(who("ann"), "same")
        assert anns is not None
        assert [m["content"] for m in anns["messages"]] == ["I am ann", "Yes."]
        assert (await chat.threads.choices(who("bob"), "same")).history is True
        assert chat.runs.find(who("ann"), run.run_id) is None
        assert await chat.threads.history(who("eve"), "same") is None
        assert contents(place.model.last, "user") == ["I am bob"]


async def test_tn_2_no_schema_that_a_model_sees_has_the_thread() -> None:
    schema = {"type": "object", "properties": {"thread_id": {"type": "string"}}}
    server = FakeUpstream(
        tools={"remember": lambda _: text_result("kept")},
        definitions={"remember": {"name": "remember", "inputSchema": schema}},
    )
    async with chatting(
        fallback={"text": "Yes."}, servers={"notes": server}, settings=WITH_DOCUMENTS
    ) as place:
        await place.say("Remember my notes", thread="t")

        assert "notes__remember" in offered(place.model.last)
        assert "thread_id" not in json.dumps(place.model.last["tools"])


async def test_tn_3_two_turns_of_a_thread_run_one_after_the_other_and_none_is_lost() -> None:
    """Trap T11."""
    async with chatting(fallback={"text": "Yes.", "delay_s": 0.1}) as place:
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(_say, place, f"Number {number}")
        messages = (await place.history("t"))["messages"]

        assert sorted(m["content"] for m in messages if m["role"] == "user") == [
            f"Number {number}" for number in range(4)
        ]
        assert [m["role"] for m in messages] == ["user", "assistant"] * 4


async def _say(place: object, text: str) -> None:
    await place.say(text, thread="t")  # type: ignore[attr-defined]


async def test_vs_13_internal_calls_have_a_result_with_raw_documents_and_their_mark() -> None:
    async with chatting(
        grading("no"), LOOK_UP, {"text": "Hello."}, settings=WITH_DOCUMENTS
    ) as place:
        await add_guide(place)
        await place.say("Hello, what is a vector index?", thread="t")
        messages = (await place.history("t"))["messages"]

        call = messages[1]["tool_calls"][0]
        result = messages[2]
        assert result["tool_call_id"] == call["id"]
        assert result["name"] == call["function"]["name"] == "documents__retriever"
        assert result["additional_kwargs"]["internal_vs"] is True
        raw = json.loads(result["content"])
        assert raw["documents"]
        assert raw["context_input"] == "Hello, what is a vector index?"


async def test_vs_16_without_a_thread_documents_are_looked_up_too() -> None:
    async with chatting(
        grading("yes"), LOOK_UP, {"text": "With a function."}, settings=WITH_DOCUMENTS
    ) as place:
        await add_guide(place)
        assert await place.text("How is vector index accuracy found?") == "With a function."
        assert "INDEX_ACCURACY_QUERY" in contents(place.model.last, "tool")[0]


@pytest.mark.parametrize(("mode", "looks"), [("forced", True), ("classifier", True)])
async def test_vs_1_documents_are_looked_up_without_being_asked_where_that_is_set(
    mode: str, looks: bool
) -> None:
    async with chatting(
        grading("yes"), fallback={"text": "With a function."}, settings=WITH_DOCUMENTS
    ) as place:
        await add_guide(place)
        body = await place.say(
            "According to our docs, how is index accuracy found?",
            toolgate={"retrieval": mode, "events": True},
        )

        metadata = body["toolgate"]["response_metadata"]
        assert ("vs_metadata" in metadata) is looks
        assert "INDEX_ACCURACY_QUERY" in contents(place.model.last, "tool")[0]


async def test_vs_7_that_there_are_no_documents_reaches_the_user() -> None:
    """Trap T6."""
    async with chatting(
        LOOK_UP, {"text": "There is nothing to look in."}, settings=WITH_DOCUMENTS
    ) as place:
        await place.say("What do the guides say?")

        assert "No vector stores available" in contents(place.model.last, "tool")[0]


async def test_vs_11_documents_are_kept_when_grading_fails() -> None:
    """Trap T7."""
    failing = {"when": {"user": "Do the documents below help"}, "reply": {"status": 500}}
    async with chatting(
        failing, LOOK_UP, {"text": "With a function."}, settings=WITH_DOCUMENTS
    ) as place:
        await add_guide(place)
        await place.say("How is vector index accuracy found?")

        assert "INDEX_ACCURACY_QUERY" in contents(place.model.last, "tool")[0]


async def test_mt_10_what_was_searched_is_told() -> None:
    async with chatting(
        {"when": {"user": "Which of them may hold"}, "reply": {"text": '["GUIDES", "MORE"]'}},
        grading("yes"),
        LOOK_UP,
        {"text": "With a function."},
        settings=WITH_DOCUMENTS,
    ) as place:
        await add_guide(place)
        await add_guide(place, "# More\n\nAbout index accuracy.", name="MORE")
        body = await place.say("How is vector index accuracy found?", toolgate={"events": True})

        told = body["toolgate"]["response_metadata"]["vs_metadata"]
        assert told["searched_tables"] == ["GUIDES", "MORE"]
        assert told["failed_tables"] == []
        parts = body["toolgate"]["response_metadata"]["token_usage"]["parts"]
        assert [part["purpose"] for part in parts] == ["answer", "select", "grade", "answer"]


async def test_vs_6_a_rephrased_question_is_one_line() -> None:
    rephrased = {
        "when": {"user": "Write the question alone"},
        "reply": {"text": "How is the accuracy of a vector index found?"},
    }
    async with chatting(
        rephrased,
        grading("yes"),
        {"text": "About indexes."},
        LOOK_UP,
        {"text": "With a function."},
        settings=WITH_DOCUMENTS,
    ) as place:
        await add_guide(place)
        await place.say("What is a vector index?", thread="t")
        body = await place.say(
            "And how is its accuracy found?", thread="t", toolgate={"events": True}
        )

        told = body["toolgate"]["response_metadata"]["vs_metadata"]
        assert told["context_input"] == "How is the accuracy of a vector index found?"
