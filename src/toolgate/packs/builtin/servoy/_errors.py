"""The error that a tool of the pack answers with."""

__all__ = ["ToolRefusedError"]


class ToolRefusedError(Exception):
    """The tool did nothing; the message says why, to a model that reads it."""

    def __init__(self, text: str, more: str = "") -> None:
        """Say why.

        Args:
            text: The reason, which programs compare.
            more: What helps to do it right: what there is, what was perhaps meant.
        """
        super().__init__(text)
        self.more = more

    def __str__(self) -> str:
        return " ".join(filter(None, (str(self.args[0]), self.more)))

    @property
    def text(self) -> str:
        """The reason alone."""
        return str(self.args[0])
