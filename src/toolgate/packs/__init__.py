"""Packs: folders that teach a domain, its intents, rules and tools."""

from toolgate.packs._find import find_packs, is_on_by_default, is_pack, shipped_names
from toolgate.packs._live import with_live
from toolgate.packs._load import load_pack
from toolgate.packs._packs import Packs, PackSet, PackState
from toolgate.packs._taught import taught_by
from toolgate.packs._variables import LiveVariables
from toolgate.packs.base import Pack

__all__ = [
    "LiveVariables",
    "Pack",
    "PackSet",
    "PackState",
    "Packs",
    "find_packs",
    "is_on_by_default",
    "is_pack",
    "load_pack",
    "shipped_names",
    "taught_by",
    "with_live",
]
