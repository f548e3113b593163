"""What is changed in one gateway holds in another one on the same PostgreSQL database."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import pytest

from tests.limits import HANG_S
from tests.postgres import PostgresServer
from toolgate.app.app import App
from toolgate.errors import CredentialError
from toolgate.security.access import PresentedCredentials
from toolgate.settings import Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller

pytestmark = pytest.mark.real

ME = Caller.local()


@dataclass(frozen=True)
class Row:
    """A change that one gateway is told, and how it shows in another."""

    change: Callable[[App], Awaitable[object]]
    holds: Callable[[App], Awaitable[bool]]
    prepare: Callable[[App], Awaitable[object]] | None = None
    """What there is before, which the other gateway has to know too."""


async def save_project(app: App) -> None:
    await app.gateway.admin.save_project(ME, "web", settings={"read_only": True}, new=True)


async def has_project(app: App) -> bool:
    return "web" in app.permissions.admin.project_names()


async def add_server(app: App) -> None:
    options = {"url": "http://127.0.0.1:9/mcp"}
    await app.gateway.manage.servers.add(ME, "late", options, save=False, project="")


async def state_of_server(app: App) -> str | None:
    statuses = {server.name: server.state for server in app.gateway.servers.statuses(ME)}
    return statuses.get("late")


async def has_server(app: App) -> bool:
    return await state_of_server(app) is not None


async def server_is_disabled(app: App) -> bool:
    return await state_of_server(app) == "disabled"


async def add_disabled_server(app: App) -> None:
    await add_server(app)
    await app.gateway.manage.servers.enable(ME, "late", False)


async def add_permission(app: App) -> None:
    await app.gateway.admin.add_permissions(ME, effect="deny", patterns=["shop"], to=["everyone"])


async def remove_permission(app: App) -> None:
    [rule] = await app.gateway.admin.permissions(ME)
    await app.gateway.admin.remove_permissions(ME, [rule.permission_id])


async def shop_is_denied(app: App) -> bool:
    return bool(app.permissions.policy.inputs.rules)


async def add_guard(app: App) -> None:
    await app.gateway.admin.add_guard(ME, {"tools": ["shop:*"], "max_argument_bytes": 5})


async def remove_guard(app: App) -> None:
    [(guard_id, _)] = await app.gateway.admin.guards(ME)
    await app.gateway.admin.remove_guard(ME, guard_id)


async def shop_is_guarded(app: App) -> bool:
    return bool(app.permissions.guards)


async def rename_tool(app: App) -> None:
    await app.gateway.manage.overrides.change(ME, "shop:buy", {"name": "order"})


async def is_renamed(app: App) -> bool:
    return any(tool.shown_key == "shop:order" for tool in app.gateway.visible.tools(ME))


async def replace_prompt(app: App) -> None:
    [first, *_] = await app.prompts.all("default")
    await app.prompts.replace("default", first.name, first.text + " Changed.")


async def prompt_is_replaced(app: App) -> bool:
    [first, *_] = await app.prompts.all("default")
    return first.text.endswith(" Changed.")


def no_longer(holds: Callable[[App], Awaitable[bool]]) -> Callable[[App], Awaitable[bool]]:
    async def ended(app: App) -> bool:
        return not await holds(app)

    return ended


ROWS = {
    "a project": Row(save_project, has_project),
    "a deleted project": Row(
        lambda app: app.gateway.admin.delete_project(ME, "web"),
        no_longer(has_project),
        save_project,
    ),
    "a permission": Row(add_permission, shop_is_denied),
    "a removed permission": Row(remove_permission, no_longer(shop_is_denied), add_permission),
    "a guard": Row(add_guard, shop_is_guarded),
    "a removed guard": Row(remove_guard, no_longer(shop_is_guarded), add_guard),
    "a server": Row(add_server, has_server),
    "a disabled server": Row(
        lambda app: app.gateway.manage.servers.enable(ME, "late", False),
        server_is_disabled,
        add_server,
    ),
    "an enabled server": Row(
        lambda app: app.gateway.manage.servers.enable(ME, "late", True),
        no_longer(server_is_disabled),
        add_disabled_server,
    ),
    "a removed server": Row(
        lambda app: app.gateway.manage.servers.remove(ME, "late"),
        no_longer(has_server),
        add_server,
    ),
    "an override of a tool": Row(rename_tool, is_renamed),
    "a removed override": Row(
        lambda app: app.gateway.manage.overrides.remove(ME, "shop:buy"),
        no_longer(is_renamed),
        rename_tool,
    ),
    "a prompt": Row(replace_prompt, prompt_is_replaced),
}


async def wait_for(holds: Callable[[App], Awaitable[bool]], app: App) -> None:
    with anyio.fail_after(HANG_S):
        while not await holds(app):
            await anyio.sleep(0.02)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_a_change_in_one_replica_holds_in_the_other(
    row: Row, postgres: PostgresServer
) -> None:
    """Requests of the other show it by themselves: no test asks it to look at the store."""
    url = postgres.new_schema()
    shop = FakeUpstream({"buy": lambda _: text_result("bought")})
    async with (
        memory_app({"shop": shop}, Settings(), store_url=url) as first,
        memory_app({"shop": shop}, Settings(), store_url=url) as second,
    ):
        if row.prepare is not None:
            await row.prepare(first)
            await wait_for(no_longer(row.holds), second)
        assert not await row.holds(second)
        await row.change(first)
        await wait_for(row.holds, second)
        assert await row.holds(first)


async def test_tokens_of_one_replica_hold_in_the_other(postgres: PostgresServer) -> None:
    """Made, rotated, revoked and deleted: each is noticed by who shows the token elsewhere."""
    url, settings = postgres.new_schema(), Settings(auth="required")
    async with (
        memory_app({}, settings, store_url=url) as first,
        memory_app({}, settings, store_url=url) as second,
    ):

        async def is_accepted(secret: str) -> bool:
            shown = PresentedCredentials(authorization=f"Bearer {secret}")
            try:
                await second.gateway.admission.admit(shown)
            except CredentialError:
                return False
            return True

        async def until_accepted(secret: str, expected: bool) -> None:
            with anyio.fail_after(HANG_S):
                while await is_accepted(secret) is not expected:
                    await anyio.sleep(0.02)

        admin = first.gateway.admin
        anna, ben = [(await admin.create_token(ME, name)).secret for name in ("anna", "ben")]
        await until_accepted(anna, True)
        await until_accepted(ben, True)
        renewed = (await admin.rotate_token(ME, "anna")).secret
        await until_accepted(anna, False)
        await until_accepted(renewed, True)
        await admin.revoke_token(ME, "anna")
        await until_accepted(renewed, False)
        await admin.delete_token(ME, "ben")
        await until_accepted(ben, False)
