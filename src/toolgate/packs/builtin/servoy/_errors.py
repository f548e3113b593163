"""The error with which tools of the pack refuse a call."""


class ToolRefusedError(Exception):
    """The tool did nothing; the message tells the model why."""

    def __init__(self, text: str, more: str = "") -> None:
        """Create the error.

        Args:
            text: The reason, which programs compare.
            more: Help to correct the call: what exists, what was perhaps meant.
        """
        super().__init__(text)
        self.more = more

    def __str__(self) -> str:
        return " ".join(filter(None, (str(self.args[0]), self.more)))

    @property
    def text(self) -> str:
        """The reason without `more`."""
        return str(self.args[0])
