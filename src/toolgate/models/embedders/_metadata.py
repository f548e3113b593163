"""Names under which an exported model carries in its own file what it wants to be told."""

__all__ = ["PREFIX"]

PREFIX = "toolgate."
"""Of `pooling`, `query_prefix`, `document_prefix` and `max_length`."""
