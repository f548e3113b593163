"""A transparent relay between one client's JSON-RPC lines and a running gateway.

It interprets only what HTTP requires: the era and the session of a message.
"""

from __future__ import annotations

import base64
import logging
import os
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

import aiohttp
import anyio
from anyio.abc import TaskGroup

from toolgate.base.json_text import dumps
from toolgate.server.asgi.parsing.json_parser import (
    BadMessageError,
    body_too_large,
    check_envelope,
    error_bytes,
    parse_json,
    parse_json_async,
)
from toolgate.server.mcp.result_shape import PROTOCOL_VERSION
from toolgate.types import Json, json_object

if TYPE_CHECKING:
    from toolgate.server.mcp.pipes import LineReader, LineWriter
    from toolgate.settings import ServeSettings

log = logging.getLogger(__name__)

CONNECT_WITHIN_S = 5.0
"""Seconds that a restarting gateway has to come back before a request fails."""

RETRY_S = 0.2
"""Seconds between connection attempts; chosen: a restart of the gateway is hardly noticed."""
STREAM_RETRY_S = 1.0
"""Seconds between attempts to open the notification stream; chosen."""

_NOT_RUNNING = -31012
"""Toolgate's own code, outside the range that JSON-RPC reserves."""
_CUT = -31011
"""Toolgate's own code, outside the range that JSON-RPC reserves."""
_CANCELLED = -32800
""""RequestCancelled" of the Language Server Protocol, which MCP has no code for."""
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_SESSION_HEADER = "Mcp-Session-Id"


async def relay(
    url: str,
    key: str,
    reader: LineReader,
    writer: LineWriter,
    settings: ServeSettings,
    *,
    token: str = "",
    project: str = "",
    folder: str = "",
) -> None:
    """Relay until the client closes its side.

    Args:
        url: Address of the gateway.
        key: Key in the gateway's run file.
        reader: Messages from the client.
        writer: Messages to the client.
        settings: Limits for messages.
        token: Token for messages that have none of their own.
        project: Project for messages that name none.
        folder: Working directory of the client.
    """
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        **({"Authorization": f"Bearer {key}"} if key else {}),
        **({"X-Toolgate-Token": token} if token else {}),
        **({"X-Toolgate-Project": project} if project else {}),
        **({"X-Toolgate-Folder": quote(os.fsencode(folder))} if folder else {}),
    }
    async with (
        aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=3.0),
            # A gateway of this user on this machine is identified by its run file, not by its host
            # name.
            connector=aiohttp.TCPConnector(limit=0, ssl=False),
            read_bufsize=2**20,
            skip_auto_headers=("User-Agent",),
        ) as http,
        anyio.create_task_group() as tasks,
    ):
        work = _Relay(_endpoint(url), http, writer, settings, tasks)
        async for line in reader:
            await work.handle(line)
        tasks.cancel_scope.cancel()
        await work.end_session()


