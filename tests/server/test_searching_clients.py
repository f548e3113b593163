"""What is listed for clients that search tools themselves, by how they name themselves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from tests.limits import HANG_S
from tests.server.http_gateway import INITIALIZE, modern, post
from tests.serving import serving
from toolgate.gateway.listing import Change, searching_clients
from toolgate.settings import PermissionTable, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Identity, Json

CLAUDE = {"name": "claude-code", "version": "2.1.212"}
CURSOR = {"name": "cursor-vscode", "version": "1.0.0"}
LONG = "Lists the orders of a customer. " * 40
"""So long that ten tools are more than `auto` lists for every client."""


def shop(tools: int) -> FakeUpstream:
    return FakeUpstream(
        {f"list_orders_{n}": lambda _: text_result("none") for n in range(tools)},
        definitions={f"list_orders_{n}": {"description": f"{n}. {LONG}"} for n in range(tools)},
    )


@asynccontextmanager
async def served(
    upstream: FakeUpstream, settings: Settings | None = None
) -> AsyncIterator[tuple[str, Any]]:
    async with (
        memory_app({"shop": upstream}, settings or Settings()) as app,
        serving(app, key="k" * 43) as url,
    ):
        yield url, app


async def listed(url: str, era: str, client: Json) -> tuple[list[Json], str]:
    """The tools that a client is shown, and the instructions."""
    if era == "modern":
        told = await post(url, modern("server/discover", clientInfo=client))
        answer = await post(url, modern("tools/list", clientInfo=client))
        return answer.result["tools"], told.result["instructions"]
    params = {**INITIALIZE["params"], "clientInfo": client}
    hello = await post(url, {**INITIALIZE, "params": params}, headers={"X-Test": "1"})
    headers = {
        "Mcp-Session-Id": hello.headers["Mcp-Session-Id"],
        "MCP-Protocol-Version": "2025-11-25",
    }
    await post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    answer = await post(url, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers)
    return answer.result["tools"], hello.result["instructions"]


def names(tools: list[Json]) -> list[str]:
    return [str(tool["name"]) for tool in tools]


@pytest.mark.parametrize("client", [CLAUDE, CURSOR], ids=["Claude Code", "Cursor"])
@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_a_client_that_shows_names_gets_a_short_list_of_a_few_tools(
    era: str, client: Json
) -> None:
    async with served(shop(14)) as (url, _):
        tools, instructions = await listed(url, era, client)
        call = modern("tools/call", {"name": "shop__list_orders_3"}, clientInfo=client)
        called = await post(url, call)

    assert names(tools) == [f"shop__list_orders_{n}" for n in range(14)]
    description = str(tools[3]["description"])
    assert description.startswith("3. Lists the orders of a customer. ")
    assert description.endswith("customer. …")
    assert len(description) <= 402
    assert "Servers: shop." in instructions
    assert called.result["content"] == [{"type": "text", "text": "none"}]


@pytest.mark.parametrize(
    "client",
    [
        {"name": "tester", "version": "2.1.212"},
        {"name": "claude-code", "version": "2.1.86"},
        {"name": "claude-code", "version": "unknown"},
        {"name": "claude-code", "version": ""},
        {"name": "Claude-Code ", "version": "2.1.212"},
        {"name": "codex-mcp-client", "version": "0.154.0"},
    ],
    ids=["unknown", "too old", "no number", "no version", "another spelling", "Codex"],
)
@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_every_other_client_gets_the_meta_tools_as_before(era: str, client: Json) -> None:
    async with served(shop(14)) as (url, _):
        tools, instructions = await listed(url, era, client)
        plain, told = await listed(url, era, {"name": "tester", "version": "1"})

    assert tools == plain
    assert instructions == told
    assert "tool_discovery" in names(tools)


@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_many_tools_are_found_with_meta_tools_that_need_no_search_themselves(
    era: str,
) -> None:
    """Names of many tools would cost more than a search (benchmarks/client_search.py)."""
    async with served(shop(60)) as (url, _):
        tools, _ = await listed(url, era, CLAUDE)
        others, _ = await listed(url, era, CURSOR)

    marked = {str(tool["name"]): tool["_meta"] for tool in tools if "_meta" in tool}
    assert "shop__list_orders_3" not in names(tools)
    assert marked == {
        name: {"anthropic/alwaysLoad": True} for name in ("tool_discovery", "tool_execute")
    }
    assert not [tool for tool in others if "_meta" in tool]


@pytest.mark.parametrize("mode", ["meta", "all"])
async def test_a_mode_that_was_set_is_the_same_for_every_client(mode: Any) -> None:
    async with served(shop(14), Settings(mode=mode)) as (url, _):
        tools, _ = await listed(url, "modern", CURSOR)
        plain, _ = await listed(url, "modern", {"name": "tester", "version": "1"})

    assert tools == plain


async def test_a_short_list_has_only_what_its_caller_may_use() -> None:
    rule = PermissionTable(to=("everyone",), allow=("shop:list_orders_1*",))
    anna = Caller(
        caller_id="u1",
        client=CLAUDE["name"],
        client_version=CLAUDE["version"],
        identity=Identity(caller_id="u1", kind="token", token="anna"),
    )
    async with memory_app({"shop": shop(14)}, Settings(auth="required", permission=(rule,))) as app:
        tools = orjson.loads(await app.gateway.listing.list_tools(anna))

    assert names(tools) == [f"shop__list_orders_{n}" for n in (1, 10, 11, 12, 13)]
    assert all(str(tool["description"]).endswith("…") for tool in tools)


async def test_a_changed_tool_is_told_though_most_clients_see_meta_tools() -> None:
    upstream = shop(14)
    async with served(upstream) as (url, app):
        await listed(url, "modern", CLAUDE)
        heard: list[Change] = []
        app.gateway.changes.on_change(heard.append)
        upstream.definitions["list_orders_3"] = {"description": f"New. {LONG}"}
        await upstream.announce()
        with anyio.fail_after(HANG_S):
            while Change(kind="tools") not in heard:
                await anyio.sleep(0.01)
        tools, _ = await listed(url, "modern", CLAUDE)

    assert str(tools[3]["description"]).startswith("New. ")


async def test_an_explanation_says_who_lists_the_tool() -> None:
    me = Caller.local()
    async with memory_app({"shop": shop(14)}, Settings()) as app:
        told = await app.gateway.manage.visibility.explain(me, "shop:list_orders_3")
    async with memory_app({"shop": shop(60)}, Settings()) as app:
        many = await app.gateway.manage.visibility.explain(me, "shop:list_orders_3")

    assert told["stages"][-1]["reason"] == (
        "The tool is found with tool_discovery. Clients that search tools themselves (Claude Code, "
        "Cursor) list it as 'shop__list_orders_3', with a short description."
    )
    assert many["stages"][-1]["reason"] == "The tool is found with tool_discovery."


def test_the_documentation_names_every_client_that_searches() -> None:
    page = Path("docs/clients.md").read_text(encoding="utf-8")
    section = page.partition("## Clients that search tools themselves")[2].partition("\n## ")[0]

    assert [client.title for client in searching_clients() if client.title not in section] == []
    assert all(name in section for client in searching_clients() for name in client.names)
    assert all(client.since in section for client in searching_clients())
