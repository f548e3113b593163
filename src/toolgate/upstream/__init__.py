"""Servers behind the gateway: one wire per technology, eras bridged, every connection supervised."""

from toolgate.upstream.base import CallSink, Wire, WireEvents

__all__ = ["CallSink", "Wire", "WireEvents"]
