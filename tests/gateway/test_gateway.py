"""The verbs of the gateway: what is shown, found, described, run and paged."""

import asyncio
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import anyio
import jsonschema_rs
import orjson
import pytest

from tests.limits import HANG_S
from toolgate.audit import compare_searches
from toolgate.base.token_estimate import estimate_tokens
from toolgate.errors import HandleError, UnknownServerError, UnknownToolError
from toolgate.gateway import visible_catalog
from toolgate.gateway.listing import Change
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.settings import DiscoverySettings, ProjectTable, ResultSettings, Settings
from toolgate.store import AuditFilter
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json

HAS_SANDBOX = find_spec("pydantic_monty") is not None
ME = Caller.local()
META = Settings(mode="meta")


def echo(params: Json) -> Json:
    return text_result("hi")


def many(count: int) -> FakeUpstream:
    return FakeUpstream(
        {f"tool_{n}": echo for n in range(count)},
        definitions={
            f"tool_{n}": {"description": "A tool with a description. " * 10} for n in range(count)
        },
    )


async def names(app: Any) -> list[str]:
    return [tool["name"] for tool in orjson.loads(await app.gateway.listing.list_tools(ME))]


async def meta(app: Any, tool: str, **arguments: Any) -> Json:
    return await app.gateway.call(ME, {"name": tool, "arguments": arguments}, None)


def text(result: Json) -> str:
    return "\n".join(block["text"] for block in result["content"])


# What is listed


async def test_a_small_menu_is_listed_as_it_is_and_a_large_one_as_meta_tools() -> None:
    async with memory_app({"a": many(3)}) as app:
        assert await names(app) == ["a__tool_0", "a__tool_1", "a__tool_2"]
    async with memory_app({"a": many(100)}) as app:
        meta_tools = ["tool_discovery", "tool_describe", "tool_execute"]
        assert await names(app) == [*meta_tools, *(["tool_program"] if HAS_SANDBOX else [])]


async def test_tools_can_be_called_by_name_whether_listed_or_not() -> None:
    async with memory_app({"a": many(100)}) as app:
        result = await app.gateway.call(ME, {"name": "a__tool_7", "arguments": {}}, None)
        assert result == text_result("hi")


async def test_the_two_meta_tools_of_the_source_design_can_be_the_only_ones() -> None:
    """Source document 004: `listTools` returns only the fixed two tools."""
    two = Settings(mode="meta", meta_tools=("tool_discovery", "tool_execute"))
    async with memory_app({"a": many(2)}, two) as app:
        assert await names(app) == ["tool_discovery", "tool_execute"]


async def test_a_project_whose_search_was_turned_off_lists_its_tools() -> None:
    """Its mode may be in the store, where a new configuration file cannot refuse it."""
    project = {"default": ProjectTable(mode="meta", optimization="off")}
    async with memory_app({"a": many(2)}, Settings(project=project)) as app:
        assert await names(app) == ["a__tool_0", "a__tool_1"]


async def test_pinned_tools_are_listed_beside_the_meta_tools() -> None:
    async with memory_app({"a": many(5)}, replace(META, pinned=("a:tool_3",))) as app:
        assert (await names(app))[-1] == "a__tool_3"
        assert len(await names(app)) == 4


async def test_prompts_and_resources_are_listed_alike_in_every_mode() -> None:
    upstream = FakeUpstream(
        prompts=({"name": "p"},), resources=({"uri": "x://1", "name": "r"},), templates=()
    )
    seen = set()
    for mode in ("all", "meta", "auto"):
        async with memory_app({"a": upstream}, Settings(mode=mode)) as app:
            gateway = app.gateway
            seen.add(
                (
                    await gateway.listing.list_prompts(ME),
                    await gateway.listing.list_resources(ME),
                    await gateway.listing.list_templates(ME),
                )
            )
    assert len(seen) == 1


async def test_while_a_server_was_never_listed_the_meta_tools_are_shown() -> None:
    """The size of the menu is not known yet, and a list that changes costs the prompt cache."""
    hanging = FakeUpstream()
    hanging.silent = {"server/discover", "initialize"}
    async with memory_app({"a": many(1), "slow": hanging}, wait_s=0) as app:
        with anyio.fail_after(HANG_S):
            while not app.gateway.servers.statuses(ME)[0].tools:
                await anyio.sleep(0.01)
        assert (await names(app))[0] == "tool_discovery"


