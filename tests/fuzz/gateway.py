"""The gateway under attack: all endpoints, in this process, with rights for all of them."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson

from tests.fuzz.inputs import FuzzInput
from tests.limits import HANG_S
from tests.server.http_gateway import INITIALIZE
from toolgate.app.app import App
from toolgate.server.application import HttpApplication
from toolgate.server.http import build_app
from toolgate.settings import ChatSettings, ModelTable, ServeSettings, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json, json_object

ANSWER_S = 40.0
"""Seconds for any answer: twice what the slowest page may take before it is given up."""

_STREAM_OPEN_S = 0.02
"""Seconds that a stream without an end may stay open before the client leaves."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the gateway answered to a request."""

    status: int
    """0: nothing came, because the client left first."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    is_cut: bool = False
    """Whether the client left before the end."""

    def header(self, name: bytes) -> bytes:
        return next((value for key, value in self.headers if key.lower() == name), b"")


@dataclass(frozen=True, kw_only=True)
class AttackedGateway:
    """A gateway and the values that inputs name as `{admin}`, `{session}` and so on."""

    app: App
    application: HttpApplication
    values: dict[str, str]

    def fill_in(self, text: str) -> str:
        """The text with this process's tokens, sessions and form keys in it."""
        if "{" not in text:
            return text
        return _PLACEHOLDER.sub(lambda match: self.values.get(match[0], match[0]), text)

    def fill_in_body(self, body: bytes) -> bytes:
        if b"{csrf}" in body:
            return body.replace(b"{csrf}", self.values["{csrf}"].encode())
        return body

    async def send(self, entry: FuzzInput) -> Answer:
        """The answer to a request.

        Raises:
            TimeoutError: It does not end, or the gateway works on after its client has left.
        """
        target = self.fill_in(entry.target)
        path, _, query = target.partition("?")
        raw = path.encode("ascii", "replace")
        headers = [
            (name.lower().encode("latin-1", "replace"), _header_bytes(self.fill_in(value)))
            for name, value in entry.headers
        ]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": entry.method,
            "scheme": "http",
            # As uvicorn makes it of the bytes of a request line.
            "path": unquote(raw.decode("ascii")),
            "raw_path": raw,
            "query_string": query.encode("ascii", "replace"),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 7420),
            "state": {},
        }
        return await _Exchange(self.fill_in_body(entry.body), entry).run(self.application, scope)


_PLACEHOLDER = re.compile(r"\{(?:admin|member|cookie|csrf|session(?::reversed)?)\}")


def _header_bytes(value: str) -> bytes:
    """A value as the parser hands it on: without line breaks, NUL and outer blanks."""
    cleaned = re.sub(r"[\r\n\x00]", "", value).strip(" \t")
    return cleaned.encode("latin-1", "replace")


class _Exchange:
    """One request over ASGI, from its body to the end of its answer."""

    def __init__(self, body: bytes, entry: FuzzInput) -> None:
        half = len(body) // 2
        leaves_in_body = entry.leave == "in_body"
        self._pieces = [(body[:half], True)] if leaves_in_body else [(body, False)]
        self._leaves_early = entry.leave == "in_answer"
        self._gone = asyncio.Event()
        self._began = asyncio.Event()
        if leaves_in_body:
            self._gone.set()
        self._status = 0
        self._headers: tuple[tuple[bytes, bytes], ...] = ()
        self._received: list[bytes] = []
        self._is_whole = False

    async def run(self, application: Any, scope: dict[str, Any]) -> Answer:
        task = asyncio.create_task(application(scope, self._receive, self._send))
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._finish(task)
        except TimeoutError:
            where = _where(task)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise TimeoutError(where) from None
        return Answer(
            status=self._status,
            headers=self._headers,
            body=b"".join(self._received),
            is_cut=not self._is_whole,
        )

    async def _finish(self, task: asyncio.Task[None]) -> None:
        began = asyncio.create_task(self._began.wait())
        await asyncio.wait({task, began}, return_when=asyncio.FIRST_COMPLETED)
        began.cancel()
        if not task.done() and (self._leaves_early or self._is_stream()):
            if not self._leaves_early:
                await asyncio.wait({task}, timeout=_STREAM_OPEN_S)
            self._gone.set()
        await task

    def _is_stream(self) -> bool:
        return any(
            name.lower() == b"content-type" and value.startswith(b"text/event-stream")
            for name, value in self._headers
        )

    async def _receive(self) -> dict[str, Any]:
        if self._pieces:
            piece, has_more = self._pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": has_more}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = tuple((bytes(k), bytes(v)) for k, v in message.get("headers", ()))
            self._began.set()
        elif not self._gone.is_set():
            self._received.append(bytes(message.get("body", b"")))
            self._is_whole = not message.get("more_body", False)


def _where(task: asyncio.Task[None]) -> str:
    """What a task waits for: its frames, the innermost last."""
    frames: list[str] = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is not None:
            frames.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return " > ".join(frames[-12:])


# The gateway


