"""Two gateways on one store behind a round robin: what one is told or decides, the other knows."""

import contextlib
import itertools
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import anyio
import pytest

from tests.limits import HANG_S
from tests.server.http_gateway import INITIALIZE, headers_for, modern, post
from tests.serving import serving
from tests.store.stores import BOTH, url_of
from toolgate.app.app import App
from toolgate.catalog.scanner import QuarantineMode
from toolgate.settings import ApprovalSettings, GuardTable, PermissionTable, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json
from toolgate.upstream import ToolContext, tool

pytestmark = BOTH

ME = Caller.local()
ACCEPT = {"action": "accept", "content": {"approve": True}}
FORMS = {"clientCapabilities": {"elicitation": {"form": {}}}}
SETTINGS = Settings(
    auth="required",
    mode="all",
    permission=(PermissionTable(to=("everyone",), allow=("shop", "people")),),
    guard=(GuardTable(tools=("shop:refund",), approver="user"),),
)


@tool(name="ask")
async def ask_somebody(context: ToolContext) -> str:
    """Asks in the middle of its call, as servers of the handshake era do."""
    answer = await context.ask("elicitation/create", {"message": "Name?"})
    return str(answer["content"])


@dataclass
class Replicas:
    """Doors on one store, and what reached the servers behind them."""

    apps: list[App] = field(default_factory=list[App])
    urls: list[str] = field(default_factory=list[str])
    ran: list[Json] = field(default_factory=list[Json])

    async def token(self, name: str) -> str:
        """A token made in the first, once the others know it."""
        secret = (await self.apps[0].gateway.admin.create_token(ME, name)).secret
        for app in self.apps:
            await app.gateway.admin.tokens(ME)  # looks at the store
        return secret

    async def until(self, url: str, message: Json, token: str, status: int) -> None:
        """Wait until a door answers so."""
        with anyio.fail_after(HANG_S):
            while (await post(url, message, shown(message, token))).status != status:
                await anyio.sleep(0.02)


def shown(message: Json, token: str) -> dict[str, str]:
    return {**headers_for(message), "Authorization": f"Bearer {token}"}


def call(name: str, arguments: Json | None = None, /, **more: Any) -> Json:
    params = {"name": name, "arguments": arguments or {}, **more}
    return modern("tools/call", params, **FORMS)


@asynccontextmanager
async def replicas(
    kind: str,
    request: pytest.FixtureRequest,
    *,
    wait_s: float = 0.0,
    quarantine: QuarantineMode = "suspicious",
) -> AsyncGenerator[Replicas]:
    """Two real doors on ports of their own; calls wait `wait_s` for an approval."""
    settings = replace(SETTINGS, approvals=ApprovalSettings(wait_s=wait_s), quarantine=quarantine)
    found, store = Replicas(), url_of(kind, request)

    def refund(params: Json) -> Json:
        found.ran.append(params["arguments"])
        return text_result("refunded")

    def choose(params: Json) -> Json:
        if "inputResponses" in params:
            return text_result(
                f"{params['requestState']} {params['inputResponses']['q']['action']}"
            )
        asked = {"method": "elicitation/create", "params": {"message": "Which?"}}
        return {
            "resultType": "input_required",
            "inputRequests": {"q": asked},
            "requestState": "theirs",
        }

    shop = FakeUpstream(
        {"refund": refund, "choose": choose},
        prompts=({"name": "greet"},),
        instructions="Ask before a refund.",
    )
    async with AsyncExitStack() as stack:
        for _ in range(2):
            servers = {"shop": shop, "people": [ask_somebody]}
            app = await stack.enter_async_context(memory_app(servers, settings, store_url=store))
            found.urls.append(await stack.enter_async_context(serving(app, key="k" * 43)))
            found.apps.append(app)
        yield found