async def test_when_the_last_unknown_server_fails_the_menu_is_decided_and_told() -> None:
    failing = FakeUpstream()
    failing.silent = {"server/discover", "initialize"}
    async with memory_app({"a": many(1), "slow": failing}, wait_s=0) as app:
        heard: list[Change] = []
        app.gateway.changes.on_change(heard.append)
        with anyio.fail_after(HANG_S):
            while not (app.gateway.servers.statuses(ME)[0].tools and failing.wires):
                await anyio.sleep(0.01)
            failing.refuses = True
            heard.clear()
            failing.crash()
            while await names(app) != ["a__tool_0"]:
                await anyio.sleep(0.01)
        assert Change(kind="tools") in heard


async def test_a_menu_near_the_limit_does_not_flip_back_and_forth() -> None:
    upstream = many(10)
    async with memory_app({"a": upstream}) as app:
        tokens = estimate_tokens(await app.gateway.listing.list_tools(ME))
    tight = Settings(discovery=DiscoverySettings(auto_tokens=tokens - 20))
    async with memory_app({"a": upstream}, tight) as app:
        assert len(await names(app)) == 3
        del upstream.tools["tool_9"]
        await upstream.announce()
        with anyio.fail_after(HANG_S):
            while app.gateway.servers.statuses(ME)[0].tools != 9:
                await anyio.sleep(0.01)
        assert len(await names(app)) == 3, "a little below the limit is not enough"
        for number in range(3, 9):
            del upstream.tools[f"tool_{number}"]
        await upstream.announce()
        with anyio.fail_after(HANG_S):
            while await names(app) != ["a__tool_0", "a__tool_1", "a__tool_2"]:
                await anyio.sleep(0.01)


async def test_flat_serves_one_server_under_its_own_names_without_meta_tools() -> None:
    async with memory_app({"a": FakeUpstream()}, Settings(tool_names="flat")) as app:
        assert await names(app) == ["echo"]
        with pytest.raises(UnknownToolError):
            await meta(app, "tool_discovery", query="echo")


async def test_a_listing_is_answered_from_prepared_bytes() -> None:
    async with memory_app({"a": many(50)}, Settings(mode="all")) as app:
        assert await app.gateway.listing.list_tools(ME) is await app.gateway.listing.list_tools(ME)


# Finding


async def test_a_tool_is_found_and_run_by_what_it_does() -> None:
    upstream = FakeUpstream(
        {"create_issue": echo, "list_files": echo},
        definitions={
            "create_issue": {"description": "Open a new issue in a repository."},
            "list_files": {"description": "List the files of a folder."},
        },
    )
    async with memory_app({"hub": upstream}, META) as app:
        found = await meta(app, "tool_discovery", query="list files in a folder")
        assert text(found).splitlines()[0].startswith("hub:list_files(")
        key = text(found).split("(")[0]
        assert await meta(app, "tool_execute", toolKey=key, arguments={}) == text_result("hi")


async def test_a_discovery_is_answered_as_text_and_as_its_output_schema_says() -> None:
    async with memory_app({"a": many(3)}, META) as app:
        call: Json = {"name": "tool_discovery", "arguments": {"query": "tool"}}
        listed = orjson.loads(await app.gateway.listing.list_tools(ME))
        schema = next(t["outputSchema"] for t in listed if t["name"] == "tool_discovery")
        plain = await app.gateway.call(ME, call, None)
        structured = plain["structuredContent"]
        jsonschema_rs.validate(schema, structured)
        assert structured["results"][0].keys() == {
            "toolKey",
            "signature",
            "description",
            "relevance",
        }
        for result in structured["results"]:
            assert result["toolKey"] in plain["content"][0]["text"]

        asked = call | {"_meta": {"toolgate/structured": True}}
        result = await app.gateway.call(ME, asked, None)
        assert result["content"] == []
        assert {"toolKey", "toolName", "serverName", "relevance"} <= set(
            result["structuredContent"]["results"][0]
        )


