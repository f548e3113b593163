"""Definitions of the meta-tools as `tools/list` shows them to a caller."""

from collections.abc import Sequence

from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.catalog import CatalogEntry
from toolgate.gateway.meta_tools import DEFINITIONS
from toolgate.search import server_summary

_MAX_TOKENS = 150
"""Estimated tokens of the `tool_discovery` description, which is part of every model request."""

_LOADED_AT_START = frozenset({"tool_discovery", "tool_execute"})
"""Meta-tools with which every search begins and ends: a client that searches its tools would need
one more search to find them. The others are named in answers when they are useful."""


def meta_tool_definition(name: str, tools: Sequence[CatalogEntry], load_at_start: str) -> bytes:
    """The JSON definition of a meta-tool.

    Args:
        name: The meta-tool.
        tools: The tools that the caller may see.
        load_at_start: Member of `_meta` with which the caller's client shows a tool to its model
            without a search; empty: none.
    """
    definition = DEFINITIONS[name]
    if load_at_start and name in _LOADED_AT_START:
        definition = {**definition, "_meta": {load_at_start: True}}
    if name == "tool_discovery":
        definition = {**definition, "description": discovery_description(tools)}
    return json_text.dumps(definition)


def discovery_description(tools: Sequence[CatalogEntry]) -> str:
    """The description of `tool_discovery`, which names the servers of `tools`."""
    general = str(DEFINITIONS["tool_discovery"]["description"])
    # The last 5 are for " Servers: " and the full stop.
    left = _MAX_TOKENS - estimate_tokens(general) - 5
    names: dict[str, list[str]] = {}
    for tool in tools:
        names.setdefault(tool.server, []).append(tool.name)
    summary = server_summary(names, max_tokens=left)
    return f"{general} Servers: {summary}." if summary else general
