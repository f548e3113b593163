"""Checks `forward_headers`: which headers of clients may be forwarded to a server."""

import re
from collections.abc import Collection
from typing import Final

from toolgate.settings.servers.location import EntryLocation
from toolgate.settings.table_reader import dotted
from toolgate.settings.tables.servers import ServerTable

_NAME: Final = re.compile(r"[!#$%&'+.^_`|~0-9A-Za-z-]+")
"""A header name (RFC 9110, section 5.1), without `*`, which could be mistaken for a pattern."""

_OF_THE_CONNECTION: Final = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "cookie"),
        *("expect", "host", "keep-alive", "proxy-authorization", "te", "trailer"),
        *("traceparent", "tracestate", "transfer-encoding", "upgrade"),
    }
)
"""Headers of the client's connection to the gateway, or of its session in the console."""

_OWN_PREFIXES: Final = ("mcp-", "x-toolgate-")
"""Prefixes of headers that the gateway itself sets or reads."""


def read_forward_headers(table: ServerTable, kind: str, location: EntryLocation) -> tuple[str, ...]:
    """Check and return the names, in lower case.

    Args:
        table: The table of the server.
        kind: How the server is connected.
        location: Where the table is.

    Raises:
        SettingError: The server is not connected over HTTP, or a name is not allowed.
    """
    if not table.forward_headers:
        return ()
    if kind in {"stdio", "inprocess"}:
        raise location.document.error(
            (*location.path, "forward_headers"),
            f"{dotted(location.path)} has forward_headers, and is not reached over HTTP.",
            allowed="Allowed for servers with a url.",
            hint="Remove it. Values of the caller can go into arguments: see tool overrides.",
        )
    names = tuple(dict.fromkeys(name.strip().lower() for name in table.forward_headers))
    for name in names:
        if problem := _problem(name, table, {header.lower() for header in table.headers}):
            raise location.document.error(
                (*location.path, "forward_headers"),
                f"forward_headers of {dotted(location.path)} has {name[:60]!r}, {problem}.",
                allowed="Allowed: names of headers that clients send, such as X-Tenant.",
                hint="Remove it.",
            )
    return names


def _problem(name: str, table: ServerTable, configured: Collection[str]) -> str:
    if not _NAME.fullmatch(name):
        return "which is no name of a header; patterns are not allowed"
    if name in _OF_THE_CONNECTION or name.startswith(_OWN_PREFIXES):
        return "which is never forwarded"
    if name in configured:
        return "which its headers set already"
    if name in {header.lower() for header in table.credentials.headers}:
        return "which its credentials set already"
    if name == "authorization" and table.credentials.type != "stored":
        return "which its credentials set already"
    return ""
