"""`tool_read`, and lists of calls: only what is read-only, at the same time, told call by call."""

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from tests.server.test_openapi import rest
from toolgate.settings import GuardTable, PermissionTable, ProjectTable, ResultSettings, Settings
from toolgate.store import AuditFilter
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Identity, Json

ME = Caller.local()
META = Settings(mode="meta")
READS = {"annotations": {"readOnlyHint": True}}


def shop(**tools: Any) -> FakeUpstream:
    """Its tools read, but for `buy`."""
    everything: dict[str, Any] = {
        "price": lambda params: text_result(f"price of {params['arguments'].get('of')}"),
        "stock": lambda params: text_result("12"),
        "fails": lambda params: text_result("out of order", isError=True),
        "buy": lambda params: text_result("bought"),
        **tools,
    }
    return FakeUpstream(
        everything, definitions={name: READS for name in everything if name != "buy"}
    )


async def meta(app: Any, tool: str, **arguments: Any) -> Json:
    with anyio.fail_after(HANG_S):
        return await app.gateway.call(ME, {"name": tool, "arguments": arguments}, None)


def text(result: Json) -> str:
    return "\n".join(block["text"] for block in result["content"])


def sent(upstream: FakeUpstream) -> list[str]:
    return [params["name"] for method, params in upstream.requests if method == "tools/call"]


async def names(app: Any) -> list[str]:
    return [tool["name"] for tool in json.loads(await app.gateway.listing.list_tools(ME))]


async def test_tool_read_is_listed_as_read_only_while_there_are_read_only_tools() -> None:
    async with memory_app({"a": shop()}, META) as app:
        listed = json.loads(await app.gateway.listing.list_tools(ME))
        (definition,) = [tool for tool in listed if tool["name"] == "tool_read"]
        assert definition["annotations"]["readOnlyHint"] is True
        assert "or tool_read if they are read-only" in app.gateway.listing.instructions(ME)
        found = text(await meta(app, "tool_discovery", query="price"))
        assert "or tool_read if read-only." in found
    async with memory_app({"a": FakeUpstream()}, META) as app:
        assert "tool_read" not in await names(app)
        assert "tool_read" not in text(await meta(app, "tool_discovery", query="echo"))
        assert "tool_read" not in app.gateway.listing.instructions(ME)
    without = replace(META, meta_tools=("tool_discovery", "tool_execute"))
    async with memory_app({"a": shop()}, without) as app:
        assert await names(app) == ["tool_discovery", "tool_execute"]


async def test_tool_read_runs_read_only_tools_and_no_others() -> None:
    upstream = shop()
    async with memory_app({"a": upstream}, META) as app:
        assert text(await meta(app, "tool_read", toolKey="a:stock")) == "12"
        by_name = await meta(app, "tool_read", toolKey="a__stock", select=".", format="text")
        assert text(by_name) == "12"
        refused = await meta(app, "tool_read", toolKey="a:buy")
        assert refused["isError"] is True
        assert "tool_read does not run a:buy" in text(refused)
        await app.recorder.flush()
        record, *_ = await app.store.audit.select(AuditFilter())
        assert (record.action, record.target, record.status) == ("call", "a:buy", "argument")
    assert sent(upstream) == ["stock", "stock"]


@pytest.mark.parametrize("call", [{"toolKey": "a:stock"}, {"calls": [{"toolKey": "a:stock"}]}])
async def test_a_server_that_is_not_trusted_has_no_read_only_tools(call: Json) -> None:
    upstream = shop()
    async with memory_app({"a": upstream}, META, trust=False) as app:
        assert (await meta(app, "tool_read", **call))["isError"] is True
    assert sent(upstream) == []


async def test_what_counts_as_read_only_in_a_project_does_so_here() -> None:
    settings = replace(META, project={"team": ProjectTable(read_only_allow=("a:b*",))})
    async with memory_app({"a": shop()}, settings) as app:
        member = Caller.local(project_id="team")
        params = {"name": "tool_read", "arguments": {"toolKey": "a:buy"}}
        assert text(await app.gateway.call(member, params, None)) == "bought"
        assert (await app.gateway.call(ME, params, None))["isError"] is True


