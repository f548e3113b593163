"""The time limit of the contract suites."""

from typing import Final

__all__ = ["HANG_S"]

HANG_S: Final = 180.0
"""Seconds after which a wait counts as hung (chosen: waits take less than five seconds on two
idle cores, so much slower machines pass too)."""
