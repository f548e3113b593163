"""Headers of clients go on to the servers that list them, and to nobody else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from tests.server.http_gateway import headers_for, modern, post
from tests.serving import serving
from toolgate.app.app import App, open_app
from toolgate.settings import PermissionTable, Settings, StoreSettings
from toolgate.store import AuditFilter
from toolgate.testing.echo_server import EchoServer, serve_http, serve_sse
from toolgate.types import Caller, Json, ServerSpec

ME = Caller.local()
SENT = {"X-Tenant": "blue", "X-Other": "secret", "Authorization": "Bearer of-the-client"}
CALL = {"name": "a__echo", "arguments": {"text": "hi"}}


@dataclass
class Place:
    url: str
    app: App
    server: EchoServer

    def call_headers(self) -> Json:
        """The headers of the last call."""
        return dict(
            next(head for text, head in reversed(self.server.requests) if "tools/call" in text)
        )


@asynccontextmanager
async def gateway(
    *names: str, kind: str = "http", settings: Settings | None = None, **spec: Any
) -> AsyncIterator[Place]:
    """A gateway over HTTP in front of a server that is to get these headers."""
    server = EchoServer(modern=spec.pop("modern", True))
    upstream = serve_http(server) if kind == "http" else serve_sse(server)
    async with upstream as url:
        options = {"url": url, **spec.pop("options", {})}
        behind = ServerSpec(name="a", kind=kind, options=options, forward_headers=names, **spec)
        store = StoreSettings(url="sqlite://")
        values = {"auth": "local"} if settings is None else vars(settings)
        chosen = Settings(**{**values, "servers": (behind,), "store": store})
        async with open_app(chosen, wait_s=30) as app, serving(app, key="k" * 43) as address:
            yield Place(url=address, app=app, server=server)


async def call(place: Place, **headers: str) -> Json:
    message = modern("tools/call", CALL)
    answer = await post(place.url, message, {**headers_for(message), **SENT, **headers})
    return answer.result


async def rest(place: Place) -> None:
    async with aiohttp.ClientSession() as http:
        body = {"toolKey": "a:echo", "arguments": {"text": "hi"}}
        key = {"X-Toolgate-Key": "k" * 43}
        address = f"{place.url}/api/v1/execute"
        async with http.post(address, json=body, headers={**SENT, **key}) as response:
            assert response.status == 200, await response.text()


async def test_without_the_setting_no_header_of_a_client_goes_on() -> None:
    async with gateway() as place:
        await call(place)
        seen = place.call_headers()
        assert not {"x-tenant", "x-other", "authorization"} & seen.keys()


@pytest.mark.parametrize("kind", ["http", "sse"])
@pytest.mark.parametrize("is_modern", [True, False])
async def test_exactly_the_headers_that_are_listed_go_on(kind: str, is_modern: bool) -> None:
    async with gateway("x-tenant", "x-absent", kind=kind, modern=is_modern) as place:
        for ask in (call, rest):
            place.server.requests.clear()
            await ask(place)
            seen = place.call_headers()
            assert seen["x-tenant"] == "blue"
            assert not {"x-other", "x-absent", "authorization"} & seen.keys()
        for text, head in place.server.requests:
            assert "tools/call" in text or "x-tenant" not in head


async def test_each_call_has_the_headers_of_its_own_request() -> None:
    async with gateway("x-tenant") as place:
        await call(place, **{"X-Tenant": "red"})
        assert place.call_headers()["x-tenant"] == "red"
        await call(place, **{"X-Tenant": "green"})
        assert place.call_headers()["x-tenant"] == "green"


async def test_a_client_of_the_handshake_era_has_its_headers_forwarded_per_request() -> None:
    async with gateway("x-tenant") as place:
        start = {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "tester", "version": "1"},
            },
        }
        common = {"Accept": "application/json, text/event-stream"}
        opening = await post(place.url, start, {**common, "X-Tenant": "at the start"})
        session = {"Mcp-Session-Id": opening.headers["Mcp-Session-Id"], **common}
        for number, tenant in enumerate(("red", "green"), 1):
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": CALL}
            await post(place.url, message, {**session, "X-Tenant": tenant})
            assert place.call_headers()["x-tenant"] == tenant


async def test_authorization_goes_on_only_where_it_is_listed() -> None:
    async with gateway("authorization") as place:
        await call(place)
        assert place.call_headers()["authorization"] == "Bearer of-the-client"


async def test_a_token_of_toolgate_never_goes_on() -> None:
    rules = (PermissionTable(to=("everyone",), allow=("*",)),)
    settings = Settings(auth="required", permission=rules)
    async with gateway("authorization", "x-tenant", settings=settings) as place:
        token = await place.app.gateway.admin.create_token(ME, "ann")
        await call(place, Authorization=f"Bearer {token.secret}")
        seen = place.call_headers()
        assert seen["x-tenant"] == "blue"
        assert "authorization" not in seen


async def test_a_token_of_toolgate_never_goes_on_where_none_is_needed_either() -> None:
    async with gateway("authorization", "x-tenant", "x-api-key") as place:
        token = (await place.app.gateway.admin.create_token(ME, "ann")).secret
        await call(place, **{"Authorization": f"bearer  {token}", "X-Api-Key": token})
        seen = place.call_headers()
        assert seen["x-tenant"] == "blue"
        assert not {"authorization", "x-api-key"} & seen.keys()


async def test_the_audit_has_the_names_and_never_the_values() -> None:
    async with gateway("x-tenant", "x-other", audit="full") as place:
        await call(place)
        await place.app.recorder.flush()
        records = await place.app.store.audit.select(AuditFilter(action="call"))
        assert {tuple(r.detail["forwarded_headers"]) for r in records if r.phase == "intent"} == {
            ("x-other", "x-tenant")
        }
        assert "blue" not in repr(records)
        assert "secret" not in repr(records)


async def test_explain_shows_which_headers_a_server_gets() -> None:
    async with gateway("x-tenant") as place:
        told = await place.app.gateway.manage.visibility.explain(ME, "a:echo")
        (stage,) = [stage for stage in told["stages"] if stage["stage"] == "headers"]
        assert stage["reason"] == "These client headers are forwarded to the server: x-tenant."
    async with gateway() as place:
        told = await place.app.gateway.manage.visibility.explain(ME, "a:echo")
        assert "headers" not in {stage["stage"] for stage in told["stages"]}


async def test_a_caller_never_shows_its_headers() -> None:
    caller = Caller(caller_id="a", identity=ME.identity, headers={"x-tenant": "blue"})
    assert "blue" not in repr(caller)
