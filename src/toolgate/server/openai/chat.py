"""The chat endpoints, `/v1`: OpenAI's API on top of turns, threads and runs.

A thread is named by the header `X-Toolgate-Thread` or by a field in `chat.thread_fields`.
Without one the messages in the request are the conversation, and nothing is saved.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import cast
from urllib.parse import parse_qsl, unquote

import anyio

from toolgate.app.app import App
from toolgate.base import json_text
from toolgate.base.ids import new_id, unix_now
from toolgate.chat import FORGOTTEN, NOTHING, ChatService, Run, TurnRequest, friendly
from toolgate.errors import (
    AccessError,
    ArgumentError,
    CredentialError,
    EmbedderError,
    ModelError,
    ModelRateError,
    ThreadBusyError,
    ToolgateError,
    UnknownModelError,
    UnknownResponseError,
)
from toolgate.server.asgi.authentication import (
    CALLER,
    challenge_headers,
    presented_credentials,
    refusal_status,
)
from toolgate.server.asgi.parsing.headers import header
from toolgate.server.asgi.parsing.json_body import HttpError, json_body
from toolgate.server.asgi.parsing.json_parser import BadMessageError
from toolgate.server.asgi.parsing.messages import (
    DisconnectedError,
    Message,
    Receive,
    Scope,
    Send,
    TooLargeError,
    discard_body,
    send_json,
    with_header,
)
from toolgate.server.openai.chat_json import (
    CompletionOptions,
    completion,
    error_body,
    read_completion,
    status_of,
)
from toolgate.server.openai.chunks import ChunkWriter
from toolgate.server.openai.embeddings import embeddings, read_embeddings
from toolgate.server.openai.response_ids import ResponseId
from toolgate.server.openai.response_requests import is_stored, read_response
from toolgate.server.openai.responses_api import ResponseWriter, stored_response
from toolgate.server.openai.thread_names import (
    is_about_conversation,
    names_thread_itself,
    thread_from_user,
    thread_of_request,
)
from toolgate.store import RESPONSE_PREFIX
from toolgate.types import Caller, Json, json_object

log = logging.getLogger(__name__)

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
_ALIVE = b": keep-alive\n\n"
_PAGE = 100
"""Default number of messages per page; chosen."""
_MOST_PAGE = 1_000
"""Largest number of messages per page; chosen: some MB."""


@dataclass(frozen=True, kw_only=True)
class _ChatRequest:
    """A request to the chat endpoints."""

    caller: Caller
    scope: Scope
    receive: Receive
    send: Send
    names: tuple[str, ...]
    query: Mapping[str, str]
    body: Json
    thread: str | None
    """The thread from a header or a body field."""
    events: bool
    """Whether the header asks for events."""


_Handler = Callable[["ChatApi", _ChatRequest], Awaitable[None]]


class ChatApi:
    """Handles requests below `/v1/`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._settings = app.settings.serve

    @property
    def _chat(self) -> ChatService:
        chat = self._app.chat
        if chat is None:
            raise UnknownModelError(
                "No chat model is configured.",
                hint="Add a table [models.NAME]; see docs/chat.md.",
            )
        return chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI); `Host` and `Origin` were checked before."""
        watched = _SendMonitor(send)
        try:
            await self._answer(scope, receive, watched)
        except DisconnectedError:
            return
        except HttpError as error:
            text = f"{error.message} {error.hint}".strip()
            await self.refuse(watched, error.status, error_body(text, kind=_kind(error.status)))
        except BadMessageError as error:
            await self.refuse(watched, 400, error_body(error.message, kind=_kind(400)))
        except TooLargeError:
            limit = self._settings.max_body_bytes
            text = f"The request is larger than {limit} bytes (setting serve.max_body_bytes)."
            closing = with_header(watched, b"connection", b"close")
            answer = discard_body(closing, scope, receive)
            await self.refuse(answer, 413, error_body(text, kind=_kind(413)))
        except AccessError as error:
            answer = watched
            if isinstance(error, CredentialError):
                for name, value in challenge_headers(
                    error, scope, self._app.settings.authn.resource
                ):
                    answer = with_header(answer, name, value)
                answer = discard_body(answer, scope, receive)
            status = refusal_status(error)
            await self.refuse(
                answer, status, error_body(str(error), kind=_kind(status), code=error.code)
            )
        except Exception as error:
            if watched.has_begun:
                raise
            await self._fail(watched, error)

    async def refuse(self, send: Send, status: int, body: Json) -> None:
        """Respond with an error."""
        # A retry would fail in the same way, and add the question to the thread again.
        send = with_header(send, b"x-should-retry", b"false")
        await send_json(send, status, body)

    async def _fail(self, send: Send, error: Exception) -> None:
        status = status_of(error)
        if isinstance(error, ModelRateError):
            wait = str(max(1, round(error.wait_s))).encode()
            send = with_header(send, b"retry-after", wait)
        if isinstance(error, ModelError) and not isinstance(error, UnknownModelError):
            text = friendly(error, issue_url=self._app.settings.chat.issue_url)
        elif isinstance(error, ToolgateError):
            text = str(error)
        else:
            log.error("request failed", exc_info=error)
            text = "Internal error; the log of the gateway says more."
        await self.refuse(send, status, error_body(text, error=error))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        method: str = scope["method"]
        path = cast("str", scope["path"]).removeprefix("/v1/").rstrip("/")
        client = (header(scope, b"user-agent") or "")[:100]
        caller = await self._app.gateway.admission.admit(
            presented_credentials(scope, {}, client=client)
        )
        CALLER.set(caller)
        handler, names = _route(method, path)
        body: Json = {}
        if method in {"POST", "PATCH"}:
            body = await json_body(
                scope,
                receive,
                max_bytes=self._settings.max_body_bytes,
                max_depth=self._settings.max_depth,
                may_be_empty=handler is not ChatApi.completions,
            )
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        call = _ChatRequest(
            caller=caller,
            scope=scope,
            receive=receive,
            send=send,
            names=names,
            query=query,
            body=body,
            thread=thread_of_request(scope, body, self._app.settings.chat),
            events=(header(scope, b"x-toolgate-events") or "") in {"1", "true"},
        )
        await handler(self, call)

    # Turns

    async def completions(self, call: _ChatRequest) -> None:
        """Handle `POST chat/completions`."""
        request, options = read_completion(
            call.body, call.caller, thread=call.thread, events=call.events
        )
        request = self._with_thread(call, request)
        if request.thread is not None and not names_thread_itself(call.scope):
            # A client that names threads in its own way sends the whole conversation each time.
            request = replace(request, is_whole=True)
            if is_about_conversation(request.messages):
                choices: Json = {**request.choices, "tools_enabled": []}
                request = replace(request, thread=None, choices=choices)
        await self._turn(call, request, options)

    async def resume(self, call: _ChatRequest) -> None:
        """Handle `POST chat/resume`: resume the calls of a thread that waited for approval."""
        thread = _thread_of(call)
        if await self._chat.threads.history(call.caller, thread, limit=1) is None:
            raise HttpError(404, "not_found", f"There is no thread {thread[:80]!r}.")
        options = CompletionOptions(
            model="",
            stream=call.body.get("stream") is True,
            usage=json_object(call.body.get("stream_options")).get("include_usage") is True,
            events=call.events,
        )
        request = TurnRequest(caller=call.caller, messages=(), thread=thread, resumes=True)
        await self._turn(call, request, options)

    def _with_thread(self, call: _ChatRequest, request: TurnRequest) -> TurnRequest:
        """Return the request, with a thread made from its user if configured and it names none."""
        if request.thread is not None or not self._app.settings.chat.thread_from_user:
            return request
        thread = thread_from_user(call.body.get("user"), request.messages)
        return replace(request, thread=thread)

    async def _turn(
        self, call: _ChatRequest, request: TurnRequest, options: CompletionOptions
    ) -> None:
        run = self._chat.start(request)
        send = with_header(call.send, b"x-toolgate-run", run.run_id.encode())
        async with _ending_with(call.receive, run):
            if options.stream:
                await self._streamed(send, run, options)
            else:
                await run.ended_event.wait()
                if run.outcome is None:
                    raise run.error or _ended(run)
                await send_json(send, 200, completion(run.outcome, options, created=unix_now()))

    async def _streamed(self, send: Send, run: Run, options: CompletionOptions) -> None:
        writer = ChunkWriter(run, options)
        await self._events_to(send, run, writer)

    async def _events_to(
        self, send: Send, run: Run, writer: "ChunkWriter | ResponseWriter"
    ) -> None:
        """Write a stream; an error before its first data gets an HTTP status of its own."""
        heartbeat_s = self._app.settings.chat.heartbeat_s
        stream = _EventStream(send)
        after = 0
        while True:
            if not await run.wait(after, within_s=heartbeat_s):
                await stream.write(_ALIVE)
                continue
            data = b""
            for number, event in run.since(after):
                after = number
                if "error" in event and not stream.has_begun and not data:
                    raise run.error or _ended(run)
                data += writer.event(event)
            if data:
                await stream.write(data)
            if run.ended is not None and run.last <= after:
                break
        await stream.write(writer.end(), is_last=True)

    async def responses(self, call: _ChatRequest) -> None:
        """Handle `POST responses`: the common part of OpenAI's Responses API."""
        request, options = read_response(
            call.body, call.caller, thread=call.thread, events=call.events
        )
        if (previous := call.body.get("previous_response_id")) is not None:
            await ResponseId.read(previous).check_last(self._chat.threads, call.caller)
        request = self._with_thread(call, request)
        if is_stored(call.body) and request.thread is None:
            request = replace(request, thread=f"{RESPONSE_PREFIX}{new_id()}")
        request = replace(request, is_whole=True)
        run = self._chat.start(request)
        send = with_header(call.send, b"x-toolgate-run", run.run_id.encode())
        writer = ResponseWriter(run, options, call.body, created=unix_now(), thread=request.thread)
        async with _ending_with(call.receive, run):
            if options.stream:
                await self._events_to(send, run, writer)
                return
            await run.ended_event.wait()
            if run.outcome is None:
                raise run.error or _ended(run)
            await send_json(send, 200, writer.whole(run.outcome))

    async def response(self, call: _ChatRequest) -> None:
        """Handle `GET responses/ID`: return a stored response."""
        try:
            body = await stored_response(
                ResponseId.read(call.names[0]),
                self._chat,
                call.caller,
                approval_page=self._app.gateway.approvals.page,
            )
        except UnknownResponseError as error:
            raise HttpError(404, error.code, str(error)) from error
        await send_json(call.send, 200, body)

    # Embeddings

    async def embeddings(self, call: _ChatRequest) -> None:
        """Handle `POST embeddings`: embed texts with the embedder of the search."""
        request = read_embeddings(call.body, self._app.settings.search.embedder)
        embedder = self._app.search_factory.embedder_if_usable()
        if embedder is None:
            raise EmbedderError(
                "The configured embedder cannot be used.", hint="See: toolgate embedder test"
            )
        await send_json(call.send, 200, await embeddings(embedder, request))

    # Models

    async def models(self, call: _ChatRequest) -> None:
        """Handle `GET models`."""
        chat = self._app.chat
        models = [] if chat is None else _model_list(chat)
        await send_json(call.send, 200, {"object": "list", "data": models})

    async def model(self, call: _ChatRequest) -> None:
        """Handle `GET models/NAME`."""
        model_id = unquote("/".join(call.names))
        for entry in _model_list(self._chat):
            if entry["id"] == model_id:
                await send_json(call.send, 200, entry)
                return
        self._chat.models.name_of(model_id)

    # Threads

    async def history(self, call: _ChatRequest) -> None:
        """Handle `GET chat/history`: return a page of a thread; takes `?limit=` and `?before=`."""
        thread = _thread_of(call)
        limit = _number(call.query, "limit", _PAGE, 1, _MOST_PAGE)
        before = _number(call.query, "before", 0, 0, 2**31)
        messages = await self._chat.threads.history(
            call.caller, thread, limit=limit or _PAGE, before=before or None
        )
        if messages is None:
            messages = {"thread_id": thread, "messages": [_system(NOTHING)], "has_more": False}
        await send_json(call.send, 200, messages)

    async def forget(self, call: _ChatRequest) -> None:
        """Handle `DELETE` or `PATCH` of `chat/history`: delete the messages of a thread."""
        thread = _thread_of(call)
        existed = await self._chat.threads.clear(call.caller, thread)
        text = FORGOTTEN if existed else NOTHING
        await send_json(call.send, 200, {"thread_id": thread, "messages": [_system(text)]})

    # Runs

    async def run(self, call: _ChatRequest) -> None:
        """Handle `GET runs/ID`: return the state of a turn."""
        run = self._run_of(call)
        body: Json = {
            "id": run.run_id,
            "thread_id": run.thread,
            "status": run.status,
            "last": run.last,
        }
        if run.outcome is not None:
            body["response_metadata"] = run.outcome.metadata
        await send_json(call.send, 200, body)

    async def run_events(self, call: _ChatRequest) -> None:
        """Handle `GET runs/ID/events`: stream events after `Last-Event-ID` or `?after=`."""
        run = self._run_of(call)
        last_id = header(call.scope, b"last-event-id")
        after = _number(
            {**call.query, "after": last_id or call.query.get("after", "0")}, "after", 0, 0, 2**31
        )
        heartbeat_s = self._app.settings.chat.heartbeat_s
        stream = _EventStream(call.send)
        async with _leaving_with(call.receive) as gone:
            await stream.begin()
            while not gone.is_set():
                await run.wait(after, within_s=heartbeat_s)
                data = b""
                for number, event in run.since(after):
                    after = number
                    kind = next(iter(event))
                    data += b"id: %d\nevent: %s\ndata: %s\n\n" % (
                        number,
                        kind.encode(),
                        json_text.dumps(event[kind]),
                    )
                is_over = run.ended is not None and run.last <= after
                await stream.write(data or (b"" if is_over else _ALIVE), is_last=is_over)
                if is_over:
                    return

    async def cancel(self, call: _ChatRequest) -> None:
        """Handle `POST runs/ID/cancel`: cancel a turn; its messages so far are saved.

        A turn that has ended keeps its status.
        """
        run = self._run_of(call)
        run.cancel()
        await run.ended_event.wait()
        await send_json(call.send, 200, {"id": run.run_id, "status": run.status})

    def _run_of(self, call: _ChatRequest) -> Run:
        run = self._chat.runs.find(call.caller, call.names[0])
        if run is None:
            raise HttpError(404, "not_found", "There is no run of this id.")
        return run


