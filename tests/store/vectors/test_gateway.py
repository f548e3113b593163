"""The vectors of a whole gateway: kept in its store, removed with a server, shared by replicas."""

import sys
from typing import Any

import anyio
import pytest

from tests.cli.conftest import SMALL_SERVER
from tests.limits import HANG_S
from tests.store.stores import url_of
from toolgate.app.app import App
from toolgate.errors import ForbiddenError, SettingError, UnknownServerError
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.settings import SearchSettings, Settings
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller

HYBRID = Settings(optimization="hybrid")
ME = Caller.local()


SMALL = {"command": sys.executable, "args": [str(SMALL_SERVER)]}


def upstreams() -> dict[str, object]:
    return {
        "weather": fake(forecast="The weather of the next days."),
        "files": fake(read="Read a file.", write="Write a file."),
    }


def fake(**descriptions: str) -> FakeUpstream:
    async def answer(arguments: Any) -> Any:
        return {"content": []}

    return FakeUpstream(
        dict.fromkeys(descriptions, answer),
        definitions={
            name: {"name": name, "description": text, "inputSchema": {"type": "object"}}
            for name, text in descriptions.items()
        },
    )


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def url(request: pytest.FixtureRequest) -> str:
    return url_of(request.param, request)


async def wait_until_saved(app: App) -> dict[str, Any]:
    """The status of the index, once nothing goes on."""
    with anyio.fail_after(HANG_S):
        while True:
            status = (await app.gateway.manage.vectors.status(ME))["searches"][0]
            if status["phase"] == "idle" and not status["backlog"]:
                return status
            await anyio.lowlevel.checkpoint()


async def test_a_second_gateway_embeds_nothing(url: str) -> None:
    """Two replicas on one PostgreSQL share their vectors; so do two processes on one file."""
    async with memory_app(upstreams(), HYBRID, store_url=url) as first:
        before = await wait_until_saved(first)
        async with memory_app(upstreams(), HYBRID, store_url=url) as second:
            after = await wait_until_saved(second)
            found = await second.gateway.discovery.discover(
                ME, DiscoverRequest(queries=("tomorrow's rain",))
            )

    assert before["counted"]["embedding"]["document"]["texts"] == 9
    assert after["counted"]["embedding"]["document"]["texts"] == 0
    assert after["counted"]["vectors_loaded"] == 3
    assert found.results[0].tool_key == "weather:forecast"


async def test_a_removed_server_takes_its_vectors_along(url: str) -> None:
    async with memory_app({}, HYBRID, store_url=url) as app:
        for name in ("one", "two"):
            await app.gateway.manage.servers.add(ME, name, SMALL)
        await app.gateway.servers.wait_ready(HANG_S)
        assert (await wait_until_saved(app))["kept"]["vectors"] == 6

        await app.gateway.manage.servers.remove(ME, "one")

        status = await wait_until_saved(app)
        assert (status["tools"], status["kept"]["tools"], status["kept"]["vectors"]) == (3, 3, 3)

        await app.gateway.manage.servers.add(ME, "one", SMALL)
        await app.gateway.servers.wait_ready(HANG_S)
        assert (await wait_until_saved(app))["kept"]["vectors"] == 6


async def test_who_may_not_change_servers_may_not_change_the_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with memory_app(upstreams(), HYBRID) as app:
        await wait_until_saved(app)
        decide = app.permissions.policy.decide

        def refuse(caller: Caller, action: Any, target: str) -> Any:
            verdict = decide(caller, action, target)
            is_managing = (action, target) == ("right", "manage")
            return type(verdict)(allowed=False, rule="test") if is_managing else verdict

        monkeypatch.setattr(app.permissions.policy, "decide", refuse)
        for work in (
            app.gateway.manage.vectors.refresh(ME),
            app.gateway.manage.vectors.refresh(ME, "files"),
            app.gateway.manage.vectors.remove(ME, "files"),
        ):
            with pytest.raises(ForbiddenError):
                await work


async def test_the_verbs_name_what_is_not_there() -> None:
    async with memory_app(upstreams(), HYBRID) as app:
        with pytest.raises(UnknownServerError):
            await app.gateway.manage.vectors.refresh(ME, "nope")
        with pytest.raises(UnknownServerError):
            await app.gateway.manage.vectors.remove(ME, "nope")
        assert await app.gateway.manage.vectors.refresh(ME, "files") == 2
    async with memory_app(upstreams(), Settings(optimization="bm25")) as app:
        assert (await app.gateway.manage.vectors.status(ME))["searches"] == []
        with pytest.raises(SettingError, match="has no vectors"):
            await app.gateway.manage.vectors.refresh(ME)


async def test_vectors_may_stay_in_memory() -> None:
    """`search.vectors = "off"`."""
    settings = Settings(optimization="hybrid", search=SearchSettings(vectors="off"))
    async with memory_app(upstreams(), settings) as app:
        status = await wait_until_saved(app)

    assert (status["vectors"], status["kept"]["is_there"]) == (3, False)
