"""What a caller wants of a result."""

from dataclasses import dataclass

from toolgate.gateway.execution.result_formats import Format

__all__ = ["Shape"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What of a result is wanted, and how it is written."""

    select: str = ""
    """A jq filter; empty: all of it."""

    format: Format | None = None
    """How it is written; None: as JSON where something is selected, else unchanged."""

    @property
    def is_whole(self) -> bool:
        """Whether the result stays as it is."""
        return not self.select and self.format is None
