"""What packs offer to clients: tools, prompts, resources and servers, through the gateway."""

import base64
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.limits import HANG_S
from tests.packs.pack_files import SALES, write_files
from toolgate.app.app import App, open_app
from toolgate.base.installation import install_hint
from toolgate.errors import RpcError
from toolgate.packs import server
from toolgate.settings import ModelTable, PackSettings, Settings, StoreSettings
from toolgate.testing import memory_app
from toolgate.types import Caller
from toolgate.upstream import tool

LOCAL = Caller.local(conversation="thread-7")

ORDERS = '''
from toolgate import Context, tool

from . import _texts


@tool
async def order(number: int, context: Context) -> dict[str, object]:
    """Show an order."""
    return {
        "order": f"{_texts.WORD} {number}",
        "caller": context.caller.caller_id,
        "project": context.project,
        "thread": context.thread,
        "settings": dict(context.settings),
        "connections": list(context.connections),
        "chat": context.chat,
        "has_store": context.store is not None,
    }
'''


@asynccontextmanager
async def gateway(
    folder: Path,
    files: Mapping[str, str | bytes],
    servers: Mapping[str, object] | None = None,
    **options: Any,
) -> AsyncGenerator[App]:
    """A gateway with one pack, settled."""
    write_files(folder, {"pack.toml": 'name = "sales"\n[variables]\nCOMPANY = "Acme"\n', **files})
    packs = PackSettings(paths=(str(folder),), disable=("schema",), **options)
    async with memory_app(servers or {}, Settings(packs=packs), wait_s=HANG_S) as app:
        yield app


def keys(app: App) -> list[str]:
    return [view.key for view in app.gateway.listing.tool_views(LOCAL)]


async def call(app: App, name: str, **arguments: object) -> Any:
    """What a tool answers, as a value."""
    result = await app.gateway.call(LOCAL, {"name": name, "arguments": arguments}, None)
    assert not result["isError"], result
    return result.get("structuredContent") or result["content"][0]["text"]


async def settled(app: App, wanted: set[str]) -> None:
    """Wait until exactly these tools are there."""
    changed = anyio.Event()

    def again(_: object) -> None:
        changed.set()

    detach = app.gateway.changes.on_change(again)
    with anyio.fail_after(HANG_S):
        while set(keys(app)) != wanted:
            await changed.wait()
            changed = anyio.Event()
    detach()


async def test_functions_of_a_pack_are_tools_of_a_server_with_its_name(tmp_path: Path) -> None:
    files = {"tools/orders.py": ORDERS, "tools/_texts.py": 'WORD = "order"\n'}
    async with gateway(tmp_path, files, options={"sales": {"region": "north"}}) as app:
        (view,) = app.gateway.listing.tool_views(LOCAL)
        answer = await call(app, "sales__order", number=3)

    assert view.key == "sales:order"
    assert view.definition["inputSchema"]["properties"] == {"number": {"type": "integer"}}
    assert answer == {
        "order": "order 3",
        "caller": "local",
        "project": "default",
        "thread": "thread-7",
        "settings": {"region": "north"},
        "connections": [],
        "chat": None,
        "has_store": True,
    }


SUMMARY = '''
from toolgate import Context, tool
from toolgate.models.llm import ChatRequest, Message, complete


@tool
async def summary(text: str, context: Context) -> str:
    """Say it shorter."""
    if context.chat is None:
        return "There is no model."
    asked = ChatRequest(messages=(Message(role="user", content=text),), purpose="summary")
    reply = await complete(context.chat, asked)
    return f"{context.chat.identity}: {reply.message.content}"
'''


async def test_a_tool_asks_the_chat_model_that_is_configured_at_that_time(tmp_path: Path) -> None:
    def settings(said: str | None) -> Settings:
        steps = {"steps": [{"user": "long", "say": said}]}
        models = {"main": ModelTable(provider="scripted", options=steps)} if said else {}
        packs = PackSettings(paths=(str(tmp_path),), disable=("schema",))
        return Settings(packs=packs, models=models)

    write_files(tmp_path, {"pack.toml": 'name = "sales"', "tools/summary.py": SUMMARY})
    async with memory_app({}, settings(None), wait_s=HANG_S) as app:
        answers = [await call(app, "sales__summary", text="a long story")]
        for said in ("short", "shorter"):
            await app.reload(replace(settings(said), store=app.settings.store))
            answers.append(await call(app, "sales__summary", text="a long story"))

    assert answers == ["There is no model.", "main: short", "main: shorter"]


