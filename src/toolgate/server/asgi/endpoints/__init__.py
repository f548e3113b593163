"""ASGI applications that answer the console and the metrics."""
