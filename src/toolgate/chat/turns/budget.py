"""The budget of a turn, and what is said when it is exhausted."""

from dataclasses import dataclass, field

from toolgate.models.llm import NO_USAGE, TokenUsage
from toolgate.settings import ChatSettings

__all__ = ["Budget", "BudgetExceededError"]


class BudgetExceededError(Exception):
    """A turn has used up one of its limits. Ends the turn, never leaves it."""

    def __init__(self, limit: str, sentence: str) -> None:
        super().__init__(sentence)
        self.limit = limit
        """Name of the setting in `[chat]`; `lookups` or `repeated_request` where a model repeats
        itself."""
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

    usage: TokenUsage = field(default=NO_USAGE)
    """Tokens and money."""

    def step(self) -> None:
        """Take one more answer of the model.

        Raises:
            SpentError: There are none left, or no tokens or money.
        """
        self.check()
        if self.steps >= self.settings.max_steps:
            raise BudgetExceededError(
                "max_steps",
                f"I had to stop here: this answer took all {self.settings.max_steps} steps that a "
                "turn may take.",
            )
        self.steps += 1

    def check(self) -> None:
        """See whether tokens and money are left.

        Raises:
            SpentError: They are not.
        """
        if self.usage.total_tokens >= self.settings.max_tokens:
            raise BudgetExceededError(
                "max_tokens",
                f"I had to stop here: this answer took {self.usage.total_tokens:,} tokens, and a "
                f"turn may take {self.settings.max_tokens:,}.",
            )
        max_cost = self.settings.max_cost
        if max_cost and self.usage.cost >= max_cost:
            raise BudgetExceededError(
                "max_cost",
                f"I had to stop here: this answer cost {self.usage.cost:.4g}, and a turn may cost "
                f"{max_cost:g}.",
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

    def spend(self, usage: TokenUsage) -> None:
        """Note what a request cost."""
        self.usage += usage
