"""Metadata keys of exported ONNX models."""

PREFIX = "toolgate."
"""Prefix of the keys `pooling`, `query_prefix`, `document_prefix` and `max_length`."""
