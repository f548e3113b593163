"""`POST /catalog/search`: tool search for other gateways, over the tools they send.

It accepts tokens of the gateway, and separate ones in `[catalog_search]`. A token belongs to a
project. Indexes of tool lists are cached for later requests of that project, and never used for
another one.
"""

import asyncio
import hashlib
import hmac
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Annotated, NamedTuple, cast

import anyio
from pydantic import BeforeValidator, ConfigDict, Field

from toolgate.app.app import App
from toolgate.app.factories.search import Strategies
from toolgate.base.ids import new_id, utc_now
from toolgate.base.json_text import dumps
from toolgate.base.logs import REQUEST_ID
from toolgate.base.names import NO_PROJECT
from toolgate.base.validation import Input, parse
from toolgate.errors import ArgumentError, CredentialError, ForbiddenError, ToolgateError
from toolgate.search import (
    SearchableTool,
    SearchRequest,
    SearchStrategy,
    answer_body,
    end,
    tools_of,
)
from toolgate.server.asgi.authentication import presented_credentials
from toolgate.server.asgi.errors import send_error, send_failure
from toolgate.server.asgi.parsing.headers import header
from toolgate.server.asgi.parsing.json_body import HttpError, json_body
from toolgate.server.asgi.parsing.json_parser import BadMessageError
from toolgate.server.asgi.parsing.messages import (
    DisconnectedError,
    Receive,
    Scope,
    Send,
    TooLargeError,
    discard_body,
    send_json,
    with_header,
)
from toolgate.settings import CatalogSearchSettings
from toolgate.types import AuditRecord, Json, json_array

log = logging.getLogger(__name__)

_MOST_RESULTS = 100
"""Largest number of hits; chosen: nobody reads more."""
_BYTES_PER_TOOL = 4_096
"""Approximate bytes of an index per tool, without its text; measured with `hybrid`."""
_BYTES_PER_BYTE = 6
"""Approximate bytes of an index per byte of text."""


class CatalogSearch:
    """Handles `POST /catalog/search`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._tokens = _ProjectTokens({})
        self._lists = _IndexCache()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI); `Host` and `Origin` were checked before."""
        table = self._app.settings.catalog_search
        try:
            status, body = 200, await self._answer(scope, receive, table)
        except DisconnectedError:
            return
        except HttpError as error:
            # The body may not have been read.
            whole = discard_body(_with_challenge(send, error.status), scope, receive)
            await send_error(whole, error.status, error.code, error.message, hint=error.hint)
        except CredentialError as error:
            await send_failure(error, self._app, scope, receive, send)
        except TooLargeError:
            message = (
                f"The request body is larger than {table.max_body_bytes} bytes"
                " (setting catalog_search.max_body_bytes)."
            )
            closing = with_header(send, b"connection", b"close")
            await send_error(discard_body(closing, scope, receive), 413, "too_large", message)
        except BadMessageError as error:
            await send_error(send, 400, "bad_request", error.message)
        except ArgumentError as error:
            message = " ".join(part for part in (error.failed, error.allowed) if part)
            await send_error(send, 400, error.code, message, hint=error.hint)
        except ToolgateError as error:
            log.exception("catalog search failed")
            message = "The search does not work here; the log of the gateway says more."
            await send_error(send, 503, error.code, message, retryable=True)
        else:
            await send_json(send, status, body)

    async def aclose(self) -> None:
        """Close all cached indexes."""
        await self._lists.clear()

    async def _answer(self, scope: Scope, receive: Receive, table: CatalogSearchSettings) -> Json:
        began = perf_counter()
        asker = await self._asker(scope, table)
        if scope["method"] != "POST":
            raise HttpError(
                405, "method", f"/catalog/search does not take {scope['method']}.", "Use POST."
            )
        body = await json_body(
            scope,
            receive,
            max_bytes=table.max_body_bytes,
            max_depth=self._app.settings.serve.max_depth,
        )
        request = _read(
            body, asker.project, table.max_tools, self._app.settings.discovery.max_results
        )
        strategies = self._app.search_factory.strategies
        async with self._lists.of(asker.project, body["tools"], strategies, table) as entry:
            answer = await entry.strategy.search(request)
            body_json = answer_body(answer, entry.tools)
        self._record(asker, request, len(entry.tools), len(answer.hits), began)
        return body_json

    async def _asker(self, scope: Scope, table: CatalogSearchSettings) -> "_Asker":
        """Authenticate by a token of `[catalog_search]`, or else of the gateway.

        Raises:
            HttpError: The token is neither; status 404 if the settings have no tokens.
            CredentialError: It is one wrong token of too many.
        """
        if self._tokens.table is not table.tokens:
            self._tokens = _ProjectTokens(table.tokens)
        scheme, _, token = (header(scope, b"authorization") or "").strip().partition(" ")
        if token and scheme.lower() == "bearer":
            project = self._tokens.project_of(token.strip())
            if project is not None:
                return _Asker(project, f"catalog:{project}"[:200])
        admission = self._app.gateway.admission
        # Without `auth = "required"` any token would pass.
        if admission.required:
            try:
                caller = await admission.admit(presented_credentials(scope, {}))
            except CredentialError as error:
                if error.wait_s:
                    raise
            except ForbiddenError:
                pass  # answered like a token that is unknown
            else:
                return _Asker(caller.project_id, caller.caller_id)
        if not table.tokens:
            raise HttpError(
                404,
                "not_found",
                "This gateway does not search for others.",
                "Send a token of the gateway; its operator can also name tokens under"
                " [catalog_search].",
            )
        if not token:
            raise HttpError(
                401,
                "access",
                "The request has no bearer token.",
                "Send the header: Authorization: Bearer TOKEN.",
            )
        raise HttpError(
            401, "access", "The bearer token is not known here.", "Ask the operator for one."
        )

    def _record(
        self, asker: "_Asker", request: SearchRequest, tools: int, hits: int, began: float
    ) -> None:
        """Record the search in the audit log, without the tools searched."""
        keeps = self._app.settings.audit.keep_queries
        record = AuditRecord(
            record_id=new_id(),
            at=utc_now(),
            action="catalog_search",
            caller_id=asker.caller_id,
            request_id=REQUEST_ID.get(),
            query="\n".join(request.queries)[:2_000] if keeps else None,
            duration_ms=round((perf_counter() - began) * 1000, 3),
            detail={"project": asker.project, "tools": tools, "hits": hits},
        )
        self._app.recorder.record(record)


