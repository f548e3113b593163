"""What all servers offer: a frozen, versioned snapshot, refreshed in the background."""

from toolgate.catalog._catalog import Catalog, CatalogChange, Inspection
from toolgate.catalog._menu import Menu, MenuRules
from toolgate.catalog._names import exposed_names
from toolgate.catalog._snapshot import Entry, ServerEntries, Snapshot, build_entries
from toolgate.names import fold, server_prefix

__all__ = [
    "Catalog",
    "CatalogChange",
    "Entry",
    "Inspection",
    "Menu",
    "MenuRules",
    "ServerEntries",
    "Snapshot",
    "build_entries",
    "exposed_names",
    "fold",
    "server_prefix",
]
