"""Chat models and embedding models."""
