"""Servers behind the gateway: one wire per technology, eras bridged, connections supervised."""

from toolgate.upstream._bridge import Bridge
from toolgate.upstream._fleet import Fleet, FleetObserver
from toolgate.upstream._server import Listing, UpstreamServer
from toolgate.upstream.base import CallSink, Wire, WireEvents

__all__ = [
    "Bridge",
    "CallSink",
    "Fleet",
    "FleetObserver",
    "Listing",
    "UpstreamServer",
    "Wire",
    "WireEvents",
]
