"""Runs tools: single calls, and calls made through meta-tools."""

from toolgate.gateway.calls.service import CallService, error_result

__all__ = ["CallService", "error_result"]