async def test_px_4_a_broken_module_is_skipped_and_named(tmp_path: Path) -> None:
    files = {
        "tools/a_broken.py": "import no_such_module_here\n",
        "tools/b_odd.py": "from toolgate import tool\n\n\n@tool\ndef odd(*all): ...\n",
        "tools/c_good.py": SALES["tools/orders.py"],
        "tools/d_empty.py": "",
        "tools/e_twice.py": SALES["tools/orders.py"],
        "tools/f_fails.py": "def register(mcp):\n    raise ValueError('no\\nluck')\n",
    }
    async with gateway(tmp_path, files) as app:
        assert keys(app) == ["sales:order"]
        assert await call(app, "sales__order", number=1) == "order 1"
        problems = [each.removeprefix(f"{tmp_path}/tools/") for each in app.packs.current.problems]

    assert [problem.partition(". ")[0].rstrip(".") for problem in problems] == [
        "a_broken.py:1: ModuleNotFoundError: No module named 'no_such_module_here'",
        "b_odd.py: The tool 'odd' cannot be described: all cannot be passed by name",
        "d_empty.py: it has neither a function marked with @tool nor a function register or "
        "servers",
        "e_twice.py: the tool 'order' is in c_good.py already; the first counts",
        "f_fails.py:2: ValueError: no luck",
    ]


REGISTER = '''
from toolgate import Context


async def register(mcp):
    @mcp.tool
    async def refund(number: int, context: Context) -> str:
        """Refund an order."""
        return f"refunded {number} for {context.caller.caller_id} in {context.thread}"

    @mcp.tool(name="plain")
    def with_name(word: str = "x") -> str:
        """Say a word."""
        return word
'''

WITH_AUTH = '''
def register(mcp, auth):
    @auth.get("/v1/ignored")
    def ignored():
        raise AssertionError

    @mcp.tool
    def checked(word: str) -> str:
        """Say a word."""
        return word
'''

DATA = '''
async def register(mcp):
    @mcp.prompt
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    @mcp.resource("sales://numbers")
    def numbers() -> str:
        return "1 2 3"
'''


async def test_px_4_modules_register_with_the_fastmcp_api(tmp_path: Path) -> None:
    """Source document 002: `async def register(mcp)`, and with the authentication as well."""
    files = {
        "tools/orders.py": SALES["tools/orders.py"],
        "tools/refunds.py": REGISTER,
        "proxies/more.py": WITH_AUTH,
        "prompts/data.py": DATA,
        "prompts/letter.md": "# Write a letter\nDear {{customer}}, from {{COMPANY}} {{customer}}",
        "resources/terms.md": "our terms",
        "resources/deep/logo.png": b"\x89PNG\xff",
    }
    async with gateway(tmp_path, files) as app:
        listed = {view.key: view.definition for view in app.gateway.listing.tool_views(LOCAL)}
        assert app.packs.current.problems == ()
        assert [*listed] == ["sales:order", "sales:refund", "sales:plain", "sales:checked"]
        assert [*listed["sales:refund"]["inputSchema"]["properties"]] == ["number"]
        assert await call(app, "sales__order", number=1) == "order 1"
        refunded = await call(app, "sales__refund", number=2)
        assert refunded == {"result": "refunded 2 for local in thread-7"}
        assert await call(app, "sales__plain", word="a") == {"result": "a"}
        assert await call(app, "sales__checked", word="b") == {"result": "b"}

        prompts = json.loads(await app.gateway.listing.list_prompts(LOCAL))
        assert [each["name"] for each in prompts] == ["sales__letter", "sales__greet"]
        assert prompts[0]["arguments"] == [{"name": "customer", "required": True}]
        assert prompts[0]["description"] == "Write a letter"
        letter = await app.gateway.prompts.get(
            LOCAL, {"name": "sales__letter", "arguments": {"customer": "Bo"}}, None
        )
        assert letter["messages"][0]["content"]["text"].endswith("Dear Bo, from Acme Bo")
        greeting = await app.gateway.prompts.get(
            LOCAL, {"name": "sales__greet", "arguments": {"name": "Bo"}}, None
        )
        assert greeting["messages"][0]["content"]["text"] == "Hello Bo"
        with pytest.raises(RpcError, match="Missing arguments: customer"):
            await app.gateway.prompts.get(LOCAL, {"name": "sales__letter"}, None)

        resources = json.loads(await app.gateway.listing.list_resources(LOCAL))
        assert [each["uri"] for each in resources] == [
            "pack://sales/terms.md",
            "pack://sales/deep/logo.png",
            "sales://numbers",
        ]
        terms, logo, numbers = [
            (await app.gateway.resources.read(LOCAL, {"uri": each["uri"]}, None))["contents"][0]
            for each in resources
        ]
    assert (terms["text"], terms["mimeType"]) == ("our terms", "text/markdown")
    assert (logo["blob"], logo["mimeType"]) == (
        base64.b64encode(b"\x89PNG\xff").decode(),
        "image/png",
    )
    assert numbers["text"] == "1 2 3"


