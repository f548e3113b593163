"""What a tool of the pack answers when it does not do what was asked."""

__all__ = ["RefusedError"]


class RefusedError(Exception):
    """The tool did nothing; the message says why, to a model that reads it."""
