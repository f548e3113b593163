"""ASGI applications for the console and the metrics."""