async def test_discovery_can_be_limited_to_servers_and_says_which_there_are() -> None:
    async with memory_app({"a": many(3), "b": many(3)}, META) as app:
        one = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("tool",), servers=("b",))
        )
        assert {found.server_name for found in one.results} == {"b"}
        for several in ("b", ["a", "b"]):
            assert not (await meta(app, "tool_discovery", query="tool", server=several)).get(
                "isError"
            )
        with pytest.raises(UnknownServerError, match="Servers: a, b"):
            await app.gateway.discovery.discover(
                ME, DiscoverRequest(queries=("tool",), servers=("c",))
            )


async def test_servers_that_are_down_share_one_line() -> None:
    down = [many(3), many(2)]
    async with memory_app({"a": many(3), "b": down[0], "c": down[1]}, META) as app:
        for server in down:
            server.refuses = True
            server.crash()
        with anyio.fail_after(HANG_S):
            while [status.state for status in app.gateway.servers.statuses(ME)[1:]] != ["down"] * 2:
                await anyio.sleep(0.01)
        answer = await app.gateway.discovery.discover(ME, DiscoverRequest(queries=("tool",)))

    assert [notice for notice in answer.notices if "down" in notice] == [
        "2 servers are down; 5 tools hidden: b, c."
    ]


async def test_the_search_tool_names_the_servers_that_its_caller_may_use() -> None:
    files = FakeUpstream({"read_report": echo, "list_reports": echo})
    async with memory_app({"files": files, "other": many(1)}, META) as app:

        async def description() -> str:
            listed = orjson.loads(await app.gateway.listing.list_tools(ME))
            return next(t["description"] for t in listed if t["name"] == "tool_discovery")

        before = await description()
        assert before.endswith("Servers: files (reports), other.")
        files.refuses = True
        files.crash()
        with anyio.fail_after(HANG_S):
            while app.gateway.servers.statuses(ME)[0].state != "down":
                await anyio.sleep(0.01)
        assert await description() == before  # or clients would lose their cached prompt


async def test_tools_of_a_server_that_is_down_are_withheld_with_a_notice() -> None:
    down = many(3)
    async with memory_app({"a": many(3), "b": down}, META) as app:
        down.refuses = True
        down.crash()
        with anyio.fail_after(HANG_S):
            while app.gateway.servers.statuses(ME)[1].state != "down":
                await anyio.sleep(0.01)
        found = await app.gateway.discovery.discover(ME, DiscoverRequest(queries=("tool",)))
        assert {one.server_name for one in found.results} == {"a"}
        assert any("b is down" in notice for notice in found.notices)
        assert "b is down" in found.text

        app.current_settings.replace(replace(META, discovery=DiscoverySettings(show_down=True)))
        found = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("tool",), max_results=6)
        )
        assert [one.server_name for one in found.results][-1] == "b"
        assert "SERVER DOWN" in found.text


async def test_disabled_servers_are_never_found() -> None:
    async with memory_app({"a": many(3), "b": many(3)}, META, enabled=False) as app:
        found = await app.gateway.discovery.discover(ME, DiscoverRequest(queries=("tool",)))
        assert found.results == ()
        result = await meta(app, "tool_execute", toolKey="b:tool_1")
        assert "disabled" in text(result)
        assert result["_meta"]["toolgate/error"]["retryable"] is False


async def test_no_answer_is_ever_over_the_budget() -> None:
    async with memory_app({"a": many(300)}, META) as app:
        for phrases in (["tool"], ["tool"] * 20, ["x" * 100_000], ["", "!!!", "🚀"]):
            found = await meta(app, "tool_discovery", query=phrases, maxResults=50)
            assert estimate_tokens(text(found)) <= 1000


# Describing and running


async def test_describe_gives_whole_schemas() -> None:
    schema: Json = {"type": "object", "properties": {"x": {"type": "integer"}}, "$defs": {"y": {}}}
    upstream = FakeUpstream({"t": echo}, definitions={"t": {"inputSchema": schema}})
    async with memory_app({"a": upstream}, META) as app:
        (tool,) = (await app.gateway.discovery.describe(ME, ["a:t"])).tools
        assert tool["inputSchema"] == schema
        assert tool["toolKey"] == "a:t"


