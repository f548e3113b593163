"""Oracle SQLcl, where `[packs.options.sql] sqlcl = true`."""

from toolgate.builtin.sql._sqlcl import sqlcl_servers
from toolgate.types import Json
from toolgate.upstream import ToolServices

__all__ = ["servers"]


def servers(services: ToolServices) -> dict[str, Json]:
    """The servers that the pack brings along."""
    return sqlcl_servers(services)
