"""What a turn may spend, and the sentence with which it ends when that is used up."""

from dataclasses import dataclass, field

from toolgate.models.llm import NO_USAGE, Usage
from toolgate.settings import ChatSettings

__all__ = ["Budget", "SpentError"]


class SpentError(Exception):
    """A turn has used up one of its limits. Ends the turn, never leaves it."""

    def __init__(self, what: str, sentence: str) -> None:
        super().__init__(sentence)
        self.what = what
        """Name of the setting in `[chat]`."""
        self.sentence = sentence
        """For the user."""


@dataclass
class Budget:
    """What one turn has used so far."""

    settings: ChatSettings
    """Its limits."""

    steps: int = 0
    """Answers of the model."""

    calls: int = 0
    """Calls of tools."""

    sql_calls: int = 0
    """Those of them that ask databases."""

    usage: Usage = field(default=NO_USAGE)
    """Tokens and money."""

    def step(self) -> None:
        """Take one more answer of the model.

        Raises:
            SpentError: There are none left, or no tokens or money.
        """
        self.look()
        if self.steps >= self.settings.max_steps:
            raise SpentError(
                "max_steps",
                f"I had to stop here: this answer took all {self.settings.max_steps} steps that a "
                "turn may take.",
            )
        self.steps += 1

    def look(self) -> None:
        """See whether tokens and money are left.

        Raises:
            SpentError: They are not.
        """
        if self.usage.total_tokens >= self.settings.max_tokens:
            raise SpentError(
                "max_tokens",
                f"I had to stop here: this answer took {self.usage.total_tokens:,} tokens, and a "
                f"turn may take {self.settings.max_tokens:,}.",
            )
        most = self.settings.max_cost
        if most and self.usage.cost >= most:
            raise SpentError(
                "max_cost",
                f"I had to stop here: this answer cost {self.usage.cost:.4g}, and a turn may cost "
                f"{most:g}.",
            )

    def call(self, *, is_sql: bool) -> str:
        """Take one more call; gives why it may not run, or nothing."""
        if self.calls >= self.settings.max_tool_calls:
            return (
                f"[not run: a turn may make {self.settings.max_tool_calls} calls of tools. Answer "
                "with what is known.]"
            )
        if is_sql and self.sql_calls >= self.settings.max_sql_calls:
            return (
                f"[not run: a turn may ask databases {self.settings.max_sql_calls} times. Answer "
                "with what is known.]"
            )
        self.calls += 1
        self.sql_calls += is_sql
        return ""

    def spend(self, usage: Usage) -> None:
        """Note what a request cost."""
        self.usage += usage