async def test_px_4_a_tool_that_two_modules_register_belongs_to_the_first(tmp_path: Path) -> None:
    once = """
from toolgate import Context

def refund(number: int, context: Context) -> str:
    return f"NAME {number} {context.project}"

def register(mcp):
    mcp.add_tool(refund)
    mcp.add_tool(own_NAME)

def own_NAME() -> str:
    return "NAME"
"""
    files = {f"tools/{name}.py": once.replace("NAME", name) for name in ("a", "b")}
    async with gateway(tmp_path, files) as app:
        assert keys(app) == ["sales:refund", "sales:own_a", "sales:own_b"]
        assert await call(app, "sales__refund", number=1) == {"result": "a 1 default"}
        (problem,) = app.packs.current.problems
    assert problem == (
        f"{tmp_path}/tools/b.py: the tool 'refund' is in a.py already; the first counts."
    )


async def test_without_fastmcp_only_register_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _: None)
    files = {"tools/orders.py": SALES["tools/orders.py"], "tools/refunds.py": REGISTER}
    async with gateway(tmp_path, files) as app:
        assert keys(app) == ["sales:order"]
        (problem,) = app.packs.current.problems
    assert problem.endswith(f"not installed. {install_hint('fastmcp')}.")


async def test_a_module_that_never_ends_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MODULE_S", 0.3)
    files = {
        "tools/a.py": "import anyio\n\nasync def register(mcp):\n    await anyio.sleep_forever()\n",
        "tools/orders.py": SALES["tools/orders.py"],
    }
    async with gateway(tmp_path, files) as app:
        with anyio.fail_after(HANG_S):
            assert keys(app) == ["sales:order"]
        (problem,) = app.packs.current.problems
    assert "a.py: it takes longer than 0.3 s to load" in problem


async def test_a_pack_brings_servers_along(tmp_path: Path) -> None:
    files = {
        "servers.json": json.dumps(
            {
                "mcpServers": {
                    "far": {"url": "http://127.0.0.1:9/mcp"},
                    "odd": {"url": "http://127.0.0.1:9/mcp", "colour": "red"},
                }
            }
        ),
        "proxies/more.py": (
            "async def register(mcp):\n"
            '    await mcp.add_server("added", "http://127.0.0.1:9/",'
            ' {"timeout_s": 5}, trust=False)\n'
        ),
    }
    async with gateway(tmp_path, files) as app:
        changed = anyio.Event()
        app.packs.on_change(lambda _: _told(changed))
        with anyio.fail_after(HANG_S):
            while "added" not in {each.name for each in app.gateway.servers.statuses(LOCAL)}:
                await changed.wait()
                changed = anyio.Event()
        servers = {each.name: each for each in app.gateway.servers.statuses(LOCAL)}

    assert [*servers] == ["sales", "far", "odd", "added"]
    assert servers["odd"].state == "disabled"
    assert "the key 'colour'" in str(servers["odd"].last_error)


async def test_a_command_for_a_server_that_code_adds_finds_it(tmp_path: Path) -> None:
    source = 'async def register(mcp):\n    await mcp.add_server("far", "http://127.0.0.1:9/mcp")\n'
    write_files(tmp_path / "net", {"pack.toml": 'name = "net"', "proxies/far.py": source})
    settings = Settings(
        packs=PackSettings(paths=(str(tmp_path / "net"),), disable=("schema",)),
        store=StoreSettings(url="sqlite://"),
    )

    async with open_app(settings, connect=["far"]) as app:
        assert [each.name for each in app.gateway.servers.statuses(LOCAL)] == ["net", "far"]


async def _told(changed: anyio.Event) -> None:
    changed.set()


