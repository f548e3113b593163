"""Definitions of the meta-tools as `tools/list` shows them to a caller."""

from collections.abc import Sequence

from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.catalog import CatalogEntry
from toolgate.gateway.meta_tools import DEFINITIONS
from toolgate.search import server_summary

__all__ = ["discovery_description", "meta_tool_definition"]

_MAX_TOKENS = 150
"""Estimated tokens of the `tool_discovery` description, which is part of every model request."""


def meta_tool_definition(name: str, tools: Sequence[CatalogEntry]) -> bytes:
    """The JSON definition of a meta-tool for a caller that may see `tools`."""
    definition = DEFINITIONS[name]
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