async def test_requests_of_both_eras_may_go_to_any_of_them(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """D51. A session of the handshake era is opened in one and used in both."""
    async with replicas(kind, request) as place:
        token = await place.token("anna")
        names: list[list[str]] = []
        for url in place.urls * 2:
            listing = modern("tools/list")
            answer = await post(url, listing, shown(listing, token))
            names.append([one["name"] for one in answer.result["tools"]])
        plain = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {token}",
        }
        opened = await post(place.urls[0], INITIALIZE, plain)
        session = plain | {
            "Mcp-Session-Id": opened.headers["Mcp-Session-Id"],
            "MCP-Protocol-Version": "2025-11-25",
        }
        ring = itertools.cycle(place.urls[::-1])
        told = await post(
            next(ring), {"jsonrpc": "2.0", "method": "notifications/initialized"}, session
        )
        assert told.status == 202
        for number in range(4):
            listing = {"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {}}
            answer = await post(next(ring), listing, session)
            assert answer.status == 200, answer.body
            names.append([one["name"] for one in answer.result["tools"]])
    assert {"shop__refund", "shop__choose", "people__ask"} <= set(names[0])
    assert all(each == names[0] for each in names)


@pytest.mark.parametrize("is_used", [False, True], ids=["parked", "with the SDK"])
async def test_a_session_that_is_ended_in_one_has_ended_in_the_other(
    kind: str, request: pytest.FixtureRequest, is_used: bool
) -> None:
    """Decision 64, within two seconds: PostgreSQL announces it."""
    if kind != "postgres":
        pytest.skip("replicas use PostgreSQL")
    async with replicas(kind, request) as place, aiohttp.ClientSession() as http:
        plain = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {await place.token('anna')}",
        }
        opened = await post(place.urls[0], INITIALIZE, plain)
        session = plain | {
            "Mcp-Session-Id": opened.headers["Mcp-Session-Id"],
            "MCP-Protocol-Version": "2025-11-25",
        }
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        level = {"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel"}
        level["params"] = {"level": "error"}
        for url in place.urls:
            assert (await post(url, level if is_used else listing, session)).status == 200
        async with http.delete(f"{place.urls[0]}/mcp", headers=session) as answer:
            assert answer.status == 200
        with anyio.fail_after(2):
            while (await post(place.urls[1], listing, session)).status != 404:
                await anyio.sleep(0.02)
        assert (await post(place.urls[1], level, session)).status == 404
        assert (await post(place.urls[0], level, session)).status == 404


