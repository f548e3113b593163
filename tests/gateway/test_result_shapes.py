"""Parts of results: `select` and `format` of `tool_execute`, and `select` of `result_read`."""

from dataclasses import replace
from typing import Any

import anyio
import pytest

from tests.acceptance.test_routing import call
from tests.chat.chat_gateway import chatting
from tests.limits import HANG_S
from tests.server.test_openapi import rest
from toolgate.settings import ResultSettings, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json

ME = Caller.local()
META = Settings(mode="meta")
ISSUES = [
    {"number": 1, "title": "a, b", "labels": ["x"]},
    {"number": 2, "title": "c|d", "labels": []},
]
STRUCTURED: Json = {"content": [], "structuredContent": {"issues": ISSUES, "total": 2}}
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "total": {"type": "integer"},
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer"},
                    "labels": {"type": "array"},
                    "full title": {"type": ["string", "null"]},
                },
            },
        },
    },
}
REFERRING: Json = {
    "type": "object",
    "properties": {"issues": {"type": "array", "items": {"$ref": "#/$defs/Issue"}}},
    "$defs": {"Issue": {"type": "object", "properties": {"number": {"type": "integer"}}}},
}
"""As the Python SDK makes one from a type."""


async def meta(app: Any, tool: str, **arguments: Any) -> Json:
    with anyio.fail_after(HANG_S):
        return await app.gateway.call(ME, {"name": tool, "arguments": arguments}, None)


def text(result: Json) -> str:
    return "\n".join(block["text"] for block in result["content"])


async def shaped(result: Json, **shape: Any) -> str:
    async with memory_app({"a": FakeUpstream({"t": lambda params: result})}, META) as app:
        return text(await meta(app, "tool_execute", toolKey="a:t", **shape))


@pytest.mark.parametrize(
    ("shape", "answer"),
    [
        ({"select": ".issues[].number"}, "[1,2]"),
        ({"select": ".issues | length"}, "2"),
        ({"select": ".issues[0] | {number} # a comment"}, '{"number":1}'),
        (
            {"select": ".issues", "format": "csv"},
            'number,title,labels\n1,"a, b","[""x""]"\n2,c|d,[]\n',
        ),
        (
            {"select": ".issues[] | {number, title}", "format": "table"},
            "| number | title |\n| --- | --- |\n| 1 | a, b |\n| 2 | c\\|d |",
        ),
        ({"select": ".issues[].title", "format": "text"}, "a, b\nc|d"),
        ({"select": "{}", "format": "csv"}, "value\n{}\n"),
        ({"select": "[[]]", "format": "table"}, "| value |\n| --- |\n| [] |"),
        ({"select": "[1e1000, -1e1000]"}, "[1.7976931348623157e+308,-1.7976931348623157e+308]"),
        ({"select": ".total", "format": "csv"}, None),
        ({"format": "json"}, None),
    ],
)
async def test_a_part_of_a_result_is_given_in_the_format_that_was_asked_for(
    shape: Json, answer: str | None
) -> None:
    given = await shaped(STRUCTURED, **shape)

    if answer is not None:
        assert given == answer
    elif shape["format"] == "json":
        assert given.startswith('{"issues":[{"number":1')
    else:
        assert "a single value has no rows" in given


async def test_rest_gives_a_part_of_a_result_in_a_format() -> None:
    upstream = FakeUpstream({"t": lambda params: STRUCTURED})
    async with memory_app({"a": upstream}) as app, rest(app) as ask:
        body = {"toolKey": "a:t", "select": ".issues[] | {number}", "format": "table"}
        status, _, answer = await ask("POST", "execute", body)
        table = "| number |\n| --- |\n| 1 |\n| 2 |"
        assert (status, answer["content"]) == (200, [{"type": "text", "text": table}])
        status, _, refused = await ask("POST", "execute", {"toolKey": "a:t", "select": ".["})
        assert (status, refused["error"]["code"]) == (400, "argument")
        assert len(upstream.calls("t")) == 1


async def test_a_model_of_a_chat_gets_the_part_that_it_asks_for() -> None:
    step = {"tool_calls": [call("tool_execute", toolKey="a:t", select=".total", format="text")]}
    upstream = FakeUpstream({"t": lambda params: STRUCTURED})
    async with chatting(step, {"text": "Two."}, servers={"a": upstream}) as place:
        await place.say("How many issues are there?")
        (answer,) = [m for m in place.model.last["messages"] if m["role"] == "tool"]
        assert answer["content"] == "2"


async def test_json_in_texts_is_filtered_like_structured_content() -> None:
    blocks = [{"type": "text", "text": '{"n": 1}'}, {"type": "text", "text": '{"n": 2}'}]

    assert await shaped({"content": blocks}, select="map(.n)") == "[1,2]"
    assert await shaped(text_result("a\nb"), select='split("\n")') == '["a","b"]'


async def test_what_is_not_text_stays_beside_the_part() -> None:
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    upstream = FakeUpstream({"t": lambda params: {**STRUCTURED, "content": [image]}})
    async with memory_app({"a": upstream}, META) as app:
        result = await meta(app, "tool_execute", toolKey="a:t", select=".total")

    assert result["content"] == [{"type": "text", "text": "2"}, image]
    assert "structuredContent" not in result


