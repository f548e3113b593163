"""All routes of the REST API, and their dispatch."""

from collections import defaultdict
from functools import cache

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router

from toolgate.app.app import App
from toolgate.server.asgi.parsing.json_body import HttpError
from toolgate.server.asgi.parsing.messages import Receive, Scope, Send
from toolgate.server.rest.openapi import openapi_document
from toolgate.server.rest.routes import (
    approvals,
    audit,
    chat,
    credentials,
    documents,
    guards,
    intents,
    permissions,
    projects,
    prompts,
    quarantine,
    reports,
    search_index,
    servers,
    tokens,
    tools,
)
from toolgate.server.rest.routing import Call, PathEndpoint, RestRoute, Routes
from toolgate.types import Json

_document = Routes()


@_document.get("openapi.json")
async def openapi(_call: Call) -> Json:
    """Describe this API as a document of OpenAPI 3.1."""
    return await anyio.to_thread.run_sync(_openapi_once)


@cache
def _openapi_once() -> Json:
    """Build the document; takes a tenth of a CPU second, in which other requests go on."""
    return openapi_document(ROUTES)


ROUTES: tuple[RestRoute, ...] = tuple(
    route
    for topic in (
        tools.routes,  # called most, so they are compared first
        intents.routes,
        servers.routes,
        quarantine.routes,
        credentials.routes,
        approvals.routes,
        tokens.routes,
        projects.routes,
        permissions.routes,
        guards.routes,
        audit.routes,
        reports.routes,
        search_index.routes,
        documents.routes,
        prompts.routes,
        chat.routes,
        _document,
    )
    for route in topic.routes
)
"""All routes."""


class RestRouter:
    """Starlette's router with all routes."""

    def __init__(self, app: App) -> None:
        by_path: dict[str, dict[str, RestRoute]] = defaultdict(dict)
        for route in ROUTES:
            by_path[route.path][route.method] = route
        self._router = Router(
            [
                Route(f"/{path}", PathEndpoint(app, routes), methods=[*routes])
                for path, routes in by_path.items()
            ],
            redirect_slashes=False,
            default=_not_found,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request of an authenticated caller (ASGI).

        Raises:
            HttpError: The path does not exist, or does not allow the method.
            ToolgateError: The operation failed.
        """
        path = scope["path"].removeprefix("/api/v1/").rstrip("/")
        # If the scope has an app, Starlette raises for a wrong method instead of responding itself.
        below = {**scope, "app": self, "path": f"/{path}", "root_path": ""}
        try:
            await self._router(below, receive, send)
        except HTTPException as error:
            allowed = sorted(set((error.headers or {})["Allow"].split(", ")) - {"HEAD"})
            message = f"/api/v1/{path} does not take {scope['method']}."
            raise HttpError(405, "method", message, f"Use {' or '.join(allowed)}.") from None


async def _not_found(scope: Scope, _receive: Receive, _send: Send) -> None:
    path = f"/api/v1{scope['path'][:101]}"
    raise HttpError(404, "not_found", f"There is nothing at {path!r}.")
