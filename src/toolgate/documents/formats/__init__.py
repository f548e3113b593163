"""Formats of files, each read by a module of its own, in worker processes."""