@pytest.mark.parametrize("tool", ["tool_execute", "tool_read"])
async def test_calls_of_a_list_run_at_the_same_time_and_are_answered_in_their_order(
    tool: str,
) -> None:
    """Each of the first two waits for the other one."""
    came = {"first": anyio.Event(), "second": anyio.Event()}

    async def meet(params: Json) -> Json:
        mine, other = params["arguments"]["names"]
        came[mine].set()
        await came[other].wait()
        return text_result(mine)

    async with memory_app({"a": shop(meet=meet)}, META) as app:
        calls = [
            {"toolKey": "a:meet", "arguments": {"names": ["first", "second"]}},
            {"toolKey": "a:meet", "arguments": {"names": ["second", "first"]}},
            {"toolKey": "a:price", "arguments": {"of": "tea"}, "select": "length"},
        ]
        result = await meta(app, tool, calls=calls)
        assert text(result) == "[1] a:meet\nfirst\n[2] a:meet\nsecond\n[3] a:price\n12"
        assert "isError" not in result
        await app.recorder.flush()
        outcomes = await app.store.audit.select(AuditFilter(action="call", phase="outcome"))
        assert len(outcomes) == 3


async def test_calls_that_fail_are_told_one_by_one() -> None:
    schema = {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]}
    upstream = shop()
    upstream.definitions["price"] = {**READS, "inputSchema": schema}
    async with memory_app({"a": upstream}, META) as app:
        calls = [
            {"toolKey": "a:fails"},
            {"toolKey": "a:nothing"},
            {"toolKey": "a:price", "arguments": {"off": "tea"}},
            {"toolKey": "a:price", "arguments": {"of": "tea"}},
        ]
        result = await meta(app, "tool_execute", calls=calls)
        told = text(result)
        assert "isError" not in result
        assert "[1] a:fails failed\nout of order" in told
        assert "[2] a:nothing failed\nThere is no tool 'a:nothing'" in told
        assert "[3] a:price failed" in told
        assert told.endswith("[4] a:price\nprice of tea")
        assert (await meta(app, "tool_execute", calls=calls[:2]))["isError"] is True
    assert sent(upstream) == ["fails", "price", "fails"]


async def test_a_list_with_a_tool_that_writes_runs_nothing() -> None:
    upstream = shop()
    async with memory_app({"a": upstream}, META) as app:
        calls = [{"toolKey": "a:stock"}, {"toolKey": "a:buy"}]
        result = await meta(app, "tool_execute", calls=calls)
        assert result["isError"] is True
        assert "'calls' has a:buy, which may change something." in text(result)
        assert "Nothing was run." in text(result)
    assert sent(upstream) == []


async def test_a_tool_that_a_caller_may_not_see_is_unknown_in_a_list_too() -> None:
    settings = replace(
        META, auth="required", permission=(PermissionTable(to=("token:ann",), allow=("a:stock",)),)
    )
    async with memory_app({"a": shop()}, settings) as app:
        ann = Caller(
            caller_id="ann",
            identity=Identity(caller_id="ann", kind="token", token="ann"),
        )
        calls = [{"toolKey": "a:stock"}, {"toolKey": "a:buy"}, {"toolKey": "a:none"}]
        params = {"name": "tool_read", "arguments": {"calls": calls}}
        told = text(await app.gateway.call(ann, params, None))
        assert "[1] a:stock\n12" in told
        assert "[2] a:buy failed\nThere is no tool 'a:buy'" in told
        assert "[3] a:none failed\nThere is no tool 'a:none'" in told


