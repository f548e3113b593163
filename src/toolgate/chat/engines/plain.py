"""The engine `plain`: runs the steps one after another, without any library."""

from dataclasses import dataclass

from toolgate.chat.base import TurnState
from toolgate.chat.engines.base import Engine
from toolgate.chat.turns.steps import NODES, merged, route
from toolgate.chat.turns.turn import Turn


@dataclass(frozen=True, kw_only=True)
class Options:
    """No options."""


def build(options: Options) -> "PlainEngine":
    """Create the engine."""
    del options
    return PlainEngine()


class PlainEngine:
    """An engine that is a simple loop."""

    async def run(self, turn: Turn, state: TurnState) -> None:
        """Run a turn to its end."""
        state = merged(state, await NODES["initialise"](turn, state))
        while (step := route(turn, state)) != "end":
            state = merged(state, await NODES[step](turn, state))


_: type[Engine] = PlainEngine
