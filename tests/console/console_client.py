"""The console of a gateway in memory, requested over ASGI with cookies but no browser."""

import html
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

import httpx2

from toolgate.app.app import App
from toolgate.server.http import HttpApplication, build_app
from toolgate.settings import Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Json, json_object

HOSTILE = (
    "<script>alert(1)</script> \u202egnp.exe \x07 'quoted' \"double\" {{ 7 * 7 }} " + "x" * 100_000
)
"""What a server may say about its tool."""


def notes(**more: Json) -> FakeUpstream:
    """A server with a tool that echoes, one that fails, and one that says hostile things."""

    def add(params: Json) -> Json:
        arguments = json_object(params.get("arguments"))
        return text_result(f"added {arguments.get('text')!r} {arguments.get('tags')!r}")

    definitions: dict[str, Json] = {
        "add": {
            "description": "Adds a note to the notebook.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "What to write down."},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "times": {"type": "integer"},
                    "kind": {"enum": ["short", "long"]},
                },
                "required": ["text"],
            },
        },
        "find": {"description": "Finds notes.", "annotations": {"readOnlyHint": True}},
        "fail": {"description": "Always fails."},
        "odd": {"description": HOSTILE},
        **more,
    }
    tools: dict[str, Any] = {
        "add": add,
        "find": lambda _: text_result("two notes"),
        "fail": lambda _: text_result("it broke", isError=True),
        "odd": lambda _: text_result(HOSTILE),
    }
    return FakeUpstream(tools, definitions=definitions)


@dataclass
class Console:
    """A console that is open."""

    app: App
    door: HttpApplication
    client: httpx2.AsyncClient

    async def page(self, path: str = "", status: int = 200, **query: str) -> str:
        """A page, after a check of what every page must have."""
        name, _, given = path.partition("?")
        wanted = {**dict(parse_qsl(given)), **query}
        response = await self.client.get(f"/console/{name}".rstrip("/"), params=wanted)
        assert response.status_code == status, response.text[:2000]
        return self.checked(response)

    async def send(self, path: str, status: int = 303, **fields: Any) -> httpx2.Response:
        """Send a form as the page has it, with its hidden token."""
        csrf = fields.pop("csrf", None) or await self.csrf()
        response = await self.client.post(f"/console/{path}", data={"csrf": csrf, **fields})
        assert response.status_code == status, visible_text(response.text)
        return response

    async def csrf(self) -> str:
        """What forms carry for this browser."""
        for path in ("login", "tokens"):
            text = (await self.client.get(f"/console/{path}")).text
            if found := re.search(r'name="csrf" value="([0-9a-f]+)"', text):
                return found[1]
        raise AssertionError("no page has a form")

    @staticmethod
    def checked(response: httpx2.Response) -> str:
        """The text of an answer, whose policy holds."""
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in policy
        text = response.text
        assert "<script>" not in text
        assert " style=" not in text
        assert not re.search(r"\son[a-z]+=", text)
        return text


def visible_text(text: str) -> str:
    """What a page says, without its markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text.replace("<wbr>", ""))).split())


@asynccontextmanager
async def open_console(
    servers: dict[str, object] | None = None,
    settings: Settings | None = None,
    *,
    store_url: str = "sqlite://",
) -> AsyncGenerator[Console]:
    """A console over a gateway in memory, or over a store that is somewhere."""
    wanted = replace(settings or Settings(), allow_other_users=True)
    given = {"notes": notes()} if servers is None else servers
    async with memory_app(given, wanted, store_url=store_url) as app:
        door = build_app(app)
        transport = httpx2.ASGITransport(app=door)  # pyright: ignore[reportArgumentType]
        async with httpx2.AsyncClient(
            transport=transport,
            base_url="http://127.0.0.1:7420",
            headers={"Sec-Fetch-Site": "same-origin"},
            follow_redirects=False,
        ) as client:
            yield Console(app=app, door=door, client=client)