class _GatewayLostError(Exception):
    """The gateway cannot be reached, or the connection to it was lost."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


class _Relay:
    def __init__(
        self,
        endpoint: str,
        http: aiohttp.ClientSession,
        writer: LineWriter,
        settings: ServeSettings,
        tasks: TaskGroup,
    ) -> None:
        self._endpoint = endpoint
        self._http = http
        self._writer = writer
        self._settings = settings
        self._tasks = tasks
        self._scopes: dict[object, anyio.CancelScope] = {}
        self._cancelled: set[object] = set()
        # Handshake era: messages to repeat to a gateway that does not know the session.
        self._opening: Json | None = None
        self._version = ""
        self._session = ""
        self._level: Json | None = None
        self._subscriptions: dict[str, Json] = {}
        self._is_listening = False
        self._renewing = anyio.Lock()

    async def handle(self, line: bytes | None) -> None:
        """Relay one message of the client."""
        try:
            if line is None:
                raise body_too_large(self._settings.max_body_bytes)
            message, method, *_ = check_envelope(
                await parse_json_async(line, max_depth=self._settings.max_depth)
            )
        except BadMessageError as error:
            await self._writer.write(error_bytes(error.request_id, error.rpc_code, error.message))
            return
        if method == "initialize":
            # Later messages must wait, because they belong to the new session.
            await self._initialize(message)
        elif "id" in message and method:
            self._tasks.start_soon(self._request, message)
        else:
            await self._notify(message)

    async def end_session(self) -> None:
        """End the session, if the gateway still runs."""
        if self._session:
            with anyio.move_on_after(1.0, shield=True), suppress(aiohttp.ClientError, OSError):
                headers = self._session_headers()
                async with self._http.delete(self._endpoint, headers=headers):
                    self._session = ""

    async def _initialize(self, message: Json) -> None:
        self._opening, self._session, self._version = message, "", ""
        try:
            answer = await self._open_session()
        except _GatewayLostError as error:
            await self._fail(message, error)
            return
        await self._writer.write(dumps({**answer, "id": message.get("id")}))

    async def _open_session(self) -> Json:
        """Send the client's `initialize`; store the session and return the response."""
        assert self._opening is not None
        async with await self._post(self._opening, {}) as response:
            answer: Json = {}
            async for raw in _messages(response):
                answer = json_object(parse_json(raw, max_depth=1000))
            self._session = response.headers.get(_SESSION_HEADER, "")
        self._version = str(json_object(answer.get("result")).get("protocolVersion", ""))
        if not answer:
            raise _GatewayLostError("The gateway did not answer 'initialize'.", code=_CUT)
        return answer

    async def _renew(self, lost: str) -> None:
        """Open a new session instead of `lost`, once for all requests that noticed the loss."""
        async with self._renewing:
            if self._session != lost or self._opening is None:
                return
            log.info("session renewed")
            await self._open_session()
            again: list[Json] = [{"jsonrpc": "2.0", "method": "notifications/initialized"}]
            again += [self._level] if self._level else []
            again += self._subscriptions.values()
            for message in again:
                async with await self._post(message, self._session_headers()) as response:
                    await response.read()

    async def _request(self, message: Json) -> None:
        request_id = message["id"]
        with anyio.CancelScope() as scope:
            self._scopes[request_id] = scope
            try:
                await self._exchange(message)
            except _GatewayLostError as error:
                await self._fail(message, error)
            finally:
                self._cancelled.discard(request_id)
                if self._scopes.get(request_id) is scope:
                    del self._scopes[request_id]

    async def _exchange(self, message: Json) -> None:
        """Send a request, and write its messages from the gateway, the response last."""
        self._remember(message)
        for is_last in (False, True):
            session = self._session
            async with await self._post(message, self._headers(message)) as response:
                if response.status == 404 and session and not is_last and not _is_modern(message):
                    await response.read()
                else:
                    await self._pass_on(response, message)
                    return
            await self._renew(session)

    async def _pass_on(self, response: aiohttp.ClientResponse, message: Json) -> None:
        is_answered = False
        async for raw in _messages(response):
            if b'"id"' in raw or b'"error"' in raw:
                answer = json_object(parse_json(raw, max_depth=100_000))
                if "method" not in answer:
                    is_answered = True
                    if self._is_unwanted(answer, message):
                        continue
                    if answer.get("id") is None:
                        await self._writer.write(dumps({**answer, "id": message["id"]}))
                        continue
            await self._writer.write(raw)
        if not is_answered:
            raise _cut(response.status)

    def _is_unwanted(self, answer: Json, message: Json) -> bool:
        """Whether the client cancelled the request, so that over stdio it gets no response."""
        code = json_object(answer.get("error")).get("code")
        return message["id"] in self._cancelled and code == _CANCELLED

    async def _notify(self, message: Json) -> None:
        """Relay a message without a response: a notification, or a response of the client."""
        method = message.get("method")
        if method == "notifications/cancelled":
            request_id = json_object(message.get("params")).get("requestId")
            if not self._session:
                # In the modern era over HTTP, a request is cancelled by closing its connection.
                if isinstance(request_id, (str, int)) and request_id in self._scopes:
                    self._scopes[request_id].cancel()
                return
            if isinstance(request_id, (str, int)):
                self._cancelled.add(request_id)
        if not self._session:
            return
        try:
            async with await self._post(message, self._session_headers()) as response:
                await response.read()
        except _GatewayLostError as error:
            log.warning("message lost", extra={"method": method, "reason": str(error)})
        if method == "notifications/initialized" and not self._is_listening:
            self._is_listening = True
            self._tasks.start_soon(self._listen)

    async def _listen(self) -> None:
        """Write a session's notifications from the gateway until cancelled."""
        while True:
            session = self._session
            headers = {**self._session_headers(), "Accept": "text/event-stream"}
            status = 0
            with suppress(aiohttp.ClientError, OSError):
                async with self._http.get(self._endpoint, headers=headers) as response:
                    status = response.status
                    if status == 200:
                        async for raw in _messages(response):
                            await self._writer.write(raw)
            if status == 405:
                return
            await anyio.sleep(STREAM_RETRY_S)
            if status == 404:
                with suppress(_GatewayLostError):
                    await self._renew(session)

    async def _post(self, message: Json, headers: dict[str, str]) -> aiohttp.ClientResponse:
        """Send a message; retry while the gateway does not accept connections.

        Raises:
            _GatewayLostError: No gateway runs, or the connection was lost.
        """
        body = dumps(message)
        deadline = anyio.current_time() + CONNECT_WITHIN_S
        while True:
            try:
                return await self._http.post(self._endpoint, data=body, headers=headers)
            except aiohttp.ClientConnectorError as error:
                if anyio.current_time() > deadline:
                    raise _GatewayLostError(
                        f"No gateway answers at {self._endpoint}: {error.strerror or error}."
                        " Start it with 'toolgate serve', or restart this client.",
                        code=_NOT_RUNNING,
                    ) from error
                await anyio.sleep(RETRY_S)
            except (aiohttp.ClientError, OSError) as error:
                raise _cut(None) from error

    async def _fail(self, message: Json, error: _GatewayLostError) -> None:
        data = {
            "code": "server_down" if error.code == _NOT_RUNNING else "connection_lost",
            "retryable": error.code == _NOT_RUNNING,
        }
        await self._writer.write(error_bytes(message.get("id"), error.code, str(error), data))

    def _remember(self, message: Json) -> None:
        """Store a message that must be repeated in a new session."""
        method, params = message["method"], json_object(message.get("params"))
        uri = str(params.get("uri", ""))
        if method == "logging/setLevel":
            self._level = message
        elif method == "resources/subscribe":
            self._subscriptions[uri] = message
        elif method == "resources/unsubscribe":
            self._subscriptions.pop(uri, None)

    def _headers(self, message: Json) -> dict[str, str]:
        if not _is_modern(message):
            return self._session_headers()
        params = json_object(message.get("params"))
        method = cast("str", message["method"])
        headers = {
            "MCP-Protocol-Version": str(json_object(params.get("_meta"))[PROTOCOL_VERSION]),
            "Mcp-Method": _header_value(method),
        }
        name = params.get(_NAMED.get(method, ""))
        if isinstance(name, str):
            headers["Mcp-Name"] = _header_value(name)
        return headers

    def _session_headers(self) -> dict[str, str]:
        headers = {_SESSION_HEADER: self._session} if self._session else {}
        return headers | ({"MCP-Protocol-Version": self._version} if self._version else {})


