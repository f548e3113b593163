"""What all servers offer: an immutable, versioned snapshot, refreshed in the background."""

from toolgate.base.names import fold, server_prefix
from toolgate.catalog.catalog import Catalog, ConnectChoice, ListingInspector
from toolgate.catalog.changes import CatalogChange
from toolgate.catalog.contents import Content, ContentKind, contents_of
from toolgate.catalog.exposed_names import exposed_names
from toolgate.catalog.snapshot import (
    CatalogEntry,
    ServerEntries,
    Snapshot,
    build_entries,
    cache_problem,
)
from toolgate.catalog.tools_list import Menu, MenuRules, MenuShape

__all__ = [
    "Catalog",
    "CatalogChange",
    "CatalogEntry",
    "ConnectChoice",
    "Content",
    "ContentKind",
    "ListingInspector",
    "Menu",
    "MenuRules",
    "MenuShape",
    "ServerEntries",
    "Snapshot",
    "build_entries",
    "cache_problem",
    "contents_of",
    "exposed_names",
    "fold",
    "server_prefix",
]
