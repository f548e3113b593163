"""What all servers offer: an immutable, versioned snapshot, refreshed in the background."""

from toolgate.base.names import fold, server_prefix
from toolgate.catalog.catalog import Catalog, ConnectChoice, ListingInspector
from toolgate.catalog.changes import CatalogChange
from toolgate.catalog.exposed_names import exposed_names
from toolgate.catalog.menu import Menu, MenuRules
from toolgate.catalog.snapshot import CatalogEntry, ServerEntries, Snapshot, build_entries

__all__ = [
    "Catalog",
    "CatalogChange",
    "CatalogEntry",
    "ConnectChoice",
    "ListingInspector",
    "Menu",
    "MenuRules",
    "ServerEntries",
    "Snapshot",
    "build_entries",
    "exposed_names",
    "fold",
    "server_prefix",
]
