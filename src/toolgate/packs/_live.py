"""Lists of a pack that grow by what is connected."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolgate.intent import with_names
from toolgate.packs.base import Pack

__all__ = ["with_live"]


def with_live(pack: Pack, names: Mapping[str, Sequence[str]]) -> Pack:
    """The pack with the names that are live now in the lists that want them.

    Args:
        pack: As its files say.
        names: Names by what `Pack.live` calls them: `tables`.
    """
    wanted = {key: tuple(names[of]) for key, of in pack.live.items() if names.get(of)}
    if not wanted:
        return pack
    intents = pack.intents
    for key, more in wanted.items():
        intents = tuple(with_names(intent, key, more) for intent in intents)
    return replace(pack, intents=intents)
