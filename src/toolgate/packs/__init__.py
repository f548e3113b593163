"""Packs: folders with the intents, rules and tools of one domain."""

from importlib import import_module
from typing import TYPE_CHECKING

from toolgate.packs.base import Pack
from toolgate.packs.discovery import (
    WRITABLE_ORIGINS,
    builtin_pack_names,
    find_packs,
    is_on_by_default,
)
from toolgate.packs.intent_set import intent_set_of
from toolgate.packs.reader import load_pack
from toolgate.packs.registry import Packs, PackSet, PackState, no_services
from toolgate.packs.variables import LiveVariables

if TYPE_CHECKING:
    from toolgate.packs.live_tables import with_live_names

__all__ = [
    "WRITABLE_ORIGINS",
    "LiveVariables",
    "Pack",
    "PackSet",
    "PackState",
    "Packs",
    "builtin_pack_names",
    "find_packs",
    "intent_set_of",
    "is_on_by_default",
    "load_pack",
    "no_services",
    "with_live_names",
]


def __getattr__(name: str) -> object:
    """Import names that need the database library on first use."""
    if name != "with_live_names":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = import_module(f"{__name__}.live_tables").with_live_names
    globals()[name] = value
    return value
