"""What an engine has to do: go through the steps of a turn."""

from typing import Protocol, runtime_checkable

from toolgate.chat.base import TurnState
from toolgate.chat.turns.turn import Turn

__all__ = ["Engine"]


@runtime_checkable
class Engine(Protocol):
    """Goes from step to step until a turn is over.

    Duties, each tested for every engine:

    * Begins with `initialise`, then asks `route` after every step, and ends where that says `end`.
    * Nothing of one turn is seen by another; many run at the same time.
    * What a step raises, being cancelled included, reaches who runs the turn.
    """

    async def run(self, turn: Turn, state: TurnState) -> TurnState:
        """Run a turn to its end."""
        ...
