"""The REST door: the gateway's verbs for programs."""

import json
from typing import Any

import aiohttp
import pytest

from tests.server.fake_gateway import FakeGateway
from tests.server.http_gateway import ListeningGateway, listening
from toolgate.cli.client._local_gateway import in_process
from toolgate.testing import memory_app


async def ask(
    place: ListeningGateway, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as http,
        http.request(
            method, f"{place.url}/api/v1/{path}", json=body, headers=headers or None
        ) as response,
    ):
        assert response.headers["X-Request-Id"]
        return response.status, await response.json()


ECHO = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "$defs": {"unused": {"$anchor": "here"}},
}


async def test_discover_answers_in_the_shape_of_the_meta_tool() -> None:
    async with listening() as place:
        asked = {"query": ["say it back", "list"], "maxResults": 1, "server": "a"}
        status, answer = await ask(place, "POST", "discover", asked)
    assert status == 200
    assert answer["results"] == [{"toolKey": "a:echo", "kind": "tool", "relevance": 0.9}]
    assert answer["text"] == "a:echo"
    (request,) = place.gateway.discovered
    assert (request.queries, request.max_results, request.servers) == (
        ("say it back", "list"),
        1,
        ("a",),
    )


async def test_discover_takes_the_names_that_programs_expect() -> None:
    """Source document 003: limit, servers, threshold, core tools by default."""
    async with listening() as place:
        asked = {"query": "x", "limit": 2, "servers": ["a", "b"], "threshold": 0.5}
        for more in ({}, {"include_core": False}):
            status, _ = await ask(place, "POST", "discover", asked | more)
            assert status == 200
    first, second = place.gateway.discovered
    assert (first.max_results, first.servers, first.threshold) == (2, ("a", "b"), 0.5)
    assert (first.include_core, second.include_core) == (True, False)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (
            "anthropic",
            {"name": "a__echo", "description": "The tool a__echo.", "input_schema": ECHO},
        ),
        (
            "openai",
            {
                "type": "function",
                "function": {
                    "name": "a__echo",
                    "description": "The tool a__echo.",
                    "parameters": ECHO,
                },
            },
        ),
    ],
)
async def test_definitions_come_ready_for_a_models_api(form: str, expected: Any) -> None:
    async with listening() as place:
        _, found = await ask(place, "POST", "discover", {"query": "x", "format": form})
        _, described = await ask(
            place, "POST", "describe", {"toolKeys": ["a:echo"], "format": form}
        )
        _, listed = await ask(place, "GET", f"tools?format={form}")
    assert found["tools"] == described["tools"] == [expected]
    assert listed["tools"][0] == expected


async def test_definitions_as_mcp_lists_them_are_whole() -> None:
    async with listening() as place:
        _, described = await ask(
            place, "POST", "describe", {"toolKeys": ["a:echo"], "format": "mcp"}
        )
        _, listed = await ask(place, "GET", "tools?format=mcp&server=a")
    assert described["tools"] == [place.gateway.listed[0]]
    assert listed["tools"] == place.gateway.listed


async def test_describe_gives_full_schemas() -> None:
    async with listening() as place:
        status, described = await ask(place, "POST", "describe", {"toolKeys": ["a:echo"]})
    assert (status, described["tools"]) == (200, [{"toolKey": "a:echo"}])


async def test_execute_gives_the_result_as_it_came() -> None:
    async with listening() as place:
        status, result = await ask(
            place, "POST", "execute", {"toolKey": "a:echo", "arguments": {"text": "x"}}
        )
    assert status == 200
    assert result["content"] == [{"type": "text", "text": "x", "x-block": {"n": None}}]
    assert result["_meta"] == {"com.example/r": 1}
    assert "resultType" not in result


@pytest.mark.parametrize(
    ("tool", "status", "code", "retryable"),
    [
        ("nothing", 404, "unknown_tool", False),
        ("timed_out", 504, "timed_out", False),
        ("lost", 503, "connection_lost", False),
        ("rpc_error", 502, "rpc", False),
        ("broken", 500, "internal", False),
    ],
)
async def test_errors_have_one_shape_and_a_fitting_status(
    tool: str, status: int, code: str, retryable: bool
) -> None:
    async with listening() as place:
        answered, body = await ask(
            place, "POST", "execute", {"toolKey": tool}, **{"X-Request-Id": "r-1"}
        )
    error = body["error"]
    assert answered == status
    assert (error["code"], error["retryable"], error["request_id"]) == (code, retryable, "r-1")
    assert set(error) - {"rpc"} == {"code", "message", "hint", "retryable", "request_id"}
    assert "secret" not in error["message"]
    if tool == "timed_out":
        assert (error["message"], error["hint"]) == ("No answer in 60 s.", "It may have run.")
    if tool == "rpc_error":
        assert error["rpc"] == {"code": -31999, "data": {"why": "test", "none": None}}


