"""The catalog: fresh in the background, never lost, never listed in the call path."""

from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from tests.limits import HANG_S
from toolgate.errors import SettingError, UnknownServerError, UpstreamError
from toolgate.gateway.listing import Change
from toolgate.settings import Settings, server_name
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json

ME = Caller.local()
ALL = Settings(mode="all")


def echo(params: Json) -> Json:
    return text_result("hi")


async def listed(app: Any) -> list[str]:
    return [tool["name"] for tool in orjson.loads(await app.gateway.listing.list_tools(ME))]


async def until_listed(app: Any, wanted: list[str]) -> None:
    with anyio.fail_after(HANG_S):
        while await listed(app) != wanted:
            await anyio.sleep(0.01)


async def test_a_definition_is_shown_as_its_server_sent_it_but_for_the_name() -> None:
    strange: Json = {
        "title": "T",
        "icons": [{"src": "data:,"}],
        "annotations": {"readOnlyHint": True, "vendor": 1},
        "inputSchema": {"type": "object", "$defs": {"x": {"$anchor": "a"}}, "big": 2**70},
        "_meta": {"com.example/tag": "x"},
        "somethingNew": [1, None],
    }
    upstream = FakeUpstream({"echo": echo}, definitions={"echo": strange})
    async with memory_app({"a": upstream}, ALL) as app:
        raw = await app.gateway.listing.list_tools(ME)
    assert b"1180591620717411303424" in raw, "a number keeps its digits"
    (shown,) = orjson.loads(raw)
    assert {k: v for k, v in shown.items() if k != "inputSchema"} == {
        "name": "a__echo",
        "description": "Tool echo.",
        **{k: v for k, v in strange.items() if k != "inputSchema"},
    }


async def test_an_announced_change_is_listed_and_told() -> None:
    upstream = FakeUpstream({"echo": echo})
    async with memory_app({"a": upstream}, ALL) as app:
        heard: list[Change] = []
        app.gateway.changes.on_change(heard.append)
        upstream.tools["second"] = echo
        await upstream.announce()
        await until_listed(app, ["a__echo", "a__second"])
        assert Change(kind="tools") in heard
        assert Change(kind="prompts") not in heard, "only what is different is told"
        assert (await app.gateway.calls.execute(ME, "a:second", {})) == text_result("hi")


async def test_nothing_is_listed_when_tools_are_called_or_shown() -> None:
    upstream = FakeUpstream({"echo": echo})
    async with memory_app({"a": upstream}, ALL) as app:
        before = len([m for m, _ in upstream.requests if m.endswith("/list")])
        for _ in range(5):
            await app.gateway.listing.list_tools(ME)
            await app.gateway.calls.execute(ME, "a:echo", {})
        assert len([m for m, _ in upstream.requests if m.endswith("/list")]) == before


async def test_last_known_tools_survive_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    async with memory_app({"a": FakeUpstream({"echo": echo})}, ALL, store_url=url):
        pass
    dead = FakeUpstream()
    dead.refuses = True
    async with memory_app({"a": dead}, ALL, store_url=url, wait_s=0) as app:
        assert await listed(app) == ["a__echo"]
        (status,) = app.gateway.servers.statuses(ME)
        assert status.tools == 1


async def test_a_server_is_added_and_removed_while_others_run() -> None:
    upstream = FakeUpstream({"echo": echo})
    async with memory_app({"a": upstream}, ALL) as app:
        await app.gateway.manage.servers.add(ME, "new", {"command": "no-such-command-anywhere"})
        assert {status.name for status in app.gateway.servers.statuses(ME)} == {"a", "new"}
        with anyio.fail_after(HANG_S):
            while (s := app.gateway.servers.statuses(ME)[1]).state != "down":
                await anyio.sleep(0.01)
        assert "no-such-command-anywhere" in (s.last_error or "")
        await app.gateway.manage.servers.remove(ME, "new")
        assert len(upstream.wires) == 1, "the other server was not touched"
        with pytest.raises(UnknownServerError, match="no server 'new'"):
            await app.gateway.manage.servers.remove(ME, "new")


@pytest.mark.parametrize("name", ["", "My Server", "a__b", "é", "x" * 33])
async def test_a_name_that_no_key_can_carry_is_refused_with_one_that_can(name: str) -> None:
    """Source: fuzzing; such a server was added under another name, and the answer was a 500."""
    async with memory_app({}) as app:
        with pytest.raises(SettingError, match="cannot be the name of a server") as caught:
            await app.gateway.manage.servers.add(ME, name, {"command": "true"})
        assert await app.store.servers.select(None) == []

    assert server_name(name) in str(caught.value)


async def test_names_that_clients_cannot_tell_apart_are_refused() -> None:
    async with memory_app({"my_server": FakeUpstream()}) as app:
        with pytest.raises(SettingError, match="cannot distinguish"):
            await app.gateway.manage.servers.add(ME, "My-Server", {"command": "true"})