def _endpoint(url: str) -> str:
    return url if url.endswith("/mcp") else url.rstrip("/") + "/mcp"


def _is_modern(message: Json) -> bool:
    return PROTOCOL_VERSION in json_object(json_object(message.get("params")).get("_meta"))


def _header_value(text: str) -> str:
    """Return the text encoded for a header.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
    """
    if _PLAIN.fullmatch(text) and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode('ascii')}?="


def _cut(status: int | None) -> _GatewayLostError:
    detail = "" if status is None or status < 400 else f" (status {status})"
    return _GatewayLostError(
        f"The connection to the gateway ended before the answer came{detail}."
        " Whether the request took effect is unknown.",
        code=_CUT,
    )


async def _messages(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the JSON-RPC messages in a response, whether JSON or an event stream."""
    try:
        if response.content_type == "text/event-stream":
            async for event in _events(response.content):
                yield event
        elif response.content_type == "application/json":
            body = await response.read()
            if body:
                yield body if b"\n" not in body else dumps(parse_json(body, max_depth=100_000))
    except (aiohttp.ClientError, OSError) as error:
        raise _cut(None) from error
    except BadMessageError as error:
        raise _GatewayLostError("The gateway's answer could not be read.", code=_CUT) from error


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the data of server-sent events, in linear time however long a line is."""
    parts: list[bytes] = []
    data: list[bytes] = []
    async for chunk in content.iter_any():
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            parts.append(chunk[start:end])
            line = b"".join(parts).removesuffix(b"\r")
            parts, start = [], end + 1
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data)
                data = []
        parts.append(chunk[start:])