async def test_a_server_of_the_configuration_goes_before_a_pack(tmp_path: Path) -> None:
    @tool
    def mine() -> str:
        """Mine."""
        return "mine"

    files = {"tools/orders.py": SALES["tools/orders.py"]}
    async with gateway(tmp_path, files, {"sales": [mine]}) as app:
        assert keys(app) == ["sales:mine"]
        (problem,) = app.packs.current.problems

    assert problem.startswith(f"{tmp_path}: there is a server 'sales' already, from the config")


async def test_changed_tools_are_there_without_a_restart(tmp_path: Path) -> None:
    source = SALES["tools/orders.py"]
    async with gateway(tmp_path, {"tools/orders.py": source}) as app:
        write_files(tmp_path, {"tools/orders.py": source.replace("def order(", "def purchase(")})
        await app.packs.refresh()
        await settled(app, {"sales:purchase"})
        assert await call(app, "sales__purchase", number=1) == "order 1"

        write_files(tmp_path, {"tools/orders.py": "def ("})
        await app.packs.refresh()
        assert keys(app) == ["sales:purchase"], "what worked before still does"
        assert await call(app, "sales__purchase", number=2) == "order 2"
        assert "orders.py:1: SyntaxError" in app.packs.current.problems[0]

        (tmp_path / "tools" / "orders.py").unlink()
        await app.packs.refresh()
        await settled(app, set())


async def test_calls_go_on_while_a_pack_is_exchanged(tmp_path: Path) -> None:
    """No call fails, and one that runs ends with the code that it began with."""
    slow = """
from anyio import Event
from toolgate import tool

CALLED, GO_ON = Event(), Event()

@tool
async def slow() -> str:
    CALLED.set()
    await GO_ON.wait()
    return "VERSION"

@tool
async def version() -> str:
    return "VERSION"

def register(mcp):
    @mcp.tool
    def registered() -> str:
        return "VERSION"
"""
    async with gateway(tmp_path, {"tools/slow.py": slow.replace("VERSION", "one")}) as app:
        first = next(m for n, m in sys.modules.items() if n.endswith(".tools.slow"))
        answers: list[str] = []
        slowly: list[str] = []

        async def call_slowly() -> None:
            slowly.append(await call(app, "sales__slow"))

        async def call_on() -> None:
            while answers[-1:] != ["two"]:
                assert (await call(app, "sales__registered"))["result"] in {"one", "two"}
                answers.append(await call(app, "sales__version"))
                await anyio.lowlevel.checkpoint()

        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call_slowly)
                await first.CALLED.wait()
                tasks.start_soon(call_on)
                write_files(tmp_path, {"tools/slow.py": slow.replace("VERSION", "two")})
                await app.packs.refresh()
                await settled(app, {"sales:slow", "sales:version", "sales:registered"})
                while answers[-1:] != ["two"]:
                    await anyio.lowlevel.checkpoint()
                assert slowly == []
                first.GO_ON.set()

    assert slowly == ["one"]
    assert set(answers) == {"one", "two"}


async def test_new_options_are_there_without_a_restart(tmp_path: Path) -> None:
    files = {"tools/orders.py": ORDERS, "tools/_texts.py": 'WORD = "order"\n'}
    async with gateway(tmp_path, files) as app:
        assert (await call(app, "sales__order", number=3))["settings"] == {}
        on = app.settings
        packs = replace(on.packs, options={"sales": {"region": "north"}})
        await app.reload(replace(on, packs=packs))
        with anyio.fail_after(HANG_S):
            while (await call(app, "sales__order", number=3))["settings"] != {"region": "north"}:
                await anyio.lowlevel.checkpoint()


async def test_a_gateway_starts_whatever_its_packs_are_like(tmp_path: Path) -> None:
    write_files(tmp_path / "bad", {"pack.toml": "name = ["})
    write_files(tmp_path / "worse", {"pack.toml": b"\0", "tools/x.py": "raise BaseException('x')"})
    settings = Settings(packs=PackSettings(paths=(str(tmp_path), str(tmp_path / "gone"))))

    async with memory_app({}, settings) as app:
        assert await app.gateway.listing.list_tools(LOCAL)
        assert len(app.packs.current.problems) == 3


async def test_packs_are_switched_while_the_gateway_runs(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"tools/orders.py": SALES["tools/orders.py"]}) as app:
        on = app.settings
        off = replace(on.packs, disable=("schema", "sales"))
        await app.reload(replace(on, packs=off))
        assert keys(app) == []

        await app.reload(on)
        await settled(app, {"sales:order"})
        assert await call(app, "sales__order", number=1) == "order 1"