@pytest.mark.parametrize(
    "config",
    [
        {"command": "toolgate", "args": ["stdio"]},
        {"command": "uvx", "args": ["toolgate-mcp", "stdio"]},
        {"url": "http://127.0.0.1:7420/mcp"},
    ],
    ids=["command", "uvx", "address"],
)
async def test_toolgate_itself_is_no_server(config: Json) -> None:
    """A gateway behind itself lists its own tools for ever."""
    async with memory_app({"a": FakeUpstream()}) as app:
        with pytest.raises(SettingError, match="'loop' is Toolgate itself"):
            await app.gateway.manage.servers.add(ME, "loop", config)
        assert [server.name for server in app.gateway.servers.statuses(ME)] == ["a"]


async def test_five_thousand_tools_are_listed() -> None:
    upstream = FakeUpstream({f"tool_{n}": echo for n in range(5000)})
    async with memory_app({"a": upstream}, ALL, wait_s=HANG_S) as app:
        assert len(await listed(app)) == 5000


@pytest.mark.parametrize(
    "entry",
    [
        {"name": None},
        {"name": 7},
        {"name": ""},
        {"name": "x" * 2000},
        {"name": "h", "inputSchema": {"properties": {"p": {"x-mcp-header": "bad name"}}}},
    ],
    ids=["no name", "a number", "empty", "too long", "bad header"],
)
async def test_an_unusable_tool_is_left_out_and_the_rest_stays(entry: Json) -> None:
    upstream = FakeUpstream({"echo": echo, "odd": echo}, definitions={"odd": entry})
    async with memory_app({"a": upstream}, ALL) as app:
        assert await listed(app) == ["a__echo"]


async def test_resources_that_two_servers_share_can_both_be_read() -> None:
    doc: Json = {"uri": "x://doc", "name": "doc"}
    servers = {"a": FakeUpstream(resources=(doc,)), "b": FakeUpstream(resources=(doc,))}
    async with memory_app(servers) as app:
        shown = [r["uri"] for r in orjson.loads(await app.gateway.listing.list_resources(ME))]
        assert shown == ["x://doc", "toolgate://b/x://doc"]
        for uri in shown:
            await app.gateway.resources.read(ME, {"uri": uri}, None)
        for upstream in servers.values():
            assert ("resources/read", "x://doc") in [
                (method, params.get("uri")) for method, params in upstream.requests
            ]


async def test_a_template_says_which_server_reads_a_uri() -> None:
    template: Json = {"uriTemplate": "note://{id}/text", "name": "note"}
    upstream = FakeUpstream(templates=(template,))
    async with memory_app({"a": FakeUpstream(), "b": upstream}) as app:
        result = await app.gateway.resources.read(ME, {"uri": "note://7/text"}, None)
        assert result["contents"][0]["text"] == "body of note://7/text"


async def test_prompts_are_got_and_completed_under_their_exposed_names() -> None:
    upstream = FakeUpstream(prompts=({"name": "greet"},))
    async with memory_app({"a": upstream}) as app:
        (shown,) = orjson.loads(await app.gateway.listing.list_prompts(ME))
        assert shown["name"] == "a__greet"
        got = await app.gateway.prompts.get(ME, {"name": "a__greet"}, None)
        assert got["messages"][0]["content"]["text"] == "prompt greet"
        ref = {"type": "ref/prompt", "name": "a__greet"}
        argument = {"name": "who", "value": "a"}
        completed = await app.gateway.resources.complete(
            ME, {"ref": ref, "argument": argument}, None
        )
        assert completed["completion"]["values"] == ["greet"]


async def test_a_watched_resource_is_told_of_after_a_reconnect_too() -> None:
    doc: Json = {"uri": "x://doc", "name": "doc"}
    upstream = FakeUpstream(resources=(doc,), speaks="handshake")
    async with memory_app({"a": upstream}) as app:
        heard: list[Change] = []
        app.gateway.changes.on_change(heard.append)
        await app.gateway.resources.subscribe(ME, "x://doc")
        upstream.connected.clear()
        upstream.crash()
        with anyio.fail_after(HANG_S):
            await upstream.connected.wait()
            while [m for m, _ in upstream.requests].count("resources/subscribe") < 2:
                await anyio.sleep(0.01)
        events = upstream.wires[-1].events
        assert events is not None
        await events.on_notification("notifications/resources/updated", {"uri": "x://doc"})
        assert Change(kind="resource", uri="x://doc") in heard


async def test_a_restarted_server_keeps_its_place_and_its_running_call_fails_at_once() -> None:
    started = anyio.Event()

    async def waits(params: Json) -> Json:
        started.set()
        await anyio.Event().wait()
        return {}

    servers = {"a": FakeUpstream({"waits": waits}), "b": FakeUpstream({"echo": echo})}
    async with memory_app(servers, ALL) as app:
        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:

                async def call() -> None:
                    with pytest.raises(UpstreamError):
                        await app.gateway.calls.execute(ME, "a:waits", {})

                group.start_soon(call)
                await started.wait()
                await app.gateway.manage.servers.restart(ME, "a")
            await until_listed(app, ["a__waits", "b__echo"])
        assert [status.name for status in app.gateway.servers.statuses(ME)] == ["a", "b"]
