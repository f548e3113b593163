"""Packs: folders that teach a domain, its intents, rules and tools."""

from toolgate.packs._load import load_pack
from toolgate.packs.base import Pack

__all__ = ["Pack", "load_pack"]
