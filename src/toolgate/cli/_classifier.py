"""The semantic stage of `toolgate detect`: loaded only for packs that have example prompts."""

from collections.abc import Sequence

from toolgate.cli._context import shared
from toolgate.embed import Embedder
from toolgate.intent import Intent, IntentFiles, SemanticStage
from toolgate.plugins import make
from toolgate.settings import load
from toolgate.types import PluginSpec

__all__ = ["learn"]


async def learn(intents: Sequence[Intent], read: Sequence[IntentFiles]) -> SemanticStage:
    """A stage that has learned the prompts of intents.

    Raises:
        EmbedderError: The configured embedder failed.
    """
    search = load(shared().config, shared().imports).search
    spec = PluginSpec(
        name=search.embedder, setting="search.embedder", options=search.embedder_options
    )
    stage = SemanticStage(embedder=make("embed", Embedder, spec, {}))
    await stage.update(
        intents,
        unsupported=[text for each in read for text in each.unsupported],
        limits=read[0].limits,
        own_limits={
            name: limits
            for each in read
            for name, limits in {
                **dict.fromkeys((intent.name for intent in each.intents), each.limits),
                **each.own_limits,
            }.items()
        },
    )
    return stage
