"""Several gateways on one store: what one is given, all show; what is renewed, is so once."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from tests.limits import HANG_S
from tests.security.credentials.login_gateway import (
    caller,
    gateway,
    log_in,
    spec_of,
    until_listed,
    whoami,
)
from tests.store.stores import BOTH, url_of
from toolgate.app.app import App
from toolgate.errors import CredentialError, LoginNeededError, UnreachableError
from toolgate.security.access import PresentedCredentials
from toolgate.security.access.access_data import POLL_S
from toolgate.settings import ResultSettings, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.testing.authorization import AuthorizationServer, ProtectedServer

pytestmark = BOTH


@asynccontextmanager
async def replicas(
    notes: ProtectedServer, url: str, count: int = 3, settings: Settings | None = None
) -> AsyncGenerator[list[App]]:
    async with AsyncExitStack() as stack:
        spec = spec_of(notes, type="oauth")
        yield [
            await stack.enter_async_context(gateway(spec, url=url, settings=settings))
            for _ in range(count)
        ]


async def test_a_login_in_one_replica_holds_in_all_and_is_renewed_by_one(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Two that show one refresh token would end the login (RFC 9700, section 4.14.2)."""
    url = url_of(kind, request)
    async with (
        AuthorizationServer().running() as authorization,
        ProtectedServer(authorization).running() as notes,
        replicas(notes, url) as apps,
    ):
        await log_in(apps[0], caller())
        for app in apps:
            await until_listed(app)
        authorization.expire_tokens()
        authorization.asked.clear()
        answers: list[str] = []

        async def call(app: App) -> None:
            answers.append(await whoami(app))

        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as tasks:
                for app in apps * 3:
                    tasks.start_soon(call, app)
        assert answers == ["anna"] * 9
        assert [form["grant_type"] for form in authorization.asked] == ["refresh_token"]

        assert await apps[1].logins.remove(caller(), "notes")
        for app in apps:
            with anyio.fail_after(HANG_S):
                await until_refused(app)


async def until_refused(app: App) -> None:
    while True:
        try:
            await whoami(app)
        except LoginNeededError:
            return
        except UnreachableError:
            pass  # the server refused what had ended before this replica heard of it
        await anyio.sleep(0.01)


async def test_a_token_that_is_revoked_in_one_replica_is_refused_in_others_within_a_second(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """At once in the same process, within a second in other replicas."""
    url = url_of(kind, request)
    settings = Settings(auth="required")
    async with (
        AuthorizationServer().running() as authorization,
        ProtectedServer(authorization).running() as notes,
        replicas(notes, url, 2, settings) as (one, other),
    ):
        made = await one.gateway.admin.create_token(caller(), "anna")
        shown = PresentedCredentials(authorization=f"Bearer {made.secret}")
        await other.gateway.admin.tokens(caller())  # looks at the store
        await other.gateway.admission.admit(shown)
        await one.gateway.admin.revoke_token(caller(), "anna")
        with pytest.raises(CredentialError):
            await one.gateway.admission.admit(shown)
        with anyio.fail_after(HANG_S):
            while True:
                try:
                    await other.gateway.admission.admit(shown)
                except CredentialError:
                    break
                await anyio.sleep(0.01)
        assert POLL_S < 0.5, "each replica looks at the store more than twice a second"


async def test_servers_and_large_results_of_one_replica_are_there_in_the_others(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """D51: changes and handles hold in every replica."""
    url = url_of(kind, request)
    settings = Settings(mode="meta", results=ResultSettings(page_tokens=200))
    book = FakeUpstream({"read": lambda _: text_result("page " * 5000)})
    async with (
        memory_app({"book": book}, settings, store_url=url) as one,
        memory_app({"book": book}, settings, store_url=url) as other,
    ):
        wanted = {"name": "tool_execute", "arguments": {"toolKey": "book:read"}}
        first = await one.gateway.call(caller(), wanted, None)
        place = first["_meta"]["toolgate/page"]
        page = await other.gateway.results.read(caller(), place["handle"], place["nextOffset"])
        assert "page page" in str(page)
        config = {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "hidden"}}
        await one.gateway.manage.servers.add(caller(), "late", config, save=False, project="")
        with anyio.fail_after(HANG_S):
            while "late" not in {
                server.name for server in other.gateway.servers.statuses(caller())
            }:
                await anyio.sleep(0.01)
        await other.gateway.manage.servers.remove(caller(), "late")
        with anyio.fail_after(HANG_S):
            while "late" in {server.name for server in one.gateway.servers.statuses(caller())}:
                await anyio.sleep(0.01)