async def test_describe_keeps_its_budget_and_says_what_it_left_out() -> None:
    settings = replace(META, discovery=DiscoverySettings(describe_budget_tokens=600))
    async with memory_app({"a": many(30)}, settings) as app:
        shown = await app.gateway.discovery.describe(ME, [f"a:tool_{n}" for n in range(30)])
        assert estimate_tokens(shown.text) <= 600
        assert "Left out for the budget" in shown.text


async def test_arguments_that_do_not_fit_are_answered_with_what_does() -> None:
    schema: Json = {
        "type": "object",
        "properties": {"repo": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["repo"],
    }
    upstream = FakeUpstream({"t": echo}, definitions={"t": {"inputSchema": schema}})
    async with memory_app({"a": upstream}, META) as app:
        result = await meta(app, "tool_execute", toolKey="a:t", arguments={"count": "many"})
        assert result["isError"]
        assert "'repo'" in text(result)
        assert "count" in text(result)
        assert "t(repo, count?: int)" in text(result)
        assert upstream.calls("t") == [], "nothing was sent"
        direct = await app.gateway.call(ME, {"name": "a__t", "arguments": {"count": "many"}}, None)
        assert not direct.get("isError"), "direct calls pass unchanged"


async def test_an_unknown_key_suggests_the_nearest_three() -> None:
    async with memory_app({"a": many(20)}, META) as app:
        result = await meta(app, "tool_execute", toolKey="a:tol_1")
        assert result["isError"]
        assert "a:tool_1" in text(result)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({}, "'toolKey' does not fit"),
        ({"toolKey": 5}, "'toolKey' does not fit"),
        ({"toolKey": "a:tool_1", "arguments": "x"}, "'arguments' does not fit"),
        ({"toolKey": "a:tool_1", "args": {}}, "no argument 'args'"),
        ({"toolKey": "a:tool_1", "arguments": [1]}, "'arguments' does not fit"),
    ],
)
async def test_wrong_arguments_of_a_meta_tool_are_named(arguments: Json, part: str) -> None:
    async with memory_app({"a": many(3)}, META) as app:
        result = await meta(app, "tool_execute", **arguments)
        assert result["isError"]
        assert part in text(result)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "tool", "maxResults": None, "server": None, "context": None},
        {"query": ["tool", "other"], "maxResults": 3, "threshold": 0.1},
    ],
)
async def test_null_counts_as_absent(arguments: Json) -> None:
    """crewai sends every absent optional argument as null."""
    async with memory_app({"a": many(3)}, META) as app:
        assert "a:tool_" in text(await meta(app, "tool_discovery", **arguments))


async def test_the_nesting_that_semantic_kernel_sends_is_unwrapped() -> None:
    upstream = FakeUpstream()
    async with memory_app({"a": upstream}, META) as app:
        inner = {"toolKey": "a:echo", "arguments": {"text": "x"}}
        result = await meta(app, "tool_execute", toolKey="a:echo", arguments=inner)
        assert result == text_result("x")


async def test_a_large_result_comes_in_pages_that_join_to_the_whole() -> None:
    whole = "".join(f"line {n} äöü🚀\n" for n in range(3000))
    upstream = FakeUpstream({"big": lambda params: text_result(whole, _meta={"k": 1})})
    settings = replace(META, results=ResultSettings(page_tokens=2000))
    async with memory_app({"a": upstream}, settings) as app:
        heard: list[Change] = []
        app.gateway.changes.on_change(heard.append)
        page = await meta(app, "tool_execute", toolKey="a:big")
        assert page["_meta"]["k"] == 1
        assert "result_read" in await names(app)
        assert Change(kind="tools") in heard
        place = page["_meta"]["toolgate/page"]
        pages = [page["content"][0]["text"]]
        while place.get("nextOffset") is not None:
            arguments = {"handle": place["handle"], "offset": place["nextOffset"]}
            tool = "result_read" if len(pages) % 2 else "tool_execute"
            if tool == "tool_execute":
                arguments = {"toolKey": "toolgate:result_read", "arguments": arguments}
            page = await meta(app, tool, **arguments)
            place = page["_meta"]["toolgate/page"]
            pages.append(page["content"][0]["text"])
        assert "".join(pages) == whole
        direct = await app.gateway.call(ME, {"name": "a__big"}, None)
        assert text(direct) == whole, "calls by exposed name are never paged"


