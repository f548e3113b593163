"""A person at the official client is asked before a call runs, in both eras, over a real socket."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp import Client

from tests.limits import HANG_S
from tests.security.guards.test_approvals import Place, shop
from tests.serving import serving
from toolgate.types import Caller

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


@asynccontextmanager
async def connected(place: Place, mode: Any, **options: Any) -> AsyncGenerator[Client]:
    async with serving(place.app) as url:
        with anyio.fail_after(HANG_S):
            async with Client(f"{url}/mcp", mode=mode, **options) as client:
                yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("answer", ["accept", "decline"])
async def test_who_sits_at_the_client_is_asked_and_decides(mode: str, answer: Any) -> None:
    asked: list[str] = []

    async def elicit(_context: Any, params: Any) -> t.ElicitResult:
        asked.append(params.message)
        content: Any = {"approve": True} if answer == "accept" else None
        return t.ElicitResult(action=answer, content=content)

    async with shop() as place, connected(place, mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("shop__refund", {"order": 1})
        found = await place.app.gateway.approvals.search(Caller.local())
    assert len(asked) == 1
    assert asked[0].startswith('Run shop:refund with {"order": 1}?')
    assert [(one.state, one.decided_via) for one in found] == [
        ("used" if answer == "accept" else "rejected", "client")
    ]
    assert bool(result.is_error) is (answer == "decline")
    assert place.ran == ([{"order": 1}] if answer == "accept" else [])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_cannot_ask_hears_the_approval_and_calls_again(mode: str) -> None:
    async with shop() as place, connected(place, mode) as client:
        refused = await client.call_tool("shop__refund", {"order": 1})
        assert refused.is_error
        assert refused.meta is not None
        await place.decide(refused.meta["toolgate/approval"]["id"])
        assert not (await client.call_tool("shop__refund", {"order": 1})).is_error
    assert place.ran == [{"order": 1}]
