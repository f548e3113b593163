"""Which tools a model is offered in a turn."""

from collections import defaultdict

import pytest

from benchmarks._data import REAL_TOOLS, read_rows
from tests.chat.chat_gateway import chatting, contents, offered
from tests.limits import EMBEDDING_S
from toolgate.chat.turns import offered_tools
from toolgate.settings import SearchSettings, Settings
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Json

PATIENT = SearchSettings(
    options={"hybrid": {"embed_timeout_s": EMBEDDING_S, "embedding_wait_s": EMBEDDING_S}}
)
SERVERS = frozenset(
    (
        "filesystem",
        "github",
        "slack",
        "git",
        "time",
        "memory",
        "playwright",
        "kubernetes",
        "sqlite",
        "arxiv",
        "notion",
    )
)
SEVERAL_STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Read the file notes.txt and post what it says to the team channel in Slack",
        ("filesystem__read_text_file", "slack__slack_post_message"),
    ),
    (
        "Create a new branch called fix-login, then commit my changes and show me the history",
        ("git__git_create_branch", "git__git_commit", "git__git_log"),
    ),
    (
        "Open a ticket on GitHub about the crash and add a comment with the stack trace",
        ("github__create_issue", "github__add_issue_comment"),
    ),
    (
        "What time is it in Tokyo, and what is 3 pm in Berlin over there?",
        ("time__get_current_time", "time__convert_time"),
    ),
    (
        "Find papers about protein folding and download the best one",
        ("arxiv__semantic_search", "arxiv__download_paper"),
    ),
    (
        "List the pods in the staging cluster and fetch the logs of the one that crashed",
        ("kubernetes__kubectl_get", "kubernetes__kubectl_logs"),
    ),
    (
        "Go to example.com in the browser, take a screenshot and close it",
        (
            "playwright__browser_navigate",
            "playwright__browser_take_screenshot",
            "playwright__browser_close",
        ),
    ),
    (
        "Make a folder named reports and move last week's file into it",
        ("filesystem__create_directory", "filesystem__move_file"),
    ),
    (
        "Show me which tables the database has, describe the orders table and add a row to it",
        ("sqlite__list_tables", "sqlite__describe_table", "sqlite__write_query"),
    ),
    (
        "Remember that Anna works at Acme, and look up what you know about Bob",
        ("memory__add_observations", "memory__search_nodes"),
    ),
)
"""Messages that need 23 tools. The tools were known when they were written."""
OFFERED = 20
"""Of them, at least (21 in November 2026; 17 before messages were searched part by part)."""


LISTED = 130
"""Tools in the requests, at most (125 in November 2026; 140 with those of hardly any relevance)."""


def real_servers() -> dict[str, object]:
    definitions: dict[str, dict[str, Json]] = defaultdict(dict)
    for row in read_rows(REAL_TOOLS):
        if row["server"] in SERVERS:
            server = str(row.pop("server"))
            definitions[server][str(row["name"])] = row
    return {
        server: FakeUpstream(dict.fromkeys(tools, lambda _: text_result("done")), definitions=tools)
        for server, tools in definitions.items()
    }


async def test_a_message_with_several_steps_is_offered_the_tools_of_all() -> None:
    async with chatting(
        fallback={"text": "Done."}, servers=real_servers(), settings=Settings(search=PATIENT)
    ) as place:
        n_offered = n_listed = 0
        for message, tools in SEVERAL_STEPS:
            await place.say(message)
            names = offered(place.model.last)
            assert len(names) <= 14
            n_listed += len(names)
            n_offered += len(set(names) & set(tools))
    assert n_offered >= OFFERED
    assert n_listed <= LISTED


def clock(**more: object) -> dict[str, object]:
    tools = ("now", "sleep", "alarm", "zone")
    return {"clock": FakeUpstream(dict.fromkeys(tools, lambda _: text_result("noon")), **more)}  # pyright: ignore[reportArgumentType]


async def test_pinned_tools_are_offered_whatever_is_asked_and_however_few_fit() -> None:
    pinned = ("clock:sleep", "clock:zone", "clock:missing")
    async with chatting(
        fallback={"text": "Hello."},
        servers=clock(),
        settings=Settings(pinned=pinned),
        chat={"max_tools": 1, "thread_tools": 1},
    ) as place:
        for message in ("Hello", "What does the clock say now?"):
            await place.say(message, thread="t")
            assert {"clock__sleep", "clock__zone"} <= set(offered(place.model.last))
    async with chatting(
        fallback={"text": "Hello."},
        servers=clock(),
        settings=Settings(pinned=pinned, optimization="off", mode="all"),
    ) as place:
        await place.say("Hello")
        assert {"clock__sleep", "clock__zone"} <= set(offered(place.model.last))


