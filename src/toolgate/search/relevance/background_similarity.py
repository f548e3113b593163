"""A yardstick for similarity: some hundred short texts about what tools do in general.

A request that no tool serves is often nearer to one of these texts (`background_texts.json`)
than to any existing tool. The lead of the tools over the texts says more than their similarity:
it depends little on the wording and length of a request and on the size of the catalog. The
texts come from no catalog and no data set: they are common everyday requests, and common tasks
with programs, files and services.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders import Embedder, embedded
from toolgate.types import json_object

_FILE = Path(__file__).with_name("background_texts.json")
_MODELS = "bundled-"
"""Models to which the cutoff with a yardstick is fitted; for others, embedding the texts is
useless."""

_vectors_by_model: dict[str, NDArray[np.float32]] = {}


async def background_vectors(embedder: Embedder) -> NDArray[np.float32] | None:
    """Return the vectors of the texts, which a process computes once.

    None if the yardstick is not fitted to this embedder, or if the embedder fails, which is
    reported when it embeds the tools.
    """
    try:
        model = embedder.identity
        if model.startswith(_MODELS) and model not in _vectors_by_model:
            _vectors_by_model[model] = await embedded(embedder, _texts(), "document")
    except Exception:  # noqa: BLE001 - an embedder of anybody; search goes on without it
        return None
    return _vectors_by_model.get(model)


@cache
def _texts() -> tuple[str, ...]:
    texts_by_topic = json_object(json.loads(_FILE.read_text(encoding="utf-8")))
    return tuple(str(text) for texts in texts_by_topic.values() for text in texts)
