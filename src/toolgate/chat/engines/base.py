"""The contract of an engine: it runs the steps of a turn."""

from typing import Protocol, runtime_checkable

from toolgate.chat.base import TurnState
from toolgate.chat.turns.turn import Turn


@runtime_checkable
class Engine(Protocol):
    """Runs steps until a turn is over.

    Duties, tested for every engine:

    * Starts with `initialise`, then asks `route` after every step, and ends when that returns
        `end`.
    * Turns are isolated from each other; many run at the same time.
    * Exceptions of a step, including cancellation, reach the caller of `run`.
    """

    async def run(self, turn: Turn, state: TurnState) -> None:
        """Run a turn to its end; what it produces is in `turn`."""
        ...
