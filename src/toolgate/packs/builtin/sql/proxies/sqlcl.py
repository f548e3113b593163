"""Oracle SQLcl, if `[packs.options.sql] sqlcl = true`."""

from toolgate.packs.builtin.sql._sqlcl import SqlclServices, sqlcl_servers
from toolgate.types import Json


def servers(services: SqlclServices) -> dict[str, Json]:
    """Return the servers that the pack adds."""
    return sqlcl_servers(services)
