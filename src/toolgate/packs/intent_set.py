"""What packs teach a recognizer."""

from collections.abc import Iterable
from hashlib import blake2b

from toolgate.intents import Limits, Taught
from toolgate.packs.base import Pack

__all__ = ["taught_by"]


def taught_by(packs: Iterable[Pack]) -> Taught:
    """All that these packs say of intents."""
    packs = tuple(packs)
    version = blake2b(digest_size=16)
    for pack in packs:
        names = ",".join(intent.name for intent in pack.intents)
        version.update(f"{pack.name}\0{pack.fingerprint}\0{names}\0".encode(errors="replace"))
    return Taught(
        version=version.hexdigest(),
        intents=tuple(intent for pack in packs for intent in pack.intents),
        unsupported=tuple(text for pack in packs for text in pack.unsupported),
        pack_limits={
            intent.name: pack.limits
            for pack in packs
            if pack.limits != Limits()
            for intent in pack.intents
        },
        own_limits={
            intent.name: pack.own_limits[intent.name]
            for pack in packs
            for intent in pack.intents
            if intent.name in pack.own_limits
        },
    )
