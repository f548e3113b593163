"""What a tool can do, guessed from its words by a list that is data (`_capabilities.json`).

Each rule gives its capabilities to tools whose name or description has one of its words, in any
form of the word.
"""

import json
from functools import cache
from pathlib import Path
from typing import cast

from toolgate.search._text import split_identifier, terms, words
from toolgate.search.base import SearchableTool
from toolgate.types import json_array, json_object

__all__ = ["capabilities_of", "enriched"]

_FILE = Path(__file__).with_name("_capabilities.json")
_READ_CHARS = 2_000


def capabilities_of(name: str, description: str) -> tuple[str, ...]:
    """Capabilities in the order of the list, each once."""
    text = " ".join((*split_identifier(name), description[:_READ_CHARS]))
    found = {term for word in words(text) for term in terms(word)}
    return tuple(
        dict.fromkeys(
            capability
            for wanted, capabilities in _rules()
            if not found.isdisjoint(wanted)
            for capability in capabilities
        )
    )


def enriched(tool: SearchableTool) -> str:
    """A description of a tool in one line: name, server, text, parameters and capabilities."""
    parts = [f"Tool: {' '.join(split_identifier(tool.name))}", f"Server: {tool.server}"]
    if tool.description:
        parts.append(f"Description: {tool.description.rstrip(' .')}")
    parameters = [f"{name}: {text}".rstrip(": ") for name, text in tool.parameters]
    if parameters:
        parts.append(f"Parameters: {', '.join(parameters)}")
    if capabilities := capabilities_of(tool.name, tool.description):
        parts.append(f"Capabilities: {', '.join(capabilities)}")
    return ". ".join(parts)


@cache
def _rules() -> tuple[tuple[frozenset[str], tuple[str, ...]], ...]:
    """The terms that each rule looks for, and what it gives."""
    rules = [json_object(rule) for rule in json_array(json.loads(_FILE.read_text("utf-8")))]
    return tuple(
        (
            frozenset(term for word in _texts(rule, "words") for term in terms(word)),
            tuple(_texts(rule, "capabilities")),
        )
        for rule in rules
    )


def _texts(rule: dict[str, object], name: str) -> list[str]:
    return cast("list[str]", rule[name])
