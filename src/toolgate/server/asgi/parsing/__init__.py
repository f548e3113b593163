"""Parses requests: HTTP heads and headers, ASGI messages, JSON within limits."""