@dataclass
class _EventStream:
    """An event stream that is written piece by piece."""

    send: Send
    has_begun: bool = field(default=False)

    async def begin(self) -> None:
        """Send the headers."""
        if not self.has_begun:
            self.has_begun = True
            await self.send(
                {"type": "http.response.start", "status": 200, "headers": [*_STREAM_HEADERS]}
            )

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Send a piece."""
        await self.begin()
        if data or is_last:
            await self.send({"type": "http.response.body", "body": data, "more_body": not is_last})


class _SendMonitor:
    """A `send` that records whether a response has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        self.has_begun = True
        await self._send(message)


@asynccontextmanager
async def _ending_with(receive: Receive, run: Run) -> AsyncGenerator[None]:
    """Cancel the turn when its client disconnects, or the context ends before the turn."""
    try:
        async with _leaving_with(receive, run.cancel):
            yield
    finally:
        if run.ended is None:
            run.cancel()


@asynccontextmanager
async def _leaving_with(
    receive: Receive, then: Callable[[], None] | None = None
) -> AsyncGenerator[anyio.Event]:
    """Yield an event that is set when the client disconnects within this context."""
    gone = anyio.Event()

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()
        if then is not None:
            then()

    # Not a task group, which would wrap exceptions of the context.
    task = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        task.cancel()


