"""The part and format of a result that a caller wants."""

from dataclasses import dataclass

from toolgate.gateway.execution.result_formats import Format


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Which part of a result is wanted, and in which format."""

    select: str = ""
    """A jq filter; empty for the whole result."""

    format: Format | None = None
    """The format; None for JSON if a part is selected, else unchanged."""

    @property
    def is_whole(self) -> bool:
        """Whether the result is returned unchanged."""
        return not self.select and self.format is None
