"""What Toolgate remembers: servers, listings, audit, large results. Implementations by file name."""

from toolgate.store.base import (
    AuditFilter,
    Pruned,
    Retention,
    Store,
    StoredResult,
    StoredServer,
    StoredSnapshot,
)

__all__ = [
    "AuditFilter",
    "Pruned",
    "Retention",
    "Store",
    "StoredResult",
    "StoredServer",
    "StoredSnapshot",
]
