"""The example package adds a backend of each kind from outside, without a change in the core."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.limits import HANG_S
from toolgate.app.app import open_app
from toolgate.base import plugins
from toolgate.base.plugins import available, make
from toolgate.errors import OptionError, SettingError, ToolgateError
from toolgate.search import SearchableTool, SearchRequest, SearchStrategy
from toolgate.security.authn import Authenticator
from toolgate.server.http import build_app
from toolgate.settings import data_dir, load, redact
from toolgate.store import make_store
from toolgate.testing.contracts.authn import AuthenticatorContract
from toolgate.testing.contracts.search import SearchContract
from toolgate.testing.contracts.store import StoreContract
from toolgate.testing.contracts.upstream import MAX_MESSAGE_BYTES, MakeWire, TextWireContract
from toolgate.testing.echo_server import EchoServer
from toolgate.types import PluginSpec
from toolgate.upstream import Wire

pytestmark = pytest.mark.xdist_group("plugins")
"""In the same process: pip installs the package once, not once per worker."""

PACKAGE = Path(__file__).parents[2] / "examples" / "plugins"
SECRET = "0123456789abcdef" * 2
LOCAL_KEY = "k" * 43


@pytest.fixture(scope="session")
def installed_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip has installed the package into."""
    pytest.importorskip("hatchling", reason="hatchling, the build backend, is not installed")
    folder = tmp_path_factory.mktemp("plugins")
    install = ("install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    subprocess.run(
        [sys.executable, "-m", "pip", *install, "--target", folder, PACKAGE],
        check=True,
        timeout=HANG_S,
    )
    return folder


read_entry_points = cache(plugins._installed.__wrapped__)
"""Of all packages, those of the example among them: reading them takes 6 ms for each kind."""


