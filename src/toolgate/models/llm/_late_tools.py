"""Tools that a conversation gets after its start.

Services read tools before messages: a new tool makes them read the whole conversation again, at
several times the price of what they have cached.
"""

from dataclasses import replace

from toolgate.base import json_text
from toolgate.models.llm.base import ChatRequest, Message
from toolgate.types import Json, json_object

_CACHEABLE_CHARS = 4_096
"""Characters of tools and messages after which later tools are kept out of the start of a request:
about 1,024 tokens, the shortest start that services cache. Less is cheaper to read again.
https://platform.openai.com/docs/guides/prompt-caching#requirements
https://docs.claude.com/en/docs/build-with-claude/prompt-caching#cache-limitations"""

_RUNS_OTHERS = "tool_execute"
"""The tool that calls those which the request does not list."""

_HEAD = f"More tools, to be called with {_RUNS_OTHERS} (toolKey is the name):"


def late_tools(request: ChatRequest) -> frozenset[str]:
    """Return the names of the tools that messages load after a start that services cache."""
    loaded = {name for message in request.messages for name in message.loads}
    if not loaded:
        return frozenset()
    tools = {_name(tool): tool for tool in request.tools}
    late: set[str] = set()
    n_chars = sum(len(json_text.dumps(tools[name])) for name in tools.keys() - loaded)
    for message in request.messages:
        if n_chars >= _CACHEABLE_CHARS:
            late.update(name for name in message.loads if name in tools)
        n_chars += len(message.text)
    return frozenset(late)


def with_tools_in_messages(request: ChatRequest) -> ChatRequest:
    """Return a request whose late tools are defined in the messages that load them.

    For services that cannot load tools within a conversation: the model calls these tools with
    `tool_execute`. Without it, and for a tool that the client demands, nothing changes.
    """
    demanded = json_object(json_object(request.parameters.get("tool_choice")).get("function"))
    late = late_tools(request) - {str(demanded.get("name"))}
    tools = {_name(tool): tool for tool in request.tools}
    if not late or _RUNS_OTHERS not in tools:
        return request
    messages = tuple(
        _defining(message, [tools[name] for name in message.loads if name in late])
        for message in request.messages
    )
    left = tuple(tool for tool in request.tools if _name(tool) not in late)
    return replace(request, messages=messages, tools=left)


def _defining(message: Message, tools: list[Json]) -> Message:
    """Return the message, followed by the definitions of tools."""
    if not tools:
        return message
    lines = [_HEAD, *(json_text.dumps(tool["function"]).decode() for tool in tools)]
    text = "\n".join(lines)
    if isinstance(message.content, str):
        return replace(message, content=f"{message.content}\n\n{text}")
    return replace(message, content=(*message.content, {"type": "text", "text": f"\n\n{text}"}))


def _name(tool: Json) -> str:
    return str(json_object(tool.get("function")).get("name"))
