"""Steps one after another, without any library."""

from dataclasses import dataclass

from toolgate.flow._nodes import NODES, route
from toolgate.flow._turn import Turn
from toolgate.flow.base import Engine, TurnState, Update

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
        state = _merged(state, await NODES["initialise"](turn, state))
        while (step := route(turn, state)) != "end":
            state = _merged(state, await NODES[step](turn, state))
        return state


def _merged(state: TurnState, update: Update) -> TurnState:
    messages = [*state.get("messages", []), *update.get("messages", [])]
    return {**state, **update, "messages": messages}


_: type[Engine] = PlainEngine
