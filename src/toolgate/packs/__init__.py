"""Packs: folders that teach a domain, its intents, rules and tools."""

from importlib import import_module
from typing import TYPE_CHECKING

from toolgate.packs.base import Pack
from toolgate.packs.discovery import find_packs, is_on_by_default, shipped_names
from toolgate.packs.intent_set import taught_by
from toolgate.packs.reader import load_pack
from toolgate.packs.registry import Packs, PackSet, PackState, no_services
from toolgate.packs.variables import LiveVariables

if TYPE_CHECKING:
    from toolgate.packs.live_tables import with_live

__all__ = [
    "LiveVariables",
    "Pack",
    "PackSet",
    "PackState",
    "Packs",
    "find_packs",
    "is_on_by_default",
    "load_pack",
    "no_services",
    "shipped_names",
    "taught_by",
    "with_live",
]


def __getattr__(name: str) -> object:
    """Load what needs the library for databases only when it is used."""
    if name != "with_live":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = import_module(f"{__name__}.live_tables").with_live
    globals()[name] = value
    return value
