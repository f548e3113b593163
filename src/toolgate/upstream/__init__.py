"""Servers behind the gateway: one wire per technology, eras bridged, connections supervised."""

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
from toolgate.upstream.base import CallSink, Credential, Wire, WireEvents

__all__ = [
    "Bridge",
    "CallSink",
    "Credential",
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
    "tool",
    "tools_of",
]