class _Asker(NamedTuple):
    """The caller."""

    project: str
    """The project that the token belongs to."""
    caller_id: str
    """Caller id in the audit log."""


# Request


def _whole(value: object) -> object:
    """Convert a float such as 3.0 to an integer, as JSON Schema allows."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class ListedTool(Input):
    """A tool that may be found."""

    model_config = ConfigDict(extra="ignore")

    toolKey: str = Field(min_length=1)  # noqa: N815 - names on the wire
    toolName: str  # noqa: N815
    serverName: str  # noqa: N815
    description: str = ""


class CatalogQuery(Input):
    """A search in the tools that it brings; `catalog_search.schema.json` publishes the same."""

    model_config = ConfigDict(extra="ignore")

    query: list[str] = Field(min_length=1)
    context: str = ""
    tools: list[ListedTool]
    maxResults: Whole = Field(0, ge=1, le=_MOST_RESULTS)  # noqa: N815 - names on the wire
    projectId: str = ""  # noqa: N815
    version: Whole = Field(1, ge=1)


def _read(body: Json, project: str, max_tools: int, max_results: int) -> SearchRequest:
    """Return the search in a body, after checking all members that are used."""
    tools = json_array(body.get("tools"))
    if len(tools) > max_tools:
        raise HttpError(
            413,
            "too_large",
            f"The request has {len(tools)} tools; at most {max_tools} are searched here"
            " (setting catalog_search.max_tools).",
            "Send fewer, the likely ones.",
        )
    query = parse(CatalogQuery, body, hint="The schema is in docs/cloud-search.md.")
    named = "" if query.projectId in NO_PROJECT else query.projectId
    if named and not hmac.compare_digest(named.encode(errors="replace"), project.encode()):
        raise HttpError(
            403,
            "forbidden",
            "The bearer token belongs to another project than projectId.",
            "Leave projectId out, or use the token of that project.",
        )
    return SearchRequest(
        queries=tuple(query.query),
        context=query.context,
        limit=query.maxResults or max_results,
        project_id=project,
    )


def _with_challenge(send: Send, status: int) -> Send:
    if status == 401:
        return with_header(send, b"www-authenticate", b'Bearer realm="toolgate"')
    return with_header(send, b"allow", b"POST") if status == 405 else send


# Tokens


class _ProjectTokens:
    """Projects by token hash."""

    def __init__(self, table: Mapping[str, Sequence[str]]) -> None:
        self.table = table
        """The configured tokens."""
        self._hashes = [
            (_hash_of(token), project) for project, tokens in table.items() for token in tokens
        ]

    def project_of(self, token: str) -> str | None:
        """Return the project of a token; takes the same time for valid and invalid ones."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        match = None
        for token_hash, project in self._hashes:
            if hmac.compare_digest(token_hash, digest):
                match = project
        return match