async def test_an_empty_filter_leaves_the_tools_of_the_client_alone() -> None:
    theirs = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object"}}}
    async with chatting(
        fallback={"text": "Noon."}, servers=clock(), settings=Settings(pinned=("clock:now",))
    ) as place:
        await place.say("What time is it on the clock now?", toolgate={"tools_enabled": []})
        assert "tools" not in place.model.last
        await place.say(
            "What time is it on the clock now?", toolgate={"tools_enabled": []}, tools=[theirs]
        )
        assert offered(place.model.last) == ["mine"]


@pytest.mark.parametrize(
    ("least", "with_meta", "message", "is_added"),
    [
        (0.05, True, "Show the commit log of the main branch", True),
        (1.1, True, "Show the commit log of the main branch", False),
        # Nothing else leads to the tools.
        (1.1, False, "Show the commit log of the main branch", True),
        # A part of a message is too short to say for sure what it needs.
        (1.1, True, "Show the commit log of the main branch and create a branch named fix", True),
    ],
)
async def test_a_thread_gets_new_tools_only_if_one_is_relevant_enough(
    monkeypatch: pytest.MonkeyPatch, least: float, with_meta: bool, message: str, is_added: bool
) -> None:
    monkeypatch.setattr(offered_tools, "_WORTH_ADDING", least)
    async with chatting(
        fallback={"text": "Done."},
        servers=real_servers(),
        settings=Settings(search=PATIENT),
        chat={"meta_tools": with_meta},
    ) as place:
        await place.say("What time is it in Tokyo?", thread="t")
        first = offered(place.model.last)
        await place.say(message, thread="t")
        second = offered(place.model.last)
        question = contents(place.model.last, "user")[-1]

    assert "time__get_current_time" in first
    assert second[: len(first)] == first
    assert (len(second) > len(first) or question != message) == is_added


def desk() -> dict[str, object]:
    subjects = {
        "forecast": "Forecasts the weather of a city.",
        "send": "Sends an e-mail to a person.",
        "list_pods": "Lists the pods of a Kubernetes cluster.",
    }
    return {
        "desk": FakeUpstream(
            {name: lambda _, name=name: text_result(f"{name}: done") for name in subjects},
            definitions={name: {"description": text} for name, text in subjects.items()},
        )
    }


BY_WORDS = Settings(optimization="bm25")
"""A search that does not depend on time."""
LONG = f"Forecast the weather of the city Rome. {'word ' * 1000}"


async def test_a_long_thread_repeats_its_whole_last_request_though_turns_add_tools() -> None:
    """Services read tools before messages: a new tool in front would make them read all again."""
    call = {"toolKey": "desk__send", "arguments": {}}
    async with chatting(
        {"text": "Sunny."},
        {"tool_calls": [{"name": "tool_execute", "arguments": call}]},
        {"text": "Sent."},
        {"text": "Three."},
        servers=desk(),
        settings=BY_WORDS,
    ) as place:
        await place.say(LONG, thread="t")
        await place.say("Send an e-mail to the person Bob.", thread="t")
        await place.say("List the pods of the Kubernetes cluster.", thread="t")
        bodies = place.model.chats

    assert contents(bodies[2], "tool") == ["send: done"]
    for earlier, later, new in zip(bodies, bodies[1:], ("send", "", "list_pods"), strict=False):
        assert later["tools"] == earlier["tools"]
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
        added = str(later["messages"][len(earlier["messages"]) :])
        assert f'"name":"desk__{new}"' in added or not new
    assert contents(bodies[-1], "user")[-1].startswith("List the pods of the Kubernetes cluster.")


@pytest.mark.parametrize(
    ("first", "settings", "more"),
    [
        ("Forecast the weather of the city Rome.", {}, {}),  # too short for the cache
        (LONG, {"meta_tools": False}, {}),  # nothing else calls the tool
        (LONG, {}, {"tool_choice": {"type": "function", "function": {"name": "desk__send"}}}),
    ],
    ids=["short", "alone", "demanded"],
)
async def test_new_tools_are_listed_where_that_costs_nothing_or_is_the_only_way(
    first: str, settings: Json, more: Json
) -> None:
    async with chatting(
        fallback={"text": "Done."}, servers=desk(), settings=BY_WORDS, chat=settings
    ) as place:
        await place.say(first, thread="t")
        await place.say("Send an e-mail to the person Bob.", thread="t", **more)

        assert "desk__send" in offered(place.model.last)
        assert contents(place.model.last, "user")[-1] == "Send an e-mail to the person Bob."
