"""Foundations without any dependency on the rest: ids, names, JSON, signing, tracing, plugins."""
