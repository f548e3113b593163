"""Servers behind the gateway: one wire per technology, eras bridged, connections supervised."""

from importlib import import_module
from typing import Any

from toolgate.upstream._bridge import Bridge
from toolgate.upstream._fleet import Fleet, FleetObserver, WireMaker
from toolgate.upstream._functions import (
    FunctionTool,
    ToolContext,
    ToolServices,
    acting_for,
    is_context,
    tool,
    tools_of,
)
from toolgate.upstream._guard import OrphanGuard
from toolgate.upstream._local import (
    LocalParts,
    LocalPrompt,
    LocalResource,
    LocalServer,
    context_in,
)
from toolgate.upstream._server import Listing, UpstreamServer
from toolgate.upstream.base import CallSink, Wire, WireEvents

__all__ = [
    "Bridge",
    "CallSink",
    "Fleet",
    "FleetObserver",
    "FunctionTool",
    "Listing",
    "LocalParts",
    "LocalPrompt",
    "LocalResource",
    "LocalServer",
    "OrphanGuard",
    "ToolContext",
    "ToolServices",
    "UpstreamServer",
    "Wire",
    "WireEvents",
    "WireMaker",
    "acting_for",
    "context_in",
    "is_context",
    "new_http_session",
    "tool",
    "tools_of",
]


def new_http_session() -> Any:
    """The HTTP client that all HTTP upstreams share; its library is loaded only now."""
    return import_module("toolgate.upstream._http").open_http_session()
