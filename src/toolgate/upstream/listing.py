"""A server's listing: read page by page, checked, and merged if the server speaks both eras."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from toolgate.errors import RpcError
from toolgate.types import Json, json_array, json_object
from toolgate.upstream.era_session import EraSession
from toolgate.upstream.request_metadata import HeaderParams, header_params

_MAX_PAGES = 1000
"""Pages of one list (chosen, so that a server with endless cursors cannot block a listing)."""

_MAX_NAME_CHARS = 1000
"""Characters of a tool's name (chosen far beyond any real one)."""

# https://www.jsonrpc.org/specification#error_object
_METHOD_NOT_FOUND = -32601


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a server offers, as it sent it."""

    tools: tuple[Json, ...] = ()
    """Tool definitions in the server's order, without entries that have no usable name."""

    prompts: tuple[Json, ...] = ()
    """Prompts."""

    resources: tuple[Json, ...] = ()
    """Resources."""

    templates: tuple[Json, ...] = ()
    """Resource templates."""

    capabilities: Json = field(default_factory=dict[str, Any])
    """The capabilities that the server declared."""

    instructions: str = ""
    """The server's usage instructions."""

    ttl_ms: int | None = None
    """Milliseconds the tools stay valid; None: until a change is announced."""

    left_out: tuple[str, ...] = ()
    """Sentences about entries that could not be used."""


async def read_listing(
    session: EraSession, *, timeout_s: float
) -> tuple[Listing, dict[str, HeaderParams] | None]:
    """Read everything that a server offers in one era, and the tool parameters sent as headers.

    The second is None if the server has no tools.

    Args:
        session: The connection to the server.
        timeout_s: Seconds for each page.

    Raises:
        TimeoutError: A page did not arrive in time.
        UpstreamError: The server could not be listed.
    """
    left_out: list[str] = []
    tools: list[Json] = []
    mirrored: dict[str, HeaderParams] | None = None
    ttl_ms: int | None = None
    # Servers of the handshake era often have tools without declaring them.
    if "tools" in session.capabilities or session.era == "handshake":
        pages, ttl_ms = await _read_pages(session, "tools/list", "tools", timeout_s)
        tools, mirrored = _usable_tools(pages, left_out)
    prompts: list[Json] = []
    if "prompts" in session.capabilities:
        prompts, _ = await _read_pages(session, "prompts/list", "prompts", timeout_s)
    resources: list[Json] = []
    templates: list[Json] = []
    if "resources" in session.capabilities:
        resources, _ = await _read_pages(session, "resources/list", "resources", timeout_s)
        with suppress(RpcError):  # optional: many servers with resources have no templates
            templates, _ = await _read_pages(
                session, "resources/templates/list", "resourceTemplates", timeout_s
            )
    listing = Listing(
        tools=tuple(tools),
        prompts=tuple(_named(prompts, "name")),
        resources=tuple(_named(resources, "uri")),
        templates=tuple(_named(templates, "uriTemplate")),
        capabilities=session.capabilities,
        instructions=session.instructions,
        ttl_ms=ttl_ms,
        left_out=tuple(left_out),
    )
    return listing, mirrored


def join_listings(main: Listing, side: Listing) -> tuple[Listing, frozenset[str]]:
    """Merge the listings of both eras; also return the tools that only the second has.

    The first takes precedence; the second only adds tools.
    """
    names = {tool["name"] for tool in main.tools}
    extra = [tool for tool in side.tools if tool["name"] not in names]
    joined = replace(main, tools=(*main.tools, *extra))
    return joined, frozenset(str(tool["name"]) for tool in extra)


async def _read_pages(
    session: EraSession, method: str, member: str, timeout_s: float
) -> tuple[list[Json], int | None]:
    out: list[Json] = []
    cursors: set[str] = set()
    params: Json = {}
    ttl_ms: int | None = None
    for _ in range(_MAX_PAGES):
        # Per page: a server with many pages may take longer than for a single answer.
        async with asyncio.timeout(timeout_s):
            try:
                page = await session.request(method, params)
            except RpcError as error:
                if error.rpc_code == _METHOD_NOT_FOUND:  # declared or assumed, but not there
                    return out, None
                raise
        out.extend(json_object(entry) for entry in json_array(page.get(member)))
        if isinstance(page.get("ttlMs"), int):
            ttl_ms = page["ttlMs"]
        cursor = page.get("nextCursor")
        # A repeated cursor would cause an endless loop.
        if not isinstance(cursor, str) or cursor in cursors:
            break
        cursors.add(cursor)
        params = {"cursor": cursor}
    return out, ttl_ms


def _usable_tools(
    definitions: list[Json], left_out: list[str]
) -> tuple[list[Json], dict[str, HeaderParams]]:
    tools: dict[str, Json] = {}
    mirrored: dict[str, HeaderParams] = {}
    for definition in definitions:
        name = definition.get("name")
        if not isinstance(name, str) or not name or len(name) > _MAX_NAME_CHARS:
            # A bad entry must not make the server's other entries unusable.
            left_out.append(f"A tool was left out: its name is {name!r:.80}.")
            continue
        if name in tools:
            left_out.append(f"Tool {name!r} is listed twice; the first counts.")
            continue
        tool = definition
        if not isinstance(definition.get("inputSchema"), dict):
            # Clients refuse a whole list if one tool has no schema.
            tool = {**definition, "inputSchema": {"type": "object"}}
        headers = header_params(tool["inputSchema"])
        if headers is None:
            left_out.append(f"Tool {name!r} was left out: its x-mcp-header is not valid.")
            continue
        tools[name] = tool
        if headers:
            mirrored[name] = headers
    return list(tools.values()), mirrored


def _named(entries: list[Json], member: str) -> list[Json]:
    """Entries with a usable name or URI, without duplicates."""
    out: dict[str, Json] = {}
    for entry in entries:
        identity = entry.get(member)
        if isinstance(identity, str) and identity:
            out.setdefault(identity, entry)
    return list(out.values())
