"""Reads requests from bytes: HTTP heads and headers, ASGI messages, JSON within limits."""