def _hash_of(token: str) -> bytes:
    """Return the hash of a configured token, which is plain text or hashed."""
    scheme, colon, digits = token.partition(":")
    if colon and scheme == "sha256":
        return bytes.fromhex(digits)
    return hashlib.sha256(token.encode()).digest()


# Indexes


@dataclass(eq=False)
class _CachedIndex:
    """The index of one list of tools."""

    strategy: SearchStrategy
    tools: Mapping[str, SearchableTool]
    size_bytes: int
    users: int = 0
    is_cached: bool = True


class _IndexCache:
    """Cache of the most recently used indexes, limited in number and bytes."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, bytes], _CachedIndex] = OrderedDict()
        self._strategies: Strategies | None = None
        self._locks: dict[tuple[str, bytes], asyncio.Lock] = {}
        self._building = anyio.Semaphore(2)

    @asynccontextmanager
    async def of(
        self,
        project: str,
        tools: Sequence[object],
        strategies: Strategies,
        table: CatalogSearchSettings,
    ) -> AsyncGenerator[_CachedIndex]:
        """Yield the index of a project's tool list; build it if it is not cached."""
        if self._strategies is not strategies:
            # The settings changed: indexes built before may search in another way.
            await self.clear()
            self._strategies = strategies
        plan = dumps([table.strategy, table.selector])
        key, size = await anyio.to_thread.run_sync(_key_of, project, plan, tools)
        entry = await self._built(key, size, tools, strategies, table)
        entry.users += 1
        try:
            yield entry
        finally:
            entry.users -= 1
            if not entry.is_cached and not entry.users:
                await end(entry.strategy)

    async def clear(self) -> None:
        """Remove all indexes."""
        while self._entries:
            await self._drop_oldest()

    async def _built(
        self,
        key: tuple[str, bytes],
        size_bytes: int,
        tools: Sequence[object],
        strategies: Strategies,
        table: CatalogSearchSettings,
    ) -> _CachedIndex:
        # One lock per list and build, so that two requests with the same new list build it once.
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if (cached := self._entries.get(key)) is not None:
                    self._entries.move_to_end(key)
                    return cached
                async with self._building:
                    strategy = strategies.make(
                        table.strategy, selector=table.selector, setting="catalog_search.strategy"
                    )
                    try:
                        listed = await anyio.to_thread.run_sync(tools_of, {"tools": tools})
                        await strategy.update(listed)
                    except BaseException:
                        with anyio.CancelScope(shield=True):
                            await end(strategy)
                        raise
                entry = _CachedIndex(strategy, {tool.key: tool for tool in listed}, size_bytes)
                if self._strategies is strategies:
                    await self._keep(key, entry, table)
                else:
                    entry.is_cached = False  # the settings changed meanwhile
                return entry
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    async def _keep(
        self, key: tuple[str, bytes], entry: _CachedIndex, table: CatalogSearchSettings
    ) -> None:
        most_bytes = table.kept_mb * 2**20
        if entry.size_bytes > most_bytes:
            entry.is_cached = False  # too large to be kept, so it ends with its request
            return
        self._entries[key] = entry
        while len(self._entries) > table.kept_lists or self._size_bytes() > most_bytes:
            await self._drop_oldest()

    def _size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self._entries.values())

    async def _drop_oldest(self) -> None:
        _, entry = self._entries.popitem(last=False)
        entry.is_cached = False
        if not entry.users:
            await end(entry.strategy)


def _key_of(project: str, plan: bytes, tools: Sequence[object]) -> tuple[tuple[str, bytes], int]:
    """Return the cache key of a list, and the approximate size of its index in bytes."""
    names = ("toolKey", "toolName", "serverName", "description")
    read = dumps([[cast("Json", tool).get(name) or "" for name in names] for tool in tools])
    digest = hashlib.sha256(plan + b"\0" + read).digest()
    size = len(read) * _BYTES_PER_BYTE + len(json_array(tools)) * _BYTES_PER_TOOL
    return (project, digest), size
