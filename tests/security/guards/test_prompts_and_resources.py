"""Guards check arguments of prompts, completions and resources too, at the MCP endpoint."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from tests.server.http_gateway import headers_for, modern
from toolgate.server.http import build_app
from toolgate.settings import GuardTable, Settings
from toolgate.store import AuditFilter
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller, Json

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
DENY = GuardTable(tools=("files",), deny={"path": ("^/etc/",), "*": ("rm -rf",)}, reason="No.")
PROMPT = {"name": "summarize", "arguments": [{"name": "path"}, {"name": "depth"}]}
TEMPLATE = {"uriTemplate": "file:///{+path}", "name": "file"}

Send = Callable[[str, Json], Awaitable[Json]]


@asynccontextmanager
async def guarded(*tables: GuardTable) -> AsyncGenerator[tuple[Send, FakeUpstream, Any]]:
    """Sends requests to the MCP endpoint; the server `files` behind it, and the gateway."""
    files = FakeUpstream({}, prompts=(PROMPT,), templates=(TEMPLATE,))
    settings = replace(Settings(guard=tables), allow_other_users=True)
    async with memory_app({"files": files}, settings) as app:
        application = build_app(app)
        transport = httpx2.ASGITransport(app=application)  # pyright: ignore[reportArgumentType]
        async with (
            application.running(),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):

            async def send(method: str, params: Json) -> Json:
                message = modern(method, params)
                response = await client.post("/mcp", json=message, headers=headers_for(message))
                return response.json()

            yield send, files, app


def prompt(**arguments: str) -> tuple[str, Json]:
    return "prompts/get", {"name": "files__summarize", "arguments": arguments}


def completion(name: str, value: str, /, **context: str) -> tuple[str, Json]:
    params: Json = {
        "ref": {"type": "ref/prompt", "name": "files__summarize"},
        "argument": {"name": name, "value": value},
    }
    return "completion/complete", params | ({"context": {"arguments": context}} if context else {})


def template(name: str, value: str, uri: str = "file:///{+path}") -> tuple[str, Json]:
    ref = {"type": "ref/resource", "uri": uri}
    return "completion/complete", {"ref": ref, "argument": {"name": name, "value": value}}


def read(uri: str) -> tuple[str, Json]:
    return "resources/read", {"uri": uri}


def arrived(files: FakeUpstream) -> list[Json]:
    methods = {"prompts/get", "completion/complete", "resources/read"}
    return [params for method, params in files.requests if method in methods]


@pytest.mark.parametrize(
    "request_",
    [
        prompt(path="/etc/passwd"),
        prompt(path="/tmp", depth="rm -rf /"),
        completion("path", "/etc/pass"),
        completion("depth", "1", path="/etc/passwd"),
        completion("depth", "1", other="rm -rf /"),
        template("path", "/etc/"),
        template("path", "1", "file:////etc/passwd"),
        read("file:////etc/passwd"),
        read("file:///%2Fetc%2Fpasswd"),
        read("file:///rm -rf"),
    ],
    ids=lambda request: f"{request[0]} {str(request[1])[:80]}",
)
async def test_arguments_that_a_guard_does_not_allow_reach_no_server(
    request_: tuple[str, Json],
) -> None:
    async with guarded(DENY) as (send, files, app):
        answer = await send(*request_)
        await app.recorder.flush()
        records = await app.store.audit.select(AuditFilter())

    assert "A guard does not allow" in answer["error"]["message"]
    assert "No." in answer["error"]["message"]
    assert arrived(files) == []
    assert "guard" in {record.status for record in records}


@pytest.mark.parametrize(
    "request_",
    [
        prompt(path="/tmp/etc/x"),
        prompt(),
        completion("path", "/tm"),
        completion("depth", "1", path="/tmp"),
        template("path", "tmp/"),
        read("file:///tmp/x"),
    ],
    ids=lambda request: f"{request[0]} {str(request[1])[:80]}",
)
async def test_what_a_guard_allows_arrives_as_it_was_sent(request_: tuple[str, Json]) -> None:
    method, params = request_
    async with guarded(DENY) as (send, files, _):
        answer = await send(method, params)

    assert "result" in answer, answer
    (received,) = arrived(files)
    for member in ("arguments", "argument", "context", "uri"):
        assert received.get(member) == params.get(member)


async def test_a_value_beside_the_one_that_is_completed_does_not_get_past_a_guard() -> None:
    async with guarded(DENY) as (send, files, _):
        await send(*completion("path", "/tmp", path="/etc/passwd", depth="1"))

    (received,) = arrived(files)
    assert received["argument"]["value"] == "/tmp"
    assert received["context"] == {"arguments": {"depth": "1"}}


async def test_a_schema_holds_for_prompts_and_for_what_is_there_of_completions() -> None:
    schema = {"properties": {"path": {"pattern": "^/tmp"}}, "required": ["path", "depth"]}
    async with guarded(GuardTable(tools=("files:*",), arguments=schema)) as (send, files, _):
        missing = await send(*prompt(path="/tmp"))
        wrong = await send(*completion("path", "/home"))
        partial = await send(*completion("path", "/tmp/x"))
        complete = await send(*prompt(path="/tmp", depth="1"))
        uri = await send(*read("file:///home"))

    assert "'depth\" is a required property" in missing["error"]["message"].replace('"d', "'d")
    assert "path:" in wrong["error"]["message"]
    assert all("result" in answer for answer in (partial, complete, uri))
    assert len(arrived(files)) == 3


async def test_secrets_in_arguments_are_masked_or_blocked() -> None:
    async with guarded(GuardTable(secrets_in_arguments="mask")) as (send, files, _):
        await send(*prompt(path=KEY))
        await send(*completion("path", KEY, depth=KEY))
        await send(*read(f"file:///{KEY}"))
    async with guarded(GuardTable(secrets_in_arguments="block")) as (send, others, _):
        blocked = [
            await send(*prompt(path=KEY)),
            await send(*completion("path", KEY)),
            await send(*read(f"file:///{KEY}")),
        ]

    assert len(arrived(files)) == 3
    assert KEY not in str(arrived(files))
    assert arrived(files)[0]["arguments"] == {"path": "[github_token masked]"}
    assert all("looks like a secret" in answer["error"]["message"] for answer in blocked)
    assert arrived(others) == []


async def test_secrets_in_completions_are_masked() -> None:
    leaky = {"name": KEY}
    files = FakeUpstream({}, prompts=(leaky,))  # the answer says the name
    settings = Settings(guard=(GuardTable(secrets_in_results="mask"),))
    async with memory_app({"files": files}, settings) as app:
        (leaked,) = json.loads(await app.gateway.listing.list_prompts(Caller.local()))
        params = {"ref": {"name": leaked["name"]}, "argument": {"name": "a", "value": ""}}
        result = await app.gateway.resources.complete(Caller.local(), params, None)

    assert result["completion"]["values"] == ["[github_token masked]"]


async def test_sizes_of_arguments_are_limited() -> None:
    async with guarded(GuardTable(max_argument_bytes=100)) as (send, files, _):
        answer = await send(*prompt(path="x" * 200))
        other = await send(*completion("path", "x" * 200))

    assert "bytes, and 100 are allowed" in answer["error"]["message"]
    assert "bytes, and 100 are allowed" in other["error"]["message"]
    assert arrived(files) == []


@pytest.mark.parametrize(
    "table",
    [
        GuardTable(tools=("files:read",), deny={"path": ("^/etc/",)}),
        GuardTable(tools=("other",), deny={"path": ("^/etc/",)}),
        GuardTable(tools=("files",), projects=("other",), deny={"path": ("^/etc/",)}),
    ],
    ids=["a tool", "another server", "another project"],
)
async def test_guards_on_something_else_do_not_count(table: GuardTable) -> None:
    async with guarded(table) as (send, files, _):
        await send(*prompt(path="/etc/passwd"))

    assert len(arrived(files)) == 1


async def test_a_subscription_to_a_denied_resource_is_refused() -> None:
    files = FakeUpstream({}, templates=(TEMPLATE,))
    async with memory_app({"files": files}, Settings(guard=(DENY,))) as app:
        with pytest.raises(Exception, match="A guard does not allow"):
            await app.gateway.resources.subscribe(Caller.local(), "file:////etc/passwd")


@pytest.mark.parametrize(
    "context", [["/etc/passwd"], {"arguments": ["/etc/passwd"]}, {"arguments": "/etc/passwd"}]
)
async def test_a_context_of_another_shape_is_refused(context: Any) -> None:
    """It would go to the server unseen."""
    method, params = completion("depth", "1")
    async with guarded(DENY) as (send, files, _):
        answer = await send(method, params | {"context": context})

    assert "error" in answer
    assert arrived(files) == []
