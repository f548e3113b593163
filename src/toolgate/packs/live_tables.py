"""Adds the tables of connected databases to the lists of a pack."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from toolgate.databases.connections import said_as
from toolgate.intents import with_list_entries
from toolgate.packs.base import Pack

_MOST: Final = 2_000
"""Names that are searched in each message; with 2,000 this takes 1 ms."""


def with_live_names(pack: Pack, names: Mapping[str, Sequence[str]]) -> Pack:
    """Return the pack with live names added to the lists that use them.

    Args:
        pack: The pack as read from its files.
        names: Names by their kind in `Pack.live`: `tables`.
    """
    intents = pack.intents
    for key, of in pack.live.items():
        more = {name: said_as(name) for name in names.get(of, ())[:_MOST]}
        intents = tuple(
            with_list_entries(intent, key, more) if more else intent for intent in intents
        )
    return replace(pack, intents=intents)
