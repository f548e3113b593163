"""The semantic stage of `toolgate detect`; imported only for packs with example prompts."""

from collections.abc import Sequence

from toolgate.base.plugins import make
from toolgate.cli.terminal._context import shared_options
from toolgate.intents import PackStages
from toolgate.models.embedders import Embedder
from toolgate.packs import Pack, intent_set_of
from toolgate.settings import learned_dir, load
from toolgate.types import PluginSpec


def configured_embedder() -> Embedder:
    """Return the embedder of the settings."""
    search = load(shared_options().config, shared_options().imports).search
    spec = PluginSpec(
        name=search.embedder,
        setting="search.embedder",
        options=search.embedder_options,
        options_at="search.embedder_options",
    )
    return make("embedder", Embedder, spec, {})


async def fit_semantic_stage(packs: Sequence[Pack]) -> PackStages:
    """Train stages with the prompts of packs; training results are cached on disk.

    Raises:
        EmbedderError: The configured embedder failed.
    """
    stages = PackStages(embedder=configured_embedder(), cache=learned_dir())
    await stages.update(intent_set_of(packs))
    return stages
