"""Sorts the first hits of a short request in a learned order."""
