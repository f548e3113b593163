"""The document of the REST interface says what the interface does; problems, pages, the audit."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import jsonschema_rs
import orjson
import pytest

from toolgate.app.app import App
from toolgate.server.http import build_app
from toolgate.server.rest.openapi import openapi_document
from toolgate.server.rest.router import ROUTES
from toolgate.settings import GuardTable, Settings
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller, Json


@cache
def document() -> Json:
    """When a test asks for it: it takes half a second, and every process collects this module."""
    return openapi_document(ROUTES)


@asynccontextmanager
async def opened(**settings: Any) -> AsyncGenerator[tuple[App, Any]]:
    """A gateway, and what asks its REST interface."""
    github = FakeUpstream({"list_issues": lambda _: {"content": []}})
    async with memory_app({"github": github}, Settings(**settings)) as app, rest(app) as ask:
        yield app, ask


@asynccontextmanager
async def rest(app: App) -> AsyncGenerator[Any]:
    """What asks the REST interface of a gateway."""
    door = build_app(app, key="k")

    async def ask(method: str, path: str, body: Any = None) -> tuple[int, str, Any]:
        sent: list[Any] = []
        waiting = [] if body is None else [orjson.dumps(body)]

        async def receive() -> Any:
            return {"type": "http.request", "body": waiting.pop() if waiting else b""}

        async def send(message: Any) -> None:
            sent.append(message)

        route, _, query = path.partition("?")
        headers = [(b"host", b"127.0.0.1:7420"), (b"x-toolgate-key", b"k")]
        headers += [(b"content-type", b"application/json")] if body is not None else []
        scope = {
            "type": "http",
            "method": method,
            "path": f"/api/v1/{route}",
            "query_string": query.encode(),
            "headers": headers,
            "client": ("127.0.0.1", 1),
        }
        await door(scope, receive, send)
        found = dict(sent[0]["headers"])
        assert found[b"x-content-type-options"] == b"nosniff"
        assert found[b"cache-control"] == b"no-store"
        text = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], found[b"content-type"].decode(), json.loads(text)

    async with door.running():
        yield ask


def schema_of(part: Any) -> Any:
    """A schema of the document that stands alone."""
    text = json.dumps(part).replace("#/components/schemas/", "#/$defs/")
    defined = json.dumps(document()["components"]["schemas"])
    defined = defined.replace("#/components/schemas/", "#/$defs/")
    return {**json.loads(text), "$defs": json.loads(defined)}


def fits(part: Any, value: Any) -> None:
    jsonschema_rs.validate(schema_of(part), value)


def answer_schema(method: str, path: str) -> Any:
    responses = document()["paths"][f"/{path}"][method.lower()]["responses"]
    ((_, response),) = ((status, one) for status, one in responses.items() if status != "default")
    return response["content"]["application/json"]["schema"]


def test_every_route_is_in_the_document_and_nothing_else() -> None:
    described = {
        (method.upper(), path.removeprefix("/"))
        for path, operations in document()["paths"].items()
        for method in operations
    }
    assert described == {(route.method, route.path) for route in ROUTES}
    assert len(described) == len(ROUTES)


def test_every_operation_has_a_summary_and_a_name_of_its_own() -> None:
    operations = [one for path in document()["paths"].values() for one in path.values()]
    assert all(re.fullmatch(r"[A-Z].+\.", one["summary"]) for one in operations)
    names = [one["operationId"] for one in operations]
    assert len(set(names)) == len(names)


def test_schemas_are_valid_and_examples_fit_them() -> None:
    for schema in document()["components"]["schemas"].values():
        jsonschema_rs.validator_for(schema_of(schema))
    examples = 0
    for operations in document()["paths"].values():
        for operation in operations.values():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is not None and "example" in content:
                fits(content["schema"], content["example"])
                examples += 1
    assert examples > 10


async def test_every_body_is_checked_as_the_document_says() -> None:
    """A member that the document does not know is refused, and named."""
    async with opened() as (_, ask):
        for route in ROUTES:
            if route.body is None or "chat" in route.path or "threads" in route.path:
                continue  # without a chat model there are no threads
            operation = document()["paths"][f"/{route.path}"][route.method.lower()]
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = {**(route.example or {}), "colour": "red"}
            with pytest.raises(jsonschema_rs.ValidationError):
                fits(schema, body)
            path = route.path.replace("{name}", "github")
            status, _, answer = await ask(route.method, path, body)
            assert status in {400, 404}, path
            assert "'colour'" in answer["detail"] or "There is no" in answer["detail"], path


async def test_the_gateway_takes_the_examples_and_answers_as_the_document_says() -> None:
    async with opened() as (app, ask):
        status, _, served = await ask("GET", "openapi.json")
        assert (status, served) == (200, document())
        for method, path in (
            ("POST", "discover"),
            ("POST", "describe"),
            ("POST", "execute"),
            ("POST", "mark"),
            ("POST", "projects"),  # from here on the server is not everybody's
            ("POST", "tokens"),
            ("POST", "permissions"),
            ("POST", "explain"),
        ):
            operation = document()["paths"][f"/{path}"][method.lower()]
            example = operation["requestBody"]["content"]["application/json"]["example"]
            status, kind, answer = await ask(method, path, example)
            assert (str(status) in operation["responses"], kind) == (True, "application/json"), (
                answer
            )
            fits(answer_schema(method, path), answer)
        rotated = document()["paths"]["/tokens/{name}/rotate"]["post"]["requestBody"]["content"]
        example = rotated["application/json"]["example"]
        status, _, answer = await ask("POST", "tokens/anna/rotate", example)
        fits(answer_schema("POST", "tokens/{name}/rotate"), answer)
        await app.recorder.flush()
        for path in ("me", "tools", "servers", "tokens", "projects", "permissions", "approvals"):
            status, _, answer = await ask("GET", path)
            assert status == 200
            fits(answer_schema("GET", path), answer)
        for path in ("audit?limit=2", "audit/verify"):
            status, _, answer = await ask("GET", path)
            fits(answer_schema("GET", path.partition("?")[0]), answer)


async def test_errors_are_problems_that_say_the_same_to_programs_and_people() -> None:
    async with opened(guard=(GuardTable(deny={"owner": ("^acme$",)}),)) as (_, ask):
        call = {"toolKey": "github:list_issues", "arguments": {"owner": "acme"}}
        for method, path, body, wanted, code in (
            ("GET", "nothing", None, 404, "not_found"),
            ("PATCH", "status", None, 405, "method"),
            ("POST", "execute", {"toolKey": "no:where"}, 404, "unknown_tool"),
            ("POST", "execute", call, 403, "guard"),
            ("POST", "tokens", {"name": 1}, 400, "argument"),
            ("GET", "tools?limit=0", None, 400, "argument"),
            ("GET", "tools?cursor=gone", None, 400, "argument"),
            ("GET", "audit?colour=red", None, 400, "argument"),
            ("GET", "audit?since=yesterday", None, 400, "argument"),
            ("GET", "audit?cursor=x", None, 400, "argument"),
            ("GET", "approvals?state=lost", None, 400, "argument"),
            ("GET", "approvals/none", None, 404, "unknown_approval"),
            ("POST", "approvals/none/approve", {"arguments": []}, 400, "argument"),
        ):
            status, kind, answer = await ask(method, path, body)
            assert (status, kind, answer["error"]["code"]) == (
                wanted,
                "application/problem+json",
                code,
            ), path
            fits({"$ref": "#/components/schemas/Problem"}, answer)
            assert answer["status"] == wanted
            assert answer["type"] == f"urn:toolgate:error:{code}"
            assert answer["detail"].startswith(answer["error"]["message"])


async def test_lists_come_in_pages_that_miss_nothing_and_repeat_nothing() -> None:
    async with opened() as (app, ask):
        for number in range(5):
            await app.gateway.admin.create_token(Caller.local(), f"t{number}", allow=["*"])
        await app.recorder.flush()
        for path, name, limit in (("tokens", "tokens", 2), ("permissions", "permissions", 2)):
            whole = (await ask("GET", path))[2][name]
            assert "next_cursor" not in (await ask("GET", path))[2]
            found, cursor = list[Any](), ""
            for _ in range(10):
                _, _, page = await ask("GET", f"{path}?limit={limit}{cursor}")
                found += page[name]
                if "next_cursor" not in page:
                    break
                assert len(page[name]) == limit
                cursor = f"&cursor={page['next_cursor']}"
            assert found == whole
        seen, cursor = list[str](), ""
        for _ in range(20):
            _, _, page = await ask("GET", f"audit?limit=2{cursor}")
            seen += [one["record_id"] for one in page["records"]]
            if "next_cursor" not in page:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert len(seen) == len(set(seen)) == 5
        _, _, only = await ask("GET", "audit?action=token_create&failed=true")
        assert only["records"] == []


async def test_a_call_is_approved_over_rest() -> None:
    guard = GuardTable(approver="admin", reason="Ask first.")
    async with opened(guard=(guard,)) as (app, ask):
        call = {"toolKey": "github:list_issues", "arguments": {"owner": "acme"}}
        status, _, answer = await ask("POST", "execute", call)
        assert (status, answer["error"]["code"], answer["error"]["retryable"]) == (
            403,
            "approval",
            True,
        )
        _, _, waiting = await ask("GET", "approvals")
        ((approval_id, shown),) = ((one["id"], one["arguments"]) for one in waiting["approvals"])
        assert answer["error"]["approval"]["id"] == approval_id
        assert json.loads(shown) == {"owner": "acme"}
        status, _, answer = await ask("POST", f"approvals/{approval_id}/approve", {})
        assert (status, answer["error"]["code"]) == (403, "forbidden")
        [approval] = await app.gateway.approvals.search(Caller.local())
        code = app.gateway.approvals.code(Caller.local(), approval, via="console")
        status, _, decided = await ask("POST", f"approvals/{approval_id}/approve", {"code": code})
        fits({"$ref": "#/components/schemas/Approval"}, decided)
        status, _, answer = await ask("POST", f"approvals/{approval_id}/reject", {})
        assert (status, answer["error"]["code"]) == (409, "decided")
        assert (await ask("POST", "execute", call))[0] == 200
        assert (await ask("POST", "execute", call))[0] == 403
        _, _, every = await ask("GET", "approvals?state=all&limit=1")
        assert (len(every["approvals"]), "next_cursor" in every) == (1, True)
