"""HTTPS without a proxy, a path of its own behind one, and other users of the machine."""

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.security.test_outbound import Authority
from tests.serving import serving
from toolgate.errors import SettingError
from toolgate.server.asgi import local_users
from toolgate.server.http import serve
from toolgate.settings import ServeSettings, Settings, TlsSettings
from toolgate.testing import memory_app


@asynccontextmanager
async def listening(settings: Settings) -> AsyncGenerator[tuple[str, Any]]:
    async with (
        memory_app({}, settings) as app,
        serving(app, key="key-of-the-run-file") as url,
    ):
        yield url, app


async def test_the_gateway_serves_https_itself(tmp_path: Path) -> None:
    """D48: `tls.cert` and `tls.key`."""
    authority = Authority(tmp_path)
    cert, key = map(str, authority.pair("gateway"))
    settings = Settings(tls=TlsSettings(cert=cert, key=key))
    context = ssl.create_default_context(cafile=authority.ca)
    async with listening(settings) as (url, app), aiohttp.ClientSession() as client:
        assert url.startswith("https://")
        assert app.logins.links.base == url
        async with client.get(f"{url}/healthz", ssl=context) as response:
            assert await response.json() == {"status": "ok"}


async def test_a_certificate_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    settings = Settings(tls=TlsSettings(cert=str(tmp_path / "none.pem")))
    async with memory_app({}, settings) as app:
        with pytest.raises(SettingError, match=r"none\.pem' cannot be used"):
            await serve(app, port=0)


async def test_behind_a_proxy_addresses_are_those_that_clients_know() -> None:
    settings = Settings(serve=ServeSettings(root_path="/tools", trusted_proxies=("127.0.0.1",)))
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "localhost"}
    async with listening(settings) as (url, app), aiohttp.ClientSession() as client:
        # The second is where RFC 9728 (section 3.1) looks without being told.
        for place in (
            "/tools/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-protected-resource/tools/mcp",
        ):
            async with client.get(f"{url}{place}", headers=forwarded) as response:
                assert (await response.json())["resource"] == "https://localhost/tools/mcp"
        assert app.logins.links.base == f"{url}/tools"


async def test_another_user_of_the_machine_gets_in_only_with_the_key_of_the_run_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D39. Whose connection it is, is in `test_proxied`."""

    async def another(*_: object) -> bool:
        return False

    monkeypatch.setattr(local_users, "is_same_user", another)
    settings = Settings(allow_other_users=False)
    async with listening(settings) as (url, _), aiohttp.ClientSession() as client:

        async def status(path: str, **headers: str) -> int:
            async with client.get(f"{url}{path}", headers=headers) as response:
                return response.status

        assert await status("/healthz") == 200
        for path in ("/api/v1/status", "/mcp", "/oauth/login/x", "/console"):
            assert await status(path) == 401, path
        async with client.get(f"{url}/console/servers") as response:
            assert response.headers["content-type"].startswith("text/html")
            page = await response.text()
            assert "for the user that runs it" in page
            assert "allow_other_users" in page
            assert 'aria-label="Pages"' not in page
        assert await status("/console/static/console.css") == 200
        assert await status("/api/v1/status", **{"X-Toolgate-Key": "key-of-the-run-file"}) == 200
        assert await status("/api/v1/status", **{"X-Toolgate-Key": "wrong"}) == 401
