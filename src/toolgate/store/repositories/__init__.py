"""Contracts and values of the repositories. Knows no SQL."""
