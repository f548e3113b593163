"""Results of tools in the form of MCP."""

from toolgate.types import Json

__all__ = ["failed_result"]


def failed_result(text: str) -> Json:
    """A result that says in one text why the call failed."""
    return {"content": [{"type": "text", "text": text}], "isError": True}
