"""The budget of a turn, and the message when it is exhausted."""

from dataclasses import dataclass, field

from toolgate.models.llm import NO_USAGE, TokenUsage
from toolgate.settings import ChatSettings


class BudgetExceededError(Exception):
    """A turn has reached one of its limits. Ends the turn, never leaves it."""

    def __init__(self, limit: str, sentence: str) -> None:
        super().__init__(sentence)
        self.limit = limit
        """Name of the setting in `[chat]`; `lookups`, `repeated_request` or `repeated_calls` if a
        model repeats itself."""
        self.sentence = sentence
        """The message for the user."""


@dataclass
class Budget:
    """What a turn has used so far."""

    settings: ChatSettings
    """Its limits."""

    steps: int = 0
    """Number of model answers."""

    calls: int = 0
    """Number of tool calls."""

    sql_calls: int = 0
    """Number of tool calls that query databases."""

    usage: TokenUsage = field(default=NO_USAGE)
    """Tokens and cost."""

    def step(self) -> None:
        """Count one more model answer.

        Raises:
            BudgetExceededError: The limit of steps, tokens or cost is reached.
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
        """Check the limits of tokens and cost.

        Raises:
            BudgetExceededError: One is reached.
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
        """Count one more tool call. Returns why it may not run; empty: it may."""
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
        """Add the usage of a request."""
        self.usage += usage