def _ended(run: Run) -> ThreadBusyError:
    """Return the error for a turn that was cancelled or replaced."""
    return ThreadBusyError(
        f"The turn {run.run_id} was stopped before it had an answer.",
        hint="Another turn of its thread took its place, or somebody cancelled it.",
    )


def _kind(status: int) -> str:
    match status:
        case 401:
            return "authentication_error"
        case 403:
            return "permission_error"
        case 429:
            return "rate_limit_error"
        case _:
            return "invalid_request_error"


def _system(text: str) -> Json:
    return {"role": "system", "content": text}


def _thread_of(call: _ChatRequest) -> str:
    named = (
        call.thread
        or call.query.get("thread_id")
        or call.query.get("thread")
        or call.body.get("thread_id")
    )
    if not isinstance(named, str) or not named:
        raise ArgumentError(
            "The thread is not named.",
            hint="Name it by the header X-Toolgate-Thread or ?thread_id=.",
        )
    return named


def _number(query: Mapping[str, str], name: str, otherwise: int, low: int, high: int) -> int:
    text = query.get(name)
    if text is None or text == "":
        return otherwise
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise ArgumentError(f"{name!r} is {text[:40]!r}.", allowed=f"Allowed: {low} to {high}.")
    return int(text)


def _model_list(chat: ChatService) -> list[Json]:
    names: dict[str, None] = {}
    for name, table in chat.models.tables.items():
        names.setdefault(name)
        for alias in table.aliases:
            names.setdefault(alias)
    return [{"id": name, "object": "model", "created": 0, "owned_by": "toolgate"} for name in names]


