"""The semantic stage of `toolgate detect`: loaded only for packs that have example prompts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from toolgate.cli._context import shared
from toolgate.embed import Embedder
from toolgate.intent import Intent, SemanticStage, read_prompts
from toolgate.plugins import make
from toolgate.settings import load
from toolgate.types import PluginSpec

__all__ = ["learn", "with_prompts"]


def with_prompts(intents: Iterable[Intent], folder: Path) -> list[Intent]:
    """Intents of a pack with its example prompts, and those that only have prompts."""
    prompts = {name.casefold(): (name, each) for name, each in read_prompts(folder).prompts.items()}
    made: list[Intent] = []
    for intent in intents:
        _, own = prompts.pop(intent.name.casefold(), ("", {}))
        made.append(replace(intent, prompts=own))
    return made + [Intent(name=name, prompts=own) for name, own in prompts.values()]


async def learn(intents: Sequence[Intent], folders: Sequence[Path]) -> SemanticStage:
    """A stage that has learned the prompts of intents.

    Raises:
        EmbedderError: The configured embedder failed.
    """
    search = load(shared().config, shared().imports).search
    spec = PluginSpec(
        name=search.embedder, setting="search.embedder", options=search.embedder_options
    )
    stage = SemanticStage(embedder=make("embed", Embedder, spec, {}))
    read = [read_prompts(folder) for folder in folders]
    await stage.update(
        intents,
        unsupported=[text for each in read for text in each.unsupported],
        limits=read[0].limits,
        own_limits={
            name: limits
            for each in read
            for name, limits in {
                **dict.fromkeys(each.prompts, each.limits),
                **each.own_limits,
            }.items()
        },
    )
    return stage
