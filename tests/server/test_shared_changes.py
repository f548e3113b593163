"""What is changed in one gateway holds in another one on the same PostgreSQL database."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from tests.limits import HANG_S
from tests.postgres import PostgresServer
from toolgate.app.app import App
from toolgate.settings import Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller

pytestmark = [pytest.mark.anyio, pytest.mark.real]

ME = Caller.local()


async def revoke_token(app: App) -> None:
    await app.gateway.admin.create_token(ME, "anna")
    await app.gateway.admin.revoke_token(ME, "anna")


async def token_is_revoked(app: App) -> bool:
    return any(token.revoked_at for token in await app.gateway.admin.tokens(ME))


async def save_project(app: App) -> None:
    await app.gateway.admin.save_project(ME, "web", settings={"read_only": True}, new=True)


async def has_project(app: App) -> bool:
    return "web" in app.permissions.admin.project_names()


async def disable_server(app: App) -> None:
    servers = app.gateway.manage.servers
    await servers.add(ME, "late", {"url": "http://127.0.0.1:9/mcp"}, save=False, project="")
    await servers.enable(ME, "late", False)


async def server_is_disabled(app: App) -> bool:
    statuses = app.gateway.servers.statuses(ME)
    return any(server.name == "late" and server.state == "disabled" for server in statuses)


async def add_permission(app: App) -> None:
    await app.gateway.admin.add_permissions(ME, effect="deny", patterns=["shop"], to=["everyone"])


async def has_permission(app: App) -> bool:
    return bool(app.permissions.policy.inputs.rules)


async def replace_prompt(app: App) -> None:
    [first, *_] = await app.prompts.all("default")
    await app.prompts.replace("default", first.name, first.text + " Changed.")


async def prompt_is_replaced(app: App) -> bool:
    [first, *_] = await app.prompts.all("default")
    return first.text.endswith(" Changed.")


ROWS = {
    "a revoked token": (revoke_token, token_is_revoked),
    "a project": (save_project, has_project),
    "a permission": (add_permission, has_permission),
    "a disabled server": (disable_server, server_is_disabled),
    "a prompt": (replace_prompt, prompt_is_replaced),
}


@pytest.mark.parametrize(("change", "holds"), ROWS.values(), ids=ROWS)
async def test_a_change_in_one_replica_holds_in_the_other(
    change: Callable[[App], Awaitable[None]],
    holds: Callable[[App], Awaitable[bool]],
    postgres: PostgresServer,
) -> None:
    url = postgres.new_schema()
    shop = FakeUpstream({"buy": lambda _: text_result("bought")})
    async with (
        memory_app({"shop": shop}, Settings(), store_url=url) as one,
        memory_app({"shop": shop}, Settings(), store_url=url) as other,
    ):
        assert not await holds(other)
        await change(one)
        with anyio.fail_after(HANG_S):
            while not await holds(other):
                await anyio.sleep(0.02)
