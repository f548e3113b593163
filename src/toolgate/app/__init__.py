"""Wiring: builders that turn settings into a running gateway."""
