"""Runs tools: single calls, and those that the meta-tools ask for."""

from toolgate.gateway.calls.service import CallService, error_result

__all__ = ["CallService", "error_result"]