async def test_a_call_that_needs_a_person_fails_alone() -> None:
    settings = replace(
        META, guard=(GuardTable(tools=("a:price",), approver="user", reason="Costs."),)
    )

    def asks(params: Json) -> Json:
        question = {"method": "elicitation/create", "params": {"message": "Which?"}}
        return {"resultType": "input_required", "inputRequests": {"which": question}}

    async with memory_app({"a": shop(asks=asks)}, settings) as app:
        calls = [{"toolKey": "a:price"}, {"toolKey": "a:asks"}, {"toolKey": "a:stock"}]
        result = await meta(app, "tool_execute", calls=calls)
        told = text(result)
        assert "[1] a:price failed" in told
        assert "[2] a:asks failed" in told
        assert "in a list nobody is asked" in told
        assert told.endswith("[3] a:stock\n12")
        assert len(await app.gateway.approvals.search(ME, state="waiting")) == 1


async def test_the_results_of_a_list_share_one_page() -> None:
    whole = "word " * 4_000
    settings = replace(META, results=ResultSettings(page_tokens=1_000))
    upstream = shop(long=lambda params: text_result(whole))
    async with memory_app({"a": upstream}, settings) as app:
        result = await meta(app, "tool_execute", calls=[{"toolKey": "a:long"}] * 4)
        pages = [block["text"] for block in result["content"] if block["text"].startswith("word")]
        assert [len(page) <= 1_000 for page in pages] == [True] * 4
        assert text(result).count("read on with result_read") == 4
        handle = text(result).split('"handle": "')[1].split('"')[0]
        rest = await meta(app, "result_read", handle=handle, offset=len(pages[0]))
        assert rest["content"][0]["text"].startswith("word")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"calls": "a:stock"}, "'calls' does not fit"),
        ({"calls": ["a:stock"]}, "'calls' does not fit"),
        ({"calls": [{"toolKey": "a:stock"}] * 21}, "0 to 20 of them"),
        ({"calls": [{"arguments": {}}]}, "'calls[0].toolKey' does not fit"),
        ({"calls": [{"toolKey": "a:stock", "args": {}}]}, "no argument 'calls[0].args'"),
        ({"calls": [{"toolKey": "a:stock"}], "toolKey": "a:stock"}, "'toolKey' does not fit"),
        ({"calls": []}, "'toolKey' does not fit"),
    ],
)
async def test_a_list_that_does_not_fit_is_told_what_is_wrong(arguments: Json, part: str) -> None:
    async with memory_app({"a": shop()}, META) as app:
        result = await meta(app, "tool_read", **arguments)
        assert result["isError"] is True
        assert part in text(result)


async def test_programs_get_the_results_of_a_list_as_data() -> None:
    async with memory_app({"a": shop()}, META) as app:
        calls = [{"toolKey": "a:stock"}, {"toolKey": "a:fails"}]
        async with rest(app) as ask:
            _, _, answer = await ask("POST", "execute", {"calls": calls})
            refused, _, _ = await ask("POST", "execute", {"calls": [{"toolKey": "a:buy"}]})
        stock, fails = answer["structuredContent"]["results"]
        assert stock == {"toolKey": "a:stock", **text_result("12")}
        assert fails["isError"] is True
        assert refused == 400
        params = {
            "name": "tool_read",
            "arguments": {"calls": calls},
            "_meta": {"toolgate/structured": True},
        }
        assert (await app.gateway.call(ME, params, None))["structuredContent"] == {
            "results": [stock, fails]
        }


@pytest.mark.parametrize(
    ("config", "kind", "trusted"),
    [({}, "token", False), ({"trust": True}, "token", True), ({}, "local", True)],
)
async def test_a_server_that_somebody_else_adds_is_trusted_only_if_that_is_said(
    config: Json, kind: str, trusted: bool
) -> None:
    """Decision: annotations of servers that others add count for nothing until somebody says so."""
    identity = Identity(caller_id="root", kind=kind, roles=("admin",))
    other = Caller(caller_id="root", identity=identity)
    async with memory_app({}, META) as app:
        added = {"url": "http://127.0.0.1:9/mcp", **config}
        await app.gateway.manage.servers.add(other, "far", added)
        assert app.gateway.manage.servers.spec(ME, "far").trust is trusted
        (row,) = await app.store.servers.select(None)
        assert row.config.get("trust", True) is trusted
