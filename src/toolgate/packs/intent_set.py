"""Collects the intents of all active packs for intent detection."""

from collections.abc import Iterable
from hashlib import blake2b

from toolgate.intents import DetectionLimits, IntentSet
from toolgate.packs.base import Pack


def intent_set_of(packs: Iterable[Pack], not_ready: Iterable[Pack] = ()) -> IntentSet:
    """Return the intents, prompts and limits of packs.

    Args:
        packs: The active packs.
        not_ready: Packs whose requirements are not met; their prompts are not used for training.
    """
    packs, not_ready = tuple(packs), tuple(not_ready)
    version = blake2b(digest_size=16)
    for pack in (*packs, *not_ready):
        names = ",".join(intent.name for intent in pack.intents)
        version.update(f"{pack.name}\0{pack.fingerprint}\0{names}\0".encode(errors="replace"))
    version.update(f"{len(packs)}".encode())
    return IntentSet(
        version=version.hexdigest(),
        intents=tuple(intent for pack in packs for intent in pack.intents),
        unsupported={pack.name: pack.unsupported for pack in packs if pack.unsupported},
        keyword_only=tuple(intent for pack in not_ready for intent in pack.intents),
        pack_limits={
            intent.name: pack.limits
            for pack in packs
            if pack.limits != DetectionLimits()
            for intent in pack.intents
        },
        own_limits={
            intent.name: pack.own_limits[intent.name]
            for pack in packs
            for intent in pack.intents
            if intent.name in pack.own_limits
        },
    )
