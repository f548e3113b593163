"""The time limit of the contract suites."""

from typing import Final

__all__ = ["HANG_S"]

HANG_S: Final = 180.0
"""Seconds after which a wait counts as hung. Chosen: waits take less than five seconds on two quiet
cores, so a machine that is many times slower passes too."""
