"""A gateway with a scripted model behind it, both on real sockets of this machine."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import aiohttp
import anyio
import uvicorn

from benchmarks.vendored import llm_double
from tests.limits import HANG_S
from tests.serving import serving
from toolgate.app.app import App
from toolgate.documents import NewDocument
from toolgate.settings import ChatSettings, ModelTable, PackSettings, Settings
from toolgate.testing import memory_app
from toolgate.types import Caller, Json, json_array, json_object


class Scripted:
    """The model: what it was sent, and what it says next."""

    def __init__(self, double: Any, url: str) -> None:
        self.double = double
        self.url = url

    @property
    def requests(self) -> list[Json]:
        """Bodies of all requests so far, oldest first."""
        return [row["body"] for row in self.double.journal if row["event"] == "request"]

    @property
    def chats(self) -> list[Json]:
        """The same without those for embeddings."""
        return [body for body in self.requests if "messages" in body]

    @property
    def last(self) -> Json:
        """The last body."""
        return self.chats[-1]

    @property
    def ends(self) -> list[str]:
        """How answers ended, in order."""
        return [row["outcome"] for row in self.double.journal if row["event"] == "end"]

    def script(self, *steps: Json, **more: Any) -> None:
        """Say something else from now on; steps without `when` are used once, in order."""
        self.double.load({"steps": [_step(step) for step in steps], **more})


def _step(step: Json) -> Json:
    return step if "reply" in step else {"reply": step}


@asynccontextmanager
async def scripted(*steps: Json, **more: Any) -> AsyncIterator[Scripted]:
    """A scripted model on a socket of its own."""
    double = llm_double.Double({"steps": [_step(step) for step in steps], **more}, None, None)
    config = uvicorn.Config(
        llm_double.make_app(double),
        host="127.0.0.1",
        port=0,
        log_level="critical",
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server._serve())
    with anyio.fail_after(HANG_S):
        while not server.started:
            await anyio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Scripted(double, f"http://127.0.0.1:{port}/v1")
    finally:
        server.should_exit = server.force_exit = True
        await asyncio.wait({task}, timeout=HANG_S)


@dataclass
class ChatGateway:
    """A gateway that listens."""

    url: str
    app: App
    model: Scripted
    session: aiohttp.ClientSession

    async def post(self, path: str, body: Json, **headers: str) -> tuple[int, Json]:
        """Status and body of an answer."""
        async with self.session.post(
            f"{self.url}{path}", json=body, headers=_headers(headers)
        ) as answer:
            return answer.status, await answer.json(content_type=None)

    async def get(self, path: str, **headers: str) -> tuple[int, Json]:
        """Status and body of an answer."""
        async with self.session.get(f"{self.url}{path}", headers=_headers(headers)) as answer:
            return answer.status, await answer.json(content_type=None)

    async def say(self, text: str, *, thread: str | None = None, **more: Any) -> Json:
        """The answer to a message; anything but 200 fails the test."""
        headers = {} if thread is None else {"x-toolgate-thread": thread}
        status, body = await self.post(
            "/v1/chat/completions",
            {"model": "main", "messages": [{"role": "user", "content": text}], **more},
            **headers,
        )
        assert status == 200, body
        return body

    async def text(self, text: str, *, thread: str | None = None, **more: Any) -> str:
        """The same, its text alone."""
        body = await self.say(text, thread=thread, **more)
        return str(body["choices"][0]["message"]["content"])

    async def stream(
        self, text: str, *, thread: str | None = None, **more: Any
    ) -> list[tuple[str, Any]]:
        """The events of a streamed answer: name (`data` without one) and value."""
        headers = {} if thread is None else {"x-toolgate-thread": thread}
        headers |= {key: more.pop(key) for key in ("x-toolgate-events",) if key in more}
        body = {
            "model": "main",
            "messages": [{"role": "user", "content": text}],
            "stream": True,
            **more,
        }
        async with self.session.post(
            f"{self.url}/v1/chat/completions", json=body, headers=headers
        ) as answer:
            assert answer.status == 200, await answer.text()
            return events_in(await answer.text())

    async def history(self, thread: str, **query: Any) -> Json:
        """A page of a thread."""
        more = "".join(f"&{name}={value}" for name, value in query.items())
        status, body = await self.get(f"/v1/chat/history?thread_id={thread}{more}")
        assert status == 200, body
        return body


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def events_in(text: str) -> list[tuple[str, Any]]:
    """Events of a stream; comments are left out."""
    found: list[tuple[str, Any]] = []
    for block in text.split("\n\n"):
        name, data = "data", ""
        for line in block.splitlines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
        if data == "[DONE]":
            found.append(("done", None))
        elif data:
            found.append((name, json.loads(data)))
    return found


def streamed_text(events: Sequence[tuple[str, Any]]) -> str:
    """What the pieces of a stream say together."""
    return "".join(
        str(choice["delta"].get("content") or "")
        for name, chunk in events
        if name == "data"
        for choice in chunk.get("choices", [])
    )


@asynccontextmanager
async def chatting(
    *steps: Json,
    servers: Mapping[str, object] | None = None,
    settings: Settings | None = None,
    store_url: str = "sqlite://",
    chat: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    models: Mapping[str, ModelTable] | None = None,
    fallback: Json | None = None,
) -> AsyncIterator[ChatGateway]:
    """A gateway whose model `main` says what the steps say.

    Args:
        steps: Of the model: replies, or whole steps with `when`.
        servers: As for `memory_app`.
        settings: Everything else.
        store_url: The store.
        chat: Keys of `[chat]`; `engine` is `plain` unless it is said.
        model: Keys of `[models.main]`.
        models: Further models.
        fallback: What the model says when no step fits.
    """
    more: Json = {} if fallback is None else {"fallback": fallback}
    async with scripted(*steps, **more) as double:
        table = ModelTable(
            **{"model": "double", "url": double.url, "key": "k", "retries": 0, **(model or {})}
        )
        wanted = replace(
            settings or Settings(),
            models={"main": table, **(models or {})},
            chat=ChatSettings(**{"engine": "plain", **(chat or {})}),
        )
        async with (
            memory_app(servers or {}, wanted, store_url=store_url) as app,
            serving(app) as url,
            aiohttp.ClientSession() as session,
        ):
            yield ChatGateway(url, app, double, session)


def roles(body: Json) -> list[str]:
    """The roles of the messages of a request."""
    return [str(message["role"]) for message in body["messages"]]


def contents(body: Json, role: str) -> list[str]:
    """The texts of one role in a request."""
    return [
        str(message.get("content") or "") for message in body["messages"] if message["role"] == role
    ]


def offered(body: Json) -> list[str]:
    """Names of the tools in a request."""
    return [tool["function"]["name"] for tool in json_array(body.get("tools"))]


def check_pairs(body: Json) -> None:
    """Each call has exactly one result, right behind it, and each result a call."""
    messages = cast("list[Json]", body["messages"])
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        assert message["role"] != "tool", f"a result without a call at {at - 1}"
        for call in json_array(message.get("tool_calls")):
            assert messages[at]["role"] == "tool", messages
            assert messages[at]["tool_call_id"] == json_object(call)["id"]
            at += 1


GUIDE = """# Vector index accuracy

The accuracy of a vector index is determined with the function INDEX_ACCURACY_QUERY. It compares the
result of the index with an exact search.

# Patching

The database is patched with the tool opatch while it is shut down.
"""

RETRIEVER = "documents__retriever"
LOOK_UP: Json = {
    "tool_calls": [{"name": RETRIEVER, "arguments": {"question": "what the model says"}}]
}
WITH_DOCUMENTS = Settings(packs=PackSettings(enable=("documents",)))


async def add_guide(place: ChatGateway, text: str = GUIDE, name: str = "GUIDES") -> None:
    """A collection with one document."""
    documents = place.app.gateway.documents
    await documents.make(Caller.local(), name, description="Guides of the database")
    await documents.add(
        Caller.local(), name, NewDocument(source="guide.md", text=text, sha256=name)
    )


def grading(answer: str) -> Json:
    """A step that answers the question whether documents help."""
    return {"when": {"user": "Do the documents below help"}, "reply": {"text": answer}}


def answers(body: Json) -> bool:
    """Whether a request is for the answer, and not for a helper."""
    return body.get("temperature") != 0