def _upstream() -> FakeUpstream:
    """Tools that echo, fail, ask, and have every kind of parameter."""
    text: Json = {"type": "string"}
    arguments: Json = {
        "type": "object",
        "properties": {
            "text": text,
            "count": {"type": "integer", "minimum": 0, "maximum": 9},
            "tags": {"type": "array", "items": text},
            "region": {**text, "x-mcp-header": "Region"},
            "kind": {"enum": ["short", "long"]},
            "nested": {"type": "object", "properties": {"inner": {"type": ["number", "null"]}}},
        },
        "required": ["text"],
    }

    def echo(params: Json) -> Json:
        return text_result(str(json_object(params.get("arguments")).get("text", ""))[:1_000])

    return FakeUpstream(
        {
            "echo": echo,
            "fail": lambda _: text_result("it broke", isError=True),
            "large": lambda _: text_result("line of a large result\n" * 5_000),
        },
        definitions={
            "echo": {
                "description": "Repeats a text.",
                "inputSchema": arguments,
                "annotations": {"readOnlyHint": True},
            },
            "fail": {"description": "Fails at once."},
            "large": {"description": "Gives a result of many pages."},
        },
        prompts=({"name": "greet", "arguments": [{"name": "who", "required": True}]},),
        resources=({"uri": "memo://1", "name": "memo"},),
        templates=({"uriTemplate": "memo://{number}", "name": "memos"},),
    )


@asynccontextmanager
async def open_gateway(folder: Path) -> AsyncGenerator[AttackedGateway]:
    """A gateway that requires logins, with a user of each role logged in everywhere."""
    steps = (
        {"after": "alpha__echo", "say": "It says: {result}"},
        {
            "user": "echo",
            "offers": "alpha__echo",
            "call": {"name": "alpha__echo", "arguments": {"text": "hello"}},
        },
        {"say": "An answer."},
    )
    settings = Settings(
        auth="required",
        mode="all",
        # A busy machine is no fault of the gateway: it must not refuse requests because of it, nor
        # may a page give up before `ANSWER_S` since threads that write to the store get no turn.
        serve=ServeSettings(max_body_bytes=2_000_000, max_lag_s=60, console_wait_s=30),
        models={"main": ModelTable(provider="scripted", options={"steps": steps})},
        chat=ChatSettings(engine="plain"),
    )
    url = f"sqlite:///{(folder / 'toolgate.db').as_posix()}"
    async with memory_app(
        {"alpha": _upstream()}, settings, store_url=url, wait_s=HANG_S, timeout_s=5.0
    ) as app:
        application = build_app(app)
        async with application.running():
            attacked = AttackedGateway(app=app, application=application, values={})
            await _log_in(attacked)
            yield attacked


async def _log_in(attacked: AttackedGateway) -> None:
    for name, role in (("admin", "admin"), ("member", "member")):
        token = await attacked.app.gateway.admin.create_token(
            Caller.local(), f"fuzz-{name}", roles=[role]
        )
        attacked.values[f"{{{name}}}"] = token.secret
    await _open_session(attacked)
    page = await attacked.send(FuzzInput(target="/console/login", headers=(("host", "127.0.0.1"),)))
    attacked.values["{cookie}"] = _cookie(page)
    csrf = re.search(rb'name="csrf" value="([0-9a-f]+)"', page.body)
    assert csrf is not None
    form = f"csrf={csrf[1].decode()}&token={attacked.values['{admin}']}"
    logged_in = await attacked.send(
        FuzzInput(
            method="POST",
            target="/console/login",
            headers=(
                ("host", "127.0.0.1"),
                ("content-type", "application/x-www-form-urlencoded"),
                ("cookie", "{cookie}"),
            ),
            body=form.encode(),
        )
    )
    assert logged_in.status == 303, logged_in.body[:2_000]
    attacked.values["{cookie}"] = _cookie(logged_in) or attacked.values["{cookie}"]
    page = await attacked.send(
        FuzzInput(target="/console/tokens", headers=(("host", "127.0.0.1"), ("cookie", "{cookie}")))
    )
    csrf = re.search(rb'name="csrf" value="([0-9a-f]+)"', page.body)
    assert csrf is not None, page.body[:2_000]
    attacked.values["{csrf}"] = csrf[1].decode()


async def _open_session(attacked: AttackedGateway) -> None:
    answer = await attacked.send(
        FuzzInput(
            method="POST",
            target="/mcp",
            headers=(
                ("host", "127.0.0.1"),
                ("authorization", "Bearer {admin}"),
                ("accept", "application/json, text/event-stream"),
                ("content-type", "application/json"),
            ),
            body=orjson.dumps(INITIALIZE),
        )
    )
    session = answer.header(b"mcp-session-id").decode()
    assert session, answer
    attacked.values["{session}"] = session
    attacked.values["{session:reversed}"] = session[::-1]


def _cookie(answer: Answer) -> str:
    for name, value in answer.headers:
        if name == b"set-cookie":
            return value.decode("latin-1").partition(";")[0]
    return ""