_ROUTES: Mapping[tuple[str, str], _Handler] = {
    ("POST", "chat/completions"): ChatApi.completions,
    ("POST", "chat/resume"): ChatApi.resume,
    ("POST", "responses"): ChatApi.responses,
    ("GET", "responses/*"): ChatApi.response,
    ("POST", "embeddings"): ChatApi.embeddings,
    ("GET", "models"): ChatApi.models,
    ("GET", "models/*"): ChatApi.model,
    ("GET", "chat/history"): ChatApi.history,
    ("DELETE", "chat/history"): ChatApi.forget,
    ("PATCH", "chat/history"): ChatApi.forget,
    ("GET", "runs/*"): ChatApi.run,
    ("GET", "runs/*/events"): ChatApi.run_events,
    ("POST", "runs/*/cancel"): ChatApi.cancel,
}


def _route(method: str, path: str) -> tuple[_Handler, tuple[str, ...]]:
    parts = path.split("/")
    names: tuple[str, ...] = ()
    if parts[0] == "models" and len(parts) > 1:
        names, parts = tuple(parts[1:]), ["models", "*"]  # names of models have slashes
    elif parts[0] in {"responses", "runs"} and len(parts) > 1:
        names, parts = (parts[1],), [parts[0], "*", *parts[2:]]
    pattern = "/".join(parts)
    handler = _ROUTES.get(("GET" if method == "HEAD" else method, pattern))
    if handler is not None:
        return handler, names
    methods = sorted(verb for verb, its in _ROUTES if its == pattern)
    if methods:
        raise HttpError(
            405,
            "method",
            f"/v1/{path[:100]} does not take {method}.",
            f"Use {' or '.join(methods)}.",
        )
    raise HttpError(404, "not_found", f"There is nothing at {'/v1/' + path[:100]!r}.")
