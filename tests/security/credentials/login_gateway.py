"""A gateway whose server requires a login, and a user with a browser."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import anyio

from tests.limits import HANG_S
from toolgate.app.app import App, open_app
from toolgate.security.credentials import LoginView
from toolgate.settings import Settings, StoreSettings
from toolgate.testing.authorization import ProtectedServer
from toolgate.types import Caller, CredentialSpec, Identity, ServerSpec

HERE = "http://127.0.0.1:9/callback"
"""An address on the machine of who logs in; nobody listens there, answers are read off."""


def spec_of(server: ProtectedServer, **credentials: Any) -> ServerSpec:
    return ServerSpec(
        name="notes",
        kind="http",
        options={"url": server.url, "headers": {}},
        credentials=CredentialSpec(**credentials),
        era="handshake",
    )


def caller(user: str = "", *, roles: tuple[str, ...] = (), **fields: Any) -> Caller:
    """Somebody known; without a name, the person at this machine."""
    if not user:
        return Caller.local(**fields)
    identity = Identity(
        caller_id=f"id-{user}", kind="token", user=user, projects=("*",), roles=roles
    )
    return Caller(caller_id=identity.caller_id, identity=identity, **fields)


@asynccontextmanager
async def gateway(
    *specs: ServerSpec, url: str = "sqlite://", settings: Settings | None = None
) -> AsyncGenerator[App]:
    wanted = replace(settings or Settings(), servers=specs, store=StoreSettings(url=url))
    async with open_app(wanted, wait_s=HANG_S) as app:
        yield app


async def browse(url: str) -> dict[str, str]:
    """Open an address, say yes, and give what the answer brings back."""
    async with (
        aiohttp.ClientSession() as browser,
        browser.get(url, allow_redirects=False) as response,
    ):
        assert response.status == 302, await response.text()
        return dict(parse_qsl(urlsplit(response.headers["location"]).query))


async def log_in(app: App, who: Caller, **of: Any) -> LoginView:
    """A whole login, with an answer that comes back to the caller's machine."""
    begun = await app.logins.begin(who, "notes", redirect=HERE, **of)
    return await app.logins.finish(caller=who, **await browse(begun.url))


async def until_listed(app: App, who: Caller | None = None) -> None:
    """Wait until the server has said what it offers."""
    changed = anyio.Event()
    forget = app._catalog.events.on_change(lambda _: changed.set())
    try:
        with anyio.fail_after(HANG_S):
            while not app.gateway.listing.tool_views(who or caller()):
                await changed.wait()
                changed = anyio.Event()
    finally:
        forget()


@asynccontextmanager
async def logged_in(server: ProtectedServer, **credentials: Any) -> AsyncGenerator[App]:
    """A gateway whose person at this machine has logged in, with the tools listed."""
    async with gateway(spec_of(server, **credentials)) as app:
        await log_in(app, caller())
        await until_listed(app)
        yield app


async def whoami(app: App, who: Caller | None = None) -> str:
    """Whom the server takes a caller for; without a caller, the person at this machine."""
    return result_text(await app.gateway.calls.execute(who or caller(), "notes:whoami", {}))


def result_text(result: dict[str, Any]) -> str:
    """What a tool answered."""
    return result["content"][0]["text"]