async def test_a_call_that_waits_in_one_is_approved_in_another(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """And runs once, where it waits."""
    async with (
        replicas(kind, request, wait_s=HANG_S) as place,
        anyio.create_task_group() as tasks,
    ):
        token = await place.token("anna")
        one, other = place.apps
        message = modern("tools/call", {"name": "shop__refund", "arguments": {"order": 1}})
        answers: list[Json] = []

        async def wait() -> None:
            answers.append((await post(place.urls[0], message, shown(message, token))).result)

        tasks.start_soon(wait)
        with anyio.fail_after(HANG_S):
            while not (waiting := await other.gateway.approvals.search(ME, state="waiting")):
                await anyio.sleep(0.01)
            code = other.gateway.approvals.code(ME, waiting[0], via="console")
            await other.gateway.approvals.decide(
                ME, waiting[0].approval_id, approve=True, via="rest", code=code
            )
            while not answers:
                await anyio.sleep(0.01)
        assert answers[0]["content"][0]["text"] == "refunded"
        assert place.ran == [{"order": 1}]
        assert one.gateway.listing.tool_views(ME)


async def test_a_question_asked_by_one_is_answered_to_another(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Whether Toolgate asks or a server: all that is needed travels in the signed state."""
    async with replicas(kind, request) as place:
        token = await place.token("anna")
        for name, answered in (("shop__refund", "refunded"), ("shop__choose", "theirs accept")):
            message = call(name, {"order": 1})
            asked = (await post(place.urls[0], message, shown(message, token))).result
            assert asked["resultType"] == "input_required", asked
            back = call(
                name,
                {"order": 1},
                requestState=asked["requestState"],
                inputResponses=dict.fromkeys(asked["inputRequests"], ACCEPT),
            )
            result = (await post(place.urls[1], back, shown(back, token))).result
            assert result["content"][0]["text"] == answered
            if name == "shop__refund":  # good once, wherever it is shown again
                for url in place.urls:
                    again = (await post(url, back, shown(back, token))).result
                    assert again["isError"] is True
        assert place.ran == [{"order": 1}]


async def test_a_call_that_is_parked_in_one_is_said_to_be_gone_by_another(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """D51: a server of the handshake era waits in one process, and only there it goes on."""
    async with replicas(kind, request) as place:
        token = await place.token("anna")
        message = call("people__ask")
        asked = (await post(place.urls[0], message, shown(message, token))).result
        back = call(
            "people__ask",
            requestState=asked["requestState"],
            inputResponses=dict.fromkeys(asked["inputRequests"], ACCEPT),
        )
        refused = (await post(place.urls[1], back, shown(back, token))).result
        assert refused["isError"] is True
        assert refused["_meta"]["toolgate/error"]["code"] == "handle"
        assert "again" in refused["content"][0]["text"]
        result = (await post(place.urls[0], back, shown(back, token))).result
        assert "approve" in result["content"][0]["text"]


async def test_what_is_taken_away_in_one_ends_requests_and_streams_of_another(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """A token within a second; a guard that is made holds as soon."""
    async with replicas(kind, request) as place, aiohttp.ClientSession() as http:
        token = await place.token("anna")
        listen = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        stream = await http.post(f"{place.urls[1]}/mcp", json=listen, headers=shown(listen, token))
        await stream.content.readany()  # it is acknowledged
        one, other = place.apps
        wanted = {"tools": ["shop:choose"], "max_argument_bytes": 5}
        await one.gateway.admin.add_guard(ME, wanted)
        message = call("shop__choose", {"order": 123456})
        with anyio.fail_after(HANG_S):
            while "5 are allowed" not in str(
                (await post(place.urls[1], message, shown(message, token))).result
            ):
                await anyio.sleep(0.02)

        await one.gateway.admin.revoke_token(ME, "anna")
        listing = modern("tools/list")
        assert (await post(place.urls[0], listing, shown(listing, token))).status == 401
        await place.until(place.urls[1], listing, token, 401)
        with anyio.fail_after(HANG_S), contextlib.suppress(aiohttp.ClientError):
            while await stream.content.readany():
                pass
        stream.close()
        assert other.gateway.admin.problem_of((await other.store.access.tokens())[0])


async def test_a_decision_about_the_quarantine_in_one_holds_in_the_other(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Approved in one, a tool is listed by the other; rejected in one, it is so in the other."""
    async with replicas(kind, request, quarantine="new") as place:
        token = await place.token("anna")
        one, other = (app.gateway.manage.quarantine for app in place.apps)
        discover, prompts = modern("server/discover"), modern("prompts/list")
        answer = await post(place.urls[1], discover, shown(discover, token))
        assert "Ask before a refund." not in answer.result["instructions"]
        assert {tool.key for tool in await other.entries(ME)} >= {"shop:refund", "shop:choose"}

        await one.decide(ME, "shop", "refund", accept=True)
        await one.decide(ME, "shop", "choose", accept=False)
        await one.decide(ME, "shop", "greet", kind="prompt", accept=True)
        await one.decide(ME, "shop", "instructions", kind="instructions", accept=True)

        listing, names = modern("tools/list"), set[str]()
        with anyio.fail_after(HANG_S):
            while "shop__refund" not in names:
                await anyio.sleep(0.02)
                answer = await post(place.urls[1], listing, shown(listing, token))
                names = {entry["name"] for entry in answer.result["tools"]}
            while {tool.key: tool.state for tool in await other.entries(ME)}[
                "shop:choose"
            ] != "rejected":
                await anyio.sleep(0.02)
            said = ""
            while "shop: Ask before a refund." not in said:
                await anyio.sleep(0.02)
                answer = await post(place.urls[1], discover, shown(discover, token))
                said = answer.result["instructions"]
            answer = await post(place.urls[1], prompts, shown(prompts, token))
        assert [prompt["name"] for prompt in answer.result["prompts"]] == ["shop__greet"]
        assert "shop__choose" not in names
