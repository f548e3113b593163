"""Foundations without dependencies in the package: ids, names, JSON, signing, tracing, plugins."""
