"""The time limit of the contract suites."""

from typing import Final

HANG_S: Final = 180.0
"""Seconds after which a wait counts as hung (chosen: waits take less than five seconds on two
idle cores, so much slower machines pass too)."""
