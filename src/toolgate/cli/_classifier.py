"""The semantic stage of `toolgate detect`: loaded only for packs that have example prompts."""

from collections.abc import Sequence

from toolgate.cli._context import shared
from toolgate.embed import Embedder
from toolgate.intent import SemanticStage
from toolgate.packs import Pack, taught_by
from toolgate.plugins import make
from toolgate.settings import learned_dir, load
from toolgate.types import PluginSpec

__all__ = ["learn"]


async def learn(packs: Sequence[Pack]) -> SemanticStage:
    """A stage that has learned the prompts of packs, now or when they were asked before.

    Raises:
        EmbedderError: The configured embedder failed.
    """
    search = load(shared().config, shared().imports).search
    spec = PluginSpec(
        name=search.embedder,
        setting="search.embedder",
        options=search.embedder_options,
        options_at="search.embedder_options",
    )
    stage = SemanticStage(embedder=make("embed", Embedder, spec, {}), cache=learned_dir())
    taught = taught_by(packs)
    await stage.update(
        taught.intents,
        unsupported=taught.unsupported,
        pack_limits=taught.pack_limits,
        own_limits=taught.own_limits,
    )
    return stage