async def test_threads_do_not_exist_without_a_chat_model() -> None:
    """A caller cannot configure one: this was answered with 500, as a fault of the gateway."""
    async with memory_app({}) as app:
        status, raw = await in_process(app)("GET", "/api/v1/threads", None)

    assert (status, json.loads(raw)["error"]["code"]) == (404, "unknown_model")


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("discover", {}, "'query'"),
        ("discover", {"query": "x", "limits": 3}, "'limits'"),
        ("discover", {"query": "x", "limit": 0}, "'limit'"),
        ("discover", {"query": "x", "limit": True}, "'limit'"),
        ("discover", {"query": "x", "maxResults": 0}, "'maxResults'"),
        ("discover", {"query": "x", "serverz": 0}, "include_core, kind, limit, maxResults"),
        ("discover", {"query": "x", "limit": 3, "maxResults": 3}, "'limit' and 'maxResults'"),
        ("discover", {"query": "x", "include_core": 1}, "'include_core'"),
        ("describe", {"toolKeys": ["a:echo"], "indexed": "yes"}, "'indexed'"),
        ("discover", {"query": "x", "format": "yaml"}, "'yaml'"),
        ("discover", {"query": ["x", 1]}, "'query'"),
        ("discover", [], "JSON object"),
        ("describe", {"toolKeys": 7}, "'toolKeys'"),
        ("execute", {"toolKey": "a:echo", "args": {}}, "'args'"),
        ("execute", {"toolKey": "a:echo", "arguments": []}, "'arguments'"),
        ("servers", {"name": "x"}, "'config'"),
        ("servers", {"name": "x", "config": {}, "save": "yes"}, "'save'"),
        ("servers", {"name": 1, "config": {}}, "'name'"),
        ("servers/a/enable", {"now": True}, "'now'"),
    ],
)
async def test_bodies_that_do_not_fit_are_refused_and_the_member_named(
    path: str, body: Any, words: str
) -> None:
    async with listening() as place:
        status, answer = await ask(place, "POST", path, body)
    assert status == 400
    assert words in answer["error"]["message"]


async def test_broken_bodies_and_types_are_refused() -> None:
    async with listening(max_body_bytes=500) as place, aiohttp.ClientSession() as http:
        url = f"{place.url}/api/v1/execute"
        json_type = {"Content-Type": "application/json"}
        for data, headers, status in (
            (b"{", json_type, 400),
            (b'{"toolKey": NaN}', json_type, 400),
            (b"x" * 600, json_type, 413),
            (b'{"toolKey":"a:echo"}', {"Content-Type": "text/plain"}, 415),
            (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ):
            async with http.post(url, data=data, headers=headers) as response:
                assert response.status == status
                assert (await response.json())["error"]["message"]
    assert place.gateway.received == []


async def test_servers_are_listed_added_switched_and_removed() -> None:
    async with listening() as place:
        status, listed = await ask(place, "GET", "servers")
        assert (status, listed["servers"][0]["state"]) == (200, "ready")
        body = {"name": "new", "config": {"command": "true"}}
        status, added = await ask(place, "POST", "servers", body)
        assert (status, added["name"]) == (201, "new")
        assert (await ask(place, "POST", "servers/new/disable"))[0] == 200
        assert place.gateway.enabled == {"new": False}
        assert (await ask(place, "POST", "servers/new/enable"))[0] == 200
        assert place.gateway.enabled == {"new": True}
        assert (await ask(place, "POST", "servers/new/restart"))[0] == 200
        assert (await ask(place, "DELETE", "servers/new"))[0] == 200
        status, answer = await ask(place, "DELETE", "servers/new")
    assert (status, answer["error"]["code"]) == (404, "unknown_server")


async def test_the_status_is_a_few_numbers() -> None:
    async with listening() as place:
        status, answer = await ask(place, "GET", "status")
    assert status == 200
    assert (answer["servers"], answer["states"], answer["tools"]) == (1, {"ready": 1}, 2)


async def test_tools_are_listed_with_their_keys() -> None:
    async with listening() as place:
        _, listed = await ask(place, "GET", "tools")
        _, none = await ask(place, "GET", "tools?server=b")
    assert [tool["toolKey"] for tool in listed["tools"]] == ["a:echo", "a:regional"]
    assert none == {"tools": []}


async def test_wrong_places_and_methods_are_named() -> None:
    async with listening(FakeGateway()) as place:
        status, answer = await ask(place, "GET", "elsewhere")
        assert (status, answer["error"]["code"]) == (404, "not_found")
        status, answer = await ask(place, "GET", "execute")
        assert (status, answer["error"]["hint"]) == (405, "Use POST.")
        status, answer = await ask(place, "PUT", "servers")
        assert (status, answer["error"]["hint"]) == (405, "Use GET or POST.")
