"""The texts of a tool that are indexed, field by field."""

from toolgate.search.base import SearchableTool

FIELD_NAMES = ("name", "title", "server", "description", "parameters", "parameter texts")


def field_texts(tool: SearchableTool) -> tuple[str, ...]:
    """Return the text of each of `FIELD_NAMES`."""
    title, parameters = tool.title, tool.parameters
    return (
        tool.name,
        "" if title == tool.name else title,
        tool.server,
        tool.description,
        " ".join([name for name, _ in parameters]),
        " ".join([text for _, text in parameters if text]),
    )
