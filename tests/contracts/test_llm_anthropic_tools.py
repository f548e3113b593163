"""Tools that a thread gets later, in requests to Anthropic's API.

The shape of the requests is that of the API's documentation: `defer_loading` on tools,
`tool_reference` in results; not all tools may be deferred, and a deferred one has no mark for the
cache. https://docs.claude.com/en/docs/agents-and-tools/tool-use/tool-search-tool
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.chat.chat_gateway import chatting
from tests.contracts.model_services import Service, model_of, service_of
from toolgate.models.llm import ChatRequest, Message, complete
from toolgate.settings import ModelTable, Settings
from toolgate.testing import FakeUpstream, text_result
from toolgate.testing.contracts.llm import ScriptedReply
from toolgate.types import Json

pytestmark = pytest.mark.xdist_group("anthropic")

SEARCHES = {"tool_search": True}
LONG = "word " * 1000
"""A conversation that the service caches."""


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with service_of("anthropic", "") as service:
        yield service


def tool(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "description": name, "parameters": {}}}


async def sent(service: Service, request: ChatRequest, **options: Any) -> Json:
    """The body that the service gets."""
    service.script(ScriptedReply(text="Yes."))
    model = model_of("anthropic", service.url, **options)
    await complete(model, request)
    await model.aclose()
    return service.requests[-1]


def later(text: str = LONG, loads: tuple[str, ...] = ("b",)) -> ChatRequest:
    """A second question, with which a tool comes."""
    return ChatRequest(
        messages=(
            Message(role="user", content=text),
            Message(role="assistant", content="Yes."),
            Message(role="user", content="And now?", loads=loads),
        ),
        tools=(tool("a"), tool("b")),
    )


async def test_a_later_tool_leaves_the_start_of_the_request_as_it_was(service: Service) -> None:
    first = await sent(
        service,
        ChatRequest(messages=(Message(role="user", content=LONG),), tools=(tool("a"),)),
        **SEARCHES,
    )
    second = await sent(service, later(), **SEARCHES)
    assert second["tools"][:1] == first["tools"]
    assert second["tools"][1]["name"] == "b"
    assert second["tools"][1]["defer_loading"] is True
    assert "cache_control" not in second["tools"][1]
    assert _plain(second["messages"])[:1] == _plain(first["messages"])
    assert _plain(second["messages"])[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Yes."},
                {"type": "tool_use", "id": "load_tools_0", "name": "load_tools", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "load_tools_0",
                    "content": [{"type": "tool_reference", "tool_name": "b"}],
                },
                {"type": "text", "text": "And now?"},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("request_", "options"),
    [
        (later(text="Hello"), SEARCHES),  # too short for the cache
        (later(), {}),  # off by default
        (later(), {**SEARCHES, "thinking_tokens": 2000}),
        (later(), {**SEARCHES, "cache": False}),
        (later(loads=("a", "b")), SEARCHES),  # all of them
        (later(loads=("gone",)), SEARCHES),
    ],
    ids=["short", "off", "thinking", "no cache", "all", "gone"],
)
async def test_tools_are_sent_as_usual_where_loading_does_not_work_or_does_not_pay(
    service: Service, request_: ChatRequest, options: Json
) -> None:
    body = await sent(service, request_, **options)
    assert [tool["name"] for tool in body["tools"]] == ["a", "b"]
    assert not any("defer_loading" in tool for tool in body["tools"])
    assert "tool_reference" not in str(body["messages"])


async def test_a_thread_repeats_the_whole_last_request_though_each_turn_adds_a_tool(
    service: Service,
) -> None:
    """What precedes the new question comes from the cache: tools, system message, conversation."""
    subjects = {
        "forecast": "Forecasts the weather of a city.",
        "send": "Sends an e-mail to a person.",
        "list_pods": "Lists the pods of a Kubernetes cluster.",
    }
    upstream = FakeUpstream(
        {name: lambda _: text_result("done") for name in subjects},
        definitions={name: {"description": text} for name, text in subjects.items()},
    )
    questions = (
        f"Forecast the weather of the city Rome. {LONG}",
        "Send an e-mail to the person Bob.",
        "List the pods of the Kubernetes cluster.",
    )
    table = ModelTable(
        provider="anthropic", model="m", url=service.url, key="k", retries=0, options=SEARCHES
    )
    async with chatting(
        servers={"desk": upstream},
        settings=Settings(optimization="bm25"),  # a search that does not depend on time
        models={"claude": table},
    ) as place:
        for question in questions:
            service.script(ScriptedReply(text="Done."))
            await place.say(question, thread="t", model="claude")
    first, second, third = service.requests
    for body, earlier, name in ((second, first, "send"), (third, second, "list_pods")):
        added = [tool["name"] for tool in body["tools"] if tool not in earlier["tools"]]
        assert added == [f"desk__{name}"], [tool["name"] for tool in earlier["tools"]]
        assert _undeferred(body) == _undeferred(first)
        assert body["system"] == first["system"]
        before = _plain(earlier["messages"])
        assert _plain(body["messages"])[: len(before)] == before
        [result] = [
            block for block in body["messages"][-1]["content"] if block["type"] == "tool_result"
        ]
        assert result["content"] == [{"type": "tool_reference", "tool_name": f"desk__{name}"}]


def _undeferred(body: Json) -> list[Json]:
    """The tools that belong to the start of a request."""
    return [tool for tool in body["tools"] if "defer_loading" not in tool]


def _plain(messages: list[Json]) -> list[Json]:
    """Messages without marks for the cache, which move with the end of the conversation."""
    return [
        {
            "role": message["role"],
            "content": [
                {name: value for name, value in block.items() if name != "cache_control"}
                for block in message["content"]
            ],
        }
        for message in messages
    ]
