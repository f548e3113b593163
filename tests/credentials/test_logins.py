"""Logins at servers: found, made, shown, renewed, ended."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from tests.credentials.places import HERE, browse, caller, gateway, log_in, said, spec_of
from toolgate.errors import ForbiddenError, HandleError, InvalidAnswerError, LoginNeededError
from toolgate.testing.authorization import AuthorizationServer, ProtectedServer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def authorization() -> AsyncGenerator[AuthorizationServer]:
    async with AuthorizationServer().running() as server:
        yield server


@pytest.fixture
async def notes(authorization: AuthorizationServer) -> AsyncGenerator[ProtectedServer]:
    async with ProtectedServer(authorization).running() as server:
        yield server


async def test_a_server_that_wants_a_login_says_how_and_works_after_it(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    async with gateway(spec_of(notes)) as app:
        with pytest.raises(Exception, match="toolgate servers login notes"):
            await app.gateway.execute(caller(), "notes:whoami", {})
        view = await log_in(app, caller(), authorization)
        assert (view.state, view.form, view.renews) == ("good", "oauth", True)
        with anyio.fail_after(20):
            await app.gateway.wait_ready(10)
            while not app.gateway.tools(caller()):
                await anyio.sleep(0.01)
        assert said(await app.gateway.execute(caller(), "notes:whoami", {})) == "anna"