async def test_a_stored_result_belongs_to_its_caller() -> None:
    upstream = FakeUpstream({"big": lambda params: text_result("x" * 50_000)})
    settings = replace(META, results=ResultSettings(page_tokens=1000))
    async with memory_app({"a": upstream}, settings) as app:
        page = await meta(app, "tool_execute", toolKey="a:big")
        handle = page["_meta"]["toolgate/page"]["handle"]
        await app.gateway.results.read(ME, handle, 0)
        with pytest.raises(HandleError):
            await app.gateway.results.read(Caller.local(caller_id="other"), handle, 0)
        with pytest.raises(HandleError):
            await app.gateway.results.read(ME, handle[:-3] + "xyz", 0)


async def test_paging_can_be_switched_off() -> None:
    upstream = FakeUpstream({"big": lambda params: text_result("x" * 50_000)})
    settings = replace(META, results=ResultSettings(page_tokens=1000, paging=False))
    async with memory_app({"a": upstream}, settings) as app:
        assert len(text(await meta(app, "tool_execute", toolKey="a:big"))) == 50_000


# Receipts


async def test_a_call_leaves_receipts_that_point_to_the_discovery_that_showed_its_tool() -> None:
    caller = Caller.local(conversation="c1", client="test")
    async with memory_app({"a": FakeUpstream()}, META) as app:
        await app.gateway.discovery.discover(caller, DiscoverRequest(queries=("echo",)))
        await app.gateway.calls.execute(caller, "a:echo", {"text": "secret value"})
        await app.recorder.flush()
        outcome, intent, discovery = await app.store.audit.select(AuditFilter())
        assert (discovery.action, discovery.query) == ("discover", "echo")
        assert (intent.action, intent.phase, intent.parent_id) == (
            "call",
            "intent",
            discovery.record_id,
        )
        assert (outcome.phase, outcome.status, outcome.parent_id) == (
            "outcome",
            "ok",
            intent.record_id,
        )
        assert "secret value" not in repr([outcome, intent, discovery])
        assert intent.request_bytes == len(b'{"text":"secret value"}')


async def test_calls_point_to_the_last_discovery_that_showed_their_tool() -> None:
    """As of a model that first searches for all that it needs, and calls then."""
    caller = Caller.local(conversation="c1", client="test")
    async with memory_app({"a": FakeUpstream(), "b": FakeUpstream()}, META) as app:
        for server in ("a", "a", "b"):
            request = DiscoverRequest(queries=("echo",), servers=(server,))
            await app.gateway.discovery.discover(caller, request)
        for conversation, key in (("c1", "a:echo"), ("c1", "b:echo"), ("c2", "a:echo")):
            asking = replace(caller, conversation=conversation)
            await app.gateway.calls.execute(asking, key, {"text": "x"})
        await app.recorder.flush()
        of_b, last_of_a, _ = await app.store.audit.select(AuditFilter(action="discover"))
        calls = await app.store.audit.select(AuditFilter(action="call", phase="intent"))
        compared = await compare_searches(app.store)
    assert [call.parent_id for call in reversed(calls)] == [
        last_of_a.record_id,
        of_b.record_id,
        None,
    ]
    assert [report.executed for report in compared] == [2]


async def test_failures_are_recorded_with_their_reason() -> None:
    upstream = FakeUpstream({"bad": lambda params: text_result("no", isError=True)})
    async with memory_app({"a": upstream}, META) as app:
        await meta(app, "tool_execute", toolKey="a:bad")
        upstream.refuses = True
        upstream.crash()
        with anyio.fail_after(HANG_S):
            while app.gateway.servers.statuses(ME)[0].state != "down":
                await anyio.sleep(0.01)
        await meta(app, "tool_execute", toolKey="a:bad")
        await app.recorder.flush()
        records = await app.store.audit.select(AuditFilter(action="call"))
        assert [r.status for r in records if r.phase == "outcome"] == ["server_down", "tool_error"]