@pytest.fixture(autouse=True)
def entry_points(installed_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is importable here and in child processes; the data folder is a new one."""
    monkeypatch.syspath_prepend(str(installed_package))
    monkeypatch.setenv("PYTHONPATH", str(installed_package))
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "data"))
    monkeypatch.setattr(plugins, "_installed", read_entry_points)


def built(kind: str, contract: type[Any], name: str, **options: object) -> Any:
    """An implementation as the gateway makes it."""
    spec = PluginSpec(name=name, setting="test", options=options)
    return make(kind, contract, spec, {"max_message_bytes": MAX_MESSAGE_BYTES})


class TestNamed(StoreContract):
    @pytest.fixture
    def store_url(self) -> str:
        return "named://team"


@asynccontextmanager
async def listening(path: Path | None = None) -> AsyncGenerator[str]:
    """An MCP server on a socket: on a Unix domain socket, or on a free TCP port."""
    writers: set[asyncio.StreamWriter] = set()
    tasks: set[asyncio.Task[None]] = set()

    def crash() -> None:
        for writer in writers:
            writer.transport.abort()

    echo = EchoServer(crash=crash)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def send(text: bytes) -> None:
            writer.write(text + b"\n")
            await writer.drain()

        writers.add(writer)
        try:
            while line := await reader.readline():
                task = asyncio.create_task(echo.handle(line, send, send))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        except ConnectionError:
            pass
        finally:
            writers.discard(writer)
            writer.close()

    if path is None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**27)
        url = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    else:
        server = await asyncio.start_unix_server(serve, path, limit=2**27)
        url = f"unix://{path}"
    try:
        yield url
    finally:
        server.close()
        crash()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class TestSocket(TextWireContract):
    @pytest.fixture
    async def make_wire(self) -> AsyncGenerator[MakeWire]:
        async with listening() as url:
            yield lambda: built("transport", Wire, "socket", url=url)

    @pytest.fixture
    def unreachable_wire(self) -> Wire:
        return built("transport", Wire, "socket", url="tcp://127.0.0.1:9")


class TestTrigram(SearchContract):
    @pytest.fixture
    def make_strategy(self) -> Callable[[], SearchStrategy]:
        return lambda: built("search", SearchStrategy, "trigram")


def signed(*, secret: str = SECRET, expires_in_s: float = 60.0, user: str = "anna") -> str:
    sign = import_module("toolgate_example_plugins.signed").sign
    return sign(secret, user, roles=["member"], projects=["*"], expires=time.time() + expires_in_s)


class TestSigned(AuthenticatorContract):
    @pytest.fixture
    def authenticator(self) -> Authenticator:
        return built("authenticator", Authenticator, "signed", secret=SECRET)

    @pytest.fixture
    def valid(self) -> str:
        return signed()

    @pytest.fixture
    def bad(self) -> tuple[str, ...]:
        token = signed()
        return (
            token[:-1],
            token[:-1] + ("0" if token[-1] != "0" else "1"),
            token.replace("sig_", "sig_A"),
            signed(secret="another secret" * 3),
            signed(expires_in_s=-1),
            signed(user=""),
            signed(user="x" * 5_000),
            "sig_" + "é" * 30,
        )


def test_settings_may_use_the_names_beside_ours() -> None:
    for kind, name in (
        ("store", "named"),
        ("transport", "socket"),
        ("search", "trigram"),
        ("authenticator", "signed"),
    ):
        assert name in available(kind)
        assert plugins.installed(kind) == [name]


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        ("store", "named", {"url": "named://../up"}),
        ("store", "named", {"url": "named://"}),
        ("transport", "socket", {"url": "tcp://host"}),
        ("transport", "socket", {"url": "tcp://host:x"}),
        ("transport", "socket", {"url": "http://host:1"}),
        ("search", "trigram", {"minimum": 0.0}),
        ("search", "trigram", {"weak": 2.0}),
        ("authenticator", "signed", {"secret": "short"}),
    ],
)
def test_wrong_options_are_refused(kind: str, name: str, options: dict[str, object]) -> None:
    with pytest.raises(OptionError) as caught:
        built(kind, object, name, **options)

    assert "short" not in str(caught.value).split("too")[0]


async def test_trigrams_forgive_typing_errors() -> None:
    strategy: SearchStrategy = built("search", SearchStrategy, "trigram")
    tools = [
        SearchableTool(key=f"mail:{name}", server="mail", name=name, description=description)
        for name, description in (("send", "Send a message."), ("find", "Find a forecast."))
    ]
    await strategy.update(tools)

    answer = await strategy.search(SearchRequest(queries=("forcast",)))

    assert [hit.key for hit in answer.hits][:1] == ["mail:find"]


@pytest.mark.skipif(sys.platform == "win32", reason="asyncio has no Unix domain sockets there")
async def test_a_unix_domain_socket_works_as_well(tmp_path: Path) -> None:
    async with listening(tmp_path / "s") as url:
        wire: Wire = built("transport", Wire, "socket", url=url)
        await wire.open(None)  # pyright: ignore[reportArgumentType] -- it reports nothing here
        with anyio.fail_after(HANG_S):
            assert "tools" in await wire.request("tools/list", {}, headers={})
        await wire.aclose()


CONFIG = """
auth = "required"
optimization = "trigram"

[store]
url = "named://team"

[authn]
order = ["token", "signed"]

[authn.options.signed]
secret = "${env:SIGNING_SECRET}"

[server.echo]
type = "socket"

[server.echo.options]
url = "${env:ECHO_URL}"
"""


def configured(folder: Path, text: str = CONFIG) -> Path:
    config = folder / "toolgate.toml"
    config.write_text(text, encoding="utf-8")
    return config


async def test_a_gateway_works_with_all_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNING_SECRET", SECRET)
    async with listening() as url:
        monkeypatch.setenv("ECHO_URL", url)
        async with open_app(load(configured(tmp_path)), wait_s=HANG_S) as app:
            transport = httpx2.ASGITransport(app=build_app(app, key=LOCAL_KEY))
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:7420"
            ) as client:
                body = {"toolKey": "echo:echo", "arguments": {"text": "over a socket"}}
                refused = await client.post("/api/v1/execute", json=body)
                client.headers["Authorization"] = f"Bearer {signed()}"
                called = await client.post("/api/v1/execute", json=body)
                found = await client.post("/api/v1/discover", json={"query": "an eco tool"})

        assert refused.status_code == 401
        assert called.status_code == 200, called.text
        assert "over a socket" in json.dumps(called.json())
        assert found.status_code == 200, found.text
        assert "trigrams" in found.text
    assert (data_dir() / "team.db").is_file()
    assert make_store("named://team").url == "named://team"


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ('type = "socket"\nurl = "http://h/"', "has a url, which the transport 'socket' does not"),
        ('type = "sockets"\noptions = { url = "x" }', "Allowed: stdio, http, sse, socket."),
    ],
)
def test_tables_of_servers_are_checked(tmp_path: Path, table: str, problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        load(configured(tmp_path, f"[server.a]\n{table}"))


def test_a_missing_variable_disables_the_server(tmp_path: Path) -> None:
    text = '[server.a]\ntype = "socket"\noptions = { url = "${env:NO_SUCH_URL}" }'
    [server] = load(configured(tmp_path, text)).servers

    assert not server.enabled
    assert "NO_SUCH_URL" in server.problem


def test_options_of_a_plugin_are_not_shown() -> None:
    shown = redact({"type": "socket", "options": {"url": "tcp://me:secret@h:1", "key": "${env:K}"}})

    assert shown["options"] == {"url": "***", "key": "${env:K}"}


def test_a_plugin_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_installed", lambda kind: {})

    with pytest.raises(ToolgateError, match="'socket'"):
        load(configured(tmp_path, '[server.a]\ntype = "socket"\noptions = { url = "x" }'))
    with pytest.raises(ToolgateError, match="'named'"):
        load(configured(tmp_path, '[store]\nurl = "named://team"'))
