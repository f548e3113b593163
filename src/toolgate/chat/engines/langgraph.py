"""The engine `langgraph`: the steps as a LangGraph graph.

Nothing is stored between turns: the history of a thread is in the transcript. A checkpointer can
be passed for inspecting a turn; documents are in a channel that no checkpoint contains.
https://docs.langchain.com/oss/python/langgraph/graph-api
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from operator import add
from typing import Annotated, Any, cast

# The library brings its types in parts of its folders only.
# pyright: reportMissingTypeStubs=false
from langgraph.channels import UntrackedValue
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from toolgate.chat.base import TurnState
from toolgate.chat.engines.base import Engine
from toolgate.chat.turns.steps import NODES, Node, merged, route
from toolgate.chat.turns.turn import Turn
from toolgate.models.llm import Message
from toolgate.types import Json

_STEPS_A_NODE = 3
"""Most graph steps per answer of the model: complete, retrieve, tools."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """No options."""


class GraphState(TypedDict, total=False):
    """The channels of the graph: those of `TurnState`."""

    messages: Annotated[list[Message], add]
    """Append-only."""
    cleaned_messages: Annotated[list[Message], UntrackedValue]
    """Messages of the last request to the model, including documents; only in this run."""
    context_input: str
    """Query for documents."""
    documents: Annotated[str, UntrackedValue]
    """Only in this run, and in no checkpoint."""
    vs_metadata: Json
    """Metadata of the search."""
    final_response: Json
    """The answer."""


def build(options: Options) -> "GraphEngine":
    """Create the engine."""
    del options
    return GraphEngine()


class GraphEngine:
    """A compiled graph, the same for all turns."""

    def __init__(self, *, checkpointer: Any = None) -> None:
        graph: Any = StateGraph(cast("Any", GraphState), context_schema=cast("Any", Turn))
        following = ("complete", "retrieve", "tools", END)
        for name, node in NODES.items():
            graph.add_node(name, _step(node), destinations=following)
        graph.add_edge(START, "initialise")
        self.graph: Any = graph.compile(checkpointer=checkpointer)
        """The graph itself, for drawing it or inspecting a turn."""

    async def run(self, turn: Turn, state: TurnState) -> None:
        """Run a turn to its end."""
        config: Json = {"recursion_limit": turn.settings.max_steps * _STEPS_A_NODE + 10}
        if self.graph.checkpointer is not None:
            config["configurable"] = {"thread_id": turn.turn_id}
        # Nobody reads the channels from outside: by default, each step would output all of them.
        await self.graph.ainvoke(state, config, context=turn, stream_mode="updates", output_keys=())


def _step(node: Node) -> Callable[[TurnState, Runtime[Turn]], Awaitable[Command[str]]]:
    """Wrap a step that returns its successor: a conditional edge costs a thread each time."""

    async def run(state: TurnState, runtime: Runtime[Turn]) -> Command[str]:
        update = await node(runtime.context, state)
        following = route(runtime.context, merged(state, update))
        return Command(update=update, goto=END if following == "end" else following)

    return run


_: type[Engine] = GraphEngine
