"""Configured servers: reads, checks and collects them from all files."""
