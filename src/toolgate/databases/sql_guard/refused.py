"""The error that refuses a statement."""


class StatementRefusedError(Exception):
    """A statement is not known to be harmless; the message says why, without a full stop."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule
        """Stable name of the rule that refuses the statement."""