async def test_what_is_refused_leaves_a_record_too() -> None:
    schema: Json = {"type": "object", "required": ["x"]}
    upstream = FakeUpstream({"t": echo}, definitions={"t": {"inputSchema": schema}})
    async with memory_app({"a": upstream}, META) as app:
        await meta(app, "tool_execute", toolKey="a:t", arguments={})
        await meta(app, "tool_execute", toolKey="a:nothing")
        await meta(app, "tool_execute")
        await meta(app, "tool_describe", toolKeys=["a:nothing"])
        await meta(app, "tool_discovery", query="x", server="nobody")
        await meta(app, "tool_discovery", quer="x")
        with pytest.raises(UnknownToolError):
            await app.gateway.call(ME, {"name": "nothing"}, None)
        await app.recorder.flush()
        records = await app.store.audit.select(AuditFilter())
    assert [(r.action, r.status, r.target) for r in reversed(records)] == [
        ("call", "argument", "a:t"),
        ("call", "unknown_tool", "a:nothing"),
        ("call", "argument", ""),
        ("describe", "unknown_tool", "a:nothing"),
        ("discover", "unknown_server", "nobody"),
        ("discover", "argument", ""),
        ("call", "unknown_tool", "nothing"),
    ]


async def test_one_unknown_key_does_not_lose_the_schemas_of_the_others() -> None:
    async with memory_app({"a": many(3)}, META) as app:
        shown = await meta(app, "tool_describe", toolKeys=["a:tool_1", "a:nothing"])
        assert "inputSchema" in text(shown)
        assert "There is no tool 'a:nothing'" in text(shown)


async def test_a_server_that_was_never_listed_and_is_down_says_so_when_called() -> None:
    down = FakeUpstream()
    down.refuses = True
    async with memory_app({"a": many(3), "b": down}, META) as app:
        result = await meta(app, "tool_execute", toolKey="b:anything")
        assert result["_meta"]["toolgate/error"]["code"] == "server_down"
        assert "refused" in text(result)


@pytest.mark.parametrize("way", ["exposed name", "tool_execute", "execute"])
async def test_a_call_waits_for_a_server_that_is_starting(way: str) -> None:
    starting = many(2)
    starting.silent = {"server/discover", "initialize"}
    async with memory_app({"slow": starting}, META, wait_s=0) as app:
        arguments: Json = {"toolKey": "slow:tool_1", "arguments": {}}

        async def call() -> Json:
            if way == "exposed name":
                return await app.gateway.call(ME, {"name": "slow__tool_1", "arguments": {}}, None)
            if way == "tool_execute":
                return await meta(app, "tool_execute", **arguments)
            return await app.gateway.calls.execute(ME, "slow:tool_1", {})

        with anyio.fail_after(HANG_S):
            waiting = asyncio.create_task(call())
            while not starting.requests:
                await anyio.sleep(0.01)
            assert not waiting.done()
            starting.silent = set()
            await app.gateway.manage.servers.restart(ME, "slow")
            result = await waiting
        assert not result.get("isError"), text(result)


async def test_a_call_before_its_server_was_listed_may_be_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that knows the names from before calls as soon as it is connected."""
    monkeypatch.setattr(visible_catalog, "_FIRST_LISTING_S", 0.05)
    hanging = FakeUpstream()
    hanging.silent = {"server/discover", "initialize"}
    async with memory_app({"a": many(1), "slow": hanging}, wait_s=0) as app:
        result = await app.gateway.call(ME, {"name": "slow__x", "arguments": {}}, None)
        assert "'slow' is still starting" in text(result)
        error = result["_meta"]["toolgate/error"]
        assert (error["code"], error["retryable"]) == ("server_down", True)
        with pytest.raises(UnknownToolError):
            await app.gateway.call(ME, {"name": "other__x", "arguments": {}}, None)


async def test_nearest_keys_are_first_those_of_the_server_that_was_named() -> None:
    time = FakeUpstream({"convert_time": echo, "get_current_time": echo})
    other = FakeUpstream({"convert": echo, "time_convert": echo})
    async with memory_app({"other": other, "time": time}, META) as app:
        result = await meta(app, "tool_execute", toolKey="time:convert")
        assert "Nearest: time:convert_time" in text(result)


async def test_a_misspelt_argument_names_the_right_one() -> None:
    async with memory_app({"a": many(3)}, META) as app:
        assert "Did you mean 'query'?" in text(await meta(app, "tool_discovery", quer="x"))
        assert "'handle' does not fit" in text(await meta(app, "result_read", handle=None))
