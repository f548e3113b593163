"""A chat session in the terminal, with the running gateway or one started for it."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiohttp

from toolgate.app.app import open_app
from toolgate.base.ids import new_id
from toolgate.cli.client._http_exchange import project_header
from toolgate.cli.client._local_gateway import silence_logs
from toolgate.cli.client._open_gateway import find_running
from toolgate.cli.terminal._output import note, spinner
from toolgate.cli.terminal._sanitize import sanitize
from toolgate.errors import ModelUnavailableError
from toolgate.server.http import serve
from toolgate.settings import Settings
from toolgate.types import Json, json_array, json_object

_PREVIEW_CHARS = 160
"""Characters shown of arguments and results of a tool call (chosen: two terminal lines)."""

_STARTUP_TIMEOUT_S = 30.0
"""Seconds to wait for the servers of a gateway started for the session (chosen)."""


@asynccontextmanager
async def open_chat(
    loaded: Settings, *, thread: str, model: str, show_calls: bool
) -> AsyncGenerator["ChatSession"]:
    """Open a chat session; starts a gateway if none runs.

    Args:
        loaded: Settings of the command.
        thread: Name of the thread; empty for a new one.
        model: Name of the model; empty for the default.
        show_calls: Whether to print tool calls.
    """
    async with AsyncExitStack() as stack:
        running = await find_running(loaded)
        if running is not None and running.running is not None:
            url, key = running.running.address, running.running.key
        else:
            url, key = await stack.enter_async_context(_start_gateway(loaded))
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                headers={"X-Toolgate-Key": key, **project_header()},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            )
        )
        yield ChatSession(
            session, url, thread or f"chat-{new_id()[-8:]}", model, show_calls=show_calls
        )


@asynccontextmanager
async def _start_gateway(loaded: Settings) -> AsyncGenerator[tuple[str, str]]:
    """Start a gateway that stops with the block; return its URL and key."""
    silence_logs(loaded)
    key = new_id()
    async with AsyncExitStack() as stack:
        with spinner("Starting the servers"):
            app = await stack.enter_async_context(open_app(loaded, wait_s=_STARTUP_TIMEOUT_S))
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def on_ready(url: str) -> str:
            ready.set_result(url)
            return key

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        task = asyncio.create_task(serve(app, host="127.0.0.1", port=0, on_ready=on_ready))
        stack.push_async_callback(end)
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        yield ready.result(), key


class ChatSession:
    """A conversation with a model over the chat completions API."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, thread: str, model: str, *, show_calls: bool
    ) -> None:
        self._session = session
        self._url = url
        self._model = model
        self._show_calls = show_calls
        self.thread = thread
        """Name of the thread."""

    async def complete(self, text: str) -> Json:
        """Send a message and return the whole response."""
        async with self._session.post(
            f"{self._url}/v1/chat/completions",
            json=self._body(text) | {"toolgate": {"events": True}},
            headers=self._headers(),
        ) as answer:
            body = json_object(await answer.json(content_type=None))
            _raise_for_error(answer.status, body)
            return body

    async def send(self, text: str) -> list[Json]:
        """Send a message and print the answer; return the calls that await approval."""
        return await self._stream("chat/completions", self._body(text) | {"stream": True})

    async def decide(self, waits: list[Json], approved: bool) -> list[Json]:
        """Approve or reject calls, and print how the turn continues."""
        verb = "approve" if approved else "reject"
        for approval in waits:
            path = f"/api/v1/approvals/{quote(str(approval['approval_id']))}/{verb}"
            async with self._session.post(f"{self._url}{path}", json={}) as answer:
                _raise_for_error(answer.status, json_object(await answer.json(content_type=None)))
        return await self._stream("chat/resume", {"stream": True})

    def _body(self, text: str) -> Json:
        body: Json = {"messages": [{"role": "user", "content": text}]}
        return body | {"model": self._model} if self._model else body

    def _headers(self) -> Mapping[str, str]:
        return {"X-Toolgate-Thread": quote(self.thread), "X-Toolgate-Events": "1"}

    async def _stream(self, path: str, body: Json) -> list[Json]:
        waits: list[Json] = []
        async with self._session.post(
            f"{self._url}/v1/{path}", json=body, headers=self._headers()
        ) as answer:
            if answer.status != 200:
                _raise_for_error(answer.status, json_object(await answer.json(content_type=None)))
            kind = "data"
            sources: Json = {}
            async for raw in answer.content:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: ") and line != "data: [DONE]":
                    event = json.loads(line.removeprefix("data: "))
                    if kind == "toolgate.sources":
                        sources = event
                    self._show(kind, event, waits)
                    kind = "data"
        sys.stdout.write("\n")
        sys.stdout.flush()
        _show_sources(sources)
        return waits

    def _show(self, kind: str, event: Any, waits: list[Json]) -> None:
        if kind == "toolgate.mcp_tool":
            self._show_call(event)
        elif kind == "toolgate.approval":
            waits.append(event)
        elif kind == "toolgate.retry" and self._show_calls:
            note(f"({event['reason']}; asking {event['next']} in {event['pause_s']} s)")
        elif kind == "data" and "error" in event:
            raise ModelUnavailableError(str(event["error"]["message"]))
        elif kind == "data":
            for choice in json_array(event.get("choices")):
                sys.stdout.write(sanitize(str(choice["delta"].get("content") or "")))
                sys.stdout.flush()

    def _show_call(self, event: Json) -> None:
        if not self._show_calls:
            return
        if event["status"] == "started":
            arguments = json.dumps(event["arguments"], ensure_ascii=False)
            note(f"→ {event['tool']} {arguments[:_PREVIEW_CHARS]}")
        else:
            text = " ".join(str(event.get("result", "")).split())
            mark = "✓" if event["status"] == "completed" else "✗"
            note(f"{mark} {event['tool']}: {text[:_PREVIEW_CHARS]}")


def _show_sources(event: Json) -> None:
    """Print the passages that the model was given, with the numbers that its answer cites."""
    for source in map(json_object, json_array(event.get("sources"))):
        page = "" if source["page"] is None else f", page {source['page']}"
        heading = f', "{source["heading"]}"' if source["heading"] else ""
        note(sanitize(f"[{source['number']}] {source['document']}{heading}{page}"))
    if unknown := json_array(event.get("unknown_citations")):
        numbers = ", ".join(f"[{number}]" for number in unknown)
        note(f"The answer cites {numbers}, but there is no such source.")


def _raise_for_error(status: int, body: Json) -> None:
    """Raise an error if the response is one."""
    if status >= 400:
        error = json_object(body.get("error"))
        raise ModelUnavailableError(str(error.get("message") or f"Status {status}."))
