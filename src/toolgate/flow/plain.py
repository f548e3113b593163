"""Steps one after another, without any library."""

from dataclasses import dataclass

from toolgate.flow._nodes import NODES, merged, route
from toolgate.flow._turn import Turn
from toolgate.flow.base import Engine, TurnState

__all__ = ["Options", "PlainEngine", "build"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """None."""


def build(options: Options) -> "PlainEngine":
    """The engine."""
    del options
    return PlainEngine()


class PlainEngine:
    """A loop."""

    async def run(self, turn: Turn, state: TurnState) -> TurnState:
        """Run a turn to its end."""
        state = merged(state, await NODES["initialise"](turn, state))
        while (step := route(turn, state)) != "end":
            state = merged(state, await NODES[step](turn, state))
        return state


_: type[Engine] = PlainEngine
