"""A gateway that runs inside a command and stops with it."""

import json
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, redirect_stdout
from secrets import token_urlsafe
from typing import Any
from urllib.parse import unquote, urlsplit

from toolgate.app.app import App, open_app
from toolgate.base import logs
from toolgate.base.ids import new_id
from toolgate.cli.client._http_exchange import Exchange, project_header
from toolgate.cli.client._open_gateway import Connect
from toolgate.cli.terminal._context import shared_options
from toolgate.server.asgi.parsing.headers import HEADERS
from toolgate.server.asgi.parsing.messages import Message
from toolgate.server.rest.api import RestApi
from toolgate.settings import Settings
from toolgate.types import COMMAND_LINE, Json


@asynccontextmanager
async def open_local(
    loaded: Settings, *, connect: Connect, wait_s: float
) -> AsyncGenerator[Exchange]:
    """Open a gateway in this process; yields the exchange with it.

    Args:
        loaded: Settings of the gateway.
        connect: Servers to connect.
        wait_s: Seconds to wait for servers that were never listed.
    """
    silence_logs(loaded)
    with redirect_stdout(sys.stderr):  # keep output of pack code out of the result
        async with open_app(loaded, wait_s=wait_s, connect=connect) as app:
            yield in_process(app)


def silence_logs(loaded: Settings) -> None:
    """Turn logging off unless `-v` was given: the user only wants the result."""
    if shared_options().verbose:
        logs.set_up(loaded.log, verbose=shared_options().verbose)
    elif not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())


def in_process(app: App) -> Exchange:
    """Create an exchange with the REST API of `app`, without a network."""
    rest = RestApi(app)
    key = app.gateway.admission.local_key = token_urlsafe(32)

    async def exchange(method: str, path: str, body: Json | None) -> tuple[int, bytes]:
        parts = urlsplit(path)
        text = b"" if body is None else json.dumps(body).encode()
        waiting: list[dict[str, Any]] = [{"type": "http.request", "body": text, "more_body": False}]
        answer = bytearray()
        status = 0

        async def receive() -> Message:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                answer.extend(message.get("body", b""))

        headers = [
            (b"content-type", b"application/json"),
            (b"user-agent", COMMAND_LINE.encode()),
            (b"x-toolgate-key", key.encode()),
            *((name.lower().encode(), value.encode()) for name, value in project_header().items()),
        ]
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": unquote(parts.path),
            "query_string": parts.query.encode(),
            "headers": headers,
            HEADERS: dict(headers),
        }
        logs.REQUEST_ID.set(new_id())
        await rest(scope, receive, send)
        return status, bytes(answer)

    return exchange
