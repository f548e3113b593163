"""Oracle SQLcl, where `[packs.options.sql] sqlcl = true`."""

from toolgate.packs.builtin.sql._sqlcl import SqlclServices, sqlcl_servers
from toolgate.types import Json

__all__ = ["servers"]


def servers(services: SqlclServices) -> dict[str, Json]:
    """The servers that the pack brings along."""
    return sqlcl_servers(services)
