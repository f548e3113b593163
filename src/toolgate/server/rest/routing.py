"""Routes of the REST API: a handler, whose parameters declare its body, query and path.

A handler takes a `Call`, the variable part of its path as `name`, and `body` or `query` as a model:

    @routes.post("tokens/{name}/rotate")
    async def rotate_token(call: Call, name: str, body: RotateToken) -> NewToken:
        ...
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl

from pydantic import BaseModel

from toolgate.app.app import App
from toolgate.base.validation import parse
from toolgate.gateway.gateway import Gateway
from toolgate.server.asgi.authentication import CALLER
from toolgate.server.asgi.parsing.json_body import json_body
from toolgate.server.asgi.parsing.messages import Receive, Scope, Send, send_json
from toolgate.server.rest.models import Body, PageQuery
from toolgate.server.rest.pagination import paged
from toolgate.store import store_deadline
from toolgate.types import Caller, Json

LONG_WAIT_S = 600.0
"""Seconds that requests which may delete a lot wait for each transaction; chosen: deleting a
collection of a million passages takes minutes."""

HandlerT = TypeVar("HandlerT", bound=Callable[..., Awaitable[object]])


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of the API: the gateway and the caller."""

    app: App
    """The gateway application."""

    caller: Caller
    """The caller."""

    @property
    def gateway(self) -> Gateway:
        """The operations of the gateway."""
        return self.app.gateway

    def must_manage(self) -> None:
        """Refuse callers without the right to manage.

        Raises:
            ForbiddenError: The caller lacks the right.
        """
        self.gateway.visible.must_manage(self.caller)


def long_transactions() -> AbstractContextManager[object]:
    """Allow transactions within the block to take long, until `LONG_WAIT_S`."""
    return store_deadline(LONG_WAIT_S, each=True)


@dataclass(frozen=True)
class Reply:
    """A response with an explicit status."""

    status: int
    """HTTP status."""

    content: object
    """A model or JSON."""


@dataclass(frozen=True, kw_only=True)
class RestRoute:
    """One operation of the API."""

    method: str
    """HTTP method."""

    path: str
    """Path below `/api/v1/`, with `{name}` for the variable part."""

    handler: Callable[..., Awaitable[object]]
    """Function that returns the response."""

    status: int
    """HTTP status of a successful response."""

    answer: Any
    """Type of the response; `Json` for any object."""

    pages: str
    """Name of the list in the response that `?limit=` pages; empty: none."""

    example: Json | None
    """Valid body, for the OpenAPI document."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Types of the handler's parameters, by name."""
        return inspect.get_annotations(self.handler)

    @property
    def body(self) -> Any:
        """Type of the body; None: the method has none."""
        has_body = self.method in {"PATCH", "POST", "PUT"}
        return self.parameters.get("body", Body) if has_body else None

    async def respond(self, call: Call, name: str, query: Mapping[str, str], body: Json) -> Reply:
        """Return the response to a request.

        Raises:
            ArgumentError: The body or query does not fit the models of the handler.
        """
        arguments: Json = {}
        if "name" in self.parameters:
            arguments["name"] = name
        if "query" in self.parameters:
            arguments["query"] = parse(self.parameters["query"], query, subject="Parameter")
        if self.body is not None:
            content = parse(self.body, body) if _is_model(self.body) else body
            if "body" in self.parameters:
                arguments["body"] = content
        page = parse(PageQuery, query, subject="Parameter") if self.pages else None
        answer = await self.handler(call, **arguments)
        reply = answer if isinstance(answer, Reply) else Reply(self.status, answer)
        content = reply.content
        if isinstance(content, BaseModel):
            content = content.model_dump(mode="json", exclude_unset=True)
        if page is not None:
            content = paged(cast("Json", content), self.pages, page)
        return Reply(reply.status, content)


class Routes:
    """Routes of one topic, registered with decorators."""

    def __init__(self) -> None:
        self.routes: list[RestRoute] = []

    def get(
        self, path: str, *, answer: Any = None, pages: str = ""
    ) -> Callable[[HandlerT], HandlerT]:
        """Register a handler for `GET`."""
        return self._add("GET", path, answer=answer, pages=pages)

    def post(
        self, path: str, *, status: int = 200, answer: Any = None, example: Json | None = None
    ) -> Callable[[HandlerT], HandlerT]:
        """Register a handler for `POST`."""
        return self._add("POST", path, status=status, answer=answer, example=example)

    def patch(self, path: str) -> Callable[[HandlerT], HandlerT]:
        """Register a handler for `PATCH`."""
        return self._add("PATCH", path)

    def put(self, path: str, *, example: Json) -> Callable[[HandlerT], HandlerT]:
        """Register a handler for `PUT`."""
        return self._add("PUT", path, example=example)

    def delete(self, path: str) -> Callable[[HandlerT], HandlerT]:
        """Register a handler for `DELETE`."""
        return self._add("DELETE", path)

    def _add(
        self,
        method: str,
        path: str,
        *,
        status: int = 200,
        answer: Any = None,
        pages: str = "",
        example: Json | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        def add(handler: HandlerT) -> HandlerT:
            self.routes.append(
                RestRoute(
                    method=method,
                    path=path,
                    handler=handler,
                    status=status,
                    answer=answer or inspect.get_annotations(handler)["return"],
                    pages=pages,
                    example=example,
                )
            )
            return handler

        return add


class PathEndpoint:
    """All operations at one path, as the endpoint of a Starlette route."""

    def __init__(self, app: App, routes: Mapping[str, RestRoute]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request of an authenticated caller (ASGI)."""
        method: str = scope["method"]
        route = self._routes["GET" if method == "HEAD" else method]
        body: Json = {}
        if route.body is not None:
            settings = self._app.settings.serve
            body = await json_body(
                scope,
                receive,
                max_bytes=settings.max_body_bytes,
                max_depth=settings.max_depth,
                may_be_empty=True,
            )
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        caller = CALLER.get()
        assert caller is not None
        call = Call(app=self._app, caller=caller)
        reply = await route.respond(call, scope["path_params"].get("name", ""), query, body)
        await send_json(send, reply.status, reply.content)


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
