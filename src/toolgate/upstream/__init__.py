"""Connections to upstream servers: transports, protocol eras, supervision."""

from toolgate.upstream.base import CallSink, Credential, Wire, WireEvents
from toolgate.upstream.era_bridge import EraBridge
from toolgate.upstream.fleet import Fleet, FleetObserver, WireMaker
from toolgate.upstream.listing import Listing
from toolgate.upstream.python_tools.functions import FunctionTool, tool, tools_of
from toolgate.upstream.python_tools.pack_server import (
    LocalParts,
    LocalPrompt,
    LocalResource,
    LocalServer,
    context_in,
)
from toolgate.upstream.python_tools.tool_context import (
    ToolContext,
    ToolServices,
    acting_for,
    is_context,
)
from toolgate.upstream.server import UpstreamServer
from toolgate.upstream.transports._duplex import DuplexWire, PendingRequest
from toolgate.upstream.transports._jsonrpc import read_big_message
from toolgate.upstream.transports._message_lines import LineFramer, OverlongMessage
from toolgate.upstream.transports._orphan_guard import OrphanGuard

__all__ = [
    "CallSink",
    "Credential",
    "DuplexWire",
    "EraBridge",
    "Fleet",
    "FleetObserver",
    "FunctionTool",
    "LineFramer",
    "Listing",
    "LocalParts",
    "LocalPrompt",
    "LocalResource",
    "LocalServer",
    "OrphanGuard",
    "OverlongMessage",
    "PendingRequest",
    "ToolContext",
    "ToolServices",
    "UpstreamServer",
    "Wire",
    "WireEvents",
    "WireMaker",
    "acting_for",
    "context_in",
    "is_context",
    "read_big_message",
    "tool",
    "tools_of",
]
