"""Results of tools in the form of MCP."""

from typing import Final

from toolgate.types import Json

PARKED_META: Final = "toolgate/parked"
"""Member of `_meta` of the result of a saved program that waits for a person: the program's id."""


def failed_result(text: str) -> Json:
    """A result that says in one text why the call failed."""
    return {"content": [{"type": "text", "text": text}], "isError": True}