@pytest.mark.parametrize(
    "select", [".[", 'import "/etc/hostname" as $d; $d', 'include "a"; .', "nothing_like_it"]
)
async def test_what_is_no_jq_is_refused_before_the_tool_runs(select: str) -> None:
    calls: list[Json] = []
    upstream = FakeUpstream({"t": lambda params: calls.append(params) or STRUCTURED})
    async with memory_app({"a": upstream}, META) as app:
        result = await meta(app, "tool_execute", toolKey="a:t", select=select)

    assert result["isError"] is True
    assert "'select' is not a valid jq filter" in text(result)
    if "c" not in select:
        assert "line 1, column" in text(result)
    assert calls == []


async def test_a_filter_that_does_not_fit_names_the_keys_and_keeps_the_result() -> None:
    """The tool may have written something: a second run for the filter's sake would write twice."""
    calls: list[Json] = []
    upstream = FakeUpstream({"t": lambda params: calls.append(params) or STRUCTURED})
    async with memory_app({"a": upstream}, META) as app:
        result = await meta(app, "tool_execute", toolKey="a:t", select=".total.x")
        assert result["isError"] is True
        assert "keys: issues (list of 2), total" in text(result)
        handle = text(result).partition('{"handle":"')[2].partition('"')[0]
        again = await meta(app, "result_read", handle=handle, select=".total")
        wrong = await meta(app, "result_read", handle=handle, select=".total.x")

    assert text(again) == "2"
    assert "keys: issues (list of 2), total" in text(wrong)
    assert len(calls) == 1


async def test_without_paging_a_filter_that_does_not_fit_gives_the_whole_result() -> None:
    settings = replace(META, results=ResultSettings(paging=False))
    upstream = FakeUpstream({"t": lambda params: STRUCTURED})
    async with memory_app({"a": upstream}, settings) as app:
        result = await meta(app, "tool_execute", toolKey="a:t", select=".total.x")

    assert "could not be filtered" in text(result)
    assert result["structuredContent"] == STRUCTURED["structuredContent"]


async def test_a_key_that_is_not_there_is_answered_with_those_that_are() -> None:
    assert "keys: issues (list of 2), total" in await shaped(STRUCTURED, select=".items")


@pytest.mark.parametrize("select", ["[range(1e9)]", "range(1e9)", "def f: [f]; f"])
async def test_a_hostile_filter_ends_while_the_gateway_answers_others(select: str) -> None:
    async with memory_app({"a": FakeUpstream({"t": lambda params: STRUCTURED})}, META) as app:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: meta(app, "tool_execute", toolKey="a:t", select=select))
            for _ in range(20):
                with anyio.fail_after(1):
                    await meta(app, "tool_execute", toolKey="a:t")
        assert text(await meta(app, "tool_execute", toolKey="a:t", select=".total")) == "2"


async def test_a_filter_that_waits_for_slow_ones_is_not_called_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two run at a time: the third and fourth follow, and the fifth gets no turn."""
    monkeypatch.setattr("toolgate.gateway.results.jq_filter._TIMEOUT_S", 1.0)
    said: list[str] = []

    async def filtered() -> None:
        said.append(text(await meta(app, "tool_execute", toolKey="a:t", select="def f: [f]; f")))

    servers = {"a": FakeUpstream({"t": lambda params: STRUCTURED})}
    async with memory_app(servers, META) as app, anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(filtered)

    assert any("it takes longer than 1 seconds" in one for one in said), said
    assert any("too many other filters are running, try again later" in one for one in said), said


async def test_a_filter_sees_no_variables_of_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_TEST_SECRET", "s3cret")

    assert await shaped(STRUCTURED, select="[env, $ENV]") == "[{},{}]"


async def test_errors_of_tools_are_not_filtered() -> None:
    assert await shaped(text_result("broken", isError=True), select=".a") == "broken"


@pytest.mark.parametrize(
    ("schema", "select"),
    [
        (SCHEMA, r".issues[] | {number, \"full title\"}"),
        (None, ".issues[] | {number, title}"),
        (REFERRING, ".issues[] | {number, title}"),
    ],
)
async def test_a_result_that_was_cut_suggests_a_part_of_it(
    schema: Json | None, select: str
) -> None:
    definition: Json = {} if schema is None else {"outputSchema": schema}
    large = {"issues": ISSUES * 500, "total": 1000}
    upstream = FakeUpstream(
        {"t": lambda params: {"content": [], "structuredContent": large}},
        definitions={"t": definition},
    )
    settings = replace(META, results=ResultSettings(page_tokens=1000))
    async with memory_app({"a": upstream}, settings) as app:
        page = await meta(app, "tool_execute", toolKey="a:t")
        assert f'"select": "{select}"' in text(page)
        handle = page["_meta"]["toolgate/page"]["handle"]
        part = await meta(app, "result_read", handle=handle, select=".issues[0] | {number, title}")

    assert text(part) == '{"number":1,"title":"a, b"}'
